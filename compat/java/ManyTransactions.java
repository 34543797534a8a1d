import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;

/**
 * Many producers, each with a transaction that has sent a record and is open. The line "commit" on stdin has a few of them commit, and when
 * they have, all the others at once. One that fails is aborted and tried again until it is committed. The calls are logged for a checker of
 * histories.
 * Arguments: BOOTSTRAP PARTITIONS PRODUCERS.
 */
public final class ManyTransactions {
    private static final Map<String, Object> PRODUCER =
        Map.of("transaction.timeout.ms", 120000, "buffer.memory", 64L << 10, "send.buffer.bytes", 16 << 10, "receive.buffer.bytes", 16 << 10);
    private static final int OPENING_AT_ONCE = 8;
    private static final int EARLY = 24;

    public static void main(String[] args) throws Exception {
        int partitions = Integer.parseInt(args[1]);
        int producers = Integer.parseInt(args[2]);
        var log = new CallLog(System.out);
        var opening = new Semaphore(OPENING_AT_ONCE);
        var open = new CountDownLatch(producers);
        var commit = new CountDownLatch(1);
        var early = new CountDownLatch(Math.min(EARLY, producers));
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < producers; number++) {
            var producer = new LoggedProducer(log, args[0], "many-" + number, PRODUCER);
            int partition = number % partitions;
            boolean isEarly = number < EARLY;
            Thread thread = new Thread(null, () -> {
                opening.acquireUninterruptibly();
                producer.open();
                boolean[] first = {true};
                LoggedProducer.Body body = () -> {
                    producer.send("history", partition, null);
                    producer.flush();
                    if (first[0]) {
                        first[0] = false;
                        opening.release();
                        open.countDown();
                        (isEarly ? commit : early).await();
                    }
                };
                while (!producer.transact(false, body)) {
                    // Its failure is in the log.
                }
                if (isEarly) {
                    early.countDown();
                }
            }, "many-" + number, 256 << 10);
            thread.setDaemon(true);
            thread.start();
            threads.add(thread);
        }
        open.await();
        log.write("open");
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)).readLine();
        commit.countDown();
        for (Thread thread : threads) {
            thread.join();
        }
        log.write("commit all");
        Runtime.getRuntime().halt(0);
    }
}
