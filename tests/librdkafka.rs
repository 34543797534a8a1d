//! The engine librdkafka of `parshall perf produce` and of the lab, against a broker of our own. For a binary that is
//! built with it: `cargo test --features librdkafka --test librdkafka`.
#![cfg(feature = "librdkafka")]

use std::path::Path;

mod common;

use common::Broker;
use serde_json::Value;

fn produce(broker: &Broker, args: &[&str]) -> Value {
    let base = ["perf", "produce", "--engine", "librdkafka", "--topic", "t", "--output", "json"];
    serde_json::from_str(&broker.ok(&[&base[..], args].concat())).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "a test has files")]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

#[test]
fn the_broker_holds_what_librdkafka_has_delivered() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "3"]);
    let mut held = 0;
    for (acks, compression) in [("all", "lz4"), ("1", "snappy"), ("0", "none")] {
        let props = [&format!("acks={acks}"), &format!("compression.type={compression}"), "linger.ms=1"];
        let base = ["--producers", "2", "--num-records", "5000", "--record-size", "10-200", "-H", "a=b"];
        let keys = ["--key-distribution", "random", "--record-key-range", "50", "--producer-props"];
        let result = produce(&broker, &[&base[..], &keys, &props].concat());
        assert_eq!((&result["total"]["records"], &result["failures"]), (&5000.into(), &serde_json::json!({})));
        held += 5000;
        // What is sent with acks=0 may still be on its way.
        let values = std::iter::repeat_with(|| broker.values("t")).find(|values| values.len() >= held).unwrap();
        assert_eq!(values.len(), held);
        assert!(values.iter().all(|value| (10..=200).contains(&value.len())));
    }
    let record = broker.ok(&["consume", "t", "--from-beginning", "--max-messages", "1", "--json"]);
    let record: Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["headers"], serde_json::json!([["a", "b"]]));
    assert!(record["key"].as_str().unwrap().parse::<u8>().unwrap() < 50);
}

#[test]
fn librdkafkas_records_count_from_when_they_were_due() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t"]);
    let rate = ["--record-size", "100", "--throughput", "1000", "--duration", "2s", "--warmup-records", "500"];
    let result = produce(&broker, &rate);
    // All that was due within the time, neither more nor less.
    assert_eq!((&result["total"]["records"], &result["steady_state"]["records"]), (&2000.into(), &1500.into()));
    assert_eq!(result["latency_counts_from"], "when a record was due");
}

#[test]
fn librdkafka_waits_for_room_and_counts_what_is_too_large() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t"]);
    let small = ["--num-records", "3000", "--record-size", "5000", "--producer-props", "buffer.memory=1048576"];
    assert_eq!(produce(&broker, &small)["total"]["records"], 3000);
    let base = ["perf", "produce", "--engine", "librdkafka", "--topic", "t", "--output", "json"];
    let large =
        ["--num-records", "10", "--record-size", "2000:1,500000:1", "--producer-props", "max.request.size=100000"];
    let output = broker.run(&[&base[..], &large].concat(), "");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let failed = result["failures"]["MESSAGE_TOO_LARGE"].as_u64().unwrap();
    assert_eq!(result["total"]["records"].as_u64().unwrap() + failed, 10, "{result}");
}

#[test]
fn librdkafkas_requests_are_told_to_the_verdict() {
    let broker = Broker::start();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine.toml");
    let scenario = r#"
        name = "n"
        title = "t"
        [defaults]
        engine = "librdkafka"
        record_size_bytes = 100
        duration_s = 2
        warm_up_s = 1
        rate_records_per_s = 2000
        [[case]]
        id = "single"
        producer."batch.size" = 0
        [[case]]
        id = "batched"
        consumers = 1
        producer."linger.ms" = 50
    "#;
    write(&path, scenario);
    let out = dir.path().join("results");
    let lab = ["lab", "run", path.to_str().unwrap(), "--out", out.to_str().unwrap(), "--json"];
    let results: Value =
        serde_json::from_str(&broker.ok(&[&lab[..], &["--bootstrap-server", &broker.address]].concat())).unwrap();
    let measured = |at: usize| &results["cases"][at]["outcome"]["measured"];
    for at in 0..2 {
        assert_eq!(measured(at)["produced"]["records"], 4000, "{}", results["cases"][at]["outcome"]);
        assert_eq!(measured(at)["failures"], serde_json::json!({}));
    }
    // The last part of a second is an estimate: what matters is one record in each request, or many.
    let [single, batched] = [0, 1].map(|at| measured(at)["produced"]["requests"].as_u64().unwrap());
    assert!(batched > 0 && single > 4 * batched, "{single}, {batched}");
    assert!(measured(1)["consumed"]["records"].as_u64() > Some(0));
}

#[test]
fn what_librdkafka_does_not_do_is_one_line() {
    let broker = Broker::start();
    let base =
        ["perf", "produce", "--engine", "librdkafka", "--topic", "t", "--num-records", "1", "--record-size", "1"];
    let security = ["--producer-props", "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN"];
    let jaas = "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username=\"a\" \
                password=\"b\";";
    for (args, expected) in [
        (&["--producer-props", "buffer.memory=1000"][..], "engine librdkafka does not take buffer.memory: "),
        (&["--transactional-id", "x"], "engine librdkafka has no transactions"),
        (&["--print-metrics"], "--print-metrics needs engine client or raw"),
        (&["--producers", "300"], "300 producers are too many for engine librdkafka"),
        (&[&security[..], &[jaas]].concat(), "engine librdkafka connects with security.protocol=PLAINTEXT only"),
    ] {
        let output = broker.run(&[&base[..], args].concat(), "");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && text.lines().count() == 1 && text.contains(expected), "{text}");
    }
}
