//! A file: what processes see of it, and what is on the platter.

use std::collections::BTreeSet;

use super::{PAGE_BYTES, Rng};

#[derive(Default)]
pub(super) struct Inode {
    /// As processes see it.
    pub(super) live: Vec<u8>,
    /// As it is on the platter.
    pub(super) durable: Vec<u8>,
    pub(super) dirty: BTreeSet<usize>,
    /// Pages that could not be written. The system calls them clean, and as long as it has them what is written to them
    /// does not get to the platter either: ext4 takes their blocks for written.
    pub(super) stuck: BTreeSet<usize>,
    /// That could not be written, and nobody has been told.
    pub(super) has_untold_error: bool,
    /// Pages that are on the platter and not in the page cache.
    pub(super) evicted: BTreeSet<usize>,
    /// Up to where space is allocated, if that is behind the end.
    pub(super) allocated: u64,
}

impl Inode {
    pub(super) fn held_bytes(&self) -> u64 {
        self.allocated.max(self.live.len() as u64)
    }

    pub(super) fn read(&self, buffer: &mut [u8], position: usize) -> usize {
        let start = position.min(self.live.len());
        let n = buffer.len().min(self.live.len() - start);
        buffer[..n].copy_from_slice(&self.live[start..start + n]);
        n
    }

    pub(super) fn set_len(&mut self, len: usize) {
        self.allocated = 0;
        let old = self.live.len();
        self.live.resize(len, 0);
        // The page at the new end is changed by the cut; growing makes pages of zeros.
        self.dirty.retain(|page| page * PAGE_BYTES < len);
        self.stuck.retain(|page| page * PAGE_BYTES < len);
        if len > old {
            self.dirty.extend(old / PAGE_BYTES..=(len - 1) / PAGE_BYTES);
        } else if len > 0 {
            self.dirty.insert((len - 1) / PAGE_BYTES);
        }
        let Self { evicted, dirty, .. } = self;
        evicted.retain(|page| page * PAGE_BYTES < len && !dirty.contains(page));
    }

    /// Makes the content what it is on the platter.
    pub(super) fn sync(&mut self) {
        self.durable.resize(self.live.len(), 0);
        for page in std::mem::take(&mut self.dirty).difference(&self.stuck) {
            let start = (page * PAGE_BYTES).min(self.live.len());
            let end = (start + PAGE_BYTES).min(self.live.len());
            self.durable[start..end].copy_from_slice(&self.live[start..end]);
        }
    }

    /// What is dirty could not be written.
    pub(super) fn fail_to_write(&mut self) {
        self.stuck.append(&mut self.dirty);
    }

    pub(super) fn drop_cached(&mut self, position: u64, bytes: u64) {
        let end = position.saturating_add(bytes).min(self.live.len() as u64) as usize;
        self.durable.resize(self.live.len(), 0);
        for page in (position as usize).div_ceil(PAGE_BYTES)..end.div_ceil(PAGE_BYTES) {
            let page_end = ((page + 1) * PAGE_BYTES).min(self.live.len());
            if page_end <= end && !self.dirty.contains(&page) {
                let page_start = page * PAGE_BYTES;
                self.live[page_start..page_end].copy_from_slice(&self.durable[page_start..page_end]);
                self.stuck.remove(&page);
            }
        }
    }

    pub(super) fn evict(&mut self) {
        self.evicted = (0..self.live.len().div_ceil(PAGE_BYTES)).filter(|page| !self.dirty.contains(page)).collect();
    }

    /// The first byte from `position` to `end` that is not in the page cache.
    pub(super) fn first_evicted(&self, position: usize, end: usize) -> Option<usize> {
        let page = self.evicted.range(position / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).next()?;
        Some((page * PAGE_BYTES).max(position))
    }

    pub(super) fn lose_power(&mut self, rng: &mut Rng) {
        let (old, new) = (self.durable.len(), self.live.len());
        if self.dirty.is_empty() && old == new {
            self.live.clone_from(&self.durable);
            self.stuck.clear();
            self.has_untold_error = false;
            return;
        }
        let len = match rng.below(4) {
            0 => old,
            1 => new,
            // File systems journal a truncation whole.
            n if new < old => [old, new][n as usize - 2],
            _ => old + rng.below((new - old) as u64 + 1) as usize,
        };
        let mut survived = std::mem::take(&mut self.durable);
        survived.resize(len, 0);
        let page_percent = [0, 50, 90, 100][rng.below(4) as usize];
        self.has_untold_error = false;
        let stuck = std::mem::take(&mut self.stuck);
        for page in std::mem::take(&mut self.dirty).difference(&stuck) {
            let start = page * PAGE_BYTES;
            let end = (start + PAGE_BYTES).min(len).min(new);
            if start < end && rng.percent(page_percent) {
                survived[start..end].copy_from_slice(&self.live[start..end]);
            }
        }
        self.live.clone_from(&survived);
        self.durable = survived;
    }
}
