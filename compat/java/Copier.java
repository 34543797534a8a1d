import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Copies a topic to another one, each batch of records with its offsets in one transaction, a third of which are aborted: what
 * Kafka's TransactionalMessageCopier does. Says what it has done so far, so that it can be killed at any point of a transaction.
 * Arguments: BOOTSTRAP INPUT OUTPUT GROUP RECORDS.
 */
public final class Copier {
    private static final int MOST_PER_TRANSACTION = 50;

    private final KafkaConsumer<String, String> consumer;
    private final KafkaProducer<String, String> producer;
    private final String output;

    private Copier(String bootstrap, String input, String output, String group) {
        this.output = output;
        Properties reading = new Properties();
        reading.putAll(Map.of("bootstrap.servers", bootstrap, "group.id", group, "group.instance.id", group, "max.poll.records", MOST_PER_TRANSACTION,
            "isolation.level", "read_committed", "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
        consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(input));
        producer = new KafkaProducer<>(Map.of("bootstrap.servers", bootstrap, "transactional.id", group), new StringSerializer(), new StringSerializer());
        producer.initTransactions();
    }

    public static void main(String[] args) {
        new Copier(args[0], args[1], args[2], args[3]).copy(Integer.parseInt(args[4]));
        System.out.println("done");
        // What is left open ends with the process.
        Runtime.getRuntime().halt(0);
    }

    /** Returns when the group has committed the offsets of so many records. */
    private void copy(int records) {
        for (int transaction = 0; committed() < records; transaction++) {
            ConsumerRecords<String, String> batch = consumer.poll(Duration.ofMillis(100));
            if (batch.isEmpty()) {
                continue;
            }
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (ConsumerRecord<String, String> record : batch) {
                producer.send(new ProducerRecord<>(output, record.partition(), null, record.value()));
                offsets.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
            }
            producer.flush();
            System.out.println("written");
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            System.out.println("offsets");
            if (transaction % 3 == 1) {
                producer.abortTransaction();
                rewind();
            } else {
                producer.commitTransaction();
                System.out.println("committed");
            }
        }
    }

    private long committed() {
        return consumer.committed(consumer.assignment()).values().stream().mapToLong(offset -> offset == null ? 0 : offset.offset()).sum();
    }

    private void rewind() {
        consumer.committed(consumer.assignment()).forEach((partition, committed) -> consumer.seek(partition, committed == null ? 0 : committed.offset()));
    }
}
