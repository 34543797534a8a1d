// Prints random groups with the assignments that Apache Kafka's own assignors make for them, for assignor/tests.rs. To
// regenerate after a new version:
//   java -cp 'KAFKA_LIBS/*' Assignments.java > assignments.txt
// A line is: assignor, topics (number:partitions), and for each member id/instance/topics/before/after, where before
// and after are topic:partition+partition. Numbers of topics are the low half of their ids.

import java.util.*;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;

public class Assignments {
    static class Member {
        String id;
        String instance;
        Set<Uuid> topics = new TreeSet<>();
        Map<Uuid, Set<Integer>> assigned = new TreeMap<>();
    }

    static final Random RANDOM = new Random(848);

    public static void main(String[] args) {
        for (int group = 0; group < 150; group++) {
            for (ConsumerGroupPartitionAssignor assignor : List.of(new UniformAssignor(), new RangeAssignor())) run(assignor);
        }
    }

    /** A group that changes a few times, with what it had before. */
    static void run(ConsumerGroupPartitionAssignor assignor) {
        Map<Uuid, Integer> topics = new TreeMap<>();
        int topicCount = 1 + RANDOM.nextInt(5);
        for (int topic = 1; topic <= topicCount; topic++) topics.put(new Uuid(0, topic), 1 + RANDOM.nextInt(9));
        boolean equal = RANDOM.nextBoolean();
        Set<Uuid> shared = subscription(topics);
        Map<String, Member> members = new TreeMap<>();
        for (int step = 0; step < 3; step++) {
            int joining = step == 0 ? 1 + RANDOM.nextInt(6) : RANDOM.nextInt(3);
            for (int i = 0; i < joining; i++) {
                Member member = new Member();
                member.id = "m" + RANDOM.nextInt(100);
                member.instance = RANDOM.nextInt(3) == 0 ? "i" + RANDOM.nextInt(100) : null;
                if (members.containsKey(member.id) || members.values().stream().anyMatch(other ->
                        member.instance != null && member.instance.equals(other.instance))) continue;
                member.topics = equal ? shared : subscription(topics);
                members.put(member.id, member);
            }
            if (step > 0 && members.size() > 1 && RANDOM.nextBoolean()) {
                members.remove(new ArrayList<>(members.keySet()).get(RANDOM.nextInt(members.size())));
            }
            if (step > 0 && RANDOM.nextInt(3) == 0) topics.replaceAll((topic, count) -> count + RANDOM.nextInt(3));
            if (step > 0 && RANDOM.nextInt(3) == 0) {
                shared = subscription(topics);
                for (Member member : members.values()) {
                    if (equal) member.topics = shared;
                    else if (RANDOM.nextBoolean()) member.topics = subscription(topics);
                }
            }
            assign(assignor, topics, members);
        }
    }

    static Set<Uuid> subscription(Map<Uuid, Integer> topics) {
        Set<Uuid> subscription = new TreeSet<>();
        for (Uuid topic : topics.keySet()) if (RANDOM.nextInt(4) != 0) subscription.add(topic);
        if (subscription.isEmpty()) subscription.add(topics.keySet().iterator().next());
        return subscription;
    }

    static void assign(ConsumerGroupPartitionAssignor assignor, Map<Uuid, Integer> topics, Map<String, Member> members) {
        Map<String, MemberSubscriptionAndAssignmentImpl> specs = new TreeMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        members.forEach((id, member) -> {
            specs.put(id, new MemberSubscriptionAndAssignmentImpl(Optional.empty(), Optional.ofNullable(member.instance),
                member.topics, new Assignment(Collections.unmodifiableMap(member.assigned))));
            member.assigned.forEach((topic, partitions) -> partitions.forEach(partition ->
                inverted.computeIfAbsent(topic, __ -> new HashMap<>()).put(partition, id)));
        });
        boolean equal = members.values().stream().map(member -> member.topics).distinct().count() == 1;
        GroupAssignment assignment = assignor.assign(
            new GroupSpecImpl(specs, equal ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS, inverted,
                Optional.empty()),
            new SubscribedTopicDescriber() {
                @Override public int numPartitions(Uuid topicId) {
                    return topics.getOrDefault(topicId, -1);
                }

                @Override public Set<String> racksForPartition(Uuid topicId, int partition) {
                    return Set.of();
                }
            });
        StringBuilder line = new StringBuilder(assignor.name()).append(' ').append(topics.entrySet().stream()
            .map(topic -> number(topic.getKey()) + ":" + topic.getValue()).collect(Collectors.joining(",")));
        members.forEach((id, member) -> {
            line.append(' ').append(id).append('/').append(member.instance == null ? "" : member.instance).append('/')
                .append(member.topics.stream().map(Assignments::number).collect(Collectors.joining(",")))
                .append('/').append(text(member.assigned));
            MemberAssignment after = assignment.members().get(id);
            member.assigned = new TreeMap<>();
            if (after != null) after.partitions().forEach((topic, partitions) ->
                member.assigned.put(topic, new TreeSet<>(partitions)));
            line.append('/').append(text(member.assigned));
        });
        System.out.println(line);
    }

    static String number(Uuid topic) {
        return Long.toString(topic.getLeastSignificantBits());
    }

    static String text(Map<Uuid, Set<Integer>> assigned) {
        return assigned.entrySet().stream().map(topic -> number(topic.getKey()) + ":" + topic.getValue().stream()
            .map(String::valueOf).collect(Collectors.joining("+"))).collect(Collectors.joining(","));
    }
}
