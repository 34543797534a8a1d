import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** A compacted topic keeps the last value of each key, drops tombstones in time, keeps offsets, and takes no records without a key. */
public final class Compaction implements Scenario {
    private static final int KEYS = 20;

    @Override
    public void run(Session session) throws Exception {
        for (String codec : new String[] {"none", "lz4"}) {
            String topic = session.topic("kept-" + codec, 1, "cleanup.policy=compact", "segment.bytes=1048576", "min.cleanable.dirty.ratio=0.01",
                "delete.retention.ms=100", "max.compaction.lag.ms=1000");
            KafkaProducer<String, String> producer = session.producer("compression.type=" + codec, "linger.ms=5");
            Map<String, String> last = new HashMap<>();
            int sent = 0;
            for (int round = 0; round < 250; round++) {
                for (int key = 0; key < KEYS; key++) {
                    String value = round + " " + "v".repeat(codec.equals("none") ? 1000 : 10);
                    producer.send(new ProducerRecord<>(topic, "k" + key, value));
                    last.put("k" + key, value);
                    sent++;
                }
            }
            for (int key = 0; key < 5; key++) {
                producer.send(new ProducerRecord<>(topic, "k" + key, null));
                last.remove("k" + key);
                sent++;
            }
            producer.flush();
            session.attempt("a record without a key", () -> producer.send(new ProducerRecord<>(topic, null, "x")).get());
            TopicPartition partition = new TopicPartition(topic, 0);
            int total = sent;
            session.until("compaction", () -> {
                // The active segment is not compacted, so something has to close it.
                producer.send(new ProducerRecord<>(topic, "closing", "c".repeat(200_000))).get();
                return read(session, partition).size() < total / 10;
            });
            List<ConsumerRecord<String, String>> records = read(session, partition);
            Map<String, String> values = new TreeMap<>();
            records.forEach(record -> values.put(record.key(), record.value()));
            values.remove("closing");
            values.values().removeIf(value -> value == null);
            session.say("%s: right values %s, offsets rise %s, end stays %s", codec, values.equals(last), rising(records),
                session.consumer().endOffsets(List.of(partition)).get(partition) > total);
        }
    }

    private static List<ConsumerRecord<String, String>> read(Session session, TopicPartition partition) {
        try (KafkaConsumer<String, String> consumer = session.consumer()) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            List<ConsumerRecord<String, String>> records = new java.util.ArrayList<>();
            while (consumer.position(partition) < end) {
                consumer.poll(java.time.Duration.ofMillis(200)).forEach(records::add);
            }
            return records;
        }
    }

    private static boolean rising(List<ConsumerRecord<String, String>> records) {
        long before = -1;
        for (ConsumerRecord<String, String> record : records) {
            if (record.offset() <= before) {
                return false;
            }
            before = record.offset();
        }
        return true;
    }
}
