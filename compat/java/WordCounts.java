import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** Waits until the committed records of "counts" are as many as "lines" has words, then says whether each count of a word is there once. */
public final class WordCounts implements Scenario {
    @Override
    public void run(Session session) throws Exception {
        var transactional = new Transactional(session);
        Map<String, Integer> words = new TreeMap<>();
        for (String line : transactional.committed(session.name("lines"), 2)) {
            for (String word : line.split(" ")) {
                words.merge(word, 1, Integer::sum);
            }
        }
        int total = words.values().stream().mapToInt(Integer::intValue).sum();
        Map<String, List<String>> counted = new TreeMap<>();
        int read = 0;
        try (KafkaConsumer<String, String> reader = transactional.committedReader()) {
            reader.assign(List.of(new TopicPartition(session.name("counts"), 0), new TopicPartition(session.name("counts"), 1)));
            for (long end = System.nanoTime() + Duration.ofSeconds(90).toNanos(); read < total && System.nanoTime() < end;) {
                for (ConsumerRecord<String, String> record : reader.poll(Duration.ofMillis(100))) {
                    counted.computeIfAbsent(record.key(), word -> new ArrayList<>()).add(record.value());
                    read++;
                }
            }
        }
        session.say("%d words, counted %d times", total, read);
        boolean each = words.entrySet().stream()
            .allMatch(word -> IntStream.rangeClosed(1, word.getValue()).mapToObj(String::valueOf).toList().equals(counted.get(word.getKey())));
        session.say("each count of each word once and in order: %s", each);
    }
}
