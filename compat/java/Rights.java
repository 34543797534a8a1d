import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourceType;

/** What some ACLs allow, each set of them by itself. Ways: an administrator, then the user "alice". */
public final class Rights implements Scenario {
    @Override
    public void run(Session session) throws Exception {
        List<Ways.Way> ways = Ways.of(session);
        Admin admin = session.own(ways.get(0).admin());
        Ways.Way alice = ways.get(1);
        Admin user = session.own(alice.admin());
        String topic = session.topic(admin, "ledger", 1);
        String group = session.name("auditors");
        AclChanges acls = new AclChanges(session, admin, "User:alice");
        AclChanges everybody = new AclChanges(session, admin, "User:*");
        ResourceType topics = ResourceType.TOPIC;
        AclBinding read = acls.allow(topics, topic, AclOperation.READ);

        Map<String, AclBinding[]> sets = new LinkedHashMap<>();
        sets.put("nothing", new AclBinding[] {});
        for (AclOperation operation : List.of(AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE,
            AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS, AclOperation.ALL)) {
            sets.put("topic " + operation, new AclBinding[] {acls.allow(topics, topic, operation)});
        }
        sets.put("topic READ by prefix", new AclBinding[] {acls.prefixed(topics, topic.substring(0, 3), AclOperation.READ)});
        sets.put("topic READ by star", new AclBinding[] {acls.allow(topics, "*", AclOperation.READ)});
        sets.put("topic READ for everybody", new AclBinding[] {everybody.allow(topics, topic, AclOperation.READ)});
        sets.put("topic READ from another host", new AclBinding[] {AclChanges.binding(topics, topic, PatternType.LITERAL, "User:alice", "10.0.0.1", AclOperation.READ, AclPermissionType.ALLOW)});
        sets.put("topic READ from this host", new AclBinding[] {AclChanges.binding(topics, topic, PatternType.LITERAL, "User:alice", "127.0.0.1", AclOperation.READ, AclPermissionType.ALLOW)});
        sets.put("topic READ for another", new AclBinding[] {new AclChanges(session, admin, "User:bob").allow(topics, topic, AclOperation.READ)});
        sets.put("topic ALL, READ denied", new AclBinding[] {acls.allow(topics, topic, AclOperation.ALL), acls.deny(topics, topic, AclOperation.READ)});
        sets.put("topic ALL, DESCRIBE denied", new AclBinding[] {acls.allow(topics, topic, AclOperation.ALL), acls.deny(topics, topic, AclOperation.DESCRIBE)});
        sets.put("topic READ, all denied by star", new AclBinding[] {read, acls.deny(topics, "*", AclOperation.ALL)});
        sets.put("topic READ, all denied to everybody", new AclBinding[] {read, everybody.deny(topics, topic, AclOperation.ALL)});
        sets.put("group READ", new AclBinding[] {acls.allow(ResourceType.GROUP, group, AclOperation.READ)});
        sets.put("group and topic READ", new AclBinding[] {read, acls.allow(ResourceType.GROUP, group, AclOperation.READ)});
        sets.put("group ALL", new AclBinding[] {acls.allow(ResourceType.GROUP, group, AclOperation.ALL)});
        for (AclOperation operation : List.of(AclOperation.CREATE, AclOperation.DESCRIBE, AclOperation.IDEMPOTENT_WRITE, AclOperation.ALL)) {
            sets.put("cluster " + operation, new AclBinding[] {acls.allow(ResourceType.CLUSTER, "kafka-cluster", operation)});
        }
        sets.put("transactional id WRITE", new AclBinding[] {acls.allow(ResourceType.TRANSACTIONAL_ID, session.name("teller"), AclOperation.WRITE)});
        sets.put("topic and transactional id WRITE", new AclBinding[] {acls.allow(topics, topic, AclOperation.WRITE), acls.allow(ResourceType.TRANSACTIONAL_ID, session.name("teller"), AclOperation.WRITE)});

        TopicPartition partition = new TopicPartition(topic, 0);
        for (var set : sets.entrySet()) {
            session.say("-- %s", set.getKey());
            acls.create(set.getValue());
            session.say("topics: %s", user.listTopics().names().get().contains(topic));
            session.say("operations on the cluster: %s", Session.sorted(user.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true)).authorizedOperations().get()));
            operations(session, "the topic", () -> user.describeTopics(List.of(topic), new DescribeTopicsOptions().includeAuthorizedOperations(true)).allTopicNames().get().get(topic).authorizedOperations());
            operations(session, "the group", () -> user.describeConsumerGroups(List.of(group), new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)).all().get().get(group).authorizedOperations());
            Map<String, Callable<?>> probes = new LinkedHashMap<>();
            probes.put("read", () -> Denied.read(alice, partition));
            probes.put("write", () -> Denied.write(alice, topic, Map.of("enable.idempotence", false)));
            probes.put("write, idempotent", () -> Denied.write(alice, topic, Map.of()));
            probes.put("commit", () -> Denied.commit(alice, group, partition));
            probes.put("offset", () -> Denied.offset(user, partition));
            probes.put("begin", () -> Denied.begin(alice, session.name("teller")));
            probes.put("configs", () -> user.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.TOPIC, topic))).all().get());
            probes.put("alter", () -> Denied.alter(user, new ConfigResource(ConfigResource.Type.TOPIC, topic), "retention.ms"));
            probes.put("truncate", () -> user.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(0))).all().get());
            probes.put("create", () -> user.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get());
            for (var probe : probes.entrySet()) {
                session.attempt(probe.getKey(), probe.getValue());
            }
            acls.remove(set.getValue());
        }
        admin.deleteTopics(List.of(topic)).all().get();
    }

    private static void operations(Session session, String what, Callable<?> operations) {
        try {
            session.say("operations on %s: %s", what, Session.sorted((Collection<?>) operations.call()));
        } catch (Exception e) {
            session.say("operations on %s: %s", what, Session.kind(e));
        }
    }
}
