//! Kafka Connect in the console: what it shows of connectors, what it changes, and what it never shows.

use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

mod common;
#[path = "common/http.rs"]
mod http;
#[path = "common/http_server.rs"]
mod http_server;

use common::Broker;
use http::Answer;
use http_server::HttpServer;

/// A name that would be markup if it were not escaped.
const NAME: &str = "<b onclick='x'>\"&amp;";
const ESCAPED: &str = "&#60;b onclick=&#39;x&#39;&#62;&#34;&#38;amp;";
/// The same in an address.
const PART: &str = "%3Cb%20onclick%3D%27x%27%3E%22%26amp%3B";

fn config() -> Value {
    json!({ "connector.class": "a.<i>Sink", "topics": "orders", "db.password": "sesame seed", "name": NAME })
}

/// Of a Connect with one connector.
fn answer(line: &str, body: &Value) -> (u16, Value) {
    let here = format!("/connectors/{PART}");
    match line {
        "GET /" => (200, json!({ "version": "4.3.1" })),
        "GET /connectors?expand=status&expand=info" => {
            let trace = "<script>alert(1)</script> no login with sesame seed\n\tat x";
            let task = json!({ "id": 0, "state": "FAILED", "worker_id": "<u>:8083", "trace": trace });
            let status = json!({ "connector": { "state": "RUNNING", "worker_id": "w" }, "tasks": [task] });
            (200, json!({ NAME: { "status": status, "info": { "type": "sink", "config": config() } } }))
        }
        _ if line == format!("GET {here}/config") => (200, config()),
        // No worker has taken it yet.
        "GET /connectors/young/config" => (200, config()),
        _ if line == format!("GET {here}/topics") => (200, json!({ NAME: { "topics": ["<s>orders"] } })),
        "PUT /connector-plugins/a.%3Ci%3ESink/config/validate" => {
            let wrong = if body["topics"] == json!("wrong") { vec!["<em>Invalid: sesame seed"] } else { Vec::new() };
            (200, json!({ "configs": [{ "value": { "name": "topics", "errors": wrong } }] }))
        }
        _ if line == format!("PUT {here}/pause") => (409, json!({ "message": "a rebalance is in progress" })),
        _ if line.starts_with("GET") => (404, json!({ "message": "HTTP 404 Not Found" })),
        _ => (200, json!({})),
    }
}

fn get(address: &str, path: &str) -> Answer {
    http::request(address, "GET", path, &[("Host", address)], "")
}

fn post(address: &str, path: &str, form: &str) -> Answer {
    let headers = [("Host", address), ("Content-Type", "application/x-www-form-urlencoded")];
    http::request(address, "POST", path, &headers, form)
}

fn started(connect: &HttpServer, flags: &[&str]) -> (Broker, String, String) {
    let broker = Broker::start_with(&[&["--console", "127.0.0.1:0", "--connect", &connect.url()], flags].concat());
    let address = broker.console.clone().unwrap();
    let here = format!("/clusters/local/connect/{}/{PART}", connect.address.replace(':', "%3A"));
    (broker, address, here)
}

#[test]
fn connectors_are_shown_without_their_secrets_and_as_text() {
    let connect = HttpServer::start(answer);
    let (_broker, address, here) = started(&connect, &[]);
    let pages = ["/clusters/local", "/clusters/local/connect", &here, &format!("{here}/configs")];
    let pages = pages.map(|path| get(&address, path));
    for page in &pages[1..] {
        assert_eq!(page.status, 200, "{}", page.body);
        assert!(page.body.contains(ESCAPED), "{}", page.body);
        for hostile in ["<script>alert", "<b on", "<u>", "<s>", "<i>", "sesame"] {
            assert!(!page.body.contains(hostile), "{hostile}: {}", page.body);
        }
    }
    let young = get(&address, &here.replace(PART, "young"));
    assert!(young.status == 200 && young.body.contains("Unassigned"), "{}", young.body);
    assert_eq!(get(&address, &here.replace(PART, "none")).status, 404);
    let page = &pages[2].body;
    assert!(page.contains("no login with (hidden)") && page.contains("&#60;s&#62;orders"), "{page}");
    assert!(page.contains("Its offsets are not known: this version of Connect does not tell them"), "{page}");
    // The overview is as old as the last look at the brokers.
    let found = (0..100).any(|_| {
        sleep(Duration::from_millis(100));
        get(&address, "/api/v1/clusters/local/status").body.contains("1 of 1 task of connector")
    });
    assert!(found);

    let answer = get(&address, "/api/v1/clusters/local/connect");
    assert!(!answer.body.contains("sesame"), "{}", answer.body);
    let answer: Value = serde_json::from_str(&answer.body).unwrap();
    let [known] = &answer["connects"].as_array().unwrap()[..] else { panic!("{answer}") };
    assert_eq!((&known["version"], &known["error"]), (&json!("4.3.1"), &Value::Null));
    assert_eq!(known["connectors"][0]["tasks_failed"], 1);
    let answer = get(&address, &format!("/api/v1{here}"));
    assert!(!answer.body.contains("sesame"), "{}", answer.body);
    let answer: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!((&answer["configs"]["db.password"], &answer["topics"][0]), (&json!("(hidden)"), &json!("<s>orders")));
    assert_eq!((&answer["tasks"][0]["state"], &answer["offsets"]), (&json!("FAILED"), &Value::Null));
}

#[test]
fn connectors_are_changed_by_their_names() {
    let connect = HttpServer::start(answer);
    let (_broker, address, here) = started(&connect, &[]);
    let act = |form: &str| post(&address, &format!("{here}/act"), form);
    let lines = || connect.requests().into_iter().map(|(line, _)| line).collect::<Vec<_>>();

    let paused = act("action=pause");
    assert_eq!(paused.status, 409);
    assert!(paused.body.contains("has refused it (409): a rebalance is in progress"), "{}", paused.body);
    assert_eq!(act("action=explode").status, 400);
    let restarted = act("action=restart&failed=on");
    let to = format!("{here}?done=connector-restarted");
    assert_eq!((restarted.status, restarted.header("location")), (303, Some(to.as_str())), "{}", restarted.head);
    assert_eq!(act("action=stop").status, 303);
    assert_eq!(post(&address, &format!("{here}/tasks/0/restart"), "").status, 303);
    let names = ["PUT pause", "POST restart?includeTasks=false&onlyFailed=true", "PUT stop", "POST tasks/0/restart"];
    let expected = names.map(|name| name.replace(' ', &format!(" /connectors/{PART}/")));
    assert_eq!(lines(), expected);

    assert_eq!(post(&address, &format!("{here}/delete"), "confirm=x").status, 400);
    assert_eq!(lines(), [""; 0]);
    assert_eq!(post(&address, &format!("{here}/delete"), &format!("confirm={PART}")).status, 303);
    assert_eq!(lines(), [format!("DELETE /connectors/{PART}")]);

    let connect_field = connect.address.replace(':', "%3A");
    let create =
        |json: &str| post(&address, "/clusters/local/connect/new", &format!("connect={connect_field}&json={json}"));
    assert_eq!(create("nonsense").status, 422);
    let class = "%22connector.class%22:%22a.%3Ci%3ESink%22";
    let wrong = create(&format!("%7B%22name%22:%22n%22,%22topics%22:%22wrong%22,{class}%7D"));
    assert!(wrong.status == 422 && wrong.body.contains("&#60;em&#62;Invalid"), "{}", wrong.body);
    connect.requests();
    assert_eq!(create(&format!("%7B%22name%22:%22n%22,{class}%7D")).status, 303);
    let requests = connect.requests();
    let created = json!({ "name": "n", "config": { "name": "n", "connector.class": "a.<i>Sink" } });
    assert_eq!(requests.last(), Some(&("POST /connectors".to_owned(), created)));
}

#[test]
fn secrets_stay_as_they_are_unless_they_are_replaced() {
    let connect = HttpServer::start(answer);
    let (_broker, address, here) = started(&connect, &[]);
    let path = format!("{here}/configs");
    let form = get(&address, &path).body;
    let shown = form.split_once("name=\"shown\" value=\"").unwrap().1.split_once('"').unwrap().0.to_owned();
    let set = |fields: &str| post(&address, &path, &format!("shown={shown}&{fields}"));

    let outdated = post(&address, &path, "shown=x&config.topics=a");
    assert!(outdated.status == 409 && outdated.body.contains("changed meanwhile"), "{}", outdated.body);
    let wrong = set("config.topics=wrong&config.db.password=");
    assert_eq!(wrong.status, 409);
    assert!(wrong.body.contains("&#60;em&#62;Invalid: (hidden)") && !wrong.body.contains("sesame"), "{}", wrong.body);
    connect.requests();
    for (typed, password) in [("", "sesame seed"), ("open", "open")] {
        assert_eq!(set(&format!("config.topics=more&config.db.password={typed}&more=tasks.max%3D2")).status, 303);
        let (line, sent) = connect.requests().pop().unwrap();
        assert_eq!(line, format!("PUT /connectors/{PART}/config"));
        let mut expected = config();
        expected["topics"] = json!("more");
        expected["tasks.max"] = json!("2");
        expected["db.password"] = json!(password);
        assert_eq!(sent, expected);
    }
}

#[test]
fn a_console_that_is_read_only_shows_connectors_and_changes_none() {
    let connect = HttpServer::start(answer);
    let (_broker, address, here) = started(&connect, &["--console-read-only"]);
    let page = get(&address, &here).body;
    assert!(page.contains(ESCAPED) && !page.contains("method=\"post\"") && !page.contains("/configs\""), "{page}");
    assert_eq!(
        [get(&address, &format!("{here}/configs")).status, get(&address, &format!("{here}/delete")).status],
        [403; 2]
    );
    for path in ["act", "configs", "delete", "tasks/0/restart"] {
        assert_eq!(post(&address, &format!("{here}/{path}"), "action=stop&confirm=x").status, 403, "{path}");
    }
    assert_eq!(post(&address, "/clusters/local/connect/new", "connect=x&json=x").status, 403);
    assert_eq!(connect.requests(), []);
}

#[test]
fn a_connect_that_is_gone_is_told_without_its_credentials() {
    let broker = Broker::start_with(&["--console", "127.0.0.1:0", "--connect", "http://me:sesame@127.0.0.1:1"]);
    let address = broker.console.as_deref().unwrap();
    let page = get(address, "/clusters/local/connect");
    assert_eq!(page.status, 200);
    let reason = "Connect at 127.0.0.1:1 cannot be asked: nobody listens there. Nothing is known of it yet.";
    assert!(page.body.contains(reason) && !page.body.contains("sesame"), "{}", page.body);
    let connector = get(address, "/clusters/local/connect/127.0.0.1%3A1/x");
    assert!(connector.status == 503 && connector.body.contains("nobody listens there"), "{}", connector.body);
    assert_eq!(get(address, "/clusters/local/connect/other/x").status, 404);
    assert_eq!(get(address, "/clusters/local/topics").status, 200);
}
