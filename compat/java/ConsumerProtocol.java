import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.common.GroupState;

/** What scenarios with the consumer protocol (KIP-848) share: its settings, and how a group looks from outside. */
final class ConsumerProtocol {
    private final Session session;

    ConsumerProtocol(Session session) {
        this.session = session;
    }

    /** The settings of a member of the group. */
    String[] settings(String group, String... more) {
        List<String> settings = new ArrayList<>(List.of("group.protocol=consumer", "group.id=" + session.name(group)));
        settings.addAll(List.of(more));
        return settings.toArray(new String[0]);
    }

    ConsumerGroupDescription described(String group) throws Exception {
        String name = session.name(group);
        return session.admin().describeConsumerGroups(List.of(name)).describedGroups().get(name).get();
    }

    /** Waits until the group consists of these members, and all are where they are to be; says how many partitions each has, and the rest. */
    void settled(String when, Members members, String group, int partitions) throws Exception {
        // Members that are on their way to an assignment may have all partitions, too.
        session.until(when + ", stable", () -> {
            ConsumerGroupDescription description = described(group);
            return description.groupState() == GroupState.STABLE && description.members().size() == members.size();
        });
        members.settled(when, partitions);
        stable(group);
    }

    /** Waits until all members are where they are to be, then says what the group is and who is in it. */
    void stable(String group) throws Exception {
        session.until(group + " to be stable", () -> described(group).groupState() == GroupState.STABLE);
        ConsumerGroupDescription description = described(group);
        Collection<MemberDescription> members = description.members();
        List<String> kinds = members.stream().map(member -> switch (member.upgraded().map(String::valueOf).orElse("unknown")) {
            case "true" -> "consumer";
            case "false" -> "classic";
            default -> "member";
        }).sorted().toList();
        boolean reached = members.stream().allMatch(member -> member.memberEpoch().equals(description.targetAssignmentEpoch()));
        boolean apart = members.stream().allMatch(member -> member.targetAssignment().isEmpty() || member.targetAssignment().get().equals(member.assignment()));
        session.say("%s is %s, assignor %s, members %s, all at the group's epoch %s, with their targets %s", group, description.type(),
            description.partitionAssignor(), kinds, reached, apart);
    }

    /** The sum of the offsets that the group has committed. */
    long committed(String group) throws Exception {
        String name = session.name(group);
        return session.admin().listConsumerGroupOffsets(Map.of(name, new ListConsumerGroupOffsetsSpec())).partitionsToOffsetAndMetadata(name).get()
            .values().stream().mapToLong(offset -> offset.offset()).sum();
    }
}
