import java.util.List;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.resource.ResourceType;

/** Who the broker takes each of the ways for: every principal may see the topic that is its own. The first way is an administrator. */
public final class Principals implements Scenario {
    private static final List<String> PRINCIPALS = List.of("User:ANONYMOUS", "User:alice", "User:ALICE", "User:bob", "User:*",
        "User:CN=alice,OU=Clients,O=Parshall,C=DE", "User:C=DE,O=Parshall,OU=Clients,CN=alice", "User:CN=alice",
        "User:1.2.840.113549.1.9.1=#16116361726f6c406578616d706c652e636f6d,CN=Carol \\+1,O=Widgets\\, Inc.");

    @Override
    public void run(Session session) throws Exception {
        List<Ways.Way> ways = Ways.of(session);
        Admin admin = session.own(ways.get(0).admin());
        for (int number = 0; number < PRINCIPALS.size(); number++) {
            String topic = session.topic(admin, "of-" + number, 1);
            AclChanges acls = new AclChanges(session, admin, PRINCIPALS.get(number));
            acls.create(acls.allow(ResourceType.TOPIC, topic, AclOperation.DESCRIBE));
        }
        for (Ways.Way way : ways.subList(1, ways.size())) {
            try (Admin client = way.admin()) {
                List<String> seen = client.listTopics().names().get().stream().filter(name -> name.startsWith("of-")).map(name -> PRINCIPALS.get(Integer.parseInt(name.split("-")[1]))).sorted().toList();
                session.say("%s: %s", way.title(), seen);
            }
        }
        for (int number = 0; number < PRINCIPALS.size(); number++) {
            AclChanges acls = new AclChanges(session, admin, PRINCIPALS.get(number));
            acls.remove(acls.allow(ResourceType.TOPIC, session.name("of-" + number), AclOperation.DESCRIBE));
            admin.deleteTopics(List.of(session.name("of-" + number))).all().get();
        }
    }
}
