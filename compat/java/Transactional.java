import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;

/** What scenarios with transactions share: transactional producers, and how their work looks from outside. */
final class Transactional {
    private static final Set<TransactionState> ENDED =
        Set.of(TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT);

    private final Session session;

    Transactional(Session session) {
        this.session = session;
    }

    /** A producer of this transactional id, which has not initialized it yet. */
    KafkaProducer<String, String> producer(String id, String... settings) {
        return session.producer(and("transactional.id=" + session.name(id), settings));
    }

    /** Sends the values to the first partition and waits until the broker has them. */
    void send(KafkaProducer<String, String> producer, String topic, String... values) throws Exception {
        for (String value : values) {
            producer.send(new ProducerRecord<>(topic, 0, null, value)).get();
        }
    }

    TransactionDescription described(String id) throws Exception {
        String name = session.name(id);
        return session.admin().describeTransactions(List.of(name)).description(name).get();
    }

    /** Waits until the transaction is over and its markers are written: an answered commit has only been decided. */
    void ended(String id) throws Exception {
        session.until("the end of the transaction of " + id, () -> ENDED.contains(described(id).state()));
    }

    long end(TopicPartition partition, IsolationLevel isolation) throws Exception {
        var options = new ListOffsetsOptions(isolation);
        return session.admin().listOffsets(Map.of(partition, OffsetSpec.latest()), options).partitionResult(partition).get().offset();
    }

    /** Says where the first partition ends for readers of committed records, and for those of all. */
    void ends(String when, String topic) throws Exception {
        TopicPartition first = new TopicPartition(topic, 0);
        session.say("%s: committed up to %d of %d", when, end(first, IsolationLevel.READ_COMMITTED), end(first, IsolationLevel.READ_UNCOMMITTED));
    }

    KafkaConsumer<String, String> committedReader(String... settings) {
        return session.consumer(and("isolation.level=read_committed", settings));
    }

    private static String[] and(String setting, String... settings) {
        String[] all = Arrays.copyOf(settings, settings.length + 1);
        all[settings.length] = setting;
        return all;
    }

    /** Waits until all that was written is decided, then returns the committed values, partition by partition. */
    List<String> committed(String topic, int partitions) throws Exception {
        Map<TopicPartition, Long> ends = new TreeMap<>(Comparator.comparingInt(TopicPartition::partition));
        for (int number = 0; number < partitions; number++) {
            TopicPartition partition = new TopicPartition(topic, number);
            session.until("the decision of all transactions in partition " + number,
                () -> end(partition, IsolationLevel.READ_COMMITTED) == end(partition, IsolationLevel.READ_UNCOMMITTED));
            ends.put(partition, end(partition, IsolationLevel.READ_COMMITTED));
        }
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        try (KafkaConsumer<String, String> reader = committedReader()) {
            reader.assign(ends.keySet());
            session.until("the end of " + topic, () -> {
                reader.poll(Duration.ofMillis(100)).forEach(records::add);
                return ends.entrySet().stream().allMatch(end -> reader.position(end.getKey()) >= end.getValue());
            });
        }
        records.sort(Comparator.comparingInt(ConsumerRecord<String, String>::partition).thenComparingLong(ConsumerRecord::offset));
        return records.stream().map(ConsumerRecord::value).toList();
    }
}
