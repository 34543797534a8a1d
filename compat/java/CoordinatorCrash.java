import java.util.List;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Members of both protocols are in a group when its coordinator is killed, which happens between the topics "ready" and "go-on". They
 * stay what they were: nobody rebalances, no record is passed over, and none that was committed is delivered again.
 */
public final class CoordinatorCrash implements Scenario {
    private static final int PARTITIONS = 6;

    private Session session;

    @Override
    public void run(Session session) throws Exception {
        this.session = session;
        ConsumerProtocol protocol = new ConsumerProtocol(session);
        String topic = session.topic("stream", PARTITIONS);
        KafkaProducer<String, String> producer = session.producer("delivery.timeout.ms=60000");
        try (Members members = new Members(session)) {
            members.join(topic, "group.id=" + session.name("crew"), "session.timeout.ms=30000", "heartbeat.interval.ms=200");
            members.join(topic, protocol.settings("crew", "group.instance.id=fixed"));
            members.join(topic, protocol.settings("crew"));
            protocol.settled("before", members, "crew", PARTITIONS);
            send(producer, topic, "before");
            members.until("its records", () -> members.seen.size() == 300);
            session.until("its commits", () -> protocol.committed("crew") == 300);
            List<List<String>> held = members.held();
            int assignments = members.assignments();
            var epoch = protocol.described("crew").groupEpoch();

            session.topic("ready", 1);
            while (!isThere("go-on")) {
                Thread.sleep(100);
            }
            send(producer, topic, "after");
            members.until("all records", () -> members.seen.size() == 600);
            session.until("all commits", () -> protocol.committed("crew") == 600);
            protocol.settled("after", members, "crew", PARTITIONS);
            session.say("same epoch %s, same partitions %s, rebalances %d", protocol.described("crew").groupEpoch().equals(epoch),
                members.held().equals(held), members.assignments() - assignments);
            session.say("delivered %d, again after a commit %d", members.seen.size(), members.again.get());
            members.failures();
        }
    }

    private boolean isThere(String topic) throws InterruptedException {
        try {
            return session.admin().listTopics().names().get().contains(session.name(topic));
        } catch (ExecutionException e) {
            return false;
        }
    }

    private void send(KafkaProducer<String, String> producer, String topic, String round) {
        for (int i = 0; i < 300; i++) {
            producer.send(new ProducerRecord<>(topic, i % PARTITIONS, null, round + "-" + i));
        }
        producer.flush();
    }
}
