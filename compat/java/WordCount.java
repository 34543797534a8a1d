import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Counts words with Kafka Streams, exactly once, until it is killed: each word and its count so far is a record of the output, and is
 * printed before. The counts are in memory, and in their changelog, from which the next process goes on.
 * Arguments: BOOTSTRAP INPUT OUTPUT APPLICATION STATE-DIRECTORY.
 */
public final class WordCount {
    private WordCount() {
    }

    public static void main(String[] args) {
        Properties properties = new Properties();
        properties.putAll(Map.of("bootstrap.servers", args[0], "application.id", args[3], "state.dir", args[4], "processing.guarantee", "exactly_once_v2",
            "num.stream.threads", 2, "statestore.cache.max.bytes", 0));
        // Most of what is written is not committed when it is killed.
        properties.putAll(Map.of("commit.interval.ms", 300, "producer.linger.ms", 0));
        // What another process has left behind is taken over at once, or soon: its place in the group, its open transactions.
        properties.putAll(Map.of("group.instance.id", "counter", "producer.transaction.timeout.ms", 3000));
        StreamsBuilder builder = new StreamsBuilder();
        var counts = Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts").withStoreType(Materialized.StoreType.IN_MEMORY);
        builder.stream(args[1], Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count(counts.withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(String::valueOf)
            .peek(WordCount::show)
            .to(args[2], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        streams.start();
    }

    /** Takes so long that there is time to kill it. */
    private static void show(String word, String count) {
        System.out.println(word + " " + count);
        try {
            Thread.sleep(1);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
