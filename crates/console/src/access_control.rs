//! Who may do what in a cluster, and by which rule: decided here as the brokers decide it, by the ACLs that they tell
//! and the settings of one of them.
//!
//! Somebody may come from an address that an ACL names, or from elsewhere. Both are asked for where it makes a
//! difference.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use client::{Client, ClientError, Resource};
use configuration::{BrokerConfig, STANDARD_AUTHORIZER};
use metadata::acl::{
    ANY_PRINCIPAL, Acl, AclOperation, Acls, Authorizer, PatternType, PermissionType, Requester, ResourceType, Rule,
    WILDCARD,
};
use wire::Uuid;
use wire::api::create_acls::AclCreation;
use wire::api::delete_acls::DeleteAclsFilter;
use wire::state::metadata::AccessControlEntryRecord;

const CLASS: &str = "authorizer.class.name";
const SUPER_USERS: &str = "super.users";
const ALLOW_EVERYONE: &str = "allow.everyone.if.no.acl.found";
/// Where somebody comes from who comes from no address that an ACL names.
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
/// Behind a prefix, it is a name that no ACL is about but those of its prefixes.
const NAMELESS: &str = "\u{10ffff}";
/// What stands for any in a filter, and for all patterns that a name matches.
pub(crate) const ANY: i8 = 1;
pub(crate) const MATCH: i8 = 2;

/// What decides in a cluster, as far as it was asked for.
pub(crate) struct AccessControl {
    /// `None` where everybody may do everything.
    authorizer: Option<Authorizer>,
    super_users: Vec<String>,
    pub allows_everyone: bool,
    acls: Acls,
    /// The same, one by one.
    all: Vec<Acl>,
    /// What should be known about the answers.
    pub notes: Vec<String>,
}

/// Somebody, from somewhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Who {
    pub principal: String,
    /// `None` is from any address that no ACL names.
    pub address: Option<IpAddr>,
}

/// Whether somebody may do something, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub is_allowed: bool,
    /// As the log of the brokers has it.
    pub rule: &'static str,
    pub acl: Option<Acl>,
}

/// What somebody may do with the resources of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub resource_type: ResourceType,
    pub pattern_type: PatternType,
    pub name: String,
    pub address: Option<IpAddr>,
    pub allowed: Vec<AclOperation>,
    /// Those that an ACL denies.
    pub denied: Vec<AclOperation>,
    /// The ACLs that have decided.
    pub acls: Vec<Acl>,
}

/// A filter that matches all ACLs.
pub(crate) fn any() -> DeleteAclsFilter {
    DeleteAclsFilter {
        resource_type_filter: ANY,
        resource_name_filter: None,
        pattern_type_filter: ANY,
        principal_filter: None,
        host_filter: None,
        operation: ANY,
        permission_type: ANY,
    }
}

/// An ACL that a cluster tells, unless it is of a kind that is not known here.
pub(crate) fn known(acl: &AclCreation) -> Option<Acl> {
    let AclCreation { resource_name, principal, host, .. } = acl.clone();
    let record = AccessControlEntryRecord {
        id: Uuid::ZERO,
        resource_type: acl.resource_type,
        resource_name,
        pattern_type: acl.resource_pattern_type,
        principal,
        host,
        operation: acl.operation,
        permission_type: acl.permission_type,
    };
    Acl::from_record(&record).ok()
}

/// `ALLOW User:alice READ on TOPIC orders`.
pub(crate) fn in_words(acl: &Acl) -> String {
    let (pattern, entry) = (&acl.pattern, &acl.entry);
    let from = match entry.host.as_str() {
        WILDCARD => String::new(),
        host => format!(" from {host}"),
    };
    let prefixed = if pattern.pattern_type == PatternType::Prefixed { " (PREFIXED)" } else { "" };
    let permission = entry.permission_type;
    let (principal, operation, resource_type) = (&entry.principal, entry.operation, pattern.resource_type);
    format!("{permission} {principal}{from} {operation} on {resource_type} {}{prefixed}", pattern.name)
}

impl AccessControl {
    /// As a broker tells it, with the ACLs that these filters match.
    pub(crate) async fn ask(client: &Client, broker: i32, filters: &[DeleteAclsFilter]) -> Result<Self, ClientError> {
        let names = [CLASS, SUPER_USERS, ALLOW_EVERYONE].map(str::to_owned);
        let described = client.describe_configs_named(&[Resource::broker(broker)], &names).await;
        let missing = || ClientError::Missing { address: format!("broker {broker}"), subject: "settings".to_owned() };
        let entries = described.into_values().next().ok_or_else(missing)??;
        let mut settings: BTreeMap<String, Option<String>> =
            entries.into_iter().map(|entry| (entry.name, entry.value)).collect();
        let mut notes = Vec::new();
        let class = settings.remove(CLASS).flatten().unwrap_or_default();
        let mut told = BTreeMap::new();
        for name in [SUPER_USERS, ALLOW_EVERYONE] {
            match settings.remove(name) {
                Some(Some(value)) => _ = told.insert(name.to_owned(), value),
                // Apache Kafka shows no value of settings that are its authorizer's.
                Some(None) => notes.push(format!("The brokers do not tell {name}: it is not taken into account.")),
                None => {}
            }
        }
        let mut acls = Vec::new();
        if !class.is_empty() {
            for filter in filters {
                acls.extend(client.describe_acls(filter).await?);
            }
            if class != STANDARD_AUTHORIZER {
                notes.push(format!("The brokers decide by {class}, which may know more than access control lists."));
            }
        }
        Ok(Self::new(&class, told, &acls, notes))
    }

    fn new(class: &str, told: BTreeMap<String, String>, acls: &[AclCreation], mut notes: Vec<String>) -> Self {
        let value = |name: &str| told.get(name).map(String::as_str).unwrap_or_default();
        let super_users = value(SUPER_USERS).split(';').map(str::trim).filter(|user| !user.is_empty());
        let super_users = super_users.map(str::to_owned).collect();
        let allows_everyone = value(ALLOW_EVERYONE) == "true";
        // What another class decides by beyond ACLs is not known.
        let standard = (CLASS.to_owned(), STANDARD_AUTHORIZER.to_owned());
        let config = BrokerConfig::new(told.into_iter().chain([standard.clone()]).collect());
        let config = config.or_else(|_| BrokerConfig::new([standard].into()));
        let authorizer = config.ok().and_then(|config| Authorizer::new(&config)).filter(|_| !class.is_empty());
        let all: Vec<_> = acls.iter().filter_map(known).collect();
        if all.len() < acls.len() {
            let left_out = acls.len() - all.len();
            notes.push(format!("{left_out} access control list entries are of a kind that is not known here."));
        }
        Self { authorizer, super_users, allows_everyone, acls: all.iter().cloned().collect(), all, notes }
    }

    /// Whether it is asked at all who may do something.
    pub(crate) fn has_authorizer(&self) -> bool {
        self.authorizer.is_some()
    }

    pub(crate) fn is_super_user(&self, principal: &str) -> bool {
        self.super_users.iter().any(|user| user == principal)
    }

    /// Those for whom the answer may be another: super users, those whom ACLs name, and everybody else, who comes last.
    pub(crate) fn everybody(&self) -> Vec<Who> {
        let elsewhere = |principal: &String| Who { principal: principal.clone(), address: None };
        let mut found: BTreeSet<_> = self.super_users.iter().map(elsewhere).collect();
        for acl in &self.all {
            found.insert(elsewhere(&acl.entry.principal));
            if let Some(address) = address(acl) {
                found.insert(Who { principal: acl.entry.principal.clone(), address: Some(address) });
            }
        }
        found.insert(elsewhere(&ANY_PRINCIPAL.to_owned()));
        let (others, mut named): (Vec<_>, Vec<_>) = found.into_iter().partition(|who| who.principal == ANY_PRINCIPAL);
        named.extend(others);
        named
    }

    pub(crate) fn decide(
        &self,
        who: &Who,
        operation: AclOperation,
        resource_type: ResourceType,
        name: &str,
    ) -> Decision {
        let Some(authorizer) = &self.authorizer else {
            return Decision { is_allowed: true, rule: "NoAuthorizer", acl: None };
        };
        let requester = Requester { principal: &who.principal, address: who.address.unwrap_or(ELSEWHERE) };
        let rule = authorizer.authorize(Some(&self.acls), requester, operation, resource_type, name);
        let (name, acl) = match rule {
            Rule::SuperUser => ("SuperUser", None),
            Rule::DefaultAllow => ("DefaultAllow", None),
            Rule::DefaultDeny => ("DefaultDeny", None),
            Rule::MatchingAcl(acl) => ("MatchingAcl", Some(acl.clone())),
        };
        Decision { is_allowed: rule.is_allowed(), rule: name, acl }
    }

    /// What a principal may do, pattern by pattern of the ACLs that are for it or for everybody.
    pub(crate) fn grants(&self, principal: &str) -> Vec<Grant> {
        let is_for = |acl: &&Acl| [principal, ANY_PRINCIPAL].contains(&acl.entry.principal.as_str());
        let mut patterns = BTreeMap::<_, BTreeSet<Option<IpAddr>>>::new();
        for acl in self.all.iter().filter(is_for) {
            patterns.entry(&acl.pattern).or_insert_with(|| [None].into()).extend(address(acl).map(Some));
        }
        let mut grants = Vec::new();
        for (pattern, addresses) in patterns {
            let name = match (pattern.pattern_type, &*pattern.name) {
                (PatternType::Literal, WILDCARD) => NAMELESS.to_owned(),
                (PatternType::Literal, name) => name.to_owned(),
                (PatternType::Prefixed, prefix) => format!("{prefix}{NAMELESS}"),
            };
            for address in addresses {
                let who = Who { principal: principal.to_owned(), address };
                let mut grant = Grant {
                    resource_type: pattern.resource_type,
                    pattern_type: pattern.pattern_type,
                    name: pattern.name.to_string(),
                    address,
                    allowed: Vec::new(),
                    denied: Vec::new(),
                    acls: Vec::new(),
                };
                for operation in pattern.resource_type.operations() {
                    let decision = self.decide(&who, *operation, pattern.resource_type, &name);
                    let Some(acl) = decision.acl else { continue };
                    let operations = if decision.is_allowed { &mut grant.allowed } else { &mut grant.denied };
                    operations.push(*operation);
                    if !grant.acls.contains(&acl) {
                        grant.acls.push(acl);
                    }
                }
                grants.push(grant);
            }
        }
        grants
    }
}

impl Decision {
    /// Why, in a line.
    pub(crate) fn reason(&self) -> String {
        match (self.rule, &self.acl) {
            (_, Some(acl)) => in_words(acl),
            ("NoAuthorizer", _) => "the brokers have no authorizer".to_owned(),
            ("SuperUser", _) => format!("is one of {SUPER_USERS}"),
            ("DefaultAllow", _) => format!("no entry is about it, and {ALLOW_EVERYONE} is true"),
            _ => "no entry allows it".to_owned(),
        }
    }
}

/// The address that an ACL names.
fn address(acl: &Acl) -> Option<IpAddr> {
    acl.entry.host.as_str().parse().ok()
}

/// The number of a permission that a form names.
pub(crate) fn permission(name: &str) -> Option<PermissionType> {
    PermissionType::VALUES.iter().copied().find(|value| value.to_string() == name)
}

pub(crate) fn operation(name: &str) -> Option<AclOperation> {
    AclOperation::VALUES.iter().copied().find(|value| value.to_string() == name)
}

pub(crate) fn resource_type(name: &str) -> Option<ResourceType> {
    ResourceType::VALUES.iter().copied().find(|value| value.to_string() == name)
}

pub(crate) fn pattern_type(name: &str) -> Option<PatternType> {
    PatternType::VALUES.iter().copied().find(|value| value.to_string() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(
        principal: &str,
        host: &str,
        operation: AclOperation,
        permission: PermissionType,
        name: &str,
    ) -> AclCreation {
        let (name, pattern) = match name.strip_suffix('-') {
            Some(_) => (name, PatternType::Prefixed),
            None => (name, PatternType::Literal),
        };
        AclCreation {
            resource_type: ResourceType::Topic as i8,
            resource_name: name.to_owned(),
            resource_pattern_type: pattern as i8,
            principal: principal.to_owned(),
            host: host.to_owned(),
            operation: operation as i8,
            permission_type: permission as i8,
        }
    }

    fn control(settings: &[(&str, &str)], acls: &[AclCreation]) -> AccessControl {
        let told = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        AccessControl::new(STANDARD_AUTHORIZER, told, acls, Vec::new())
    }

    #[test]
    fn who_may_read_a_topic_is_decided_for_all_whom_it_concerns() {
        use AclOperation::{Read, Write};
        use PermissionType::{Allow, Deny};
        let acls = [
            acl("User:alice", "*", Read, Allow, "orders-"),
            acl("User:mallory", "10.0.0.9", Read, Deny, "orders-1"),
            acl("User:*", "*", Read, Allow, "orders-1"),
            acl("User:bob", "*", Write, Allow, "orders-2"),
        ];
        let control = control(&[(SUPER_USERS, "User:admin")], &acls);
        let told = |name: &str| {
            let rows = control.everybody().into_iter().map(|who| {
                let decision = control.decide(&who, Read, ResourceType::Topic, name);
                let from = who.address.map_or(String::new(), |address| format!("@{address}"));
                format!("{}{from} {} {}", who.principal, decision.is_allowed, decision.rule)
            });
            rows.collect::<Vec<_>>()
        };
        let of_first = [
            "User:admin true SuperUser",
            "User:alice true MatchingAcl",
            "User:bob true MatchingAcl",
            "User:mallory true MatchingAcl",
            "User:mallory@10.0.0.9 false MatchingAcl",
            "User:* true MatchingAcl",
        ];
        assert_eq!(told("orders-1"), of_first);
        assert_eq!(told("orders-2")[1..3], ["User:alice true MatchingAcl", "User:bob false DefaultDeny"]);
        let decision = control.decide(&control.everybody()[1], Read, ResourceType::Topic, "orders-2");
        assert_eq!(decision.reason(), "ALLOW User:alice READ on TOPIC orders- (PREFIXED)");
    }

    #[test]
    fn what_a_user_may_do_is_told_pattern_by_pattern() {
        use AclOperation::{All, Describe, Read, Write};
        use PermissionType::{Allow, Deny};
        let acls = [
            acl("User:alice", "*", Read, Allow, "orders-"),
            acl("User:alice", "10.0.0.1", Write, Allow, "orders-"),
            acl("User:*", "*", All, Deny, "orders-secret"),
            acl("User:bob", "*", All, Allow, "bills"),
        ];
        let grants = control(&[], &acls).grants("User:alice");
        let told: Vec<_> =
            grants.iter().map(|grant| (&*grant.name, grant.address.is_some(), &grant.allowed[..])).collect();
        let expected: [(&str, bool, &[AclOperation]); 3] = [
            ("orders-secret", false, &[]),
            ("orders-", false, &[Read, Describe]),
            ("orders-", true, &[Read, Write, Describe]),
        ];
        assert_eq!(told, expected);
        assert_eq!(grants[0].denied, ResourceType::Topic.operations());
        assert_eq!(grants[1].acls.len(), 1);
    }

    #[test]
    fn without_an_authorizer_everybody_may_and_unknown_entries_are_counted() {
        let unknown =
            AclCreation { operation: 99, ..acl("User:a", "*", AclOperation::Read, PermissionType::Deny, "t") };
        let control = AccessControl::new("", BTreeMap::new(), &[unknown], Vec::new());
        let decision = control.decide(&control.everybody()[0], AclOperation::Read, ResourceType::Topic, "t");
        assert_eq!((decision.is_allowed, decision.rule, control.has_authorizer()), (true, "NoAuthorizer", false));
        assert!(control.notes[0].starts_with("1 access control list entries"));
    }
}
