//! How partitions are, by the definitions of Kafka's tools (`TopicCommand.PartitionDescription`).

/// What is known of one partition.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Placement<'a> {
    pub(crate) leader: Option<i32>,
    pub(crate) replicas: &'a [i32],
    pub(crate) isr: &'a [i32],
    /// Replicas that a reassignment adds: they are expected to be behind.
    pub(crate) adding: &'a [i32],
    /// `min.insync.replicas` of its topic.
    pub(crate) min_in_sync: usize,
}

impl Placement<'_> {
    pub(crate) fn is_under_replicated(&self) -> bool {
        self.isr.len() + self.adding.len() < self.replicas.len()
    }

    pub(crate) fn is_under_min_isr(&self) -> bool {
        self.leader.is_none() || self.isr.len() < self.min_in_sync
    }

    pub(crate) fn is_at_min_isr(&self) -> bool {
        self.isr.len() == self.min_in_sync
    }

    /// Nobody leads it, or a broker that is not there.
    pub(crate) fn is_unavailable(&self, is_live: impl Fn(i32) -> bool) -> bool {
        !self.leader.is_some_and(is_live)
    }

    /// Whether another one leads it than the first of its replicas.
    pub(crate) fn is_led_by_another(&self) -> bool {
        self.leader.is_some() && self.leader != self.replicas.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_kafkas() {
        let well = Placement { leader: Some(1), replicas: &[1, 2, 3], isr: &[3, 1, 2], adding: &[], min_in_sync: 2 };
        assert!(!well.is_under_replicated() && !well.is_under_min_isr() && !well.is_at_min_isr());
        assert!(!well.is_unavailable(|id| id == 1) && well.is_unavailable(|id| id == 2));
        assert!(!well.is_led_by_another());

        let behind = Placement { leader: Some(2), isr: &[1, 2], ..well };
        assert!(behind.is_under_replicated() && !behind.is_under_min_isr() && behind.is_at_min_isr());
        assert!(behind.is_led_by_another());
        assert!(!Placement { adding: &[3], ..behind }.is_under_replicated());

        let alone = Placement { isr: &[2], ..behind };
        assert!(alone.is_under_min_isr() && !alone.is_at_min_isr());
        // Without a leader none of the ISR takes anything, however many there are.
        let offline = Placement { leader: None, ..well };
        assert!(offline.is_under_min_isr() && offline.is_unavailable(|_| true) && !offline.is_led_by_another());
    }
}
