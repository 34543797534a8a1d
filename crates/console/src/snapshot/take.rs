//! Asking a cluster for all of it, many things at the same time.

use std::collections::{BTreeMap, HashMap};

use client::{
    Client, ClientError, ClusterDescription, ConnectionError, EARLIEST, LATEST, ListedOffset, LogDir, Metadata,
    Reassignment, TopicPartition,
};
use tokio::time::{Instant, timeout};

use super::{Age, Broker, Directory, Group, Member, Partition, Position, Snapshot, Topic, transactions};
use crate::broker_metrics::{self, BrokerMetrics, MetricsError};
use crate::embedded_broker::{Local, NodeReport, Rebalance};
use crate::format::now_ms;
use crate::node_metrics::{Figures, OwnFigures};

type Offsets = BTreeMap<TopicPartition, Result<ListedOffset, ClientError>>;
type LogDirs = BTreeMap<i32, Result<Vec<LogDir>, ClientError>>;

/// The cluster as it is now. What some broker does not tell is a gap; an error is that nothing is known at all.
/// The metadata is asked of the broker that pages ask, which knows at once what was changed through it, and the leaders
/// that it names are those that are asked for offsets.
pub(crate) async fn take(
    page_client: &Client,
    client: &Client,
    quorum_client: &Client,
    local: Option<&dyn Local>,
    pages: &[BrokerMetrics],
    before: Option<&Snapshot>,
) -> Result<Snapshot, ClientError> {
    let at = Instant::now();
    let metadata = page_client.cluster().await?;
    client.adopt(&metadata);
    let mut gaps = Vec::new();
    let nodes = async {
        match local {
            Some(local) => local.nodes().await,
            None => Vec::new(),
        }
    };
    let has_lost_replica = |topic: &&String| {
        let partitions = &metadata.topics[*topic].partitions;
        partitions.iter().any(|partition| partition.isr.len() < partition.replicas.len())
    };
    let with_lost_replica: Vec<_> = metadata.topics.keys().filter(has_lost_replica).map(String::as_str).collect();
    let led = metadata.topics.iter().flat_map(|(name, topic)| {
        let led = topic.partitions.iter().filter(|partition| partition.leader >= 0);
        led.map(|partition| TopicPartition::new(name.clone(), partition.index))
    });
    let led: Vec<_> = led.collect();
    let wanted = |timestamp| led.iter().map(|partition| (partition.clone(), timestamp)).collect();
    let (earliest, latest) = (wanted(EARLIEST), wanted(LATEST));
    let mut transaction_gaps = Vec::new();
    let (described, min_in_sync, starts, ends, dirs, groups, transactions, quorum, moves, reports, figures) = tokio::join!(
        client.describe_cluster(),
        client.min_in_sync_replicas(&with_lost_replica),
        client.list_offsets_each(&earliest),
        client.list_offsets_each(&latest),
        client.describe_log_dirs(),
        groups(client),
        transactions::take(client, &mut transaction_gaps),
        within_patience(quorum_client, quorum_client.describe_quorum()),
        reassignments(quorum_client),
        nodes,
        broker_metrics::look_at_all(pages),
    );

    let mut brokers = brokers(&metadata, described.as_ref().ok());
    if let (Err(error), Some(before)) = (described, before) {
        gaps.push(format!("brokers that are fenced ({error})"));
        add_known(&mut brokers, before);
    }
    let mut topics = topics(&metadata);
    let reassignments = moves.unwrap_or_else(|error| {
        gaps.push(format!("partitions that move ({error})"));
        BTreeMap::new()
    });
    for (of, reassignment) in &reassignments {
        if let Some(partition) = partition_mut(&mut topics, of) {
            partition.adding.clone_from(&reassignment.adding);
        }
    }
    match min_in_sync {
        Ok(min_in_sync) => set_min_in_sync(&mut topics, &min_in_sync),
        Err(error) => gaps.push(format!("min.insync.replicas ({error})")),
    }
    count_replicas(&mut brokers, &topics);
    set_offsets(&mut topics, starts, |partition, offset| partition.start = Some(offset));
    let unknown_ends = set_offsets(&mut topics, ends, |partition, offset| partition.end = Some(offset));
    if unknown_ends > 0 {
        gaps.push(format!("the offsets of {unknown_ends} of {} partitions", led.len()));
    }
    match dirs {
        Ok(dirs) => add_dirs(&mut brokers, &mut topics, dirs, &mut gaps),
        Err(error) => gaps.push(format!("log directories ({error})")),
    }
    let NodeReports { rebalances, lags } = add_reports(&mut brokers, reports, &mut gaps);
    for (page, figures) in pages.iter().zip(figures) {
        add_figures(&mut brokers, page, figures, &mut gaps);
    }
    let groups = groups.unwrap_or_else(|error| {
        gaps.push(format!("consumer groups ({error})"));
        BTreeMap::new()
    });
    gaps.append(&mut transaction_gaps);
    let quorum = quorum.map(Some).unwrap_or_else(|error| {
        if !matches!(error, ClientError::NoQuorum { .. }) {
            gaps.push(format!("the metadata quorum ({error})"));
        }
        None
    });
    // Metadata of Kafka with KRaft names any broker for the controller; the quorum knows better.
    let controller_id = quorum.as_ref().map_or(metadata.controller_id, |quorum| quorum.leader_id.unwrap_or(-1));
    if let Some(controller) = brokers.get_mut(&controller_id) {
        controller.is_controller = true;
    }
    let mut snapshot = Snapshot {
        at,
        at_ms: now_ms(),
        cluster_id: metadata.cluster_id.clone(),
        controller_id,
        brokers,
        topics,
        groups: BTreeMap::new(),
        transactions,
        quorum,
        reassignments,
        rebalances,
        connects: Vec::new(),
        gaps,
        trouble: None,
    };
    snapshot.groups =
        groups.into_iter().map(|(id, group)| (id.clone(), positioned(&snapshot, &id, group, &lags))).collect();
    Ok(snapshot)
}

/// Brokers that were there before and that nobody tells of now, as not alive.
fn add_known(brokers: &mut BTreeMap<i32, Broker>, before: &Snapshot) {
    for known in before.brokers.values() {
        let Broker { id, host, port, rack, .. } = known.clone();
        brokers.entry(id).or_insert_with(|| Broker { id, host, port, rack, ..Broker::default() });
    }
}

fn brokers(metadata: &Metadata, described: Option<&ClusterDescription>) -> BTreeMap<i32, Broker> {
    let alive = metadata.brokers.values().map(|broker| (broker, true));
    // Fenced ones too, from those that tell of them (KIP-1073).
    let described = described.into_iter().flat_map(|described| &described.brokers);
    let described = described.map(|known| (&known.broker, known.is_fenced != Some(true)));
    let broker = |(broker, is_alive): (&client::Broker, bool)| {
        let client::Broker { id, host, port, rack } = broker.clone();
        (id, Broker { id, host, port, rack, is_alive, ..Broker::default() })
    };
    alive.chain(described).map(broker).collect()
}

fn topics(metadata: &Metadata) -> BTreeMap<String, Topic> {
    let topics = metadata.topics.iter().map(|(name, topic)| {
        let partitions = topic.partitions.iter().map(|partition| Partition {
            index: partition.index,
            leader: partition.leader,
            leader_epoch: partition.leader_epoch,
            replicas: partition.replicas.clone(),
            isr: partition.isr.clone(),
            ..Partition::default()
        });
        let (id, is_internal) = (topic.id.to_string(), topic.is_internal);
        (name.clone(), Topic { id, is_internal, partitions: partitions.collect() })
    });
    topics.collect()
}

/// What the nodes of this program tell beyond the protocol.
struct NodeReports {
    rebalances: Vec<Rebalance>,
    /// By group and partition, in seconds.
    lags: HashMap<(String, TopicPartition), f64>,
}

fn add_reports(brokers: &mut BTreeMap<i32, Broker>, reports: Vec<NodeReport>, gaps: &mut Vec<String>) -> NodeReports {
    let (mut rebalances, mut lags) = (Vec::new(), HashMap::new());
    for NodeReport { node_id, metrics, rebalances: of_node } in reports {
        rebalances.extend(of_node);
        match metrics {
            Ok(text) => {
                let figures = Figures::read(text);
                lags.extend(
                    figures.iter().filter_map(|figures| figures.own.as_ref()).flat_map(OwnFigures::lag_seconds),
                );
                brokers.entry(node_id).or_insert_with(|| Broker { id: node_id, ..Broker::default() }).figures = figures;
            }
            // That it is down is said already.
            Err(_) if brokers.get(&node_id).is_none_or(|broker| !broker.is_alive) => {}
            Err(reason) => gaps.push(format!("CPU and memory of broker {node_id} ({reason})")),
        }
    }
    rebalances.sort_by_key(|rebalance: &Rebalance| rebalance.began_ms);
    NodeReports { rebalances, lags }
}

/// What a broker of another kind tells of itself.
fn add_figures(
    brokers: &mut BTreeMap<i32, Broker>,
    page: &BrokerMetrics,
    figures: Result<Figures, MetricsError>,
    gaps: &mut Vec<String>,
) {
    let id = match page.find_broker(brokers.values().map(|broker| (broker.id, broker.host.as_str()))) {
        Ok(id) => id,
        Err(reason) => return gaps.push(format!("whose metrics are at {} ({reason})", page.url)),
    };
    let Some(broker) = brokers.get_mut(&id) else { return };
    match figures {
        Ok(figures) => broker.figures = Some(figures),
        // That it is down is said already.
        Err(_) if !broker.is_alive => {}
        Err(error) => gaps.push(format!("CPU and memory of broker {id} (its metrics at {}: {error})", page.url)),
    }
}

fn count_replicas(brokers: &mut BTreeMap<i32, Broker>, topics: &BTreeMap<String, Topic>) {
    for partition in topics.values().flat_map(|topic| &topic.partitions) {
        for id in &partition.replicas {
            let broker = brokers.entry(*id).or_insert_with(|| Broker { id: *id, ..Broker::default() });
            broker.replicas += 1;
            broker.leaders += usize::from(partition.leader == *id);
            broker.under_replicated += usize::from(partition.leader == *id && partition.is_under_replicated());
            broker.out_of_sync += usize::from(!partition.isr.contains(id) && !partition.adding.contains(id));
        }
    }
}

fn set_min_in_sync(topics: &mut BTreeMap<String, Topic>, min_in_sync: &HashMap<String, usize>) {
    for (topic, min_in_sync) in min_in_sync {
        for partition in topics.get_mut(topic).into_iter().flat_map(|topic| &mut topic.partitions) {
            partition.min_in_sync = *min_in_sync;
        }
    }
}

/// How many offsets are not known.
fn set_offsets(topics: &mut BTreeMap<String, Topic>, offsets: Offsets, set: impl Fn(&mut Partition, i64)) -> usize {
    let mut unknown = 0;
    for (of, offset) in offsets {
        match offset {
            Ok(listed) => {
                if let Some(partition) = partition_mut(topics, &of) {
                    set(partition, listed.offset);
                }
            }
            Err(_) => unknown += 1,
        }
    }
    unknown
}

fn partition_mut<'a>(topics: &'a mut BTreeMap<String, Topic>, of: &TopicPartition) -> Option<&'a mut Partition> {
    topics.get_mut(&of.topic)?.partitions.get_mut(usize::try_from(of.partition).ok()?)
}

fn add_dirs(
    brokers: &mut BTreeMap<i32, Broker>,
    topics: &mut BTreeMap<String, Topic>,
    dirs: LogDirs,
    gaps: &mut Vec<String>,
) {
    for (id, of_broker) in dirs {
        let Some(broker) = brokers.get_mut(&id) else { continue };
        let of_broker = match of_broker {
            Ok(of_broker) => of_broker,
            Err(error) => {
                gaps.push(format!("log directories of broker {id} ({error})"));
                continue;
            }
        };
        for dir in of_broker {
            let size_bytes = dir.replicas.values().map(|replica| replica.size_bytes).sum();
            broker.size_bytes += size_bytes;
            broker.dirs.push(Directory {
                path: dir.path,
                error: dir.error.map(|error| error.to_string()),
                total_bytes: dir.total_bytes,
                usable_bytes: dir.usable_bytes,
                size_bytes,
                replicas: dir.replicas.len(),
            });
            let at = broker.dirs.len() - 1;
            for (of, replica) in dir.replicas {
                let Some(partition) = partition_mut(topics, &of) else { continue };
                if replica.is_future {
                    partition.futures.insert(id, (at, replica));
                } else {
                    partition.sizes.insert(id, replica);
                    partition.dirs.insert(id, at);
                }
            }
        }
    }
}

/// What the controller knows: where there is none it is not waited for long.
async fn within_patience<T>(
    client: &Client,
    answer: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    let late = || ConnectionError::Timeout { address: "the controller".to_owned() };
    timeout(client.config().patience, answer).await.unwrap_or_else(|_| Err(late().into()))
}

/// Before KIP-455 nobody tells of any.
async fn reassignments(client: &Client) -> Result<BTreeMap<TopicPartition, Reassignment>, ClientError> {
    match within_patience(client, client.list_reassignments(None)).await {
        Err(ClientError::Connection(ConnectionError::Unsupported { .. })) => Ok(BTreeMap::new()),
        answer => answer,
    }
}

/// All groups, with what they have committed.
async fn groups(client: &Client) -> Result<BTreeMap<String, Group>, ClientError> {
    let listed = client.list_groups().await?;
    if let Some((_, error)) = listed.errors.into_iter().next()
        && listed.groups.is_empty()
    {
        return Err(error);
    }
    let ids: Vec<_> = listed.groups.keys().cloned().collect();
    let (mut described, mut committed) = tokio::join!(client.describe_groups(&ids), client.committed_offsets(&ids));
    let groups = listed.groups.into_iter().map(|(id, listed)| {
        let mut group = Group {
            state: listed.state,
            kind: listed.group_type.to_lowercase(),
            protocol_type: listed.protocol_type,
            coordinator: listed.coordinator,
            ..Group::default()
        };
        if let Some(Ok(described)) = described.remove(&id) {
            group.state = described.state;
            group.protocol = described.protocol;
            group.coordinator = described.coordinator.id;
            group.epochs = described.epochs;
            group.members = described.members.into_iter().map(Member::from).collect();
        }
        if let Some(Ok(committed)) = committed.remove(&id) {
            for (partition, offset) in committed {
                group.positions.entry(partition).or_default().committed = Some(offset.offset);
            }
        }
        for member in &group.members {
            for partition in &member.assigned {
                group.positions.entry(partition.clone()).or_default();
            }
        }
        (id, group)
    });
    Ok(groups.collect())
}

impl From<client::GroupMember> for Member {
    fn from(member: client::GroupMember) -> Self {
        Self {
            id: member.member_id,
            instance_id: member.group_instance_id,
            client_id: member.client_id,
            client_host: member.client_host,
            assigned: member.assigned.unwrap_or_default(),
            progress: member.progress,
        }
    }
}

/// A group with how far it is behind.
fn positioned(snapshot: &Snapshot, id: &str, mut group: Group, lags: &HashMap<(String, TopicPartition), f64>) -> Group {
    for (of, position) in &mut group.positions {
        let Some(partition) = snapshot.partition(of) else { continue };
        position.end = partition.end;
        position.lag_records = position.lag(partition);
        position.lag_age = lags.get(&(id.to_owned(), of.clone())).copied().map(Age::exactly);
    }
    group
}

impl Position {
    /// What was deleted before it was read is not waited for.
    fn lag(&self, partition: &Partition) -> Option<i64> {
        Some((partition.end? - self.committed?.max(partition.start.unwrap_or(0))).max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_on_their_way_are_not_missed() {
        let partition = Partition { replicas: vec![4, 1, 2], isr: vec![1, 2], adding: vec![4], ..Partition::default() };
        let late = Partition {
            isr: vec![1],
            ..Partition { adding: vec![4], replicas: vec![4, 1, 2], ..Partition::default() }
        };
        assert_eq!([&partition, &late].map(Partition::is_under_replicated), [false, true]);
        let topic = Topic { partitions: vec![partition, late], ..Topic::default() };
        let mut brokers = BTreeMap::new();
        count_replicas(&mut brokers, &[("t".to_owned(), topic)].into());
        assert_eq!([1, 2, 4].map(|id| brokers[&id].out_of_sync), [0, 1, 0]);
    }

    #[test]
    fn brokers_that_nobody_tells_of_now_are_still_known() {
        let broker = |id| (id, Broker { id, host: "h".to_owned(), port: id, is_alive: true, ..Broker::default() });
        let before = Snapshot { brokers: [broker(1), broker(2)].into(), ..Snapshot::empty() };
        let mut brokers = BTreeMap::from([broker(1)]);
        add_known(&mut brokers, &before);
        let told = brokers.values().map(|broker| (broker.address(), broker.is_alive));
        assert_eq!(told.collect::<Vec<_>>(), [("h:1".to_owned(), true), ("h:2".to_owned(), false)]);
    }

    #[test]
    fn what_was_deleted_is_no_lag() {
        let partition = Partition { start: Some(10), end: Some(25), ..Partition::default() };
        let lag = |committed| Position { committed, ..Position::default() }.lag(&partition);
        assert_eq!([lag(Some(3)), lag(Some(20)), lag(Some(30)), lag(None)], [Some(15), Some(5), Some(0), None]);
    }
}
