import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;

/** Members of one consumer group, each polling and committing on a thread of its own. */
final class Members implements AutoCloseable {
    final class Member implements Runnable, ConsumerRebalanceListener {
        final KafkaConsumer<String, String> consumer;
        final Thread thread = new Thread(this);
        final AtomicInteger assignments = new AtomicInteger();
        final AtomicInteger revoked = new AtomicInteger();
        volatile List<Integer> held = List.of();
        volatile boolean leaving;
        volatile Exception failure;

        Member(String topic, String... settings) {
            consumer = session.consumer(settings);
            consumer.subscribe(List.of(topic), this);
            thread.start();
        }

        @Override
        public void run() {
            try {
                while (!leaving) {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(50))) {
                        seen.computeIfAbsent(record.value(), value -> new AtomicInteger()).incrementAndGet();
                    }
                    try {
                        consumer.commitSync();
                    } catch (RebalanceInProgressException e) {
                        // The next poll takes part in it, and the next commit covers this one.
                    }
                    held = numbers(consumer.assignment());
                }
            } catch (Exception e) {
                failure = e;
            } finally {
                held = List.of();
                consumer.close(CloseOptions.timeout(Duration.ofSeconds(5)));
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            revoked.addAndGet(partitions.size());
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            assignments.incrementAndGet();
        }

        void leave() throws InterruptedException {
            leaving = true;
            thread.join(10_000);
            members.remove(this);
        }
    }

    private final Session session;
    private final List<Member> members = new ArrayList<>();
    /** How often each value was delivered, over all members. */
    final Map<String, AtomicInteger> seen = new ConcurrentHashMap<>();

    Members(Session session) {
        this.session = session;
    }

    Member join(String topic, String... settings) {
        Member member = new Member(topic, settings);
        members.add(member);
        return member;
    }

    private static List<Integer> numbers(Collection<TopicPartition> partitions) {
        return List.copyOf(new TreeSet<>(partitions.stream().map(TopicPartition::partition).toList()));
    }

    /** Waits until the members together hold `partitions` partitions, none twice, each at least one; says how many each has. */
    void settled(String when, int partitions) throws Exception {
        session.until(when, () -> {
            List<Integer> all = members.stream().flatMap(m -> m.held.stream()).toList();
            return all.size() == partitions && new TreeSet<>(all).size() == partitions && members.stream().noneMatch(m -> m.held.isEmpty());
        });
        session.say("%s: %s", when, members.stream().map(m -> m.held.size()).sorted().toList());
    }

    void until(String what, BooleanSupplier condition) throws Exception {
        session.until(what, condition::getAsBoolean);
    }

    void failures() {
        Map<String, Integer> kinds = new TreeMap<>();
        members.stream().filter(m -> m.failure != null).forEach(m -> kinds.merge(Session.kind(m.failure), 1, Integer::sum));
        session.say("failures: %s", kinds);
    }

    @Override
    public void close() throws Exception {
        for (Member member : List.copyOf(members)) {
            member.leave();
        }
    }
}
