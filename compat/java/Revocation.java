import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.resource.ResourceType;

/** A producer and a consumer of "alice" that run while their rights are taken away and given back. The first way is an administrator. */
public final class Revocation implements Scenario {
    @Override
    public void run(Session session) throws Exception {
        List<Ways.Way> ways = Ways.of(session);
        Admin admin = session.own(ways.get(0).admin());
        Ways.Way alice = ways.get(1);
        String topic = session.topic(admin, "ledger", 1);
        AclChanges acls = new AclChanges(session, admin, "User:alice");
        AclBinding read = acls.allow(ResourceType.TOPIC, topic, AclOperation.READ);
        AclBinding write = acls.allow(ResourceType.TOPIC, topic, AclOperation.WRITE);
        acls.create(read, write);
        KafkaProducer<String, String> producer = session.own(alice.producer(Map.of("enable.idempotence", false)));
        KafkaConsumer<String, String> consumer = session.own(alice.consumer(Map.of("fetch.max.wait.ms", 2000)));
        consumer.assign(List.of(new TopicPartition(topic, 0)));
        write(session, producer, topic, "one");
        session.say("read %s", read(session, consumer));
        // A fetch waits at the broker while the right to it ends.
        consumer.poll(Duration.ofMillis(300));
        acls.remove(read);
        session.say("without READ: %s", refusal(consumer));
        write(session, producer, topic, "two");
        acls.remove(write);
        write(session, producer, topic, "three");
        acls.create(write);
        write(session, producer, topic, "four");
        acls.create(read);
        session.say("read %s", read(session, consumer));
        AclBinding deny = acls.deny(ResourceType.TOPIC, topic, AclOperation.READ);
        acls.create(deny);
        session.say("with a DENY: %s", refusal(consumer));
        acls.remove(deny, read, write);
        admin.deleteTopics(List.of(topic)).all().get();
    }

    private static void write(Session session, KafkaProducer<String, String> producer, String topic, String value) {
        session.attempt("write " + value, () -> producer.send(new ProducerRecord<>(topic, 0, null, value)).get());
    }

    /** Polls until something is read; a refusal is one from before. */
    private static List<String> read(Session session, KafkaConsumer<String, String> consumer) throws Exception {
        List<String> values = new ArrayList<>();
        session.until("records", () -> {
            consumer.poll(Duration.ofMillis(100)).forEach(record -> values.add(record.value()));
            return !values.isEmpty();
        });
        consumer.poll(Duration.ofMillis(200)).forEach(record -> values.add(record.value()));
        return values;
    }

    private static String refusal(KafkaConsumer<String, String> consumer) {
        for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(10); System.nanoTime() < end;) {
            try {
                consumer.poll(Duration.ofMillis(100));
            } catch (RuntimeException e) {
                return Session.kind(e);
            }
        }
        return "nothing";
    }
}
