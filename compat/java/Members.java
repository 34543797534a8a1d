import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiConsumer;
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
        volatile List<TopicPartition> held = List.of();
        volatile boolean leaving;
        volatile Exception failure;

        Member(BiConsumer<KafkaConsumer<String, String>, ConsumerRebalanceListener> subscribe, String... settings) {
            consumer = session.consumer(settings);
            subscribe.accept(consumer, this);
            thread.start();
        }

        @Override
        public void run() {
            try {
                while (!leaving) {
                    Map<TopicPartition, Long> positions = new HashMap<>();
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(50))) {
                        TopicPartition partition = new TopicPartition(record.topic(), record.partition());
                        seen.computeIfAbsent(record.value(), value -> new AtomicInteger()).incrementAndGet();
                        if (record.offset() < committed.getOrDefault(partition, 0L)) {
                            again.incrementAndGet();
                        }
                        positions.put(partition, record.offset() + 1);
                    }
                    try {
                        consumer.commitSync();
                        positions.forEach((partition, position) -> committed.merge(partition, position, Math::max));
                    } catch (RebalanceInProgressException e) {
                        // The next poll takes part in it, and the next commit covers this one.
                    }
                    held = sorted(consumer.assignment());
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
    /** How many records were delivered although an answered commit covered them. */
    final AtomicInteger again = new AtomicInteger();
    private final Map<TopicPartition, Long> committed = new ConcurrentHashMap<>();

    Members(Session session) {
        this.session = session;
    }

    Member join(String topic, String... settings) {
        return join((consumer, listener) -> consumer.subscribe(List.of(topic), listener), settings);
    }

    Member join(BiConsumer<KafkaConsumer<String, String>, ConsumerRebalanceListener> subscribe, String... settings) {
        Member member = new Member(subscribe, settings);
        members.add(member);
        return member;
    }

    private static List<TopicPartition> sorted(Collection<TopicPartition> partitions) {
        return partitions.stream().sorted(Comparator.comparing(TopicPartition::toString)).toList();
    }

    /** Waits until the members together hold `partitions` partitions, none twice, each at least one; says how many each has. */
    void settled(String when, int partitions) throws Exception {
        session.until(when, () -> {
            List<TopicPartition> all = members.stream().flatMap(m -> m.held.stream()).toList();
            return all.size() == partitions && Set.copyOf(all).size() == partitions && members.stream().noneMatch(m -> m.held.isEmpty());
        });
        session.say("%s: %s", when, members.stream().map(m -> m.held.size()).sorted().toList());
    }

    /** What each has, in an order that does not depend on who has it. */
    List<List<String>> held() {
        return members.stream().map(m -> m.held.stream().map(TopicPartition::toString).toList())
            .sorted(Comparator.comparing(List::toString)).toList();
    }

    int size() {
        return members.size();
    }

    /** How often partitions were given to members that are still there. */
    int assignments() {
        return members.stream().mapToInt(member -> member.assignments.get()).sum();
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
