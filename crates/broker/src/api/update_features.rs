//! UpdateFeatures (key 57), versions 0-2: finalize, raise and lower levels of features (KIP-584).
//!
//! Behaviour:
//! - Needs: ALTER on the cluster (CLUSTER_AUTHORIZATION_FAILED).
//! - All levels are finalized, or none: then the answer has the error of the first that is refused.
//! - Versions before 2 have a result for each feature, too.
//! - Version 0 says whether a level may be lowered; since version 1 an update has a type. Kafka's controller takes all
//!   updates of version 0 for upgrades.
//! - Features of Kafka that Parshall does not have are left out of an update to a release: see
//!   [`metadata::changes::features`].

use std::sync::Arc;

use metadata::changes::features::SAFE_DOWNGRADE;
use wire::ErrorCode;
use wire::api::update_features::{UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse};

use super::{RequestContext, controlled};
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    mut request: UpdateFeaturesRequest,
) -> UpdateFeaturesResponse {
    for update in request.feature_updates.iter_mut().filter(|update| update.allow_downgrade) {
        update.upgrade_type = SAFE_DOWNGRADE;
    }
    let names: Vec<String> = request.feature_updates.iter().map(|update| update.feature.clone()).collect();
    let timeout_ms = request.timeout_ms;
    let answer = controlled::within(timeout_ms, context.ask_controller(broker, request)).await;
    let mut answer = answer.unwrap_or_else(|error_code| UpdateFeaturesResponse { error_code, ..Default::default() });
    if let Some(reason) = answer.error_message.as_mut() {
        *reason = format!("The update failed for all features since the following feature had an error: {reason}");
    } else if answer.error_code.is_none() && context.api_version <= 1 {
        let updated = |feature| UpdatableFeatureResult { feature, ..Default::default() };
        answer.results = names.into_iter().map(updated).collect();
    }
    answer
}

/// The answer to who may not.
pub(super) fn refused(_: &UpdateFeaturesRequest, error_code: ErrorCode) -> UpdateFeaturesResponse {
    UpdateFeaturesResponse { error_code, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use metadata::Feature;
    use wire::api::update_features::FeatureUpdateKey;
    use wire::state::metadata::{BrokerFeature, FeatureLevelRecord, RegisterBrokerRecord};

    use super::*;
    use crate::api::test_support::{NODE_ID, TestBroker, context, registration};

    async fn start() -> TestBroker {
        let broker = TestBroker::start().await;
        let feature =
            BrokerFeature { name: "transaction.version".into(), min_supported_version: 0, max_supported_version: 2 };
        let level = FeatureLevelRecord { name: "transaction.version".into(), feature_level: 1 };
        let registered = RegisterBrokerRecord { features: vec![feature], ..registration(NODE_ID) };
        broker.commit([registered.into(), level.into()]).await;
        broker
    }

    fn to(max_version_level: i16) -> UpdateFeaturesRequest {
        let feature =
            FeatureUpdateKey { feature: "transaction.version".into(), max_version_level, ..Default::default() };
        UpdateFeaturesRequest { feature_updates: vec![feature], ..Default::default() }
    }

    fn level(broker: &TestBroker) -> i16 {
        broker.metadata.load().feature_level(Feature::TransactionVersion)
    }

    #[tokio::test]
    async fn a_level_is_raised_and_each_version_is_answered_in_its_own_form() {
        for (version, results) in [(0, 1), (1, 1), (2, 0)] {
            let broker = start().await;
            let answer = handle(&broker, &context(version), to(2)).await;
            assert_eq!((answer.error_code, answer.error_message), (ErrorCode::NONE, None));
            assert_eq!(answer.results.len(), results, "version {version}");
            assert!(answer.results.iter().all(|result| result.feature == "transaction.version"));
            assert_eq!(level(&broker), 2);
        }
    }

    #[tokio::test]
    async fn a_refusal_is_of_all_features() {
        let broker = start().await;
        for version in 0..=2 {
            let answer = handle(&broker, &context(version), to(3)).await;
            assert_eq!((answer.error_code, answer.results.len()), (ErrorCode::INVALID_UPDATE_VERSION, 0));
            let message = answer.error_message.expect("it says why");
            assert!(message.starts_with("The update failed for all features since"), "{message}");
            assert!(message.contains("Invalid update version 3 for feature transaction.version"), "{message}");
        }
        assert_eq!(level(&broker), 1);
    }

    #[tokio::test]
    async fn version_0_says_whether_a_level_may_be_lowered() {
        let broker = start().await;
        assert_eq!(handle(&broker, &context(0), to(0)).await.error_code, ErrorCode::INVALID_UPDATE_VERSION);
        let mut request = to(0);
        request.feature_updates[0].allow_downgrade = true;
        assert_eq!(handle(&broker, &context(0), request).await.error_code, ErrorCode::NONE);
        assert_eq!(level(&broker), 0);
    }

    #[tokio::test]
    async fn without_a_controller_there_is_no_result() {
        let request = UpdateFeaturesRequest { timeout_ms: 1, ..to(2) };
        let answer = handle(&TestBroker::without_quorum(), &context(1), request).await;
        assert!(!answer.error_code.is_none() && answer.results.is_empty());
    }
}
