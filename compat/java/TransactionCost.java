import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Transactions one after the other, each with records for every partition, and how long committing them takes: one line of JSON. The first
 * ones are not counted. Above zero, INTERVAL_MS is how long a transaction takes before it is committed, over which its records are spread.
 * Arguments: BOOTSTRAP TOPIC PARTITIONS RECORDS RECORD_SIZE INTERVAL_MS WARM_UP TRANSACTIONS.
 */
public final class TransactionCost {
    public static void main(String[] args) {
        String topic = args[1];
        int[] numbers = Arrays.stream(args).skip(2).mapToInt(Integer::parseInt).toArray();
        int partitions = numbers[0];
        int records = numbers[1];
        byte[] value = new byte[numbers[2]];
        long intervalNs = TimeUnit.MILLISECONDS.toNanos(numbers[3]);
        int warmUp = numbers[4];
        long[] tookNs = new long[numbers[5]];
        Map<String, Object> settings =
            Map.of("bootstrap.servers", args[0], "transactional.id", topic, "key.serializer", ByteArraySerializer.class,
                "value.serializer", ByteArraySerializer.class);
        try (var producer = new KafkaProducer<byte[], byte[]>(settings)) {
            producer.initTransactions();
            long began = 0;
            for (int n = -warmUp; n < tookNs.length; n++) {
                long now = System.nanoTime();
                began = n == 0 ? now : began;
                producer.beginTransaction();
                for (int record = 0; record < records; record++) {
                    if (intervalNs > 0) {
                        sleepUntil(now + intervalNs * record / records);
                    }
                    producer.send(new ProducerRecord<>(topic, record % partitions, null, value));
                }
                long committing = System.nanoTime();
                // Kafka 4.3.1's producer may otherwise send EndTxn before the records: it looks whether there are records to be sent, may
                // then have to wait while they are added, and is told INVALID_TXN_STATE by any broker.
                producer.flush();
                producer.commitTransaction();
                if (n >= 0) {
                    tookNs[n] = System.nanoTime() - committing;
                }
            }
            double seconds = (System.nanoTime() - began) / 1e9;
            Arrays.sort(tookNs);
            System.out.printf("{\"transactions_per_s\": %f, \"commit_p50_us\": %d, \"commit_p99_us\": %d}%n", tookNs.length / seconds,
                tookNs[tookNs.length / 2] / 1000, tookNs[tookNs.length * 99 / 100] / 1000);
        }
    }

    private static void sleepUntil(long timeNs) {
        for (long left = timeNs - System.nanoTime(); left > 0; left = timeNs - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }
}
