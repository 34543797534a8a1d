import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** Says whether the committed records of "copies" are those of "originals". */
public final class Copies implements Scenario {
    @Override
    public void run(Session session) throws Exception {
        var transactional = new Transactional(session);
        List<String> originals = transactional.committed(session.name("originals"), 2);
        List<String> copies = transactional.committed(session.name("copies"), 2);
        session.say("copied %d, once each and in order %s", originals.size(), copies.equals(originals));
        List<String> all = session.read(session.consumer(), session.name("copies"), 2, copies.size() + 1).stream().map(ConsumerRecord::value).toList();
        session.say("written more often than that: %s", all.size() > copies.size());
    }
}
