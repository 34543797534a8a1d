//! Whether the next request of a connection may start: how many are unanswered or unread, and whether there is memory
//! for what it becomes and for its answer.

use std::pin::Pin;
use std::task::{Context, Poll};

use super::{Connection, UNSENT_MEMORY_MAX};
use crate::api;
use crate::close_reason::CloseReason;
use crate::memory::{ANSWER_BYTES, SMALL_BYTES_MAX};
use crate::net::input::FIRST_READ_BYTES;

/// Unanswered requests of one connection. Clients keep 5 in flight by default.
const PENDING_MAX: usize = 256;
/// So many of them are started in any case, and what each further one takes beside its frame, about: its handler, its
/// completion, and its batches' entries in the queues of their partitions.
const PENDING_SPARED: usize = 8;
const PENDING_BYTES: usize = 1280;
/// Answers that have not left, in memory and in files: no further request is started beyond.
const UNSENT_MAX: u64 = 1 << 20;
/// What a request other than Produce takes while it is decided and answered, as a multiple of its bytes: each of its
/// elements becomes several values, and a name of a few bytes a string of its own. For a large frame a permit is waited
/// for.
const DECODED_FACTOR: usize = 32;
/// A request up to this size with an answer about as small is started in any case when nothing else is unanswered or
/// unread: such clients do not wait for clients that do not read.
const MODEST_REQUEST_BYTES_MAX: usize = FIRST_READ_BYTES;

impl Connection {
    /// What so many unanswered requests take beside their frames, beyond the number that is always allowed.
    pub(super) fn pending_bytes(requests: usize) -> usize {
        requests.saturating_sub(PENDING_SPARED) * PENDING_BYTES
    }

    /// Whether there is memory for what another request takes beside its frame.
    pub(super) fn can_add_pending(&self) -> bool {
        let more = Self::pending_bytes(self.pending.len() + 1).saturating_sub(self.pending_permit.bytes());
        more == 0 || self.pending_permit.share().has_room(more, false)
    }

    /// Whether another request may start, as far as the unanswered and unread ones go.
    pub(super) fn can_start(&self) -> bool {
        self.pending.len() < PENDING_MAX
            && self.closing.is_none()
            && self.muted_until.is_none()
            && !self.phase.holds_frame()
            && self.can_add_pending()
            && self.output.memory() < UNSENT_MEMORY_MAX
            && self.output.unsent() < UNSENT_MAX
    }

    /// Whether a complete frame has arrived that may start now.
    pub(super) fn has_startable_frame(&self) -> Result<bool, CloseReason> {
        match self.frame_size()? {
            Some(size) if self.input.bytes().len() >= size => Ok(self.can_start() && self.may_start_next()),
            _ => Ok(false),
        }
    }

    /// The first frame may start when nothing is pending, or when it and all that is pending are Produce requests, and
    /// those are queued. The last one stands for all: it could start only because those before it were queued.
    pub(super) fn may_start_next(&self) -> bool {
        self.pending
            .back()
            .is_none_or(|last| last.started.is_queued_produce() && self.first_key().is_some_and(api::is_produce))
    }

    /// Whether there is memory for what the first frame, which has arrived, becomes.
    pub(super) fn has_permits_to_start(&self) -> bool {
        self.has_decoding_permit() && self.has_answer_permit()
    }

    pub(super) fn has_decoding_permit(&self) -> bool {
        self.decoding_permit.is_some() || self.decoded_bytes() == 0
    }

    /// Whether there is memory for the answer to the first frame, which has arrived.
    pub(super) fn has_answer_permit(&self) -> bool {
        self.answer_permit.is_some() || {
            let size = self.input.bytes().first_chunk().map_or(0, |prefix| i32::from_be_bytes(*prefix));
            let is_large = self.wants_large_answer();
            (!is_large && self.pending.is_empty() && size as usize <= MODEST_REQUEST_BYTES_MAX)
                || self.answers.has_room(ANSWER_BYTES, is_large)
        }
    }

    /// What the first frame takes when it is decoded, if that is much: no more than fits when there is no other large
    /// permit.
    pub(super) fn decoded_bytes(&self) -> usize {
        let size = self.input.bytes().first_chunk().map_or(0, |prefix| i32::from_be_bytes(*prefix)) as usize;
        match self.first_key() {
            Some(key) if size > MODEST_REQUEST_BYTES_MAX && !api::is_produce(key) => {
                size.saturating_mul(DECODED_FACTOR).min(self.decoding.budget().large_max())
            }
            _ => 0,
        }
    }

    /// Whether the answer to the first frame may be large, or adds to unread ones: then it leaves a reserve to small
    /// answers.
    pub(super) fn wants_large_answer(&self) -> bool {
        self.output.memory() > 0 || self.first_key().is_some_and(|key| !api::answers_little(key))
    }

    pub(super) fn poll_answer_permit(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_large = self.wants_large_answer();
        let waiting = self.answer_wait.get_or_insert_with(|| self.answers.wait_for(ANSWER_BYTES, is_large));
        let permit = std::task::ready!(Pin::new(waiting).poll(cx));
        self.answer_wait = None;
        self.answer_permit = Some(permit);
        Poll::Ready(())
    }

    pub(super) fn poll_decoding_permit(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let bytes = self.decoded_bytes();
        let waiting = self.decoding_wait.get_or_insert_with(|| self.decoding.wait_for(bytes, bytes > SMALL_BYTES_MAX));
        let permit = std::task::ready!(Pin::new(waiting).poll(cx));
        self.decoding_wait = None;
        self.decoding_permit = Some(permit);
        Poll::Ready(())
    }
}
