//! What a broker shows over HTTP, asked as a process.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

mod common;
#[path = "common/http.rs"]
mod http;

use common::{Broker, PARSHALL};

/// Status and body of a request.
fn request(address: &str, method: &str, path: &str, host: &str) -> (u16, String) {
    let answer = http::request(address, method, path, &[("Host", host)], "");
    assert_eq!(answer.header("access-control-allow-origin"), None);
    (answer.status, answer.body)
}

fn scrape(broker: &Broker) -> String {
    let address = broker.console.as_deref().unwrap();
    let (status, page) = request(address, "GET", "/metrics", address);
    assert_eq!(status, 200);
    assert!(page.ends_with("# EOF\n"), "{page}");
    page
}

/// The value of a series, written as it stands in the page.
fn value(page: &str, series: &str) -> Option<f64> {
    let of_series = |line: &str| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok();
    page.lines().find_map(of_series)
}

#[test]
fn what_goes_in_and_out_is_counted() {
    let broker = Broker::start_with(&["--console", "127.0.0.1:0"]);
    broker.ok(&["topic", "create", "orders", "--partitions", "3"]);
    let before = scrape(&broker);
    assert_eq!(value(&before, r#"parshall_topic_received_records_total{topic="orders"}"#), Some(0.0));
    assert_eq!(value(&before, r#"parshall_request_seconds_count{api="Produce"}"#), None, "nobody has asked");

    let lines: String = (0..1000).map(|n| format!("{n:05}\n")).collect();
    broker.ok_with(&["produce", "orders", "--acks", "all"], &lines);
    assert_eq!(broker.values("orders").len(), 1000);

    let page = scrape(&broker);
    let expect = |series: &str| value(&page, series).unwrap_or_else(|| panic!("no {series} in:\n{page}"));
    assert_eq!(expect(r#"parshall_topic_received_records_total{topic="orders"}"#), 1000.0);
    let bytes = expect(r#"parshall_topic_received_bytes_total{topic="orders"}"#);
    assert!(bytes > 5000.0, "{bytes}");
    assert_eq!(expect(r#"parshall_topic_sent_bytes_total{topic="orders"}"#), bytes);
    assert_eq!(expect(r#"parshall_topic_log_bytes{topic="orders"}"#), bytes);
    assert_eq!(expect(r#"parshall_topic_partitions{topic="orders"}"#), 3.0);
    assert_eq!((expect("parshall_leaders"), expect("parshall_under_replicated_partitions")), (3.0, 0.0));
    assert_eq!(expect("parshall_unsynced_bytes"), 0.0, "acks=all is on disk");
    assert_eq!((expect("parshall_controller_active"), expect("parshall_cluster_active_brokers")), (1.0, 1.0));
    assert!(expect("parshall_log_sync_seconds_count") > 0.0);
    assert_eq!((expect("parshall_journal_enabled"), expect("parshall_journal_failed")), (1.0, 0.0));
    let direct = ["large", "no_room", "unknown", "failed"];
    let direct = direct.map(|reason| expect(&format!(r#"parshall_journal_direct_syncs_total{{reason="{reason}"}}"#)));
    assert!(expect("parshall_journal_commit_seconds_count") + direct.iter().sum::<f64>() > 0.0, "acks=all is counted");
    assert_eq!(expect("parshall_journal_replayed_bytes"), 0.0, "nothing was there");
    let bypassed = ["filling_up", "no_space", "failed", "disabled"];
    let bypassed = bypassed.map(|reason| expect(&format!(r#"parshall_journal_bypassed{{reason="{reason}"}}"#)));
    assert_eq!(bypassed, [0.0; 4]);
    let is_needed = expect("parshall_journal_needed_bytes") > 0.0;
    assert!(is_needed || expect("parshall_journal_oldest_needed_seconds") == 0.0, "nothing is old");
    assert!(expect("process_cpu_seconds_total") > 0.0);
    assert!(expect("process_resident_memory_bytes") > 1e6);

    let requests = expect(r#"parshall_request_seconds_count{api="Produce"}"#);
    assert!(requests > 0.0);
    let stage = |of: &str, stage: &str| {
        expect(&format!(r#"parshall_request_stage_seconds_{of}{{api="Produce",stage="{stage}"}}"#))
    };
    for each in ["queue", "append", "sync", "response"] {
        assert_eq!(stage("count", each), requests, "{each}");
    }
    let total = expect(r#"parshall_request_seconds_sum{api="Produce"}"#);
    let replication = r#"parshall_request_stage_seconds_sum{api="Produce",stage="replication"}"#;
    let stages: f64 = ["queue", "append", "sync", "response"].iter().map(|each| stage("sum", each)).sum();
    let stages = stages + value(&page, replication).unwrap_or(0.0);
    assert!((stages - total).abs() < 1e-6, "{stages} is not {total}");
}

#[test]
fn errors_and_connections_are_counted() {
    let broker = Broker::start_with(&["--console", "127.0.0.1:0"]);
    broker.fails(&["topic", "delete", "nope"], "");
    let mut stranger = TcpStream::connect(&broker.address).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    // The broker ends it, and counts it then.
    let _ = stranger.read_to_end(&mut Vec::new());
    let page = scrape(&broker);
    let expect = |series: &str| value(&page, series).unwrap_or_else(|| panic!("no {series} in:\n{page}"));
    let unknown = r#"parshall_request_errors_total{api="DeleteTopics",error="UNKNOWN_TOPIC_OR_PARTITION"}"#;
    assert_eq!(expect(unknown), 1.0);
    assert_eq!(expect("parshall_topics"), 0.0);
    assert!(expect("parshall_connections_accepted_total") >= 2.0);
}

#[test]
fn health_is_told_and_strange_names_are_refused() {
    let broker = Broker::start_with(&["--console", "localhost:0"]);
    let address = broker.console.as_deref().unwrap();
    let ask = |path, host: &str| request(address, "GET", path, host);
    assert_eq!(ask("/health/live", address), (200, "live\n".to_owned()));
    assert_eq!(ask("/health/ready", "localhost"), (200, "ready\n".to_owned()));
    assert_eq!(ask("/nothing", address).0, 404);
    assert_eq!(request(address, "POST", "/metrics", address).0, 405);
    for path in ["/metrics", "/health/ready", "/nothing"] {
        let (status, body) = ask(path, "rebound.example:9644");
        assert_eq!(status, 421);
        assert!(body.contains("--console"), "{body}");
    }
}

#[test]
fn a_console_for_others_has_to_be_wanted() {
    let broker = Broker::start_with(&["--console", "0.0.0.0:0", "--insecure"]);
    let console = broker.console.as_deref().unwrap();
    assert!(console.starts_with("0.0.0.0:"), "{console}");
    let address = console.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(request(&address, "GET", "/health/live", &address).0, 200);
}

#[test]
fn a_port_that_is_taken_matters_only_where_it_was_asked_for() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(PARSHALL);
    command.args(["serve", "--listen", "127.0.0.1:0", "--console", &place, "--data-dir"]).arg(dir.path());
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), text.lines().count()), (Some(1), 1), "{text}");
    assert!(text.contains(&place) && text.contains("--console"), "{text}");

    // Whoever has the port that is the default: this test, or somebody else.
    let _taken = TcpListener::bind("127.0.0.1:9644");
    let broker = Broker::start_with(&[]);
    assert_eq!(broker.console, None);
    assert_eq!(broker.ok(&["topic", "list"]), "");
}

#[test]
fn groups_tell_how_far_they_are_behind() {
    let broker = Broker::start_with(&["--console", "127.0.0.1:0"]);
    broker.ok(&["topic", "create", "orders"]);
    let lines: String = (0..10).map(|n| format!("{n}\n")).collect();
    broker.ok_with(&["produce", "orders"], &lines);
    // No name of a group breaks the page.
    let group = "a\"} 1\n# EOF\n\\";
    let read = ["consume", "orders", "--group", group, "--from-beginning", "--max-messages"];
    broker.ok(&[&read[..], &["4"]].concat());
    let series = |name: &str| {
        let group = group.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("parshall_group_{name}{{group=\"{group}\",topic=\"orders\",partition=\"0\"}}")
    };
    let page = scrape(&broker);
    let expect = |name: &str| value(&page, &series(name)).unwrap_or_else(|| panic!("no {name} in:\n{page}"));
    assert_eq!((expect("committed_offset"), expect("lag_records")), (4.0, 6.0));
    assert!((0.0..600.0).contains(&expect("lag_seconds")));
    assert_eq!(value(&page, r#"parshall_groups{state="Empty"}"#), Some(1.0));
    assert_eq!(value(&page, r#"parshall_group_rebalances_total{cause="member_joined"}"#), Some(1.0));
    assert!(value(&page, "parshall_disk_total_bytes") > value(&page, "parshall_disk_free_bytes"));

    broker.ok(&[&read[..], &["6"]].concat());
    let page = scrape(&broker);
    let expect = |name: &str| value(&page, &series(name)).unwrap_or_else(|| panic!("no {name} in:\n{page}"));
    assert_eq!((expect("committed_offset"), expect("lag_records"), expect("lag_seconds")), (10.0, 0.0, 0.0));
}

#[test]
fn transactions_and_what_they_hold_back_are_counted() {
    let broker = Broker::start_with(&["--console", "127.0.0.1:0"]);
    broker.ok(&["topic", "create", "orders"]);
    let perf = ["perf", "produce", "--topic", "orders", "--num-records", "100", "--record-size", "10", "--throughput"];
    broker.ok(&[&perf[..], &["-1", "--transactional-id", "payments", "--transaction-duration-ms", "60000"]].concat());
    let page = scrape(&broker);
    assert_eq!(value(&page, r#"parshall_transactions_total{result="commit"}"#), Some(1.0));
    assert_eq!(value(&page, r#"parshall_transactions_total{result="abort"}"#), Some(0.0));
    assert_eq!(value(&page, "parshall_transaction_oldest_open_seconds"), Some(0.0));
    assert_eq!(value(&page, r#"parshall_topic_unstable_records{topic="orders"}"#), Some(0.0));
}

#[test]
fn the_age_of_what_was_not_read_is_told() {
    let broker = Broker::start_with(&["--console", "127.0.0.1:0"]);
    broker.ok(&["topic", "create", "orders"]);
    broker.ok_with(&["produce", "orders"], "1\n2\n");
    broker.ok(&["consume", "orders", "--group", "g", "--from-beginning", "--max-messages", "1"]);
    let lag =
        |page: &str| value(page, r#"parshall_group_lag_seconds{group="g",topic="orders",partition="0"}"#).unwrap();
    let first = lag(&scrape(&broker));
    assert!((0..10_000).any(|_| lag(&scrape(&broker)) >= first + 0.05), "it grows older");
    let page = scrape(&broker);
    assert_eq!(value(&page, r#"parshall_group_lag_records{group="g",topic="orders",partition="0"}"#), Some(1.0));
}

#[test]
fn rows_are_appended_to_a_table() {
    let broker = Broker::start_with(&["--console", "127.0.0.1:0"]);
    let url = format!("http://{}/metrics", broker.console.as_deref().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("broker.csv");
    let mut command = broker.command(&["metrics", "--interval", "100ms", "--url", &url, "--csv"]);
    command.arg(&file);
    let lines = || std::fs::read_to_string(&file).unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>();
    for rows in [2, 4] {
        let mut process = command.spawn().unwrap();
        while lines().len() < rows + 1 {
            assert_eq!(process.try_wait().unwrap(), None, "it goes on");
            std::thread::yield_now();
        }
        common::signal(&process, "-INT");
        assert_eq!(process.wait().unwrap().code(), Some(0));
    }
    let lines = lines();
    assert!(lines[0].starts_with("time,up,records_in_per_s,"), "{}", lines[0]);
    assert_eq!(lines.iter().filter(|line| **line == lines[0]).count(), 1, "the second run goes on with the table");
    assert!(lines[1..].iter().all(|line| line.split(',').nth(1) == Some("1")), "{lines:?}");

    let nobody = broker.fails(&["metrics", "--csv", "-", "--url", "http://127.0.0.1:1/metrics"], "");
    assert!(nobody.contains("nothing answers on http://127.0.0.1:1/metrics"), "{nobody}");
}
