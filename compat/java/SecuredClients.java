import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** A topic that is created, written with a transaction, read by a group and deleted, by each of the ways to connect. */
public final class SecuredClients implements Scenario {
    @Override
    public void run(Session session) throws Exception {
        for (Ways.Way way : Ways.of(session)) {
            String topic = session.name("secured");
            try (Admin admin = way.admin()) {
                admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1))).all().get();
                session.until("the topic", () -> admin.describeTopics(List.of(topic)).allTopicNames().get().size() == 1);
                long written;
                try (KafkaProducer<String, String> producer = way.producer(Map.of("transactional.id", topic))) {
                    producer.initTransactions();
                    producer.beginTransaction();
                    producer.send(new ProducerRecord<>(topic, 0, null, "one"));
                    written = producer.send(new ProducerRecord<>(topic, 1, null, "two")).get().offset();
                    producer.commitTransaction();
                }
                try (KafkaConsumer<String, String> consumer = way.consumer(Map.of("group.id", topic))) {
                    consumer.subscribe(List.of(topic));
                    var read = session.poll(consumer, 2).stream().map(record -> record.value()).sorted().toList();
                    consumer.commitSync();
                    session.say("%s: last offset %d, read %s", way.title(), written, read);
                }
                admin.deleteConsumerGroups(List.of(topic)).all().get();
                admin.deleteTopics(List.of(topic)).all().get();
                session.until("the end of the topic", () -> !admin.listTopics().names().get().contains(topic));
            }
        }
    }
}
