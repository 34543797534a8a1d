//! Which brokers get the replicas of new partitions (`StripedReplicaPlacer`).
//!
//! Leaders go round the racks and round the brokers of each rack; the other replicas of a partition go to the racks
//! that follow. Brokers that are fenced come last and never lead. When every broker has led once, the order is
//! shuffled, so that the same sets of brokers do not come again.

use std::collections::BTreeMap;

use super::image::{MetadataImage, RegisteredBroker};

/// Why replicas cannot be placed, in Kafka's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PlacementError {
    #[error("Invalid replication factor {0}: the replication factor must be positive.")]
    NotPositive(i16),
    #[error("All brokers are currently fenced.")]
    AllFenced,
    #[error(
        "The target replication factor of {wanted} cannot be reached because only {registered} broker(s) are \
         registered."
    )]
    TooFewBrokers { wanted: i16, registered: usize },
}

/// Random numbers that are the same for the same seed.
pub(super) struct Shuffler(u64);

impl Shuffler {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        // Xorshift: any spread will do.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i + 1));
        }
    }
}

/// Brokers that are given out in turn, each once per round.
#[derive(Default)]
struct Ring {
    brokers: Vec<i32>,
    given: usize,
    offset: usize,
    round: usize,
}

impl Ring {
    fn next(&mut self, round: usize) -> Option<i32> {
        if self.brokers.is_empty() {
            return None;
        }
        if self.round != round {
            self.round = round;
            self.given = 0;
            self.offset = (self.offset + 1) % self.brokers.len();
        }
        let broker =
            (self.given < self.brokers.len()).then(|| self.brokers[(self.given + self.offset) % self.brokers.len()])?;
        self.given += 1;
        Some(broker)
    }
}

#[derive(Default)]
struct Rack {
    active: Ring,
    fenced: Ring,
}

/// Replicas of each of `partitions` new partitions; the first leads.
pub(super) fn place(
    image: &MetadataImage,
    partitions: usize,
    replication_factor: i16,
    random: &mut Shuffler,
) -> Result<Vec<Vec<i32>>, PlacementError> {
    let usable: Vec<&RegisteredBroker> = image.brokers().filter(|broker| !broker.in_controlled_shutdown).collect();
    let active_count = usable.iter().filter(|broker| !broker.fenced).count();
    let replicas = match usize::try_from(replication_factor) {
        Ok(0) | Err(_) => return Err(PlacementError::NotPositive(replication_factor)),
        _ if active_count == 0 => return Err(PlacementError::AllFenced),
        Ok(replicas) if replicas > usable.len() => {
            return Err(PlacementError::TooFewBrokers { wanted: replication_factor, registered: usable.len() });
        }
        Ok(replicas) => replicas,
    };
    let mut by_rack: BTreeMap<Option<&str>, Rack> = BTreeMap::new();
    for broker in usable {
        let rack = by_rack.entry(broker.rack.as_deref()).or_default();
        let ring = if broker.fenced { &mut rack.fenced } else { &mut rack.active };
        ring.brokers.push(broker.id);
    }
    let mut racks: Vec<Rack> = by_rack.into_values().collect();
    for ring in racks.iter_mut().flat_map(|rack| [&mut rack.active, &mut rack.fenced]) {
        ring.offset = random.below(ring.brokers.len().max(1));
    }
    let mut offset = random.below(racks.len());
    let mut round = 0;
    let mut placed = Vec::with_capacity(partitions);
    for _ in 0..partitions {
        if round == active_count && active_count > 1 {
            random.shuffle(&mut racks);
            for rack in &mut racks {
                random.shuffle(&mut rack.active.brokers);
                random.shuffle(&mut rack.fenced.brokers);
            }
            round = 0;
        }
        offset %= racks.len();
        placed.push(place_one(&mut racks, offset, round, replicas));
        round += 1;
        offset += 1;
    }
    Ok(placed)
}

fn place_one(racks: &mut [Rack], first_rack: usize, round: usize, replicas: usize) -> Vec<i32> {
    let count = racks.len();
    let mut chosen = Vec::with_capacity(replicas);
    // There is an active broker in some rack, and every ring starts anew with the round.
    let leader = (0..count).map(|step| (first_rack + step) % count).find_map(|at| {
        let broker = racks[at].active.next(round)?;
        Some((at, broker))
    });
    let Some((leader_rack, leader)) = leader else { return chosen };
    chosen.push(leader);
    // Each rack in turn gives one; the leader's has given its own for the first turn.
    let mut skip = Some(leader_rack);
    let mut rack = first_rack;
    while chosen.len() < replicas {
        if skip == Some(rack) {
            skip = None;
        } else if let Some(broker) = racks[rack].active.next(round).or_else(|| racks[rack].fenced.next(round)) {
            chosen.push(broker);
        }
        rack = (rack + 1) % count;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use wire::Uuid;

    use super::*;

    fn image(brokers: &[(i32, Option<&str>, bool)]) -> MetadataImage {
        let brokers = brokers.iter().map(|(id, rack, fenced)| {
            let broker = RegisteredBroker {
                id: *id,
                epoch: 0,
                incarnation_id: Uuid::ZERO,
                endpoints: Vec::new(),
                features: BTreeMap::new(),
                rack: rack.map(str::to_owned),
                fenced: *fenced,
                in_controlled_shutdown: false,
                log_dirs: Vec::new(),
                cordoned_directories: Vec::new(),
            };
            (*id, broker)
        });
        MetadataImage { brokers: Arc::new(brokers.collect()), ..MetadataImage::default() }
    }

    fn check(image: &MetadataImage, partitions: usize, replicas: i16, seed: u64) -> Vec<Vec<i32>> {
        let placed = place(image, partitions, replicas, &mut Shuffler::new(seed)).unwrap();
        assert_eq!(placed.len(), partitions);
        for brokers in &placed {
            assert_eq!(brokers.len(), replicas as usize);
            assert_eq!(brokers.iter().collect::<BTreeSet<_>>().len(), brokers.len(), "{brokers:?}");
            assert!(!image.broker(brokers[0]).unwrap().fenced);
        }
        placed
    }

    #[test]
    fn one_broker_leads_all() {
        assert_eq!(check(&image(&[(7, None, false)]), 5, 1, 3), vec![vec![7]; 5]);
    }

    #[test]
    fn leaders_are_spread_and_fenced_brokers_never_lead() {
        let image = image(&[(0, None, false), (1, None, false), (2, None, false), (3, None, true)]);
        for seed in 0..200 {
            let placed = check(&image, 30, 3, seed);
            for leader in 0..3 {
                assert_eq!(placed.iter().filter(|brokers| brokers[0] == leader).count(), 10);
            }
            check(&image, 30, 4, seed);
        }
    }

    #[test]
    fn replicas_are_spread_over_racks() {
        let rack = |n: i32| Some(["a", "b", "c"][n as usize % 3]);
        let image = image(&(0..9).map(|n| (n, rack(n), false)).collect::<Vec<_>>());
        for seed in 0..200 {
            for brokers in check(&image, 27, 3, seed) {
                assert_eq!(brokers.iter().map(|n| n % 3).collect::<BTreeSet<_>>().len(), 3, "{brokers:?}");
            }
        }
    }

    #[test]
    fn refuses_in_kafkas_words() {
        let none = |brokers: &[(i32, Option<&str>, bool)], factor| {
            place(&image(brokers), 1, factor, &mut Shuffler::new(1)).unwrap_err().to_string()
        };
        assert_eq!(
            none(&[(1, None, false)], 3),
            "The target replication factor of 3 cannot be reached because only 1 broker(s) are registered."
        );
        assert_eq!(none(&[(1, None, true)], 1), "All brokers are currently fenced.");
        assert_eq!(none(&[], 0), "Invalid replication factor 0: the replication factor must be positive.");
    }
}
