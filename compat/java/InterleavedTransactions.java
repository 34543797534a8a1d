import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Three producers at once over ten partitions, a third of their transactions aborted: each reader sees the committed ones, whole and in order. */
public final class InterleavedTransactions implements Scenario {
    private static final int PARTITIONS = 10;
    private static final int TRANSACTIONS = 20;

    @Override
    public void run(Session session) throws Exception {
        var transactional = new Transactional(session);
        String topic = session.topic("braid", PARTITIONS);
        String[] writers = {"red", "green", "blue"};
        ExecutorService threads = Executors.newFixedThreadPool(writers.length);
        List<Future<List<String>>> running = new ArrayList<>();
        for (String writer : writers) {
            Callable<List<String>> work = () -> write(transactional, topic, writer);
            running.add(threads.submit(work));
        }
        List<List<String>> expected = new ArrayList<>();
        for (Future<List<String>> one : running) {
            expected.add(one.get());
        }
        threads.shutdown();
        List<String> read = transactional.committed(topic, PARTITIONS);
        for (int number = 0; number < writers.length; number++) {
            String prefix = writers[number] + ":";
            List<String> own = read.stream().filter(value -> value.startsWith(prefix)).toList();
            session.say("%s: committed %d, read %d, the same in the same order %s", writers[number], expected.get(number).size(), own.size(),
                own.equals(expected.get(number)));
        }
        session.say("all records: %d", session.read(session.consumer(), topic, PARTITIONS, writers.length * TRANSACTIONS * 2 * PARTITIONS).size());
    }

    /** Each transaction writes two batches to every partition. Returns what it committed, partition by partition. */
    private static List<String> write(Transactional transactional, String topic, String writer) {
        List<List<String>> committed = new ArrayList<>();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            committed.add(new ArrayList<>());
        }
        KafkaProducer<String, String> producer = transactional.producer(writer);
        producer.initTransactions();
        Random random = new Random(writer.hashCode());
        for (int transaction = 0; transaction < TRANSACTIONS; transaction++) {
            boolean commit = random.nextInt(3) != 0;
            producer.beginTransaction();
            for (int record = 0; record < 2 * PARTITIONS; record++) {
                int partition = record % PARTITIONS;
                String value = writer + ":" + transaction + "." + record;
                producer.send(new ProducerRecord<>(topic, partition, null, value));
                if (record == PARTITIONS) {
                    producer.flush();
                }
                if (commit) {
                    committed.get(partition).add(value);
                }
            }
            if (commit) {
                producer.commitTransaction();
            } else {
                // Else the producer drops what it has not sent yet.
                producer.flush();
                producer.abortTransaction();
            }
        }
        return committed.stream().flatMap(List::stream).toList();
    }
}
