//! `parshall perf` against a broker of our own, both as processes.

use std::process::Output;
use std::time::Duration;

mod common;

use common::{Broker, signal};

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    })
}

fn count(broker: &Broker, topic: &str) -> usize {
    broker.values(topic).len()
}

#[test]
fn the_broker_holds_what_several_producers_say_they_have_sent() {
    let broker = Broker::start();
    for topic in ["a", "b"] {
        broker.ok(&["topic", "create", topic, "--partitions", "3"]);
    }
    for (engine, acks) in
        [("client", "all"), ("client", "1"), ("client", "0"), ("raw", "all"), ("raw", "1"), ("raw", "0")]
    {
        let before = [count(&broker, "a"), count(&broker, "b")];
        let text = broker.ok(&[
            "perf",
            "produce",
            "--engine",
            engine,
            "--topic",
            "a",
            "--topic",
            "b",
            "--producers",
            "3",
            "--num-records",
            "5000",
            "--record-size",
            "10-200",
            "--output",
            "json",
            "--producer-props",
            &format!("acks={acks}"),
            "linger.ms=1",
        ]);
        let result: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(result["total"]["records"], 5000);
        assert_eq!(result["failures"], serde_json::json!({}));
        let after = [count(&broker, "a"), count(&broker, "b")];
        // The first and the third of three producers send to the first of two topics.
        assert_eq!([after[0] - before[0], after[1] - before[1]], [1667 + 1666, 1667]);
    }
}

#[test]
fn a_command_from_a_runbook_prints_what_kafkas_tool_prints() {
    let broker = Broker::start();
    let props = format!("bootstrap.servers={}", broker.address);
    let text = broker.ok(&[
        "perf",
        "produce",
        "--topic",
        "t",
        "--num-records",
        "3000",
        "--record-size",
        "100",
        "--throughput",
        "-1",
        "--warmup-records",
        "1000",
        "--producer-props",
        &props,
        "acks=1",
        "batch.size=16384",
        "compression.type=lz4",
    ]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "Warmup first 1000 records. Steady state results will print after the complete test summary.");
    let shape = |line: &str| line.replace(|c: char| c.is_ascii_digit() || c == '.', "");
    let total =
        " records sent,  records/sec ( MB/sec),  ms avg latency,  ms max latency,  ms th,  ms th,  ms th,  ms th";
    assert_eq!(shape(lines[1]), total);
    assert_eq!(shape(lines[2]), format!(" steady state{total}"));
    assert!(lines[1].starts_with("3000 records sent, ") && lines[2].starts_with("2000 steady state records sent, "));
    assert_eq!(count(&broker, "t"), 3000);
}

#[test]
fn records_have_headers_and_results_more_than_one_form() {
    let broker = Broker::start();
    let produce = |more: &[&str]| {
        let base =
            ["perf", "produce", "--topic", "t", "--num-records", "20", "--record-size", "10", "-H", "a=1", "-H", "b=2"];
        broker.ok(&[&base, more].concat())
    };
    let table = produce(&["--output", "table", "--warmup-records", "10"]);
    assert!(table.starts_with("                           total    steady state\nrecords "), "{table}");
    let csv = produce(&["--output", "csv", "--engine", "raw", "--throughput", "1000", "--ramp", "10ms"]);
    let cells: Vec<_> = csv.lines().last().unwrap().split(',').collect();
    assert_eq!((cells.len(), cells[0], cells[2]), (11, "steady state", "20"));
    let records = broker.ok(&["consume", "t", "--from-beginning", "--until-end", "--json"]);
    assert_eq!(records.lines().count(), 40);
    for line in records.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line.contains("headers") && record["headers"].to_string().contains('a'), "{line}");
    }
}

/// The cells of all lines of CSV, by what they are part of.
fn rows<'a>(csv: &'a str, part: &str) -> Vec<Vec<&'a str>> {
    let rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    rows.filter(|cells| cells[0] == part).collect()
}

#[test]
fn all_tools_have_one_table_and_one_csv() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "2"]);
    broker.ok(&["perf", "produce", "--topic", "t", "--num-records", "500", "--record-size", "100", "--engine", "raw"]);
    let header = "part,seconds,records,records_per_s,mib_per_s,mean_us,p50_us,p95_us,p99_us,p99_9_us,max_us";
    let consume = |output| {
        let base = ["perf", "consume", "--topic", "t", "--num-records", "500", "--output", output];
        broker.ok(&[base.as_slice(), &["--no-group", "--reporting-interval", "1"]].concat())
    };
    let csv = consume("csv");
    assert_eq!(csv.lines().next(), Some(header));
    assert!(csv.lines().all(|line| line.split(',').count() == 11), "{csv}");
    let [total, fetching] = [&rows(&csv, "total")[0], &rows(&csv, "fetching")[0]];
    // Nobody knows how old the records were: the cells of the latency are empty.
    assert_eq!((total[2], fetching[2], total[5], total[10]), ("500", "500", "", ""));
    let windows: u64 = rows(&csv, "window").iter().map(|cells| cells[2].parse::<u64>().unwrap()).sum();
    assert!(windows <= 500, "{csv}");
    let table = consume("table");
    assert!(table.starts_with("                           total        fetching\nrecords "), "{table}");
    assert!(!table.contains("latency"), "{table}");
    let follow = |output, records| {
        let base = ["perf", "e2e", "--topic", "t", "--num-records", records, "--record-size", "10"];
        broker.ok(&[base.as_slice(), &["--output", output]].concat())
    };
    let csv = follow("csv", "1010");
    assert_eq!(csv.lines().next(), Some(header));
    assert_eq!((rows(&csv, "window").len(), rows(&csv, "window")[0][2]), (1, "1000"));
    assert!(rows(&csv, "total")[0][2] == "1010" && rows(&csv, "total")[0][10].parse::<u64>().unwrap() > 0, "{csv}");
    let table = follow("table", "10");
    assert!(table.starts_with("                           total\nrecords ") && table.contains("latency, 99.9 %"));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a file of the test's own")]
fn the_older_form_of_kafkas_end_to_end_tool_is_understood() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t"]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("client.properties");
    // The brokers of the command count more than those of the file.
    std::fs::write(&file, "bootstrap.servers=127.0.0.1:1\n").unwrap();
    let tool = |args: &[&str]| {
        let mut command = broker.command(&[&["perf", "e2e"], args].concat());
        command.env_remove("PARSHALL_BOOTSTRAP_SERVER").output().unwrap()
    };
    let args = [&broker.address, "t", "20", "all", "30", file.to_str().unwrap()];
    for args in [&args[..], &args[..5]] {
        let output = tool(args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).starts_with("0\t"));
    }
    assert!(broker.values("t").iter().all(|value| value.len() == 30) && count(&broker, "t") == 40);
    for (args, expected) in [
        (&[&broker.address, "t", "x", "all", "30"][..], "invalid value 'x' for '--num-records <N>'"),
        (&[&broker.address, "t", "20"][..], "the form without flags is BROKERS TOPIC RECORDS ACKS BYTES"),
        (&[&broker.address, "t", "20", "0", "30"][..], "invalid value '0' for '--producer-acks <all|1>'"),
    ] {
        let text = String::from_utf8(tool(args).stderr).unwrap();
        assert!(text.contains(expected) && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn consumers_beside_the_producers_read_what_these_write_and_nothing_older() {
    let broker = Broker::start();
    for topic in ["a", "b"] {
        broker.ok(&["topic", "create", topic, "--partitions", "3"]);
        broker.ok_with(&["produce", topic], "before\n");
    }
    let produce = |more: &[&str]| {
        let base = ["perf", "produce", "--topic", "a", "--topic", "b", "--producers", "2", "--record-size", "100"];
        broker.ok(&[&base, more].concat())
    };
    let consumed = |more: &[&str]| -> serde_json::Value {
        let base = ["--num-records", "3000", "--output", "json"];
        let mut result: serde_json::Value = serde_json::from_str(&produce(&[&base, more].concat())).unwrap();
        assert_eq!(result["total"]["records"], 3000);
        result["consumed"].take()
    };
    // A group of two shares them, each of two groups reads everything, and so does each of three without a group.
    for (args, records) in [
        (&["--consumers", "2"][..], 3000),
        (&["--consumers", "2", "--consumer-groups", "2"], 6000),
        (&["--consumers", "3", "--consumer-groups", "0"], 9000),
        (&["--consumers", "2", "--consumers-start-after", "500ms"], 3000),
        (&["--consumers", "1", "--consumer-groups", "0", "--consumers-start-after", "1h"], 3000),
    ] {
        let consumed = consumed(args);
        let counts = (&consumed["records"], &consumed["bytes"], &consumed["unread_records"]);
        assert_eq!(counts, (&records.into(), &(records * 100).into(), &0.into()), "{args:?}");
        assert!(
            consumed["end_to_end_latency_ms"]["max"].as_u64().is_some() && consumed["seconds"].as_f64() > Some(0.0)
        );
    }
    // Those that start when the producers have ended find everything still to be read.
    let late = consumed(&["--consumers", "2", "--consumers-start-after", "1h"]);
    assert_eq!(late["backlog_records"], 3000);
    let text = produce(&["--num-records", "1000", "--consumers", "1", "--consumer-property", "fetch.max.wait.ms=10"]);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("1000 records sent") && lines[1].starts_with("start.time, end.time"), "{text}");
    assert_eq!((lines.len(), lines[2].split(", ").nth(4)), (3, Some("1000")));
    let table = produce(&["--num-records", "1000", "--consumers", "1", "--output", "table"]);
    assert!(table.starts_with("                           total        consumed\nrecords "), "{table}");
    let csv = produce(&[
        "--throughput",
        "1000",
        "--duration",
        "2s",
        "--consumers",
        "1",
        "--output",
        "csv",
        "--reporting-interval",
        "300",
    ]);
    assert_eq!((rows(&csv, "consumed")[0][2], rows(&csv, "consumed")[0].len()), ("2000", 11));
    assert_eq!(rows(&csv, "window").len(), rows(&csv, "consumed window").len());
}

/// What Kafka's tool cannot see: it sends nothing while the broker stands still, so nothing is late.
#[test]
fn a_broker_that_stood_still_is_seen_by_all_records_that_were_due_meanwhile() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t"]);
    let perf = broker
        .command(&[
            "perf",
            "produce",
            "--topic",
            "t",
            "--record-size",
            "100",
            "--throughput",
            "1000",
            "--duration",
            "5s",
            "--output",
            "json",
        ])
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(2));
    signal(&broker.process, "-STOP");
    std::thread::sleep(Duration::from_secs(2));
    signal(&broker.process, "-CONT");
    let result = json(&perf.wait_with_output().unwrap());
    assert_eq!(result["total"]["records"], 5000);
    let latency_us = |figure: &str| result["total"]["latency_us"][figure].as_f64().unwrap();
    // 2,000 of 5,000 records were due in these 2 s: those of the first 1.5 s waited for half a second at least.
    assert!(latency_us("max") >= 1_900_000.0, "{result}");
    assert!(latency_us("p95") >= 1_500_000.0, "{result}");
    assert!(latency_us("p50") < 1_900_000.0, "{result}");
}

#[test]
fn records_that_are_not_delivered_are_counted_and_make_the_command_fail() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "small", "--config", "max.message.bytes=1000"]);
    let output = broker.run(
        &["perf", "produce", "--topic", "small", "--num-records", "7", "--record-size", "2000", "--output", "json"],
        "",
    );
    assert_eq!(output.status.code(), Some(1));
    let result = json(&output);
    assert_eq!(result["total"]["records"], 0);
    let failures = result["failures"].as_object().unwrap();
    assert_eq!(failures.values().filter_map(serde_json::Value::as_u64).sum::<u64>(), 7);
    assert!(failures.keys().any(|reason| reason.starts_with("MESSAGE_TOO_LARGE")), "{failures:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("were not delivered: MESSAGE_TOO_LARGE"));
}

#[test]
fn batches_that_a_broker_finds_too_large_are_cut_until_they_fit() {
    let broker = Broker::start();
    for (topic, partitions) in [("one", "1"), ("three", "3")] {
        broker.ok(&["topic", "create", topic, "--partitions", partitions, "--config", "max.message.bytes=1000"]);
        for (n, props) in ["acks=all", "acks=1", "compression.type=lz4"].into_iter().enumerate() {
            let text = broker.ok(&[
                "perf",
                "produce",
                "--topic",
                topic,
                "--num-records",
                "2000",
                "--record-size",
                "90",
                "--print-metrics",
                "--output",
                "json",
                "--producer-props",
                props,
                "batch.size=5000",
            ]);
            let result: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!((&result["total"]["records"], &result["failures"]), (&2000.into(), &serde_json::json!({})));
            let splits = &result["metrics"]["producer-metrics:batch-split-total:{client-id=perf-producer-client}"];
            assert!(splits.as_f64() >= Some(1.0), "{result}");
            assert_eq!(count(&broker, topic), 2000 * (n + 1), "each of them once");
        }
    }
}

#[test]
fn a_record_that_is_too_large_takes_no_other_with_it() {
    let broker = Broker::start();
    for (topic, acks) in [("a", "all"), ("b", "1")] {
        broker.ok(&["topic", "create", topic, "--config", "max.message.bytes=1000"]);
        let args = ["perf", "produce", "--topic", topic, "--num-records", "3000", "--record-size", "90:20,2000:1"];
        let props = ["--output", "json", "--producer-props", &format!("acks={acks}"), "linger.ms=0"];
        let output = broker.run(&[&args[..], &props].concat(), "");
        let result = json(&output);
        let failures = result["failures"].as_object().unwrap();
        assert!(failures.keys().all(|reason| reason.starts_with("MESSAGE_TOO_LARGE")), "{failures:?}");
        let failed: u64 = failures.values().filter_map(serde_json::Value::as_u64).sum();
        let delivered = result["total"]["records"].as_u64().unwrap();
        assert!((50..500).contains(&failed) && delivered + failed == 3000, "{result}");
        let values = broker.values(topic);
        assert_eq!((values.len() as u64, values.iter().all(|value| value.len() == 90)), (delivered, true));
    }
}

#[test]
fn records_are_sent_in_transactions() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t"]);
    let base = ["perf", "produce", "--topic", "t", "--num-records", "1000", "--record-size", "10"];
    for (args, id) in [
        (&["--transactional-id", "x", "--transaction-duration-ms", "1"][..], "x"),
        (&["--transaction-duration-ms", "100"], "performance-producer-"),
        (&["--producer-props", "transactional.id=y"], "y"),
    ] {
        broker.ok(&[&base, args].concat());
        // Its markers may still be on their way.
        let listed = loop {
            let text = broker.ok(&["transaction", "list", "--json"]);
            let listed: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
            if listed.iter().all(|one| one["state"] == "CompleteCommit") {
                break listed;
            }
        };
        assert!(listed.iter().any(|one| one["transactional_id"].as_str().unwrap().starts_with(id)), "{listed:?}");
    }
    let committed = ["consume", "t", "--isolation-level", "read_committed", "--from-beginning", "--until-end"];
    assert_eq!(broker.ok(&committed).lines().count(), 3000);
}

#[test]
fn what_does_not_go_with_transactions_is_said_in_one_line() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t"]);
    let base = ["perf", "produce", "--topic", "t", "--num-records", "10", "--record-size", "10"];
    for (args, expected) in [
        (
            &["--transactional-id", "x", "--engine", "raw"][..],
            "engine raw has no transactions: leave out transactional.id",
        ),
        (&["--transactional-id", "x", "--producer-props", "acks=1"], "transactional.id needs idempotence"),
        (&["--transaction-duration-ms", "0"], "invalid value '0' for '--transaction-duration-ms <MS>'"),
    ] {
        let output = broker.run(&[&base, args].concat(), "");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.lines().count() == 1 && text.contains(expected), "{text}");
    }
    assert_eq!(count(&broker, "t"), 0);
}

#[test]
fn metrics_have_kafkas_names_and_form() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t"]);
    let base = ["perf", "produce", "--topic", "t", "--num-records", "1000", "--record-size", "100", "--print-metrics"];
    for engine in ["client", "raw"] {
        let text = broker.ok(&[&base[..], &["--engine", engine, "--producer-props", "client.id=p"]].concat());
        let (head, table) = text.split_once("\n\n").unwrap();
        assert!(head.starts_with("1000 records sent"), "{text}");
        let lines: Vec<_> = table.lines().collect();
        assert!(lines[0].starts_with("Metric Name ") && lines[0].ends_with("   Value"), "{text}");
        assert!(lines.is_sorted_by(|a, b| a.starts_with("Metric") || a < b), "{text}");
        assert!(lines[1..].iter().all(|line| line.find(" : ") == lines[1].find(" : ")), "{text}");
        for expected in ["record-send-total:{client-id=p}", "record-error-total:{client-id=p}"] {
            let line = lines.iter().find(|line| line.starts_with(&format!("producer-metrics:{expected}"))).unwrap();
            let value = if expected.starts_with("record-send") { " : 1000.000" } else { " : 0.000" };
            assert!(line.ends_with(value), "{line}");
        }
    }
    let consume = ["perf", "consume", "--topic", "t", "--num-records", "2000", "--print-metrics", "--output"];
    let table = broker.ok(&[&consume[..], &["table"]].concat());
    assert!(table.contains("\n\nMetric Name ") && table.contains("consumer-fetch-manager-metrics:fetch-total:{"));
    let metrics: serde_json::Value = serde_json::from_str(&broker.ok(&[&consume[..], &["json"]].concat())).unwrap();
    let metric = |name: &str| {
        let key = format!("consumer-fetch-manager-metrics:{name}:{{client-id=perf-consumer-client}}");
        metrics["metrics"][key].as_f64().unwrap()
    };
    assert_eq!((metric("records-consumed-total"), metric("bytes-consumed-total")), (2000.0, 200_000.0));
    assert!(metric("fetch-total") >= 1.0 && metric("fetch-size-avg") > 0.0 && metric("fetch-latency-max") > 0.0);
}

#[test]
fn each_interval_is_in_the_log_of_histograms() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t"]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.hlog");
    let base = ["perf", "produce", "--topic", "t", "--record-size", "10", "--throughput", "1000", "--duration", "1s"];
    let more = ["--reporting-interval", "300", "--output", "csv", "--hdr-file", file.to_str().unwrap()];
    let csv = broker.ok(&[&base[..], &more].concat());
    let text = std::fs::read_to_string(&file).unwrap();
    let (comments, lines): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.starts_with('#'));
    assert!(comments.iter().any(|line| line.starts_with("#[StartTime: ")), "{text}");
    assert!(lines[0].starts_with("\"StartTimestamp\",\"Interval_Length\""), "{text}");
    let windows = rows(&csv, "window").len();
    // What is left behind the last window may have an interval of its own.
    assert!([windows, windows + 1].contains(&(lines.len() - 1)), "{text}{csv}");
    assert!(lines[1..].iter().all(|line| line.split(',').nth(3).unwrap().starts_with("HISTFAAAA")), "{text}");
    let error = broker.fails(&[&base[..], &["--hdr-file", "/no/such/directory/x"]].concat(), "");
    assert!(error.contains("cannot write /no/such/directory/x"), "{error}");
}

#[test]
fn a_broker_that_is_killed_and_comes_back_loses_nothing() {
    let mut broker = Broker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "2"]);
    let perf = broker
        .command(&[
            "perf",
            "produce",
            "--topic",
            "t",
            "--record-size",
            "100",
            "--throughput",
            "2000",
            "--num-records",
            "6000",
            "--output",
            "json",
        ])
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(1));
    broker.kill_and_restart();
    let result = json(&perf.wait_with_output().unwrap());
    assert_eq!((&result["total"]["records"], &result["failures"]), (&6000.into(), &serde_json::json!({})));
    assert_eq!(count(&broker, "t"), 6000, "each of them once");
}

#[test]
fn consumers_of_a_group_share_what_there_is_and_those_without_one_read_everything() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "4"]);
    broker.ok(&[
        "perf",
        "produce",
        "--topic",
        "t",
        "--num-records",
        "4000",
        "--record-size",
        "100",
        "--output",
        "json",
    ]);
    let consume = |more: &[&str]| {
        let base = ["perf", "consume", "--topic", "t", "--timeout", "5000", "--output", "json"];
        serde_json::from_str::<serde_json::Value>(&broker.ok(&[&base, more].concat())).unwrap()
    };
    // More than there is: so each record that is read is counted, and none twice.
    let shared = consume(&["--num-records", "100000", "--consumers", "3"]);
    assert_eq!((&shared["records"], &shared["bytes"]), (&4000.into(), &400_000.into()));
    assert_eq!(shared["timed_out"], true);
    let all = consume(&["--num-records", "12000", "--consumers", "3", "--no-group"]);
    assert_eq!(all["records"], 12_000);
    // A group goes on where it stopped.
    assert_eq!(consume(&["--num-records", "4000", "--group", "g"])["records"], 4000);
    assert_eq!(consume(&["--num-records", "1", "--group", "g"])["records"], 0);
}

#[test]
fn a_consumer_command_from_a_runbook_prints_what_kafkas_tool_prints() {
    let broker = Broker::start();
    broker.ok(&[
        "perf",
        "produce",
        "--topic",
        "t",
        "--num-records",
        "500",
        "--record-size",
        "1024",
        "--output",
        "json",
    ]);
    let text = broker.ok(&[
        "perf",
        "consume",
        "--broker-list",
        &broker.address,
        "--topic",
        "t",
        "--messages",
        "500",
        "--threads",
        "1",
        "--fetch-size",
        "10000000",
    ]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[0],
        "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, \
         fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
    );
    let cells: Vec<_> = lines[1].split(", ").collect();
    assert_eq!((cells.len(), cells[2], cells[4]), (10, "0.4883", "500"));
    assert_eq!(lines.len(), 2);
}

#[test]
fn a_record_is_followed_from_one_end_to_the_other() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "3"]);
    // What is there already is not taken for one's own.
    broker.ok_with(&["produce", "t"], "before\n");
    for acks in ["1", "all"] {
        let text = broker.ok(&[
            "perf",
            "e2e",
            "--topic",
            "t",
            "--num-records",
            "30",
            "--producer-acks",
            acks,
            "--record-size",
            "100",
            "--record-key-size",
            "5",
            "--num-headers",
            "2",
            "--record-header-key-size",
            "3",
            "--record-header-size",
            "4",
        ]);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("0\t") && lines[1].starts_with("Avg latency: "), "{text}");
        assert!(lines[2].starts_with("Percentiles: 50th = ") && lines.len() == 3, "{text}");
    }
    let records = broker.ok(&["consume", "t", "--from-beginning", "--until-end", "--json"]);
    let last: serde_json::Value = serde_json::from_str(records.lines().last().unwrap()).unwrap();
    assert_eq!(records.lines().count(), 61);
    assert_eq!((last["key"].as_str().unwrap().len(), last["value"].as_str().unwrap().len()), (5, 100));
}

#[test]
fn disk_and_network_are_measured_and_nothing_is_left() {
    let broker = Broker::start();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let probe = ["perf", "disk", "--dir", path, "--size-mib", "2", "--syncs", "5"];
    let sizes = ["--block-size", "4K,512KiB", "--block-size", "2M"];
    let disk: serde_json::Value =
        serde_json::from_str(&broker.ok(&[&probe[..], &sizes, &["--json"]].concat())).unwrap();
    let writes = disk["writes"].as_array().unwrap();
    let blocks: Vec<_> = writes.iter().map(|write| write["block_bytes"].as_u64().unwrap()).collect();
    assert_eq!(blocks, [4 << 10, 512 << 10, 2 << 20]);
    let is_rate = |write: &serde_json::Value, name: &str| write[name].as_f64().unwrap() > 0.0;
    assert!(writes.iter().all(|write| is_rate(write, "write_mib_per_s") && is_rate(write, "synced_mib_per_s")));
    assert!(disk["sync_latency_us"]["p50"].as_u64().unwrap() > 0, "{disk}");
    let text = broker.ok(&[&probe[..], &sizes].concat());
    let firsts: Vec<_> = text.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(firsts, ["block", "4KiB", "512KiB", "2MiB", "append"], "{text}");
    for (size, expected) in [
        ("4G", "a block is 4K to 1G, in steps of 4K"),
        ("5000", "a block is 4K to 1G, in steps of 4K"),
        ("big", "a size is a number with KiB, MiB or GiB"),
        ("4M", "a block of 4MiB needs --size-mib 4 at least"),
    ] {
        let output = broker.run(&[&probe[..], &["--block-size", size]].concat(), "");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(expected), "{error}");
    }
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    let error = broker.fails(&["perf", "disk", "--dir", "/no/such/directory"], "");
    assert!(error.contains("cannot measure the disk under /no/such/directory"), "{error}");
    let net = broker.ok(&["perf", "net", "--round-trips", "10", "--upload", "20ms", "--download", "20ms", "--json"]);
    let net: serde_json::Value = serde_json::from_str(&net).unwrap();
    let way = &net["brokers"][0];
    assert!(way["round_trip_us"]["p50"].as_u64().unwrap() > 0 && way["upload_mib_per_s"].as_f64().unwrap() > 0.0);
    assert!(way["download_mib_per_s"].as_f64().unwrap() > 0.0 && net["download_missing"].is_null(), "{net}");
    assert_eq!(broker.ok(&["topic", "list"]), "", "nothing is stored");
}

#[test]
fn a_download_that_a_broker_refuses_says_so_and_leaves_nothing() {
    let broker = Broker::start_with(&["--console", "off", "--set", "message.max.bytes=1000"]);
    let net = ["perf", "net", "--round-trips", "10", "--upload", "20ms"];
    let text = broker.ok(&net);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].contains("upload ") && !lines[0].contains("download"), "{text}");
    assert!(lines[1].starts_with("download not measured: parshall-net-probe-"), "{text}");
    assert!(lines[1].ends_with("-0 cannot be produced: MESSAGE_TOO_LARGE"), "{text}");
    assert_eq!(broker.ok(&["topic", "list"]), "", "the topic is deleted");
    let json = broker.ok(&[&net[..], &["--download", "0s", "--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["brokers"][0]["download_mib_per_s"].is_null(), "{json}");
    assert_eq!(json["download_missing"], "--download is 0s");
}

#[test]
fn mistakes_are_one_line() {
    let broker = Broker::start();
    let cases: [(&[&str], &str); 4] = [
        (&["--producer-props", "acks=2"], "acks is \"2\"; it takes all, 1 or 0"),
        (&["--throughput", "0"], "--throughput is a number of records per second, or -1"),
        (&["--producer-props", "acks=1", "enable.idempotence=true"], "enable.idempotence needs acks=all"),
        (&["--command-config", "no-such-file"], "cannot read no-such-file"),
    ];
    for (args, expected) in cases {
        let base = ["perf", "produce", "--topic", "t", "--num-records", "1", "--record-size", "1"];
        let output = broker.run(&[&base, args].concat(), "");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.lines().count() == 1 && text.contains(expected), "{text}");
    }
}
