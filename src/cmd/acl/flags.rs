//! Flags of ACLs, under the names that `kafka-acls.sh` has for them, and what they stand for together.

use std::str::FromStr;

use anyhow::{Result, bail};
use clap::ValueEnum;
use metadata::acl::{AclOperation, CLUSTER_NAME, PatternType, PermissionType, ResourceType};
use wire::api::create_acls::AclCreation;
use wire::api::delete_acls::DeleteAclsFilter;

use crate::cmd::args;
use crate::cmd::failure::Usage;

/// All hosts.
pub(super) const ANY: &str = "*";
/// The number that stands for any in a filter.
const ANY_ID: i8 = 1;
const MATCH_ID: i8 = 2;

/// A type and a name.
#[derive(Clone, Debug)]
pub(super) struct Principal(pub(super) String);

impl FromStr for Principal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() => Ok(Self(args::name(text)?)),
            _ => Err("a principal is a type and a name, for example User:alice".to_owned()),
        }
    }
}

/// Who may, or may not.
#[derive(Debug, clap::Args)]
pub(super) struct Entries {
    /// A principal that may, as often as needed; User:* is everybody
    #[arg(long, value_name = "TYPE:NAME")]
    allow_principal: Vec<Principal>,
    /// A principal that may not, as often as needed
    #[arg(long, value_name = "TYPE:NAME")]
    deny_principal: Vec<Principal>,
    /// An address that those who may come from, as often as needed; * is any
    #[arg(long, value_name = "ADDRESS", requires = "allow_principal", value_parser = args::name)]
    allow_host: Vec<String>,
    /// An address that those who may not come from, as often as needed; * is any
    #[arg(long, value_name = "ADDRESS", requires = "deny_principal", value_parser = args::name)]
    deny_host: Vec<String>,
}

/// What they may do.
#[derive(Debug, clap::Args)]
pub(super) struct Grants {
    /// Read, Write, Create, Delete, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite,
    /// TwoPhaseCommit or All, as often as needed
    #[arg(long, value_name = "OPERATION", value_parser = operation)]
    #[arg(conflicts_with_all = ["producer", "consumer", "idempotent"])]
    operation: Vec<AclOperation>,
    /// What a producer needs: WRITE, DESCRIBE and CREATE of topics, WRITE and DESCRIBE of transactional ids
    #[arg(long, requires = "topic", conflicts_with = "deny_principal")]
    producer: bool,
    /// What an idempotent producer needs of clusters before Apache Kafka 3.0, too: IDEMPOTENT_WRITE of the cluster
    #[arg(long, requires = "producer")]
    idempotent: bool,
    /// What a consumer needs: READ and DESCRIBE of topics, READ of groups
    #[arg(long, requires = "topic", requires = "group", conflicts_with = "deny_principal")]
    consumer: bool,
}

/// Which resources.
#[derive(Debug, clap::Args)]
pub(super) struct Resources {
    /// A topic, as often as needed; * is all
    #[arg(long, value_name = "NAME", value_parser = args::name)]
    topic: Vec<String>,
    /// A consumer group, as often as needed; * is all
    #[arg(long, value_name = "NAME", value_parser = args::name)]
    group: Vec<String>,
    /// A transactional id, as often as needed; * is all
    #[arg(long, value_name = "ID", value_parser = args::name)]
    transactional_id: Vec<String>,
    /// The cluster itself
    #[arg(long)]
    cluster: bool,
    /// A user whose tokens they are, as often as needed; * is all
    #[arg(long, value_name = "TYPE:NAME", alias = "user-principal", value_parser = args::name)]
    user: Vec<String>,
}

/// How the names of new ACLs are read.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Patterns {
    Literal,
    Prefixed,
}

/// Which ACLs a name stands for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum PatternFilter {
    Literal,
    Prefixed,
    Match,
    Any,
}

impl Patterns {
    fn id(self) -> i8 {
        match self {
            Self::Literal => PatternType::Literal as i8,
            Self::Prefixed => PatternType::Prefixed as i8,
        }
    }
}

impl PatternFilter {
    pub(super) fn id(self) -> i8 {
        match self {
            Self::Literal => PatternType::Literal as i8,
            Self::Prefixed => PatternType::Prefixed as i8,
            Self::Match => MATCH_ID,
            Self::Any => ANY_ID,
        }
    }
}

/// As Kafka takes them (`SecurityUtils.operation`): `IdempotentWrite`, `idempotent_write`.
pub(super) fn operation(text: &str) -> Result<AclOperation, String> {
    let plain = |name: &str| name.replace(['_', '-'], "").to_ascii_uppercase();
    let found = AclOperation::VALUES.iter().find(|operation| plain(&operation.to_string()) == plain(text));
    found.copied().ok_or_else(|| {
        let all: Vec<_> = AclOperation::VALUES.iter().map(ToString::to_string).collect();
        format!("operations are {}", all.join(", "))
    })
}

impl Resources {
    pub(super) fn named(&self) -> Vec<(ResourceType, &str)> {
        let cluster = self.cluster.then_some((ResourceType::Cluster, CLUSTER_NAME));
        let parts = [
            (ResourceType::Topic, &self.topic),
            (ResourceType::Group, &self.group),
            (ResourceType::TransactionalId, &self.transactional_id),
            (ResourceType::User, &self.user),
        ];
        let named = parts.into_iter().flat_map(|(kind, names)| names.iter().map(move |name| (kind, name.as_str())));
        named.chain(cluster).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.named().is_empty()
    }

    /// A filter for each of them, or one for all there are.
    pub(super) fn filters(&self, pattern_type: i8) -> Vec<DeleteAclsFilter> {
        let named = self.named();
        if named.is_empty() {
            return vec![any(pattern_type)];
        }
        named.into_iter().map(|(kind, name)| of_resource(kind, name, pattern_type)).collect()
    }
}

fn any(pattern_type: i8) -> DeleteAclsFilter {
    DeleteAclsFilter {
        resource_type_filter: ANY_ID,
        resource_name_filter: None,
        pattern_type_filter: pattern_type,
        principal_filter: None,
        host_filter: None,
        operation: ANY_ID,
        permission_type: ANY_ID,
    }
}

/// The cluster has patterns of one type only, whatever is said of the others.
fn of_resource(kind: ResourceType, name: &str, pattern_type: i8) -> DeleteAclsFilter {
    let pattern_type = if kind == ResourceType::Cluster { ANY_ID } else { pattern_type };
    DeleteAclsFilter {
        resource_type_filter: kind as i8,
        resource_name_filter: Some(name.to_owned()),
        ..any(pattern_type)
    }
}

impl Entries {
    fn is_empty(&self) -> bool {
        self.allow_principal.is_empty() && self.deny_principal.is_empty()
    }

    /// Permission, principal and host of each, where `no_host` stands for the hosts that are not named.
    fn each<'a>(&'a self, no_host: Option<&'a str>) -> Vec<(PermissionType, &'a str, Option<&'a str>)> {
        let parts = [
            (PermissionType::Allow, &self.allow_principal, &self.allow_host),
            (PermissionType::Deny, &self.deny_principal, &self.deny_host),
        ];
        let mut entries = Vec::new();
        for (permission, principals, hosts) in parts {
            let named = hosts.iter().map(|host| Some(host.as_str()));
            let hosts: Vec<_> = if hosts.is_empty() { vec![no_host] } else { named.collect() };
            for Principal(principal) in principals {
                entries.extend(hosts.iter().map(|host| (permission, principal.as_str(), *host)));
            }
        }
        entries
    }
}

impl Grants {
    /// The operations of each resource, as Kafka's `AclCommand` has them; `None` where none is named.
    fn of<'a>(&self, resources: &'a Resources) -> Vec<(ResourceType, &'a str, Option<AclOperation>)> {
        let mut granted = Vec::new();
        for (kind, name) in resources.named() {
            let operations: Vec<_> = if self.producer || self.consumer {
                self.of_clients(kind).into_iter().map(Some).collect()
            } else if self.operation.is_empty() {
                vec![None]
            } else {
                self.operation.iter().copied().map(Some).collect()
            };
            granted.extend(operations.into_iter().map(|operation| (kind, name, operation)));
        }
        if self.idempotent {
            granted.push((ResourceType::Cluster, CLUSTER_NAME, Some(AclOperation::IdempotentWrite)));
        }
        granted
    }

    /// What producers and consumers need.
    fn of_clients(&self, kind: ResourceType) -> Vec<AclOperation> {
        use AclOperation::{Create, Describe, Read, Write};
        let producer: &[_] = match kind {
            ResourceType::Topic => &[Write, Describe, Create],
            ResourceType::TransactionalId => &[Write, Describe],
            _ => &[],
        };
        let consumer: &[_] = match kind {
            ResourceType::Topic => &[Read, Describe],
            ResourceType::Group => &[Read],
            _ => &[],
        };
        let producer = if self.producer { producer } else { &[] };
        let consumer = if self.consumer { consumer } else { &[] };
        let mut both = [producer, consumer].concat();
        both.sort();
        both.dedup();
        both
    }

    fn is_empty(&self) -> bool {
        self.operation.is_empty() && !self.producer && !self.consumer
    }
}

/// The ACLs to add.
pub(super) fn acls(
    entries: &Entries,
    grants: &Grants,
    resources: &Resources,
    patterns: Patterns,
) -> Result<Vec<AclCreation>> {
    if resources.is_empty() {
        bail!(Usage("which resource? Give --topic, --group, --transactional-id, --cluster or --user".to_owned()));
    }
    if entries.is_empty() {
        bail!(Usage("who? Give --allow-principal or --deny-principal".to_owned()));
    }
    if grants.is_empty() {
        bail!(Usage("what? Give --operation, --producer or --consumer".to_owned()));
    }
    let mut acls = Vec::new();
    for (permission, principal, host) in entries.each(Some(ANY)) {
        for (kind, name, operation) in grants.of(resources) {
            let patterns = if kind == ResourceType::Cluster { Patterns::Literal } else { patterns };
            acls.push(AclCreation {
                resource_type: kind as i8,
                resource_name: name.to_owned(),
                resource_pattern_type: patterns.id(),
                principal: principal.to_owned(),
                host: host.unwrap_or(ANY).to_owned(),
                operation: operation.map_or(ANY_ID, |operation| operation as i8),
                permission_type: permission as i8,
            });
        }
    }
    Ok(acls)
}

/// What the ACLs to remove are like.
pub(super) fn filters(
    entries: &Entries,
    grants: &Grants,
    resources: &Resources,
    patterns: PatternFilter,
) -> Result<Vec<DeleteAclsFilter>> {
    if resources.is_empty() && entries.is_empty() {
        bail!(Usage(
            "which ACLs? Give a resource (--topic, --group ...) or a principal (--allow-principal ...)".to_owned()
        ));
    }
    let of_resources = if resources.is_empty() {
        let operations = grants.operation.iter().map(|operation| *operation as i8);
        let operations: Vec<_> = if grants.operation.is_empty() { vec![ANY_ID] } else { operations.collect() };
        operations.into_iter().map(|operation| DeleteAclsFilter { operation, ..any(patterns.id()) }).collect()
    } else {
        let granted = grants.of(resources).into_iter();
        let filters = granted.map(|(kind, name, operation)| DeleteAclsFilter {
            operation: operation.map_or(ANY_ID, |operation| operation as i8),
            ..of_resource(kind, name, patterns.id())
        });
        filters.collect::<Vec<_>>()
    };
    if entries.is_empty() {
        return Ok(of_resources);
    }
    let mut filters = Vec::new();
    for (permission, principal, host) in entries.each(None) {
        filters.extend(of_resources.iter().map(|filter| DeleteAclsFilter {
            principal_filter: Some(principal.to_owned()),
            host_filter: host.map(str::to_owned),
            permission_type: permission as i8,
            ..filter.clone()
        }));
    }
    Ok(filters)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        entries: Entries,
        #[command(flatten)]
        grants: Grants,
        #[command(flatten)]
        resources: Resources,
        #[arg(long, value_enum, ignore_case = true, default_value = "literal")]
        resource_pattern_type: Patterns,
    }

    fn parsed(line: &str) -> Result<Flags, clap::Error> {
        Flags::try_parse_from(["acl"].into_iter().chain(line.split(' ')))
    }

    fn added(line: &str) -> Result<Vec<String>> {
        let Flags { entries, grants, resources, resource_pattern_type } = parsed(line)?;
        Ok(acls(&entries, &grants, &resources, resource_pattern_type)?.iter().map(super::super::in_words).collect())
    }

    fn removed(line: &str) -> Result<Vec<[String; 3]>> {
        let Flags { entries, grants, resources, .. } = parsed(line)?;
        let filters = filters(&entries, &grants, &resources, PatternFilter::Literal)?;
        let words = |filter: &DeleteAclsFilter| {
            let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
            let who = format!("{} {}", text(&filter.principal_filter), text(&filter.host_filter));
            let DeleteAclsFilter { resource_type_filter, operation, permission_type, .. } = filter;
            let what = format!("{resource_type_filter} {}", text(&filter.resource_name_filter));
            [who, what, format!("{operation} {permission_type}")]
        };
        Ok(filters.iter().map(words).collect())
    }

    #[test]
    fn there_is_an_acl_for_each_of_all_that_is_named() {
        let line = "--allow-principal User:a --allow-principal User:b --allow-host 10.0.0.1 --deny-principal User:c \
                    --operation Read --operation idempotent-write --topic t --cluster";
        let expected = [
            "ALLOW User:a from 10.0.0.1 READ on TOPIC t",
            "ALLOW User:a from 10.0.0.1 IDEMPOTENT_WRITE on TOPIC t",
            "ALLOW User:a from 10.0.0.1 READ on CLUSTER kafka-cluster",
            "ALLOW User:a from 10.0.0.1 IDEMPOTENT_WRITE on CLUSTER kafka-cluster",
        ];
        let added = added(line).unwrap();
        assert_eq!(added[..4], expected);
        assert_eq!(added[8], "DENY User:c READ on TOPIC t");
        assert_eq!(added.len(), 12);
    }

    /// What `kafka-acls.sh` of Apache Kafka 4.3.1 adds.
    #[test]
    fn producers_and_consumers_get_what_kafka_gives_them() {
        let producer =
            "--allow-principal User:a --producer --topic t --transactional-id x --resource-pattern-type prefixed";
        let expected = [
            "ALLOW User:a WRITE on TOPIC t (PREFIXED)",
            "ALLOW User:a CREATE on TOPIC t (PREFIXED)",
            "ALLOW User:a DESCRIBE on TOPIC t (PREFIXED)",
            "ALLOW User:a WRITE on TRANSACTIONAL_ID x (PREFIXED)",
            "ALLOW User:a DESCRIBE on TRANSACTIONAL_ID x (PREFIXED)",
        ];
        assert_eq!(added(producer).unwrap(), expected);
        let cluster = "ALLOW User:a IDEMPOTENT_WRITE on CLUSTER kafka-cluster";
        assert_eq!(added(&format!("{producer} --idempotent")).unwrap(), [&expected[..], &[cluster]].concat());
        let expected = ["READ on TOPIC t", "DESCRIBE on TOPIC t", "READ on GROUP g"];
        let expected = expected.map(|words| format!("ALLOW User:a {words}"));
        assert_eq!(added("--allow-principal User:a --consumer --topic t --group g").unwrap(), expected);
        let both = added("--allow-principal User:a --producer --consumer --topic t --group g").unwrap();
        assert_eq!(both.len(), 5, "{both:?}");
    }

    #[test]
    fn what_is_not_said_is_any_when_acls_are_removed() {
        let row = |words: [&str; 3]| words.map(str::to_owned);
        assert_eq!(removed("--topic t").unwrap(), [row(["- -", "2 t", "1 1"])]);
        assert_eq!(removed("--allow-principal User:a").unwrap(), [row(["User:a -", "1 -", "1 3"])]);
        assert_eq!(
            removed("--deny-principal User:a --deny-host h --operation Read --topic t --cluster").unwrap(),
            [row(["User:a h", "2 t", "3 2"]), row(["User:a h", "4 kafka-cluster", "3 2"])]
        );
        assert!(removed("--operation Read").unwrap_err().is::<Usage>());
    }

    #[test]
    fn what_is_missing_or_does_not_go_together_is_refused() {
        for line in [
            "--allow-principal User:a --operation Read",
            "--operation Read --topic t",
            "--allow-principal User:a --topic t",
            "--allow-principal alice --operation Read --topic t",
            "--allow-principal User: --operation Read --topic t",
            "--allow-principal User:a --operation Reed --topic t",
            "--allow-principal User:a --allow-host h --deny-host h --operation Read --topic t",
            "--allow-principal User:a --producer --operation Read --topic t",
            "--allow-principal User:a --consumer --topic t",
            "--deny-principal User:a --producer --topic t",
            "--allow-principal User:a --idempotent --topic t",
        ] {
            assert!(added(line).is_err(), "{line}");
        }
    }
}
