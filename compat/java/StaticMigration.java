import java.util.List;
import org.apache.kafka.common.TopicPartition;

/** Static members are restarted one by one with the other protocol, and back: each takes the place of its own instance. */
public final class StaticMigration implements Scenario {
    private static final int PARTITIONS = 4;

    private Session session;
    private ConsumerProtocol protocol;
    private Members members;
    private String topic;

    @Override
    public void run(Session session) throws Exception {
        this.session = session;
        protocol = new ConsumerProtocol(session);
        topic = session.topic("fixed", PARTITIONS);
        try (Members all = new Members(session)) {
            members = all;
            Members.Member a = members.join(topic, classic("a"));
            Members.Member b = members.join(topic, classic("b"));
            protocol.settled("classic", members, "static", PARTITIONS);
            a = replaced(a, b, "a to consumer", consumer("a"));
            b = replaced(b, a, "b to consumer", consumer("b"));
            a = replaced(a, b, "a to classic", classic("a"));
            replaced(b, a, "b to classic", classic("b"));
            members.failures();
        }
    }

    private Members.Member replaced(Members.Member former, Members.Member other, String how, String[] settings) throws Exception {
        List<TopicPartition> held = former.held;
        former.leave();
        Members.Member next = members.join(topic, settings);
        protocol.settled(how, members, "static", PARTITIONS);
        session.say("same partitions %s, the other failed %s", next.held.equals(held), other.failure != null);
        return next;
    }

    private String[] consumer(String instance) {
        return protocol.settings("static", "group.instance.id=" + instance);
    }

    private String[] classic(String instance) {
        return new String[] {"group.id=" + session.name("static"), "group.instance.id=" + instance, "session.timeout.ms=20000", "heartbeat.interval.ms=200"};
    }
}
