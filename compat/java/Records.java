import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/** Records of every shape: nulls, empties, headers, sizes up to the exact limit. */
public final class Records implements Scenario {
    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String show(byte[] value) {
        return value == null ? "null" : value.length > 20 ? value.length + " bytes" : "'" + new String(value, StandardCharsets.UTF_8) + "'";
    }

    @Override
    public void run(Session session) throws Exception {
        shapes(session);
        sizes(session);
        limit(session);
    }

    private void shapes(Session session) throws Exception {
        String topic = session.topic("shapes", 1, "retention.ms=-1");
        try (KafkaProducer<byte[], byte[]> producer = session.rawProducer()) {
            List<Header> headers = List.of(new RecordHeader("twice", bytes("a")), new RecordHeader("twice", bytes("b")),
                new RecordHeader("null", (byte[]) null), new RecordHeader("empty", new byte[0]), new RecordHeader("", bytes("no name")),
                new RecordHeader("ключ", bytes("значение")));
            producer.send(new ProducerRecord<>(topic, 0, 1_000_000_000_000L, null, null, headers));
            producer.send(new ProducerRecord<>(topic, 0, 0L, new byte[0], new byte[0]));
            producer.send(new ProducerRecord<>(topic, 0, 1_000_000_000_001L, bytes("key"), (byte[]) null));
            producer.send(new ProducerRecord<>(topic, 0, 1_000_000_000_002L, null, bytes("value")));
            producer.send(new ProducerRecord<>(topic, 0, 1_000_000_000_003L, new byte[] {0, -1, 10, 13}, bytes("日本語 \uD83D\uDE00")));
        }
        for (ConsumerRecord<byte[], byte[]> record : session.read(session.rawConsumer(), topic, 1, 5)) {
            StringBuilder headers = new StringBuilder();
            for (Header header : record.headers()) {
                headers.append(' ').append(header.key()).append('=').append(show(header.value()));
            }
            session.say("%d at %d: %s %s%s epoch %s sizes %d %d", record.offset(), record.timestamp(), Arrays.toString(record.key()),
                show(record.value()), headers, record.leaderEpoch().orElse(-1), record.serializedKeySize(), record.serializedValueSize());
        }
    }

    private void sizes(Session session) throws Exception {
        String topic = session.topic("sizes", 1);
        int[] sizes = {0, 1, 63, 64, 8191, 8192, 65535, 65536, 500_000, 1_000_000};
        try (KafkaProducer<byte[], byte[]> producer = session.rawProducer("batch.size=1")) {
            for (int size : sizes) {
                byte[] value = new byte[size];
                Arrays.fill(value, (byte) size);
                producer.send(new ProducerRecord<>(topic, value)).get();
            }
        }
        var consumer = session.rawConsumer("max.partition.fetch.bytes=1000", "fetch.max.bytes=1000");
        for (ConsumerRecord<byte[], byte[]> record : session.read(consumer, topic, 1, sizes.length)) {
            boolean right = record.value().length == sizes[(int) record.offset()];
            for (byte b : record.value()) {
                right &= b == (byte) record.value().length;
            }
            session.say("%d: %d bytes, right %s", record.offset(), record.value().length, right);
        }
    }

    /** The largest value that a topic takes, to the byte. */
    private void limit(Session session) throws Exception {
        for (String setting : new String[] {"max.message.bytes=10000", "max.message.bytes=1048588"}) {
            String topic = session.topic("limit-" + setting.split("=")[1], 1, setting);
            KafkaProducer<byte[], byte[]> producer = session.rawProducer("max.request.size=20000000", "batch.size=1", "enable.idempotence=false");
            int accepted = 0;
            int refused = 2_000_000;
            String why = "";
            while (refused - accepted > 1) {
                int middle = (accepted + refused) / 2;
                try {
                    producer.send(new ProducerRecord<>(topic, new byte[middle])).get();
                    accepted = middle;
                } catch (Exception e) {
                    refused = middle;
                    why = Session.kind(e);
                }
            }
            session.say("%s: takes a value of %d bytes, else %s", setting, accepted, why);
        }
    }
}
