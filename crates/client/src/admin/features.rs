//! Levels of the features of a cluster (KIP-584).

use std::collections::BTreeMap;

use wire::api::update_features::{FeatureUpdateKey, UpdateFeaturesRequest};

use super::TIMEOUT_MS;
use crate::{Client, ClientError, ConnectionError};

/// Since this version UpdateFeatures can only look whether levels are possible.
const UPDATE_FEATURES_VALIDATES: i16 = 1;
/// `FeatureUpdate.UpgradeType`.
const UPGRADE: i8 = 1;

impl Client {
    /// Raises features to these levels. With `validate_only` nothing is changed: it is only looked whether they could
    /// be.
    pub async fn upgrade_features(
        &self,
        levels: &BTreeMap<String, i16>,
        validate_only: bool,
    ) -> Result<(), ClientError> {
        if validate_only {
            let connection = self.any_broker().await?;
            // It would be done.
            if connection.version::<UpdateFeaturesRequest>()? < UPDATE_FEATURES_VALIDATES {
                let address = connection.address().to_owned();
                return Err(ConnectionError::Unsupported { address, api: "an UpdateFeatures without effect" }.into());
            }
        }
        let updates = levels.iter().map(|(feature, level)| FeatureUpdateKey {
            feature: feature.clone(),
            max_version_level: *level,
            upgrade_type: UPGRADE,
            ..Default::default()
        });
        let request =
            UpdateFeaturesRequest { timeout_ms: TIMEOUT_MS, feature_updates: updates.collect(), validate_only };
        let response = self.send_to_controller(&request, |response| response.error_code).await?;
        let subject = || "the features of the cluster".to_owned();
        ClientError::check(subject, response.error_code, response.error_message.as_deref())?;
        response.results.iter().try_for_each(|result| {
            ClientError::check(|| result.feature.clone(), result.error_code, result.error_message.as_deref())
        })
    }
}
