import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.MessageFormatter;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/**
 * Reads what twinlog wrote with MM2's own client and console formatters, for a test to compare.
 *
 * Arguments: bootstrap servers of the target, source alias, group; then triples of bootstrap servers, topic, formatter.
 */
public class ReadAsMirrorClient {
    public static void main(String[] args) throws Exception {
        Map<String, Object> target = Map.of("bootstrap.servers", args[0]);
        new TreeMap<>(Map.of("upstream", new TreeSet<>(RemoteClusterUtils.upstreamClusters(target)),
                             "hops", RemoteClusterUtils.replicationHops(target, args[1])))
            .forEach((name, value) -> System.out.println(name + " " + value));
        RemoteClusterUtils.translateOffsets(target, args[1], args[2], Duration.ofSeconds(60))
            .forEach((at, to) -> System.out.println("offset " + at + " " + to.offset() + " " + to.metadata()));
        for (int i = 3; i < args.length; i += 3) {
            print(args[i], args[i + 1], args[i + 2]);
        }
    }

    private static void print(String bootstrap, String topic, String formatterName) throws Exception {
        MessageFormatter formatter = (MessageFormatter) Class
            .forName("org.apache.kafka.connect.mirror.formatters." + formatterName)
            .getDeclaredConstructor().newInstance();
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "isolation.level", "read_committed");
        try (var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    formatter.writeTo(record, System.out);
                }
            }
        }
    }
}
