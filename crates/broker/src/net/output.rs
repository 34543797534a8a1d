//! What a connection has yet to send: bytes in memory and ranges of log files, in order.
//!
//! Bytes of several responses leave in one `sendmsg`; a range of a file leaves by `sendfile` and is never copied into
//! this process.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Bytes, BytesMut};
use log::Span;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use tokio::io::Interest;
use tokio::net::TcpStream;
use wire::api::Api;
use wire::frame::{self, ResponseTooLarge, Written};
use wire::{ErrorCode, Wire};

use crate::stats::Count;

/// Spans up to this size are copied into the response: a system call of their own would cost more.
pub const COPY_BYTES_MAX: usize = 4096;
/// How many buffers one `sendmsg` takes.
const SLICES_MAX: usize = 64;

/// A response ready to be sent, its length prefix included.
#[derive(Default)]
pub struct Frame {
    chunks: Vec<Chunk>,
    /// The errors that it tells of.
    errors: Vec<ErrorCode>,
}

enum Chunk {
    Bytes(Bytes),
    File(Span),
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
            chunks.push(Chunk::Bytes(bytes.split_to(splice.position - sent)));
            sent = splice.position;
            chunks.push(Chunk::File(span));
        }
        chunks.push(Chunk::Bytes(bytes));
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
                Chunk::Bytes(chunk) => bytes.extend_from_slice(&chunk),
                Chunk::File(span) => {
                    let start = bytes.len();
                    bytes.resize(start + span.length as usize, 0);
                    log::disk::read_exact_at(&*span.file, &mut bytes[start..], span.position).expect("the file stays");
                }
            }
        }
        bytes.freeze()
    }
}

/// The queue of a connection's unsent responses.
#[derive(Default)]
pub struct Output {
    chunks: VecDeque<Chunk>,
    /// Bytes in `chunks` that take memory of this process.
    memory: usize,
}

impl Output {
    /// Bytes of memory that wait to be sent.
    pub fn memory(&self) -> usize {
        self.memory
    }

    pub fn push(&mut self, frame: Frame) {
        for chunk in frame.chunks {
            match &chunk {
                Chunk::Bytes(bytes) if bytes.is_empty() => continue,
                Chunk::Bytes(bytes) => self.memory += bytes.len(),
                Chunk::File(_) => {}
            }
            self.chunks.push_back(chunk);
        }
    }

    /// Sends as much as the socket takes. Returns whether everything has left.
    pub fn send(&mut self, stream: &TcpStream, sent_bytes: &Count) -> io::Result<bool> {
        while let Some(first) = self.chunks.front_mut() {
            let sent = match first {
                Chunk::Bytes(_) => self.send_bytes(stream).inspect(|sent| self.advance(*sent)),
                Chunk::File(span) => send_file(stream, span),
            };
            if matches!(self.chunks.front(), Some(Chunk::File(Span { length: 0, .. }))) {
                self.chunks.pop_front();
            }
            match sent {
                Ok(sent) => sent_bytes.add(sent as u64),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    fn send_bytes(&self, stream: &TcpStream) -> io::Result<usize> {
        let mut slices = Vec::with_capacity(self.chunks.len().min(SLICES_MAX));
        let mut flags = SendFlags::NOSIGNAL;
        for chunk in self.chunks.iter().take(SLICES_MAX) {
            match chunk {
                Chunk::Bytes(bytes) => slices.push(IoSlice::new(bytes)),
                Chunk::File(_) => {
                    // The file's bytes follow at once: they may share a packet with these.
                    flags |= SendFlags::MORE;
                    break;
                }
            }
        }
        stream.try_io(Interest::WRITABLE, || Ok(sendmsg(stream, &slices, &mut SendAncillaryBuffer::default(), flags)?))
    }

    fn advance(&mut self, mut sent: usize) {
        self.memory -= sent;
        while sent > 0 {
            let Some(Chunk::Bytes(bytes)) = self.chunks.front_mut() else {
                unreachable!("only leading bytes are sent by sendmsg");
            };
            if bytes.len() <= sent {
                sent -= bytes.len();
                self.chunks.pop_front();
            } else {
                bytes::Buf::advance(bytes, sent);
                sent = 0;
            }
        }
    }
}

/// Sends as much of a span as the socket takes and shortens the span by it.
fn send_file(stream: &TcpStream, span: &mut Span) -> io::Result<usize> {
    let sent = stream.try_io(Interest::WRITABLE, || match span.file.fd() {
        Some(file) => {
            let mut position = span.position;
            Ok(rustix::fs::sendfile(stream, file, Some(&mut position), span.length as usize)?)
        }
        // A simulated disk has no descriptors.
        None => {
            let mut buffer = vec![0; (span.length as usize).min(64 * 1024)];
            log::disk::read_exact_at(&*span.file, &mut buffer, span.position)?;
            Ok(rustix::net::send(stream, &buffer, SendFlags::NOSIGNAL)?)
        }
    })?;
    if sent == 0 {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a log file is shorter than its index says"));
    }
    span.position += sent as u64;
    span.length -= sent as u32;
    Ok(sent)
}
