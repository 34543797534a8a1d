import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Transactional clients at work, whose calls are logged for a checker of histories. Writers fill the topic "history", copiers, which
 * are a group, copy its committed records to "copies" together with their offsets, and two readers, of the committed and of all records,
 * follow both topics. The line "stop" on stdin ends the writers, "end" the others, and with them the process.
 * Arguments: BOOTSTRAP PARTITIONS WRITERS COPIERS.
 */
public final class TransactionHistory {
    private static final String[] TOPICS = {"history", "copies"};
    private static final Map<String, Object> PRODUCER =
        Map.of("transaction.timeout.ms", 40000, "request.timeout.ms", 8000, "delivery.timeout.ms", 60000, "buffer.memory", 2L << 20);

    private final CallLog log = new CallLog(System.out);
    private final String bootstrap;
    private final int partitions;
    private volatile boolean stopped;
    private volatile boolean ended;

    private TransactionHistory(String bootstrap, int partitions) {
        this.bootstrap = bootstrap;
        this.partitions = partitions;
    }

    public static void main(String[] args) throws Exception {
        var history = new TransactionHistory(args[0], Integer.parseInt(args[1]));
        history.run(Integer.parseInt(args[2]), Integer.parseInt(args[3]));
        Runtime.getRuntime().halt(0);
    }

    private void run(int writers, int copiers) throws Exception {
        List<Thread> writing = new ArrayList<>();
        List<Thread> others = new ArrayList<>();
        others.add(start("committed", () -> follow("read_committed")));
        others.add(start("all", () -> follow("read_uncommitted")));
        for (int number = 0; number < writers; number++) {
            String id = "writer-" + number;
            writing.add(start(id, () -> write(id)));
        }
        for (int number = 0; number < copiers; number++) {
            String id = "copier-" + number;
            others.add(start(id, () -> copy(id)));
        }
        var commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            boolean all = line.equals("end");
            stopped = true;
            ended = all;
            for (Thread thread : all ? others : writing) {
                thread.join();
            }
            log.write(line);
            if (all) {
                return;
            }
        }
    }

    private Thread start(String name, Runnable work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Throwable e) {
                log.write("broken", "who", name, "error", String.valueOf(e));
            }
        }, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    /** One in five transactions is aborted, one in twenty is left to the next incarnation. */
    private void write(String id) {
        var random = new Random(id.hashCode());
        var producer = new LoggedProducer(log, bootstrap, id, PRODUCER);
        producer.open();
        while (!stopped) {
            int records = 1 + random.nextInt(6);
            boolean slow = random.nextInt(4) == 0;
            LoggedProducer.Body body = () -> {
                for (int number = 0; number < records && !stopped; number++) {
                    producer.send("history", random.nextInt(partitions), null);
                    if (slow) {
                        producer.flush();
                        LoggedProducer.pause(random.nextInt(60));
                    }
                }
            };
            switch (random.nextInt(40)) {
                case 0 -> producer.abandon(false, body);
                case 1 -> producer.abandon(true, body);
                default -> producer.transact(random.nextInt(5) == 0, body);
            }
            LoggedProducer.pause(random.nextInt(20));
        }
        producer.close();
    }

    /** One in ten transactions is aborted, one in forty is left to the next incarnation: both are worked on again. */
    private void copy(String id) {
        var random = new Random(id.hashCode());
        var producer = new LoggedProducer(log, bootstrap, id, PRODUCER);
        producer.open();
        try (KafkaConsumer<String, String> consumer = consumer("read_committed", Map.of("group.id", "copiers", "max.poll.records", 30))) {
            consumer.subscribe(List.of("history"));
            while (!ended) {
                try {
                    ConsumerRecords<String, String> batch = consumer.poll(Duration.ofMillis(100));
                    if (!batch.isEmpty() && !copied(producer, consumer, batch, random)) {
                        rewind(consumer);
                    }
                } catch (KafkaException e) {
                    log.write("consumer", "who", id, "error", Session.kind(e));
                }
            }
        }
        producer.close();
    }

    private boolean copied(LoggedProducer producer, KafkaConsumer<String, String> consumer, ConsumerRecords<String, String> batch, Random random) {
        LoggedProducer.Body body = () -> {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>(batch.nextOffsets());
            for (ConsumerRecord<String, String> record : batch) {
                producer.send("copies", record.partition(), record.value());
            }
            producer.sendOffsets(offsets, consumer.groupMetadata());
        };
        if (random.nextInt(40) == 0) {
            producer.abandon(false, body);
            return false;
        }
        return producer.transact(random.nextInt(10) == 0, body);
    }

    private void rewind(KafkaConsumer<String, String> consumer) {
        while (!ended) {
            try {
                consumer.committed(consumer.assignment())
                    .forEach((partition, committed) -> consumer.seek(partition, committed == null ? 0 : committed.offset()));
                return;
            } catch (TimeoutException e) {
                log.write("consumer", "who", "rewind", "error", Session.kind(e));
            }
        }
    }

    /** Reads everything as it comes, and logs what it got with its positions. */
    private void follow(String isolation) {
        List<TopicPartition> all = new ArrayList<>();
        for (String topic : TOPICS) {
            for (int number = 0; number < partitions; number++) {
                all.add(new TopicPartition(topic, number));
            }
        }
        try (KafkaConsumer<String, String> consumer = consumer(isolation, Map.of("auto.offset.reset", "none"))) {
            consumer.assign(all);
            all.forEach(partition -> consumer.seek(partition, 0));
            while (!ended) {
                try {
                    ConsumerRecords<String, String> batch = consumer.poll(Duration.ofMillis(100));
                    double at = CallLog.now();
                    for (TopicPartition partition : batch.partitions()) {
                        List<Object[]> records = new ArrayList<>();
                        batch.records(partition).forEach(record -> records.add(new Object[] {record.offset(), record.value()}));
                        log.write("read", "isolation", isolation, "topic", partition.topic(), "partition", partition.partition(), "at", at,
                            "position", batch.nextOffsets().get(partition).offset(), "records", records);
                    }
                } catch (KafkaException e) {
                    log.write("consumer", "who", isolation, "error", Session.kind(e));
                    LoggedProducer.pause(100);
                }
            }
        }
    }

    private KafkaConsumer<String, String> consumer(String isolation, Map<String, Object> settings) {
        Map<String, Object> all = new TreeMap<>(Map.of("bootstrap.servers", bootstrap, "isolation.level", isolation,
            "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
        all.putAll(settings);
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }
}
