import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Committed offsets: by members, by outsiders, through the admin client; their metadata, resumption, deletion and refusals. */
public final class Commits implements Scenario {
    @Override
    public void run(Session session) throws Exception {
        String topic = session.topic("tape", 2);
        String group = session.name("listeners");
        TopicPartition first = new TopicPartition(topic, 0);
        TopicPartition second = new TopicPartition(topic, 1);
        KafkaProducer<String, String> producer = session.producer();
        for (int i = 0; i < 20; i++) {
            producer.send(new ProducerRecord<>(topic, i % 2, null, "r" + i));
        }
        producer.flush();
        KafkaConsumer<String, String> outsider = session.consumer("group.id=" + group);
        session.say("nothing yet: %s", outsider.committed(java.util.Set.of(first)).get(first));
        outsider.assign(List.of(first, second));
        outsider.commitSync(Map.of(first, new OffsetAndMetadata(3, Optional.of(0), "a note"), second, new OffsetAndMetadata(0)));
        show(session, group);
        session.attempt("metadata too long", () -> {
            outsider.commitSync(Map.of(first, new OffsetAndMetadata(3, "x".repeat(4097))));
            return null;
        });
        session.attempt("unknown topic", () -> {
            outsider.commitSync(Map.of(new TopicPartition(session.name("absent"), 0), new OffsetAndMetadata(1)), Duration.ofSeconds(2));
            return null;
        });
        outsider.close();

        KafkaConsumer<String, String> member = session.consumer("group.id=" + group, "max.poll.records=5");
        member.subscribe(List.of(topic));
        session.say("a member resumes with %s", session.poll(member, 17).stream().filter(r -> r.partition() == 0).map(r -> r.value()).toList());
        member.commitSync();
        show(session, group);
        KafkaConsumer<String, String> intruder = session.consumer("group.id=" + group);
        intruder.assign(List.of(first));
        session.attempt("an outsider while members are there", () -> {
            intruder.commitSync(Map.of(first, new OffsetAndMetadata(1)));
            return null;
        });
        session.attempt("altering while members are there", () -> session.admin().alterConsumerGroupOffsets(group, Map.of(first, new OffsetAndMetadata(1))).all().get());
        session.attempt("deleting offsets while members are there", () -> session.admin().deleteConsumerGroupOffsets(group, java.util.Set.of(first)).all().get());
        session.attempt("deleting the group while members are there", () -> session.admin().deleteConsumerGroups(List.of(group)).all().get());
        member.close();
        session.attempt("altering after", () -> session.admin().alterConsumerGroupOffsets(group, Map.of(first, new OffsetAndMetadata(1))).all().get());
        session.attempt("deleting offsets after", () -> session.admin().deleteConsumerGroupOffsets(group, java.util.Set.of(second)).all().get());
        show(session, group);
        session.attempt("deleting the group after", () -> session.admin().deleteConsumerGroups(List.of(group)).all().get());
        session.attempt("deleting it again", () -> session.admin().deleteConsumerGroups(List.of(group)).all().get());
        show(session, group);

        KafkaConsumer<String, String> auto = session.consumer("group.id=" + session.name("auto"), "enable.auto.commit=true", "auto.commit.interval.ms=100");
        auto.subscribe(List.of(topic));
        session.say("auto-commit read %d", session.poll(auto, 20).size());
        auto.close();
        show(session, session.name("auto"));
    }

    private void show(Session session, String group) throws Exception {
        Map<Integer, String> offsets = new TreeMap<>();
        session.admin().listConsumerGroupOffsets(Map.of(group, new ListConsumerGroupOffsetsSpec())).partitionsToOffsetAndMetadata(group).get()
            .forEach((partition, offset) -> offsets.put(partition.partition(), offset.offset() + " '" + offset.metadata() + "' epoch " + offset.leaderEpoch().orElse(-1)));
        session.say("committed: %s", offsets);
    }
}
