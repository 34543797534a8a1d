//! What a connection has yet to send: bytes in memory and ranges of log files, in order.
//!
//! Bytes of several responses leave in one `sendmsg`; a range of a file leaves by `sendfile` and is never copied into
//! this process. Where it is not in the page cache, the connection is told to have it read in.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use log::Span;
use wire::api::Api;
use wire::frame::{self, ResponseTooLarge, Written};
use wire::{ErrorCode, Wire};

use super::budget::{Permit, Share};
use super::file_range::FileRange;
use super::stream::Stream;
use crate::stats::Count;

/// Spans up to this size are copied into the response: a system call of their own would cost more.
pub const COPY_BYTES_MAX: usize = 4096;
/// How much leaves at once: a peer that reads quickly does not keep others waiting.
const TURN_BYTES_MAX: u64 = 4 << 20;
/// How many buffers one `sendmsg` takes.
const SLICES_MAX: usize = 64;

/// A connection that has no more in memory to send leaves it to those that have more to let go of some.
pub const SMALL_ANSWER_BYTES_MAX: usize = 16 * 1024;

/// A response ready to be sent, its length prefix included.
#[derive(Default)]
pub struct Frame {
    chunks: Vec<Chunk>,
    /// The errors that it tells of.
    errors: Vec<ErrorCode>,
}

enum Chunk {
    /// What has not left, and how large it was.
    Bytes(Bytes, usize),
    File(FileRange),
}

impl Chunk {
    fn bytes(bytes: Bytes) -> Self {
        let size = bytes.len();
        Self::Bytes(bytes, size)
    }
}

impl Frame {
    /// Encodes a response without records, or with records in memory.
    pub fn encode<R: Wire>(api: &Api, version: i16, correlation_id: i32, body: &R) -> Result<Self, ResponseTooLarge> {
        Self::encode_with_spans(api, version, correlation_id, body, Vec::new())
    }

    /// Encodes a response; `spans` are its [`wire::Records::Elsewhere`], in order.
    pub fn encode_with_spans<R: Wire>(
        api: &Api,
        version: i16,
        correlation_id: i32,
        body: &R,
        spans: Vec<Span>,
    ) -> Result<Self, ResponseTooLarge> {
        let mut out = BytesMut::with_capacity(256);
        let Written { splices, errors } = frame::write_response(&mut out, api, version, correlation_id, body)?;
        assert_eq!(splices.len(), spans.len(), "each gap in a response has its span");
        let mut bytes = out.freeze();
        let mut sent = 0;
        let mut chunks = Vec::with_capacity(2 * spans.len() + 1);
        for (splice, span) in splices.into_iter().zip(spans) {
            chunks.push(Chunk::bytes(bytes.split_to(splice.position - sent)));
            sent = splice.position;
            chunks.push(Chunk::File(FileRange::new(span)));
        }
        chunks.push(Chunk::bytes(bytes));
        Ok(Self { chunks, errors })
    }

    pub fn errors(&self) -> &[ErrorCode] {
        &self.errors
    }
}

#[cfg(test)]
impl Frame {
    /// All of its bytes, those of files too.
    pub fn into_bytes(self) -> Bytes {
        let mut bytes = BytesMut::new();
        for chunk in self.chunks {
            match chunk {
                Chunk::Bytes(chunk, _) => bytes.extend_from_slice(&chunk),
                Chunk::File(range) => {
                    let (start, span) = (bytes.len(), range.span());
                    bytes.resize(start + span.length as usize, 0);
                    log::disk::read_exact_at(&*span.file, &mut bytes[start..], span.position).expect("the file stays");
                }
            }
        }
        bytes.freeze()
    }
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
        for chunk in frame.chunks {
            match &chunk {
                Chunk::Bytes(bytes, _) if bytes.is_empty() => continue,
                Chunk::Bytes(bytes, _) => {
                    self.memory += bytes.len();
                    self.unsent += bytes.len() as u64;
                }
                Chunk::File(range) => self.unsent += u64::from(range.span().length),
            }
            self.chunks.push_back(chunk);
        }
    }

    /// Sends as much as the socket takes.
    pub fn send(&mut self, stream: &Stream, sent_bytes: &Count) -> io::Result<Sent> {
        let before = self.unsent;
        let stop = self.send_chunks(stream)?;
        let bytes = before - self.unsent;
        sent_bytes.add(bytes);
        self.permit.resize(self.memory);
        if self.memory > SMALL_ANSWER_BYTES_MAX {
            self.permit.make_large();
        }
        let is_all = matches!(stop, Stop::Empty);
        let cold = if let Stop::Cold(span) = stop { Some(span) } else { None };
        Ok(Sent { bytes: bytes as usize, is_all, cold })
    }

    /// Takes note that what was cold has been read in.
    pub fn note_read_in(&mut self) {
        if let Some(Chunk::File(range)) = self.chunks.front_mut() {
            range.note_read_in();
        }
    }

    fn send_chunks(&mut self, stream: &Stream) -> io::Result<Stop> {
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
        Ok(Stop::Empty)
    }

    fn send_bytes(&self, stream: &Stream) -> io::Result<usize> {
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

    use super::super::Budget;
    use super::*;

    #[tokio::test]
    async fn an_answer_is_charged_until_it_has_left() {
        const BYTES: usize = 20 << 20;
        let budget = Budget::new(0, 0);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, address) = listener.accept().await.unwrap();
        let stream = Stream::Tcp(stream);
        let mut output = Output::new(&budget.share(address.ip(), false));
        output.push(Frame { chunks: vec![Chunk::bytes(vec![1; BYTES].into())], errors: Vec::new() });
        let count = Count::default();
        poll_fn(|cx| stream.poll_write_ready(cx)).await.unwrap();
        let first = output.send(&stream, &count).unwrap();
        assert!(!first.is_all && first.bytes > 0);
        assert_eq!(output.unsent(), (BYTES - first.bytes) as u64);
        assert_eq!(budget.used_bytes(), BYTES as u64, "a part of it holds all of it");
        let mut read = Vec::new();
        let send = async {
            while !output.send(&stream, &count).unwrap().is_all {
                poll_fn(|cx| stream.poll_write_ready(cx)).await.unwrap();
            }
            drop(stream);
        };
        let (_, read_bytes) = tokio::join!(send, peer.read_to_end(&mut read));
        assert_eq!((read_bytes.unwrap(), count.get()), (BYTES, BYTES as u64));
        assert_eq!(budget.used_bytes(), 0);
    }
}
