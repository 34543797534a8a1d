//! `parshall api-versions` and `parshall features`: what brokers speak, and which feature levels a cluster has.

use std::collections::BTreeMap;

use anyhow::Result;
use client::Client;
use serde::Serialize;
use serde_json::json;
use wire::api::api_versions::{ApiVersionsRequest, ApiVersionsResponse};

use super::args::Connection;
use super::output;
use super::table::Column::{Fitted, Right};
use super::table::table;

/// Show the APIs of each broker, the versions that it speaks, and the one that this program would use.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall api-versions
  parshall api-versions --broker 2
  parshall api-versions --json")]
pub(crate) struct ApiVersions {
    /// Ask only this broker
    #[arg(long, value_name = "ID")]
    broker: Option<i32>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Show the features of each broker: the levels that it supports, and the finalized one.
///
/// A broker that tells of none has none to be changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall features
  parshall features --json")]
pub(crate) struct Features {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Serialize)]
struct Api {
    key: i16,
    /// `None` where this program does not know it.
    name: Option<&'static str>,
    min_version: i16,
    max_version: i16,
    /// What both speak.
    usable_version: Option<i16>,
}

#[derive(Serialize)]
struct Feature<'a> {
    feature: &'a str,
    supported_min_version: i16,
    supported_max_version: i16,
    finalized_version_level: i16,
    epoch: i64,
}

/// A broker, its address, and what it answers.
pub(crate) type Answer = (i32, String, ApiVersionsResponse);

pub(crate) async fn ask(client: &Client, only: Option<i32>) -> Result<Vec<Answer>> {
    let request = ApiVersionsRequest {
        client_software_name: "parshall".to_owned(),
        client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let ids = match only {
        Some(id) => vec![id],
        None => BTreeMap::from_iter(client.brokers().await?).into_keys().collect(),
    };
    let mut answers = Vec::new();
    for broker in ids {
        let connection = client.broker(broker).await?;
        let answer = connection.send(&request).await.map_err(client::ClientError::from)?;
        answers.push((broker, connection.address().to_owned(), answer));
    }
    Ok(answers)
}

fn apis(answer: &ApiVersionsResponse) -> Vec<Api> {
    let apis = answer.api_keys.iter().map(|theirs| {
        let ours = wire::api::find(theirs.api_key);
        Api {
            key: theirs.api_key,
            name: ours.map(|ours| ours.name),
            min_version: theirs.min_version,
            max_version: theirs.max_version,
            usable_version: ours.and_then(|ours| ours.highest_common_version(theirs.min_version, theirs.max_version)),
        }
    });
    apis.collect()
}

fn features(answer: &ApiVersionsResponse) -> Vec<Feature<'_>> {
    let finalized = |name: &str| answer.finalized_features.iter().find(|feature| feature.name == name);
    let supported = answer.supported_features.iter().map(|feature| Feature {
        feature: &feature.name,
        supported_min_version: feature.min_version,
        supported_max_version: feature.max_version,
        finalized_version_level: finalized(&feature.name).map_or(0, |feature| feature.max_version_level),
        epoch: answer.finalized_features_epoch,
    });
    supported.collect()
}

pub(crate) async fn api_versions(args: ApiVersions) -> Result<()> {
    let client = args.connection.client("api-versions").await?;
    let answers = ask(&client, args.broker).await?;
    if args.json {
        let row =
            |(broker, address, answer): &Answer| json!({ "broker": broker, "address": address, "apis": apis(answer) });
        return Ok(output::print_json(&answers.iter().map(row).collect::<Vec<_>>())?);
    }
    for (broker, address, answer) in &answers {
        let mut rows = vec![["API", "KEY", "VERSIONS", "USED"].map(str::to_owned)];
        rows.extend(apis(answer).iter().map(|api| {
            [
                api.name.unwrap_or("unknown").to_owned(),
                api.key.to_string(),
                format!("{}-{}", api.min_version, api.max_version),
                api.usable_version.map_or_else(|| "-".to_owned(), |version| version.to_string()),
            ]
        }));
        output::print(&format!("broker {broker}, {address}\n"))?;
        output::print(&table(&rows, &[Fitted(0), Right(0), Right(0), Right(0)], "  "))?;
    }
    Ok(())
}

pub(crate) async fn show_features(args: Features) -> Result<()> {
    let client = args.connection.client("features").await?;
    let answers = ask(&client, None).await?;
    if args.json {
        let row = |(broker, address, answer): &Answer| json!({ "broker": broker, "address": address, "features": features(answer) });
        return Ok(output::print_json(&answers.iter().map(row).collect::<Vec<_>>())?);
    }
    let mut text = String::new();
    for (broker, _, answer) in &answers {
        let features = features(answer);
        if features.is_empty() {
            text.push_str(&format!("broker {broker} tells of no features\n"));
        }
        for feature in &features {
            // As kafka-features.sh describe.
            text.push_str(&format!(
                "Feature: {}\tSupportedMinVersion: {}\tSupportedMaxVersion: {}\tFinalizedVersionLevel: {}\t\
                 Epoch: {}\tBroker: {broker}\n",
                output::visible(feature.feature),
                feature.supported_min_version,
                feature.supported_max_version,
                feature.finalized_version_level,
                feature.epoch
            ));
        }
    }
    Ok(output::print(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::api::api_versions::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};

    #[test]
    fn what_both_speak_is_used() {
        let api = |(api_key, min_version, max_version)| ApiVersion { api_key, min_version, max_version };
        let api_keys = [(3, 0, 99), (18, 90, 99), (999, 0, 1)].map(api).to_vec();
        let apis = apis(&ApiVersionsResponse { api_keys, ..Default::default() });
        let usable: Vec<_> = apis.iter().map(|api| (api.name, api.usable_version)).collect();
        let metadata = wire::api::find(3).map(|api| *api.versions.end());
        assert_eq!(usable, [(Some("Metadata"), metadata), (Some("ApiVersions"), None), (None, None)]);
    }

    #[test]
    fn a_feature_that_is_not_finalized_has_level_0() {
        let supported = |name: &str| SupportedFeatureKey { name: name.to_owned(), min_version: 0, max_version: 2 };
        let finalized =
            FinalizedFeatureKey { name: "group.version".to_owned(), max_version_level: 1, min_version_level: 1 };
        let response = ApiVersionsResponse {
            supported_features: vec![supported("group.version"), supported("share.version")],
            finalized_features: vec![finalized],
            ..Default::default()
        };
        let levels = features(&response).into_iter().map(|of| (of.feature, of.finalized_version_level));
        let expected = [("group.version", 1), ("share.version", 0)];
        assert_eq!(levels.collect::<Vec<_>>(), expected);
    }
}
