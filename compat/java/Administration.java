import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DeleteRecordsOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeProducersOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** The admin client's calls, each with what it returns and what it refuses. */
public final class Administration implements Scenario {
    @Override
    public void run(Session session) throws Exception {
        Admin admin = session.admin();
        cluster(session, admin);
        topics(session, admin);
        partitions(session, admin);
        refusals(session, admin);
    }

    private void cluster(Session session, Admin admin) throws Exception {
        var cluster = admin.describeCluster();
        session.say("nodes %s, controller known %s, cluster id of %d characters", Session.sorted(cluster.nodes().get().stream().map(n -> n.id() + " " + n.rack()).toList()),
            cluster.controller().get() != null, cluster.clusterId().get().length());
        session.say("log directories %d", admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).size());
        session.say("broker settings: %s", admin.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.BROKER, "1"))).all().get().values().iterator().next()
            .get("log.retention.hours").value());
        session.attempt("settings of a broker that is not there", () -> admin.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.BROKER, "9")),
            new DescribeConfigsOptions().timeoutMs(1000)).all().get());
        session.attempt("metadata quorum", () -> {
            var quorum = admin.describeMetadataQuorum().quorumInfo().get();
            session.say("quorum led by %d, voters %d, observers %d", quorum.leaderId(), quorum.voters().size(), quorum.observers().size());
            return null;
        });
        session.attempt("features", () -> admin.describeFeatures().featureMetadata().get());
    }

    private void topics(Session session, Admin admin) throws Exception {
        String name = session.name("made");
        session.attempt("only validated", () -> admin.createTopics(List.of(new NewTopic(name, 3, (short) 1)), new CreateTopicsOptions().validateOnly(true)).all().get());
        session.say("exists: %s", admin.listTopics().names().get().contains(name));
        var made = admin.createTopics(List.of(new NewTopic(name, Optional.of(3), Optional.empty()).configs(Map.of("retention.ms", "12345"))));
        session.say("partitions %d, replicas %d", made.numPartitions(name).get(), made.replicationFactor(name).get());
        session.say("told settings: %s, %d in all", made.config(name).get().get("retention.ms").value(), made.config(name).get().entries().stream().filter(e -> !Set.of("ack.durability", "disk.capacity.policy").contains(e.name())).count());
        session.until("the topic", () -> admin.listTopics().names().get().contains(name));
        TopicDescription described = admin.describeTopics(List.of(name), new DescribeTopicsOptions().includeAuthorizedOperations(true)).allTopicNames().get().get(name);
        session.say("same id: %s, internal %s, operations %s", described.topicId().equals(made.topicId(name).get()), described.isInternal(), Session.sorted(described.authorizedOperations()));
        session.say("by id: %s", admin.describeTopics(TopicCollection.ofTopicIds(List.of(described.topicId()))).allTopicIds().get().get(described.topicId()).partitions().size());
        String assigned = session.name("assigned");
        session.attempt("with assignments", () -> admin.createTopics(List.of(new NewTopic(assigned, Map.of(0, List.of(1), 1, List.of(1))))).all().get());
        session.attempt("with a broker that is not there", () -> admin.createTopics(List.of(new NewTopic(session.name("x1"), Map.of(0, List.of(7))))).all().get());
        session.attempt("with a gap in the assignments", () -> admin.createTopics(List.of(new NewTopic(session.name("x2"), Map.of(1, List.of(1))))).all().get());
        session.attempt("twice in one request", () -> admin.createTopics(List.of(new NewTopic(session.name("x3"), 1, (short) 1), new NewTopic(session.name("x3"), 2, (short) 1))).all().get());
        session.attempt("a name that collides", () -> admin.createTopics(List.of(new NewTopic(session.name("dot.ted"), 1, (short) 1))).all().get());
        session.attempt("with this one", () -> admin.createTopics(List.of(new NewTopic(session.name("dot_ted"), 1, (short) 1))).all().get());
        session.attempt("more partitions, validated", () -> admin.createPartitions(Map.of(name, NewPartitions.increaseTo(4)), new CreatePartitionsOptions().validateOnly(true)).all().get());
        session.attempt("more partitions", () -> admin.createPartitions(Map.of(name, NewPartitions.increaseTo(5, List.of(List.of(1), List.of(1))))).all().get());
        session.attempt("a wrong number of assignments", () -> admin.createPartitions(Map.of(name, NewPartitions.increaseTo(7, List.of(List.of(1))))).all().get());
        session.attempt("fewer partitions", () -> admin.createPartitions(Map.of(name, NewPartitions.increaseTo(2))).all().get());
        session.attempt("delete by id", () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(described.topicId()))).all().get());
        session.until("deletion", () -> !admin.listTopics().names().get().contains(name));
        session.attempt("delete by unknown id", () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(described.topicId()))).all().get());
        session.attempt("describe by unknown id", () -> admin.describeTopics(TopicCollection.ofTopicIds(List.of(described.topicId()))).allTopicIds().get());
        session.attempt("delete what is not there", () -> admin.deleteTopics(List.of(name)).all().get());
    }

    private void partitions(Session session, Admin admin) throws Exception {
        String topic = session.topic("parts", 2);
        TopicPartition first = new TopicPartition(topic, 0);
        session.attempt("elect the preferred leaders", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(first)).all().get());
        session.attempt("elect uncleanly", () -> admin.electLeaders(ElectionType.UNCLEAN, Set.of(first)).all().get());
        session.say("reassignments %d", admin.listPartitionReassignments().reassignments().get().size());
        session.attempt("delete records of nothing", () -> admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(1))).all().get());
        session.attempt("delete no records", () -> admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(0))).all().get());
        session.say("producers %d", admin.describeProducers(List.of(first)).all().get().get(first).activeProducers().size());
        Map<String, Long> ends = new TreeMap<>();
        admin.listOffsets(Map.of(first, OffsetSpec.latest(), new TopicPartition(topic, 1), OffsetSpec.maxTimestamp())).all().get()
            .forEach((p, info) -> ends.put("partition " + p.partition(), info.offset()));
        session.say("ends %s", ends);
        session.attempt("config resources", () -> {
            session.say("topics with settings of their own here: %d", admin.listConfigResources(Set.of(ConfigResource.Type.TOPIC), new ListConfigResourcesOptions()).all().get().stream()
                .filter(r -> r.name().equals(topic)).count());
            return null;
        });
    }

    private void refusals(Session session, Admin admin) {
        TopicPartition absent = new TopicPartition(session.name("absent"), 0);
        session.attempt("offsets of an unknown topic", () -> admin.listOffsets(Map.of(absent, OffsetSpec.latest()), new ListOffsetsOptions().timeoutMs(1000)).all().get());
        session.attempt("records of an unknown topic", () -> admin.deleteRecords(Map.of(absent, RecordsToDelete.beforeOffset(0)), new DeleteRecordsOptions().timeoutMs(1000)).all().get());
        session.attempt("settings of an unknown topic", () -> admin.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.TOPIC, absent.topic()))).all().get());
        session.attempt("description of an unknown topic", () -> admin.describeTopics(List.of(absent.topic())).allTopicNames().get());
        session.attempt("description of an illegal topic", () -> admin.describeTopics(List.of("a/b")).allTopicNames().get());
        session.attempt("partitions for an unknown topic", () -> admin.createPartitions(Map.of(absent.topic(), NewPartitions.increaseTo(2))).all().get());
        session.attempt("election for an unknown topic", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(absent)).all().get());
        session.attempt("producers of an unknown topic", () -> admin.describeProducers(List.of(absent), new DescribeProducersOptions().timeoutMs(1000)).all().get());
        session.attempt("an unknown group", () -> admin.describeConsumerGroups(List.of(session.name("nobody"))).all().get());
        session.attempt("offsets of an unknown group", () -> {
            session.say("%s", admin.listConsumerGroupOffsets(session.name("nobody")).partitionsToOffsetAndMetadata().get());
            return null;
        });
    }
}
