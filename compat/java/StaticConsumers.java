import java.util.List;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** group.instance.id with the consumer protocol: a member that restarts gets back what it had, a second one with its id is refused. */
public final class StaticConsumers implements Scenario {
    @Override
    public void run(Session session) throws Exception {
        ConsumerProtocol protocol = new ConsumerProtocol(session);
        String topic = session.topic("fixed", 4);
        String group = session.name("static");
        try (Members members = new Members(session)) {
            Members.Member stays = members.join(topic, instance(protocol, "a"));
            Members.Member restarts = members.join(topic, instance(protocol, "b"));
            members.settled("two members", 4);
            protocol.stable("static");
            List<TopicPartition> before = restarts.held;
            int assignments = stays.assignments.get();
            restarts.leave();
            show(session, protocol);
            Members.Member again = members.join(topic, instance(protocol, "b"));
            members.settled("b is back", 4);
            protocol.stable("static");
            session.say("same partitions %s, rebalances of a meanwhile %d", again.held.equals(before), stays.assignments.get() - assignments);
            show(session, protocol);

            KafkaConsumer<String, String> twin = session.consumer(instance(protocol, "b"));
            twin.subscribe(List.of(topic));
            session.attempt("its twin", () -> session.poll(twin, 1));
            members.settled("b goes on", 4);
            session.say("b failed: %s", again.failure != null);

            again.leave();
            session.attempt("removing an instance that is away", () -> remove(session, group, "b"));
            members.settled("b was removed", 4);
            session.attempt("removing an unknown one", () -> remove(session, group, "c"));

            // One that does not come back is put out after its session timeout.
            ConfigResource configs = new ConfigResource(ConfigResource.Type.GROUP, group);
            AlterConfigOp shorter = new AlterConfigOp(new ConfigEntry("consumer.session.timeout.ms", "2000"), AlterConfigOp.OpType.SET);
            session.admin().incrementalAlterConfigs(java.util.Map.of(configs, List.of(shorter))).all().get();
            Members.Member lost = members.join(topic, instance(protocol, "d"));
            members.settled("d is here", 4);
            lost.leave();
            members.settled("d stayed away", 4);
            show(session, protocol);
            members.failures();
        }
    }

    private static String[] instance(ConsumerProtocol protocol, String instance) {
        return protocol.settings("static", "group.instance.id=" + instance, "client.id=" + instance);
    }

    private static Object remove(Session session, String group, String instance) throws Exception {
        var options = new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove(instance)));
        return session.admin().removeMembersFromConsumerGroup(group, options).all().get();
    }

    /** Instances with the number of their partitions; one that left and may come back has a negative epoch. */
    private static void show(Session session, ConsumerProtocol protocol) throws Exception {
        session.say("%s", Session.sorted(protocol.described("static").members().stream().map(member -> member.groupInstanceId().orElse("none") + " "
            + member.assignment().topicPartitions().size() + (member.memberEpoch().orElse(0) < 0 ? " away" : "")).toList()));
    }
}
