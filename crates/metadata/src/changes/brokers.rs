//! Registration of brokers, and the ids that they get.

use std::collections::{BTreeMap, BTreeSet};

use configuration::Endpoint;
use wire::api::allocate_producer_ids::AllocateProducerIdsRequest;
use wire::api::broker_registration::{
    BrokerRegistrationRequest, BrokerRegistrationResponse, Feature, Listener, LostReplicas,
};
use wire::state::metadata::{FeatureLevelRecord, MetadataRecord, ProducerIdsRecord, UnregisterBrokerRecord};
use wire::{ErrorCode, Uuid};

use super::leadership::{Change, directory, is_durable, reserved, settle};
use super::{Context, Decision, Refusal, default_directory, with_brokers};
use crate::features::FEATURES;
use crate::image::{BrokerEndpoint, MetadataImage, RegisteredBroker};

/// Ids in a block (`ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`).
pub const PRODUCER_ID_BLOCK: i64 = 1000;

/// The epoch of a broker that has not registered before, or lost what it had acknowledged.
const NO_EPOCH: i64 = -1;

/// What a broker registers with.
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
    /// so that clients that have read lost records can tell (KIP-320).
    pub is_clean: bool,
    /// Partitions of which it lacks what it had on disk, by the topic's id. It is in sync with them no more, if any
    /// other replica is.
    pub lost_replicas: Vec<(Uuid, i32)>,
}

/// Ids that belong to the requesting broker: `first` and the following.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdBlock {
    pub first: i64,
    pub count: i64,
}

impl BrokerRegistration {
    /// As a request to the controller; `previous_epoch` is what the broker was given when it last registered. The
    /// cluster's id, which the controller does not look at, is for the sender to fill in.
    pub fn to_request(&self, previous_epoch: Option<i64>) -> BrokerRegistrationRequest {
        let listeners = self.endpoints.iter().map(|endpoint| Listener {
            name: endpoint.name.clone(),
            host: endpoint.host.clone(),
            port: endpoint.port,
            security_protocol: endpoint.security_protocol as i16,
        });
        let features = FEATURES.iter().map(|supported| Feature {
            name: supported.name.to_owned(),
            min_supported_version: supported.min,
            max_supported_version: supported.max,
        });
        let mut lost: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
        for (topic_id, partition) in &self.lost_replicas {
            lost.entry(*topic_id).or_default().push(*partition);
        }
        let lost = lost.into_iter().map(|(topic_id, partitions)| LostReplicas { topic_id, partitions });
        BrokerRegistrationRequest {
            broker_id: self.id,
            incarnation_id: self.incarnation_id,
            listeners: listeners.collect(),
            features: features.collect(),
            rack: self.rack.clone(),
            log_dirs: self.log_dirs.clone(),
            previous_broker_epoch: previous_epoch.filter(|_| self.is_clean).unwrap_or(NO_EPOCH),
            lost_replicas: lost.collect(),
            ..BrokerRegistrationRequest::default()
        }
    }
}

/// Registers a broker (`ClusterControlManager.registerBroker`). It is active at once: it asks only when it has caught
/// up with the metadata. The first one starts the cluster's features.
///
/// The broker's former process has ended: it leaves the ISRs as if it had been fenced, but stays where no other replica
/// is known to be alive: after a stop of all brokers, late ones may have been the leaders, and may have lost what they
/// had. If the disk of a replica was lost, it leaves in any case, unless there is no other replica: then it leads an
/// empty log. A replica that has lost records leaves if any other has them all, even one that is not registered yet, as
/// others would truncate their logs to match it. `is_alive` says whether the controller has had contact with a broker.
pub fn register(
    context: &Context<'_>,
    request: &BrokerRegistrationRequest,
    is_alive: &dyn Fn(i32) -> bool,
) -> Decision<BrokerRegistrationResponse> {
    if let Err(error_code) = check_registration(context.image, request, is_alive(request.broker_id)) {
        let answer = BrokerRegistrationResponse { error_code, ..BrokerRegistrationResponse::default() };
        return Decision { records: Vec::new(), answer };
    }
    let mut records: Vec<MetadataRecord> = Vec::new();
    if context.image.features().is_empty() {
        let finalized = FEATURES.iter().filter(|supported| !supported.is_fixed && supported.max > 0);
        records.extend(finalized.map(|supported| {
            FeatureLevelRecord { name: supported.name.to_owned(), feature_level: supported.max }.into()
        }));
    }
    let previous = context.image.broker(request.broker_id);
    let mut broker = requested(request);
    // Grows with every registration.
    broker.epoch = context.image.offset() + 1;
    if let Some(same) = previous.filter(|previous| previous.incarnation_id == broker.incarnation_id) {
        // Asked again by the same process: nothing has ended.
        broker.epoch = same.epoch;
        (broker.fenced, broker.in_controlled_shutdown) = (same.fenced, same.in_controlled_shutdown);
        records.push(broker.to_record().into());
    } else {
        let is_clean = previous.is_some_and(|previous| previous.epoch == request.previous_broker_epoch);
        records.push(broker.to_record().into());
        let after = with_brokers(context.image, |brokers| _ = brokers.insert(broker.id, broker.clone()));
        records.append(&mut restart(&context.on(&after), &broker, is_clean, &request.lost_replicas, is_alive));
    }
    let answer = BrokerRegistrationResponse { broker_epoch: broker.epoch, ..BrokerRegistrationResponse::default() };
    Decision { records, answer }
}

fn check_registration(
    image: &MetadataImage,
    request: &BrokerRegistrationRequest,
    is_alive: bool,
) -> Result<(), ErrorCode> {
    let is_other =
        |id| image.broker(id).is_some_and(|broker: &RegisteredBroker| broker.incarnation_id != request.incarnation_id);
    if is_alive && is_other(request.broker_id) {
        return Err(ErrorCode::DUPLICATE_BROKER_REGISTRATION);
    }
    let directories: BTreeSet<Uuid> = request.log_dirs.iter().copied().collect();
    let is_taken = |broker: &RegisteredBroker| {
        broker.id != request.broker_id && broker.log_dirs.iter().any(|directory| directories.contains(directory))
    };
    if directories.is_empty()
        || directories.len() != request.log_dirs.len()
        || directories.iter().any(|directory| reserved(*directory).is_some())
        || image.brokers().any(is_taken)
    {
        return Err(ErrorCode::INVALID_REGISTRATION);
    }
    let supports = |name: &str, level: i16| {
        let feature = request.features.iter().find(|feature| feature.name == name);
        feature.is_some_and(|feature| (feature.min_supported_version..=feature.max_supported_version).contains(&level))
    };
    match image.features().iter().all(|(name, level)| supports(name, *level)) {
        true => Ok(()),
        false => Err(ErrorCode::UNSUPPORTED_VERSION),
    }
}

fn requested(request: &BrokerRegistrationRequest) -> RegisteredBroker {
    let endpoints = request.listeners.iter().map(|listener| BrokerEndpoint {
        name: listener.name.clone(),
        host: listener.host.clone(),
        port: listener.port,
        security_protocol: listener.security_protocol,
    });
    let features = request
        .features
        .iter()
        .map(|feature| (feature.name.clone(), (feature.min_supported_version, feature.max_supported_version)));
    RegisteredBroker {
        id: request.broker_id,
        epoch: NO_EPOCH,
        incarnation_id: request.incarnation_id,
        endpoints: endpoints.collect(),
        features: features.collect(),
        rack: request.rack.clone(),
        fenced: false,
        in_controlled_shutdown: false,
        log_dirs: request.log_dirs.clone(),
        // It says so with its first heartbeat.
        cordoned_directories: Vec::new(),
    }
}

/// Updates a broker's partitions after its restart; `context` has it as active already.
fn restart(
    context: &Context<'_>,
    broker: &RegisteredBroker,
    is_clean: bool,
    lost_replicas: &[LostReplicas],
    is_alive: &dyn Fn(i32) -> bool,
) -> Vec<MetadataRecord> {
    let id = broker.id;
    let lost = lost_replicas.iter().flat_map(|topic| topic.partitions.iter().map(|index| (topic.topic_id, *index)));
    let lost: BTreeSet<(Uuid, i32)> = lost.collect();
    let mut records = Vec::new();
    for topic in context.image.topics() {
        for (index, partition) in topic.partitions.iter().enumerate() {
            let Some(directory) = directory(partition, id) else { continue };
            let mut change = Change::new(context, topic, index);
            let is_lost = lost.contains(&(topic.id, index as i32)) && !storage::injected_fault!(LostReplicaLeads);
            let mut complete = partition.isr.iter().chain(&partition.eligible_leader_replicas);
            let may_lack = !is_clean && !is_durable(context, topic);
            let can_go_on = |change: &Change<'_>| {
                let goes_on = |other: i32| change.serves(other) && (may_lack || is_alive(other));
                partition.isr.iter().any(|other| *other != id && goes_on(*other))
            };
            if reserved(directory).is_none() && !broker.log_dirs.contains(&directory) {
                change.moved = Some((id, default_directory(context.image, id)));
                if partition.replicas == [id] {
                    change.new_leader_epoch = true;
                } else {
                    change.wiped = Some(id);
                }
            } else if is_lost && complete.any(|other| *other != id) {
                change.wiped = Some(id);
            } else if can_go_on(&change) {
                change.isr.retain(|member| *member != id);
            } else if partition.leader == id && (is_lost || !is_clean) {
                change.new_leader_epoch = true;
            } else if partition.isr.contains(&id) && !is_clean {
                // A live leader would have counted on what this log may lack.
                change.successor = Some(id);
            }
            if may_lack {
                change.ineligible = Some(id);
            }
            records.extend(change.record().map(MetadataRecord::from));
        }
    }
    records
}

/// Forgets a broker (`ReplicationControlManager.unregisterBroker`).
pub fn unregister(context: &Context<'_>, id: i32) -> Decision<Result<(), Refusal>> {
    let Some(broker) = context.image.broker(id) else {
        let message = format!("Broker ID {id} is not currently registered");
        let refusal = Refusal::new(ErrorCode::BROKER_ID_NOT_REGISTERED, message);
        return Decision { records: Vec::new(), answer: Err(refusal) };
    };
    let after = with_brokers(context.image, |brokers| _ = brokers.remove(&id));
    let mut records = settle(&context.on(&after), &[id]);
    records.push(UnregisterBrokerRecord { broker_id: id, broker_epoch: broker.epoch }.into());
    Decision { records, answer: Ok(()) }
}

/// Gives the next block of producer ids to a broker.
pub fn allocate_producer_ids(
    context: &Context<'_>,
    request: &AllocateProducerIdsRequest,
) -> Decision<Result<ProducerIdBlock, Refusal>> {
    let (broker_id, broker_epoch) = (request.broker_id, request.broker_epoch);
    if context.image.broker(broker_id).is_none_or(|broker| broker.epoch != broker_epoch) {
        let refusal = Refusal::new(ErrorCode::STALE_BROKER_EPOCH, "The broker has registered anew.");
        return Decision { records: Vec::new(), answer: Err(refusal) };
    }
    let first = context.image.next_producer_id();
    let Some(next_producer_id) = first.checked_add(PRODUCER_ID_BLOCK) else {
        let refusal = Refusal::new(ErrorCode::UNKNOWN_SERVER_ERROR, "All producer ids have been given out.");
        return Decision { records: Vec::new(), answer: Err(refusal) };
    };
    let record = ProducerIdsRecord { broker_id, broker_epoch, next_producer_id };
    Decision { records: vec![record.into()], answer: Ok(ProducerIdBlock { first, count: PRODUCER_ID_BLOCK }) }
}

#[cfg(test)]
mod tests {
    use configuration::BrokerConfig;
    use wire::api::create_topics::CreatableTopic;

    use super::super::tests::{Counter, applied, brokers, on, partition, state, with_fenced, with_setting, with_topic};
    use super::super::{heartbeats, topics};
    use super::*;
    use crate::image::Partition;

    fn registration(incarnation: u8, is_clean: bool) -> BrokerRegistration {
        BrokerRegistration {
            id: 1,
            incarnation_id: Uuid([incarnation; 16]),
            endpoints: BrokerConfig::default().advertised_endpoints().unwrap(),
            rack: None,
            log_dirs: vec![Uuid([9; 16])],
            is_clean,
            lost_replicas: Vec::new(),
        }
    }

    fn ask(image: &MetadataImage, id: i32, directory: u8, is_clean: bool) -> (ErrorCode, MetadataImage) {
        let registration =
            BrokerRegistration { id, log_dirs: vec![Uuid([directory; 16])], ..registration(77, is_clean) };
        let request = registration.to_request(image.broker(id).map(|broker| broker.epoch));
        let decision = on(image, |context| register(context, &request, &|other| other != request.broker_id));
        (decision.answer.error_code, applied(image, &decision.records))
    }

    fn first(registration: &BrokerRegistration, image: &MetadataImage) -> MetadataImage {
        let request = registration.to_request(image.broker(registration.id).map(|broker| broker.epoch));
        applied(image, &on(image, |context| register(context, &request, &|other| other != request.broker_id)).records)
    }

    #[test]
    fn a_restart_after_a_crash_is_a_new_leader_epoch() {
        let image = first(&registration(1, true), &MetadataImage::default());
        assert!(image.broker(1).unwrap().is_active());
        let topic = CreatableTopic { name: "t".into(), num_partitions: 2, replication_factor: 1, ..Default::default() };
        let image = applied(&image, &on(&image, |context| topics::create(context, &[topic], false)).records);
        assert_eq!(image.partition("t", 0).unwrap().directories, [Uuid([9; 16])]);

        let clean = first(&registration(2, true), &image);
        assert_eq!(clean.partition("t", 1).unwrap().leader_epoch, 0);
        assert!(clean.broker(1).unwrap().epoch > image.broker(1).unwrap().epoch);
        let crashed = first(&registration(2, false), &image);
        assert_eq!(crashed.partition("t", 1).unwrap().leader_epoch, 1);
        assert_eq!(crashed.broker(1).unwrap().incarnation_id, Uuid([2; 16]));
        // A fenced one leads again.
        let fenced = applied(&image, &on(&image, |c| heartbeats::fence(c, &[(1, image.broker(1).unwrap().epoch)])));
        assert_eq!(fenced.partition("t", 0).unwrap().leader, -1);
        assert_eq!(first(&registration(2, true), &fenced).partition("t", 0).unwrap().leader, 1);
    }

    #[test]
    fn a_new_cluster_starts_at_the_highest_levels_and_an_older_one_keeps_its_own() {
        let new = first(&registration(1, true), &MetadataImage::default());
        let levels = [("group.version", 1), ("metadata.version", 30), ("transaction.version", 2)];
        assert_eq!(*new.features(), BTreeMap::from(levels.map(|(name, level)| (name.to_owned(), level))));
        let level = FeatureLevelRecord { name: "metadata.version".into(), feature_level: 30 };
        let older = applied(&MetadataImage::default(), &[level.into()]);
        let restarted = first(&registration(1, true), &older);
        assert!(restarted.broker(1).unwrap().is_active());
        assert_eq!(restarted.features(), older.features());
    }

    #[test]
    fn what_a_broker_was_ends_with_its_next_registration() {
        // Before: ISR, leader, who is fenced. After 1 has registered: leader, ISR, ELR.
        for (isr, leader, fenced, is_clean, expected) in [
            (&[1, 2, 3][..], 1, &[][..], true, (2, &[2, 3][..], &[][..])),
            (&[1, 2, 3], 2, &[], false, (2, &[2, 3], &[])),
            (&[1, 2], 1, &[3], false, (2, &[2], &[1])),
            (&[1], 1, &[], true, (1, &[1], &[])),
            (&[1], -1, &[1], false, (1, &[1], &[])),
            (&[2], 2, &[1], true, (2, &[2], &[])),
            (&[1, 2], -1, &[1, 2, 3], false, (1, &[1], &[2])),
        ] {
            let image = with_topic(&brokers(&[1, 2, 3]), &[partition(&[1, 2, 3], isr, leader)]);
            let image = with_fenced(&with_setting(&image, "min.insync.replicas", "2"), fenced);
            let (code, after) = ask(&image, 1, 101, is_clean);
            let (leader, isr, elr) = state(&after, 0);
            assert_eq!((code, (leader, &isr[..], &elr[..])), (ErrorCode::NONE, expected));
        }
        // What is not on disk may be lost in a crash.
        let image = with_topic(&brokers(&[1, 2]), &[partition(&[1, 2], &[1, 2], 1)]);
        let image = with_setting(&with_setting(&image, "min.insync.replicas", "2"), "ack.durability", "os");
        assert_eq!(state(&ask(&image, 1, 101, false).1, 0), (2, vec![2], vec![]));
        assert_eq!(state(&ask(&image, 1, 101, true).1, 0), (2, vec![2], vec![1]));
    }

    #[test]
    fn who_has_lost_records_neither_leads_nor_stays_in_sync_beside_who_has_them() {
        // Before: ISR, ELR, leader, who is fenced. After 1 has registered without all it had: leader, ISR, ELR.
        for (isr, elr, leader, fenced, expected) in [
            // The replicas that have everything may not be registered yet: then there is no leader.
            (&[1, 2, 3][..], &[][..], -1, &[1, 2, 3][..], (-1, &[2, 3][..], &[][..])),
            (&[1, 2, 3], &[], 1, &[2, 3], (-1, &[2, 3], &[])),
            (&[1, 2, 3], &[], 1, &[2], (3, &[3], &[2])),
            (&[1], &[2], 1, &[], (2, &[2], &[])),
            (&[1], &[2], -1, &[1, 2], (-1, &[], &[2])),
            (&[2], &[1], 2, &[], (2, &[2], &[])),
            // No replica has more.
            (&[1], &[], 1, &[], (1, &[1], &[])),
            (&[1], &[], -1, &[1], (1, &[1], &[])),
        ] {
            let before = Partition { eligible_leader_replicas: elr.to_vec(), ..partition(&[1, 2, 3], isr, leader) };
            let image = with_topic(&brokers(&[1, 2, 3]), &[before, partition(&[1, 2, 3], isr, leader)]);
            let image = with_fenced(&with_setting(&image, "min.insync.replicas", "2"), fenced);
            let lost_replicas = vec![(image.topic("t").unwrap().id, 0), (Uuid([200; 16]), 1)];
            let registration =
                BrokerRegistration { log_dirs: vec![Uuid([101; 16])], lost_replicas, ..registration(77, true) };
            let request = registration.to_request(image.broker(1).map(|broker| broker.epoch));
            let after = applied(
                &image,
                &on(&image, |context| register(context, &request, &|other| other != request.broker_id)).records,
            );
            let (new_leader, isr, elr) = state(&after, 0);
            assert_eq!((new_leader, &isr[..], &elr[..]), expected);
            let epochs = [&image, &after].map(|image| image.partition("t", 0).unwrap().leader_epoch);
            assert!(new_leader != 1 || epochs[1] > epochs[0], "others are to find out what it lacks");
        }
    }

    /// After a stop of all, the metadata has those for active who have not started yet.
    #[test]
    fn nobody_leaves_the_field_to_who_may_be_gone() {
        // Who leads, which brokers the controller knows to be alive. After 1 has registered: leader, ISR.
        for (leader, alive, is_clean, expected) in [
            (2, &[][..], false, (1, &[1, 2, 3][..])),
            (2, &[], true, (2, &[1, 2, 3])),
            (1, &[], false, (1, &[1, 2, 3])),
            (2, &[2], false, (2, &[2, 3])),
            (2, &[3], false, (2, &[2, 3])),
            (1, &[3], true, (2, &[2, 3])),
        ] {
            let image = with_topic(&brokers(&[1, 2, 3]), &[partition(&[1, 2, 3], &[1, 2, 3], leader)]);
            let registration = BrokerRegistration { log_dirs: vec![Uuid([101; 16])], ..registration(77, is_clean) };
            let request = registration.to_request(image.broker(1).map(|broker| broker.epoch));
            let after = on(&image, |context| register(context, &request, &|id| alive.contains(&id)));
            let after = applied(&image, &after.records);
            let (new_leader, isr, _) = state(&after, 0);
            assert_eq!((new_leader, &isr[..]), expected);
            let epochs = [&image, &after].map(|image| image.partition("t", 0).unwrap().leader_epoch);
            assert_eq!(epochs[1] > epochs[0], new_leader != leader || leader == 1 && !is_clean, "{leader} {alive:?}");
        }
    }

    #[test]
    fn a_new_disk_is_in_sync_with_nothing() {
        let replicated = partition(&[1, 2], &[1], -1);
        let only = partition(&[1], &[1], 1);
        let other = partition(&[2, 1], &[2, 1], 2);
        let image = with_topic(&brokers(&[1, 2]), &[replicated, only, other]);
        let (code, after) = ask(&image, 1, 50, true);
        assert_eq!(code, ErrorCode::NONE);
        assert_eq!(state(&after, 0), (-1, vec![], vec![]));
        assert_eq!(after.partition("t", 0).unwrap().last_known_elr, [1]);
        assert_eq!(state(&after, 1), (1, vec![1], vec![]));
        assert_eq!(after.partition("t", 1).unwrap().leader_epoch, 1);
        assert_eq!(state(&after, 2), (2, vec![2], vec![]));
        for (index, replica_index) in [(0, 0), (1, 0), (2, 1)] {
            assert_eq!(after.partition("t", index).unwrap().directories[replica_index], Uuid([50; 16]));
        }
    }

    #[test]
    fn registrations_are_refused_by_table() {
        let image = first(&registration(1, true), &MetadataImage::default());
        let image = applied(
            &image,
            &[RegisteredBroker { id: 2, log_dirs: vec![Uuid([3; 16])], ..image.broker(1).unwrap().clone() }
                .to_record()
                .into()],
        );
        let with_dirs = |log_dirs: &[u8]| BrokerRegistration {
            log_dirs: log_dirs.iter().map(|id| Uuid([*id; 16])).collect(),
            ..registration(2, true)
        };
        let too_old = |mut request: BrokerRegistrationRequest| {
            request.features[0].max_supported_version = 29;
            request
        };
        for (request, is_alive, code) in [
            (registration(2, true).to_request(None), true, ErrorCode::DUPLICATE_BROKER_REGISTRATION),
            (registration(2, true).to_request(None), false, ErrorCode::NONE),
            (registration(1, true).to_request(None), true, ErrorCode::NONE),
            (with_dirs(&[]).to_request(None), false, ErrorCode::INVALID_REGISTRATION),
            (with_dirs(&[0]).to_request(None), false, ErrorCode::INVALID_REGISTRATION),
            (with_dirs(&[4, 4]).to_request(None), false, ErrorCode::INVALID_REGISTRATION),
            (with_dirs(&[3]).to_request(None), false, ErrorCode::INVALID_REGISTRATION),
            (too_old(registration(2, true).to_request(None)), false, ErrorCode::UNSUPPORTED_VERSION),
            (
                BrokerRegistrationRequest { features: vec![], ..registration(2, true).to_request(None) },
                false,
                ErrorCode::UNSUPPORTED_VERSION,
            ),
        ] {
            let decision = on(&image, |context| register(context, &request, &|_| is_alive));
            assert_eq!(decision.answer.error_code, code, "{request:?}");
            assert_eq!(decision.records.is_empty(), code != ErrorCode::NONE);
        }
    }

    #[test]
    fn the_same_process_may_ask_again() {
        let image = first(&registration(1, true), &MetadataImage::default());
        let image = with_brokers(&image, |brokers| brokers.get_mut(&1).unwrap().in_controlled_shutdown = true);
        let again = first(&BrokerRegistration { rack: Some("r".into()), ..registration(1, true) }, &image);
        let expected = RegisteredBroker { rack: Some("r".into()), ..image.broker(1).unwrap().clone() };
        assert_eq!(*again.broker(1).unwrap(), expected);
        let next = first(&registration(2, true), &image);
        assert!(next.broker(1).unwrap().is_active(), "a shutdown ends with the process");
    }

    #[test]
    fn who_is_unregistered_leads_no_more() {
        let image = with_topic(&brokers(&[1, 2]), &[partition(&[1, 2], &[1, 2], 1), partition(&[1], &[1], 1)]);
        let decision = on(&image, |context| unregister(context, 1));
        assert_eq!(decision.answer, Ok(()));
        let after = applied(&image, &decision.records);
        assert_eq!((state(&after, 0), state(&after, 1)), ((2, vec![2], vec![]), (-1, vec![1], vec![])));
        assert!(after.broker(1).is_none());
        let refusal = on(&after, |context| unregister(context, 1)).answer.unwrap_err();
        assert_eq!(
            refusal,
            Refusal::new(ErrorCode::BROKER_ID_NOT_REGISTERED, "Broker ID 1 is not currently registered")
        );
    }

    #[test]
    fn blocks_of_producer_ids_do_not_overlap_and_end() {
        let (config, random) = (BrokerConfig::default(), Counter::default());
        let mut image = brokers(&[1]);
        let request = AllocateProducerIdsRequest { broker_id: 1, broker_epoch: 0 };
        for block in 0..3 {
            let decision =
                allocate_producer_ids(&Context { image: &image, config: &config, random: &random }, &request);
            assert_eq!(decision.answer, Ok(ProducerIdBlock { first: block * 1000, count: 1000 }));
            image = applied(&image, &decision.records);
        }
        let stale = AllocateProducerIdsRequest { broker_epoch: 1, ..request.clone() };
        let decision = allocate_producer_ids(&Context { image: &image, config: &config, random: &random }, &stale);
        assert_eq!(decision.answer.unwrap_err().code, ErrorCode::STALE_BROKER_EPOCH);
        image.next_producer_id = i64::MAX - 999;
        let decision = allocate_producer_ids(&Context { image: &image, config: &config, random: &random }, &request);
        assert!(decision.records.is_empty() && decision.answer.is_err());
    }
}
