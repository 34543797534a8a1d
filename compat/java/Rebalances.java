import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Members come and go under load, with every assignor: all partitions are held, each once, and each record is delivered. */
public final class Rebalances implements Scenario {
    @Override
    public void run(Session session) throws Exception {
        for (String assignor : new String[] {"RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"}) {
            String topic = session.topic("work-" + assignor, 6);
            String[] settings = {"group.id=" + session.name("crew-" + assignor), "session.timeout.ms=10000", "heartbeat.interval.ms=300",
                "partition.assignment.strategy=org.apache.kafka.clients.consumer." + assignor};
            session.say("%s", assignor);
            KafkaProducer<String, String> producer = session.producer();
            try (Members members = new Members(session)) {
                Members.Member first = members.join(topic, settings);
                members.settled("one member", 6);
                send(producer, topic, 0);
                members.join(topic, settings);
                members.join(topic, settings);
                members.settled("three members", 6);
                send(producer, topic, 1);
                first.leave();
                members.settled("two members", 6);
                send(producer, topic, 2);
                members.until("all records", () -> members.seen.size() == 900);
                session.say("delivered %d", members.seen.size());
                if (assignor.startsWith("Cooperative")) {
                    session.say("the first gave up %d of 6 partitions before it left", first.revoked.get() - 2);
                }
                members.failures();
            }
        }
    }

    private void send(KafkaProducer<String, String> producer, String topic, int round) {
        for (int i = 0; i < 300; i++) {
            producer.send(new ProducerRecord<>(topic, i % 6, null, round + "-" + i));
        }
        producer.flush();
    }
}
