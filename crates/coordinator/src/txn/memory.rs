//! The memory that transactional ids take, and the addresses that caused it.
//!
//! No client takes all of it: one address takes a quarter at most, and transactions of many partitions leave a quarter
//! to ids and small transactions. An id and its transaction count for the address that created the id, as far as this
//! process knows.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// What a new id or an ordinary transaction takes at most. It may use all of a bound.
const SMALL_BYTES_MAX: usize = 8 * 1024;

/// The memory of all ids, as it was counted.
pub(super) struct Memory {
    max_bytes: usize,
    used_bytes: AtomicUsize,
    /// Addresses that have any.
    shares: Mutex<HashMap<IpAddr, usize>>,
}

impl Memory {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, used_bytes: AtomicUsize::new(0), shares: Mutex::default() }
    }

    pub(super) fn bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Whether a client may take so much more.
    pub(super) fn has_room(&self, address: Option<IpAddr>, bytes: usize) -> bool {
        let share = address.and_then(|address| self.shares.lock().get(&address).copied()).unwrap_or(0);
        fits(self.bytes(), bytes, self.max_bytes) && fits(share, bytes, self.max_bytes / 4)
    }

    /// Counts more memory, or less.
    pub(super) fn grow(&self, address: Option<IpAddr>, bytes: isize) {
        if bytes == 0 {
            return;
        }
        self.used_bytes.fetch_add(bytes as usize, Ordering::Relaxed);
        let Some(address) = address else { return };
        let mut shares = self.shares.lock();
        let share = shares.entry(address).or_default();
        *share = share.saturating_add_signed(bytes);
        if *share == 0 {
            shares.remove(&address);
        }
    }
}

/// Whether something fits when so much is used of a bound, and leaves a reserve to smaller things.
fn fits(used: usize, bytes: usize, max_bytes: usize) -> bool {
    used + bytes <= if bytes <= SMALL_BYTES_MAX { max_bytes } else { max_bytes / 4 * 3 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 64 << 20;

    fn address(n: u32) -> Option<IpAddr> {
        Some(IpAddr::V4(n.into()))
    }

    /// Takes memory until none is left. Returns how much.
    fn fill(memory: &Memory, address: Option<IpAddr>, bytes: usize) -> usize {
        let mut taken = 0;
        while memory.has_room(address, bytes) {
            memory.grow(address, bytes as isize);
            taken += bytes;
        }
        taken
    }

    #[test]
    fn one_address_leaves_room_for_others_and_what_is_large_for_what_is_small() {
        let memory = Memory::new(MAX);
        assert_eq!(fill(&memory, address(1), 1 << 20), MAX / 16 * 3);
        assert_eq!(fill(&memory, address(1), 1 << 10), MAX / 16);
        assert!(memory.has_room(address(2), 1 << 20));
        let rest: usize = (2..20).map(|n| fill(&memory, address(n), 1 << 10)).sum();
        assert_eq!((rest, memory.bytes()), (MAX / 4 * 3, MAX));
        assert!(!memory.has_room(None, 1));
    }

    #[test]
    fn what_is_given_back_is_free_again() {
        let memory = Memory::new(MAX);
        let taken = fill(&memory, address(1), 1 << 10);
        memory.grow(address(1), -(taken as isize));
        assert_eq!(memory.bytes(), 0);
        assert!(memory.shares.lock().is_empty());
        assert_eq!(fill(&memory, address(1), 1 << 10), taken);
    }
}
