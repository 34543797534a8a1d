//! `parshall acl check`: whether somebody may do something, and which rule decides. It is decided here, as brokers do,
//! by the ACLs of the cluster and the settings of one of its brokers.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use client::{Client, Resource};
use configuration::{BrokerConfig, STANDARD_AUTHORIZER};
use metadata::acl::{Acl, AclOperation, Acls, Authorizer, InvalidAcl, Requester, ResourceType, Rule};
use serde_json::json;
use wire::Uuid;
use wire::api::create_acls::AclCreation;
use wire::state::metadata::AccessControlEntryRecord;

use super::flags::{self, PatternFilter, Principal, Resources};
use super::{in_json, in_words};
use crate::cmd::args::Connection;
use crate::cmd::failure::Usage;
use crate::cmd::output;

const DENIED: u8 = 1;
const CLASS: &str = "authorizer.class.name";
const SUPER_USERS: &str = "super.users";
const ALLOW_EVERYONE: &str = "allow.everyone.if.no.acl.found";
/// Where somebody comes from who comes from no address that an ACL names.
const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Say whether somebody may do something, and which rule decides.
///
/// It goes by the ACLs that there are and the settings of one broker: super.users and allow.everyone.if.no.acl.found.
///
/// Exits with 0 when it is allowed, and with 1 when it is denied or cannot be found out.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall acl check --principal User:alice --operation Read --topic orders
  parshall acl check --principal User:alice --operation Read --topic orders --host 10.0.0.1
  parshall acl check --principal User:bob --operation Create --cluster --json | jq '.allowed'")]
pub(super) struct Args {
    /// Who wants to do it
    #[arg(long, value_name = "TYPE:NAME")]
    principal: Principal,
    /// What: one of those that 'parshall acl add' takes
    #[arg(long, value_name = "OPERATION", value_parser = flags::operation)]
    operation: AclOperation,
    #[command(flatten)]
    resources: Resources,
    /// The address that it comes from [default: one that no ACL names]
    #[arg(long, value_name = "ADDRESS")]
    host: Option<IpAddr>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: Args) -> Result<ExitCode> {
    let [(kind, name)] = args.resources.named()[..] else {
        bail!(Usage(
            "of which resource? Give one --topic, --group, --transactional-id or --user, or --cluster".to_owned()
        ));
    };
    if args.operation == AclOperation::All || !kind.operations().contains(&args.operation) {
        let all: Vec<_> = kind.operations().iter().map(ToString::to_string).collect();
        bail!(Usage(format!("what can be done to a resource of type {kind} is {}", all.join(", "))));
    }
    let client = args.connection.client("acl").await?;
    let authorizer = authorizer(&client).await?;
    let acls = match &authorizer {
        Some(_) => acls(&client, &args.resources).await?,
        None => Acls::default(),
    };
    let Principal(principal) = &args.principal;
    let requester = Requester { principal, address: args.host.unwrap_or(NOWHERE) };
    let rule =
        authorizer.as_ref().map(|authorizer| authorizer.authorize(Some(&acls), requester, args.operation, kind, name));
    let is_allowed = rule.is_none_or(|rule| rule.is_allowed());
    if args.json {
        let acl = match rule {
            Some(Rule::MatchingAcl(acl)) => Some(in_json(&creation(acl))),
            _ => None,
        };
        output::print_json(&json!({
            "principal": principal, "host": args.host, "operation": args.operation.to_string(),
            "resource_type": kind.to_string(), "resource_name": name, "allowed": is_allowed,
            "rule": rule.map_or("NoAuthorizer", name_of), "acl": acl,
        }))?;
    } else {
        let word = if is_allowed { "allowed" } else { "denied" };
        output::print(&format!("{word}: {}\n", reason(rule, principal, kind, name)))?;
    }
    Ok(if is_allowed { ExitCode::SUCCESS } else { ExitCode::from(DENIED) })
}

/// What a broker decides by, besides ACLs. `None` where it asks nobody.
async fn authorizer(client: &Client) -> Result<Option<Authorizer>> {
    let broker = client.brokers().await?.into_keys().min().context("the cluster tells of no broker")?;
    let names = [CLASS, SUPER_USERS, ALLOW_EVERYONE].map(str::to_owned);
    let described = client.describe_configs_named(&[Resource::broker(broker)], &names).await;
    let entries = described.into_values().next().context("the broker tells no settings")??;
    let mut settings: BTreeMap<String, String> = BTreeMap::new();
    for entry in entries {
        match entry.value {
            Some(value) => _ = settings.insert(entry.name, value),
            // Apache Kafka shows no value of settings that are its authorizer's.
            None if entry.name != CLASS => {
                let name = output::visible(&entry.name).into_owned();
                eprintln!("warning: broker {broker} does not tell {name}, which is not taken into account");
            }
            None => {}
        }
    }
    match settings.get(CLASS).map(String::as_str) {
        None | Some("") => return Ok(None),
        Some(STANDARD_AUTHORIZER) => {}
        Some(other) => bail!("the brokers decide by {other}, and only they know what it says"),
    }
    Ok(Authorizer::new(&BrokerConfig::new(settings)?))
}

/// The ACLs that count for a resource, of whomever they are.
async fn acls(client: &Client, resource: &Resources) -> Result<Acls> {
    let mut all = Vec::new();
    for filter in resource.filters(PatternFilter::Match.id()) {
        for acl in client.describe_acls(&filter).await? {
            all.push(known(&acl).with_context(|| format!("{} is not understood", in_words(&acl)))?);
        }
    }
    Ok(all.into_iter().collect())
}

fn known(acl: &AclCreation) -> Result<Acl, InvalidAcl> {
    let AclCreation { resource_name, principal, host, .. } = acl.clone();
    Acl::from_record(&AccessControlEntryRecord {
        id: Uuid::ZERO,
        resource_type: acl.resource_type,
        resource_name,
        pattern_type: acl.resource_pattern_type,
        principal,
        host,
        operation: acl.operation,
        permission_type: acl.permission_type,
    })
}

fn creation(acl: &Acl) -> AclCreation {
    let record = acl.to_record(Uuid::ZERO);
    AclCreation {
        resource_type: record.resource_type,
        resource_name: record.resource_name,
        resource_pattern_type: record.pattern_type,
        principal: record.principal,
        host: record.host,
        operation: record.operation,
        permission_type: record.permission_type,
    }
}

/// As the log of the brokers has it.
fn name_of(rule: Rule<'_>) -> &'static str {
    match rule {
        Rule::SuperUser => "SuperUser",
        Rule::DefaultAllow => "DefaultAllow",
        Rule::DefaultDeny => "DefaultDeny",
        Rule::MatchingAcl(_) => "MatchingAcl",
    }
}

fn reason(rule: Option<Rule<'_>>, principal: &str, kind: ResourceType, name: &str) -> String {
    match rule {
        None => format!("the brokers have no {CLASS}, so everybody may do everything"),
        Some(Rule::SuperUser) => format!("{} is one of {SUPER_USERS}", output::visible(principal)),
        Some(Rule::DefaultAllow) => {
            format!("no ACL is about {kind} {}, and {ALLOW_EVERYONE} is true", output::visible(name))
        }
        Some(Rule::DefaultDeny) => "no ACL allows it".to_owned(),
        Some(Rule::MatchingAcl(acl)) => in_words(&creation(acl)),
    }
}
