import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.TopicPartition;

/** A producer and a consumer under load on a listener that makes them authenticate again every two seconds (KIP-368). */
public final class Reauthentication implements Scenario {
    private static final int SECONDS = 7;

    @Override
    public void run(Session session) throws Exception {
        for (Ways.Way way : Ways.of(session)) {
            String topic = session.topic("busy-" + way.properties().get("sasl.mechanism"), 1);
            AtomicInteger failed = new AtomicInteger();
            int sent = 0;
            int read = 0;
            try (KafkaProducer<String, String> producer = way.producer(Map.of("retries", 0, "enable.idempotence", false));
                 KafkaConsumer<String, String> consumer = way.consumer(Map.of())) {
                consumer.assign(List.of(new TopicPartition(topic, 0)));
                for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS); System.nanoTime() < end; sent++) {
                    producer.send(new ProducerRecord<>(topic, 0, null, "r" + sent), (record, error) -> {
                        if (error != null) {
                            failed.incrementAndGet();
                        }
                    });
                    read += consumer.poll(Duration.ofMillis(5)).count();
                }
                producer.flush();
                read += session.poll(consumer, sent - read).size();
                session.say("%s: %d failed, %d unread, again: producer %s, consumer %s, failed to: %s", way.title(), failed.get(), sent - read,
                    total(producer.metrics().values(), "successful") >= 3, total(consumer.metrics().values(), "successful") >= 3,
                    total(producer.metrics().values(), "failed") + total(consumer.metrics().values(), "failed"));
            }
        }
    }

    private static int total(Iterable<? extends Metric> metrics, String outcome) {
        for (Metric metric : metrics) {
            if (metric.metricName().name().equals(outcome + "-reauthentication-total")) {
                return (int) Math.round((double) metric.metricValue());
            }
        }
        return -1;
    }
}
