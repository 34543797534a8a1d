import java.util.List;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.acl.AclBindingFilter;

/** Removes every ACL, so that a case leaves none to the next one. */
public final class NoAcls implements Scenario {
    @Override
    public void run(Session session) throws Exception {
        Admin admin = session.own(Ways.of(session).get(0).admin());
        admin.deleteAcls(List.of(AclBindingFilter.ANY)).all().get();
        session.until("no ACLs", () -> admin.describeAcls(AclBindingFilter.ANY).values().get().isEmpty());
    }
}
