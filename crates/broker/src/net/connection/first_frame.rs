//! What the beginning of a frame shows: its size, its API, and whether it is Kafka's protocol at all.

use super::Connection;
use crate::api;
use crate::close_reason::CloseReason;
use crate::security::Exchange;

/// A request frame other than Produce: no client needs more for what they carry.
const OTHER_REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;

impl Connection {
    pub(super) fn first_key(&self) -> Option<i16> {
        self.input.bytes().get(4..6).map(|key| i16::from_be_bytes([key[0], key[1]]))
    }

    /// The size of the first frame in `input`, length prefix included, once its prefix and API key have arrived.
    pub(super) fn frame_size(&self) -> Result<Option<usize>, CloseReason> {
        let input = self.input.bytes();
        let Some(prefix) = input.first_chunk::<4>() else { return Ok(None) };
        let size = i32::from_be_bytes(*prefix);
        if let Some(reason) = foreign_protocol(prefix) {
            return Err(CloseReason::NotKafka(reason));
        }
        if !self.phase.is_open() {
            return self.first_frame_size(prefix).map(Some);
        }
        let request_max = self.broker.config().socket_request_max_bytes;
        if size < 8 || size > request_max || size as usize > self.broker.memory.request_bytes_max {
            return Err(CloseReason::FrameSize(size));
        }
        if let Some(key) = self.first_key() {
            if !api::serves(key, self.peer.is_inter_broker) {
                let version = input.get(6..8).map_or(-1, |v| i16::from_be_bytes([v[0], v[1]]));
                return Err(CloseReason::UnsupportedApi { key, version });
            }
            let may_be_large = self.peer.is_inter_broker || api::is_produce(key);
            if size as usize > OTHER_REQUEST_BYTES_MAX && !may_be_large {
                return Err(CloseReason::FrameSize(size));
            }
        }
        Ok(Some(4 + size as usize))
    }

    /// The same before it is known who the client is.
    fn first_frame_size(&self, prefix: &[u8; 4]) -> Result<usize, CloseReason> {
        let size = i32::from_be_bytes(*prefix);
        let is_raw = self.phase.takes_raw_tokens();
        if size < if is_raw { 0 } else { 8 } || size > self.peer.security.receive_bytes_max() {
            return Err(CloseReason::FrameSize(size));
        }
        match self.first_key() {
            Some(key) if !is_raw && !Exchange::takes(key) => Err(CloseReason::NotAuthenticated { key }),
            _ => Ok(4 + size as usize),
        }
    }
}

/// Names the protocol of a peer that came to the wrong port.
fn foreign_protocol(prefix: &[u8; 4]) -> Option<&'static str> {
    match prefix {
        b"GET " | b"POST" | b"HEAD" | b"PUT " | b"OPTI" | b"DELE" | b"CONN" | b"PRI " => {
            Some("an HTTP request on the Kafka port")
        }
        [0x16, 0x03, ..] => Some("a TLS handshake on a plaintext port: the client's security.protocol says SSL"),
        b"SSH-" => Some("an SSH client on the Kafka port"),
        _ => None,
    }
}
