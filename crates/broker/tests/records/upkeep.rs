//! What a broker does by itself: retention, compaction, removal of what was deleted, and side files that are garbage.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use wire::ErrorCode;
use wire::api::incremental_alter_configs::{AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest};
use wire::batch::BatchBuilder;

use crate::common::{TestBroker, TestClient};
use crate::{append, batch, create, fetch, read};

/// Looks until it is so. Slow machines take longer, and no wrong broker gets it right by waiting.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(50));
    }
    panic!("{what} did not happen in a minute");
}

fn set(client: &mut TestClient, name: &str, value: &str) {
    set_of(client, (2, "t"), name, value);
}

fn set_for_all_brokers(client: &mut TestClient, name: &str, value: &str) {
    set_of(client, (4, ""), name, value);
}

fn set_of(client: &mut TestClient, (resource_type, resource_name): (i8, &str), name: &str, value: &str) {
    let config = AlterableConfig { name: name.into(), config_operation: 0, value: Some(value.into()) };
    let resource = AlterConfigsResource { resource_type, resource_name: resource_name.into(), configs: vec![config] };
    let response = client.ask(&IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false });
    assert_eq!(response.responses[0].error_code, ErrorCode::NONE, "{:?}", response.responses[0].error_message);
}

fn log_start(client: &mut TestClient) -> i64 {
    let end = fetch(client, i64::MAX - 1);
    assert_eq!(end.error_code, ErrorCode::OFFSET_OUT_OF_RANGE);
    let request = wire::api::list_offsets::ListOffsetsRequest {
        replica_id: -1,
        topics: vec![wire::api::list_offsets::ListOffsetsTopic {
            name: "t".into(),
            partitions: vec![wire::api::list_offsets::ListOffsetsPartition {
                timestamp: -2,
                current_leader_epoch: -1,
                ..Default::default()
            }],
        }],
        ..Default::default()
    };
    client.call(7, &request).topics[0].partitions[0].offset
}

#[test]
fn retention_by_size_is_changed_live() {
    let broker = TestBroker::start_with(&[("log.retention.check.interval.ms", "50")]);
    let mut client = broker.connect();
    create(&mut client, 1, &[("segment.bytes", "1048576")]);
    let value = "x".repeat(100_000);
    for _ in 0..40 {
        assert_eq!(append(&mut client, &batch(&[&value])).0, ErrorCode::NONE);
    }
    assert_eq!(log_start(&mut client), 0);
    set(&mut client, "retention.bytes", "1500000");
    until("retention", || log_start(&mut client) > 0);
    let start = log_start(&mut client);
    assert_eq!(fetch(&mut client, start - 1).error_code, ErrorCode::OFFSET_OUT_OF_RANGE);
    assert_eq!(read(&mut client, start).len() as i64, 40 - start);
}

#[test]
fn compaction_keeps_the_latest_value_of_each_key() {
    // The cleaner's pace can be changed while it rests.
    let broker = TestBroker::start_with(&[("log.cleaner.backoff.ms", "3600000")]);
    let mut client = broker.connect();
    set_for_all_brokers(&mut client, "log.cleaner.backoff.ms", "50");
    create(
        &mut client,
        1,
        &[("cleanup.policy", "compact"), ("segment.bytes", "1048576"), ("min.cleanable.dirty.ratio", "0.01")],
    );
    let padding = "x".repeat(50_000);
    for n in 0..60 {
        let mut builder = BatchBuilder::new();
        let key = format!("key-{}", n % 3);
        builder.push(1_700_000_000_000, Some(key.as_bytes()), Some(format!("{n} {padding}").as_bytes()), &[]);
        assert_eq!(append(&mut client, &builder.build()).0, ErrorCode::NONE);
    }
    until("compaction", || read(&mut client, 0).len() < 30);
    let found = read(&mut client, 0);
    let (last_offset, last) = found.last().expect("the active segment stays");
    assert_eq!((*last_offset, last.split(' ').next()), (59, Some("59")));
    let mut builder = BatchBuilder::new();
    builder.push(1, None, Some(b"no key"), &[]);
    assert_eq!(append(&mut client, &builder.build()).0, ErrorCode::INVALID_RECORD);
}

#[test]
fn garbage_in_side_files_costs_nothing() {
    let mut broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[("segment.bytes", "1048576")]);
    for _ in 0..30 {
        append(&mut client, &batch(&[&"x".repeat(100_000)]));
    }
    broker.stop();
    let data_dir = broker.data_dir().to_owned();
    let mut spoiled = 0;
    for dir in [data_dir.clone(), data_dir.join("t-0")] {
        for entry in std::fs::read_dir(&dir).expect("the directory is readable") {
            let path = entry.expect("the directory is readable").path();
            if is_side_file(&path) {
                std::fs::write(&path, [0xa5; 50]).expect("the file can be written");
                spoiled += 1;
            }
        }
    }
    assert!(spoiled > 6, "only {spoiled} side files");
    broker.restart();
    let mut client = broker.connect();
    assert_eq!(read(&mut client, 0).len(), 30);
    assert_eq!(append(&mut client, &batch(&["next"])), (ErrorCode::NONE, 30));
}

fn is_side_file(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    ["index", "timeindex", "snapshot"].iter().any(|suffix| name.ends_with(suffix)) || name.ends_with("-checkpoint")
}

#[test]
fn what_a_crash_left_in_the_cache_is_brought_to_the_disk() {
    let mut broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[]);
    for _ in 0..3 {
        assert_eq!(append(&mut client, &batch(&["x"])).0, ErrorCode::NONE);
    }
    broker.stop();
    // As a kill would leave it: the records are there, and nothing says that they are on disk.
    let checkpoint = broker.data_dir().join("recovery-point-offset-checkpoint");
    for name in [".kafka_cleanshutdown", "recovery-point-offset-checkpoint"] {
        std::fs::remove_file(broker.data_dir().join(name)).expect("the file is there");
    }
    broker.restart();
    until("the flush", || std::fs::read_to_string(&checkpoint).is_ok_and(|text| text.contains("t 0 3")));
}
