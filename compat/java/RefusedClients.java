import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.errors.SaslAuthenticationException;

/** What the admin client says of each of the ways to connect, which are to be refused. What SASL says are the broker's words. */
public final class RefusedClients implements Scenario {
    @Override
    public void run(Session session) throws Exception {
        for (Ways.Way way : Ways.of(session)) {
            try (Admin admin = way.admin()) {
                admin.describeCluster().nodes().get();
                session.say("%s: ok", way.title());
            } catch (ExecutionException e) {
                boolean isSasl = e.getCause() instanceof SaslAuthenticationException;
                session.say("%s: %s%s", way.title(), Session.kind(e), isSasl ? ", " + e.getCause().getMessage() : "");
            }
        }
    }
}
