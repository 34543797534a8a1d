//! One partition of those that are looked through.

use std::collections::VecDeque;
use std::ops::Range;

use super::Message;
use super::scan::Scanned;

/// A window of a backward look that would take more is made smaller.
const WINDOW_BYTES_MAX: u64 = 8 * 1024 * 1024;
const WINDOW_RECORDS_MIN: i64 = 4;

#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) partition: i32,
    /// All that may be looked at.
    span: Range<i64>,
    is_backward: bool,
    /// What is looked at now, always forwards: all of the span, or a part of it behind which everything has been taken.
    window: Range<i64>,
    /// The next offset of the window.
    at: i64,
    window_bytes: u64,
    /// How many offsets the next window of a backward look has.
    window_size: i64,
    found: VecDeque<Message>,
    problem: Option<String>,
    has_failed: bool,
}

impl Cursor {
    /// `share` is how many of the records that are wanted may come from here.
    pub(super) fn new(partition: i32, span: Range<i64>, is_backward: bool, share: usize) -> Self {
        let window_size = i64::try_from(share).unwrap_or(i64::MAX).max(WINDOW_RECORDS_MIN);
        let window = match is_backward {
            true => span.end..span.end,
            false => span.clone(),
        };
        Self {
            partition,
            at: window.start,
            span,
            is_backward,
            window,
            window_bytes: 0,
            window_size,
            found: VecDeque::new(),
            problem: None,
            has_failed: false,
        }
    }

    pub(super) fn at(&self) -> i64 {
        self.at
    }

    /// What is still to be read of the window.
    pub(super) fn rest(&self) -> Range<i64> {
        self.at..self.window.end
    }

    fn is_window_read(&self) -> bool {
        self.at >= self.window.end
    }

    /// Whether there may be a next record that is not known yet.
    pub(super) fn is_hungry(&self) -> bool {
        if self.has_failed {
            return false;
        }
        match self.is_backward {
            false => self.found.is_empty() && !self.is_window_read(),
            true => !self.is_window_read() || self.found.is_empty() && self.window.start > self.span.start,
        }
    }

    /// Where to read on; a backward look whose window has nothing left goes to the one before.
    pub(super) fn next_window(&mut self) -> i64 {
        if self.is_backward && self.is_window_read() {
            let end = self.window.start;
            let read = u64::try_from(self.window.end - self.window.start).unwrap_or(0);
            let size = self.window_size.min(affordable(self.window_bytes, read));
            self.window = end.saturating_sub(size).max(self.span.start)..end;
            self.window_size = self.window_size.saturating_mul(2);
            self.window_bytes = 0;
            self.at = self.window.start;
        }
        self.at
    }

    /// The next record, where it is known.
    pub(super) fn next(&self) -> Option<&Message> {
        match self.is_backward {
            false => self.found.front(),
            // The last of a window is known when it has been read to its end.
            true if self.is_window_read() => self.found.back(),
            true => None,
        }
    }

    pub(super) fn take(&mut self) -> Option<Message> {
        match self.is_backward {
            false => self.found.pop_front(),
            true => self.found.pop_back(),
        }
    }

    pub(super) fn absorb(&mut self, scanned: Scanned) {
        self.window_bytes += scanned.bytes;
        self.at = scanned.next.max(self.at);
        self.found.extend(scanned.messages);
        self.problem = scanned.problem.or(self.problem.take());
        self.has_failed |= scanned.has_failed;
        if self.is_backward {
            while self.found.len() > scanned.limit {
                self.found.pop_front();
            }
            self.shorten();
        }
    }

    /// Begins the window farther behind where it would take too much to read all of it: what is wanted is at its end.
    fn shorten(&mut self) {
        let read = u64::try_from(self.at - self.window.start).unwrap_or(0);
        let size = affordable(self.window_bytes, read);
        if self.window.end - self.at <= size {
            return;
        }
        self.window.start = self.window.end - size;
        self.at = self.window.start;
        self.window_size = size;
        self.window_bytes = 0;
        self.found.clear();
    }

    /// Nothing more comes from here.
    pub(super) fn fail(&mut self, problem: String) {
        self.problem = Some(problem);
        self.has_failed = true;
    }

    /// The offsets of which all that was found has been taken.
    pub(super) fn covered(&self) -> Range<i64> {
        let Range { start, end } = self.span;
        match (self.is_backward, self.next()) {
            (false, Some(next)) => start..next.offset,
            (false, None) => start..self.at.clamp(start, end.max(start)),
            (true, Some(next)) => next.offset + 1..end,
            (true, None) if self.is_window_read() => self.window.start..end,
            (true, None) => self.window.end..end,
        }
    }

    pub(super) fn into_problem(self) -> Option<(i32, String)> {
        Some((self.partition, self.problem?))
    }
}

/// How many offsets a window may have, when so many of them had so many bytes.
fn affordable(bytes: u64, offsets: u64) -> i64 {
    let bytes_each = bytes.div_ceil(offsets.max(1)).max(1);
    i64::try_from(WINDOW_BYTES_MAX / bytes_each).unwrap_or(i64::MAX).max(1)
}
