//! UpdateFeatures, and what the finalized levels change.

use std::time::Duration;

use wire::api::fetch::{FetchPartition, FetchRequest, FetchTopic};
use wire::api::find_coordinator::FindCoordinatorRequest;
use wire::api::init_producer_id::InitProducerIdRequest;
use wire::api::update_features::{FeatureUpdateKey, UpdateFeaturesRequest};
use wire::batch::Batches;
use wire::record::RecordReader;
use wire::{ErrorCode, Records};

use crate::common::{TestBroker, TestClient};

pub(crate) const UPGRADE: i8 = 1;
pub(crate) const SAFE_DOWNGRADE: i8 = 2;

/// Fetches by the topic's name.
const FETCH_VERSION: i16 = 12;

pub(crate) fn update(client: &mut TestClient, feature: &str, max_version_level: i16, upgrade_type: i8) -> ErrorCode {
    let update = FeatureUpdateKey { feature: feature.into(), max_version_level, upgrade_type, ..Default::default() };
    let request = UpdateFeaturesRequest { timeout_ms: 10_000, feature_updates: vec![update], ..Default::default() };
    client.ask(&request).error_code
}

/// A producer with a transactional id begins. Its coordinator is loaded in time, after its topic has come into being.
fn start_transactions(client: &mut TestClient) {
    let coordinator =
        FindCoordinatorRequest { key_type: 1, coordinator_keys: vec!["t".to_owned()], ..Default::default() };
    let init = InitProducerIdRequest {
        transactional_id: Some("t".to_owned()),
        transaction_timeout_ms: 1000,
        producer_id: -1,
        producer_epoch: -1,
    };
    for _ in 0..3000 {
        client.ask(&coordinator);
        let error = client.ask(&init).error_code;
        if error.is_none() {
            return;
        }
        assert!(error.is_retriable(), "{error}");
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the coordinator is not loaded");
}

/// The versions of the records in the only partition of `__transaction_state`.
fn record_versions(client: &mut TestClient) -> Vec<u8> {
    let partitions = vec![FetchPartition { partition_max_bytes: 1 << 20, ..Default::default() }];
    let topics = vec![FetchTopic { topic: "__transaction_state".to_owned(), partitions, ..Default::default() }];
    let request = FetchRequest { replica_id: -1, min_bytes: 1, session_epoch: -1, topics, ..Default::default() };
    let response = client.call(FETCH_VERSION, &request);
    let Some(Records::Inline(bytes)) = &response.responses[0].partitions[0].records else { return Vec::new() };
    let mut versions = Vec::new();
    for batch in Batches::new(bytes.clone()) {
        let batch = batch.expect("a stored batch is whole");
        let section = batch.records(1 << 20).expect("the records are well-formed");
        let values = RecordReader::new(&batch.header, &section).map(|record| record.expect("a record").value);
        versions.extend(values.map(|value| value.expect("it is no tombstone")[1]));
    }
    versions
}

#[test]
fn transactions_are_recorded_as_their_finalized_level_says() {
    let settings = [("transaction.state.log.num.partitions", "1")];
    let mut broker = TestBroker::start_with(&settings);
    let mut client = broker.connect();
    start_transactions(&mut client);
    assert_eq!(update(&mut client, "transaction.version", 0, SAFE_DOWNGRADE), ErrorCode::NONE);
    start_transactions(&mut client);
    broker.restart();
    let mut client = broker.connect();
    start_transactions(&mut client);
    assert_eq!(update(&mut client, "transaction.version", 2, UPGRADE), ErrorCode::NONE);
    start_transactions(&mut client);
    // Version 1 has tagged fields, which level 0 does not know.
    assert_eq!(record_versions(&mut client), [1, 0, 0, 1]);
}

#[test]
fn what_a_broker_does_not_support_is_not_finalized() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    for (feature, level) in [("transaction.version", 3), ("streams.version", 1), ("unknown.version", 1)] {
        let error = update(&mut client, feature, level, UPGRADE);
        assert_eq!(error, ErrorCode::INVALID_UPDATE_VERSION, "{feature}");
    }
}
