import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The producer of a transactional id, which logs each call with its outcome: ok, failed, or unknown where it got no answer in time.
 * When it cannot go on, a new incarnation takes its place. Transactions are numbered over all of them.
 */
final class LoggedProducer {
    /** The part of a transaction between its begin and its end. */
    interface Body {
        void run() throws Exception;
    }

    private static final double GIVE_UP_S = 120;

    private final CallLog log;
    private final String id;
    private final Map<String, Object> settings;
    private KafkaProducer<String, String> producer;
    private int incarnation;
    private int transaction;
    private int sent;

    LoggedProducer(CallLog log, String bootstrap, String id, Map<String, Object> settings) {
        this.log = log;
        this.id = id;
        this.settings = new HashMap<>(settings);
        this.settings.put("bootstrap.servers", bootstrap);
        this.settings.put("transactional.id", id);
    }

    /** The first incarnation, or the next one, which ends what the one before has left open. */
    void open() {
        while (true) {
            incarnation++;
            producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
            try {
                call("init", producer::initTransactions);
                return;
            } catch (Exception e) {
                close();
                pause(200);
            }
        }
    }

    /** As a process that dies: what is open stays so. */
    void close() {
        producer.close(Duration.ZERO);
    }

    /** Runs one transaction to its end, which is an abort if `abort` or if a call fails. Returns whether it is committed. */
    boolean transact(boolean abort, Body body) {
        try {
            begin();
            body.run();
            if (!abort) {
                commit();
                return true;
            }
        } catch (Exception e) {
            // Logged by the call that failed.
        }
        try {
            call("abort", producer::abortTransaction);
        } catch (Exception e) {
            close();
            open();
        }
        return false;
    }

    /** Leaves a transaction open and opens the next incarnation. Where `returns`, the old one then tries to commit. */
    void abandon(boolean returns, Body body) {
        try {
            begin();
            body.run();
            producer.flush();
        } catch (Exception e) {
            // It is abandoned all the same.
        }
        KafkaProducer<String, String> old = producer;
        int oldIncarnation = incarnation;
        if (!returns) {
            close();
        }
        open();
        if (returns) {
            try {
                call("commit", oldIncarnation, old::commitTransaction);
            } catch (Exception e) {
                // It has been fenced off.
            }
            old.close(Duration.ZERO);
        }
    }

    private void begin() throws Exception {
        transaction++;
        sent = 0;
        call("begin", producer::beginTransaction);
    }

    void commit() throws Exception {
        call("commit", producer::commitTransaction);
    }

    /** Sends a record that names its transaction and its place therein, and the input that it was made of, if any. */
    void send(String topic, int partition, String input) {
        String value = id + ":" + transaction + ":" + sent++ + (input == null ? "" : ":" + input);
        double from = CallLog.now();
        int sender = incarnation;
        int within = transaction;
        try {
            producer.send(new ProducerRecord<>(topic, partition, null, value),
                (metadata, error) -> sent(sender, within, from, topic, partition, value, error));
        } catch (RuntimeException e) {
            sent(sender, within, from, topic, partition, value, e);
            throw e;
        }
    }

    private void sent(int sender, int within, double from, String topic, int partition, String value, Exception error) {
        log.write("send", "producer", id, "incarnation", sender, "transaction", within, "from", from, "to", CallLog.now(),
            "outcome", outcome(error), "error", kind(error), "topic", topic, "partition", partition, "value", value);
    }

    void flush() {
        producer.flush();
    }

    void sendOffsets(Map<TopicPartition, OffsetAndMetadata> offsets, ConsumerGroupMetadata group) throws Exception {
        call("offsets", incarnation, () -> producer.sendOffsetsToTransaction(offsets, group), offsets);
    }

    private void call(String name, Body action) throws Exception {
        call(name, incarnation, action);
    }

    private void call(String name, int caller, Body action) throws Exception {
        call(name, caller, action, Collections.emptyMap());
    }

    /** A call that times out has to be repeated: its transaction can be ended in no other way. */
    private void call(String name, int caller, Body action, Map<TopicPartition, OffsetAndMetadata> offsets) throws Exception {
        double from = CallLog.now();
        Exception failed = null;
        do {
            try {
                action.run();
                failed = null;
            } catch (Exception e) {
                failed = e;
            }
        } while (failed instanceof TimeoutException && CallLog.now() - from < GIVE_UP_S);
        Map<String, Long> positions = new TreeMap<>();
        offsets.forEach((partition, offset) -> positions.put(partition.toString(), offset.offset()));
        log.write(name, "producer", id, "incarnation", caller, "transaction", transaction, "from", from, "to", CallLog.now(),
            "outcome", outcome(failed), "error", kind(failed), "offsets", positions);
        if (failed != null) {
            throw failed;
        }
    }

    private static String outcome(Exception error) {
        return error == null ? "ok" : error instanceof TimeoutException ? "unknown" : "failed";
    }

    private static String kind(Exception error) {
        return error == null ? null : Session.kind(error);
    }

    static void pause(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
