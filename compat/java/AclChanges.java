import java.util.List;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/** Makes ACLs for one principal, and waits until the broker has them. */
final class AclChanges {
    private final Session session;
    private final Admin admin;
    private final String principal;

    AclChanges(Session session, Admin admin, String principal) {
        this.session = session;
        this.admin = admin;
        this.principal = principal;
    }

    static AclBinding binding(ResourceType type, String name, PatternType pattern, String principal, String host, AclOperation operation, AclPermissionType permission) {
        return new AclBinding(new ResourcePattern(type, name, pattern), new AccessControlEntry(principal, host, operation, permission));
    }

    AclBinding allow(ResourceType type, String name, AclOperation operation) {
        return binding(type, name, PatternType.LITERAL, principal, "*", operation, AclPermissionType.ALLOW);
    }

    AclBinding deny(ResourceType type, String name, AclOperation operation) {
        return binding(type, name, PatternType.LITERAL, principal, "*", operation, AclPermissionType.DENY);
    }

    AclBinding prefixed(ResourceType type, String prefix, AclOperation operation) {
        return binding(type, prefix, PatternType.PREFIXED, principal, "*", operation, AclPermissionType.ALLOW);
    }

    void create(AclBinding... bindings) throws Exception {
        admin.createAcls(List.of(bindings)).all().get();
        for (AclBinding binding : bindings) {
            session.until("the ACL", () -> admin.describeAcls(binding.toFilter()).values().get().size() == 1);
        }
    }

    void remove(AclBinding... bindings) throws Exception {
        List<AclBindingFilter> filters = List.of(bindings).stream().map(AclBinding::toFilter).toList();
        admin.deleteAcls(filters).all().get();
        for (AclBindingFilter filter : filters) {
            session.until("the end of the ACL", () -> admin.describeAcls(filter).values().get().isEmpty());
        }
    }
}
