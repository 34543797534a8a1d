import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** Waits until "lines" has the last of the numbers that a connector writes, then says whether each was committed once and in order. */
public final class Lines implements Scenario {
    private static final int LAST = 999;

    @Override
    public void run(Session session) throws Exception {
        var transactional = new Transactional(session);
        String topic = session.name("lines");
        try (KafkaConsumer<String, String> reader = transactional.committedReader()) {
            reader.assign(List.of(new TopicPartition(topic, 0)));
            boolean ended = false;
            for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60); !ended && System.nanoTime() < end;) {
                for (ConsumerRecord<String, String> record : reader.poll(Duration.ofMillis(100))) {
                    ended |= number(record.value()) == LAST;
                }
            }
        }
        List<Integer> lines = transactional.committed(topic, 1).stream().map(Lines::number).toList();
        session.say("%d lines, once each and in order %s", lines.size(), lines.equals(IntStream.rangeClosed(0, LAST).boxed().toList()));
    }

    private static int number(String line) {
        return Integer.parseInt(line.split(" ")[0]);
    }
}
