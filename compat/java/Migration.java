import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * A group goes from the classic protocol to the consumer protocol and back, member by member, while a producer goes on: no record
 * is passed over, and none that was committed is delivered again.
 */
public final class Migration implements Scenario {
    private static final int PARTITIONS = 6;
    private static final String GROUP = "movers";

    private Session session;
    private ConsumerProtocol protocol;
    private String topic;

    @Override
    public void run(Session session) throws Exception {
        this.session = session;
        protocol = new ConsumerProtocol(session);
        for (String assignor : new String[] {"RangeAssignor", "CooperativeStickyAssignor"}) {
            thereAndBack(assignor);
        }
    }

    private void thereAndBack(String assignor) throws Exception {
        session.say("%s", assignor);
        topic = session.topic("stream-" + assignor, PARTITIONS);
        String group = GROUP + "-" + assignor;
        String[] classic = {"group.id=" + session.name(group), "session.timeout.ms=10000", "heartbeat.interval.ms=200",
            "partition.assignment.strategy=org.apache.kafka.clients.consumer." + assignor};
        String[] consumer = protocol.settings(group);
        AtomicBoolean enough = new AtomicBoolean();
        AtomicInteger sent = new AtomicInteger();
        KafkaProducer<String, String> client = session.producer();
        Thread producer = new Thread(() -> produce(client, enough, sent));
        try (Members members = new Members(session)) {
            producer.start();
            Deque<Members.Member> inside = new ArrayDeque<>();
            for (int member = 0; member < 3; member++) {
                inside.add(members.join(topic, classic));
            }
            settled(members, group, "classic");
            replaceAll(members, inside, group, "to consumer", consumer);
            replaceAll(members, inside, group, "to classic", classic);
            enough.set(true);
            producer.join();
            members.until("all records", () -> members.seen.size() == sent.get());
            session.until("all commits", () -> protocol.committed(group) == sent.get());
            session.say("each record was delivered %s, again after its commit %d", members.seen.size() == sent.get(), members.again.get());
            members.failures();
        } finally {
            enough.set(true);
            producer.join();
        }
    }

    /** Replaces the members one by one: the next joins before its predecessor leaves. */
    private void replaceAll(Members members, Deque<Members.Member> inside, String group, String direction, String[] settings) throws Exception {
        for (int number = 1; number <= 3; number++) {
            inside.add(members.join(topic, settings));
            settled(members, group, direction + ", one more");
            inside.remove().leave();
            settled(members, group, direction + ", " + number + " replaced");
        }
    }

    private void settled(Members members, String group, String when) throws Exception {
        int seen = members.seen.size();
        protocol.settled(when, members, group, PARTITIONS);
        members.until("records", () -> members.seen.size() > seen);
    }

    private void produce(KafkaProducer<String, String> producer, AtomicBoolean enough, AtomicInteger sent) {
        try {
            while (!enough.get()) {
                int number = sent.getAndIncrement();
                producer.send(new ProducerRecord<>(topic, number % PARTITIONS, null, String.valueOf(number)));
                Thread.sleep(2);
            }
            producer.flush();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
