import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Offsets that a transaction commits: they move with its records or not at all, and only for members of the present generation. */
public final class OffsetsInTransactions implements Scenario {
    private Session session;
    private Transactional transactional;

    @Override
    public void run(Session session) throws Exception {
        this.session = session;
        transactional = new Transactional(session);
        String input = session.topic("input", 2);
        KafkaProducer<String, String> filler = session.producer();
        for (int number = 0; number < 40; number++) {
            filler.send(new ProducerRecord<>(input, number % 2, null, "r" + number));
        }
        filler.flush();
        consumeTransformProduce(input);
        besideOtherCommits(input);
        ofOldMembers(input);
    }

    private void consumeTransformProduce(String input) throws Exception {
        String output = session.topic("output", 1);
        String group = session.name("workers");
        KafkaProducer<String, String> producer = transactional.producer("worker");
        producer.initTransactions();
        int aborted = 0;
        try (KafkaConsumer<String, String> member = transactional.committedReader("group.id=" + group, "max.poll.records=7")) {
            member.subscribe(List.of(input));
            for (int round = 0, left = 40; left > 0; round++) {
                List<ConsumerRecord<String, String>> records = session.poll(member, 1);
                producer.beginTransaction();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(output, record.value().toUpperCase()));
                }
                producer.sendOffsetsToTransaction(positions(member), member.groupMetadata());
                if (round % 3 == 1) {
                    producer.flush();
                    producer.abortTransaction();
                    aborted++;
                    rewind(member);
                } else {
                    producer.commitTransaction();
                    left -= records.size();
                }
            }
        }
        session.say("aborted some: %s", aborted > 1);
        session.say("written once: %s", Session.sorted(transactional.committed(output, 1)));
        show("all of the input", group, false);
    }

    private void besideOtherCommits(String input) throws Exception {
        TopicPartition first = new TopicPartition(input, 0);
        String group = session.name("alone");
        KafkaProducer<String, String> producer = transactional.producer("loner");
        producer.initTransactions();
        producer.beginTransaction();
        producer.sendOffsetsToTransaction(Map.of(first, new OffsetAndMetadata(3, "first")), new ConsumerGroupMetadata(group));
        show("pending", group, false);
        // A reader may not go on from offsets that a transaction is about to move.
        session.attempt("pending, asked by a consumer", () -> session.consumer("group.id=" + group).committed(Set.of(first), Duration.ofMillis(700)));
        producer.commitTransaction();
        transactional.ended("loner");
        show("committed", group, true);

        producer.beginTransaction();
        producer.sendOffsetsToTransaction(Map.of(first, new OffsetAndMetadata(5, "in the transaction")), new ConsumerGroupMetadata(group));
        session.attempt("another commit while it is pending",
            () -> session.admin().alterConsumerGroupOffsets(group, Map.of(first, new OffsetAndMetadata(7, "after"))).all().get());
        show("both", group, false);
        producer.commitTransaction();
        transactional.ended("loner");
        show("the later one stays", group, true);

        producer.beginTransaction();
        producer.sendOffsetsToTransaction(Map.of(first, new OffsetAndMetadata(9)), new ConsumerGroupMetadata(group));
        producer.abortTransaction();
        transactional.ended("loner");
        show("aborted", group, true);

        producer.beginTransaction();
        producer.sendOffsetsToTransaction(Map.of(first, new OffsetAndMetadata(11)), new ConsumerGroupMetadata(group));
        session.attempt("deleting the group while it is pending", () -> session.admin().deleteConsumerGroups(List.of(group)).all().get());
        show("deleted", group, false);
        producer.commitTransaction();
        transactional.ended("loner");
        show("committed after the deletion", group, true);
    }

    /** A generation that is over, a member that is gone, one that never was. */
    private void ofOldMembers(String input) throws Exception {
        TopicPartition first = new TopicPartition(input, 0);
        Map<TopicPartition, OffsetAndMetadata> moved = Map.of(first, new OffsetAndMetadata(1));
        String group = session.name("crew");
        KafkaProducer<String, String> producer = transactional.producer("sailor");
        producer.initTransactions();
        ConsumerGroupMetadata present;
        try (KafkaConsumer<String, String> member = session.consumer("group.id=" + group, "group.instance.id=first-mate")) {
            member.subscribe(List.of(input));
            session.poll(member, 1);
            present = member.groupMetadata();
            commit("of the member", producer, moved, present);
            commit("of an older generation", producer, moved,
                new ConsumerGroupMetadata(group, present.generationId() - 1, present.memberId(), present.groupInstanceId()));
            commit("of a later generation", producer, moved,
                new ConsumerGroupMetadata(group, present.generationId() + 1, present.memberId(), present.groupInstanceId()));
            commit("of an unknown member", producer, moved,
                new ConsumerGroupMetadata(group, present.generationId(), "nobody", Optional.empty()));
            commit("of another member with this instance id", producer, moved,
                new ConsumerGroupMetadata(group, present.generationId(), "nobody", present.groupInstanceId()));
            commit("of an outsider", producer, moved, new ConsumerGroupMetadata(group));
        }
        session.admin().removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions()).all().get();
        commit("of a member that left", producer, moved, present);
        commit("of a group that never was", producer, moved,
            new ConsumerGroupMetadata(session.name("ghosts"), 3, "nobody", Optional.empty()));
        KafkaProducer<String, String> impatient = transactional.producer("impatient", "max.block.ms=1000");
        impatient.initTransactions();
        commit("in a topic that is not there", impatient, Map.of(new TopicPartition(session.name("absent"), 0), new OffsetAndMetadata(1)),
            new ConsumerGroupMetadata(group));
    }

    private void commit(String what, KafkaProducer<String, String> producer, Map<TopicPartition, OffsetAndMetadata> offsets, ConsumerGroupMetadata member) {
        producer.beginTransaction();
        session.attempt("offsets " + what, () -> {
            producer.sendOffsetsToTransaction(offsets, member);
            producer.commitTransaction();
            return null;
        });
        session.attempt("abort after that", () -> {
            producer.abortTransaction();
            return null;
        });
    }

    private static Map<TopicPartition, OffsetAndMetadata> positions(KafkaConsumer<String, String> consumer) {
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        consumer.assignment().forEach(partition -> positions.put(partition, new OffsetAndMetadata(consumer.position(partition))));
        return positions;
    }

    private static void rewind(KafkaConsumer<String, String> consumer) {
        consumer.committed(consumer.assignment(), Duration.ofSeconds(20)).forEach((partition, committed) ->
            consumer.seek(partition, committed == null ? new OffsetAndMetadata(0) : committed));
    }

    private Map<TopicPartition, OffsetAndMetadata> offsets(String group, boolean stable) throws Exception {
        var options = new ListConsumerGroupOffsetsOptions().requireStable(stable).timeoutMs(stable ? 700 : 15000);
        return session.admin().listConsumerGroupOffsets(Map.of(group, new ListConsumerGroupOffsetsSpec()), options).partitionsToOffsetAndMetadata(group).get();
    }

    private void show(String when, String group, boolean stable) throws Exception {
        Map<Integer, String> offsets = new TreeMap<>();
        session.until("stable offsets", () -> {
            offsets(group, stable).forEach((partition, offset) -> offsets.put(partition.partition(), offset.offset() + " '" + offset.metadata() + "'"));
            return true;
        });
        session.say("%s: %s", when, offsets);
    }
}
