import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Every codec from producer to consumer, and topics that convert to a codec of their own. */
public final class Compression implements Scenario {
    @Override
    public void run(Session session) throws Exception {
        for (String broker : new String[] {"producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"}) {
            String topic = session.topic("on-" + broker, 1, "compression.type=" + broker);
            for (String codec : new String[] {"none", "gzip", "snappy", "lz4", "zstd"}) {
                var producer = session.producer("compression.type=" + codec, "linger.ms=20", "batch.size=100000");
                for (int i = 0; i < 300; i++) {
                    producer.send(new ProducerRecord<>(topic, codec + i, "a value that repeats itself ".repeat(1 + i % 50)));
                }
                producer.close();
            }
            var read = session.read(session.consumer(), topic, 1, 1500);
            Set<String> wrong = new TreeSet<>();
            for (int i = 0; i < read.size(); i++) {
                String key = new String[] {"none", "gzip", "snappy", "lz4", "zstd"}[i / 300] + i % 300;
                if (read.get(i).offset() != i || !read.get(i).key().equals(key) || read.get(i).value().length() != 28 * (1 + i % 300 % 50)) {
                    wrong.add(key);
                }
            }
            session.say("%s: read %d, wrong %s", broker, read.size(), wrong);
            long bytes = session.admin().describeLogDirs(java.util.List.of(1)).allDescriptions().get().get(1).values().iterator().next()
                .replicaInfos().get(new TopicPartition(topic, 0)).size();
            session.say("%s: smaller than the text %s", broker, bytes < 300L * 5 * 28 * 25 / 4);
        }
    }
}
