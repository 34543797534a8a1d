//! Recovering a node whose metadata is damaged, as its operator asks for it with `parshall recover`.
//!
//! A node of a cluster sets its metadata aside and gets that of the others when it starts, which have to be a quorum
//! without it. A single node goes on with what can be read of its own, and with the topics whose partitions are on its
//! disk. Partitions are not commits, and nothing is removed: what is replaced is renamed.

mod others;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use client::Security;
use configuration::{BrokerConfig, address};
use metadata::properties::{self, MetaProperties, PropertiesError};
use metadata::{ApplyError, MetadataImage, TopicName};
use quorum::recover::{Readable, read, set_aside_dir};
use quorum::{METADATA_DIR, QuorumError, Voter, VoterSet};
use storage::disk::{Disk, read_file};
use wire::Uuid;
use wire::state::metadata::{ConfigRecord, MetadataRecord, PartitionRecord, ProducerIdsRecord, TopicRecord};

use crate::security::{NodeSecurity, SecurityError};

/// Ids of producers that may have been given out and are not in what can be read: a thousand blocks.
const PRODUCER_IDS_SKIPPED: i64 = 1_000_000;
const CHECKPOINT_BYTES_MAX: usize = 1 << 20;
/// The type of topics in a ConfigRecord.
const TOPIC: i8 = 2;

#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Security(#[from] SecurityError),
    #[error(transparent)]
    Properties(#[from] PropertiesError),
    #[error(transparent)]
    Quorum(#[from] QuorumError),
    #[error("what can be read of the metadata does not fit together: {0}")]
    Apply(#[from] ApplyError),
    #[error("a record of the metadata cannot be read: {0}")]
    Record(String),
    #[error("{} is no data directory of a node: it has no meta.properties", .0.display())]
    NoNode(PathBuf),
    #[error(
        "nothing says whether this node was a cluster of its own; if it was, say --alone, and if there are other \
         nodes, --rejoin"
    )]
    UnknownQuorum,
    #[error("{0} other nodes vote on the metadata, so this node is to rejoin them and not to go on alone: --rejoin")]
    NotAlone(usize),
    #[error(
        "nothing on this disk says where the other nodes are: name the ports between brokers of some with \
         --bootstrap-controller HOST:PORT"
    )]
    UnknownOthers,
    #[error(
        "no leader of the metadata quorum that most voters follow answers at {asked}; start the other nodes first, as \
         metadata that most of them lack would be lost"
    )]
    NoQuorum { asked: String },
}

/// The operator's answer about the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Node {
    /// As its metadata says.
    #[default]
    Unknown,
    /// It is a cluster of its own.
    Alone,
    /// There are others that have the metadata.
    OneOfSeveral,
}

/// What is wrong with a node's metadata, and what would be done about it.
#[derive(Debug)]
pub struct Plan {
    dir: PathBuf,
    own: MetaProperties,
    /// What is wrong, a line each. Empty if the node can start as it is.
    pub trouble: Vec<String>,
    pub action: Action,
}

#[derive(Debug)]
pub enum Action {
    /// The metadata is whole.
    Nothing,
    /// The metadata is set aside, and sent by the others. Where they are as far as it can be read.
    Rejoin { addresses: Vec<String> },
    /// The metadata is made anew from what can be read.
    Rebuild(Box<Rebuild>),
}

#[derive(Debug)]
pub struct Rebuild {
    readable: Readable,
    voters: VoterSet,
    records: Vec<MetadataRecord>,
    /// Topics known only from partition directories, and how many partitions they have. Their settings are lost, so
    /// they keep all records until an operator sets them again.
    pub found_topics: BTreeMap<String, usize>,
    /// Directories of partitions that are of no topic that is known, and why.
    pub left_alone: Vec<String>,
    /// Up to where the metadata can be read.
    pub end_offset: i64,
    /// Up to where it was on disk.
    pub durable_offset: i64,
    pub known_topics: usize,
}

/// Keeps a node from starting as long as the returned lock is held, and fails if one runs.
pub async fn lock(data_dir: &Path) -> Result<impl Send + 'static, crate::StartError> {
    crate::server::lock(data_dir).await
}

/// Looks at the data directory of a node that is down, and says what can be done. Changes nothing.
pub fn inspect(disk: &dyn Disk, data_dir: &Path, node: Node) -> Result<Plan, RecoverError> {
    let dir = data_dir.join(METADATA_DIR);
    let own = properties::look_at(disk, data_dir)?.ok_or_else(|| RecoverError::NoNode(data_dir.to_owned()))?;
    let readable = read(disk, &dir)?;
    let trouble = readable.trouble.clone();
    if trouble.is_empty() {
        return Ok(Plan { dir, own, trouble, action: Action::Nothing });
    }
    let others: Option<Vec<&Voter>> =
        readable.voters.as_ref().map(|set| set.voters.iter().filter(|voter| voter.node_id != own.node_id).collect());
    let is_alone = match (node, others.as_ref().map(Vec::len)) {
        (Node::OneOfSeveral, _) => false,
        (Node::Alone, Some(others @ 1..)) => return Err(RecoverError::NotAlone(others)),
        (Node::Alone, _) => true,
        (Node::Unknown, Some(others)) => others == 0,
        (Node::Unknown, None) => return Err(RecoverError::UnknownQuorum),
    };
    if !is_alone {
        let addresses = others.iter().flatten().map(|voter| address(&voter.host, voter.port)).collect();
        return Ok(Plan { dir, own, trouble, action: Action::Rejoin { addresses } });
    }
    let voters = readable.voters.clone().unwrap_or_else(|| {
        let (host, port) = (String::new(), 0);
        VoterSet::new(vec![Voter { node_id: own.node_id, directory_id: own.directory_id, host, port }])
    });
    let found = find(disk, data_dir, &readable, own.node_id, own.directory_id)?;
    let Found { records, found_topics, known_topics, left_alone } = found;
    let (end_offset, durable_offset) = (readable.end_offset, readable.synced_offset);
    let rebuild =
        Rebuild { readable, voters, records, found_topics, left_alone, end_offset, durable_offset, known_topics };
    Ok(Plan { dir, own, trouble, action: Action::Rebuild(Box::new(rebuild)) })
}

impl Plan {
    /// Makes sure that the others have the metadata: most voters follow a leader while this node is down. Returns the
    /// leader's id. Asks at `more` addresses, too.
    /// `config` is that of this node.
    pub async fn find_leader(
        &self,
        more: &[String],
        config: Option<&BrokerConfig>,
    ) -> Result<Option<i32>, RecoverError> {
        match &self.action {
            Action::Rejoin { addresses } => {
                let addresses = addresses.iter().chain(more).cloned().collect();
                let security = config.map(NodeSecurity::load).transpose()?.unwrap_or(Security::default().into());
                Ok(Some(others::find_leader(&self.own, addresses, security).await?))
            }
            _ => Ok(None),
        }
    }

    /// Does it. Durable when this returns; returns the name under which the metadata is kept that was replaced.
    pub fn carry_out(self, disk: &dyn Disk, now_ms: i64) -> Result<Option<PathBuf>, RecoverError> {
        match self.action {
            Action::Nothing => Ok(None),
            Action::Rejoin { .. } => {
                if disk.exists(&self.dir)? {
                    // The node gets another id of its disk when it starts. With this one it could vote as before,
                    // should an operator restore what is set aside.
                    self.own.write(disk, &self.dir)?;
                }
                Ok(set_aside_dir(disk, &self.dir)?)
            }
            Action::Rebuild(rebuild) => {
                let values: Vec<Bytes> = rebuild.records.iter().map(MetadataRecord::write).collect();
                Ok(rebuild.readable.replace(disk, &self.dir, rebuild.voters, values, now_ms)?)
            }
        }
    }
}

/// What metadata can be rebuilt from.
struct Found {
    records: Vec<MetadataRecord>,
    found_topics: BTreeMap<String, usize>,
    known_topics: usize,
    left_alone: Vec<String>,
}

/// The state that can be read, and what the directories of partitions say beyond that.
fn find(
    disk: &dyn Disk,
    data_dir: &Path,
    readable: &Readable,
    node_id: i32,
    directory_id: Uuid,
) -> Result<Found, RecoverError> {
    let mut image = MetadataImage::default();
    for (values, at) in readable.snapshot.iter().chain(&readable.entries) {
        let records: Result<Vec<_>, _> = values.iter().map(MetadataRecord::read).collect();
        let records = records.map_err(|error| RecoverError::Record(error.to_string()))?;
        image = image.apply(&records, at.offset, at.epoch)?.0;
    }
    let mut records = image.to_records();
    let next_producer_id = image.next_producer_id() + PRODUCER_IDS_SKIPPED;
    records.retain(|record| !matches!(record, MetadataRecord::ProducerIds(_)));
    records.push(ProducerIdsRecord { broker_id: node_id, broker_epoch: -1, next_producer_id }.into());

    let mut found_topics = BTreeMap::new();
    let (on_disk, mut left_alone) = partitions_on_disk(disk, data_dir)?;
    for ((name, topic_id), epochs) in on_disk {
        let known = match image.topic(&name) {
            Some(known) if known.id != topic_id => {
                left_alone.push(format!("partitions of {name} with topic id {topic_id}, which is another topic's"));
                continue;
            }
            known => known.map_or(0, |known| known.partitions.len()),
        };
        let count = epochs.keys().next_back().map_or(0, |last| last + 1);
        if count <= known {
            continue;
        }
        found_topics.insert(name.to_string(), count - known);
        if known == 0 {
            records.push(TopicRecord { name: name.to_string(), topic_id }.into());
            // Its settings are not known, and nothing must be removed for it.
            let policy = if metadata::is_internal(&name) { "compact" } else { "delete" };
            for (setting, value) in [("cleanup.policy", policy), ("retention.ms", "-1"), ("retention.bytes", "-1")] {
                let (resource_name, value) = (name.to_string(), Some(value.to_owned()));
                let name = setting.to_owned();
                records.push(ConfigRecord { resource_type: TOPIC, resource_name, name, value }.into());
            }
        }
        for index in known..count {
            let partition = PartitionRecord {
                partition_id: index as i32,
                topic_id,
                replicas: vec![node_id],
                isr: vec![node_id],
                leader: node_id,
                leader_epoch: epochs.get(&index).copied().unwrap_or(-1) + 1,
                partition_epoch: 0,
                directories: vec![directory_id],
                ..PartitionRecord::default()
            };
            records.push(partition.into());
        }
    }
    Ok(Found { records, found_topics, known_topics: image.topic_count(), left_alone })
}

type OnDisk = BTreeMap<(TopicName, Uuid), BTreeMap<usize, i32>>;

/// The partitions that have a directory, and the last leader epoch of each; and partitions without a file that has
/// their topic id, or that of another partition of the same name.
fn partitions_on_disk(disk: &dyn Disk, data_dir: &Path) -> io::Result<(OnDisk, Vec<String>)> {
    let mut found = OnDisk::new();
    let (mut nameless, mut left_alone) = (Vec::new(), Vec::new());
    for entry in disk.read_dir(data_dir)?.into_iter().filter(|entry| entry.is_dir && entry.name != METADATA_DIR) {
        let Some((topic, index)) = entry.name.rsplit_once('-') else { continue };
        let (Ok(topic), Ok(index)) = (TopicName::new(topic), index.parse::<usize>()) else { continue };
        let dir = data_dir.join(&entry.name);
        let epoch = last_epoch(disk, &dir)?;
        match storage::partition_metadata::read_topic_id(disk, &dir)? {
            Some(id) => _ = found.entry((topic, id)).or_default().insert(index, epoch),
            None => nameless.push((topic, index, epoch)),
        }
    }
    for (name, index, epoch) in nameless {
        match found.iter_mut().find(|((topic, _), _)| *topic == name) {
            Some((_, indexes)) => _ = indexes.insert(index, epoch),
            None => left_alone.push(format!("partition {index} of {name}, whose topic id cannot be read")),
        }
    }
    Ok((found, left_alone))
}

/// Of the file `leader-epoch-checkpoint`; -1 if it does not say.
fn last_epoch(disk: &dyn Disk, dir: &Path) -> io::Result<i32> {
    let bytes = match read_file(disk, &dir.join("leader-epoch-checkpoint"), CHECKPOINT_BYTES_MAX) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => return Ok(-1),
        bytes => bytes?,
    };
    let text = String::from_utf8_lossy(&bytes);
    let last = text.lines().skip(2).filter_map(|line| line.split(' ').next()?.parse().ok()).last();
    Ok(last.filter(|epoch| (0..i32::MAX).contains(epoch)).unwrap_or(-1))
}
