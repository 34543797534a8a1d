import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;

/** ACLs through the admin client: what none may be, duplicates, filters, and what a deletion says that it has matched. */
public final class Acls implements Scenario {
    private Session session;
    private Admin admin;

    @Override
    public void run(Session session) throws Exception {
        this.session = session;
        admin = session.own(Ways.of(session).get(0).admin());
        String orders = session.name("orders");
        String prefix = orders.substring(0, 3);
        AclBinding literal = topic(orders, PatternType.LITERAL, "User:ann", AclOperation.READ);
        AclBinding prefixed = topic(prefix, PatternType.PREFIXED, "User:ann", AclOperation.WRITE);
        AclBinding everywhere = topic("*", PatternType.LITERAL, "User:*", AclOperation.DESCRIBE);
        AclBinding starred = topic("*", PatternType.PREFIXED, "User:ann", AclOperation.ALTER);
        create("four", literal, prefixed, everywhere, starred);
        create("once more, and twice", literal, literal);
        create("an empty name", topic("", PatternType.LITERAL, "User:ann", AclOperation.READ));
        create("an empty prefix", topic("", PatternType.PREFIXED, "User:ann", AclOperation.READ));
        create("a cluster of another name", of(ResourceType.CLUSTER, "kafka", AclOperation.ALTER));
        create("a prefix of the cluster", AclChanges.binding(ResourceType.CLUSTER, "kafka", PatternType.PREFIXED, "User:ann", "*", AclOperation.ALTER, AclPermissionType.ALLOW));
        create("a principal without a type", topic(orders, PatternType.LITERAL, "ann", AclOperation.READ));
        create("an empty principal", topic(orders, PatternType.LITERAL, "", AclOperation.READ));
        create("a principal of another type", topic(orders, PatternType.LITERAL, "Group:ann", AclOperation.READ));
        create("a name that no topic may have", topic("no topic", PatternType.LITERAL, "User:ann", AclOperation.READ));
        create("an empty host", AclChanges.binding(ResourceType.TOPIC, orders, PatternType.LITERAL, "User:ann", "", AclOperation.READ, AclPermissionType.ALLOW));
        create("a host that is no address", AclChanges.binding(ResourceType.TOPIC, orders, PatternType.LITERAL, "User:ann", "10.0.0.0/8", AclOperation.READ, AclPermissionType.ALLOW));
        create("an operation that topics do not have", topic(orders, PatternType.LITERAL, "User:ann", AclOperation.IDEMPOTENT_WRITE));
        create("good and bad", topic(orders, PatternType.LITERAL, "User:ben", AclOperation.READ), topic(orders, PatternType.LITERAL, "ben", AclOperation.READ));
        session.until("the ACLs", () -> admin.describeAcls(AclBindingFilter.ANY).values().get().size() > 5);
        Thread.sleep(500);
        describe("all", AclBindingFilter.ANY);
        describe("that match", filter(ResourceType.TOPIC, orders, PatternType.MATCH, null, AclOperation.ANY));
        describe("of that name", filter(ResourceType.TOPIC, orders, PatternType.ANY, null, AclOperation.ANY));
        describe("literal star", filter(ResourceType.TOPIC, "*", PatternType.LITERAL, null, AclOperation.ANY));
        describe("prefixed star", filter(ResourceType.TOPIC, "*", PatternType.PREFIXED, null, AclOperation.ANY));
        describe("of everybody", filter(ResourceType.ANY, null, PatternType.ANY, "User:*", AclOperation.ANY));
        describe("to write", filter(ResourceType.ANY, null, PatternType.ANY, null, AclOperation.WRITE));
        describe("of groups", filter(ResourceType.GROUP, null, PatternType.ANY, null, AclOperation.ANY));
        describe("of a type that nobody knows", filter(ResourceType.UNKNOWN, null, PatternType.ANY, null, AclOperation.ANY));
        delete("one, one of nothing, and all that match", literal.toFilter(), filter(ResourceType.GROUP, null, PatternType.ANY, null, AclOperation.ANY),
            filter(ResourceType.TOPIC, orders, PatternType.MATCH, "User:ann", AclOperation.ANY));
        delete("the same again", literal.toFilter());
        delete("the rest", AclBindingFilter.ANY);
        session.until("their end", () -> admin.describeAcls(AclBindingFilter.ANY).values().get().isEmpty());
    }

    private static AclBinding topic(String name, PatternType pattern, String principal, AclOperation operation) {
        return AclChanges.binding(ResourceType.TOPIC, name, pattern, principal, "*", operation, AclPermissionType.ALLOW);
    }

    private static AclBinding of(ResourceType type, String name, AclOperation operation) {
        return AclChanges.binding(type, name, PatternType.LITERAL, "User:ann", "*", operation, AclPermissionType.ALLOW);
    }

    private static AclBindingFilter filter(ResourceType type, String name, PatternType pattern, String principal, AclOperation operation) {
        return new AclBindingFilter(new ResourcePatternFilter(type, name, pattern), new AccessControlEntryFilter(principal, null, operation, AclPermissionType.ANY));
    }

    private static String text(AclBinding binding) {
        var pattern = binding.pattern();
        var entry = binding.entry();
        return String.format("%s %s '%s' %s '%s' from '%s' %s", pattern.resourceType(), pattern.patternType(), pattern.name(), entry.permissionType(), entry.principal(), entry.host(), entry.operation());
    }

    private void create(String what, AclBinding... bindings) throws Exception {
        session.say("-- create %s", what);
        try {
            var results = admin.createAcls(List.of(bindings)).values();
            for (AclBinding binding : new TreeSet<>(List.of(bindings).stream().map(Acls::text).toList()).stream().map(text -> find(bindings, text)).toList()) {
                try {
                    results.get(binding).get();
                    session.say("%s: ok", text(binding));
                } catch (ExecutionException e) {
                    session.say("%s: %s, %s", text(binding), Session.kind(e), e.getCause().getMessage());
                }
            }
        } catch (RuntimeException e) {
            session.say("%s", Session.kind(e));
        }
    }

    private static AclBinding find(AclBinding[] bindings, String text) {
        return List.of(bindings).stream().filter(binding -> text(binding).equals(text)).findFirst().orElseThrow();
    }

    private void describe(String what, AclBindingFilter filter) throws Exception {
        session.say("-- describe %s", what);
        try {
            admin.describeAcls(filter).values().get().stream().map(Acls::text).sorted().forEach(text -> session.say("%s", text));
        } catch (ExecutionException e) {
            session.say("%s, %s", Session.kind(e), e.getCause().getMessage());
        } catch (RuntimeException e) {
            session.say("%s", Session.kind(e));
        }
    }

    private void delete(String what, AclBindingFilter... filters) throws Exception {
        session.say("-- delete %s", what);
        try {
            var results = admin.deleteAcls(List.of(filters)).values();
            for (AclBindingFilter filter : filters) {
                try {
                    List<String> matched = new ArrayList<>();
                    results.get(filter).get().values().forEach(result -> matched.add(result.exception() == null ? text(result.binding()) : Session.kind(result.exception())));
                    session.say("%d: %s", matched.size(), Session.sorted(matched));
                } catch (ExecutionException e) {
                    session.say("%s, %s", Session.kind(e), e.getCause().getMessage());
                }
            }
        } catch (RuntimeException e) {
            session.say("%s", Session.kind(e));
        }
    }
}
