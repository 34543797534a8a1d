import java.time.Duration;
import java.util.List;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Subscriptions by a pattern that the broker resolves: which topics match, one that appears later, broken ones. */
public final class Patterns implements Scenario {
    private Session session;
    private ConsumerProtocol protocol;

    @Override
    public void run(Session session) throws Exception {
        this.session = session;
        protocol = new ConsumerProtocol(session);
        session.topic("colour-red", 2);
        session.topic("colour-blue", 1);
        session.topic("dark-colour-red", 1);
        try (Members members = new Members(session)) {
            join(members, "colour-(red|blue|green)-.*");
            members.settled("by a pattern", 3);
            session.say("%s", members.held());
            // The same partitions by their names: patterns and names share them.
            Members.Member second = members.join(session.name("colour-red"), protocol.settings("painters"));
            protocol.settled("by a pattern and by name", members, "painters", 3);
            String green = session.topic("colour-green", 2);
            members.settled("a topic that appeared", 5);
            session.say("%s", members.held().stream().flatMap(List::stream).sorted().toList());
            KafkaProducer<String, String> producer = session.producer();
            producer.send(new ProducerRecord<>(green, "leaf")).get();
            members.until("the record of the new topic", () -> members.seen.containsKey("leaf"));
            second.leave();
            members.settled("by a pattern", 5);
            members.failures();
        }
        broken("(");
        broken("a(?!b)");
        broken("(a)\\1");
        broken("a{2,1}");
        KafkaConsumer<String, String> nobody = session.consumer(protocol.settings("nobody"));
        // The whole name has to match.
        nobody.subscribe(new SubscriptionPattern("colour-red"));
        session.until("a member for a part of a name", () -> {
            nobody.poll(Duration.ofMillis(100));
            return protocol.described("nobody").members().size() == 1;
        });
        protocol.stable("nobody");
        session.say("a part of a name: %s", nobody.assignment());
    }

    private Members.Member join(Members members, String pattern) {
        return members.join((consumer, listener) -> consumer.subscribe(new SubscriptionPattern(pattern), listener), protocol.settings("painters"));
    }

    private void broken(String pattern) {
        KafkaConsumer<String, String> consumer = session.consumer(protocol.settings("broken"));
        consumer.subscribe(new SubscriptionPattern(pattern));
        session.attempt("the pattern " + pattern, () -> session.poll(consumer, 1));
    }
}
