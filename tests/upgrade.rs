//! Data directories that released versions have left behind are those of this version.

use std::path::Path;
use std::process::Command;

mod common;

use common::Broker;

/// A broker of this version on what another has left behind: `0.1.0-killed`.
fn broker_on(name: &str) -> Broker {
    let archives = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data_directories");
    let data_dir = tempfile::tempdir().unwrap();
    let mut unpack = Command::new("tar");
    unpack.args(["--extract", "--gzip", "--strip-components=1", "--file"]).arg(archives.join(format!("{name}.tar.gz")));
    assert!(unpack.arg("--directory").arg(data_dir.path()).status().unwrap().success(), "{name}");
    // Offsets of a group without members expire in time, and these are old.
    Broker::start_in(data_dir, &["--console", "off", "--set", "offsets.retention.minutes=2147483647"])
}

fn comes_along(name: &str) {
    let mut broker = broker_on(name);
    for is_second_start in [false, true] {
        let values = broker.values("orders");
        for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
            let of_codec = values.iter().filter(|value| value.starts_with(codec)).count();
            // The first ten of a partition were deleted; what was killed may not have noted that yet.
            assert!((90..=100).contains(&of_codec), "{name}: {of_codec} records with {codec}");
        }
        let deleted = 500 - values.iter().filter(|value| !value.starts_with("new")).count();
        assert!(deleted == 10 || deleted == 0 && name.ends_with("-killed"), "{name}: {deleted} are gone");

        let latest = broker.ok(&["consume", "latest", "--from-beginning", "--until-end", "--json"]);
        let last: serde_json::Value = serde_json::from_str(latest.lines().last().unwrap()).unwrap();
        assert_eq!((&last["key"], &last["value"]), (&"b".into(), &"".into()), "{name}: {latest}");

        let offsets = broker.ok(&["group", "describe", "billing", "--json"]);
        let offsets: serde_json::Value = serde_json::from_str(&offsets).unwrap();
        let offsets = offsets[0]["offsets"].as_array().unwrap();
        let committed: i64 = offsets.iter().map(|offset| offset["current_offset"].as_i64().unwrap()).sum();
        assert_eq!(committed, 500, "{name}: {offsets:?}");
        assert!(broker.ok(&["config", "describe", "broker", "default"]).contains("message.max.bytes=2000000"));
        assert!(broker.ok(&["topic", "describe", "orders"]).contains("retention.ms=-1"));

        if !is_second_start {
            // It goes on, and what this version writes is there beside it.
            broker.ok_with(&["produce", "orders", "--partition", "1"], "new\n");
            broker.ok(&["topic", "create", "another"]);
            broker.kill_and_restart();
            assert!(broker.values("orders").contains(&"new".to_owned()), "{name}");
        }
    }
    broker.ok(&["dump", broker.data_dir.path().to_str().unwrap()]);
}

#[test]
fn a_directory_of_0_1_0_that_was_stopped_comes_along() {
    comes_along("0.1.0-stopped");
}

#[test]
fn a_directory_of_0_1_0_that_was_killed_comes_along() {
    comes_along("0.1.0-killed");
}

/// The finalized levels of these features.
fn levels<const N: usize>(broker: &Broker, names: [&str; N]) -> [i64; N] {
    let features: serde_json::Value = serde_json::from_str(&broker.ok(&["features", "--json"])).unwrap();
    let features = features[0]["features"].as_array().unwrap();
    let level =
        |name: &str| features.iter().find(|of| of["feature"] == name).unwrap()["finalized_version_level"].as_i64();
    names.map(|name| level(name).unwrap())
}

#[test]
fn levels_of_features_stay_until_they_are_raised() {
    const NAMES: [&str; 3] = ["metadata.version", "transaction.version", "group.version"];
    let mut broker = broker_on("0.1.0-stopped");
    assert_eq!(levels(&broker, NAMES), [30, 0, 0]);
    assert!(broker.ok(&["cluster", "upgrade", "--dry-run"]).ends_with("this was a dry run\n"));
    assert_eq!(levels(&broker, NAMES), [30, 0, 0]);
    let upgraded: serde_json::Value = serde_json::from_str(&broker.ok(&["cluster", "upgrade", "--json"])).unwrap();
    let of_transactions =
        serde_json::json!({ "feature": "transaction.version", "before": 0, "after": 2, "limited_by": [] });
    assert!(upgraded["features"].as_array().unwrap().contains(&of_transactions), "{upgraded}");
    assert_eq!((levels(&broker, NAMES), &upgraded["dry_run"]), ([30, 2, 1], &false.into()));
    broker.kill_and_restart();
    assert_eq!(levels(&broker, NAMES), [30, 2, 1]);
    assert!(broker.ok(&["cluster", "upgrade"]).ends_with("no level is to be raised\n"));
}

#[test]
fn a_new_cluster_starts_at_the_highest_levels() {
    let broker = Broker::start();
    assert_eq!(levels(&broker, ["transaction.version", "group.version", "kraft.version"]), [2, 1, 1]);
    assert!(broker.ok(&["cluster", "upgrade"]).ends_with("no level is to be raised\n"));
}
