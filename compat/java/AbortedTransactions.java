import org.apache.kafka.clients.producer.KafkaProducer;

/** Writes to "decided" a log whose every offset is known: aborted transactions inside of each other, and committed ones between. */
public final class AbortedTransactions implements Scenario {
    @Override
    public void run(Session session) throws Exception {
        var transactional = new Transactional(session);
        String topic = session.name("decided");
        KafkaProducer<String, String> outer = transactional.producer("outer");
        KafkaProducer<String, String> inner = transactional.producer("inner");
        outer.initTransactions();
        inner.initTransactions();
        for (int round = 0; round < 3; round++) {
            outer.beginTransaction();
            transactional.send(outer, topic, "outer " + round);
            inner.beginTransaction();
            transactional.send(inner, topic, "inner " + round, "inner " + round + " again");
            inner.abortTransaction();
            transactional.ended("inner");
            transactional.send(outer, topic, "outer " + round + " again");
            if (round == 1) {
                outer.commitTransaction();
            } else {
                outer.abortTransaction();
            }
            transactional.ended("outer");
        }
        transactional.ends("written", topic);
    }
}
