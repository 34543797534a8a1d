//! How long a peer may take for a transfer: a frame that arrives, an answer that leaves.

use std::time::Duration;

use tokio::time::Instant;

/// A peer that moves fewer bytes in a second uses up its time.
const BYTES_PER_SECOND_MIN: u32 = 16 * 1024;

/// The deadline of a transfer. It grows with the bytes that move, not with claimed sizes.
#[derive(Clone, Copy, Debug)]
pub struct TransferDeadline {
    full: Duration,
    until: Instant,
    moved: Instant,
}

impl TransferDeadline {
    pub fn new(full: Duration, now: Instant) -> Self {
        Self { full, until: now + full, moved: now }
    }

    pub fn extend(&mut self, bytes: usize, now: Instant) {
        let earned = Duration::from_secs(bytes as u64) / BYTES_PER_SECOND_MIN;
        self.until = (self.until + earned).min(now + self.full);
        self.moved = now;
    }

    /// When it ends.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// When bytes moved last.
    pub fn moved(&self) -> Instant {
        self.moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Duration = Duration::from_secs(10);

    #[test]
    fn a_fast_peer_has_all_of_it_and_no_more() {
        let now = Instant::now();
        let mut transfer = TransferDeadline::new(FULL, now);
        let later = now + Duration::from_secs(5);
        transfer.extend(95 << 20, later);
        assert_eq!(transfer.until(), later + FULL);
    }

    #[test]
    fn a_trickle_uses_it_up() {
        let mut now = Instant::now();
        let mut transfer = TransferDeadline::new(FULL, now);
        let began = now;
        while now < transfer.until() && now < began + FULL * 2 {
            now += Duration::from_secs(1);
            transfer.extend(100, now);
        }
        assert!(now < began + FULL * 2);
    }

    #[test]
    fn a_slow_line_is_fast_enough() {
        let mut now = Instant::now();
        let mut transfer = TransferDeadline::new(FULL, now);
        for _ in 0..1000 {
            now += Duration::from_secs(1);
            transfer.extend(20_000, now);
            assert!(transfer.until() > now);
        }
    }
}
