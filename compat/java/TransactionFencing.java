import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Producers that lost their transactional id, or their transaction, to a successor, an administrator or the clock. */
public final class TransactionFencing implements Scenario {
    private Session session;
    private Transactional transactional;

    @Override
    public void run(Session session) throws Exception {
        this.session = session;
        transactional = new Transactional(session);
        fencedInTheMiddle();
        fencedBetween();
        restarted();
        byTheAdministrator();
        timedOut();
    }

    /** Both run with a transaction open in the older producer. */
    private void fencedInTheMiddle() throws Exception {
        String topic = session.topic("seat", 1);
        for (String next : new String[] {"send", "commit", "abort"}) {
            KafkaProducer<String, String> older = begun("sitter-" + next, topic, "older " + next);
            KafkaProducer<String, String> newer = transactional.producer("sitter-" + next);
            newer.initTransactions();
            session.say("the open transaction: %s, epoch %d", transactional.described("sitter-" + next).state(),
                transactional.described("sitter-" + next).producerEpoch());
            switch (next) {
                case "send" -> session.attempt("fenced, send", () -> older.send(new ProducerRecord<>(topic, "zombie")).get());
                case "commit" -> attempt("fenced, commit", older::commitTransaction);
                default -> attempt("fenced, abort", older::abortTransaction);
            }
            attempt("abort after " + next, older::abortTransaction);
            attempt("begin after " + next, older::beginTransaction);
            newer.beginTransaction();
            transactional.send(newer, topic, "newer " + next);
            newer.commitTransaction();
        }
        session.say("committed records: %s", transactional.committed(topic, 1));
    }

    /** The older producer had no transaction open. */
    private void fencedBetween() throws Exception {
        String topic = session.topic("bench", 1);
        KafkaProducer<String, String> older = transactional.producer("pair");
        older.initTransactions();
        older.beginTransaction();
        transactional.send(older, topic, "older");
        older.commitTransaction();
        KafkaProducer<String, String> newer = transactional.producer("pair");
        newer.initTransactions();
        attempt("between, begin", older::beginTransaction);
        session.attempt("between, send", () -> older.send(new ProducerRecord<>(topic, "zombie")).get());
        attempt("between, commit", older::commitTransaction);
        newer.beginTransaction();
        transactional.send(newer, topic, "newer");
        newer.commitTransaction();
        session.say("committed records: %s", transactional.committed(topic, 1));
    }

    /** A producer that is closed aborts; the next of its id starts from there. */
    private void restarted() throws Exception {
        String topic = session.topic("relay", 1);
        for (int number = 0; number < 4; number++) {
            KafkaProducer<String, String> runner = begun("runner", topic, "unfinished " + number);
            runner.close(Duration.ofSeconds(10));
            transactional.ended("runner");
            session.say("closed: %s", transactional.described("runner").state());
            KafkaProducer<String, String> next = begun("runner", topic, "finished " + number);
            next.commitTransaction();
            next.close();
            transactional.ended("runner");
            session.say("committed with epoch %d", transactional.described("runner").producerEpoch());
        }
        session.say("committed records: %s", transactional.committed(topic, 1));
    }

    private void byTheAdministrator() throws Exception {
        String topic = session.topic("desk", 1);
        KafkaProducer<String, String> fenced = begun("clerk", topic, "fenced");
        session.attempt("fence", () -> session.admin().fenceProducers(List.of(session.name("clerk"))).all().get());
        transactional.ended("clerk");
        session.say("fenced: %s, epoch %d", transactional.described("clerk").state(), transactional.described("clerk").producerEpoch());
        attempt("the fenced one, commit", fenced::commitTransaction);
        KafkaProducer<String, String> terminated = begun("guard", topic, "terminated");
        session.attempt("terminate", () -> session.admin().forceTerminateTransaction(session.name("guard")).result().get());
        transactional.ended("guard");
        session.say("terminated: %s", transactional.described("guard").state());
        attempt("the terminated one, commit", terminated::commitTransaction);
        session.attempt("fence an id that nobody has used", () -> session.admin().fenceProducers(List.of(session.name("nobody"))).all().get());
        session.attempt("describe an id that nobody has used", () -> transactional.described("somebody"));
        session.say("committed records: %s", transactional.committed(topic, 1));
    }

    private void timedOut() throws Exception {
        String topic = session.topic("clock", 1);
        for (String next : new String[] {"send", "commit", "abort"}) {
            KafkaProducer<String, String> slow = begun("slow-" + next, topic, "late " + next, "transaction.timeout.ms=300");
            int epoch = transactional.described("slow-" + next).producerEpoch();
            session.until("the timeout", () -> transactional.described("slow-" + next).state() == TransactionState.COMPLETE_ABORT);
            session.say("timed out: %d epochs later", transactional.described("slow-" + next).producerEpoch() - epoch);
            switch (next) {
                case "send" -> session.attempt("timed out, send", () -> slow.send(new ProducerRecord<>(topic, "too late")).get());
                case "commit" -> attempt("timed out, commit", slow::commitTransaction);
                default -> attempt("timed out, abort", slow::abortTransaction);
            }
            attempt("abort after " + next, slow::abortTransaction);
            attempt("begin after " + next, slow::beginTransaction);
            session.attempt("send again after " + next, () -> slow.send(new ProducerRecord<>(topic, "again " + next)).get());
            attempt("commit again after " + next, slow::commitTransaction);
        }
        session.say("committed records: %s", transactional.committed(topic, 1));
        transactional.ends("at the end", topic);
    }

    private KafkaProducer<String, String> begun(String id, String topic, String value, String... settings) throws Exception {
        KafkaProducer<String, String> producer = transactional.producer(id, settings);
        producer.initTransactions();
        producer.beginTransaction();
        transactional.send(producer, topic, value);
        return producer;
    }

    private void attempt(String what, Runnable action) {
        Callable<?> callable = () -> {
            action.run();
            return null;
        };
        session.attempt(what, callable);
    }
}
