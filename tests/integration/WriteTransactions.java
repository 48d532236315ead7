import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Writes transactions to some partitions of some topics, by several producers, until it is killed or its input ends.
 *
 *  Arguments: bootstrap servers, producers, partitions, topics.  Each value names producer and transaction.
 */
public class WriteTransactions {
    public static void main(String[] args) throws Exception {
        String servers = args[0];
        int producers = Integer.parseInt(args[1]), partitions = Integer.parseInt(args[2]);
        List<String> topics = List.of(args).subList(3, args.length);
        for (int number = 0; number < producers; number++) {
            int who = number;
            Thread thread = new Thread(() -> write(servers, who, partitions, topics));
            thread.setDaemon(true);
            thread.start();
        }
        System.in.read();
    }

    private static void write(String servers, int who, int partitions, List<String> topics) {
        Random dice = new Random(who);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", servers, "transactional.id", "java-" + who, "linger.ms", "1"),
                new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (int number = 0; ; number++) {
                producer.beginTransaction();
                int count = 1 + dice.nextInt(6);
                for (int it = 0; it < count; it++) {
                    String topic = topics.get(dice.nextInt(topics.size()));
                    producer.send(new ProducerRecord<>(topic, dice.nextInt(partitions), null, "java" + who + "-" + number));
                    if (dice.nextInt(3) == 0) {
                        producer.flush();
                    }
                }
                if (dice.nextInt(5) == 0) {
                    producer.flush();
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
    }
}
