//! Heartbeats of brokers, and what follows from their absence (`BrokerHeartbeatManager`): brokers are fenced and
//! unfenced, and hand over what they lead before they stop. A broker whose directories are cordoned (KIP-1066) has no
//! free space: beyond what Kafka does, it leaves the ISRs and hands over where another in-sync replica has space.
//!
//! The time of a broker's last heartbeat is not part of the metadata. The caller keeps it and says which brokers to
//! fence.

use wire::ErrorCode;
use wire::api::broker_heartbeat::{BrokerHeartbeatRequest, BrokerHeartbeatResponse};
use wire::state::metadata::{BrokerRegistrationChangeRecord, MetadataRecord};

use super::leadership::settle;
use super::{Context, Decision, with_brokers};
use crate::apply::LEADER_UNCHANGED;
use crate::image::RegisteredBroker;

/// Fences brokers, given by id and epoch: they lose what they lead and leave the ISRs. A broker that has registered
/// again since is left alone.
pub fn fence(context: &Context<'_>, brokers: &[(i32, i64)]) -> Vec<MetadataRecord> {
    let known = brokers.iter().filter_map(|(id, epoch)| {
        let broker = context.image.broker(*id).filter(|broker| broker.epoch == *epoch && !broker.fenced)?;
        Some(RegisteredBroker { fenced: true, ..broker.clone() })
    });
    change(context, &known.collect::<Vec<_>>())
}

/// Answers a broker's heartbeat (`ReplicationControlManager.processBrokerHeartbeat`).
pub fn heartbeat(context: &Context<'_>, request: &BrokerHeartbeatRequest) -> Decision<BrokerHeartbeatResponse> {
    let refuse = |error_code| Decision {
        records: Vec::new(),
        answer: BrokerHeartbeatResponse { error_code, ..BrokerHeartbeatResponse::default() },
    };
    let broker = match context.image.broker(request.broker_id) {
        None => return refuse(ErrorCode::BROKER_ID_NOT_REGISTERED),
        Some(broker) if broker.epoch != request.broker_epoch => return refuse(ErrorCode::STALE_BROKER_EPOCH),
        Some(broker) => broker,
    };
    // The epoch is an offset at which the registration was not there yet.
    let is_caught_up = request.current_metadata_offset >= broker.epoch;
    let mut next = broker.clone();
    next.log_dirs.retain(|directory| !request.offline_log_dirs.contains(directory));
    // The record cannot say that there is no directory left.
    let is_lost = next.log_dirs.is_empty() && !broker.log_dirs.is_empty();
    if is_lost {
        next.log_dirs.clone_from(&broker.log_dirs);
    }
    if let Some(cordoned) = &request.cordoned_log_dirs {
        next.cordoned_directories = next.log_dirs.iter().filter(|dir| cordoned.contains(dir)).copied().collect();
    }
    // The last active broker goes on with what works: no other could take over.
    let is_last = !context.image.brokers().any(|other| other.id != broker.id && other.is_active());
    let must_fence = request.want_fence && !is_last || is_lost;
    let mut should_shut_down = false;
    let mut records = Vec::new();
    if broker.fenced {
        next.fenced = must_fence || request.want_shut_down || !is_caught_up;
        should_shut_down = request.want_shut_down;
    } else if must_fence {
        next.fenced = true;
        should_shut_down = request.want_shut_down;
    } else if request.want_shut_down || broker.in_controlled_shutdown {
        let leaving = RegisteredBroker { in_controlled_shutdown: true, ..next.clone() };
        records = change(context, std::slice::from_ref(&leaving));
        if hands_over(context, broker.id, &records) {
            next = leaving;
        } else {
            should_shut_down = true;
            // No other broker can lead its partitions. Without another broker no metadata need change either, and a
            // restart finds its partitions as they were.
            next.fenced = !is_last;
            records.clear();
        }
    }
    if records.is_empty() {
        records = change(context, std::slice::from_ref(&next));
    }
    let answer = BrokerHeartbeatResponse {
        error_code: ErrorCode::NONE,
        is_caught_up,
        is_fenced: next.fenced,
        should_shut_down,
        ..BrokerHeartbeatResponse::default()
    };
    Decision { records, answer }
}

/// Whether these records give to others what the broker leads.
fn hands_over(context: &Context<'_>, id: i32, records: &[MetadataRecord]) -> bool {
    records.iter().any(|record| match record {
        MetadataRecord::PartitionChange(change) if change.leader != LEADER_UNCHANGED => {
            let topic = context.image.topic_by_id(change.topic_id);
            topic.and_then(|topic| topic.partition(change.partition_id)).is_some_and(|before| before.leader == id)
        }
        _ => false,
    })
}

/// The records of changed brokers and of their partitions. None where nothing changes.
fn change(context: &Context<'_>, brokers: &[RegisteredBroker]) -> Vec<MetadataRecord> {
    let mut records: Vec<MetadataRecord> = Vec::new();
    let mut ids = Vec::new();
    for now in brokers {
        let Some(before) = context.image.broker(now.id).filter(|before| *before != now) else { continue };
        ids.push(now.id);
        let changed = |is: bool, was: bool| i8::from(is) - i8::from(was);
        let record = BrokerRegistrationChangeRecord {
            broker_id: now.id,
            broker_epoch: now.epoch,
            fenced: changed(now.fenced, before.fenced),
            in_controlled_shutdown: changed(now.in_controlled_shutdown, before.in_controlled_shutdown),
            log_dirs: if now.log_dirs == before.log_dirs { Vec::new() } else { now.log_dirs.clone() },
            cordoned_log_dirs: (now.cordoned_directories != before.cordoned_directories)
                .then(|| now.cordoned_directories.clone()),
        };
        records.push(record.into());
    }
    if ids.is_empty() {
        return records;
    }
    let after = with_brokers(context.image, |known| known.extend(brokers.iter().map(|b| (b.id, b.clone()))));
    records.append(&mut settle(&context.on(&after), &ids));
    records
}

#[cfg(test)]
mod tests {
    use wire::Uuid;

    use super::super::tests::{applied, brokers, on, partition, state, with_fenced, with_topic};
    use super::*;
    use crate::image::MetadataImage;

    /// Answers as whether it is caught up, fenced, and may shut down.
    fn beat(
        image: &MetadataImage,
        id: i32,
        ask: impl FnOnce(&mut BrokerHeartbeatRequest),
    ) -> (Result<(bool, bool, bool), ErrorCode>, MetadataImage) {
        let mut request = BrokerHeartbeatRequest {
            broker_id: id,
            broker_epoch: 0,
            current_metadata_offset: 0,
            ..BrokerHeartbeatRequest::default()
        };
        ask(&mut request);
        let Decision { records, answer } = on(image, |context| heartbeat(context, &request));
        let after = if records.is_empty() { image.clone() } else { applied(image, &records) };
        match answer.error_code {
            ErrorCode::NONE => (Ok((answer.is_caught_up, answer.is_fenced, answer.should_shut_down)), after),
            error_code => (Err(error_code), after),
        }
    }

    fn three() -> MetadataImage {
        with_topic(
            &brokers(&[1, 2, 3]),
            &[partition(&[1, 2], &[1, 2], 1), partition(&[2, 1], &[2, 1], 2), partition(&[1], &[1], 1)],
        )
    }

    #[test]
    fn a_broker_that_is_heard_of_no_more_leads_no_more() {
        let image = three();
        let after = applied(&image, &on(&image, |context| fence(context, &[(1, 0), (9, 0), (2, -1)])));
        assert_eq!(state(&after, 0), (2, vec![2], vec![]));
        assert_eq!(state(&after, 1), (2, vec![2], vec![]));
        assert_eq!(state(&after, 2), (-1, vec![1], vec![]));
        assert!(after.broker(1).unwrap().fenced && after.broker(2).unwrap().is_active());
        assert_eq!(on(&after, |context| fence(context, &[(1, 0)])), []);
        let both = applied(&image, &on(&image, |context| fence(context, &[(1, 0), (2, 0)])));
        assert_eq!(state(&both, 0), (-1, vec![1, 2], vec![]));
        // Either of them has all.
        let (_, one) = beat(&both, 2, |_| {});
        assert_eq!((state(&one, 0), state(&one, 2)), ((2, vec![2], vec![]), (-1, vec![1], vec![])));
    }

    #[test]
    fn states_by_table() {
        type Ask = fn(&mut BrokerHeartbeatRequest);
        let image = with_brokers(&three(), |brokers| brokers.get_mut(&1).unwrap().epoch = 7);
        let image = with_brokers(&image, |brokers| brokers.get_mut(&2).unwrap().fenced = true);
        let all: &[(i32, Ask, _)] = &[
            (9, |_| {}, Err(ErrorCode::BROKER_ID_NOT_REGISTERED)),
            (1, |_| {}, Err(ErrorCode::STALE_BROKER_EPOCH)),
            (1, |r| r.broker_epoch = 8, Err(ErrorCode::STALE_BROKER_EPOCH)),
            (1, |r| r.broker_epoch = 7, Ok((false, false, false))),
            (1, |r| (r.broker_epoch, r.current_metadata_offset) = (7, 7), Ok((true, false, false))),
            (1, |r| (r.broker_epoch, r.want_fence) = (7, true), Ok((false, true, false))),
            (1, |r| (r.broker_epoch, r.want_fence, r.want_shut_down) = (7, true, true), Ok((false, true, true))),
            (2, |_| {}, Ok((true, false, false))),
            (2, |r| r.current_metadata_offset = -1, Ok((false, true, false))),
            (2, |r| r.want_fence = true, Ok((true, true, false))),
            (2, |r| r.want_shut_down = true, Ok((true, true, true))),
            // It leads nothing.
            (3, |r| r.want_shut_down = true, Ok((true, true, true))),
            (3, |r| r.offline_log_dirs = vec![Uuid([103; 16])], Ok((true, true, false))),
            (3, |r| r.offline_log_dirs = vec![Uuid([1; 16])], Ok((true, false, false))),
        ];
        for (at, (id, ask, expected)) in all.iter().enumerate() {
            let (answer, after) = beat(&image, *id, ask);
            assert_eq!(answer, *expected, "{at}");
            let fenced = after.broker(*id).is_some_and(|broker| broker.fenced);
            assert!(answer.is_err() || fenced == answer.unwrap().1, "{at}");
        }
        let quiet = on(&image, |context| {
            heartbeat(context, &BrokerHeartbeatRequest { broker_id: 3, broker_epoch: 0, ..Default::default() }).records
        });
        assert_eq!(quiet, [], "a sign of life alone is not written");
    }

    #[test]
    fn a_broker_hands_over_before_it_stops() {
        let shut_down = |request: &mut BrokerHeartbeatRequest| request.want_shut_down = true;
        let (answer, leaving) = beat(&three(), 1, shut_down);
        assert_eq!(answer, Ok((true, false, false)));
        assert!(leaving.broker(1).unwrap().in_controlled_shutdown);
        assert_eq!(state(&leaving, 0), (2, vec![2], vec![]));
        assert_eq!(state(&leaving, 1), (2, vec![2], vec![]));
        // No other replica can lead this partition: it leads to the end.
        assert_eq!(state(&leaving, 2), (1, vec![1], vec![]));
        assert_eq!(leaving.partition("t", 2).unwrap().leader_epoch, 0);
        let (answer, stopped) = beat(&leaving, 1, shut_down);
        assert_eq!(answer, Ok((true, true, true)));
        assert_eq!(state(&stopped, 2), (-1, vec![1], vec![]));
        assert_eq!(beat(&stopped, 1, shut_down).0, Ok((true, true, true)));
    }

    #[test]
    fn a_broker_alone_stops_as_it_is() {
        let image = with_fenced(&three(), &[2, 3]);
        let (answer, after) = beat(&image, 1, |request| request.want_shut_down = true);
        assert_eq!((answer, after == image), (Ok((true, false, true)), true));
    }

    #[test]
    fn the_last_active_broker_is_not_fenced_at_its_own_wish() {
        let wants_fence = |request: &mut BrokerHeartbeatRequest| request.want_fence = true;
        let image = with_fenced(&three(), &[2, 3]);
        assert_eq!(beat(&image, 1, wants_fence), (Ok((true, false, false)), image.clone()));
        // The others wait until another broker is active, or their disks answer.
        assert_eq!(beat(&image, 2, wants_fence).0, Ok((true, true, false)));
        assert_eq!(beat(&image, 2, |_| {}).0, Ok((true, false, false)));
    }

    #[test]
    fn a_broker_without_room_leaves_what_others_can_go_on_with() {
        let cordon = |request: &mut BrokerHeartbeatRequest| {
            request.cordoned_log_dirs = Some(vec![Uuid([100 + request.broker_id as u8; 16])]);
        };
        let free = |request: &mut BrokerHeartbeatRequest| request.cordoned_log_dirs = Some(Vec::new());
        let (answer, full) = beat(&three(), 1, cordon);
        assert_eq!(answer, Ok((true, false, false)), "it goes on serving");
        assert_eq!((state(&full, 0), state(&full, 1)), ((2, vec![2], vec![]), (2, vec![2], vec![])));
        // Its only replica can be read all the same.
        assert_eq!((state(&full, 2), full.partition("t", 2).unwrap().leader_epoch), ((1, vec![1], vec![]), 0));
        let quiet =
            |image: &MetadataImage, id: i32, ask: fn(&mut BrokerHeartbeatRequest)| beat(image, id, ask).1 == *image;
        assert!(quiet(&full, 1, cordon) && quiet(&full, 1, |_| {}));
        // When no replica has space nothing changes: the leader refuses what is produced.
        let (_, both) = beat(&full, 2, cordon);
        assert_eq!((state(&both, 0), state(&both, 1)), ((2, vec![2], vec![]), (2, vec![2], vec![])));
        let (_, one) = beat(&both, 1, free);
        assert!(one.broker(1).unwrap().has_room() && !one.broker(2).unwrap().has_room());
        assert_eq!(state(&one, 0), (2, vec![2], vec![]), "it is not in sync yet");
        // A snapshot has it, too.
        let record = one.broker(2).unwrap().to_record();
        assert_eq!(applied(&one, &[record.into()]).broker(2), one.broker(2));
    }

    #[test]
    fn what_is_in_a_lost_directory_is_led_elsewhere() {
        let image = with_brokers(&three(), |brokers| {
            brokers.get_mut(&1).unwrap().log_dirs = vec![Uuid([101; 16]), Uuid([50; 16])];
        });
        let (answer, after) = beat(&image, 1, |request| request.offline_log_dirs = vec![Uuid([101; 16])]);
        assert_eq!(answer, Ok((true, false, false)));
        assert_eq!(after.broker(1).unwrap().log_dirs, [Uuid([50; 16])]);
        assert_eq!((state(&after, 0), state(&after, 2)), ((2, vec![2], vec![]), (-1, vec![1], vec![])));
    }
}
