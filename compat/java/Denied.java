import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.ResourceType;

/** What a user without rights is told, whatever it asks for. What is not there is answered as what may not be seen. Ways: an
 *  administrator, then the user. */
public final class Denied implements Scenario {
    @Override
    public void run(Session session) throws Exception {
        List<Ways.Way> ways = Ways.of(session);
        Admin admin = session.own(ways.get(0).admin());
        Ways.Way way = ways.get(1);
        String closed = session.topic(admin, "closed", 2);
        String absent = session.name("absent");
        String group = session.name("members");
        Uuid id = admin.describeTopics(List.of(closed)).allTopicNames().get().get(closed).topicId();
        Admin user = session.own(way.admin());
        TopicPartition first = new TopicPartition(closed, 0);

        session.say("-- the cluster");
        session.say("nodes: %d", user.describeCluster().nodes().get().size());
        session.say("topics: %s", user.listTopics().names().get());
        session.say("groups: %s", user.listGroups().all().get());
        session.say("transactions: %s", user.listTransactions().all().get());
        session.attempt("features", () -> user.describeFeatures().featureMetadata().get());
        session.attempt("update features", () -> user.updateFeatures(Map.of("group.version", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions().validateOnly(true)).all().get());
        session.attempt("quorum", () -> user.describeMetadataQuorum().quorumInfo().get());
        session.attempt("unregister broker", () -> user.unregisterBroker(99).all().get());
        session.attempt("log dirs", () -> user.describeLogDirs(List.of(1)).allDescriptions().get().get(1).keySet());
        session.attempt("config resources", () -> user.listConfigResources().all().get());
        session.attempt("describe ACLs", () -> user.describeAcls(AclBindingFilter.ANY).values().get());
        AclChanges acls = new AclChanges(session, user, "User:alice");
        session.attempt("create ACL", () -> user.createAcls(List.of(acls.allow(ResourceType.TOPIC, closed, AclOperation.ALL))).all().get());
        session.attempt("delete ACLs", () -> user.deleteAcls(List.of(AclBindingFilter.ANY)).all().get());
        session.attempt("describe users", () -> user.describeUserScramCredentials().all().get());
        session.attempt("delete user", () -> user.alterUserScramCredentials(List.of(new UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_256))).all().get());
        session.attempt("describe quotas", () -> user.describeClientQuotas(ClientQuotaFilter.all()).entities().get());
        var quota = new ClientQuotaAlteration(new ClientQuotaEntity(Map.of("user", "alice")), List.of(new ClientQuotaAlteration.Op("request_percentage", 1e6)));
        session.attempt("alter quotas", () -> user.alterClientQuotas(List.of(quota)).all().get());
        for (var type : List.of(ConfigResource.Type.BROKER, ConfigResource.Type.BROKER_LOGGER)) {
            ConfigResource broker = new ConfigResource(type, "1");
            session.attempt("describe configs of " + type, () -> user.describeConfigs(List.of(broker)).all().get());
            session.attempt("alter configs of " + type, () -> alter(user, broker, "message.max.bytes"));
        }
        session.attempt("reassignments", () -> user.listPartitionReassignments().reassignments().get());

        for (String topic : List.of(closed, absent)) {
            TopicPartition partition = new TopicPartition(topic, 0);
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            session.say("-- %s", topic);
            session.attempt("describe", () -> user.describeTopics(List.of(topic)).allTopicNames().get());
            session.attempt("create", () -> user.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get());
            session.attempt("delete", () -> user.deleteTopics(List.of(topic)).all().get());
            session.attempt("partitions", () -> user.createPartitions(Map.of(topic, NewPartitions.increaseTo(9))).all().get());
            session.attempt("delete records", () -> user.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(0))).all().get());
            session.attempt("offsets", () -> offset(user, partition));
            session.attempt("describe configs", () -> user.describeConfigs(List.of(resource)).all().get());
            session.attempt("alter configs", () -> alter(user, resource, "retention.ms"));
            session.attempt("elect", () -> user.electLeaders(ElectionType.PREFERRED, Set.of(partition)).all().get());
            session.attempt("reassign", () -> user.alterPartitionReassignments(Map.of(partition, Optional.of(new NewPartitionReassignment(List.of(1))))).all().get());
            session.attempt("reassignments of it", () -> user.listPartitionReassignments(Set.of(partition)).reassignments().get());
            session.attempt("producers", () -> user.describeProducers(List.of(partition)).all().get());
            session.attempt("write", () -> write(way, topic, Map.of("enable.idempotence", false)));
            session.attempt("write, idempotent", () -> write(way, topic, Map.of()));
            session.attempt("read", () -> read(way, partition));
        }
        for (Uuid topicId : List.of(id, Uuid.fromString("AAAAAAAAAAAAAAAAAAAAKg"))) {
            session.say("-- by the id of %s", topicId.equals(id) ? closed : absent);
            session.attempt("describe", () -> user.describeTopics(TopicCollection.ofTopicIds(List.of(topicId))).allTopicIds().get());
            session.attempt("delete", () -> user.deleteTopics(TopicCollection.ofTopicIds(List.of(topicId))).all().get());
        }

        session.say("-- groups");
        session.attempt("describe", () -> user.describeConsumerGroups(List.of(group)).all().get());
        session.attempt("describe, classic", () -> user.describeClassicGroups(List.of(group)).all().get());
        session.attempt("offsets", () -> user.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get());
        session.attempt("alter offsets", () -> user.alterConsumerGroupOffsets(group, Map.of(first, new OffsetAndMetadata(0))).all().get());
        session.attempt("delete offsets", () -> user.deleteConsumerGroupOffsets(group, Set.of(first)).all().get());
        session.attempt("delete", () -> user.deleteConsumerGroups(List.of(group)).all().get());
        ConfigResource configs = new ConfigResource(ConfigResource.Type.GROUP, group);
        session.attempt("describe configs", () -> user.describeConfigs(List.of(configs)).all().get());
        session.attempt("alter configs", () -> alter(user, configs, "consumer.session.timeout.ms"));
        session.attempt("commit", () -> commit(way, group, first));
        session.attempt("join, classic", () -> join(way, Map.of("group.id", group), member -> member.subscribe(List.of(closed))));
        // By a pattern: a name is refused as well as the group, and which refusal comes first is a matter of chance.
        SubscriptionPattern pattern = new SubscriptionPattern(closed);
        session.attempt("join, consumer", () -> join(way, Map.of("group.id", group, "group.protocol", "consumer"), member -> member.subscribe(pattern)));

        session.say("-- transactions");
        session.attempt("begin", () -> begin(way, session.name("writer")));
        session.attempt("describe", () -> user.describeTransactions(List.of(session.name("writer"))).all().get());
        session.attempt("fence", () -> user.fenceProducers(List.of(session.name("writer"))).all().get());
        admin.deleteTopics(List.of(closed)).all().get();
    }

    static ListOffsetsResult.ListOffsetsResultInfo offset(Admin admin, TopicPartition partition) throws Exception {
        return admin.listOffsets(Map.of(partition, OffsetSpec.latest())).all().get().get(partition);
    }

    static Object alter(Admin admin, ConfigResource resource, String name) throws Exception {
        Map<ConfigResource, Collection<AlterConfigOp>> change = Map.of(resource, List.of(new AlterConfigOp(new ConfigEntry(name, "50000"), AlterConfigOp.OpType.SET)));
        return admin.incrementalAlterConfigs(change).all().get();
    }

    static Object write(Ways.Way way, String topic, Map<String, ?> settings) throws Exception {
        try (KafkaProducer<String, String> producer = way.producer(settings)) {
            return producer.send(new ProducerRecord<>(topic, "value")).get();
        } catch (KafkaException e) {
            // A producer that has been refused already says only that it has failed.
            throw e.getCause() instanceof AuthorizationException refusal ? refusal : e;
        }
    }

    static Object begin(Ways.Way way, String id) {
        try (KafkaProducer<String, String> producer = way.producer(Map.of("transactional.id", id))) {
            producer.initTransactions();
        }
        return null;
    }

    /** Reads from the beginning; an empty partition is read when its end is known. */
    static Object read(Ways.Way way, TopicPartition partition) {
        try (KafkaConsumer<String, String> consumer = way.consumer(Map.of())) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            // Without a right to the topic the first answer says so.
            return consumer.poll(Duration.ofSeconds(2));
        }
    }

    static Object commit(Ways.Way way, String group, TopicPartition partition) {
        try (KafkaConsumer<String, String> consumer = way.consumer(Map.of("group.id", group))) {
            consumer.assign(List.of(partition));
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(0)));
        }
        return null;
    }

    static Object join(Ways.Way way, Map<String, ?> settings, Consumer<KafkaConsumer<String, String>> subscribe) {
        try (KafkaConsumer<String, String> consumer = way.consumer(settings)) {
            subscribe.accept(consumer);
            for (int round = 0; round < 50 && consumer.assignment().isEmpty(); round++) {
                consumer.poll(Duration.ofMillis(100));
            }
            return consumer.assignment();
        }
    }
}
