//! Which records of an answer are copied into it, and which are sent from their files.

use std::net::IpAddr;

use storage::Span;
use wire::Records;

use crate::frame::COPY_BYTES_MAX;
use crate::memory::{Memory, Permit};

/// How much of one answer is copied into memory. Small spans beyond are sent from their files, as large ones are.
const COPIED_BYTES_MAX: usize = 1024 * 1024;
/// Memory for copies is taken in such steps, after a first one of [`COPY_BYTES_MAX`] that needs none.
const STEP_BYTES: usize = 64 * 1024;

/// The records of an answer.
pub(super) struct Answered<'a> {
    /// What copies are charged to, and the address of the client.
    memory: Option<(&'a Memory, IpAddr)>,
    is_inter_broker: bool,
    copied_bytes: usize,
    /// How much may be copied with the memory that was taken for it.
    room_bytes: usize,
    permit: Option<Permit>,
    /// Those that are sent from their files, in order.
    pub(super) spans: Vec<Span>,
}

impl<'a> Answered<'a> {
    pub(super) fn new(memory: Option<(&'a Memory, IpAddr)>, is_inter_broker: bool) -> Self {
        Self { memory, is_inter_broker, copied_bytes: 0, room_bytes: COPY_BYTES_MAX, permit: None, spans: Vec::new() }
    }

    /// Whether a span is copied, for which there is memory then.
    pub(super) fn copies(&mut self, span: &Span) -> bool {
        let length = span.length as usize;
        let copied_bytes = self.copied_bytes + length;
        if length > COPY_BYTES_MAX || (copied_bytes > self.room_bytes && !self.take_room()) {
            return false;
        }
        self.copied_bytes = copied_bytes;
        true
    }

    pub(super) fn send_from_file(&mut self, span: Span) -> Records {
        let length = span.length;
        self.spans.push(span);
        Records::Elsewhere(length)
    }

    fn take_room(&mut self) -> bool {
        if self.room_bytes + STEP_BYTES > COPIED_BYTES_MAX {
            return false;
        }
        if let Some((memory, address)) = self.memory {
            let permit = self.permit.get_or_insert_with(|| memory.copies(address, self.is_inter_broker));
            if !permit.share().has_room(STEP_BYTES, true) {
                return false;
            }
            permit.resize(permit.bytes() + STEP_BYTES);
        }
        self.room_bytes += STEP_BYTES;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use configuration::BrokerConfig;
    use storage::SimDisk;
    use storage::disk::{Disk, OpenMode};

    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    /// How many of many small spans are copied.
    fn copied(memory: &Memory) -> (usize, u64) {
        let file = SimDisk::new(1).open(Path::new("/log"), OpenMode::Create).unwrap();
        let span = Span { file, position: 0, length: 1000 };
        let mut answered = Answered::new(Some((memory, ADDRESS)), false);
        let copied = (0..10_000).filter(|_| answered.copies(&span)).count();
        assert!(!answered.copies(&Span { length: COPY_BYTES_MAX as u32 + 1, file: Arc::clone(&span.file), ..span }));
        (copied, memory.answers.used_bytes())
    }

    #[test]
    fn what_is_copied_is_charged_and_little_is_where_there_is_no_memory() {
        let memory = Memory::new(&BrokerConfig::default(), &SimDisk::new(1));
        let (all, charged_bytes) = copied(&memory);
        assert!(all <= COPIED_BYTES_MAX / 1000 && all > (COPIED_BYTES_MAX - STEP_BYTES) / 1000, "{all}");
        assert!(charged_bytes as usize >= all * 1000 - COPY_BYTES_MAX, "{charged_bytes} for {all} spans");
        assert_eq!(memory.answers.used_bytes(), 0, "who sends them charges them then");
        let mut unread = memory.copies(ADDRESS, false);
        while unread.share().has_room(STEP_BYTES, true) {
            unread.resize(unread.bytes() + STEP_BYTES);
        }
        assert_eq!(copied(&memory), (COPY_BYTES_MAX / 1000, unread.bytes() as u64));
    }
}
