//! Moving a group that is not running to other offsets: first what would be done, then doing it.

use std::collections::{BTreeMap, BTreeSet};

use wire::ErrorCode;

use crate::{Client, ClientError, EARLIEST, Group, LATEST, TopicPartition};

/// Where to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetTarget {
    Earliest,
    Latest,
    /// The offset that the group has; the end where it has none.
    Current,
    Offset(i64),
    /// The first record at or after this time in milliseconds since 1970; the end where none is that young.
    Time(i64),
    /// Forward by so many records, backward if negative.
    Shift(i64),
}

/// What a reset does to one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetMove {
    /// `None` where the group has no offset.
    pub from: Option<i64>,
    pub to: i64,
}

/// What is known of one partition.
#[derive(Clone, Copy, Debug)]
struct Known {
    start: i64,
    end: i64,
    committed: Option<i64>,
    /// Of the first record at or after the time that was asked for.
    at_time: Option<i64>,
}

impl Client {
    /// What a reset of these partitions would do, or of all of which the group has offsets. An offset beyond the start
    /// or the end of a partition becomes the start or the end. The group must have no members; one that does not exist
    /// may be given offsets to start from, as with Kafka's tool.
    pub async fn plan_offset_reset(
        &self,
        group: &str,
        target: ResetTarget,
        partitions: Option<&BTreeSet<TopicPartition>>,
    ) -> Result<BTreeMap<TopicPartition, OffsetMove>, ClientError> {
        self.check_unused(group).await?;
        let committed = Group::new(self.clone(), group).committed().await?;
        let of_group;
        let partitions = match partitions {
            Some(partitions) => partitions,
            None => {
                of_group = committed.keys().cloned().collect();
                &of_group
            }
        };
        let starts = self.offsets_at(partitions, EARLIEST).await?;
        let ends = self.offsets_at(partitions, LATEST).await?;
        let at_time = match target {
            ResetTarget::Time(timestamp_ms) => self.offsets_at(partitions, timestamp_ms).await?,
            _ => BTreeMap::new(),
        };
        let mut plan = BTreeMap::new();
        for partition in partitions {
            let known = Known {
                start: starts[partition],
                end: ends[partition],
                committed: committed.get(partition).map(|committed| committed.offset),
                at_time: at_time.get(partition).copied().filter(|offset| *offset >= 0),
            };
            let to = target.offset(&known).ok_or_else(|| ClientError::NothingToShift(partition.clone()))?;
            plan.insert(partition.clone(), OffsetMove { from: known.committed, to });
        }
        Ok(plan)
    }

    /// Carries out what [`Client::plan_offset_reset`] has found.
    pub async fn reset_offsets(
        &self,
        group: &str,
        plan: &BTreeMap<TopicPartition, OffsetMove>,
    ) -> Result<(), ClientError> {
        let offsets = plan.iter().map(|(partition, moved)| (partition.clone(), moved.to)).collect();
        self.alter_committed_offsets(group, &offsets).await
    }

    async fn check_unused(&self, group: &str) -> Result<(), ClientError> {
        for (group, described) in self.describe_groups(&[group.to_owned()]).await {
            match described {
                Ok(described) if described.state == "Empty" || described.state == "Dead" => {}
                Ok(described) => return Err(ClientError::GroupInUse { group, state: described.state }),
                Err(error) if error.code() == Some(ErrorCode::GROUP_ID_NOT_FOUND) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn offsets_at(
        &self,
        partitions: &BTreeSet<TopicPartition>,
        timestamp_ms: i64,
    ) -> Result<BTreeMap<TopicPartition, i64>, ClientError> {
        let wanted = partitions.iter().map(|partition| (partition.clone(), timestamp_ms)).collect();
        let found = self.list_offsets(&wanted).await?;
        Ok(found.into_iter().map(|(partition, listed)| (partition, listed.offset)).collect())
    }
}

impl ResetTarget {
    /// `None` where there is nothing to shift.
    fn offset(self, known: &Known) -> Option<i64> {
        let wanted = match self {
            Self::Earliest => known.start,
            Self::Latest => known.end,
            Self::Current => known.committed.unwrap_or(known.end),
            Self::Offset(offset) => offset,
            Self::Time(_) => known.at_time.unwrap_or(known.end),
            Self::Shift(shift) => known.committed?.saturating_add(shift),
        };
        Some(wanted.clamp(known.start, known.end.max(known.start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_stay_within_the_partition() {
        let known = Known { start: 10, end: 50, committed: Some(30), at_time: Some(40) };
        let to = |target: ResetTarget| target.offset(&known);
        assert_eq!(to(ResetTarget::Earliest), Some(10));
        assert_eq!(to(ResetTarget::Latest), Some(50));
        assert_eq!(to(ResetTarget::Current), Some(30));
        assert_eq!([7, 20, 99].map(|offset| to(ResetTarget::Offset(offset))), [Some(10), Some(20), Some(50)]);
        assert_eq!(to(ResetTarget::Time(0)), Some(40));
        assert_eq!([-5, -99, i64::MAX].map(|shift| to(ResetTarget::Shift(shift))), [Some(25), Some(10), Some(50)]);
    }

    #[test]
    fn a_group_without_offsets_starts_at_the_end_and_cannot_be_shifted() {
        let known = Known { start: 10, end: 50, committed: None, at_time: None };
        assert_eq!(ResetTarget::Current.offset(&known), Some(50));
        assert_eq!(ResetTarget::Time(0).offset(&known), Some(50));
        assert_eq!(ResetTarget::Shift(1).offset(&known), None);
    }
}
