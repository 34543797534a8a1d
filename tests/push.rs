//! Metrics that a broker sends of itself, to sockets that read what comes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};

mod common;

use common::{Broker, PARSHALL};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint};
use prost::Message;

/// A broker that sends its metrics, and a topic with ten records in it.
fn start(settings: &[String]) -> Broker {
    let mut flags = vec!["--console", "off", "--node-id", "7", "--set", "metrics.push.interval.ms=100"];
    flags.extend(settings.iter().flat_map(|setting| ["--set", setting.as_str()]));
    let broker = Broker::start_with(&flags);
    broker.ok(&["topic", "create", "orders"]);
    let lines: String = (0..10).map(|n| format!("{n}\n")).collect();
    broker.ok_with(&["produce", "orders"], &lines);
    broker
}

#[test]
fn graphite_has_a_line_for_each_series() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let prefix = "metrics.push.prefix=kafka".to_owned();
    let _broker = start(&[format!("metrics.push.graphite={address}"), prefix]);
    let wanted = "kafka.parshall_topic_received_records_total;node=7;topic=orders";
    loop {
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        let mut records = None;
        for line in text.lines() {
            let words: Vec<_> = line.split(' ').collect();
            let [path, value, time] = words[..] else { panic!("{line}") };
            assert!(path.starts_with("kafka.parshall_") || path.starts_with("kafka.process_"), "{line}");
            assert!(time.parse::<u64>().unwrap() > 1_700_000_000, "{line}");
            let value: f64 = value.parse().unwrap();
            records = records.or((path == wanted).then_some(value));
        }
        assert!(text.contains("kafka.parshall_uptime_seconds;node=7 ") && text.ends_with('\n'), "{text}");
        if records == Some(10.0) {
            return;
        }
    }
}

#[test]
fn statsd_is_told_what_counters_have_grown() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let _broker = start(&[format!("metrics.push.statsd={}", socket.local_addr().unwrap())]);
    let (mut records, mut turns) = (0.0, 0);
    // Turns in which nothing has grown any more send nothing of it again.
    while turns < 3 {
        let mut packet = [0; 65536];
        let bytes = socket.recv(&mut packet).unwrap();
        for line in std::str::from_utf8(&packet[..bytes]).unwrap().lines() {
            let (name, rest) = line.split_once(':').unwrap();
            let parts: Vec<_> = rest.split('|').collect();
            let [value, kind, tags] = parts[..] else { panic!("{line}") };
            let value: f64 = value.parse().unwrap();
            assert!(tags.starts_with("#node:7") && (kind == "g" || value > 0.0), "{line}");
            match (name, kind, tags) {
                ("parshall_topic_received_records_total", "c", "#node:7,topic:orders") => records += value,
                ("parshall_uptime_seconds", "g", "#node:7") => turns += usize::from(records >= 10.0),
                _ => assert!(kind == "c" || kind == "g", "{line}"),
            }
        }
    }
    assert_eq!(records, 10.0);
}

/// The body of a request, which is answered.
fn receive(stream: &TcpStream) -> Vec<u8> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    let head = head.to_ascii_lowercase();
    assert!(head.starts_with("post /v1/metrics http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\ncontent-type: application/x-protobuf\r\n"), "{head}");
    let length = head.split("\r\ncontent-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    (&*stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    body
}

fn find<'a>(metrics: &'a [Metric], name: &str) -> &'a Metric {
    metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("no {name}"))
}

fn value(point: &NumberDataPoint) -> f64 {
    match point.value {
        Some(Value::AsDouble(value)) => value,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn otlp_has_the_types_of_the_metrics() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let _broker = start(&[format!("metrics.push.otlp=http://{address}/v1/metrics")]);
    loop {
        let body = receive(&listener.accept().unwrap().0);
        let request = ExportMetricsServiceRequest::decode(&body[..]).unwrap();
        let [of_node] = &request.resource_metrics[..] else { panic!("{}", request.resource_metrics.len()) };
        let resource = format!("{:?}", of_node.resource);
        assert!(resource.contains("service.instance.id") && resource.contains("StringValue(\"7\")"), "{resource}");
        let metrics = &of_node.scope_metrics[0].metrics;

        let Some(Data::Gauge(uptime)) = &find(metrics, "parshall_uptime_seconds").data else { panic!() };
        assert!(value(&uptime.data_points[0]) > 0.0);
        assert_eq!(find(metrics, "parshall_uptime_seconds").unit, "s");
        let Some(Data::Histogram(requests)) = &find(metrics, "parshall_request_seconds").data else { panic!() };
        for point in &requests.data_points {
            assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
            assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
            assert!(point.start_time_unix_nano < point.time_unix_nano && point.sum > Some(0.0));
            assert!(point.attributes.len() == 1 && point.attributes[0].key == "api");
        }
        let Some(Data::Sum(records)) = &find(metrics, "parshall_topic_received_records").data else { panic!() };
        assert!(records.is_monotonic && records.aggregation_temporality == 2);
        if requests.data_points.len() > 2 && records.data_points.first().is_some_and(|point| value(point) == 10.0) {
            return;
        }
    }
}

#[test]
fn a_receiver_that_is_away_is_told_of_once_and_costs_nobody_anything() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let data = tempfile::tempdir().unwrap();
    let mut command = Command::new(PARSHALL);
    command.args(["serve", "--console", "off", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data.path());
    let graphite = format!("metrics.push.graphite={address}");
    command.args(["--set", &graphite, "--set", "metrics.push.interval.ms=100"]).env("PARSHALL_LOG", "info");
    let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(process.stderr.take().unwrap());
    let mut lines = Vec::new();
    let mut until = |mark: &str| {
        while !lines.last().is_some_and(|line: &String| line.contains(mark)) {
            let mut line = String::new();
            assert!(log.read_line(&mut line).unwrap() > 0, "the log ended without {mark}: {lines:?}");
            lines.push(line);
        }
        lines.clone()
    };
    until("metrics cannot be sent for now");
    // Many more turns come to nothing before somebody listens there.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let listener = TcpListener::bind(address).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    let lines = until("metrics are sent again");
    let _ = process.kill();
    process.wait().unwrap();
    assert_eq!(lines.iter().filter(|line| line.contains("metrics cannot be sent")).count(), 1, "{lines:?}");
}

#[test]
fn what_is_no_address_is_refused() {
    for setting in ["metrics.push.statsd=somewhere", "metrics.push.graphite=:2003", "metrics.push.otlp=https://h/v1"] {
        let output = Command::new(PARSHALL).args(["serve", "--console", "off", "--set", setting]).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        let (name, _) = setting.split_once('=').unwrap();
        assert!(output.status.code() == Some(2) && text.contains(&format!("{name} is ")), "{text}");
    }
}
