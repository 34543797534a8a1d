//! Connect clusters that answer, that refuse, and that do neither.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use axum::http::StatusCode;
use client::{Client, ClientConfig};

use super::*;
use crate::cluster::{Belongings, Cluster};

const CONNECTORS: &str = r#"{
    "orders-to-file": {
        "status": {
            "name": "orders-to-file", "type": "sink",
            "connector": {"state": "RUNNING", "worker_id": "w:8083"},
            "tasks": [
                {"id": 0, "state": "RUNNING", "worker_id": "w:8083"},
                {"id": 1, "state": "FAILED", "worker_id": "w:8083", "trace": "java.lang.Error\n\tat a"}
            ]
        },
        "info": {
            "name": "orders-to-file", "type": "sink", "tasks": [],
            "config": {"connector.class": "org.apache.FileStreamSink", "topics": "orders", "none": null}
        }
    },
    "new": {"info": {"name": "new", "config": {}, "tasks": [], "type": null}}
}"#;

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

fn refusal(status: u16, message: &str) -> String {
    let body = format!(r#"{{"error_code": {status}, "message": "{message}"}}"#);
    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

/// A Connect that gives these answers to requests for the first line, as `GET /connectors`. It hangs where there is
/// none.
fn fake(answer: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Arc<Connect> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        let mut hanging = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            match answer(&first_line(&mut stream)) {
                Some(answer) => drop(stream.write_all(answer.as_bytes())),
                None => hanging.push(stream),
            }
        }
    });
    Connect::new(url.parse().unwrap())
}

/// Of a request that comes in one piece.
fn first_line(stream: &mut TcpStream) -> String {
    let mut request = [0; 8192];
    let read = stream.read(&mut request).unwrap();
    let request = String::from_utf8_lossy(&request[..read]).into_owned();
    request.split(" HTTP/1.1").next().unwrap_or_default().to_owned()
}

fn healthy(request: &str) -> Option<String> {
    match request {
        "GET /" => Some(ok(r#"{"version": "4.3.1", "commit": "x", "kafka_cluster_id": "y"}"#)),
        "GET /connectors?expand=status&expand=info" => Some(ok(CONNECTORS)),
        _ => Some(refusal(404, "not here")),
    }
}

#[tokio::test]
async fn connectors_are_seen_with_their_tasks() {
    let connect = fake(healthy);
    connect.look().await;
    let known = connect.known();
    assert_eq!((known.version.as_str(), &known.trouble), ("4.3.1", &None));
    let connector = &known.connectors["orders-to-file"];
    assert_eq!((connector.class(), connector.topics()), ("FileStreamSink", "orders"));
    assert_eq!((connector.kind.as_str(), connector.has_failed()), ("sink", false));
    assert_eq!((connector.tasks_running(), connector.tasks_failed()), (1, 1));
    assert_eq!((connector.tasks[1].id, connector.tasks[1].trace.as_str()), (1, "java.lang.Error\n\tat a"));
    assert_eq!(known.connectors["new"].state, "UNASSIGNED");
}

#[tokio::test]
async fn what_was_seen_stays_with_its_age_when_connect_is_gone() {
    let is_gone = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let gone = Arc::clone(&is_gone);
    let connect = fake(move |request| match gone.load(std::sync::atomic::Ordering::SeqCst) {
        true => Some(refusal(500, "rebalance in progress")),
        false => healthy(request),
    });
    connect.look().await;
    let seen = connect.known().at.unwrap();
    is_gone.store(true, std::sync::atomic::Ordering::SeqCst);
    connect.look().await;
    let since = connect.known().trouble.unwrap().0;
    connect.look().await;
    let known = connect.known();
    assert_eq!((known.at, known.connectors.len()), (Some(seen), 2));
    let (still_since, reason) = known.trouble.unwrap();
    assert_eq!(still_since, since);
    assert!(reason.ends_with("has refused it (500): rebalance in progress"), "{reason}");
    is_gone.store(false, std::sync::atomic::Ordering::SeqCst);
    connect.look().await;
    assert_eq!(connect.known().trouble, None);
}

#[tokio::test]
async fn answers_that_are_no_connects_are_told() {
    for answer in ["<html>", r#"{"a": 1}"#, r#"{"error": "x"}"#] {
        let connect = fake(move |_| Some(ok(answer)));
        connect.look().await;
        let (_, reason) = connect.known().trouble.unwrap();
        assert!(
            reason.starts_with("what answers at 127.0.0.1:") && reason.contains("is not Kafka Connect"),
            "{reason}"
        );
    }
    let huge = fake(|_| Some(ok(&" ".repeat(17 << 20))));
    huge.look().await;
    assert!(huge.known().trouble.unwrap().1.contains("MiB"), "{:?}", huge.known().trouble);
}

#[tokio::test]
async fn refusals_have_connects_own_words() {
    let connect = fake(|request| match request {
        "PUT /connectors/a%2Fb/pause" => Some(refusal(409, "Cannot complete request because of a rebalance")),
        "POST /connectors/a%2Fb/restart?includeTasks=true&onlyFailed=false" => Some(ok("{}")),
        "PUT /connector-plugins/C/config/validate" => Some(ok(r#"{"name": "C", "error_count": 1, "configs": [
                {"definition": {}, "value": {"name": "topics", "value": null, "errors": ["Missing"]}},
                {"definition": {}, "value": {"name": "file", "value": "x", "errors": []}}]}"#)),
        _ => None,
    });
    let paused = connect.rest.act("a/b", Action::Pause).await.unwrap_err();
    assert!(matches!(&paused, RestError::Refused { status: StatusCode::CONFLICT, .. }), "{paused}");
    assert!(paused.to_string().ends_with("has refused it (409): Cannot complete request because of a rebalance"));
    let restart = Action::Restart { includes_tasks: true, only_failed: false };
    connect.rest.act("a/b", restart).await.unwrap();
    let config = [("connector.class".to_owned(), Some("C".to_owned()))].into();
    let errors = connect.rest.validate(&config).await.unwrap();
    assert_eq!(errors, [("topics".to_owned(), vec!["Missing".to_owned()])].into());
}

#[tokio::test]
async fn one_that_hangs_keeps_no_page_waiting() {
    let hanging = fake(|_| None);
    let cluster = ClientConfig::new(vec!["127.0.0.1:1".to_owned()]);
    let connects = vec![Arc::clone(&hanging), fake(healthy)];
    let belongings = Belongings { connects, ..Belongings::default() };
    let cluster = Cluster::watch("c".to_owned(), Client::new(cluster), belongings);
    // It is waited for once, and not for as long as a call of it may take.
    let known = timeout(Duration::from_secs(8), cluster.connectors()).await.unwrap();
    assert_eq!((known[0].at, known[1].connectors.len()), (None, 2));
}
