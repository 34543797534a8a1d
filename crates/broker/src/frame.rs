//! A response on its way from its handler to its connection.

use bytes::{Bytes, BytesMut};
use storage::Span;
use wire::api::Api;
use wire::frame::{self, ResponseTooLarge, Written};
use wire::{ErrorCode, Wire};

/// Spans up to this size are copied into the response: a system call of their own would cost more.
pub const COPY_BYTES_MAX: usize = 4096;

/// A part of a response.
pub enum Chunk {
    Bytes(Bytes),
    /// Records that stay in their file until they are sent.
    Records(Span),
}

/// A response ready to be sent, its length prefix included.
#[derive(Default)]
pub struct Frame {
    chunks: Vec<Chunk>,
    /// The errors that it tells of.
    errors: Vec<ErrorCode>,
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
            chunks.push(Chunk::Records(span));
        }
        chunks.push(Chunk::Bytes(bytes));
        Ok(Self { chunks, errors })
    }

    /// A response that has no header.
    pub fn of_bytes(bytes: Bytes) -> Self {
        Self { chunks: vec![Chunk::Bytes(bytes)], errors: Vec::new() }
    }

    pub fn errors(&self) -> &[ErrorCode] {
        &self.errors
    }

    pub fn into_chunks(self) -> Vec<Chunk> {
        self.chunks
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
                Chunk::Records(span) => {
                    let start = bytes.len();
                    bytes.resize(start + span.length as usize, 0);
                    storage::disk::read_exact_at(&*span.file, &mut bytes[start..], span.position)
                        .expect("the file stays");
                }
            }
        }
        bytes.freeze()
    }
}
