//! The memory that groups take, and the addresses that caused it.
//!
//! No client takes all of it. Members and offsets leave each other a quarter; one address takes a quarter at most, and
//! one group an eighth. Of each bound, large things take less than small ones: what an ordinary consumer joins and
//! commits with still fits when another client has filled all that members of a megabyte can fill.
//!
//! A member counts for its client's address; a group and its offsets count for the address that created it, as far as
//! this process knows.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// What an ordinary member or offset takes at most. It may use all of a bound.
const SMALL_BYTES_MAX: usize = 8 * 1024;
/// Up to this size three quarters of a bound may be used, and beyond it a half.
const MEDIUM_BYTES_MAX: usize = 64 * 1024;

/// What the memory is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Members,
    /// Groups and their offsets.
    Offsets,
}

/// The memory of all groups, as it was counted.
pub(super) struct Memory {
    max_bytes: usize,
    members: AtomicUsize,
    offsets: AtomicUsize,
    /// Addresses that have any.
    shares: Mutex<HashMap<IpAddr, usize>>,
}

impl Memory {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, members: AtomicUsize::new(0), offsets: AtomicUsize::new(0), shares: Mutex::default() }
    }

    /// What all groups take.
    pub(super) fn bytes(&self) -> usize {
        self.used(Use::Members) + self.used(Use::Offsets)
    }

    fn used(&self, of: Use) -> usize {
        match of {
            Use::Members => self.members.load(Ordering::Relaxed),
            Use::Offsets => self.offsets.load(Ordering::Relaxed),
        }
    }

    /// Whether a client may take so much more.
    pub(super) fn has_room(&self, address: IpAddr, of: Use, bytes: usize) -> bool {
        let share = self.shares.lock().get(&address).copied().unwrap_or(0);
        fits(self.bytes(), bytes, self.max_bytes)
            && fits(self.used(of), bytes, self.max_bytes / 4 * 3)
            && fits(share, bytes, self.max_bytes / 4)
    }

    /// Whether a group that takes so much may take so much more.
    pub(super) fn has_room_in_group(&self, group_bytes: usize, bytes: usize) -> bool {
        group_bytes + bytes <= self.max_bytes / 8
    }

    /// Counts more memory, or less.
    pub(super) fn grow(&self, address: Option<IpAddr>, of: Use, bytes: isize) {
        if bytes == 0 {
            return;
        }
        let used = match of {
            Use::Members => &self.members,
            Use::Offsets => &self.offsets,
        };
        used.fetch_add(bytes as usize, Ordering::Relaxed);
        let Some(address) = address else { return };
        let mut shares = self.shares.lock();
        let share = shares.entry(address).or_default();
        *share = share.saturating_add_signed(bytes);
        if *share == 0 {
            shares.remove(&address);
        }
    }

    #[cfg(test)]
    pub(super) fn share(&self, address: IpAddr) -> usize {
        self.shares.lock().get(&address).copied().unwrap_or(0)
    }
}

/// Whether something fits when so much is used of a bound, and leaves a reserve to smaller things.
fn fits(used: usize, bytes: usize, max_bytes: usize) -> bool {
    let max_bytes = if bytes <= SMALL_BYTES_MAX {
        max_bytes
    } else if bytes <= MEDIUM_BYTES_MAX {
        max_bytes / 4 * 3
    } else {
        max_bytes / 2
    };
    used + bytes <= max_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 256 << 20;

    fn address(n: u32) -> IpAddr {
        IpAddr::V4(n.into())
    }

    /// Takes memory until none is left. Returns how much.
    fn fill(memory: &Memory, n: u32, of: Use, bytes: usize) -> usize {
        let mut taken = 0;
        while memory.has_room(address(n), of, bytes) {
            memory.grow(Some(address(n)), of, bytes as isize);
            taken += bytes;
        }
        taken
    }

    #[test]
    fn one_address_leaves_room_for_others_and_what_is_large_for_what_is_small() {
        let memory = Memory::new(MAX);
        assert_eq!(fill(&memory, 1, Use::Members, 1 << 20), MAX / 8);
        assert_eq!(fill(&memory, 1, Use::Members, 32 << 10), MAX / 16);
        assert_eq!(fill(&memory, 1, Use::Members, 1 << 10), MAX / 16);
        assert!(!memory.has_room(address(1), Use::Offsets, 1 << 10));
        assert!(memory.has_room(address(2), Use::Offsets, 1 << 10));
        assert!(memory.has_room(address(2), Use::Members, 1 << 20));
    }

    #[test]
    fn members_and_offsets_leave_each_other_a_quarter() {
        for (of, other) in [(Use::Members, Use::Offsets), (Use::Offsets, Use::Members)] {
            let memory = Memory::new(MAX);
            let taken: usize = (0..100).map(|n| fill(&memory, n, of, 1 << 10)).sum();
            assert_eq!(taken, MAX / 4 * 3);
            let rest: usize = (100..200).map(|n| fill(&memory, n, other, 1 << 10)).sum();
            assert_eq!((rest, memory.bytes()), (MAX / 4, MAX));
        }
    }

    #[test]
    fn what_is_given_back_is_free_again() {
        let memory = Memory::new(MAX);
        let taken = fill(&memory, 1, Use::Members, 1 << 10);
        memory.grow(Some(address(1)), Use::Members, -(taken as isize));
        assert_eq!((memory.bytes(), memory.share(address(1))), (0, 0));
        assert!(memory.shares.lock().is_empty());
        assert_eq!(fill(&memory, 1, Use::Members, 1 << 10), taken);
    }
}
