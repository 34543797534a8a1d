//! `parshall cluster upgrade`: the feature levels of a cluster, after all of its nodes have another version.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde::Serialize;
use serde_json::json;

use crate::cmd::args::Connection;
use crate::cmd::output;
use crate::cmd::table::Column::{Fitted, Right};
use crate::cmd::table::table;
use crate::cmd::versions::{self, Answer};

/// Raise the feature levels of a cluster to the highest that all its brokers support.
///
/// For the end of an upgrade, when every node runs the new version: until then the cluster does nothing that the old
/// one does not know. Brokers that do not support a finalized level are refused, so that a node cannot go back to the
/// old version before the levels are lowered, with Kafka's 'kafka-features.sh downgrade'.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall cluster upgrade --dry-run
  parshall cluster upgrade --bootstrap-server kafka-1:9092,kafka-2:9092
  parshall cluster upgrade --json | jq '.features'")]
pub(super) struct Args {
    /// Look whether the cluster takes the levels, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// A feature, and its finalized level before and after.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Change {
    feature: String,
    before: i16,
    after: i16,
    /// Brokers that support no higher level, while others do.
    limited_by: Vec<i32>,
}

pub(super) async fn run(args: Args) -> Result<ExitCode> {
    let client = if args.dry_run {
        args.connection.client("cluster").await?
    } else {
        args.connection.client_for_changes("cluster").await?
    };
    let changes = changes(&versions::ask(&client, None).await?);
    if changes.is_empty() {
        bail!("the brokers of this cluster tell of no features");
    }
    let raised = changes.iter().filter(|change| change.after > change.before);
    let raised: BTreeMap<String, i16> = raised.map(|change| (change.feature.clone(), change.after)).collect();
    if !raised.is_empty() {
        client.upgrade_features(&raised, args.dry_run).await?;
    }
    if args.json {
        output::print_json(&json!({ "dry_run": args.dry_run, "features": changes }))?;
    } else {
        output::print(&text(&changes, args.dry_run))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What the levels are and what they may become, by the names of the features. A broker that does not tell of a feature
/// supports level 0 of it.
fn changes(answers: &[Answer]) -> Vec<Change> {
    // The newest levels: a broker may be behind.
    let newest = answers.iter().map(|(_, _, answer)| answer).max_by_key(|answer| answer.finalized_features_epoch);
    let finalized = |name: &str| {
        let feature = newest?.finalized_features.iter().find(|feature| feature.name == name)?;
        Some(feature.max_version_level)
    };
    let supported = answers.iter().flat_map(|(_, _, answer)| &answer.supported_features);
    let names: BTreeSet<&str> = supported.map(|feature| feature.name.as_str()).collect();
    let changes = names.into_iter().map(|name| {
        let highest = answers.iter().map(|(broker, _, answer)| {
            let feature = answer.supported_features.iter().find(|feature| feature.name == name);
            (*broker, feature.map_or(0, |feature| feature.max_version))
        });
        let highest: Vec<(i32, i16)> = highest.collect();
        let of_all = highest.iter().map(|(_, level)| *level).min().unwrap_or(0);
        let is_same = highest.iter().all(|(_, level)| *level == of_all);
        let limiting = highest.iter().filter(|(_, level)| *level == of_all && !is_same);
        let before = finalized(name).unwrap_or(0);
        Change {
            feature: name.to_owned(),
            before,
            after: of_all.max(before),
            limited_by: limiting.map(|(broker, _)| *broker).collect(),
        }
    });
    changes.collect()
}

fn text(changes: &[Change], is_dry_run: bool) -> String {
    let mut rows = vec![["FEATURE", "BEFORE", "AFTER"].map(str::to_owned)];
    rows.extend(
        changes.iter().map(|change| [change.feature.clone(), change.before.to_string(), change.after.to_string()]),
    );
    let mut text = table(&rows, &[Fitted(0), Right(0), Right(0)], "  ");
    for Change { feature, after, limited_by, .. } in changes.iter().filter(|change| !change.limited_by.is_empty()) {
        let s = if limited_by.len() == 1 { "" } else { "s" };
        let brokers: Vec<_> = limited_by.iter().map(ToString::to_string).collect();
        let feature = output::visible(feature);
        text.push_str(&format!("{feature}: no level above {after} is supported by broker{s} {}\n", brokers.join(", ")));
    }
    text.push_str(match (changes.iter().any(|change| change.after > change.before), is_dry_run) {
        (false, _) => "no level is to be raised\n",
        (true, true) => "the levels can be raised; this was a dry run\n",
        (true, false) => "the levels are raised\n",
    });
    text
}

#[cfg(test)]
mod tests {
    use wire::api::api_versions::{ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey};

    use super::*;

    fn answer(broker: i32, epoch: i64, supported: &[(&str, i16)], finalized: &[(&str, i16)]) -> Answer {
        let supported = supported.iter().map(|(name, max_version)| SupportedFeatureKey {
            name: (*name).to_owned(),
            min_version: 0,
            max_version: *max_version,
        });
        let finalized = finalized.iter().map(|(name, level)| FinalizedFeatureKey {
            name: (*name).to_owned(),
            max_version_level: *level,
            min_version_level: *level,
        });
        let response = ApiVersionsResponse {
            supported_features: supported.collect(),
            finalized_features_epoch: epoch,
            finalized_features: finalized.collect(),
            ..Default::default()
        };
        (broker, String::new(), response)
    }

    fn change(feature: &str, before: i16, after: i16, limited_by: &[i32]) -> Change {
        Change { feature: feature.to_owned(), before, after, limited_by: limited_by.to_vec() }
    }

    #[test]
    fn levels_are_raised_as_far_as_all_brokers_go() {
        let answers = [
            answer(1, 5, &[("a", 2), ("b", 3), ("c", 1)], &[]),
            answer(2, 9, &[("a", 2), ("b", 1)], &[("a", 1), ("c", 1)]),
            answer(3, 7, &[("a", 2), ("b", 1), ("c", 1)], &[("a", 2)]),
        ];
        let expected = [change("a", 1, 2, &[]), change("b", 0, 1, &[2, 3]), change("c", 1, 1, &[2])];
        assert_eq!(changes(&answers), expected);
        assert_eq!(changes(&[]), []);
    }

    #[test]
    fn what_becomes_of_each_feature_is_said() {
        let changes = [change("a", 1, 2, &[]), change("longer", 0, 0, &[2, 3])];
        let expected = "FEATURE  BEFORE  AFTER\na             1      2\nlonger        0      0\n\
                        longer: no level above 0 is supported by brokers 2, 3\n";
        assert_eq!(text(&changes, false), format!("{expected}the levels are raised\n"));
        assert_eq!(text(&changes, true), format!("{expected}the levels can be raised; this was a dry run\n"));
        assert!(text(&changes[1..], false).ends_with("no level is to be raised\n"));
    }
}
