import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** A user whose password changes and who is then removed, while a producer and a consumer run. Ways: an administrator, then the
 *  user with the first password and with the second. */
public final class PasswordChange implements Scenario {
    private static final ScramMechanism MECHANISM = ScramMechanism.SCRAM_SHA_256;

    @Override
    public void run(Session session) throws Exception {
        List<Ways.Way> ways = Ways.of(session);
        Ways.Way first = ways.get(1);
        Ways.Way second = ways.get(2);
        Admin admin = session.own(ways.get(0).admin());
        String user = session.name("pat");
        String topic = session.topic("diary", 1);
        KafkaProducer<String, String> producer = session.own(first.producer(Map.of()));
        KafkaConsumer<String, String> consumer = session.own(first.consumer(Map.of()));
        consumer.assign(List.of(new TopicPartition(topic, 0)));
        exchange(session, producer, consumer, topic, "with the first password");
        session.attempt("the second password", () -> connect(second));

        var secret = new UserScramCredentialUpsertion(user, new ScramCredentialInfo(MECHANISM, 4096), "two".getBytes(StandardCharsets.UTF_8));
        admin.alterUserScramCredentials(List.of(secret)).all().get();
        session.until("the second password", () -> connect(second));
        session.attempt("the first password after the change", () -> connect(first));
        exchange(session, producer, consumer, topic, "on the connections from before");

        admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion(user, MECHANISM))).all().get();
        session.until("the user's end", () -> isRefused(second));
        session.attempt("the second password after the removal", () -> connect(second));
        exchange(session, producer, consumer, topic, "on the connections of a user who is gone");
    }

    private static void exchange(Session session, KafkaProducer<String, String> producer, KafkaConsumer<String, String> consumer, String topic, String what) throws Exception {
        session.attempt("written " + what, () -> producer.send(new ProducerRecord<>(topic, 0, null, what)).get());
        session.say("read %s", session.poll(consumer, 1).stream().map(record -> record.value()).toList());
    }

    private static boolean connect(Ways.Way way) throws Exception {
        Admin admin = way.admin();
        try {
            return !admin.describeCluster().nodes().get().isEmpty();
        } finally {
            admin.close(Duration.ZERO);
        }
    }

    private static boolean isRefused(Ways.Way way) {
        try {
            return !connect(way);
        } catch (Exception e) {
            return Session.kind(e).equals("SaslAuthenticationException");
        }
    }
}
