import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.producer.KafkaProducer;

/** Keeps transactions open on the first partition of "watched", one producer each, until the topic "go-on" exists; then every one commits. */
public final class OpenTransactions implements Scenario {
    @Override
    public void run(Session session) throws Exception {
        var transactional = new Transactional(session);
        List<KafkaProducer<String, String>> open = new ArrayList<>();
        for (String id : new String[] {"first", "second", "third"}) {
            KafkaProducer<String, String> producer = transactional.producer(id);
            producer.initTransactions();
            producer.beginTransaction();
            transactional.send(producer, session.name("watched"), id + " a", id + " b");
            open.add(producer);
        }
        String signal = session.name("go-on");
        while (!session.admin().listTopics().names().get().contains(signal)) {
            Thread.sleep(100);
        }
        for (KafkaProducer<String, String> producer : open) {
            session.attempt("commit", () -> {
                producer.commitTransaction();
                return null;
            });
        }
        session.say("committed records: %s", transactional.committed(session.name("watched"), 1));
    }
}
