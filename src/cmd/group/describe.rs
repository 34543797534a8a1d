//! `parshall group describe`, in the layout of `kafka-consumer-groups.sh --describe`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use client::{Client, ClientError, Group, GroupDescription, GroupMember, LATEST, TopicPartition};
use serde::Serialize;

use super::{listed, matching};
use crate::cmd::args::{self, Connection};
use crate::cmd::output::{self, visible};
use crate::cmd::partitions;
use crate::cmd::table::Column::{Fitted, Fixed};
use crate::cmd::table::table;

const MISSING: &str = "-";

/// Show where groups stand: offsets and lag, members, or state.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall group describe billing
  parshall group describe billing --members --verbose
  parshall group describe --regex 'test-.*'
  parshall group describe --all-groups --state --verbose")]
pub(super) struct Describe {
    /// Names of the groups
    #[arg(value_name = "GROUP", value_parser = args::name, required_unless_present = "all_groups")]
    groups: Vec<String>,
    /// Take the names for regular expressions, each of a whole name
    #[arg(long, short = 'r', requires = "groups")]
    regex: bool,
    /// Describe all groups
    #[arg(long, conflicts_with = "groups")]
    all_groups: bool,
    /// Show the members in place of the offsets
    #[arg(long, conflicts_with = "state")]
    members: bool,
    /// Show the state in place of the offsets
    #[arg(long)]
    state: bool,
    /// With --members: show what each is assigned and is to be assigned; with --state: show the group's epochs
    #[arg(long)]
    verbose: bool,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: Describe) -> Result<()> {
    let client = args.connection.client("group").await?;
    let groups: Vec<_> = match (args.all_groups, args.regex) {
        (true, _) => listed(&client).await?.into_keys().collect(),
        (_, true) => matching(&client, &args.groups).await?,
        _ => args.groups.clone(),
    };
    let described = client.describe_groups(&groups).await;
    let found = groups.iter().filter_map(|group| described.get(group).cloned());
    let found = found.collect::<Result<Vec<_>, _>>()?;
    if args.json {
        let mut documents = Vec::new();
        for group in &found {
            documents.push(document(&client, group).await?);
        }
        return Ok(output::print_json(&documents)?);
    }
    for group in &found {
        warn_of_state(group);
        let text = match (args.members, args.state) {
            (true, _) => render_members(group, args.verbose),
            (_, true) => render_state(group, args.verbose),
            _ => render_offsets(&group.group_id, &offsets(&client, group).await?),
        };
        output::print(&text)?;
    }
    Ok(())
}

/// To stderr, as Kafka's tool does.
fn warn_of_state(group: &GroupDescription) {
    match group.state.as_str() {
        "Empty" => eprintln!("\nConsumer group '{}' has no active members.", visible(&group.group_id)),
        "PreparingRebalance" | "CompletingRebalance" | "Assigning" | "Reconciling" => {
            eprintln!("\nWarning: Consumer group '{}' is rebalancing.", visible(&group.group_id));
        }
        _ => {}
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Offset {
    topic: String,
    partition: i32,
    current_offset: Option<i64>,
    log_end_offset: Option<i64>,
    lag: Option<i64>,
    consumer_id: Option<String>,
    host: Option<String>,
    client_id: Option<String>,
}

#[derive(Debug, Serialize)]
struct Member<'a> {
    consumer_id: &'a str,
    group_instance_id: Option<&'a str>,
    host: &'a str,
    client_id: &'a str,
    partitions: Vec<String>,
    /// These are null in groups of the classic protocol.
    epoch: Option<i32>,
    target_partitions: Option<Vec<String>>,
    is_classic: Option<bool>,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    group: &'a str,
    state: &'a str,
    protocol_type: &'a str,
    assignment_strategy: &'a str,
    /// Of a group of the consumer protocol (KIP-848).
    group_epoch: Option<i32>,
    assignment_epoch: Option<i32>,
    coordinator: i32,
    members: Vec<Member<'a>>,
    offsets: Vec<Offset>,
}

async fn document<'a>(client: &Client, group: &'a GroupDescription) -> Result<Document<'a>, ClientError> {
    Ok(Document {
        group: &group.group_id,
        state: &group.state,
        protocol_type: &group.protocol_type,
        assignment_strategy: &group.protocol,
        group_epoch: group.epochs.map(|epochs| epochs.group),
        assignment_epoch: group.epochs.map(|epochs| epochs.assignment),
        coordinator: group.coordinator.id,
        members: group
            .members
            .iter()
            .map(|member| Member {
                consumer_id: &member.member_id,
                group_instance_id: member.group_instance_id.as_deref(),
                host: &member.client_host,
                client_id: &member.client_id,
                partitions: assigned(member).iter().map(ToString::to_string).collect(),
                epoch: member.progress.as_ref().map(|progress| progress.epoch),
                target_partitions: member
                    .progress
                    .as_ref()
                    .map(|progress| progress.target.iter().map(ToString::to_string).collect()),
                is_classic: member.progress.as_ref().and_then(|progress| progress.is_classic),
            })
            .collect(),
        offsets: offsets(client, group).await?,
    })
}

/// Groups of other protocols (Kafka Connect) assign something else than partitions.
fn assigned(member: &GroupMember) -> &[TopicPartition] {
    member.assigned.as_deref().unwrap_or_default()
}

/// What each member reads, member by member, then what nobody reads.
async fn offsets(client: &Client, group: &GroupDescription) -> Result<Vec<Offset>, ClientError> {
    let committed = Group::new(client.clone(), &group.group_id).committed().await?;
    let mut owners = Vec::new();
    let mut owned = BTreeSet::new();
    for member in &group.members {
        for partition in assigned(member) {
            owned.insert(partition.clone());
            owners.push((partition.clone(), Some(member)));
        }
    }
    owners.extend(committed.keys().filter(|p| !owned.contains(*p)).map(|p| (p.clone(), None)));
    let ends = log_ends(client, owners.iter().map(|(partition, _)| partition)).await?;
    let rows = owners.into_iter().map(|(partition, member)| {
        let current_offset = committed.get(&partition).map(|committed| committed.offset);
        let log_end_offset = ends.get(&partition).copied();
        Offset {
            lag: current_offset.zip(log_end_offset).map(|(current, end)| end - current),
            topic: partition.topic,
            partition: partition.partition,
            current_offset,
            log_end_offset,
            consumer_id: member.map(|member| member.member_id.clone()),
            host: member.map(|member| member.client_host.clone()),
            client_id: member.map(|member| member.client_id.clone()),
        }
    });
    Ok(rows.collect())
}

/// The ends of those partitions that (still) exist.
async fn log_ends(
    client: &Client,
    partitions: impl Iterator<Item = &TopicPartition>,
) -> Result<BTreeMap<TopicPartition, i64>, ClientError> {
    let partitions: BTreeSet<_> = partitions.collect();
    let topics: BTreeSet<_> = partitions.iter().map(|partition| partition.topic.as_str()).collect();
    let metadata = client.describe(&topics.into_iter().collect::<Vec<_>>()).await?;
    let existing = partitions.into_iter().filter(|partition| metadata.leader(partition).is_ok());
    let wanted = existing.map(|partition| (partition.clone(), LATEST)).collect();
    let found = client.list_offsets(&wanted).await?;
    Ok(found.into_iter().map(|(partition, listed)| (partition, listed.offset)).collect())
}

/// `ConsumerGroupCommand.printOffsets`: every line starts with a line break, and one more ends the table.
fn render_offsets(group: &str, rows: &[Offset]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let number = |number: Option<i64>| number.map_or_else(|| MISSING.to_owned(), |number| number.to_string());
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| MISSING.to_owned());
    let header =
        ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"];
    let mut lines = vec![header.map(str::to_owned)];
    lines.extend(rows.iter().map(|row| {
        [
            group.to_owned(),
            row.topic.clone(),
            row.partition.to_string(),
            number(row.current_offset),
            number(row.log_end_offset),
            number(row.lag),
            text(&row.consumer_id),
            text(&row.host),
            text(&row.client_id),
        ]
    }));
    let columns =
        [Fitted(15), Fitted(15), Fixed(10), Fixed(15), Fixed(15), Fixed(15), Fitted(15), Fitted(15), Fixed(0)];
    format!("\n{}", table(&lines, &columns, " "))
}

/// `ConsumerGroupCommand.printMembers`.
fn render_members(group: &GroupDescription, verbose: bool) -> String {
    let has_instances = group.members.iter().any(|member| member.group_instance_id.is_some());
    // Only a group that is on its way to the consumer protocol tells who has got there.
    let is_classic = |member: &GroupMember| member.progress.as_ref().and_then(|progress| progress.is_classic);
    let tells_upgraded = verbose && group.members.iter().any(|member| is_classic(member) == Some(true));
    let mut header = vec![("GROUP", Fitted(15)), ("CONSUMER-ID", Fitted(15))];
    if has_instances {
        header.push(("GROUP-INSTANCE-ID", Fitted(17)));
    }
    header.extend([("HOST", Fitted(15)), ("CLIENT-ID", Fitted(15)), ("#PARTITIONS", Fixed(15))]);
    if verbose {
        header.extend([("CURRENT-EPOCH", Fixed(15)), ("CURRENT-ASSIGNMENT", Fitted(20))]);
        header.extend([("TARGET-EPOCH", Fixed(15)), ("TARGET-ASSIGNMENT", Fitted(20))]);
    } else {
        // Kafka's lines end with a space.
        header.push(("", Fixed(0)));
    }
    if tells_upgraded {
        header.push(("UPGRADED", Fixed(0)));
    }
    let (names, columns): (Vec<_>, Vec<_>) = header.into_iter().unzip();
    let mut rows = vec![names.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for member in &group.members {
        let assigned = assigned(member);
        let mut row = vec![group.group_id.clone(), member.member_id.clone()];
        if has_instances {
            row.push(member.group_instance_id.clone().unwrap_or_default());
        }
        row.extend([member.client_host.clone(), member.client_id.clone(), assigned.len().to_string()]);
        if verbose {
            let current = partitions::by_topic(assigned);
            row.extend(match (&member.progress, group.epochs) {
                (Some(progress), Some(epochs)) => {
                    let target = partitions::by_topic(&progress.target);
                    [progress.epoch.to_string(), current, epochs.assignment.to_string(), target]
                }
                _ => [MISSING.to_owned(), current, MISSING.to_owned(), MISSING.to_owned()],
            });
        } else {
            row.push(String::new());
        }
        if tells_upgraded {
            row.push(is_classic(member).map_or_else(String::new, |is_classic| (!is_classic).to_string()));
        }
        rows.push(row);
    }
    format!("\n{}", table(&rows, &columns, " "))
}

/// `ConsumerGroupCommand.printStates`.
fn render_state(group: &GroupDescription, verbose: bool) -> String {
    let coordinator = format!("{}  ({})", group.coordinator.address(), group.coordinator.id);
    let strategy = if group.protocol.is_empty() { MISSING } else { &group.protocol };
    let epoch = |epoch: Option<i32>| epoch.map_or_else(|| MISSING.to_owned(), |epoch| epoch.to_string());
    let mut cells = vec![
        ("GROUP", Fitted(15), group.group_id.clone()),
        ("COORDINATOR (ID)", Fitted(25), coordinator),
        ("ASSIGNMENT-STRATEGY", Fixed(20), strategy.to_owned()),
        ("STATE", Fixed(20), group.state.clone()),
    ];
    if verbose {
        let of_group = epoch(group.epochs.map(|epochs| epochs.group));
        let of_assignment = epoch(group.epochs.map(|epochs| epochs.assignment));
        cells.push(("GROUP-EPOCH", Fixed(15), of_group));
        cells.push(("TARGET-ASSIGNMENT-EPOCH", Fixed(25), of_assignment));
    }
    cells.push(("#MEMBERS", Fixed(0), group.members.len().to_string()));
    let header: Vec<String> = cells.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let row: Vec<String> = cells.iter().map(|(_, _, cell)| cell.clone()).collect();
    let columns: Vec<_> = cells.into_iter().map(|(_, column, _)| column).collect();
    format!("\n{}", table(&[header, row], &columns, " "))
}

#[cfg(test)]
mod tests {
    use client::{Broker, GroupEpochs, MemberProgress};

    use super::*;

    fn group() -> GroupDescription {
        let member = GroupMember {
            member_id: "console-consumer-f4a4d3bb-f1aa-4d08-8fa5-611be69cd9ad".to_owned(),
            group_instance_id: None,
            client_id: "console-consumer".to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            assigned: Some([0, 1, 2].map(|partition| TopicPartition::new("gamma", partition)).into()),
            progress: None,
        };
        GroupDescription {
            group_id: "g1".to_owned(),
            state: "Stable".to_owned(),
            protocol_type: "consumer".to_owned(),
            protocol: "range".to_owned(),
            coordinator: Broker { id: 1, host: "127.0.0.1".to_owned(), port: 22001, rack: None },
            members: vec![member],
            epochs: None,
        }
    }

    /// One of the consumer protocol, to which a member of the classic protocol belongs.
    fn consumer_group() -> GroupDescription {
        let of_t = |partitions: [i32; 3]| partitions.map(|partition| TopicPartition::new("t", partition)).to_vec();
        let member = |member_id: &str, client_id: &str, partitions, is_classic| GroupMember {
            member_id: member_id.to_owned(),
            client_id: client_id.to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            assigned: Some(of_t(partitions)),
            progress: Some(MemberProgress {
                epoch: 2,
                target: of_t(partitions),
                is_classic: Some(is_classic),
                ..MemberProgress::default()
            }),
            ..GroupMember::default()
        };
        GroupDescription {
            group_id: "m".to_owned(),
            state: "Stable".to_owned(),
            protocol: "uniform".to_owned(),
            coordinator: Broker { id: 1, host: "127.0.0.1".to_owned(), port: 39110, rack: None },
            members: vec![
                member("N0ry4DMoTrKvUdP_g7mOgg", "new", [3, 4, 5], false),
                member("old-d3601fac-8bca-435c-988a-abccd12b275a", "old", [0, 1, 2], true),
            ],
            epochs: Some(GroupEpochs { group: 3, assignment: 2 }),
            ..group()
        }
    }

    // The expected texts are what kafka-consumer-groups.sh of Apache Kafka 4.3.1 printed.

    #[test]
    fn offsets_look_like_kafkas() {
        let row = Offset {
            topic: "gamma".to_owned(),
            partition: 1,
            current_offset: Some(35),
            log_end_offset: Some(100),
            lag: Some(65),
            consumer_id: Some("console-consumer-f4a4d3bb-f1aa-4d08-8fa5-611be69cd9ad".to_owned()),
            host: Some("/127.0.0.1".to_owned()),
            client_id: Some("console-consumer".to_owned()),
        };
        let lonely = Offset {
            topic: "alpha".to_owned(),
            partition: 0,
            current_offset: Some(0),
            log_end_offset: Some(0),
            lag: Some(0),
            consumer_id: None,
            host: None,
            client_id: None,
        };
        assert_eq!(
            render_offsets("g1", &[row, lonely]),
            concat!(
                "\n",
                "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID                                           HOST            CLIENT-ID\n",
                "g1              gamma           1          35              100             65              console-consumer-f4a4d3bb-f1aa-4d08-8fa5-611be69cd9ad /127.0.0.1      console-consumer\n",
                "g1              alpha           0          0               0               0               -                                                     -               -\n",
            )
        );
    }

    #[test]
    fn members_look_like_kafkas() {
        let empty = GroupDescription { members: Vec::new(), ..group() };
        assert_eq!(
            render_members(&empty, false),
            "\nGROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     \n"
        );
        assert_eq!(
            render_members(&group(), true),
            concat!(
                "\n",
                "GROUP           CONSUMER-ID                                           HOST            CLIENT-ID        #PARTITIONS     CURRENT-EPOCH   CURRENT-ASSIGNMENT   TARGET-EPOCH    TARGET-ASSIGNMENT   \n",
                "g1              console-consumer-f4a4d3bb-f1aa-4d08-8fa5-611be69cd9ad /127.0.0.1      console-consumer 3               -               gamma:0,1,2          -               -                   \n",
            )
        );
    }

    #[test]
    fn members_of_both_protocols_look_like_kafkas() {
        assert_eq!(
            render_members(&consumer_group(), true),
            concat!(
                "\n",
                "GROUP           CONSUMER-ID                              HOST            CLIENT-ID       #PARTITIONS     CURRENT-EPOCH   CURRENT-ASSIGNMENT   TARGET-EPOCH    TARGET-ASSIGNMENT    UPGRADED\n",
                "m               N0ry4DMoTrKvUdP_g7mOgg                   /127.0.0.1      new             3               2               t:3,4,5              2               t:3,4,5              true\n",
                "m               old-d3601fac-8bca-435c-988a-abccd12b275a /127.0.0.1      old             3               2               t:0,1,2              2               t:0,1,2              false\n",
            )
        );
        let mut upgraded = consumer_group();
        upgraded.members.pop();
        assert!(!render_members(&upgraded, true).contains("UPGRADED"));
        assert!(!render_members(&consumer_group(), false).contains("UPGRADED"));
    }

    #[test]
    fn epochs_look_like_kafkas() {
        let empty = GroupDescription { members: Vec::new(), state: "Empty".to_owned(), ..consumer_group() };
        assert_eq!(
            render_state(&empty, true),
            concat!(
                "\n",
                "GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                GROUP-EPOCH     TARGET-ASSIGNMENT-EPOCH   #MEMBERS\n",
                "m               127.0.0.1:39110  (1)      uniform              Empty                3               2                         0\n",
            )
        );
        let classic = render_state(&group(), true);
        assert!(classic.contains("Stable               -               -                         1\n"), "{classic}");
    }

    #[test]
    fn states_look_like_kafkas() {
        assert_eq!(
            render_state(&group(), false),
            concat!(
                "\n",
                "GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                #MEMBERS\n",
                "g1              127.0.0.1:22001  (1)      range                Stable               1\n",
            )
        );
    }

    #[test]
    fn an_assignment_of_another_protocol_is_no_error() {
        assert_eq!(assigned(&GroupMember { assigned: None, ..GroupMember::default() }), []);
    }
}
