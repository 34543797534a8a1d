//! Metrics of brokers of Apache Kafka in the console: pages of the JMX exporter become figures and charts.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

mod common;
#[path = "common/console_process.rs"]
mod console_process;
#[path = "common/http.rs"]
mod http;
#[path = "common/http_server.rs"]
mod http_server;

use common::Broker;
use console_process::Console;
use http_server::HttpServer;

const PAGE: &str = include_str!("../crates/console/src/kafka_metrics/example_rules.txt");

/// As many records have come in as there were scrapes.
fn answer(line: &str, _body: &Value) -> (u16, Value) {
    static SCRAPES: AtomicU32 = AtomicU32::new(2000);
    let records = SCRAPES.fetch_add(1, Ordering::Relaxed);
    match line {
        "GET /metrics" => (200, json!(PAGE.replace("messagesin_total 1004.0", &format!("messagesin_total {records}")))),
        "GET /other" => (200, json!("up 1\n")),
        _ => (404, json!("there is none")),
    }
}

fn get(address: &str, path: &str) -> String {
    let answer = http::request(address, "GET", path, &[("Host", address)], "");
    let kind = if path.contains("/api/") || path.contains("/charts/") { "application/json" } else { "text/html" };
    assert!(answer.header("content-type").is_some_and(|of| of.starts_with(kind)), "{}", answer.head);
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

fn started(broker: &Broker, metrics: &str) -> Console {
    Console::start(&["--bootstrap-server", &format!("kafka={}", broker.address), "--metrics", metrics])
}

#[test]
fn a_broker_tells_of_itself_through_its_exporter() {
    let (broker, exporter) = (Broker::start(), HttpServer::start(answer));
    let console = started(&broker, &format!("kafka=1@{}/metrics", exporter.url()));
    let brokers: Value = serde_json::from_str(&get(&console.address, "/api/v1/clusters/kafka/brokers")).unwrap();
    assert_eq!(brokers["brokers"][0]["memory_bytes"], json!(401_072_128.0), "{brokers}");
    let overview = get(&console.address, "/clusters/kafka");
    assert!(overview.contains("382 MiB") && overview.contains("/clusters/kafka/charts/cpu"), "{overview}");
    assert!(overview.contains("Healthy") && !overview.contains(">Alerts<"), "{overview}");
    assert!(!overview.contains("only in the journal"), "{overview}");
    let page = get(&console.address, "/clusters/kafka/brokers/1");
    assert!(page.contains("382 MiB") && page.contains("/clusters/kafka/brokers/1/charts/requests"), "{page}");
    let chart = || {
        let chart = get(&console.address, "/clusters/kafka/brokers/1/charts/records");
        serde_json::from_str::<Value>(&chart).unwrap()["series"][0]["values"].clone()
    };
    while !chart().as_array().unwrap().iter().any(|value| value.as_f64().is_some_and(|rate| rate > 0.0)) {
        sleep(Duration::from_millis(100));
    }
    assert_eq!(exporter.requests(), []);
}

#[test]
fn what_is_wrong_with_a_page_is_said_and_the_cluster_is_shown() {
    let (broker, exporter) = (Broker::start(), HttpServer::start(answer));
    let url = exporter.url();
    for (metrics, reason) in [
        (format!("{url}/other"), "it has no BytesInPerSec: is it the page of a broker&#39;s JMX exporter?"),
        (format!("{url}/none"), "it was refused (404)"),
        ("http://me:sesame@127.0.0.1:1".to_owned(), "its metrics at 127.0.0.1:1: nobody listens there"),
        (format!("7@{url}/metrics"), "there is no broker 7"),
        (url.replace("127.0.0.1", "localhost"), "no broker has this host: ID@URL names the broker"),
    ] {
        let console = started(&broker, &metrics);
        let overview = get(&console.address, "/clusters/kafka");
        assert!(overview.contains(reason) && !overview.contains("sesame"), "{metrics}: {overview}");
        assert!(!overview.contains("/charts/cpu"), "{overview}");
        assert!(get(&console.address, "/clusters/kafka/brokers/1").contains("charts/log-size"));
    }
}
