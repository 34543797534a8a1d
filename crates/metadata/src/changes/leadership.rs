//! The leader of a partition after a change, and the record of it (`PartitionChangeBuilder`).
//!
//! Every change of a partition goes through [`Change`]: the requested change, and the brokers as they are afterwards.
//! What always holds after its record:
//! - The leader is in the ISR and active. A leader in controlled shutdown stays while no other member of the ISR can
//!   take over.
//! - Members of the ISR whose disk is full leave it while others with free space remain.
//! - Members of the ISR that are not active leave it while others remain. Without an active one the ISR stays as it is
//!   and the partition has no leader: any of them has all that was acknowledged. Kafka empties the ISR into the
//!   eligible leader replicas instead, which comes to the same.
//! - Eligible leader replicas (ELR, KIP-966) are those that left the ISR while it was below `min.insync.replicas`: no
//!   high watermark moved without them. They lead when no member of the ISR can.
//! - The ISR is empty only when a disk was lost. Then the last known leader is named, but never elected by itself, as
//!   Kafka does: its log is empty, and another replica's may not be.
//! - The leader epoch grows with every other leader and with every replica that is taken out, and with nothing else.

use configuration::AckDurability;
use wire::Uuid;
use wire::state::metadata::{MetadataRecord, PartitionChangeRecord};

use super::{Context, MIN_INSYNC_REPLICAS, default_directory, reassigning};
use crate::apply::LEADER_UNCHANGED;
use crate::image::{ConfigResource, NO_LEADER, Partition, RegisteredBroker, Topic};

/// `LeaderRecoveryState.RECOVERING`: the leader may lack records that were acknowledged.
const RECOVERING: i8 = 1;

/// The directories that say something else than where a replica is: not known yet, or not any more (`DirectoryId`).
const RESERVED_DIRECTORIES: u8 = 100;
const LOST_DIRECTORY: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Election {
    /// The first replica, if it can.
    Preferred,
    /// A replica that has all that was acknowledged.
    Online,
    /// If there is no such one, any.
    Unclean,
}

/// The requested change of a partition. What is not requested stays as it is.
pub(super) struct Change<'a> {
    context: &'a Context<'a>,
    topic: &'a Topic,
    index: i32,
    before: &'a Partition,
    pub(super) isr: Vec<i32>,
    pub(super) replicas: Vec<i32>,
    pub(super) adding_replicas: Vec<i32>,
    pub(super) removing_replicas: Vec<i32>,
    pub(super) leader_recovery_state: i8,
    pub(super) election: Election,
    /// A replica whose disk was lost: it leaves ISR and ELR in any case.
    pub(super) wiped: Option<i32>,
    /// A replica that is in another directory from now on.
    pub(super) moved: Option<(i32, Uuid)>,
    /// A replica that may lack records which it acknowledged: it is not eligible.
    pub(super) ineligible: Option<i32>,
    /// Starts a leader epoch even if the leader stays.
    pub(super) new_leader_epoch: bool,
    /// The leader if it is in sync, whichever led before.
    pub(super) successor: Option<i32>,
}

enum Elected {
    Nobody,
    /// One of the ISR.
    Clean(i32),
    /// One of the ELR.
    Eligible(i32),
    Unclean(i32),
}

impl<'a> Change<'a> {
    /// A change of the partition of that index; `context` has the brokers as they are afterwards.
    pub(super) fn new(context: &'a Context<'a>, topic: &'a Topic, index: usize) -> Self {
        let before = &*topic.partitions[index];
        let unclean = allows_unclean_elections(context, topic);
        Self {
            context,
            topic,
            index: index as i32,
            before,
            isr: before.isr.clone(),
            replicas: before.replicas.clone(),
            adding_replicas: before.adding_replicas.clone(),
            removing_replicas: before.removing_replicas.clone(),
            leader_recovery_state: before.leader_recovery_state,
            election: if unclean { Election::Unclean } else { Election::Online },
            wiped: None,
            moved: None,
            ineligible: None,
            new_leader_epoch: false,
            successor: None,
        }
    }

    /// Whether a replica could lead if it had the records: its broker is active and its directory is there.
    fn is_active(&self, id: i32) -> bool {
        self.context.image.broker(id).is_some_and(RegisteredBroker::is_active) && self.has_directory(id)
    }

    /// Whether a member of the ISR is there to go on with the partition.
    pub(super) fn serves(&self, id: i32) -> bool {
        self.is_active(id) || self.is_leaving(id)
    }

    /// Whether a replica can take what is produced.
    fn has_room(&self, id: i32) -> bool {
        self.context.image.broker(id).is_some_and(RegisteredBroker::has_room)
    }

    fn has_directory(&self, id: i32) -> bool {
        let directory = self.directory(id);
        self.context.image.broker(id).is_some_and(|broker| match reserved(directory) {
            Some(number) => number != LOST_DIRECTORY,
            None => broker.log_dirs.is_empty() || broker.log_dirs.contains(&directory),
        })
    }

    fn directory(&self, id: i32) -> Uuid {
        match self.moved {
            Some((moved, directory)) if moved == id => directory,
            _ => directory(self.before, id).unwrap_or_else(|| default_directory(self.context.image, id)),
        }
    }

    /// Whether the leader goes on although it shuts down.
    fn is_leaving(&self, id: i32) -> bool {
        id == self.before.leader
            && self.context.image.broker(id).is_some_and(|broker| !broker.fenced && broker.in_controlled_shutdown)
            && self.has_directory(id)
    }

    /// What changes; nothing if all is as requested already.
    pub(super) fn record(mut self) -> Option<PartitionChangeRecord> {
        let before = self.before;
        if let Some((isr, replicas)) =
            reassigning::completed(&self.isr, &self.replicas, &self.adding_replicas, &self.removing_replicas)
        {
            (self.isr, self.replicas) = (isr, replicas);
            self.adding_replicas.clear();
            self.removing_replicas.clear();
        }
        self.isr.retain(|id| self.wiped != Some(*id));
        let active: Vec<i32> = self.isr.iter().copied().filter(|id| self.is_active(*id)).collect();
        let with_room: Vec<i32> = active.iter().copied().filter(|id| self.has_room(*id)).collect();
        if !with_room.is_empty() {
            self.isr = with_room;
        } else if !active.is_empty() {
            self.isr = active;
        } else if self.isr.iter().any(|id| self.is_leaving(*id)) {
            self.isr = vec![before.leader];
        }
        let min_isr = min_insync_replicas(self.context, self.topic, &self.replicas);

        let elected = self.elect(min_isr);
        let is_unclean = matches!(elected, Elected::Unclean(_));
        let leader = match elected {
            Elected::Nobody => NO_LEADER,
            Elected::Clean(id) => id,
            Elected::Eligible(id) | Elected::Unclean(id) => {
                self.isr = vec![id];
                id
            }
        };
        if is_unclean {
            self.leader_recovery_state = RECOVERING;
        }
        let eligible = if is_unclean || self.isr.len() >= min_isr { Vec::new() } else { self.eligible() };
        let last_known = if leader != NO_LEADER {
            Vec::new()
        } else if self.isr.is_empty() && !before.isr.is_empty() {
            before.isr.clone()
        } else {
            before.last_known_elr.clone()
        };

        let epoch_grows = leader != before.leader
            || self.new_leader_epoch
            || before.replicas.iter().any(|id| !self.replicas.contains(id));
        let directories: Vec<Uuid> = self.replicas.iter().map(|id| self.directory(*id)).collect();
        let none = PartitionChangeRecord {
            partition_id: self.index,
            topic_id: self.topic.id,
            leader: LEADER_UNCHANGED,
            ..PartitionChangeRecord::default()
        };
        let record = PartitionChangeRecord {
            isr: changed(self.isr, &before.isr),
            leader: if epoch_grows { leader } else { LEADER_UNCHANGED },
            replicas: changed(self.replicas, &before.replicas),
            removing_replicas: changed(self.removing_replicas, &before.removing_replicas),
            adding_replicas: changed(self.adding_replicas, &before.adding_replicas),
            leader_recovery_state: match self.leader_recovery_state {
                state if state == before.leader_recovery_state => none.leader_recovery_state,
                state => state,
            },
            eligible_leader_replicas: changed(eligible, &before.eligible_leader_replicas),
            last_known_elr: changed(last_known, &before.last_known_elr),
            directories: changed(directories, &before.directories),
            ..none.clone()
        };
        (record != none).then_some(record)
    }

    fn elect(&self, min_isr: usize) -> Elected {
        let can_lead = |id: &&i32| self.isr.contains(id) && self.is_active(**id);
        let preferred = self.replicas.first().filter(|id| self.election == Election::Preferred && can_lead(id));
        if let Some(id) = preferred {
            return Elected::Clean(*id);
        }
        if let Some(id) = self.successor.as_ref().filter(can_lead) {
            return Elected::Clean(*id);
        }
        let leader = self.before.leader;
        if self.isr.contains(&leader) && self.serves(leader) {
            return Elected::Clean(leader);
        }
        if let Some(id) = self.replicas.iter().find(can_lead) {
            return Elected::Clean(*id);
        }
        // With a minimum that was lowered meanwhile, the ISR may have gone on without the others.
        if self.isr.len() < min_isr {
            let eligible = self.eligible();
            let known = |id: &&i32| self.before.eligible_leader_replicas.contains(id) && self.is_active(**id);
            if let Some(id) = eligible.iter().find(known) {
                return Elected::Eligible(*id);
            }
        }
        if self.election == Election::Unclean {
            // A replica whose disk was lost has nothing to lead with.
            let can_try = |id: &i32| self.is_active(*id) && self.wiped != Some(*id);
            let candidates = self.replicas.iter().copied().filter(can_try);
            if let Some(id) = candidates.min_by_key(|id| self.before.last_known_elr.contains(id)) {
                return Elected::Unclean(id);
            }
        }
        Elected::Nobody
    }

    /// Replicas that have all that was acknowledged and are not in the ISR, as long as the ISR is below the minimum.
    fn eligible(&self) -> Vec<i32> {
        let is_eligible = |id: &i32| {
            (self.before.eligible_leader_replicas.contains(id) || self.before.isr.contains(id))
                && !self.isr.contains(id)
                && self.wiped != Some(*id)
                && self.ineligible != Some(*id)
        };
        self.replicas.iter().copied().filter(is_eligible).collect()
    }
}

fn changed<T: PartialEq>(now: Vec<T>, before: &[T]) -> Option<Vec<T>> {
    (now != before).then_some(now)
}

/// Where a partition says that its replica is.
pub(super) fn directory(partition: &Partition, id: i32) -> Option<Uuid> {
    let replica_index = partition.replicas.iter().position(|replica| *replica == id)?;
    // Partitions of old metadata have no directories.
    Some(partition.directories.get(replica_index).copied().unwrap_or(Uuid::ZERO))
}

/// The number of a directory id that names no directory.
pub(super) fn reserved(directory: Uuid) -> Option<u8> {
    let (number, rest) = directory.0.split_last()?;
    (rest.iter().all(|byte| *byte == 0) && *number < RESERVED_DIRECTORIES).then_some(*number)
}

/// A topic's setting, or else the broker's.
pub(super) fn allows_unclean_elections(context: &Context<'_>, topic: &Topic) -> bool {
    let own = context.image.topic_config(&topic.name).get("unclean.leader.election.enable");
    own.map_or(context.config.unclean_leader_election_enable, |value| value.eq_ignore_ascii_case("true"))
}

/// Whether what a topic's replicas acknowledge is on their disks.
pub(super) fn is_durable(context: &Context<'_>, topic: &Topic) -> bool {
    let own = context.image.topic_config(&topic.name).get("ack.durability");
    own.map_or(context.config.log_ack_durability == AckDurability::Disk, |value| value == "disk")
}

/// The least number of replicas in sync with which any of these could have acknowledged something.
pub(super) fn min_insync_replicas(context: &Context<'_>, topic: &Topic, replicas: &[i32]) -> usize {
    let set = |resource: &ConfigResource| -> Option<i32> {
        context.image.config(resource).get(MIN_INSYNC_REPLICAS)?.parse().ok()
    };
    let minimum = set(&ConfigResource::topic(&topic.name)).unwrap_or_else(|| {
        let everywhere = set(&ConfigResource::all_brokers());
        // What a broker was started with is not known elsewhere; the brokers of a cluster are started with the same.
        let here = match set(&ConfigResource::broker(context.config.node_id)) {
            Some(_) => 1,
            None => context.config.min_insync_replicas,
        };
        let of_broker = |id: &i32| set(&ConfigResource::broker(*id)).or(everywhere).unwrap_or(here);
        replicas.iter().map(of_broker).min().unwrap_or(here)
    });
    usize::try_from(minimum).unwrap_or(1).clamp(1, replicas.len().max(1))
}

/// Updates leader and ISR of each partition of these brokers, by the brokers as they are now.
pub(super) fn settle(context: &Context<'_>, ids: &[i32]) -> Vec<MetadataRecord> {
    let mut records = Vec::new();
    for topic in context.image.topics() {
        for (index, partition) in topic.partitions.iter().enumerate() {
            if partition.replicas.iter().any(|id| ids.contains(id)) {
                records.extend(Change::new(context, topic, index).record().map(MetadataRecord::from));
            }
        }
    }
    records
}

#[cfg(test)]
mod tests {
    use super::super::tests::{applied, brokers, on, partition, state, with_fenced, with_setting, with_topic};
    use super::*;
    use crate::image::MetadataImage;

    /// On brokers 1 to 5 of which some are fenced, with a partition of topic `t`.
    fn image(partition: Partition, fenced: &[i32], min_isr: &str) -> MetadataImage {
        let image = with_topic(&brokers(&[1, 2, 3, 4, 5]), &[partition]);
        with_fenced(&with_setting(&image, "min.insync.replicas", min_isr), fenced)
    }

    fn changed(
        image: &MetadataImage,
        ask: impl FnOnce(&mut Change<'_>),
    ) -> (Option<PartitionChangeRecord>, MetadataImage) {
        let record = on(image, |context| {
            let mut change = Change::new(context, context.image.topic("t").unwrap(), 0);
            ask(&mut change);
            change.record()
        });
        let after = record.iter().cloned().map(MetadataRecord::from).collect::<Vec<_>>();
        (record, applied(image, &after))
    }

    #[test]
    fn leaders_by_table() {
        // Before: ISR, ELR, leader, who is fenced, the least ISR. After: leader, ISR, ELR.
        for (isr, elr, leader, fenced, min_isr, expected) in [
            // The leader stays, whatever becomes of the others.
            (&[1, 2, 3][..], &[][..], 2, &[][..], "1", (2, &[1, 2, 3][..], &[][..])),
            (&[1, 2, 3], &[], 2, &[1], "1", (2, &[2, 3], &[])),
            (&[1, 2, 3], &[], 2, &[1, 3], "2", (2, &[2], &[3, 1])),
            (&[1, 2, 3], &[], 2, &[1, 3], "1", (2, &[2], &[])),
            // Then the first of the replicas, which are 3, 1, 2.
            (&[1, 2, 3], &[], 2, &[2], "1", (3, &[1, 3], &[])),
            (&[1, 2], &[], 2, &[2], "2", (1, &[1], &[2])),
            // Without an active one the ISR stays.
            (&[2], &[], 2, &[2], "1", (-1, &[2], &[])),
            (&[1, 2], &[], 2, &[1, 2, 3], "1", (-1, &[1, 2], &[])),
            // And comes back.
            (&[1, 2], &[], -1, &[1], "2", (2, &[2], &[1])),
            // A replica that left below the minimum can lead, unless the minimum is lower by now.
            (&[2], &[1, 3], 2, &[2], "2", (3, &[3], &[1, 2])),
            (&[2], &[1, 3], 2, &[2, 3], "2", (1, &[1], &[3, 2])),
            (&[2], &[1, 3], 2, &[2], "1", (-1, &[2], &[])),
            (&[2], &[3], 2, &[2, 3], "2", (-1, &[2], &[3])),
            // Enough are in sync again.
            (&[2, 1], &[3], 2, &[], "2", (2, &[2, 1], &[])),
            // The setting asks for more than there are.
            (&[2, 1, 3], &[], 2, &[1], "9", (2, &[2, 3], &[1])),
        ] {
            let before = Partition { eligible_leader_replicas: elr.to_vec(), ..partition(&[3, 1, 2], isr, leader) };
            let image = image(before, fenced, min_isr);
            let (record, after) = changed(&image, |_| {});
            let (new_leader, isr, elr) = state(&after, 0);
            assert_eq!((new_leader, &isr[..], &elr[..]), expected, "{record:?}");
            let epoch = after.partition("t", 0).unwrap().leader_epoch;
            assert_eq!(epoch, i32::from(new_leader != leader), "{record:?}");
            assert_eq!(changed(&after, |_| {}).0, None, "settled");
        }
    }

    #[test]
    fn unclean_elections_are_the_last_resort_and_say_so() {
        let image = image(partition(&[1, 2, 3], &[1], 1), &[1], "1");
        assert_eq!(state(&changed(&image, |_| {}).1, 0), (-1, vec![1], vec![]));
        let allowed = with_setting(&image, "unclean.leader.election.enable", "true");
        let (_, after) = changed(&allowed, |_| {});
        assert_eq!(state(&after, 0), (2, vec![2], vec![]));
        assert_eq!(after.partition("t", 0).unwrap().leader_recovery_state, RECOVERING);
        let (_, after) = changed(&image, |change| change.election = Election::Unclean);
        assert_eq!(state(&after, 0), (2, vec![2], vec![]));
        // The leader has recovered.
        let (_, after) = changed(&after, |change| change.leader_recovery_state = 0);
        let recovered = after.partition("t", 0).unwrap();
        assert_eq!((recovered.leader_recovery_state, recovered.leader_epoch), (0, 1));
    }

    #[test]
    fn without_its_disk_nobody_is_in_sync() {
        let image = image(partition(&[1, 2, 3], &[1], -1), &[2], "1");
        let wipe = |change: &mut Change<'_>| change.wiped = Some(1);
        let (_, after) = changed(&image, wipe);
        let partition = after.partition("t", 0).unwrap();
        assert_eq!((partition.leader, &partition.isr[..], &partition.last_known_elr[..]), (-1, &[][..], &[1][..]));
        assert_eq!(changed(&after, |_| {}).0, None, "nobody is elected by that");
        // Another one rather than it, if any.
        let (_, chosen) = changed(&after, |change| change.election = Election::Unclean);
        assert_eq!(state(&chosen, 0), (3, vec![3], vec![]));
        assert_eq!(chosen.partition("t", 0).unwrap().last_known_elr, []);
        let alone = with_fenced(&after, &[3]);
        assert_eq!(state(&changed(&alone, |change| change.election = Election::Unclean).1, 0).0, 1);
        // Not by what has wiped it.
        let allowed = with_setting(&with_fenced(&image, &[3]), "unclean.leader.election.enable", "true");
        assert_eq!(state(&changed(&allowed, wipe).1, 0), (-1, vec![], vec![]));
        // The eligible lead.
        let elr = Partition { eligible_leader_replicas: vec![2], ..super::super::tests::partition(&[1, 2], &[1], -1) };
        let image = self::image(elr, &[], "2");
        assert_eq!(state(&changed(&image, wipe).1, 0), (2, vec![2], vec![]));
    }

    #[test]
    fn preferred_leaders_lead_if_they_can() {
        let prefer = |change: &mut Change<'_>| change.election = Election::Preferred;
        for (isr, fenced, leader) in [(&[1, 2, 3][..], &[][..], 1), (&[2, 3], &[], 2), (&[2, 3], &[2], 3)] {
            let image = image(partition(&[1, 2, 3], isr, 2), fenced, "1");
            assert_eq!(state(&changed(&image, prefer).1, 0).0, leader);
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_as_good_as_no_broker() {
        let before = partition(&[1, 2], &[1, 2], 1);
        for (directory, leader) in [
            (Uuid([101; 16]), 1),
            (Uuid([7; 16]), 2),
            (Uuid::ZERO, 1),
            (Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, LOST_DIRECTORY]), 2),
        ] {
            let before = Partition { directories: vec![directory, Uuid([102; 16])], ..before.clone() };
            assert_eq!(state(&changed(&image(before, &[], "1"), |_| {}).1, 0).0, leader, "{directory}");
        }
    }

    #[test]
    fn replicas_that_go_are_a_new_leader_epoch_and_those_that_come_are_not() {
        let image = image(partition(&[1, 2], &[1, 2], 1), &[], "1");
        let (record, after) = changed(&image, |change| change.replicas = vec![1, 2, 3]);
        assert_eq!(record.unwrap().leader, LEADER_UNCHANGED);
        assert_eq!(after.partition("t", 0).unwrap().directories[2], Uuid([103; 16]));
        let (record, after) = changed(&after, |change| change.replicas = vec![1, 2]);
        assert_eq!(record.unwrap().leader, 1);
        assert_eq!(after.partition("t", 0).unwrap().directories.len(), 2);
    }

    #[test]
    fn the_least_isr_is_the_least_of_what_any_leader_goes_by() {
        let set = |image: &MetadataImage, resource: ConfigResource, value: &str| {
            applied(image, &[resource.to_record(MIN_INSYNC_REPLICAS, Some(&value.to_owned())).into()])
        };
        let least = |image: &MetadataImage| {
            on(image, |context| min_insync_replicas(context, context.image.topic("t").unwrap(), &[2, 3, 4]))
        };
        let image = with_topic(&brokers(&[1, 2, 3, 4]), &[partition(&[2, 3, 4], &[2], 2)]);
        assert_eq!(least(&image), 1);
        let everywhere = set(&image, ConfigResource::all_brokers(), "3");
        assert_eq!(least(&everywhere), 3);
        let one_less = set(&everywhere, ConfigResource::broker(3), "2");
        assert_eq!(least(&one_less), 2);
        assert_eq!(least(&set(&one_less, ConfigResource::topic("t"), "9")), 3);
    }
}
