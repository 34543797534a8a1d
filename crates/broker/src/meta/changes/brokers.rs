//! Brokers that come, and what is given to them.

use wire::state::metadata::{FeatureLevelRecord, MetadataRecord, PartitionChangeRecord, ProducerIdsRecord};
use wire::{ErrorCode, Uuid};

use super::{Context, Decision, Refusal};
use crate::config::Endpoint;
use crate::meta::image::{BrokerEndpoint, MetadataImage, NO_LEADER, RegisteredBroker};

/// Features, the levels of each that this version serves, and the level that a new cluster starts at
/// (`org.apache.kafka.server.common.Feature`). Level 30 of the metadata is Kafka 4.3's.
const FEATURES: &[(&str, i16, i16, Option<i16>)] = &[("metadata.version", 7, 30, Some(30))];

/// Ids in a block (`ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`).
pub const PRODUCER_ID_BLOCK: i64 = 1000;

/// What a broker says of itself when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerRegistration {
    pub id: i32,
    /// New at every start.
    pub incarnation_id: Uuid,
    pub endpoints: Vec<Endpoint>,
    pub rack: Option<String>,
    /// The ids of its data directories.
    pub log_dirs: Vec<Uuid>,
    /// Whether everything that it had acknowledged was on disk when it stopped. Otherwise it starts new leader epochs,
    /// so that who has read what is gone by now can tell (KIP-320).
    pub is_clean: bool,
}

/// Ids that belong to whoever asked: `first` and the following.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdBlock {
    pub first: i64,
    pub count: i64,
}

/// Registers a broker as active, and makes it lead what it can. The first one starts the cluster's features.
pub(in super::super) fn register(image: &MetadataImage, registration: &BrokerRegistration) -> Vec<MetadataRecord> {
    let mut records: Vec<MetadataRecord> = Vec::new();
    if image.features().is_empty() {
        let levels = FEATURES.iter().filter_map(|(name, _, _, level)| Some(((*name).to_owned(), (*level)?)));
        records.extend(levels.map(|(name, feature_level)| FeatureLevelRecord { name, feature_level }.into()));
    }
    let endpoints = registration.endpoints.iter().map(|endpoint| BrokerEndpoint {
        name: endpoint.name.clone(),
        host: endpoint.host.clone(),
        port: endpoint.port,
        security_protocol: endpoint.security_protocol as i16,
    });
    let broker = RegisteredBroker {
        id: registration.id,
        // Grows with every registration.
        epoch: image.offset() + 1,
        incarnation_id: registration.incarnation_id,
        endpoints: endpoints.collect(),
        features: FEATURES.iter().map(|(name, min, max, _)| ((*name).to_owned(), (*min, *max))).collect(),
        rack: registration.rack.clone(),
        fenced: false,
        in_controlled_shutdown: false,
        log_dirs: registration.log_dirs.clone(),
    };
    records.push(broker.to_record().into());
    for topic in image.topics() {
        for (index, partition) in topic.partitions.iter().enumerate() {
            let leads = partition.leader == registration.id && !registration.is_clean;
            let takes_over = partition.leader == NO_LEADER && partition.isr.contains(&registration.id);
            if leads || takes_over {
                let change = PartitionChangeRecord {
                    partition_id: index as i32,
                    topic_id: topic.id,
                    leader: registration.id,
                    ..PartitionChangeRecord::default()
                };
                records.push(change.into());
            }
        }
    }
    records
}

/// Gives the next block of producer ids to a broker.
pub(in super::super) fn allocate_producer_ids(
    context: &Context<'_>,
    broker_id: i32,
) -> Decision<Result<ProducerIdBlock, Refusal>> {
    let first = context.image.next_producer_id();
    let Some(next_producer_id) = first.checked_add(PRODUCER_ID_BLOCK) else {
        let refusal = Refusal::new(ErrorCode::UNKNOWN_SERVER_ERROR, "All producer ids have been given out.");
        return Decision { records: Vec::new(), answer: Err(refusal) };
    };
    let broker_epoch = context.image.broker(broker_id).map_or(-1, |broker| broker.epoch);
    let record = ProducerIdsRecord { broker_id, broker_epoch, next_producer_id };
    Decision { records: vec![record.into()], answer: Ok(ProducerIdBlock { first, count: PRODUCER_ID_BLOCK }) }
}

#[cfg(test)]
mod tests {
    use wire::api::create_topics::CreatableTopic;

    use super::super::tests::{Counter, applied};
    use super::super::topics;
    use super::*;
    use crate::config::BrokerConfig;

    fn registration(incarnation: u8, is_clean: bool) -> BrokerRegistration {
        BrokerRegistration {
            id: 1,
            incarnation_id: Uuid([incarnation; 16]),
            endpoints: BrokerConfig::default().advertised_endpoints().unwrap(),
            rack: None,
            log_dirs: vec![Uuid([9; 16])],
            is_clean,
        }
    }

    #[test]
    fn a_restart_after_a_crash_is_a_new_leader_epoch() {
        let image = MetadataImage::default();
        let image = applied(&image, &register(&image, &registration(1, true)));
        assert_eq!(image.features()["metadata.version"], 30);
        assert!(image.broker(1).unwrap().is_active());
        let (config, random) = (BrokerConfig::default(), Counter::default());
        let context = Context { image: &image, config: &config, random: &random };
        let topic = CreatableTopic { name: "t".into(), num_partitions: 2, replication_factor: 1, ..Default::default() };
        let image = applied(&image, &topics::create(&context, &[topic], false).records);
        assert_eq!(image.partition("t", 0).unwrap().directories, [Uuid([9; 16])]);

        let clean = applied(&image, &register(&image, &registration(2, true)));
        assert_eq!(clean.partition("t", 1).unwrap().leader_epoch, 0);
        assert!(clean.broker(1).unwrap().epoch > image.broker(1).unwrap().epoch);
        let crashed = applied(&image, &register(&image, &registration(2, false)));
        assert_eq!(crashed.partition("t", 1).unwrap().leader_epoch, 1);
        assert_eq!(crashed.broker(1).unwrap().incarnation_id, Uuid([2; 16]));
    }

    #[test]
    fn blocks_of_producer_ids_do_not_overlap_and_end() {
        let (config, random) = (BrokerConfig::default(), Counter::default());
        let mut image = MetadataImage::default();
        for block in 0..3 {
            let decision = allocate_producer_ids(&Context { image: &image, config: &config, random: &random }, 1);
            assert_eq!(decision.answer, Ok(ProducerIdBlock { first: block * 1000, count: 1000 }));
            image = applied(&image, &decision.records);
        }
        image.next_producer_id = i64::MAX - 999;
        let decision = allocate_producer_ids(&Context { image: &image, config: &config, random: &random }, 1);
        assert!(decision.records.is_empty() && decision.answer.is_err());
    }
}
