//! What truncations make of a recovery point: the owner's file may have one from before.
//!
//! The recovery point says that all below it is on disk. After a truncation the log may end far below, and what is
//! appended there next is not on disk, whatever the file says until it is written again. So a truncation notes from
//! where up to where a recovery point is in doubt, durably and before anything is cut. The opening of the log believes
//! such a recovery point only as far as the truncation left the log.
//!
//! The file `truncation-checkpoint` in the log's directory has the form of Kafka's checkpoints. Kafka has no such file:
//! it writes all recovery points of the data directory anew for each truncation.

use std::io;
use std::path::Path;

use crate::checkpoint::{CheckpointError, read_lines, write_lines};
use crate::disk::Disk;
use crate::names::TRUNCATION_CHECKPOINT;

/// Beyond, the two oldest become one.
const DOUBTS_MAX: usize = 16;

/// Recovery points above `from`, up to `to`, may be from before a truncation to `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Doubt {
    from: i64,
    to: i64,
}

impl Doubt {
    fn casts_on(self, recovery_point: i64) -> bool {
        self.from < recovery_point && recovery_point <= self.to
    }

    /// Also where one ends at the other's start: what the one takes a recovery point back to, the other is in doubt of.
    fn touches(self, other: Self) -> bool {
        self.from <= other.to && other.from <= self.to
    }

    fn with(self, other: Self) -> Self {
        Self { from: self.from.min(other.from), to: self.to.max(other.to) }
    }
}

/// The doubts about one log's recovery point, oldest first, no two of them touching.
#[derive(Debug, Default)]
pub(crate) struct Truncations {
    doubts: Vec<Doubt>,
}

impl Truncations {
    /// Reads the file. A garbage one casts doubt on everything, which costs time.
    pub(crate) fn load(disk: &dyn Disk, dir: &Path) -> io::Result<Self> {
        let parse = |line: &str| {
            let (from, to) = line.trim().split_once(' ')?;
            let doubt = Doubt { from: from.parse().ok()?, to: to.parse().ok()? };
            (doubt.from >= 0 && doubt.from < doubt.to).then_some(doubt)
        };
        match read_lines(disk, &dir.join(TRUNCATION_CHECKPOINT), parse) {
            Ok(doubts) => Ok(Self { doubts: doubts.unwrap_or_default() }),
            Err(CheckpointError::Garbage { .. }) => Ok(Self { doubts: vec![Doubt { from: 0, to: i64::MAX }] }),
            Err(CheckpointError::Io(error)) => Err(error),
        }
    }

    /// As far as the owner's recovery point may be believed.
    pub(crate) fn believed(&self, recovery_point: i64) -> i64 {
        let in_doubt = self.doubts.iter().filter(|doubt| doubt.casts_on(recovery_point));
        in_doubt.map(|doubt| doubt.from).min().unwrap_or(recovery_point)
    }

    /// [`Self::believed`] at the opening of the log. Doubts that the recovery point has passed are forgotten: it goes
    /// back by further truncations only. One that is below may come to be in doubt, whoever wrote it.
    pub(crate) fn believe(&mut self, recovery_point: i64) -> i64 {
        self.doubts.retain(|doubt| recovery_point <= doubt.to);
        self.believed(recovery_point)
    }

    /// Notes, durably, that the log is about to be cut to `from`, where all up to `to` was on disk.
    pub(crate) fn note(&mut self, disk: &dyn Disk, dir: &Path, from: i64, to: i64) -> io::Result<()> {
        let mut doubt = Doubt { from, to };
        self.doubts.retain(|known| {
            let touches = known.touches(doubt);
            if touches {
                doubt = doubt.with(*known);
            }
            !touches
        });
        if self.doubts.len() == DOUBTS_MAX {
            let oldest = self.doubts.remove(0);
            self.doubts[0] = self.doubts[0].with(oldest);
        }
        self.doubts.push(doubt);
        let lines = self.doubts.iter().map(|doubt| format!("{} {}", doubt.from, doubt.to));
        write_lines(disk, &dir.join(TRUNCATION_CHECKPOINT), lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{read_file, replace_file};
    use crate::simdisk::SimDisk;

    const DIR: &str = "/";

    fn noted(truncations: &[(i64, i64)]) -> SimDisk {
        let disk = SimDisk::new(1);
        let mut noted = Truncations::default();
        for &(from, to) in truncations {
            noted.note(&disk, Path::new(DIR), from, to).unwrap();
        }
        disk
    }

    fn believed(disk: &SimDisk, recovery_point: i64) -> i64 {
        Truncations::load(disk, Path::new(DIR)).unwrap().believed(recovery_point)
    }

    #[test]
    fn a_recovery_point_from_before_a_truncation_is_not_believed() {
        let disk = noted(&[(300, 900), (2000, 2500)]);
        for (claimed, expected) in
            [(0, 0), (300, 300), (301, 300), (900, 300), (901, 901), (2000, 2000), (2400, 2000), (9000, 9000)]
        {
            assert_eq!(believed(&disk, claimed), expected, "{claimed}");
        }
        assert_eq!(believed(&SimDisk::new(1), 7), 7, "without truncations");
    }

    #[test]
    fn a_truncation_that_the_owner_has_seen_is_forgotten() {
        let disk = noted(&[(300, 900), (2000, 2500)]);
        let mut truncations = Truncations::load(&disk, Path::new(DIR)).unwrap();
        assert_eq!(truncations.believe(2300), 2000);
        truncations.note(&disk, Path::new(DIR), 5000, 6000).unwrap();
        let path = Path::new(DIR).join(TRUNCATION_CHECKPOINT);
        assert_eq!(read_file(&disk, &path, 99).unwrap(), b"0\n2\n2000 2500\n5000 6000\n");
    }

    #[test]
    fn truncations_that_touch_are_one() {
        assert_eq!(believed(&noted(&[(43, 49), (37, 43)]), 49), 37);
        let disk = noted(&[(300, 900), (1000, 1100), (200, 1050)]);
        assert_eq!(believed(&disk, 1100), 200);
        assert_eq!(believed(&disk, 1101), 1101);
        // The first of the two is not forgotten when the log is cut farther behind.
        assert_eq!(believed(&noted(&[(300, 900), (1000, 1100)]), 900), 300);
    }

    #[test]
    fn many_truncations_take_little_room_and_none_is_lost() {
        let many: Vec<_> = (0..100).map(|n| (n * 100, n * 100 + 50)).collect();
        let disk = noted(&many);
        let path = Path::new(DIR).join(TRUNCATION_CHECKPOINT);
        assert!(read_file(&disk, &path, 4096).unwrap().len() < 400);
        for (from, to) in many {
            assert!(believed(&disk, to) <= from);
        }
    }

    #[test]
    fn garbage_casts_doubt_on_everything() {
        let disk = SimDisk::new(1);
        let path = Path::new(DIR).join(TRUNCATION_CHECKPOINT);
        for garbage in [&b"junk"[..], b"0\n1\n5 3\n", b"0\n1\n-1 3\n", b"0\n1\n3\n", b""] {
            replace_file(&disk, &path, garbage).unwrap();
            assert_eq!(believed(&disk, 900), 0);
        }
    }
}
