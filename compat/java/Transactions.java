import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Transactions of one producer: what readers see while one is open, after a commit, after an abort, and from every offset of many. */
public final class Transactions implements Scenario {
    @Override
    public void run(Session session) throws Exception {
        var transactional = new Transactional(session);
        oneByOne(session, transactional);
        fromEveryOffset(session, transactional);
        misuse(session, transactional);
    }

    private void oneByOne(Session session, Transactional transactional) throws Exception {
        String topic = session.topic("ledger", 1);
        KafkaProducer<String, String> producer = transactional.producer("teller");
        producer.initTransactions();
        session.say("initialized: %s, epoch %d", transactional.described("teller").state(), transactional.described("teller").producerEpoch());
        producer.beginTransaction();
        transactional.ends("begun", topic);
        transactional.send(producer, topic, "a", "b", "c");
        transactional.ends("sent", topic);
        var open = transactional.described("teller");
        session.say("described: %s, %d ms, partitions %s, started %s", open.state(), open.transactionTimeoutMs(),
            open.topicPartitions().stream().map(TopicPartition::partition).toList(), open.transactionStartTimeMs().isPresent());
        session.say("all records: %s", values(session.read(session.consumer(), topic, 1, 3)));
        KafkaConsumer<String, String> early = transactional.committedReader();
        early.assign(List.of(new TopicPartition(topic, 0)));
        session.say("committed records: %d", early.poll(Duration.ofMillis(300)).count());
        producer.commitTransaction();
        session.say("the reader that waited: %s", values(session.poll(early, 3)));
        transactional.ended("teller");
        transactional.ends("committed", topic);

        producer.beginTransaction();
        transactional.send(producer, topic, "d", "e");
        producer.abortTransaction();
        transactional.ended("teller");
        transactional.ends("aborted", topic);
        session.say("all records: %s", values(session.read(session.consumer(), topic, 1, 5)));
        session.say("committed records: %s", transactional.committed(topic, 1));

        producer.beginTransaction();
        producer.commitTransaction();
        producer.beginTransaction();
        producer.abortTransaction();
        transactional.ends("two without records", topic);

        // Records of others are read only up to what is undecided.
        producer.beginTransaction();
        transactional.send(producer, topic, "f");
        transactional.send(session.producer(), topic, "from another");
        transactional.ends("another's record beside an open transaction", topic);
        producer.commitTransaction();
        transactional.ended("teller");
        transactional.ends("committed", topic);
        session.say("committed records: %s", transactional.committed(topic, 1));
        session.say("at the end: %s, epoch %d", transactional.described("teller").state(), transactional.described("teller").producerEpoch());
    }

    private void fromEveryOffset(Session session, Transactional transactional) throws Exception {
        String topic = session.topic("pages", 1, "segment.bytes=1048576");
        KafkaProducer<String, String> producer = transactional.producer("writer");
        producer.initTransactions();
        List<String> expected = new ArrayList<>();
        for (int number = 0; number < 20; number++) {
            boolean commit = number % 3 != 1;
            producer.beginTransaction();
            for (int record = 0; record < 4; record++) {
                transactional.send(producer, topic, number + "." + record);
                expected.add(commit ? number + "." + record : "");
            }
            expected.add("");
            if (commit) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
            transactional.ended("writer");
        }
        session.say("committed: %s", transactional.committed(topic, 1));
        TopicPartition only = new TopicPartition(topic, 0);
        int right = 0;
        try (KafkaConsumer<String, String> reader = transactional.committedReader("max.poll.records=1000", "fetch.max.wait.ms=10")) {
            reader.assign(List.of(only));
            for (int from = 0; from < expected.size(); from++) {
                reader.seek(only, from);
                List<String> read = new ArrayList<>();
                session.until("the end from " + from, () -> {
                    reader.poll(Duration.ofMillis(50)).forEach(record -> read.add(record.value()));
                    return reader.position(only) == expected.size();
                });
                right += read.equals(expected.subList(from, expected.size()).stream().filter(value -> !value.isEmpty()).toList()) ? 1 : 0;
            }
        }
        session.say("right from %d of %d offsets", right, expected.size());
    }

    private void misuse(Session session, Transactional transactional) throws Exception {
        String topic = session.topic("misused", 1);
        session.attempt("begin before init", () -> {
            transactional.producer("eager").beginTransaction();
            return null;
        });
        KafkaProducer<String, String> producer = transactional.producer("clumsy");
        producer.initTransactions();
        session.attempt("send outside of a transaction", () -> producer.send(new ProducerRecord<>(topic, "x")).get());
        session.attempt("commit outside of a transaction", () -> {
            producer.commitTransaction();
            return null;
        });
        session.attempt("a timeout longer than the broker allows", () -> {
            transactional.producer("patient", "transaction.timeout.ms=900001").initTransactions();
            return null;
        });
        producer.beginTransaction();
        session.attempt("a record that is too large", () -> producer.send(new ProducerRecord<>(topic, "x".repeat(2_000_000))).get());
        session.attempt("commit after it", () -> {
            producer.commitTransaction();
            return null;
        });
        session.attempt("abort after it", () -> {
            producer.abortTransaction();
            return null;
        });
        producer.beginTransaction();
        transactional.send(producer, topic, "good");
        producer.commitTransaction();
        session.say("committed records: %s", transactional.committed(topic, 1));
    }

    private static List<String> values(List<ConsumerRecord<String, String>> records) {
        return records.stream().map(ConsumerRecord::value).toList();
    }
}
