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

#[cfg(test)]
mod tests {
    use wire::api::confirm_sender::ConfirmSenderRequest;
    use wire::api::metadata::MetadataRequest;

    use super::*;
    use crate::api::test_support::context;

    fn named(name: &str, version: &str) -> ApiVersionsRequest {
        ApiVersionsRequest { client_software_name: name.to_owned(), client_software_version: version.to_owned() }
    }

    fn range(response: &ApiVersionsResponse, key: i16) -> Option<(i16, i16)> {
        let api = response.api_keys.iter().find(|api| api.api_key == key)?;
        Some((api.min_version, api.max_version))
    }

    #[test]
    fn what_is_served_is_told_in_the_order_of_the_keys() {
        let response = handle(4, false, &named("client", "1.0"));
        assert_eq!(response.error_code, ErrorCode::NONE);
        assert!(response.api_keys.is_sorted_by(|one, next| one.api_key < next.api_key));
        assert_eq!(range(&response, ProduceRequest::API.key), Some((0, 13)), "librdkafka needs it (KAFKA-18659)");
        assert_eq!(range(&response, MetadataRequest::API.key), Some((0, 13)));
        assert_eq!(range(&response, ApiVersionsRequest::API.key), Some((0, 4)));
    }

    #[test]
    fn only_brokers_are_told_of_what_only_they_send() {
        let (to_client, to_broker) = (handle(4, false, &named("a", "1")), handle(4, true, &named("a", "1")));
        assert_eq!(range(&to_client, ConfirmSenderRequest::API.key), None);
        assert_eq!(range(&to_broker, ConfirmSenderRequest::API.key), Some((0, 0)));
        assert!(to_client.api_keys.iter().all(|api| to_broker.api_keys.contains(api)));
    }

    /// `ApiVersionsRequest.SOFTWARE_NAME_VERSION_PATTERN` of Kafka 4.3.1.
    #[test]
    fn a_client_has_a_name_and_a_version_since_version_3() {
        for good in ["a", "7", "librdkafka", "v1.2.3", "a-.-b", "A9"] {
            assert_eq!(handle(3, false, &named(good, good)).error_code, ErrorCode::NONE, "{good}");
        }
        for bad in ["", "-a", "a.", ".", "a b", "a_b", "ä", "a\n"] {
            for request in [named(bad, "1"), named("a", bad)] {
                let response = handle(3, false, &request);
                assert_eq!((response.error_code, response.api_keys.len()), (ErrorCode::INVALID_REQUEST, 0), "{bad}");
                assert_eq!(handle(2, false, &request).error_code, ErrorCode::NONE, "{bad}");
            }
        }
    }

    #[tokio::test]
    async fn a_version_that_is_not_known_is_answered_in_version_0() {
        for version in [5, i16::MAX, -1] {
            let call = Call { correlation_id: 7, context: context(version) };
            let unread = bytes::Bytes::from_static(b"\xff\xff\xff");
            let started = start(call, Reader::new(&unread, version, false)).expect("the body is not read");
            let Started::Other(answer) = started else { panic!("it is no Produce") };
            let frame = answer.await.expect("it is answered").into_bytes();
            let (correlation_id, response) =
                frame::read_response::<ApiVersionsRequest>(&frame.slice(4..), 0).expect("it is of version 0");
            assert_eq!((correlation_id, response.error_code), (7, ErrorCode::UNSUPPORTED_VERSION));
            let own = ApiVersion { api_key: 18, min_version: 0, max_version: 4 };
            assert_eq!(response.api_keys, [own]);
        }
    }
}
