import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Fetch's bounds: sizes, waits, positions outside the log, deleted records, isolation, many partitions in one session. */
public final class Fetching implements Scenario {
    @Override
    public void run(Session session) throws Exception {
        String topic = session.topic("pages", 3, "segment.bytes=1048576");
        KafkaProducer<String, String> producer = session.producer("batch.size=10000");
        for (int i = 0; i < 3000; i++) {
            producer.send(new ProducerRecord<>(topic, i % 3, "k" + i, "x".repeat(1000)));
        }
        producer.flush();
        for (String bounds : new String[] {"fetch.max.bytes=1", "max.partition.fetch.bytes=1", "fetch.max.bytes=50000,max.partition.fetch.bytes=20000",
            "fetch.min.bytes=100000,fetch.max.wait.ms=100", "max.poll.records=7", "isolation.level=read_committed", "check.crcs=true"}) {
            var read = session.read(session.consumer(bounds.split(",")), topic, 3, 3000);
            boolean right = read.size() == 3000;
            for (int i = 0; right && i < 3000; i++) {
                right = read.get(i).offset() == i % 1000 && read.get(i).key().equals("k" + (i % 1000 * 3 + i / 1000));
            }
            session.say("%s: right %s", bounds, right);
        }

        TopicPartition partition = new TopicPartition(topic, 0);
        KafkaConsumer<String, String> strict = session.consumer("auto.offset.reset=none");
        strict.assign(List.of(partition));
        strict.seek(partition, 5000);
        session.attempt("past the end", () -> session.poll(strict, 1));
        strict.seek(partition, 1000);
        session.say("at the end: %d", strict.poll(Duration.ofMillis(300)).count());
        session.say("deleted up to %d", session.admin().deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(400))).lowWatermarks().get(partition).get().lowWatermark());
        strict.seek(partition, 399);
        session.attempt("before the start", () -> session.poll(strict, 1));
        strict.seek(partition, 400);
        session.say("at the start: %s", session.poll(strict, 1).get(0).key());
        KafkaConsumer<String, String> earliest = session.consumer("auto.offset.reset=earliest");
        earliest.assign(List.of(partition));
        earliest.seek(partition, 0);
        session.say("reset to the earliest: %d", session.poll(earliest, 1).get(0).offset());
        KafkaConsumer<String, String> latest = session.consumer("auto.offset.reset=latest");
        latest.assign(List.of(partition));
        latest.seek(partition, 99999);
        latest.poll(Duration.ofMillis(300));
        session.until("position", () -> {
            latest.poll(Duration.ofMillis(20));
            return latest.position(partition) == 1000;
        });
        session.say("reset to the latest: %d, lag %s", latest.position(partition), latest.currentLag(partition));
        session.say("ends: %s to %s", session.consumer().beginningOffsets(List.of(partition)).get(partition), session.consumer().endOffsets(List.of(partition)).get(partition));

        // A parked fetch wakes when a record comes.
        long started = System.nanoTime();
        KafkaConsumer<String, String> waiting = session.consumer("fetch.max.wait.ms=4000", "fetch.min.bytes=1");
        waiting.assign(List.of(partition));
        waiting.seekToEnd(List.of(partition));
        waiting.poll(Duration.ofMillis(500));
        producer.send(new ProducerRecord<>(topic, 0, "late", "x")).get();
        ConsumerRecords<String, String> woken = waiting.poll(Duration.ofSeconds(5));
        session.say("woken by %s long before its wait ends: %s", woken.iterator().next().key(), System.nanoTime() - started < 3_000_000_000L);
        waiting.pause(List.of(partition));
        producer.send(new ProducerRecord<>(topic, 0, "paused", "x")).get();
        session.say("paused: %d", waiting.poll(Duration.ofMillis(300)).count());
        waiting.resume(List.of(partition));
        session.say("resumed: %s", session.poll(waiting, 1).get(0).key());
        session.say("subscribed to a pattern: %s", session.poll(byPattern(session), 2602).size());
    }

    private KafkaConsumer<String, String> byPattern(Session session) {
        KafkaConsumer<String, String> consumer = session.consumer("group.id=" + session.name("pattern"), "metadata.max.age.ms=500");
        consumer.subscribe(java.util.regex.Pattern.compile(".*" + session.name("pages")));
        return consumer;
    }
}
