import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What a scenario gets: the broker's address, names of its own, clients that are closed after it, and words for its transcript. */
public final class Session implements AutoCloseable {
    public final String bootstrap;
    /** What the scenario is told besides. */
    public final List<String> arguments;
    private final String tag;
    private final List<AutoCloseable> open = new ArrayList<>();
    private Admin admin;

    Session(String bootstrap, String tag, List<String> arguments) {
        this.bootstrap = bootstrap;
        this.tag = tag;
        this.arguments = arguments;
    }

    public void say(String format, Object... values) {
        System.out.println(values.length == 0 ? format : String.format(format, values));
    }

    /** A name that no other run uses; the transcript shows it without the tag. */
    public String name(String base) {
        return base + "-" + tag;
    }

    public Admin admin() {
        if (admin == null) {
            admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", 20000, "request.timeout.ms", 15000));
            open.add(admin);
        }
        return admin;
    }

    /** Creates a topic with settings given as "name=value" and waits until its logs answer: Apache Kafka announces leaders before
     *  that, and then even takes the second batch of an idempotent producer after it refused the first. */
    public String topic(String base, int partitions, String... settings) throws Exception {
        return topic(admin(), base, partitions, settings);
    }

    public String topic(Admin admin, String base, int partitions, String... settings) throws Exception {
        String name = name(base);
        Map<String, String> configs = new HashMap<>();
        for (String setting : settings) {
            configs.put(setting.split("=", 2)[0], setting.split("=", 2)[1]);
        }
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(configs))).all().get();
        Map<TopicPartition, OffsetSpec> ends = new HashMap<>();
        for (int partition = 0; partition < partitions; partition++) {
            ends.put(new TopicPartition(name, partition), OffsetSpec.latest());
        }
        until("topic " + base, () -> admin.listOffsets(ends).all().get().size() == partitions);
        return name;
    }

    public KafkaProducer<String, String> producer(String... settings) {
        return producerOf(StringSerializer.class, settings);
    }

    public KafkaProducer<byte[], byte[]> rawProducer(String... settings) {
        return producerOf(ByteArraySerializer.class, settings);
    }

    private <T> KafkaProducer<T, T> producerOf(Class<?> serializer, String... settings) {
        Properties properties = properties(settings);
        properties.put("key.serializer", serializer);
        properties.put("value.serializer", serializer);
        properties.putIfAbsent("delivery.timeout.ms", "20000");
        properties.putIfAbsent("request.timeout.ms", "15000");
        properties.putIfAbsent("linger.ms", "0");
        return own(new KafkaProducer<>(properties));
    }

    public KafkaConsumer<String, String> consumer(String... settings) {
        return consumerOf(StringDeserializer.class, settings);
    }

    public KafkaConsumer<byte[], byte[]> rawConsumer(String... settings) {
        return consumerOf(ByteArrayDeserializer.class, settings);
    }

    private <T> KafkaConsumer<T, T> consumerOf(Class<?> deserializer, String... settings) {
        Properties properties = properties(settings);
        properties.put("key.deserializer", deserializer);
        properties.put("value.deserializer", deserializer);
        properties.putIfAbsent("auto.offset.reset", "earliest");
        properties.putIfAbsent("enable.auto.commit", "false");
        return own(new KafkaConsumer<>(properties));
    }

    private Properties properties(String... settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        for (String setting : settings) {
            properties.put(setting.split("=", 2)[0], setting.split("=", 2)[1]);
        }
        return properties;
    }

    /** Closes a client after the scenario. */
    public <T extends AutoCloseable> T own(T client) {
        open.add(client);
        return client;
    }

    /** Reads `count` records from the start of every partition of `topic`, in partition order. */
    public <T> List<ConsumerRecord<T, T>> read(KafkaConsumer<T, T> consumer, String topic, int partitions, int count) {
        List<TopicPartition> assigned = new ArrayList<>();
        for (int partition = 0; partition < partitions; partition++) {
            assigned.add(new TopicPartition(topic, partition));
        }
        consumer.assign(assigned);
        consumer.seekToBeginning(assigned);
        List<ConsumerRecord<T, T>> records = poll(consumer, count);
        records.sort((a, b) -> a.partition() != b.partition() ? a.partition() - b.partition() : Long.compare(a.offset(), b.offset()));
        return records;
    }

    /** Polls until `count` records came or 15 seconds passed. */
    public <T> List<ConsumerRecord<T, T>> poll(KafkaConsumer<T, T> consumer, int count) {
        List<ConsumerRecord<T, T>> records = new ArrayList<>();
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(15);
        while (records.size() < count && System.nanoTime() < end) {
            consumer.poll(Duration.ofMillis(100)).forEach(records::add);
        }
        return records;
    }

    /** Waits up to 20 seconds for something that becomes true; says so when it does not. Exceptions count as not yet. */
    public void until(String what, Callable<Boolean> condition) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        Exception last = null;
        while (System.nanoTime() < end) {
            try {
                if (condition.call()) {
                    return;
                }
                last = null;
            } catch (InterruptedException e) {
                throw e;
            } catch (Exception e) {
                last = e;
            }
            Thread.sleep(50);
        }
        say("waited in vain for %s%s", what, last == null ? "" : ": " + kind(last));
    }

    /** Runs something that is expected to fail and says the kind of its failure, or "ok". */
    public void attempt(String what, Callable<?> action) {
        try {
            action.call();
            say("%s: ok", what);
        } catch (Exception e) {
            say("%s: %s", what, kind(e));
        }
    }

    /** An exception's class, without the wrappers around it. Messages are the broker's own words, so they are not compared. */
    public static String kind(Throwable e) {
        while ((e instanceof ExecutionException || e instanceof CompletionException) && e.getCause() != null) {
            e = e.getCause();
        }
        return e.getClass().getSimpleName();
    }

    public static String sorted(Collection<?> values) {
        Object[] array = values.stream().map(String::valueOf).toArray();
        Arrays.sort(array);
        return Arrays.toString(array);
    }

    @Override
    public void close() {
        for (AutoCloseable client : open) {
            try {
                if (client instanceof KafkaProducer) {
                    ((KafkaProducer<?, ?>) client).close(Duration.ofSeconds(5));
                } else {
                    client.close();
                }
            } catch (Exception e) {
                say("closing: %s", kind(e));
            }
        }
    }
}
