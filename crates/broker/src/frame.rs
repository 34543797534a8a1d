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
    /// For how long its client is throttled.
    throttle_time_ms: i32,
    /// Where it says that: the index of a chunk, and the place in it.
    throttle_time_at: Option<(usize, usize)>,
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
        let Written { splices, errors, throttle_time } =
            frame::write_response(&mut out, api, version, correlation_id, body)?;
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
        let throttle_time_at = throttle_time.and_then(|at| find(&chunks, at.position));
        Ok(Self { chunks, errors, throttle_time_ms: throttle_time.map_or(0, |told| told.ms), throttle_time_at })
    }

    /// A response that has no header.
    pub fn of_bytes(bytes: Bytes) -> Self {
        Self { chunks: vec![Chunk::Bytes(bytes)], ..Self::default() }
    }

    pub fn errors(&self) -> &[ErrorCode] {
        &self.errors
    }

    pub fn throttle_time_ms(&self) -> i32 {
        self.throttle_time_ms
    }

    /// Has its client throttled for at least so long, and says so where its version has a field for that.
    pub fn throttle(&mut self, throttle_time_ms: i32) {
        if throttle_time_ms <= self.throttle_time_ms {
            return;
        }
        self.throttle_time_ms = throttle_time_ms;
        if let Some((chunk, at)) = self.throttle_time_at
            && let Some(Chunk::Bytes(bytes)) = self.chunks.get_mut(chunk)
        {
            // That copies them where records of files split them.
            let mut changed = BytesMut::from(std::mem::take(bytes));
            changed[at..at + 4].copy_from_slice(&throttle_time_ms.to_be_bytes());
            *bytes = changed.freeze();
        }
    }

    pub fn into_chunks(self) -> Vec<Chunk> {
        self.chunks
    }
}

/// The chunk of bytes that has a position of what was encoded, and the place in it.
fn find(chunks: &[Chunk], position: usize) -> Option<(usize, usize)> {
    let mut before = 0;
    for (index, chunk) in chunks.iter().enumerate() {
        let Chunk::Bytes(bytes) = chunk else { continue };
        if position < before + bytes.len() {
            return Some((index, position - before));
        }
        before += bytes.len();
    }
    None
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

#[cfg(test)]
mod tests {
    use wire::api::Request;
    use wire::api::metadata::{MetadataRequest, MetadataResponse};
    use wire::api::produce::{ProduceRequest, ProduceResponse, TopicProduceResponse};

    use super::*;

    #[test]
    fn a_frame_says_the_longest_throttle() {
        let topic = TopicProduceResponse { name: "t".to_owned(), ..Default::default() };
        let response = ProduceResponse { responses: vec![topic], throttle_time_ms: 5, ..Default::default() };
        let mut frame = Frame::encode(&ProduceRequest::API, 12, 1, &response).unwrap();
        assert_eq!(frame.throttle_time_ms(), 5);
        // Somebody else has a part of it.
        let Chunk::Bytes(bytes) = &frame.chunks[0] else { panic!("it has no records") };
        let shared = bytes.clone();
        for (throttle_time_ms, told) in [(700, 700), (30, 700), (0, 700), (1234, 1234)] {
            frame.throttle(throttle_time_ms);
            assert_eq!(frame.throttle_time_ms(), told);
        }
        let told = |bytes: Bytes| frame::read_response::<ProduceRequest>(&bytes.slice(4..), 12).unwrap().1;
        assert_eq!(told(frame.into_bytes()), ProduceResponse { throttle_time_ms: 1234, ..response.clone() });
        assert_eq!(told(shared), response);
    }

    #[test]
    fn a_version_without_a_field_for_it_is_throttled_without_a_word() {
        let encoded = || Frame::encode(&MetadataRequest::API, 2, 1, &MetadataResponse::default()).unwrap();
        let mut frame = encoded();
        frame.throttle(7);
        assert_eq!(frame.throttle_time_ms(), 7);
        assert_eq!(frame.into_bytes(), encoded().into_bytes());
        let mut silent = Frame::default();
        silent.throttle(7);
        assert_eq!(silent.throttle_time_ms(), 7);
    }
}
