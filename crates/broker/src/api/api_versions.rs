//! ApiVersions (key 18), versions 0-4: what this broker speaks.
//!
//! Behaviour:
//! - A version that is too new is answered in version 0 with UNSUPPORTED_VERSION and the versions of ApiVersions, so
//!   that the client can ask again (KIP-511).
//! - Produce is advertised from version 0 although 0-2 are refused: librdkafka needs it (KAFKA-18659).
//! - Since version 3 it tells of features (KIP-584): the levels that this broker supports, and those that are
//!   finalized, with the metadata's offset as their epoch. A feature whose lowest level is 0 is left out of what is
//!   supported in version 3, whose clients would take it for malformed (KAFKA-17011); a feature at level 0 is not
//!   finalized.
//! - An invalid client software name or version (KIP-511) is INVALID_REQUEST.

use std::future::ready;

use metadata::MetadataImage;
use metadata::features::FEATURES;
use wire::api::Request;
use wire::api::api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use wire::api::produce::ProduceRequest;
use wire::{ErrorCode, Reader, frame};

use super::{Call, Started, served};
use crate::Broker;
use crate::close_reason::CloseReason;
use crate::frame::Frame;

pub(super) fn start(broker: &Broker, call: Call, mut reader: Reader<'_>) -> Result<Started, CloseReason> {
    let api = ApiVersionsRequest::API;
    let version = call.context.api_version;
    let frame = if api.versions.contains(&version) {
        let request = frame::read_body(&mut reader)?;
        let image = broker.metadata.load();
        call.encode::<ApiVersionsRequest>(&handle(version, call.context.is_inter_broker, &image, &request))?
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

fn handle(version: i16, to_broker: bool, image: &MetadataImage, request: &ApiVersionsRequest) -> ApiVersionsResponse {
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
    let supported = FEATURES.iter().filter(|supported| supported.min > 0 || version >= 4);
    let supported = supported.map(|supported| SupportedFeatureKey {
        name: supported.name.to_owned(),
        min_version: supported.min,
        max_version: supported.max,
    });
    let levels = FEATURES.iter().map(|supported| (supported.name, image.feature_level(supported.feature)));
    // Before it knows the metadata, a broker does not know what is finalized.
    let finalized = levels.filter(|(_, level)| *level > 0 && image.offset() >= 0);
    let finalized = finalized.map(|(name, level)| FinalizedFeatureKey {
        name: name.to_owned(),
        max_version_level: level,
        min_version_level: level,
    });
    ApiVersionsResponse {
        api_keys,
        supported_features: supported.collect(),
        finalized_features_epoch: image.offset(),
        finalized_features: finalized.collect(),
        ..Default::default()
    }
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
    use wire::state::metadata::FeatureLevelRecord;

    use super::*;
    use crate::api::test_support::{TestBroker, context};

    fn named(name: &str, version: &str) -> ApiVersionsRequest {
        ApiVersionsRequest { client_software_name: name.to_owned(), client_software_version: version.to_owned() }
    }

    fn answer(version: i16, request: &ApiVersionsRequest) -> ApiVersionsResponse {
        handle(version, false, &MetadataImage::default(), request)
    }

    fn range(response: &ApiVersionsResponse, key: i16) -> Option<(i16, i16)> {
        let api = response.api_keys.iter().find(|api| api.api_key == key)?;
        Some((api.min_version, api.max_version))
    }

    #[test]
    fn what_is_served_is_told_in_the_order_of_the_keys() {
        let response = answer(4, &named("client", "1.0"));
        assert_eq!(response.error_code, ErrorCode::NONE);
        assert!(response.api_keys.is_sorted_by(|one, next| one.api_key < next.api_key));
        assert_eq!(range(&response, ProduceRequest::API.key), Some((0, 13)), "librdkafka needs it (KAFKA-18659)");
        assert_eq!(range(&response, MetadataRequest::API.key), Some((0, 13)));
        assert_eq!(range(&response, ApiVersionsRequest::API.key), Some((0, 4)));
    }

    #[test]
    fn only_brokers_are_told_of_what_only_they_send() {
        let [to_client, to_broker] =
            [false, true].map(|to_broker| handle(4, to_broker, &MetadataImage::default(), &named("a", "1")));
        assert_eq!(range(&to_client, ConfirmSenderRequest::API.key), None);
        assert_eq!(range(&to_broker, ConfirmSenderRequest::API.key), Some((0, 0)));
        assert!(to_client.api_keys.iter().all(|api| to_broker.api_keys.contains(api)));
    }

    /// `ApiVersionsRequest.SOFTWARE_NAME_VERSION_PATTERN` of Kafka 4.3.1.
    #[test]
    fn a_client_has_a_name_and_a_version_since_version_3() {
        for good in ["a", "7", "librdkafka", "v1.2.3", "a-.-b", "A9"] {
            assert_eq!(answer(3, &named(good, good)).error_code, ErrorCode::NONE, "{good}");
        }
        for bad in ["", "-a", "a.", ".", "a b", "a_b", "ä", "a\n"] {
            for request in [named(bad, "1"), named("a", bad)] {
                let response = answer(3, &request);
                assert_eq!((response.error_code, response.api_keys.len()), (ErrorCode::INVALID_REQUEST, 0), "{bad}");
                assert_eq!(answer(2, &request).error_code, ErrorCode::NONE, "{bad}");
            }
        }
    }

    #[test]
    fn features_are_told_with_their_levels() {
        let level = |name: &str, feature_level| FeatureLevelRecord { name: name.into(), feature_level }.into();
        let records = [level("metadata.version", 30), level("transaction.version", 1)];
        let (image, _) = MetadataImage::default().apply(&records, 77, 1).unwrap();
        let response = handle(4, false, &image, &named("a", "1"));
        let supported = response.supported_features.iter();
        let supported: Vec<_> = supported.map(|of| (of.name.as_str(), of.min_version, of.max_version)).collect();
        assert!(supported.contains(&("transaction.version", 0, 2)) && supported.contains(&("kraft.version", 1, 1)));
        assert!(supported.contains(&("metadata.version", 7, 30)) && supported.contains(&("group.version", 0, 1)));
        assert!(!supported.iter().any(|(name, ..)| metadata::features::MISSING.contains(name)));
        let finalized = response.finalized_features.iter();
        let finalized: Vec<_> =
            finalized.map(|of| (of.name.as_str(), of.min_version_level, of.max_version_level)).collect();
        let fixed = [("kraft.version", 1, 1), ("eligible.leader.replicas.version", 1, 1)];
        assert_eq!(finalized[..2], [("metadata.version", 30, 30), ("transaction.version", 1, 1)]);
        assert_eq!((&finalized[2..], response.finalized_features_epoch), (&fixed[..], 77));
        // Clients of version 3 know no level 0 (KAFKA-17011).
        let older = handle(3, false, &image, &named("a", "1"));
        assert!(older.supported_features.iter().all(|of| of.min_version > 0) && older.supported_features.len() == 3);
        assert_eq!(older.finalized_features, response.finalized_features);
    }

    #[test]
    fn nothing_is_finalized_before_the_metadata_is_known() {
        let response = answer(4, &named("a", "1"));
        assert_eq!((response.finalized_features.len(), response.finalized_features_epoch), (0, -1));
        assert!(!response.supported_features.is_empty());
    }

    #[tokio::test]
    async fn a_version_that_is_not_known_is_answered_in_version_0() {
        let broker = TestBroker::without_quorum();
        for version in [5, i16::MAX, -1] {
            let call = Call { correlation_id: 7, context: context(version) };
            let unread = bytes::Bytes::from_static(b"\xff\xff\xff");
            let started = start(&broker, call, Reader::new(&unread, version, false)).expect("the body is not read");
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
