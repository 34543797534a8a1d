//! A range of a log file in an answer. It is sent by `sendfile`, which blocks on the disk if a page is not in the page
//! cache, so the page cache is checked first, a piece at a time. What is not there is read in by another thread.

use std::io;

use storage::Span;

use crate::stream::Stream;

/// How much is looked at, read in and sent at a time.
const PIECE_BYTES_MAX: u32 = 1 << 20;
/// Where something was not in the page cache, what follows is looked at this often. Otherwise the last byte of a piece
/// stands for all of it: pages go in the order in which they came, and what was read ahead lies in front.
const LOOK_BYTES: u32 = 64 * 1024;

pub struct FileRange {
    span: Span,
    /// What of its beginning was in the page cache, or was read into it.
    cached_bytes: u32,
}

impl FileRange {
    pub fn new(span: Span) -> Self {
        Self { span, cached_bytes: 0 }
    }

    pub fn span(&self) -> &Span {
        &self.span
    }

    fn piece_bytes(&self) -> u32 {
        self.span.length.min(PIECE_BYTES_MAX)
    }

    /// What has to be read in before its beginning can be sent, if anything has to. `is_wary` is whether something
    /// had to not long ago.
    pub fn look(&mut self, is_wary: &mut bool) -> Option<Span> {
        if self.cached_bytes == 0 {
            let step = if *is_wary { LOOK_BYTES } else { PIECE_BYTES_MAX };
            *is_wary = !self.span.is_cached(self.piece_bytes(), step);
            if *is_wary {
                return Some(Span { length: self.piece_bytes(), ..self.span.clone() });
            }
            self.cached_bytes = self.piece_bytes();
        }
        None
    }

    /// The piece was read in.
    pub fn mark_read_in(&mut self) {
        self.cached_bytes = self.piece_bytes();
    }

    /// Sends as much of what is cached as the socket takes, and shortens the range by it.
    pub fn send(&mut self, stream: &mut Stream) -> io::Result<usize> {
        let sent = stream.try_send_file(&self.span, self.cached_bytes)?;
        if sent == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a log file is shorter than its index says"));
        }
        self.span.position += sent as u64;
        self.span.length -= sent as u32;
        self.cached_bytes -= sent as u32;
        Ok(sent)
    }
}
