import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.cert.X509Certificate;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509TrustManager;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** A listener whose certificate is renewed while clients write, read and connect. Arguments: an administrator, a client of that
 *  listener, its name, its keystore, and the one that comes in its place. */
public final class CertificateChange implements Scenario {
    private static final int ROUNDS = 3;
    private static final int AT_LEAST = 100;

    @Override
    public void run(Session session) throws Exception {
        List<Ways.Way> ways = Ways.of(session);
        Ways.Way secured = ways.get(1);
        String listener = session.arguments.get(4);
        Path keystore = Path.of(session.arguments.get(5));
        Path[] others = {Path.of(session.arguments.get(6)), Files.copy(keystore, keystore.resolveSibling("before.pem"), StandardCopyOption.REPLACE_EXISTING)};
        Admin admin = session.own(ways.get(0).admin());
        String broker = admin.describeCluster().nodes().get().iterator().next().idString();
        String topic = session.topic("rotation", 1);

        AtomicBoolean ends = new AtomicBoolean();
        AtomicInteger written = new AtomicInteger();
        AtomicInteger connected = new AtomicInteger();
        AtomicInteger failed = new AtomicInteger();
        KafkaProducer<String, String> producer = session.own(secured.producer(Map.of("retries", "0", "enable.idempotence", "false")));
        Thread writing = new Thread(() -> {
            while (!ends.get()) {
                count(written, failed, () -> producer.send(new ProducerRecord<>(topic, 0, null, "x")).get());
            }
        });
        Thread connecting = new Thread(() -> {
            while (!ends.get()) {
                count(connected, failed, () -> {
                    try (Admin own = secured.admin()) {
                        return own.describeCluster().nodes().get();
                    }
                });
            }
        });
        writing.start();
        connecting.start();
        try {
            for (int round = 0; round < ROUNDS; round++) {
                String before = served(secured);
                int begun = written.get();
                Path next = keystore.resolveSibling("next.pem");
                Files.copy(others[round % 2], next, StandardCopyOption.REPLACE_EXISTING);
                Files.move(next, keystore, StandardCopyOption.REPLACE_EXISTING, StandardCopyOption.ATOMIC_MOVE);
                var location = new ConfigEntry("listener.name." + listener + ".ssl.keystore.location", keystore.toString());
                Collection<AlterConfigOp> ops = List.of(new AlterConfigOp(location, AlterConfigOp.OpType.SET));
                session.attempt("renewed", () -> admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.BROKER, broker), ops)).all().get());
                session.until("the other certificate", () -> !served(secured).equals(before));
                session.until("what is written then", () -> written.get() >= begun + AT_LEAST);
            }
        } finally {
            ends.set(true);
            writing.join();
            connecting.join();
        }
        session.say("clients that failed: %d", failed.get());
        session.say("connections were made: %b", connected.get() > ROUNDS);
        KafkaConsumer<String, String> consumer = session.own(secured.consumer(Map.of()));
        consumer.assign(List.of(new TopicPartition(topic, 0)));
        session.say("all that was written is there: %b", session.poll(consumer, written.get()).size() == written.get());
    }

    private interface Attempt {
        Object run() throws Exception;
    }

    private static void count(AtomicInteger done, AtomicInteger failed, Attempt attempt) {
        try {
            attempt.run();
            done.incrementAndGet();
        } catch (Exception e) {
            failed.incrementAndGet();
        }
    }

    /** The serial number of the certificate that a listener shows. */
    private static String served(Ways.Way way) throws Exception {
        String[] address = way.properties().getProperty("bootstrap.servers").split(":");
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, new TrustManager[] {new Anybody()}, null);
        try (SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket(address[0], Integer.parseInt(address[1]))) {
            socket.setSoTimeout((int) Duration.ofSeconds(10).toMillis());
            socket.startHandshake();
            return ((X509Certificate) socket.getSession().getPeerCertificates()[0]).getSerialNumber().toString();
        }
    }

    private static final class Anybody implements X509TrustManager {
        @Override
        public void checkClientTrusted(X509Certificate[] chain, String type) {}

        @Override
        public void checkServerTrusted(X509Certificate[] chain, String type) {}

        @Override
        public X509Certificate[] getAcceptedIssuers() {
            return new X509Certificate[0];
        }
    }
}
