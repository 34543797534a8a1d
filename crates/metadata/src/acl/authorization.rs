//! The decision whether somebody may do something (`StandardAuthorizerData`), and by which rule. Pure.
//!
//! In this order: a super user may do everything. Of the ACLs that a resource matches, one that denies wins over all
//! that allow. A resource that matches none, whoever they may be for, is everybody's if
//! `allow.everyone.if.no.acl.found` says so. Whatever is not allowed is denied.

use std::fmt;
use std::net::IpAddr;

use configuration::{BrokerConfig, Principals};

use super::index::Entries;
use super::{ANY_PRINCIPAL, Acl, AclOperation, Acls, PatternType, ResourceType};

/// Decides by the settings of a broker and by ACLs.
#[derive(Clone, Debug)]
pub struct Authorizer {
    super_users: Principals,
    allow_everyone_if_no_acl_found: bool,
}

/// Who wants to do something.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// A type and a name: `User:alice`.
    pub principal: &'a str,
    pub address: IpAddr,
}

/// What a decision goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule<'a> {
    SuperUser,
    /// No ACL is about the resource, and then everybody may.
    DefaultAllow,
    /// Nothing allows it.
    DefaultDeny,
    MatchingAcl(&'a Acl),
}

impl Rule<'_> {
    pub fn is_allowed(&self) -> bool {
        match self {
            Self::SuperUser | Self::DefaultAllow => true,
            Self::DefaultDeny => false,
            Self::MatchingAcl(acl) => !acl.denies(),
        }
    }
}

/// As Kafka's log of decisions has it.
impl fmt::Display for Rule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SuperUser => f.write_str("SuperUser"),
            Self::DefaultAllow => f.write_str("DefaultAllow"),
            Self::DefaultDeny => f.write_str("DefaultDeny"),
            Self::MatchingAcl(acl) => write!(f, "MatchingAcl(acl={acl})"),
        }
    }
}

impl Authorizer {
    /// `None` is a broker without an authorizer, where everybody may do everything.
    pub fn new(config: &BrokerConfig) -> Option<Self> {
        (!config.authorizer_class_name.is_empty()).then(|| Self {
            super_users: config.super_users.clone(),
            allow_everyone_if_no_acl_found: config.allow_everyone_if_no_acl_found,
        })
    }

    /// Whether somebody may do something to a resource. `acls` are `None` until the metadata is known: then only super
    /// users may.
    pub fn authorize<'a>(
        &self,
        acls: Option<&'a Acls>,
        requester: Requester<'_>,
        operation: AclOperation,
        resource_type: ResourceType,
        name: &str,
    ) -> Rule<'a> {
        if self.super_users.contains(requester.principal) {
            return Rule::SuperUser;
        }
        let Some(acls) = acls else { return Rule::DefaultDeny };
        let question = Question::new(requester, operation);
        let (mut allowing, mut has_acls) = (None, false);
        for entries in acls.of_type(resource_type).of_resource(name) {
            has_acls = true;
            match question.deciding(entries) {
                Some(acl) if acl.denies() => return Rule::MatchingAcl(acl),
                decided => allowing = allowing.or(decided),
            }
        }
        match allowing {
            Some(acl) => Rule::MatchingAcl(acl),
            None if !has_acls && self.allow_everyone_if_no_acl_found => Rule::DefaultAllow,
            None => Rule::DefaultDeny,
        }
    }

    /// Whether there can be a resource of a type to which somebody may do something (`authorizeByResourceType`). An ACL
    /// counts that allows it and that no other takes back for all of its resources: one for all of them, for the same
    /// name or for a prefix that it begins with.
    pub fn authorize_any<'a>(
        &self,
        acls: Option<&'a Acls>,
        requester: Requester<'_>,
        operation: AclOperation,
        resource_type: ResourceType,
    ) -> Rule<'a> {
        if self.super_users.contains(requester.principal) {
            return Rule::SuperUser;
        }
        let Some(acls) = acls else { return Rule::DefaultDeny };
        let question = Question::new(requester, operation);
        let of_type = acls.of_type(resource_type);
        match of_type.of_all() {
            Some(entries) => {
                if let Some(acl) = question.deciding(entries) {
                    return Rule::MatchingAcl(acl);
                }
            }
            // There are always names that no other ACL is about.
            None if self.allow_everyone_if_no_acl_found => return Rule::DefaultAllow,
            None => {}
        }
        let allowing = question.whom().flat_map(|(principal, address)| of_type.of_principal(principal, address));
        let is_taken_back = |acl: &Acl| {
            let name = &*acl.pattern.name;
            let denies = |entries: &Entries| question.deciding(entries).is_some_and(Acl::denies);
            match acl.pattern.pattern_type {
                PatternType::Literal => of_type.of_resource(name).any(denies),
                PatternType::Prefixed => of_type.of_prefixes(name).any(denies),
            }
        };
        let first = allowing.filter(|acl| question.is_allowed_by(acl)).find(|acl| !is_taken_back(acl));
        first.map_or(Rule::DefaultDeny, Rule::MatchingAcl)
    }
}

/// Who wants to do what, to any resource.
#[derive(Clone, Copy)]
struct Question<'a> {
    principal: &'a str,
    address: IpAddr,
    operation: AclOperation,
}

impl<'q> Question<'q> {
    fn new(requester: Requester<'q>, operation: AclOperation) -> Self {
        // A socket of both families says IPv4 addresses as those of IPv6.
        Self { principal: requester.principal, address: requester.address.to_canonical(), operation }
    }

    /// Principals and hosts of the entries that may be about it.
    fn whom(self) -> impl Iterator<Item = (&'q str, Option<IpAddr>)> {
        let hosts = [None, Some(self.address)];
        [self.principal, ANY_PRINCIPAL].into_iter().flat_map(move |principal| hosts.map(|host| (principal, host)))
    }

    /// The ACL that decides it among those of one pattern: one that denies it before one that allows it.
    fn deciding(self, entries: &Entries) -> Option<&Acl> {
        let mut allowing = None;
        for (principal, address) in self.whom() {
            for acl in entries.of(principal, address) {
                if self.is_denied_by(acl) {
                    return Some(acl);
                }
                allowing = allowing.or_else(|| self.is_allowed_by(acl).then_some(acl));
            }
        }
        allowing
    }

    fn is_denied_by(self, acl: &Acl) -> bool {
        let denied = acl.entry.operation;
        acl.denies() && (denied == AclOperation::All || denied == self.operation)
    }

    /// What may be read, written, deleted or altered may be described: but who may not read may still describe.
    fn is_allowed_by(self, acl: &Acl) -> bool {
        use AclOperation::*;
        let is_implied = match self.operation {
            Describe => matches!(acl.entry.operation, Read | Write | Delete | Alter),
            DescribeConfigs => acl.entry.operation == AlterConfigs,
            _ => false,
        };
        let allowed = acl.entry.operation;
        !acl.denies() && (allowed == All || allowed == self.operation || is_implied)
    }
}

#[cfg(test)]
mod tests {
    use storage::simdisk::Rng;

    use super::super::tests::{HOSTS, NAMES, PRINCIPALS, any_acl, id, pick, record};
    use super::super::{PermissionType, ResourcePattern, WILDCARD};
    use super::*;
    use crate::ordered_map::tests::visited;
    use AclOperation::{
        All, Alter, AlterConfigs, ClusterAction, Create, Delete, Describe, DescribeConfigs, Read, Write,
    };
    use PatternType::{Literal, Prefixed};
    use PermissionType::{Allow, Deny};
    use ResourceType::{Group, Topic};

    fn authorizer(settings: &[(&str, &str)]) -> Authorizer {
        let class = ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");
        let settings = settings.iter().chain([&class]);
        let settings = settings.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Authorizer::new(&BrokerConfig::new(settings).unwrap()).unwrap()
    }

    fn of(principal: &str) -> Requester<'_> {
        Requester { principal, address: [10, 0, 0, 1].into() }
    }

    fn acls(all: impl IntoIterator<Item = Acl>) -> Acls {
        let mut acls = Acls::default();
        for (at, acl) in all.into_iter().enumerate() {
            acls.insert(id(at), acl);
        }
        acls
    }

    type Line<'a> = (PermissionType, AclOperation, PatternType, &'a str, &'a str, &'a str);

    fn topic_acls(lines: &[Line<'_>]) -> Acls {
        acls(lines.iter().map(|(permission, operation, pattern_type, name, principal, host)| {
            let mut record = record(Topic, *pattern_type, name, principal, *operation, *permission);
            record.host = (*host).to_owned();
            Acl::from_record(&record).unwrap()
        }))
    }

    /// Looks at all ACLs in turn, and goes by the words of KIP-11 and KIP-290.
    struct Model<'a> {
        acls: &'a [Acl],
        allow_everyone: bool,
        requester: Requester<'a>,
        operation: AclOperation,
        of: ResourceType,
    }

    impl Model<'_> {
        fn is_about(&self, pattern: &ResourcePattern, name: &str) -> bool {
            pattern.resource_type == self.of
                && match pattern.pattern_type {
                    Literal => &*pattern.name == name || &*pattern.name == "*",
                    Prefixed => name.starts_with(&*pattern.name),
                }
        }

        fn is_for_requester(&self, acl: &Acl) -> bool {
            let host = acl.entry.host.as_str();
            [self.requester.principal, "User:*"].contains(&&*acl.entry.principal)
                && (host == "*"
                    || host.parse::<IpAddr>().unwrap().to_canonical() == self.requester.address.to_canonical())
        }

        fn speaks_of_operation(&self, acl: &Acl) -> bool {
            let implied: &[AclOperation] = match (acl.entry.permission_type, self.operation) {
                (Allow, Describe) => &[Read, Write, Delete, Alter],
                (Allow, DescribeConfigs) => &[AlterConfigs],
                _ => &[],
            };
            [All, self.operation].contains(&acl.entry.operation) || implied.contains(&acl.entry.operation)
        }

        fn matching(&self, permission: PermissionType) -> impl Iterator<Item = &Acl> {
            let all = self.acls.iter().filter(move |acl| acl.entry.permission_type == permission);
            all.filter(move |acl| self.is_for_requester(acl) && self.speaks_of_operation(acl))
        }

        fn allows(&self, name: &str) -> bool {
            let has = |permission| self.matching(permission).any(|acl| self.is_about(&acl.pattern, name));
            let is_unknown = || !self.acls.iter().any(|acl| self.is_about(&acl.pattern, name));
            !has(Deny) && (has(Allow) || self.allow_everyone && is_unknown())
        }

        /// Tries names that each ACL could be about, and one that none is about but those of all.
        fn allows_any(&self) -> bool {
            let named = self.matching(Allow).filter(|acl| acl.pattern.resource_type == self.of).any(|acl| {
                let name = &*acl.pattern.name;
                // A prefix that is allowed has names that no ACL says; a star has them, too.
                let fresh = match acl.pattern.pattern_type {
                    Literal if name == "*" => "~".to_owned(),
                    Literal => name.to_owned(),
                    Prefixed => format!("{name}~"),
                };
                self.allows(&fresh)
            });
            named || self.allow_everyone && self.allows("~")
        }
    }

    #[test]
    fn decisions_are_those_of_a_look_at_all_acls() {
        let mut rng = Rng::new(1);
        let operations = [Read, Write, Alter, Describe, AlterConfigs, DescribeConfigs, Create];
        let mut rules = [0; 4];
        for _ in 0..1500 {
            let count_max = 1 << rng.below(6);
            let count = rng.below(count_max) as usize;
            let mut all: Vec<Acl> = (0..count).map(|_| any_acl(&mut rng)).collect();
            all.sort();
            all.dedup();
            let index = acls(all.iter().cloned());
            let allow_everyone = rng.percent(30);
            let text = allow_everyone.to_string();
            let authorizer =
                authorizer(&[("allow.everyone.if.no.acl.found", &text), ("super.users", "User:root;User:b1")]);
            for _ in 0..20 {
                let host = pick(&mut rng, &HOSTS[1..]);
                let principal = pick(&mut rng, &[&PRINCIPALS[..], &["User:root", "User:c"]].concat());
                let requester = Requester { principal, address: host.parse().unwrap() };
                let (operation, of) = (pick(&mut rng, &operations), pick(&mut rng, &[Topic, Topic, Topic, Group]));
                let name = pick(&mut rng, &[&NAMES[..], &["", "abcd", "~", "éab"]].concat());
                let model = Model { acls: &all, allow_everyone, requester, operation, of };
                let rule = authorizer.authorize(Some(&index), requester, operation, of, name);
                let any = authorizer.authorize_any(Some(&index), requester, operation, of);
                let context = format!("{requester:?} {operation} {of} {name}: {rule}, any {any}, of {all:?}");
                let is_super = principal == "User:root";
                assert_eq!(rule.is_allowed(), is_super || model.allows(name), "{context}");
                assert_eq!(any.is_allowed(), is_super || model.allows_any(), "{context}");
                match rule {
                    Rule::SuperUser => assert!(is_super, "{context}"),
                    Rule::DefaultAllow => assert!(allow_everyone, "{context}"),
                    Rule::DefaultDeny => {}
                    Rule::MatchingAcl(acl) => {
                        assert!(all.contains(acl) && model.is_about(&acl.pattern, name), "{context}");
                        assert!(model.is_for_requester(acl) && model.speaks_of_operation(acl), "{context}");
                    }
                }
                rules[match rule {
                    Rule::SuperUser => 0,
                    Rule::DefaultAllow => 1,
                    Rule::DefaultDeny => 2,
                    Rule::MatchingAcl(_) => 3,
                }] += 1;
            }
        }
        assert!(rules.iter().all(|count| *count > 500), "all rules were tried: {rules:?}");
    }

    #[test]
    fn cases_by_table() {
        let (a, all, here) = ("User:a", "User:*", "10.0.0.1");
        let with = |lines: &[Line<'_>], operation, name: &str| {
            let acls = topic_acls(lines);
            authorizer(&[]).authorize(Some(&acls), of(a), operation, Topic, name).is_allowed()
        };
        assert!(!with(&[], Read, "t"));
        assert!(with(&[(Allow, Read, Literal, "t", a, WILDCARD)], Describe, "t"));
        assert!(!with(&[(Allow, Describe, Literal, "t", a, WILDCARD)], Read, "t"));
        assert!(!with(&[(Allow, Read, Literal, "t", a, WILDCARD)], DescribeConfigs, "t"));
        assert!(with(&[(Allow, AlterConfigs, Literal, "t", a, WILDCARD)], DescribeConfigs, "t"));
        assert!(with(&[(Allow, Read, Literal, "t", all, here)], Read, "t"));
        assert!(!with(&[(Allow, Read, Literal, "t", all, "10.0.0.2")], Read, "t"));
        assert!(with(&[(Allow, Read, Literal, "*", a, WILDCARD)], Read, "t"));
        assert!(!with(&[(Allow, Read, Prefixed, "*", a, WILDCARD)], Read, "t"));
        assert!(with(&[(Allow, Read, Prefixed, "*", a, WILDCARD)], Read, "*t"));
        let deny_read = (Deny, Read, Prefixed, "t", all, WILDCARD);
        let allow_all = (Allow, All, Literal, "t", a, WILDCARD);
        assert!(!with(&[deny_read, allow_all], Read, "t"));
        assert!(with(&[deny_read, allow_all], Describe, "t"), "who may not read may describe");
        assert!(!with(&[(Deny, All, Literal, "*", all, here), allow_all], Describe, "t"));
        assert!(with(&[allow_all], ClusterAction, "t"), "all is all, also what the type does not have");
    }

    #[test]
    fn super_users_may_also_before_the_metadata_is_known() {
        let authorizer =
            authorizer(&[("super.users", "User:a;User:CN=b,OU=c"), ("allow.everyone.if.no.acl.found", "true")]);
        let rule = |acls, principal| authorizer.authorize(acls, of(principal), Read, Topic, "t");
        let any = |acls, principal| authorizer.authorize_any(acls, of(principal), Read, Topic);
        let denied = topic_acls(&[(Deny, All, Literal, "*", "User:*", WILDCARD)]);
        for acls in [None, Some(&denied)] {
            for principal in ["User:a", "User:CN=b,OU=c"] {
                assert_eq!([rule(acls, principal), any(acls, principal)], [Rule::SuperUser; 2]);
            }
            for principal in ["User:A", "User:CN=b", "Group:a", "User:*"] {
                assert!(!rule(acls, principal).is_allowed() && !any(acls, principal).is_allowed(), "{principal}");
            }
        }
        let none = Acls::default();
        assert_eq!([rule(Some(&none), "User:x"), any(Some(&none), "User:x")], [Rule::DefaultAllow; 2]);
    }

    #[test]
    fn the_rule_says_which_acl_decided() {
        let acls = topic_acls(&[(Allow, Read, Prefixed, "t", "User:a", WILDCARD)]);
        let rule = authorizer(&[]).authorize(Some(&acls), of("User:a"), Describe, Topic, "t1");
        assert_eq!(
            rule.to_string(),
            "MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=t, patternType=PREFIXED, principal=User:a, \
             host=*, operation=READ, permissionType=ALLOW))"
        );
        assert_eq!(authorizer(&[]).authorize(Some(&acls), of("User:b"), Read, Topic, "t").to_string(), "DefaultDeny");
    }

    #[test]
    fn a_mapped_address_is_that_of_ipv4() {
        let acls = topic_acls(&[(Allow, Read, Literal, "t", "User:a", "10.0.0.1")]);
        let requester = Requester { principal: "User:a", address: "::ffff:10.0.0.1".parse().unwrap() };
        assert!(authorizer(&[]).authorize(Some(&acls), requester, Read, Topic, "t").is_allowed());
    }

    #[test]
    fn a_broker_without_an_authorizer_has_none() {
        assert!(Authorizer::new(&BrokerConfig::default()).is_none());
    }

    #[test]
    fn a_decision_does_not_look_at_more_acls_when_there_are_more() {
        let many = |count: usize| {
            let topics = (0..count).map(move |n| (Literal, format!("topic-{n}"), format!("User:{}", n % 1000)));
            let prefixes = (0..count / 10).map(|n| (Prefixed, format!("team-{n}-"), format!("User:{}", n % 1000)));
            let hosts = (0..count / 10).map(|n| (Literal, "shared".to_owned(), format!("User:{n}")));
            acls(topics.chain(prefixes).chain(hosts).map(|(pattern_type, name, principal)| {
                Acl::from_record(&record(Topic, pattern_type, &name, &principal, Read, Allow)).unwrap()
            }))
        };
        let (few, many) = (many(100), many(20_000));
        let authorizer = authorizer(&[]);
        for name in ["topic-7", "topic-999999", "team-7-x", "team-8-x", "shared", "zebra"] {
            for operation in [Read, Write] {
                let looks = [&few, &many].map(|acls| {
                    visited(|| {
                        authorizer.authorize(Some(acls), of("User:7"), operation, Topic, name);
                        authorizer.authorize_any(Some(acls), of("User:1001"), operation, Topic);
                    })
                });
                assert!(looks.iter().all(|looks| *looks <= 8), "{name}: {looks:?}");
            }
        }
    }
}
