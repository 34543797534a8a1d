import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Offsets of a group of the consumer protocol: who may commit them, with which member epoch, and when nobody else may. */
public final class ConsumerCommits implements Scenario {
    private Session session;
    private ConsumerProtocol protocol;
    private Transactional transactional;
    private TopicPartition first;
    private TopicPartition second;

    @Override
    public void run(Session session) throws Exception {
        this.session = session;
        protocol = new ConsumerProtocol(session);
        transactional = new Transactional(session);
        String topic = session.topic("tape", 2);
        first = new TopicPartition(topic, 0);
        second = new TopicPartition(topic, 1);
        KafkaProducer<String, String> producer = session.producer();
        for (int i = 0; i < 20; i++) {
            producer.send(new ProducerRecord<>(topic, i % 2, null, "r" + i));
        }
        producer.flush();

        KafkaConsumer<String, String> member = session.consumer(protocol.settings("tellers"));
        member.subscribe(List.of(topic));
        session.say("read %d", session.poll(member, 20).size());
        member.commitSync(Map.of(first, new OffsetAndMetadata(4, Optional.of(0), "a note"), second, new OffsetAndMetadata(2)));
        show();
        CompletableFuture<Map<TopicPartition, OffsetAndMetadata>> told = new CompletableFuture<>();
        member.commitAsync((offsets, failure) -> told.complete(failure == null ? offsets : Map.of()));
        session.until("the callback", () -> {
            member.poll(Duration.ofMillis(50));
            return told.isDone();
        });
        session.say("told of %d", told.get().size());
        show();
        outsiders();
        epochs(topic, member);
        member.close();
        session.say("without members: %s", protocol.described("tellers").groupState());
        String group = session.name("tellers");
        session.attempt("altering after", () -> session.admin().alterConsumerGroupOffsets(group, Map.of(first, new OffsetAndMetadata(1))).all().get());
        session.attempt("deleting offsets after", () -> session.admin().deleteConsumerGroupOffsets(group, Set.of(second)).all().get());
        show();
        session.attempt("deleting the group after", () -> session.admin().deleteConsumerGroups(List.of(group)).all().get());
        session.attempt("deleting it again", () -> session.admin().deleteConsumerGroups(List.of(group)).all().get());
        automatically(topic);
    }

    /** What those who are not members may do while there is one. */
    private void outsiders() {
        String group = session.name("tellers");
        for (String kind : new String[] {"classic", "consumer"}) {
            KafkaConsumer<String, String> outsider = session.consumer("group.id=" + group, "group.protocol=" + kind);
            outsider.assign(List.of(first));
            session.say("an outsider, %s, sees %s", kind, outsider.committed(Set.of(first)).get(first).offset());
            session.attempt("an outsider's commit, " + kind, () -> {
                outsider.commitSync(Map.of(first, new OffsetAndMetadata(1)));
                return null;
            });
        }
        session.attempt("altering", () -> session.admin().alterConsumerGroupOffsets(group, Map.of(first, new OffsetAndMetadata(1))).all().get());
        session.attempt("deleting offsets", () -> session.admin().deleteConsumerGroupOffsets(group, Set.of(first)).all().get());
        session.attempt("deleting offsets of another topic",
            () -> session.admin().deleteConsumerGroupOffsets(group, Set.of(new TopicPartition(session.name("absent"), 0))).all().get());
        session.attempt("deleting the group", () -> session.admin().deleteConsumerGroups(List.of(group)).all().get());
    }

    /** A transaction's offsets go with the member epoch that its producer is given: the group's, a later one, an earlier one. */
    private void epochs(String topic, KafkaConsumer<String, String> member) throws Exception {
        ConsumerGroupMetadata now = member.groupMetadata();
        KafkaProducer<String, String> producer = transactional.producer("teller");
        producer.initTransactions();
        commit(producer, "of the member", now, first, 5);
        commit(producer, "of a later epoch", at(now, now.generationId() + 1), first, 6);
        commit(producer, "of an earlier epoch", at(now, now.generationId() - 1), first, 6);
        commit(producer, "of a stranger", new ConsumerGroupMetadata(now.groupId(), now.generationId(), "stranger", Optional.empty()), first, 6);
        commit(producer, "of nobody", new ConsumerGroupMetadata(now.groupId()), first, 6);
        show();
        // Another member takes one of the two partitions.
        try (Members members = new Members(session)) {
            Members.Member other = members.join(topic, protocol.settings("tellers"));
            session.until("a partition each", () -> {
                member.poll(Duration.ofMillis(50));
                return member.assignment().size() == 1 && other.held.size() == 1;
            });
            protocol.stable("tellers");
            TopicPartition kept = member.assignment().iterator().next();
            TopicPartition given = other.held.get(0);
            session.say("both are others' %s", kept.equals(given));
            session.say("epoch went up %s", member.groupMetadata().generationId() > now.generationId());
            commit(producer, "of the former epoch, of what was kept", now, kept, 7);
            commit(producer, "of the former epoch, of what was given up", now, given, 7);
            commit(producer, "of the new epoch, of what was kept", member.groupMetadata(), kept, 8);
            commit(producer, "of the new epoch, of what was given up", member.groupMetadata(), given, 8);
        }
        producer.close();
        session.until("both partitions", () -> {
            member.poll(Duration.ofMillis(50));
            return member.assignment().size() == 2;
        });
    }

    private static ConsumerGroupMetadata at(ConsumerGroupMetadata member, int epoch) {
        return new ConsumerGroupMetadata(member.groupId(), epoch, member.memberId(), member.groupInstanceId());
    }

    private void commit(KafkaProducer<String, String> producer, String what, ConsumerGroupMetadata metadata, TopicPartition partition, long offset)
        throws Exception {
        producer.beginTransaction();
        try {
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(offset)), metadata);
            producer.commitTransaction();
            session.say("%s: ok", what);
        } catch (Exception e) {
            session.say("%s: %s", what, Session.kind(e));
            producer.abortTransaction();
        }
        transactional.ended("teller");
    }

    private void automatically(String topic) throws Exception {
        KafkaConsumer<String, String> auto = session.consumer(protocol.settings("auto", "enable.auto.commit=true", "auto.commit.interval.ms=100"));
        auto.subscribe(List.of(topic));
        session.say("auto-commit read %d", session.poll(auto, 20).size());
        auto.close();
        session.say("auto-committed %d", protocol.committed("auto"));
    }

    private void show() throws Exception {
        String group = session.name("tellers");
        Map<Integer, String> offsets = new TreeMap<>();
        session.admin().listConsumerGroupOffsets(Map.of(group, new ListConsumerGroupOffsetsSpec())).partitionsToOffsetAndMetadata(group).get()
            .forEach((partition, offset) -> offsets.put(partition.partition(), offset.offset() + " '" + offset.metadata() + "' epoch " + offset.leaderEpoch().orElse(-1)));
        session.say("committed: %s", offsets);
    }
}
