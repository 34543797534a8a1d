//! Forward (key 124), versions 0-1, flexible since 0. Ours: a broker sends a request to the active controller, its own
//! or a client's.

use bytes::Bytes;

use super::confirm_sender::NodeIdentity;
use crate::ErrorCode;

crate::message! {
    pub struct ForwardRequest {
        sender: NodeIdentity, 0..;
        api_key: i16, 0..;
        api_version: i16, 0..;
        /// The body of the request in that version.
        body: Bytes, 0..;
        /// Nobody where the broker asks for itself.
        client: Option<ForwardedClient>, 1..;
    }

    /// Who has asked the broker.
    pub struct ForwardedClient {
        /// A type and a name: `User:alice`.
        principal: String, 1..;
        /// Its IP address.
        address: String, 1..;
    }

    pub struct ForwardResponse {
        /// Why the request was not decided; what became of it is in the body.
        error_code: ErrorCode, 0..;
        /// Offset of the metadata that the decision is in.
        metadata_offset: i64 = -1, 0..;
        body: Bytes, 0..;
        /// Whether it is the client that may not have it, by newer ACLs than the broker's that it has asked.
        is_client_denied: bool, 1..;
    }
}
