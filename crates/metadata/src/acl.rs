//! Access control lists: who may do what to which resources (KIP-11, KIP-290).
//!
//! An [`Acl`] is one line of such a list: a pattern of resources, and an entry that allows or denies somebody an
//! operation on them. [`Acls`] are all of a cluster, as a part of the metadata image; [`AclFilter`] selects some of
//! them, and an [`Authorizer`] decides by them.
//!
//! The numbers are Kafka's (`ResourceType`, `PatternType`, `AclOperation`, `AclPermissionType`). What a name, a number
//! or a principal may be is checked when an [`Acl`] is made, so that none is in the metadata that decisions would pass
//! over.

mod authorization;
mod filter;
mod index;
mod name_map;

use std::cmp::Ordering;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use wire::Uuid;
use wire::state::metadata::AccessControlEntryRecord;

pub use self::authorization::{Authorizer, Requester, Rule};
pub use self::filter::{AclFilter, PatternTypeFilter, UnknownFilter};
pub use self::index::Acls;

/// The name of all resources of a type, and the host that stands for all hosts.
pub const WILDCARD: &str = "*";
/// The principal that stands for all, those who have not said who they are too.
pub const ANY_PRINCIPAL: &str = "User:*";
/// The one resource of the type [`ResourceType::Cluster`].
pub const CLUSTER_NAME: &str = "kafka-cluster";

macro_rules! numbered {
    ($(
        $(#[$meta:meta])*
        $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $number:literal $text:literal,)* }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$variant_meta])* $variant = $number,)* }

        impl $name {
            pub const VALUES: &[Self] = &[$(Self::$variant,)*];

            pub fn from_id(id: i8) -> Option<Self> {
                match id {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        /// As Kafka calls it.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $text,)*
                })
            }
        }
    )*};
}

numbered! {
    ResourceType {
        Topic = 2 "TOPIC",
        Group = 3 "GROUP",
        Cluster = 4 "CLUSTER",
        TransactionalId = 5 "TRANSACTIONAL_ID",
        DelegationToken = 6 "DELEGATION_TOKEN",
        User = 7 "USER",
    }

    /// How the name of a pattern is to be read.
    PatternType {
        /// The name of one resource, or [`WILDCARD`].
        Literal = 3 "LITERAL",
        /// What names begin with. [`WILDCARD`] is a star here and nothing more.
        Prefixed = 4 "PREFIXED",
    }

    AclOperation {
        All = 2 "ALL",
        Read = 3 "READ",
        Write = 4 "WRITE",
        Create = 5 "CREATE",
        Delete = 6 "DELETE",
        Alter = 7 "ALTER",
        Describe = 8 "DESCRIBE",
        ClusterAction = 9 "CLUSTER_ACTION",
        DescribeConfigs = 10 "DESCRIBE_CONFIGS",
        AlterConfigs = 11 "ALTER_CONFIGS",
        IdempotentWrite = 12 "IDEMPOTENT_WRITE",
        CreateTokens = 13 "CREATE_TOKENS",
        DescribeTokens = 14 "DESCRIBE_TOKENS",
        TwoPhaseCommit = 15 "TWO_PHASE_COMMIT",
    }

    PermissionType {
        Deny = 2 "DENY",
        Allow = 3 "ALLOW",
    }
}

impl ResourceType {
    /// What can be done to such a resource (`AclEntry.supportedOperations`). [`AclOperation::All`] stands for these.
    pub fn operations(self) -> &'static [AclOperation] {
        use AclOperation::*;
        match self {
            Self::Topic => &[Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs],
            Self::Group => &[Read, Delete, Describe, DescribeConfigs, AlterConfigs],
            Self::Cluster => &[Create, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite],
            Self::TransactionalId => &[Write, Describe, TwoPhaseCommit],
            Self::DelegationToken => &[Describe],
            Self::User => &[CreateTokens, DescribeTokens],
        }
    }
}

/// The resources that an ACL is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourcePattern {
    pub resource_type: ResourceType,
    pub pattern_type: PatternType,
    /// Never empty.
    pub name: Arc<str>,
}

impl ResourcePattern {
    /// Whether it is about all resources of its type.
    fn is_wildcard(&self) -> bool {
        self.pattern_type == PatternType::Literal && &*self.name == WILDCARD
    }
}

/// From where an entry applies: from everywhere ([`WILDCARD`]) or from one address, which is compared as an address,
/// however it is written: Java writes those of IPv6 without `::`. Any other text is taken, as by Kafka, and applies
/// nowhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Host {
    address: Option<IpAddr>,
    text: String,
}

impl Host {
    pub fn new(text: String) -> Self {
        Self { address: text.parse().ok().map(|address: IpAddr| address.to_canonical()), text }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// What an ACL says of its resources. In the order of the principals, then of the hosts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessControlEntry {
    /// A type and a name: `User:alice`.
    pub principal: String,
    pub host: Host,
    pub permission_type: PermissionType,
    pub operation: AclOperation,
}

impl AccessControlEntry {
    /// How it compares with the entries for a principal at an address, or at all hosts if that is `None`.
    fn compare(&self, principal: &str, address: Option<IpAddr>) -> Ordering {
        self.principal.as_str().cmp(principal).then_with(|| match address {
            Some(_) => self.host.address.cmp(&address),
            None => (self.host.address, self.host.as_str()).cmp(&(None, WILDCARD)),
        })
    }
}

/// One access control list entry with the resources that it is about (`AclBinding`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acl {
    pub pattern: ResourcePattern,
    pub entry: AccessControlEntry,
}

/// Why something is no ACL, in Kafka's words (`AclControlManager.validateNewAcl`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAcl {
    #[error("Invalid resourceType {}", unlisted(*.0))]
    ResourceType(i8),
    #[error("Invalid patternType {}", if *.0 == filter::MATCH { "MATCH" } else { unlisted(*.0) })]
    PatternType(i8),
    #[error("Invalid operation {}", unlisted(*.0))]
    Operation(i8),
    #[error("Invalid permissionType {}", unlisted(*.0))]
    PermissionType(i8),
    #[error("Invalid empty resource name")]
    EmptyName,
    #[error(
        "Could not parse principal from `{0}` (no colon is present separating the principal type from the principal \
         name)"
    )]
    Principal(String),
}

/// A number of no value that an ACL can have.
fn unlisted(id: i8) -> &'static str {
    if id == filter::ANY { "ANY" } else { "UNKNOWN" }
}

impl Acl {
    pub fn from_record(record: &AccessControlEntryRecord) -> Result<Self, InvalidAcl> {
        let AccessControlEntryRecord { resource_type, pattern_type, operation, permission_type, .. } = *record;
        let pattern = ResourcePattern {
            resource_type: ResourceType::from_id(resource_type).ok_or(InvalidAcl::ResourceType(resource_type))?,
            pattern_type: PatternType::from_id(pattern_type).ok_or(InvalidAcl::PatternType(pattern_type))?,
            name: record.resource_name.as_str().into(),
        };
        let entry = AccessControlEntry {
            principal: record.principal.clone(),
            host: Host::new(record.host.clone()),
            permission_type: PermissionType::from_id(permission_type)
                .ok_or(InvalidAcl::PermissionType(permission_type))?,
            operation: AclOperation::from_id(operation).ok_or(InvalidAcl::Operation(operation))?,
        };
        if pattern.name.is_empty() {
            return Err(InvalidAcl::EmptyName);
        }
        if !entry.principal.contains(':') {
            return Err(InvalidAcl::Principal(entry.principal));
        }
        Ok(Self { pattern, entry })
    }

    pub fn to_record(&self, id: Uuid) -> AccessControlEntryRecord {
        AccessControlEntryRecord {
            id,
            resource_type: self.pattern.resource_type as i8,
            resource_name: self.pattern.name.to_string(),
            pattern_type: self.pattern.pattern_type as i8,
            principal: self.entry.principal.clone(),
            host: self.entry.host.text.clone(),
            operation: self.entry.operation as i8,
            permission_type: self.entry.permission_type as i8,
        }
    }

    pub fn denies(&self) -> bool {
        self.entry.permission_type == PermissionType::Deny
    }

    /// How long its texts are together.
    pub fn text_bytes(&self) -> usize {
        self.pattern.name.len() + self.entry.principal.len() + self.entry.host.text.len()
    }
}

/// As Kafka's log of decisions has it (`StandardAcl`). Its texts come from clients and are escaped.
impl fmt::Display for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pattern, entry } = self;
        write!(
            f,
            "StandardAcl(resourceType={}, resourceName={}, patternType={}, principal={}, host={}, operation={}, \
             permissionType={})",
            pattern.resource_type,
            pattern.name.escape_debug(),
            pattern.pattern_type,
            entry.principal.escape_debug(),
            entry.host.text.escape_debug(),
            entry.operation,
            entry.permission_type
        )
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use storage::simdisk::Rng;

    use super::*;

    pub(crate) fn record(
        resource_type: ResourceType,
        pattern_type: PatternType,
        name: &str,
        principal: &str,
        operation: AclOperation,
        permission_type: PermissionType,
    ) -> AccessControlEntryRecord {
        AccessControlEntryRecord {
            id: Uuid::ZERO,
            resource_type: resource_type as i8,
            resource_name: name.to_owned(),
            pattern_type: pattern_type as i8,
            principal: principal.to_owned(),
            host: WILDCARD.to_owned(),
            operation: operation as i8,
            permission_type: permission_type as i8,
        }
    }

    pub(crate) const NAMES: [&str; 12] = ["a", "ab", "abc", "abd", "b", "*", "*a", "a*", "é", "éa", "e", "hardcode"];
    pub(crate) const PRINCIPALS: [&str; 4] = ["User:a", "User:b", "User:*", "Group:a"];
    pub(crate) const HOSTS: [&str; 6] =
        ["*", "10.0.0.1", "10.0.0.2", "::ffff:10.0.0.1", "fe80::1", "fe80:0:0:0:0:0:0:1"];

    pub(crate) fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
        from[rng.below(from.len() as u64) as usize]
    }

    /// An ACL of those few that are worth combining.
    pub(crate) fn any_acl(rng: &mut Rng) -> Acl {
        use AclOperation::*;
        let of = if rng.percent(80) { &[ResourceType::Topic][..] } else { ResourceType::VALUES };
        let record = AccessControlEntryRecord {
            host: pick(rng, &HOSTS).to_owned(),
            ..record(
                pick(rng, of),
                pick(rng, PatternType::VALUES),
                pick(rng, &NAMES),
                pick(rng, &PRINCIPALS),
                pick(rng, &[All, Read, Write, Alter, Describe, AlterConfigs, DescribeConfigs]),
                pick(rng, PermissionType::VALUES),
            )
        };
        Acl::from_record(&record).unwrap()
    }

    /// The nth id.
    pub(crate) fn id(n: usize) -> Uuid {
        let mut rng = Rng::new(n as u64);
        let halves = [rng.next_u64(), rng.next_u64()].map(u64::to_be_bytes);
        Uuid(std::array::from_fn(|at| halves[at / 8][at % 8]))
    }

    #[test]
    fn numbers_and_names_are_kafkas() {
        let all: Vec<String> = AclOperation::VALUES.iter().map(|value| format!("{value} {}", *value as i8)).collect();
        assert_eq!((all.len(), all[0].as_str(), all[13].as_str()), (14, "ALL 2", "TWO_PHASE_COMMIT 15"));
        for id in -2..20 {
            assert_eq!(ResourceType::from_id(id).map(|value| value as i8), Some(id).filter(|id| (2..8).contains(id)));
            assert_eq!(PatternType::from_id(id).map(|value| value as i8), Some(id).filter(|id| (3..5).contains(id)));
            assert_eq!(AclOperation::from_id(id).map(|value| value as i8), Some(id).filter(|id| (2..16).contains(id)));
            assert_eq!(PermissionType::from_id(id).map(|value| value as i8), Some(id).filter(|id| (2..4).contains(id)));
        }
    }

    /// The sets of bits that Kafka 4.3.1 answers to who may do everything.
    #[test]
    fn operations_of_resources_are_kafkas() {
        let bits = |of: ResourceType| of.operations().iter().map(|operation| 1 << *operation as i32).sum::<i32>();
        assert_eq!([ResourceType::Topic, ResourceType::Group, ResourceType::Cluster].map(bits), [3576, 3400, 8096]);
    }

    #[test]
    fn an_acl_is_what_its_record_is() {
        let mut rng = Rng::new(1);
        for _ in 0..1000 {
            let acl = any_acl(&mut rng);
            let record = acl.to_record(id(7));
            assert_eq!((Acl::from_record(&record), record.id), (Ok(acl), id(7)));
        }
    }

    #[test]
    fn what_is_no_acl_says_why() {
        use AclOperation::Read;
        let good = || record(ResourceType::Topic, PatternType::Literal, "t", "User:a", Read, PermissionType::Allow);
        let say = |record: AccessControlEntryRecord| Acl::from_record(&record).unwrap_err().to_string();
        for (resource_type, line) in [(0, "UNKNOWN"), (1, "ANY"), (8, "UNKNOWN")] {
            let line = format!("Invalid resourceType {line}");
            assert_eq!(say(AccessControlEntryRecord { resource_type, ..good() }), line);
        }
        for (pattern_type, line) in [(0, "UNKNOWN"), (1, "ANY"), (2, "MATCH"), (5, "UNKNOWN")] {
            let line = format!("Invalid patternType {line}");
            assert_eq!(say(AccessControlEntryRecord { pattern_type, ..good() }), line);
        }
        assert_eq!(say(AccessControlEntryRecord { operation: 1, ..good() }), "Invalid operation ANY");
        assert_eq!(say(AccessControlEntryRecord { operation: 16, ..good() }), "Invalid operation UNKNOWN");
        assert_eq!(say(AccessControlEntryRecord { permission_type: 1, ..good() }), "Invalid permissionType ANY");
        assert_eq!(
            say(AccessControlEntryRecord { resource_name: String::new(), ..good() }),
            "Invalid empty resource name"
        );
        let line = say(AccessControlEntryRecord { principal: "alice".into(), ..good() });
        assert!(line.starts_with("Could not parse principal from `alice` (no colon"), "{line}");
    }

    #[test]
    fn an_acl_in_the_log_is_one_line() {
        let record = record(
            ResourceType::Topic,
            PatternType::Prefixed,
            "t\nPrincipal = User:a is Allowed",
            "User:a",
            AclOperation::AlterConfigs,
            PermissionType::Deny,
        );
        assert_eq!(
            Acl::from_record(&record).unwrap().to_string(),
            "StandardAcl(resourceType=TOPIC, resourceName=t\\nPrincipal = User:a is Allowed, patternType=PREFIXED, \
             principal=User:a, host=*, operation=ALTER_CONFIGS, permissionType=DENY)"
        );
    }
}
