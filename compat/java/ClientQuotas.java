import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterClientQuotasOptions;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;

/** Quotas through the admin client: several entities at once, validation only, strict filters and refusals, with messages. */
public final class ClientQuotas implements Scenario {
    private static final String USER = ClientQuotaEntity.USER;
    private static final String CLIENT = ClientQuotaEntity.CLIENT_ID;
    private static final String IP = ClientQuotaEntity.IP;
    private Session session;
    private Admin admin;

    @Override
    public void run(Session session) throws Exception {
        this.session = session;
        admin = session.own(Ways.of(session).get(0).admin());
        String ann = session.name("ann");
        String app = session.name("app");
        ClientQuotaEntity user = entity(USER, ann);
        ClientQuotaEntity both = entity(USER, ann, CLIENT, app);
        ClientQuotaEntity client = entity(CLIENT, app);
        alter("only tried", true, of(user, "producer_byte_rate", 10.0));
        alter("three", false, of(user, "producer_byte_rate", 1e6, "request_percentage", 300.0), of(both, "consumer_byte_rate", 2e6), of(client, "producer_byte_rate", 3e6));
        session.until("the quotas", () -> admin.describeClientQuotas(ClientQuotaFilter.containsOnly(List.of(is(CLIENT, app)))).entities().get().size() == 1);
        describe("user", ClientQuotaFilter.contains(List.of(is(USER, ann))));
        describe("user, strictly", ClientQuotaFilter.containsOnly(List.of(is(USER, ann))));
        describe("client", ClientQuotaFilter.contains(List.of(is(CLIENT, app))));
        describe("client, strictly", ClientQuotaFilter.containsOnly(List.of(is(CLIENT, app))));
        describe("user and any client", ClientQuotaFilter.contains(List.of(is(USER, ann), ClientQuotaFilterComponent.ofEntityType(CLIENT))));
        describe("any user and client, strictly", ClientQuotaFilter.containsOnly(List.of(ClientQuotaFilterComponent.ofEntityType(USER), is(CLIENT, app))));
        describe("user and default client", ClientQuotaFilter.contains(List.of(is(USER, ann), ClientQuotaFilterComponent.ofDefaultEntity(CLIENT))));
        describe("nothing, strictly", ClientQuotaFilter.containsOnly(List.of()));
        describe("the same type twice", ClientQuotaFilter.contains(List.of(is(USER, ann), ClientQuotaFilterComponent.ofDefaultEntity(USER))));
        describe("a type that nobody knows", ClientQuotaFilter.contains(List.of(is("planet", "earth"))));
        describe("an empty type", ClientQuotaFilter.contains(List.of(is("", "earth"))));
        alter("an entity of nothing", false, of(new ClientQuotaEntity(Map.of()), "producer_byte_rate", 10.0));
        alter("an entity that nobody knows", false, of(entity("planet", "earth"), "producer_byte_rate", 10.0));
        alter("an empty name", false, of(entity(USER, ""), "producer_byte_rate", 10.0));
        alter("an address and a user", false, of(entity(USER, ann, IP, "127.0.0.9"), "connection_creation_rate", 10.0));
        alter("no address", false, of(entity(IP, "not an address"), "connection_creation_rate", 10.0));
        alter("good and bad", false, of(client, "producer_byte_rate", 4e6), of(both, "producer_byte_rate", -1.0), of(user, "no_such_rate", 1.0));
        session.until("the good one", () -> admin.describeClientQuotas(ClientQuotaFilter.containsOnly(List.of(is(CLIENT, app)))).entities().get().get(client).containsValue(4e6));
        describe("the good one", ClientQuotaFilter.containsOnly(List.of(is(CLIENT, app))));
        alter("no whole number", false, of(user, "consumer_byte_rate", 1.5));
        alter("a share of a percent", false, of(user, "request_percentage", 0.25));
        alter("the same twice", false, of(user, "producer_byte_rate", 5e6), of(user, "producer_byte_rate", 6e6));
        alter("all of it away, and what was not there", false, of(user, "producer_byte_rate", null, "request_percentage", null, "controller_mutation_rate", null),
            of(both, "consumer_byte_rate", null), of(client, "producer_byte_rate", null));
        session.until("their end", () -> admin.describeClientQuotas(ClientQuotaFilter.contains(List.of(is(USER, ann)))).entities().get().isEmpty());
        describe("nobody", ClientQuotaFilter.contains(List.of(is(USER, ann))));
    }

    private static ClientQuotaFilterComponent is(String type, String name) {
        return ClientQuotaFilterComponent.ofEntity(type, name);
    }

    private static ClientQuotaEntity entity(String... pairs) {
        Map<String, String> entries = new HashMap<>();
        for (int at = 0; at < pairs.length; at += 2) {
            entries.put(pairs[at], pairs[at + 1]);
        }
        return new ClientQuotaEntity(entries);
    }

    private static ClientQuotaAlteration of(ClientQuotaEntity entity, Object... quotas) {
        List<ClientQuotaAlteration.Op> ops = new ArrayList<>();
        for (int at = 0; at < quotas.length; at += 2) {
            ops.add(new ClientQuotaAlteration.Op((String) quotas[at], (Double) quotas[at + 1]));
        }
        return new ClientQuotaAlteration(entity, ops);
    }

    private void alter(String what, boolean validateOnly, ClientQuotaAlteration... alterations) {
        session.say("-- %s", what);
        try {
            var results = admin.alterClientQuotas(Arrays.asList(alterations), new AlterClientQuotasOptions().validateOnly(validateOnly)).values();
            Map<String, String> said = new TreeMap<>();
            for (var result : results.entrySet()) {
                said.put(name(result.getKey()), outcome(result.getValue()));
            }
            said.forEach((entity, outcome) -> session.say("%s: %s", entity, outcome));
        } catch (RuntimeException e) {
            session.say("%s", Session.kind(e));
        }
    }

    private static String outcome(KafkaFuture<Void> result) {
        try {
            result.get();
            return "ok";
        } catch (ExecutionException e) {
            return Session.kind(e) + ", " + e.getCause().getMessage();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private void describe(String what, ClientQuotaFilter filter) throws InterruptedException {
        session.say("-- %s", what);
        try {
            Map<String, String> said = new TreeMap<>();
            admin.describeClientQuotas(filter).entities().get().forEach((entity, quotas) -> said.put(name(entity), new TreeMap<>(quotas).toString()));
            said.forEach((entity, quotas) -> session.say("%s: %s", entity, quotas));
        } catch (ExecutionException e) {
            session.say("%s, %s", Session.kind(e), e.getCause().getMessage());
        }
    }

    private static String name(ClientQuotaEntity entity) {
        return new TreeSet<>(entity.entries().entrySet().stream().map(entry -> entry.getKey() + "=" + entry.getValue()).toList()).toString();
    }
}
