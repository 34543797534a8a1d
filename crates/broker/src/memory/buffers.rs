//! Buffers of large requests, kept for the next ones. Memory that goes back to the kernel and comes again has to be
//! zeroed each time, which costs more than what is read into it.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut, RangeInclusive};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{READ_BYTES, SMALL_BYTES_MAX};

/// The capacities that are kept: the allocator is good at small ones, and large requests are rare.
const CAPACITIES: RangeInclusive<usize> = READ_BYTES + 1..=SMALL_BYTES_MAX;
/// A buffer is at most so much larger than what it is for.
const EXCESS_BYTES_MAX: usize = READ_BYTES / 4;
/// What is kept is at most this part of what requests may take, and no more than so many bytes.
const KEPT_PART: usize = 8;
const KEPT_BYTES_MAX: usize = 16 << 20;

/// Buffers that nobody uses. They belong to no request, and are not charged.
pub struct Buffers {
    kept: Mutex<Kept>,
    bytes_max: usize,
}

#[derive(Default)]
struct Kept {
    /// The one that was in use last is the last.
    buffers: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Buffers {
    pub fn new(request_bytes: usize) -> Arc<Self> {
        let bytes_max = (request_bytes / KEPT_PART).min(KEPT_BYTES_MAX);
        Arc::new(Self { kept: Mutex::default(), bytes_max })
    }

    /// An empty buffer with room for so many bytes.
    pub fn take(self: &Arc<Self>, capacity: usize) -> Buffer {
        let bytes = self.find(capacity).unwrap_or_else(|| Vec::with_capacity(capacity));
        let home = CAPACITIES.contains(&capacity).then(|| Arc::clone(self));
        Buffer { bytes, home }
    }

    fn find(&self, capacity: usize) -> Option<Vec<u8>> {
        if !CAPACITIES.contains(&capacity) {
            return None;
        }
        let mut kept = self.kept.lock();
        let fits = |bytes: &Vec<u8>| (capacity..=capacity + EXCESS_BYTES_MAX).contains(&bytes.capacity());
        let index = kept.buffers.iter().rposition(fits)?;
        let bytes = kept.buffers.remove(index)?;
        kept.bytes -= bytes.capacity();
        Some(bytes)
    }

    fn keep(&self, mut bytes: Vec<u8>) {
        if !CAPACITIES.contains(&bytes.capacity()) {
            return;
        }
        bytes.clear();
        let mut kept = self.kept.lock();
        kept.bytes += bytes.capacity();
        kept.buffers.push_back(bytes);
        while kept.bytes > self.bytes_max
            && let Some(oldest) = kept.buffers.pop_front()
        {
            kept.bytes -= oldest.capacity();
        }
    }
}

#[cfg(test)]
impl Buffers {
    pub fn kept_bytes(&self) -> usize {
        self.kept.lock().bytes
    }
}

/// A buffer that is kept for another request when it is dropped.
#[derive(Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    /// None for one that is not kept.
    home: Option<Arc<Buffers>>,
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            home.keep(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;

    fn kept(buffers: &Buffers) -> Vec<usize> {
        let kept = buffers.kept.lock();
        assert_eq!(kept.bytes, kept.buffers.iter().map(Vec::capacity).sum::<usize>());
        kept.buffers.iter().map(Vec::capacity).collect()
    }

    #[test]
    fn a_buffer_is_used_again_for_what_is_about_as_large() {
        let buffers = Buffers::new(64 << 20);
        let mut first = buffers.take(200 * KIB);
        first.extend_from_slice(&[7; 1000]);
        let place = first.as_ptr();
        drop(first);
        assert_eq!(kept(&buffers), [200 * KIB]);
        for other in [200 * KIB + 1, 183 * KIB] {
            assert_ne!(buffers.find(other).map(|bytes| bytes.as_ptr()), Some(place), "{other}");
        }
        let again = buffers.take(190 * KIB);
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        assert_eq!(kept(&buffers), [0; 0]);
    }

    #[test]
    fn small_and_very_large_buffers_are_not_kept() {
        let buffers = Buffers::new(64 << 20);
        for capacity in [0, 100, READ_BYTES, SMALL_BYTES_MAX + 1] {
            drop(buffers.take(capacity));
        }
        drop(Buffer::default());
        assert_eq!(kept(&buffers), [0; 0]);
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_oldest_goes() {
        let buffers = Buffers::new(8 << 20);
        let used: Vec<_> = (0..5).map(|n| buffers.take((300 + n) * KIB)).collect();
        drop(used);
        assert_eq!(kept(&buffers), [302 * KIB, 303 * KIB, 304 * KIB]);
        assert_eq!(Buffers::new(usize::MAX).bytes_max, KEPT_BYTES_MAX);
    }
}
