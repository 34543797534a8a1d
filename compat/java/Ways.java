import java.io.FileReader;
import java.io.IOException;
import java.io.Reader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The ways to connect that a scenario is told: pairs of a title and a properties file. */
final class Ways {
    private Ways() {}

    record Way(String title, Properties properties) {
        /** The properties with others in place of some. */
        Properties with(Map<String, ?> more) {
            Properties all = new Properties();
            all.putAll(properties);
            more.forEach((name, value) -> all.put(name, String.valueOf(value)));
            return all;
        }

        KafkaProducer<String, String> producer(Map<String, ?> more) {
            Properties all = with(more);
            all.putIfAbsent("linger.ms", "0");
            all.putIfAbsent("delivery.timeout.ms", "10000");
            return new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
        }

        KafkaConsumer<String, String> consumer(Map<String, ?> more) {
            Properties all = with(more);
            all.putIfAbsent("auto.offset.reset", "earliest");
            all.putIfAbsent("enable.auto.commit", "false");
            return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
        }

        Admin admin() {
            return Admin.create(properties);
        }
    }

    static List<Way> of(Session session) throws IOException {
        List<Way> ways = new ArrayList<>();
        for (int at = 0; at + 1 < session.arguments.size(); at += 2) {
            Properties properties = new Properties();
            try (Reader file = new FileReader(session.arguments.get(at + 1))) {
                properties.load(file);
            }
            ways.add(new Way(session.arguments.get(at), properties));
        }
        return ways;
    }
}
