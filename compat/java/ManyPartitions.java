import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/** One topic of a thousand partitions: created, written, read, asked for its offsets and deleted. */
public final class ManyPartitions implements Scenario {
    private static final int PARTITIONS = 1000;

    @Override
    public void run(Session session) throws Exception {
        String topic = session.topic("wide", PARTITIONS);
        Map<TopicPartition, OffsetSpec> ends = new HashMap<>();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            ends.put(new TopicPartition(topic, partition), OffsetSpec.latest());
        }
        var producer = session.producer("linger.ms=20");
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int round = 0; round < 3; round++) {
            for (int partition = 0; partition < PARTITIONS; partition++) {
                sent.add(producer.send(new ProducerRecord<>(topic, partition, null, "p" + partition + "r" + round)));
            }
        }
        producer.flush();
        long inPlace = 0;
        for (int i = 0; i < sent.size(); i++) {
            RecordMetadata metadata = sent.get(i).get();
            inPlace += metadata.partition() == i % PARTITIONS && metadata.offset() == i / PARTITIONS ? 1 : 0;
        }
        session.say("acknowledged in their places: %d", inPlace);
        var read = session.read(session.consumer(), topic, PARTITIONS, 3 * PARTITIONS);
        session.say("read: %d", read.size());
        session.say("right: %d", read.stream().filter(r -> r.value().equals("p" + r.partition() + "r" + r.offset())).count());
        session.say("ends at 3: %d", session.admin().listOffsets(ends).all().get().values().stream().filter(o -> o.offset() == 3).count());
        session.admin().deleteTopics(List.of(topic)).all().get();
        session.until("deletion", () -> !session.admin().listTopics().names().get().contains(topic));
        session.say("deleted");
    }
}
