import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** Settings of a topic that are changed while it is in use take effect at once. */
public final class LiveConfigs implements Scenario {
    @Override
    public void run(Session session) throws Exception {
        String topic = session.topic("live", 1, "segment.bytes=1048576");
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        TopicPartition partition = new TopicPartition(topic, 0);
        KafkaProducer<byte[], byte[]> producer = session.rawProducer("batch.size=1");
        for (int limit : new int[] {5000, 20000, 5000}) {
            alter(session, resource, new AlterConfigOp(new ConfigEntry("max.message.bytes", "" + limit), OpType.SET));
            session.until("the limit", () -> takes(producer, topic, limit - 100) && !takes(producer, topic, limit + 1));
            session.say("limit %d is in force", limit);
        }
        alter(session, resource, new AlterConfigOp(new ConfigEntry("max.message.bytes", null), OpType.DELETE));
        session.until("the default", () -> takes(producer, topic, 100_000));

        alter(session, resource, new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), OpType.APPEND));
        value(session, resource, "cleanup.policy", "delete,compact");
        alter(session, resource, new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), OpType.SUBTRACT));
        value(session, resource, "cleanup.policy", "delete");
        session.attempt("append to a number", () -> session.admin().incrementalAlterConfigs(
            Map.of(resource, List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "1"), OpType.APPEND)))).all().get());
        session.attempt("twice the same", () -> session.admin().incrementalAlterConfigs(Map.of(resource, List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", "1"), OpType.SET), new AlterConfigOp(new ConfigEntry("retention.ms", "2"), OpType.SET)))).all().get());
        session.attempt("only validated", () -> session.admin().incrementalAlterConfigs(Map.of(resource,
            List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "77"), OpType.SET))), new AlterConfigsOptions().validateOnly(true)).all().get());
        value(session, resource, "retention.ms", "604800000");

        for (int i = 0; i < 5; i++) {
            producer.send(new ProducerRecord<>(topic, new byte[900_000])).get();
        }
        long end = offset(session, partition, OffsetSpec.latest());
        alter(session, resource, new AlterConfigOp(new ConfigEntry("retention.bytes", "1900000"), OpType.SET));
        session.until("retention by size", () -> offset(session, partition, OffsetSpec.earliest()) >= end - 4);
        session.say("kept at least the last two: %s", offset(session, partition, OffsetSpec.earliest()) <= end - 2);
        alter(session, resource, new AlterConfigOp(new ConfigEntry("retention.ms", "1"), OpType.SET));
        session.until("retention by time", () -> offset(session, partition, OffsetSpec.earliest()) == end);
        session.say("by time all went, the end stays: %s", offset(session, partition, OffsetSpec.latest()) == end);
        alter(session, resource, new AlterConfigOp(new ConfigEntry("retention.ms", "-1"), OpType.SET));
        session.say("written on: %s", producer.send(new ProducerRecord<>(topic, new byte[10])).get().offset() == end);
    }

    private static boolean takes(KafkaProducer<byte[], byte[]> producer, String topic, int size) {
        try {
            producer.send(new ProducerRecord<>(topic, new byte[size])).get();
            return true;
        } catch (Exception e) {
            return false;
        }
    }

    private static void alter(Session session, ConfigResource resource, AlterConfigOp op) throws Exception {
        Map<ConfigResource, Collection<AlterConfigOp>> change = Map.of(resource, List.of(op));
        session.admin().incrementalAlterConfigs(change).all().get();
    }

    private static ConfigEntry entry(Session session, ConfigResource resource, String name) throws Exception {
        return session.admin().describeConfigs(List.of(resource)).all().get().get(resource).get(name);
    }

    private static void value(Session session, ConfigResource resource, String name, String expected) throws Exception {
        session.until(name, () -> entry(session, resource, name).value().equals(expected));
        ConfigEntry entry = entry(session, resource, name);
        session.say("%s = %s from %s, %s", name, entry.value(), entry.source(), entry.type());
    }

    private static long offset(Session session, TopicPartition partition, OffsetSpec spec) throws Exception {
        return session.admin().listOffsets(Map.of(partition, spec)).partitionResult(partition).get().offset();
    }
}
