//! ApiVersions (key 18), versions 0-4: what this broker speaks.
//!
//! Behaviour:
//! - A version that is too new is answered in version 0 with UNSUPPORTED_VERSION and the versions of ApiVersions, so
//!   that the client can ask again (KIP-511).
//! - Produce is advertised from version 0 although 0-2 are refused: librdkafka needs it (KAFKA-18659).
//! - No feature levels: transactions and the consumer group protocol of KIP-848 are not there yet.
//! - An invalid client software name or version (KIP-511) is INVALID_REQUEST.

use std::future::ready;

use wire::api::Request;
use wire::api::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
use wire::api::produce::ProduceRequest;
use wire::{ErrorCode, Reader, frame};

use super::{Call, Started, served};
use crate::close_reason::CloseReason;
use crate::frame::Frame;

pub(super) fn start(call: Call, mut reader: Reader<'_>) -> Result<Started, CloseReason> {
    let api = ApiVersionsRequest::API;
    let version = call.context.api_version;
    let frame = if api.versions.contains(&version) {
        let request = frame::read_body(&mut reader)?;
        call.encode::<ApiVersionsRequest>(&handle(version, call.context.is_inter_broker, &request))?
    } else {
        let own = ApiVersion { api_key: api.key, min_version: *api.versions.start(), max_version: *api.versions.end() };
        let response = ApiVersionsResponse {
            error_code: ErrorCode::UNSUPPORTED_VERSION,
            api_keys: vec![own],
            ..Default::default()
        };
        Frame::encode(&api, 0, call.correlation_id, &response)?
    };
    Ok(Started::Other(Box::pin(ready(Ok(frame)))))
}

fn handle(version: i16, to_broker: bool, request: &ApiVersionsRequest) -> ApiVersionsResponse {
    if version >= 3 && !(is_valid(&request.client_software_name) && is_valid(&request.client_software_version)) {
        return ApiVersionsResponse { error_code: ErrorCode::INVALID_REQUEST, ..Default::default() };
    }
    let mut api_keys: Vec<ApiVersion> = served(to_broker)
        .map(|api| ApiVersion {
            api_key: api.key,
            min_version: if api.key == ProduceRequest::API.key { 0 } else { *api.versions.start() },
            max_version: *api.versions.end(),
        })
        .collect();
    api_keys.sort_by_key(|api| api.api_key);
    ApiVersionsResponse { api_keys, ..Default::default() }
}

/// `ApiVersionsRequest.isValid`: letters, digits, `-` and `.`, which may not be at the ends.
fn is_valid(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    text.chars().all(inner)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}
