import java.util.List;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.common.TopicPartition;

/** group.instance.id: a member that restarts keeps its partitions without a rebalance; a second one with its id fences the first. */
public final class StaticMembership implements Scenario {
    private static String[] settings(Session session, String instance) {
        return new String[] {"group.id=" + session.name("static"), "group.instance.id=" + instance, "client.id=" + instance, "session.timeout.ms=20000",
            "heartbeat.interval.ms=300", "partition.assignment.strategy=org.apache.kafka.clients.consumer.RangeAssignor"};
    }

    @Override
    public void run(Session session) throws Exception {
        String topic = session.topic("fixed", 4);
        String group = session.name("static");
        try (Members members = new Members(session)) {
            Members.Member stays = members.join(topic, settings(session, "a"));
            Members.Member restarts = members.join(topic, settings(session, "b"));
            members.settled("two members", 4);
            List<TopicPartition> before = restarts.held;
            int assignments = stays.assignments.get();
            restarts.leave();
            Members.Member again = members.join(topic, settings(session, "b"));
            members.settled("b is back", 4);
            session.say("same partitions %s, rebalances of a meanwhile %d", again.held.equals(before), stays.assignments.get() - assignments);
            var described = session.admin().describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
            session.say("%s", Session.sorted(described.members().stream().map(m -> m.groupInstanceId().orElse("none") + " " + m.clientId()).toList()));
            Members.Member twin = members.join(topic, settings(session, "b"));
            members.until("fencing", () -> again.failure != null);
            session.say("the elder b: %s", Session.kind(again.failure));
            again.leave();
            members.settled("its twin", 4);
            twin.leave();
            session.admin().removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("b")))).all().get();
            members.settled("b was removed", 4);
            session.attempt("removing an unknown one", () -> session.admin()
                .removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("c")))).all().get());
            members.failures();
        }
    }
}
