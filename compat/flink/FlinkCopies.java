import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Apache Flink copies the numbers of a topic to another one, exactly once. In the middle, behind a checkpoint, the job fails and is restarted
 * from it. Then the copies are counted. Arguments: BOOTSTRAP SOURCE TARGET PREFIX RECORDS.
 */
public final class FlinkCopies {
    private static final int PARTITIONS = 2;
    private static final AtomicInteger SEEN = new AtomicInteger();
    private static final AtomicInteger CHECKPOINTS = new AtomicInteger();
    private static final AtomicBoolean FAILED = new AtomicBoolean();

    /** Takes its time, and fails once. All tasks are in this process. */
    static final class FailsOnce implements MapFunction<String, String>, CheckpointListener {
        private final int failsAt;

        FailsOnce(int failsAt) {
            this.failsAt = failsAt;
        }

        @Override
        public String map(String value) throws Exception {
            Thread.sleep(1);
            if (SEEN.incrementAndGet() > failsAt && CHECKPOINTS.get() > 2 && FAILED.compareAndSet(false, true)) {
                throw new IllegalStateException("the failure that was wanted");
            }
            return value;
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) {
            CHECKPOINTS.incrementAndGet();
        }
    }

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        int records = Integer.parseInt(args[4]);
        var settings = new Configuration();
        settings.setString("execution.checkpointing.interval", "300 ms");
        settings.setString("restart-strategy.type", "fixed-delay");
        settings.setString("restart-strategy.fixed-delay.delay", "200 ms");
        var environment = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        environment.setParallelism(PARTITIONS);
        var source = KafkaSource.<String>builder()
            .setBootstrapServers(bootstrap)
            .setTopics(args[1])
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setBounded(OffsetsInitializer.latest())
            .setValueOnlyDeserializer(new SimpleStringSchema())
            .build();
        var serializer = KafkaRecordSerializationSchema.<String>builder()
            .setTopic(args[2])
            .setValueSerializationSchema(new SimpleStringSchema())
            .build();
        var sink = KafkaSink.<String>builder()
            .setBootstrapServers(bootstrap)
            .setRecordSerializer(serializer)
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(args[3])
            .setProperty("transaction.timeout.ms", "60000")
            .build();
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "numbers").map(new FailsOnce(records / 2)).sinkTo(sink);
        environment.execute("copies");
        System.out.printf("failed once: %s, worked more than once on some: %s%n", FAILED.get(), SEEN.get() > records);
        count(bootstrap, args[2], records);
        Runtime.getRuntime().halt(0);
    }

    private static void count(String bootstrap, String topic, int records) {
        var partitions = List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1));
        Map<String, Integer> times = new HashMap<>();
        var committed = ends(bootstrap, partitions, "read_committed");
        try (var consumer = consumer(bootstrap, "read_committed")) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (partitions.stream().anyMatch(partition -> consumer.position(partition) < committed.get(partition))) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> times.merge(record.value(), 1, Integer::sum));
            }
        }
        long repeated = times.values().stream().filter(number -> number > 1).count();
        System.out.printf("copied %d of %d, repeated %d%n", times.size(), records, repeated);
        System.out.printf("all transactions are decided: %s%n", areDecided(bootstrap, partitions));
    }

    /** The markers of the last ones are written soon after their ends are answered. */
    private static boolean areDecided(String bootstrap, List<TopicPartition> partitions) {
        long giveUp = System.nanoTime() + Duration.ofSeconds(20).toNanos();
        while (System.nanoTime() < giveUp) {
            if (ends(bootstrap, partitions, "read_committed").equals(ends(bootstrap, partitions, "read_uncommitted"))) {
                return true;
            }
        }
        return false;
    }

    private static Map<TopicPartition, Long> ends(String bootstrap, List<TopicPartition> partitions, String isolation) {
        try (var consumer = consumer(bootstrap, isolation)) {
            return consumer.endOffsets(partitions);
        }
    }

    private static KafkaConsumer<String, String> consumer(String bootstrap, String isolation) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "isolation.level", isolation);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }
}
