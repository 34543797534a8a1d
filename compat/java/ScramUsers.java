import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeUserScramCredentialsResult;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialAlteration;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;

/** Users of SCRAM through the admin client: results per user, bounds, duplicates, and descriptions. Messages are compared, too. */
public final class ScramUsers implements Scenario {
    private Session session;
    private Admin admin;

    @Override
    public void run(Session session) throws Exception {
        this.session = session;
        admin = session.own(Ways.of(session).get(0).admin());
        String one = session.name("one");
        String two = session.name("two");
        String three = session.name("three");
        alter("two mechanisms of one user", upsert(one, ScramMechanism.SCRAM_SHA_256, 4096), upsert(one, ScramMechanism.SCRAM_SHA_512, 16384));
        alter("two users", upsert(one, ScramMechanism.SCRAM_SHA_256, 4096), upsert(two, ScramMechanism.SCRAM_SHA_256, 5000));
        alter("the other mechanism", upsert(one, ScramMechanism.SCRAM_SHA_512, 16384));
        session.until("the users", () -> described(List.of(one)).description(one).get().credentialInfos().size() == 2);
        describe("both", List.of(one, two));
        describe("one that is not there", List.of(one, three));
        describe("the same twice", List.of(one, one, two));
        alter("too few iterations", upsert(one, ScramMechanism.SCRAM_SHA_256, 4095), upsert(two, ScramMechanism.SCRAM_SHA_256, 4096));
        alter("too many iterations", upsert(one, ScramMechanism.SCRAM_SHA_256, 16385));
        alter("no iterations", upsert(one, ScramMechanism.SCRAM_SHA_256, -1));
        alter("an empty name", upsert("", ScramMechanism.SCRAM_SHA_256, 4096));
        alter("delete an empty name", new UserScramCredentialDeletion("", ScramMechanism.SCRAM_SHA_256));
        alter("a mechanism that nobody knows", upsert(one, ScramMechanism.UNKNOWN, 4096));
        alter("delete of a mechanism that nobody knows", new UserScramCredentialDeletion(one, ScramMechanism.UNKNOWN));
        alter("the same twice, and another", upsert(one, ScramMechanism.SCRAM_SHA_256, 4096), upsert(one, ScramMechanism.SCRAM_SHA_256, 8192),
            upsert(three, ScramMechanism.SCRAM_SHA_512, 4096));
        alter("put and delete the same", upsert(one, ScramMechanism.SCRAM_SHA_256, 4096), new UserScramCredentialDeletion(one, ScramMechanism.SCRAM_SHA_256));
        alter("put one and delete another", upsert(two, ScramMechanism.SCRAM_SHA_512, 4096), new UserScramCredentialDeletion(two, ScramMechanism.SCRAM_SHA_256));
        session.until("the change", () -> described(List.of(two)).description(two).get().credentialInfos().get(0).iterations() == 4096);
        describe("after that", List.of(one, two, three));
        alter("delete what is not there", new UserScramCredentialDeletion(two, ScramMechanism.SCRAM_SHA_512), new UserScramCredentialDeletion(three, ScramMechanism.SCRAM_SHA_256));
        alter("delete one of each", new UserScramCredentialDeletion(one, ScramMechanism.SCRAM_SHA_256), new UserScramCredentialDeletion(two, ScramMechanism.SCRAM_SHA_256),
            new UserScramCredentialDeletion(three, ScramMechanism.SCRAM_SHA_512));
        session.until("the change", () -> described(List.of(one)).description(one).get().credentialInfos().size() == 1);
        describe("what is left", List.of(one, two, three));
        alter("delete the rest", new UserScramCredentialDeletion(one, ScramMechanism.SCRAM_SHA_512));
        session.until("their end", () -> admin.describeUserScramCredentials().users().get().stream().noneMatch(List.of(one, two, three)::contains));
        describe("when they are gone", List.of(one, two));
    }

    private static UserScramCredentialUpsertion upsert(String user, ScramMechanism mechanism, int iterations) {
        // The client derives with the real number; a salt of its own keeps it from asking for one.
        ScramCredentialInfo info = new ScramCredentialInfo(mechanism, iterations);
        return new UserScramCredentialUpsertion(user, info, "secret".getBytes(StandardCharsets.UTF_8), "salt".getBytes(StandardCharsets.UTF_8));
    }

    private DescribeUserScramCredentialsResult described(List<String> users) {
        return admin.describeUserScramCredentials(users);
    }

    private void alter(String what, UserScramCredentialAlteration... alterations) {
        session.say("-- %s", what);
        var results = new TreeMap<>(admin.alterUserScramCredentials(List.of(alterations)).values());
        results.forEach((user, result) -> {
            try {
                result.get();
                session.say("'%s': ok", user);
            } catch (ExecutionException e) {
                session.say("'%s': %s, %s", user, Session.kind(e), e.getCause().getMessage());
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        });
    }

    private void describe(String what, List<String> users) throws InterruptedException {
        session.say("-- %s", what);
        DescribeUserScramCredentialsResult result = described(users);
        for (String user : new TreeSet<>(users)) {
            try {
                List<String> infos = new ArrayList<>();
                result.description(user).get().credentialInfos().forEach(info -> infos.add(info.mechanism() + " " + info.iterations()));
                session.say("'%s': %s", user, Session.sorted(infos));
            } catch (ExecutionException e) {
                session.say("'%s': %s, %s", user, Session.kind(e), e.getCause().getMessage());
            }
        }
    }
}
