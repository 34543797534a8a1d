import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/** The default producer (idempotent, acks=all, five requests in flight), acks=1 and acks=0: order, offsets and what the broker knows of producers. */
public final class Idempotence implements Scenario {
    @Override
    public void run(Session session) throws Exception {
        for (String settings : new String[] {"acks=all", "enable.idempotence=false,acks=1", "enable.idempotence=false,acks=0"}) {
            String topic = session.topic(settings.replaceAll("[=,]", "."), 2);
            var producer = session.producer((settings + ",batch.size=200").split(","));
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < 2000; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, i % 2, "k" + i, "value " + i)));
            }
            producer.flush();
            int inPlace = 0;
            int withoutOffset = 0;
            for (int i = 0; i < sent.size(); i++) {
                RecordMetadata metadata = sent.get(i).get();
                inPlace += metadata.offset() == i / 2 ? 1 : 0;
                withoutOffset += metadata.hasOffset() ? 0 : 1;
            }
            session.say("%s: in place %d, without offset %d", settings, inPlace, withoutOffset);
            var read = session.read(session.consumer(), topic, 2, 2000);
            int right = 0;
            for (var record : read) {
                right += record.value().equals("value " + (2 * record.offset() + record.partition())) ? 1 : 0;
            }
            session.say("%s: read %d, right %d", settings, read.size(), right);
            TopicPartition first = new TopicPartition(topic, 0);
            var producers = session.admin().describeProducers(List.of(first)).partitionResult(first).get().activeProducers();
            for (var state : producers) {
                session.say("active producer: epoch %d, last sequence %d, in a transaction %s", state.producerEpoch(), state.lastSequence(),
                    state.currentTransactionStartOffset().isPresent());
            }
            session.say("%s: end %d", settings, session.admin().listOffsets(java.util.Map.of(first, OffsetSpec.latest())).partitionResult(first).get().offset());
        }
    }
}
