//! What a connection has yet to send: bytes in memory and ranges of log files, in order.
//!
//! Bytes of several responses leave in one `sendmsg`; a range of a file leaves by `sendfile` and is never copied into
//! this process, unless it is encrypted. If it is not in the page cache, the connection has to have it read in.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use bytes::Bytes;
use platform::Count;
use storage::Span;

use super::file_range::FileRange;
use crate::frame::{self, Frame};
use crate::memory::{Permit, SMALL_ANSWER_BYTES_MAX, Share};
use crate::stream::Stream;

/// How much leaves at once: a peer that reads quickly does not keep others waiting.
const TURN_BYTES_MAX: u64 = 4 << 20;
/// How many buffers one `sendmsg` takes.
const SLICES_MAX: usize = 64;

enum Chunk {
    /// What has not left, and how large it was.
    Bytes(Bytes, usize),
    File(FileRange),
}

/// The queue of a connection's unsent responses. What the socket does not take at once is charged.
pub struct Output {
    chunks: VecDeque<Chunk>,
    /// Bytes in `chunks` that have not left.
    unsent: u64,
    /// Bytes that take memory of this process: those of chunks of which a part has left, too.
    memory: usize,
    /// For `memory`.
    permit: Permit,
    /// Whether the last range of a file was not in the page cache, or nothing is known of any.
    is_wary: bool,
}

/// What a socket took.
pub struct Sent {
    pub bytes: usize,
    pub is_all: bool,
    /// What has to be read into the page cache before anything else can be sent.
    pub cold: Option<Span>,
}

/// Why nothing more is sent for now.
enum Stop {
    /// All has left.
    Empty,
    /// The socket is full, or others have their turn.
    Full,
    Cold(Span),
}

impl Output {
    pub fn new(share: &Arc<Share>) -> Self {
        Self { chunks: VecDeque::new(), unsent: 0, memory: 0, permit: share.empty_permit(), is_wary: true }
    }

    /// Bytes that wait to be sent, those of files too.
    pub fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Bytes of memory that wait to be sent.
    pub fn memory(&self) -> usize {
        self.memory
    }

    pub fn push(&mut self, frame: Frame) {
        for chunk in frame.into_chunks() {
            let chunk = match chunk {
                frame::Chunk::Bytes(bytes) if bytes.is_empty() => continue,
                frame::Chunk::Bytes(bytes) => {
                    let size = bytes.len();
                    self.memory += size;
                    self.unsent += size as u64;
                    Chunk::Bytes(bytes, size)
                }
                frame::Chunk::Records(span) => {
                    self.unsent += u64::from(span.length);
                    Chunk::File(FileRange::new(span))
                }
            };
            self.chunks.push_back(chunk);
        }
    }

    /// Sends as much as the socket takes.
    pub fn send(&mut self, stream: &mut Stream, sent_bytes: &Count) -> io::Result<Sent> {
        let before = self.unsent;
        let stop = self.send_chunks(stream)?;
        let bytes = before - self.unsent;
        sent_bytes.add(bytes);
        self.permit.resize(self.memory + stream.unsent_bytes());
        if self.memory > SMALL_ANSWER_BYTES_MAX {
            self.permit.make_large();
        }
        let is_all = matches!(stop, Stop::Empty);
        let cold = if let Stop::Cold(span) = stop { Some(span) } else { None };
        Ok(Sent { bytes: bytes as usize, is_all, cold })
    }

    /// What was cold has been read into the page cache.
    pub fn mark_read_in(&mut self) {
        if let Some(Chunk::File(range)) = self.chunks.front_mut() {
            range.mark_read_in();
        }
    }

    fn send_chunks(&mut self, stream: &mut Stream) -> io::Result<Stop> {
        let enough = self.unsent.saturating_sub(TURN_BYTES_MAX);
        while let Some(first) = self.chunks.front_mut() {
            if self.unsent < enough {
                return Ok(Stop::Full);
            }
            let sent = match first {
                Chunk::Bytes(..) => self.send_bytes(stream).inspect(|sent| self.advance(*sent)),
                Chunk::File(range) => match range.look(&mut self.is_wary) {
                    Some(cold) => return Ok(Stop::Cold(cold)),
                    None => range.send(stream),
                },
            }
            .map(|sent| self.unsent -= sent as u64);
            if matches!(self.chunks.front(), Some(Chunk::File(range)) if range.span().length == 0) {
                self.chunks.pop_front();
            }
            match sent {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Stop::Full),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        match stream.try_flush() {
            Ok(()) => Ok(Stop::Empty),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Stop::Full),
            Err(error) => Err(error),
        }
    }

    fn send_bytes(&self, stream: &mut Stream) -> io::Result<usize> {
        let mut slices = Vec::with_capacity(self.chunks.len().min(SLICES_MAX));
        let mut more_follows = false;
        for chunk in self.chunks.iter().take(SLICES_MAX) {
            match chunk {
                Chunk::Bytes(bytes, _) => slices.push(IoSlice::new(bytes)),
                Chunk::File(_) => {
                    // The file's bytes follow at once: they may share a packet with these.
                    more_follows = true;
                    break;
                }
            }
        }
        stream.try_send(&slices, more_follows)
    }

    fn advance(&mut self, mut sent: usize) {
        while sent > 0 {
            let Some(Chunk::Bytes(bytes, size)) = self.chunks.front_mut() else {
                unreachable!("only leading bytes are sent by sendmsg");
            };
            if bytes.len() <= sent {
                sent -= bytes.len();
                self.memory -= *size;
                self.chunks.pop_front();
            } else {
                bytes::Buf::advance(bytes, sent);
                sent = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::Ipv4Addr;

    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::memory::Budget;

    #[tokio::test]
    async fn an_answer_is_charged_until_it_has_left() {
        const BYTES: usize = 20 << 20;
        let budget = Budget::new(0, 0);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, address) = listener.accept().await.unwrap();
        let mut stream = Stream::Tcp(stream);
        let mut output = Output::new(&budget.share(address.ip(), false));
        output.push(Frame::of_bytes(vec![1; BYTES].into()));
        let count = Count::default();
        poll_fn(|cx| stream.poll_write_ready(cx)).await.unwrap();
        let first = output.send(&mut stream, &count).unwrap();
        assert!(!first.is_all && first.bytes > 0);
        assert_eq!(output.unsent(), (BYTES - first.bytes) as u64);
        assert_eq!(budget.used_bytes(), BYTES as u64, "a part of it holds all of it");
        let mut read = Vec::new();
        let send = async {
            while !output.send(&mut stream, &count).unwrap().is_all {
                poll_fn(|cx| stream.poll_write_ready(cx)).await.unwrap();
            }
            drop(stream);
        };
        let (_, read_bytes) = tokio::join!(send, peer.read_to_end(&mut read));
        assert_eq!((read_bytes.unwrap(), count.get()), (BYTES, BYTES as u64));
        assert_eq!(budget.used_bytes(), 0);
    }
}
