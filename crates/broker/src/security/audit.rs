//! What is written down of who may do what: a line for each operation that is denied, and for each that changes what is
//! not records, with who asked for it and which rule decided, as Kafka's log of the authorizer has it.
//!
//! What one address may fill the log with is limited, for denials and changes apart, so that none hides the other.
//! Names come from clients and are escaped.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use metadata::acl::{AclOperation, ResourceType, Rule};
use platform::{Allowed, LogLimit};

use super::Principal;

/// Changes that one address may have written down in a minute.
const CHANGES_MAX: u32 = 120;

/// Who asks, and with which API.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    pub principal: &'a Principal,
    pub address: SocketAddr,
    pub request: &'a str,
}

impl Asker<'_> {
    /// As ACLs name it.
    fn host(&self) -> IpAddr {
        self.address.ip().to_canonical()
    }
}

/// Writes it.
pub struct Audit {
    denials: LogLimit,
    changes: LogLimit,
}

impl Default for Audit {
    fn default() -> Self {
        Self { denials: LogLimit::default(), changes: LogLimit::new(CHANGES_MAX) }
    }
}

impl Audit {
    /// A rule has decided whether an operation may be done.
    pub fn decided(
        &self,
        asker: Asker<'_>,
        rule: &Rule<'_>,
        operation: AclOperation,
        (resource_type, name): (ResourceType, &str),
    ) {
        let resource = format_args!("{resource_type}:{name:?}");
        if !rule.is_allowed() {
            let Some(Allowed { left_out }) = self.denials.allow(asker.address) else { return };
            tracing::info!(
                principal = asker.principal.as_str(), %operation, host = %asker.host(), %resource,
                request = asker.request, %rule, left_out, "a request is denied"
            );
        } else if is_change(operation) {
            let Some(Allowed { left_out }) = self.changes.allow(asker.address) else { return };
            tracing::info!(
                principal = asker.principal.as_str(), %operation, host = %asker.host(), %resource,
                request = asker.request, %rule, left_out, "a request that changes something is allowed"
            );
        }
    }

    /// The controller knows newer ACLs than this broker, and one of them denies what this broker has allowed.
    pub fn denied_since(&self, asker: Asker<'_>) {
        let Some(Allowed { left_out }) = self.denials.allow(asker.address) else { return };
        tracing::info!(
            principal = asker.principal.as_str(), host = %asker.host(), request = asker.request,
            left_out, "a request is denied by the controller"
        );
    }

    /// Something was changed that the operation does not tell: an ACL, a user, a quota.
    pub fn changed(&self, asker: Asker<'_>, change: &dyn fmt::Display) {
        let Some(Allowed { left_out }) = self.changes.allow(asker.address) else { return };
        tracing::info!(
            principal = asker.principal.as_str(), host = %asker.host(), request = asker.request, %change,
            left_out, "changed"
        );
    }
}

/// Whether an operation is written down although it is allowed.
pub fn is_change(operation: AclOperation) -> bool {
    use AclOperation::{Alter, AlterConfigs, Create, Delete};
    matches!(operation, Create | Delete | Alter | AlterConfigs)
}
