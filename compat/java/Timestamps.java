import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** CreateTime and LogAppendTime, offsets for times, the largest timestamp, and timestamps that are refused. */
public final class Timestamps implements Scenario {
    private static final long BASE = 1_700_000_000_000L;

    @Override
    public void run(Session session) throws Exception {
        createTime(session);
        appendTime(session);
        refused(session);
    }

    private void createTime(Session session) throws Exception {
        String topic = session.topic("created", 1, "segment.bytes=1048576", "retention.ms=-1");
        TopicPartition partition = new TopicPartition(topic, 0);
        long[] times = {10, 20, 30, 25, 15, 40, 50, 50, 45, 5};
        KafkaProducer<String, String> producer = session.producer("batch.size=1");
        for (long time : times) {
            producer.send(new ProducerRecord<>(topic, 0, BASE + time, "k", "at " + time)).get();
        }
        // The same again in one batch, compressed, so that the search has to look inside.
        KafkaProducer<String, String> batching = session.producer("linger.ms=100", "compression.type=gzip");
        for (long time : times) {
            batching.send(new ProducerRecord<>(topic, 0, BASE + 100 + time, "k", "at " + (100 + time)));
        }
        batching.flush();
        session.say("%s", session.read(session.consumer(), topic, 1, 20).stream().map(r -> r.timestampType() + " " + (r.timestamp() - BASE)).toList());
        KafkaConsumer<String, String> consumer = session.consumer();
        for (long time : new long[] {0, 5, 6, 20, 26, 45, 46, 50, 51, 105, 106, 131, 150, 151}) {
            var found = consumer.offsetsForTimes(Map.of(partition, BASE + time)).get(partition);
            session.say("for time %d: %s", time, found == null ? "none" : found.offset() + " at " + (found.timestamp() - BASE) + " epoch " + found.leaderEpoch());
        }
        Map<String, OffsetSpec> specs = new LinkedHashMap<>();
        specs.put("earliest", OffsetSpec.earliest());
        specs.put("latest", OffsetSpec.latest());
        specs.put("max timestamp", OffsetSpec.maxTimestamp());
        specs.put("earliest local", OffsetSpec.earliestLocal());
        specs.put("latest tiered", OffsetSpec.latestTiered());
        specs.put("at 40", OffsetSpec.forTimestamp(BASE + 40));
        specs.put("at 1000", OffsetSpec.forTimestamp(BASE + 1000));
        for (var spec : specs.entrySet()) {
            session.attempt(spec.getKey(), () -> {
                var info = session.admin().listOffsets(Map.of(partition, spec.getValue())).partitionResult(partition).get();
                session.say("%s: offset %d timestamp %d epoch %s", spec.getKey(), info.offset(), info.timestamp() < 0 ? info.timestamp() : info.timestamp() - BASE, info.leaderEpoch());
                return null;
            });
        }
    }

    private void appendTime(Session session) throws Exception {
        String topic = session.topic("appended", 1, "message.timestamp.type=LogAppendTime");
        KafkaProducer<String, String> producer = session.producer("linger.ms=20", "compression.type=lz4");
        long before = System.currentTimeMillis();
        var sent = List.of(producer.send(new ProducerRecord<>(topic, 0, 5L, null, "a")), producer.send(new ProducerRecord<>(topic, 0, 6L, null, "b")));
        producer.flush();
        long after = System.currentTimeMillis();
        for (var one : sent) {
            session.say("acknowledged with append time: %s", one.get().timestamp() >= before - 1 && one.get().timestamp() <= after + 1);
        }
        for (var record : session.read(session.consumer(), topic, 1, 2)) {
            session.say("%s %s: %s", record.timestampType(), record.value(), record.timestamp() == sent.get((int) record.offset()).get().timestamp());
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        session.say("for time before: %d", session.consumer().offsetsForTimes(Map.of(partition, before - 1000)).get(partition).offset());
        session.say("max timestamp at %d", session.admin().listOffsets(Map.of(partition, OffsetSpec.maxTimestamp())).partitionResult(partition).get().offset());
    }

    private void refused(Session session) throws Exception {
        String topic = session.topic("bounded", 1, "message.timestamp.before.max.ms=10000", "message.timestamp.after.max.ms=10000");
        KafkaProducer<String, String> producer = session.producer("batch.size=1");
        long now = System.currentTimeMillis();
        for (long distance : new long[] {0, -100_000, 100_000}) {
            session.attempt("off by " + distance, () -> producer.send(new ProducerRecord<>(topic, 0, now + distance, null, "x")).get());
        }
        session.attempt("future at defaults", () -> producer.send(new ProducerRecord<>(session.topic("plain", 1), 0, now + 7_200_000, null, "x")).get());
    }
}
