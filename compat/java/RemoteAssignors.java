import java.util.List;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Members of the consumer protocol come and go under load, with each assignor: partitions are held once, and each record is delivered. */
public final class RemoteAssignors implements Scenario {
    private Session session;
    private ConsumerProtocol protocol;

    @Override
    public void run(Session session) throws Exception {
        this.session = session;
        protocol = new ConsumerProtocol(session);
        comeAndGo("uniform");
        comeAndGo("range");
        twoTopics();
        mostWanted();
        KafkaConsumer<String, String> stranger = session.consumer(protocol.settings("strange", "group.remote.assignor=sticky"));
        stranger.subscribe(List.of(session.topic("strange", 1)));
        session.attempt("an unknown assignor", () -> session.poll(stranger, 1));
    }

    private void comeAndGo(String assignor) throws Exception {
        String topic = session.topic("work-" + assignor, 6);
        String group = "crew-" + assignor;
        String[] settings = protocol.settings(group, "group.remote.assignor=" + assignor);
        session.say("%s", assignor);
        KafkaProducer<String, String> producer = session.producer();
        try (Members members = new Members(session)) {
            Members.Member first = members.join(topic, settings);
            protocol.settled("one member", members, group, 6);
            send(producer, topic, 0);
            members.join(topic, settings);
            protocol.settled("two members", members, group, 6);
            members.join(topic, settings);
            protocol.settled("three members", members, group, 6);
            if (assignor.equals("range")) {
                session.say("%s", members.held());
            }
            send(producer, topic, 1);
            first.leave();
            protocol.settled("two members", members, group, 6);
            send(producer, topic, 2);
            members.until("all records", () -> members.seen.size() == 900);
            session.say("delivered %d, more than once %d", members.seen.size(), members.seen.values().stream().filter(times -> times.get() > 1).count());
            if (assignor.equals("uniform")) {
                session.say("the first gave up %d of 6 partitions before it left", first.revoked.get() - 2);
            }
            members.failures();
        }
    }

    private void send(KafkaProducer<String, String> producer, String topic, int round) {
        for (int i = 0; i < 300; i++) {
            producer.send(new ProducerRecord<>(topic, i % 6, null, round + "-" + i));
        }
        producer.flush();
    }

    /** Range gives each member the same partitions of both topics, uniform whatever is free. */
    private void twoTopics() throws Exception {
        List<String> topics = List.of(session.topic("left", 4), session.topic("right", 4));
        String[] settings = protocol.settings("pairs", "group.remote.assignor=range");
        try (Members members = new Members(session)) {
            for (int member = 0; member < 2; member++) {
                members.join((consumer, listener) -> consumer.subscribe(topics, listener), settings);
            }
            members.settled("two topics", 8);
            session.say("%s", members.held());
            members.failures();
        }
    }

    /** The group takes the assignor that most of its members name; who names none counts for nobody. */
    private void mostWanted() throws Exception {
        String topic = session.topic("vote", 6);
        try (Members members = new Members(session)) {
            members.join(topic, protocol.settings("voters"));
            protocol.settled("one without a wish", members, "voters", 6);
            members.join(topic, protocol.settings("voters", "group.remote.assignor=range"));
            protocol.settled("one for range", members, "voters", 6);
            members.join(topic, protocol.settings("voters", "group.remote.assignor=uniform"));
            members.join(topic, protocol.settings("voters", "group.remote.assignor=uniform"));
            protocol.settled("two for uniform", members, "voters", 6);
            members.failures();
        }
    }
}
