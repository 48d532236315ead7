import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler;

/**
 * HDFS, a ResourceManager and two NodeManagers in one process: keeps the archive in HDFS, writes yarn-site.xml and
 * core-site.xml into a folder, ends with its input.
 */
public class MiniYarn {
    public static void main(String[] arguments) throws Exception {
        YarnConfiguration configuration = new YarnConfiguration();
        configuration.set(YarnConfiguration.RM_SCHEDULER, FifoScheduler.class.getName());
        configuration.setInt("yarn.scheduler.minimum-allocation-mb", 128);
        configuration.setInt("yarn.nodemanager.resource.memory-mb", 4096);
        configuration.setInt("yarn.nodemanager.resource.cpu-vcores", 8);
        configuration.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
        configuration.setBoolean("yarn.nodemanager.pmem-check-enabled", false);
        configuration.setBoolean("yarn.nodemanager.disk-health-checker.enable", false);
        configuration.set("yarn.nodemanager.env-whitelist", "JAVA_HOME,JAVA_TOOL_OPTIONS");
        MiniDFSCluster files = new MiniDFSCluster.Builder(configuration, new File("files")).build();
        files.getFileSystem().copyFromLocalFile(
            new org.apache.hadoop.fs.Path(arguments[1]), new org.apache.hadoop.fs.Path("/executors.tar.gz"));
        MiniYARNCluster cluster = new MiniYARNCluster("yarn", 2, 1, 1);
        cluster.init(configuration);
        cluster.start();
        if (!cluster.waitForNodeManagersToConnect(60_000)) {
            throw new IllegalStateException("the NodeManagers did not come up");
        }
        cluster.getConfig().unset("net.topology.node.switch.mapping.impl"); // a class of HDFS's own tests
        Path part = Path.of(arguments[0], "part");
        for (String site : new String[] {"yarn-site.xml", "core-site.xml"}) {
            try (OutputStream out = new FileOutputStream(part.toFile())) {
                cluster.getConfig().writeXml(out);
            }
            Files.move(part, Path.of(arguments[0], site));
        }
        System.in.read();
        cluster.stop();
        files.shutdown();
        System.exit(0);
    }
}
