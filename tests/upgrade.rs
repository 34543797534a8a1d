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
