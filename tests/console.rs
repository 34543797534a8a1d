//! The console over HTTP: whom it lets in, what it changes for whom, and its JSON. Its pages are driven in a browser by
//! compat/console.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

mod common;
#[path = "common/console_process.rs"]
mod console_process;
#[path = "common/http.rs"]
mod http;

use common::{Broker, PARSHALL};
use console_process::Console;
use http::Answer;

/// Much longer than anything takes: the machine may be busy.
const LOOKS: usize = 600;
const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

fn get(address: &str, path: &str) -> Answer {
    http::request(address, "GET", path, &[("Host", address)], "")
}

fn post(address: &str, path: &str, form: &str, more: &[(&str, &str)]) -> Answer {
    http::request(address, "POST", path, &[&[("Host", address), FORM], more].concat(), form)
}

fn json(address: &str, path: &str) -> Value {
    let answer = get(address, path);
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

/// `parshall cluster start` with two nodes, until it is dropped.
struct Cluster {
    process: Child,
    address: String,
    data_dir: tempfile::TempDir,
}

impl Cluster {
    fn start() -> Self {
        let data_dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(PARSHALL);
        command.args(["cluster", "start", "--nodes", "2", "--port", "0", "--data-dir"]).arg(data_dir.path());
        command.env("PARSHALL_CONSOLE", "off").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.split(" is ready on ").nth(1).and_then(|rest| rest.split(", data").next());
        let address = address.unwrap_or_else(|| panic!("not ready: {line:?}")).to_owned();
        Self { process, address, data_dir }
    }

    fn ok(&self, args: &[&str]) {
        let command = &mut Command::new(PARSHALL);
        let done =
            command.args(args).args(["--bootstrap-server", &self.address]).stdin(Stdio::null()).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        common::signal(&self.process, "-TERM");
        let _ = self.process.wait();
    }
}

#[test]
fn replicas_are_compared_and_the_first_difference_is_shown() {
    let cluster = Cluster::start();
    for topic in ["first", "second"] {
        cluster.ok(&["topic", "create", topic, "--replica-assignment", "1:2"]);
        for value in ["one", "two", "three"] {
            cluster.ok(&["produce", topic, "--value", value]);
        }
    }
    let console = Console::start(&["--bootstrap-server", &cluster.address]);
    let clusters = json(&console.address, "/api/v1/clusters");
    let name = clusters["clusters"][0].as_str().unwrap();
    let compare = |query: &str| get(&console.address, &format!("/clusters/{name}/partitions/first/0/compare{query}"));
    let page = compare("").body;
    assert!(page.contains("Last records") && !page.contains("Offsets compared"), "{page}");
    let page = compare("?last=2").body;
    assert!(page.contains("All replicas have the same") && page.contains("<dd>1 to 3</dd>"), "{page}");
    assert_eq!(compare("?last=0").status, 400);

    // Another topic's batches are whole, and not those of the leader.
    let log = |topic: &str| cluster.data_dir.path().join(format!("broker-2/{topic}-0/00000000000000000000.log"));
    std::fs::copy(log("second"), log("first")).unwrap();
    let page = compare("?last=1000").body;
    assert!(page.contains("Not all replicas have what the leader has"), "{page}");
    assert!(page.contains("it differs from the leader&#39;s replica at offset 0"), "{page}");
    assert!(page.contains("The first difference on broker 2, at offset 0"), "{page}");
    assert!(page.contains("<th scope=\"row\">CRC</th><td class=\"mono\"><strong class=\"bad\">"), "{page}");
    assert!(page.contains("<th scope=\"row\">Leader epoch</th><td class=\"mono\">0</td>"), "{page}");
}

#[test]
fn a_password_keeps_others_out() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    let write = Command::new("sh").arg("-c").arg("echo 'open sesame' > \"$0\"").arg(&file).status().unwrap();
    assert!(write.success());
    let file = file.to_str().unwrap();
    // With a password it may listen for everybody.
    let broker = Broker::start_with(&["--console", "0.0.0.0:0", "--console-password-file", file]);
    let address = &broker.console.as_deref().unwrap().replace("0.0.0.0", "127.0.0.1");
    assert_eq!(get(address, "/health/live").status, 200);
    for path in ["/", "/clusters/local", "/api/v1/clusters", "/metrics"] {
        let answer = get(address, path);
        assert_eq!(
            (answer.status, answer.header("www-authenticate")),
            (401, Some("Basic realm=\"parshall\"")),
            "{path}"
        );
    }
    let page = http::request(address, "GET", "/clusters/local", &[("Host", address), ("Accept", "text/html")], "");
    assert_eq!((page.status, page.header("location")), (303, Some("/login")));
    assert_eq!(post(address, "/clusters/local/topics/new", "name=x", &[]).status, 401);
    assert_eq!(broker.ok(&["topic", "list"]), "");

    let wrong = post(address, "/login", "password=sesame", &[]);
    assert_eq!((wrong.status, wrong.header("set-cookie")), (403, None));
    let right = post(address, "/login", "password=open+sesame", &[]);
    let cookie = right.header("set-cookie").unwrap();
    assert_eq!(right.status, 303);
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    let with_cookie = |path| http::request(address, "GET", path, &[("Host", address), ("Cookie", cookie)], "");
    assert_eq!(with_cookie("/clusters/local").status, 200);
    // any:open sesame
    let basic = ("Authorization", "Basic YW55Om9wZW4gc2VzYW1l");
    assert_eq!(http::request(address, "GET", "/metrics", &[("Host", address), basic], "").status, 200);
    let wrong = ("Authorization", "Basic YW55Om9wZW4=");
    assert_eq!(http::request(address, "GET", "/metrics", &[("Host", address), wrong], "").status, 401);

    assert_eq!(post(address, "/logout", "", &[("Cookie", cookie)]).status, 303);
    assert_eq!(with_cookie("/clusters/local").status, 401, "the session has ended");
}

#[test]
fn nothing_is_changed_for_other_origins_or_without_the_name() {
    let broker = Broker::start_with(&["--console", "127.0.0.1:0"]);
    let address = broker.console.as_deref().unwrap();
    broker.ok(&["topic", "create", "orders"]);
    let delete = "/clusters/local/topics/orders/delete";
    for origin in ["http://evil.example", "null", "http://localhost:1"] {
        assert_eq!(post(address, delete, "confirm=orders", &[("Origin", origin)]).status, 403, "{origin}");
    }
    assert_eq!(post(address, delete, "confirm=order", &[]).status, 400);
    let delete_records = "/clusters/local/topics/orders/delete-records";
    assert_eq!(post(address, delete_records, "topic_id=&plan=0:1&confirm=order", &[]).status, 400);
    assert_eq!(broker.ok(&["topic", "list"]), "orders\n");
    let own = format!("http://{address}");
    let done = post(address, delete, "confirm=orders", &[("Origin", &own)]);
    assert_eq!((done.status, done.header("location")), (303, Some("/clusters/local/topics?done=topic-deleted")));
    assert_eq!(broker.ok(&["topic", "list"]), "");
}

/// The fields of the form that a page has for what it shows.
fn hidden_fields(page: &str) -> String {
    let inputs = page.split("<input type=\"hidden\" name=\"").skip(1);
    let pairs = inputs.map(|input| {
        let (name, rest) = input.split_once("\" value=\"").unwrap();
        format!("{name}={}", rest.split_once('"').unwrap().0)
    });
    pairs.collect::<Vec<_>>().join("&")
}

#[test]
fn selected_topics_are_changed_at_once_and_internal_ones_never() {
    let broker = Broker::start_with(&["--console", "127.0.0.1:0"]);
    let address = broker.console.as_deref().unwrap();
    for topic in ["first", "second", "third"] {
        broker.ok(&["topic", "create", topic]);
        broker.ok_with(&["produce", topic], "a\nb\n");
    }
    // Makes the topic of the committed offsets.
    broker.ok(&["consume", "first", "--group", "readers", "--from-beginning", "--max-messages", "1"]);
    let selected = "topic=first&topic=__consumer_offsets&topic=second&topic=none";
    let review = |action: &str| {
        let page = get(address, &format!("/clusters/local/selected-topics/{action}{selected}"));
        assert_eq!(page.status, 200, "{}", page.body);
        assert!(
            page.body.contains("it belongs to the brokers") && page.body.contains("does not exist"),
            "{}",
            page.body
        );
        page.body
    };
    let run = |action: &str, form: &str| post(address, &format!("/clusters/local/selected-topics/{action}"), form, &[]);

    let page = review("config?name=retention.ms&value=60000&action=set&");
    assert!(page.contains("604800000 (7 d) → 60000 (1 min)"), "{page}");
    let changed = run("config", &hidden_fields(&page));
    assert!(changed.status == 200 && changed.body.contains("2 of 2 topics done"), "{}", changed.body);
    let settings = broker.ok(&["config", "describe", "topic", "second"]);
    assert!(settings.contains("retention.ms=60000"), "{settings}");
    // What the brokers refuse is known before.
    let page = review("config?name=retention.ms&value=soon&action=set&");
    assert!(page.contains("There is nothing to do") && page.contains("soon"), "{page}");

    let page = review("delete-records?");
    assert!(page.contains("2 records in 1 partition") && page.contains("1 of them that group “readers”"), "{page}");
    let form = hidden_fields(&page);
    assert_eq!(run("delete-records", &format!("{form}&confirm=2+topic")).status, 400);
    // What comes in the meantime stays.
    broker.ok_with(&["produce", "first"], "later\n");
    let deleted = run("delete-records", &format!("{form}&confirm=2+topics"));
    assert!(deleted.status == 200 && deleted.body.contains("deleted in 1 partition"), "{}", deleted.body);
    let left = broker.ok(&["consume", "first", "--from-beginning", "--max-messages", "1"]);
    assert_eq!(left.trim(), "later");

    // Another topic with the name of one that was shown is not the one that was meant.
    let form = hidden_fields(&review("delete?"));
    broker.ok(&["topic", "delete", "second"]);
    broker.ok(&["topic", "create", "second"]);
    let deleted = run("delete", &format!("{form}&confirm=2+topics"));
    assert!(deleted.status == 409 && deleted.body.contains("1 of 2 topics done"), "{}", deleted.body);
    assert!(deleted.body.contains("created again since"), "{}", deleted.body);
    let deleted = run("delete", "topic=__consumer_offsets&topic=third&confirm=2+topics");
    assert!(deleted.status == 409 && deleted.body.contains("it belongs to the brokers"), "{}", deleted.body);
    assert_eq!(broker.ok(&["topic", "list"]), "__consumer_offsets\nsecond\n");
}

#[test]
fn a_console_that_is_read_only_changes_nothing() {
    let broker = Broker::start_with(&["--console", "127.0.0.1:0", "--console-read-only"]);
    let address = broker.console.as_deref().unwrap();
    broker.ok(&["topic", "create", "orders"]);
    let changes = [
        ("topics/new", "name=x"),
        ("topics/orders/delete", "confirm=orders"),
        ("topics/orders/delete-records", "topic_id=&plan=0:1&confirm=orders"),
        ("topics/orders/partitions", "count=3"),
        ("topics/orders/messages/many", "count=3&value=x"),
        ("selected-topics/delete", "topic=orders&confirm=1+topic"),
        ("selected-topics/delete-records", "topic=orders&confirm=1+topic"),
        ("selected-topics/config", "topic=orders&name=retention.ms&value=1&action=set"),
        ("topics/orders/configs/retention.ms", "action=set&value=1"),
        ("transactions/billing-7/terminate", "confirm=billing-7"),
        ("partitions/orders/0/transactions/0/abort", "confirm=orders-0"),
        ("brokers/1/configs/log.retention.ms", "action=set&value=1"),
        ("lab", "suite=quick"),
        ("lab/capacity", "goal=p99+%3C%3D+20ms&record_size=1&partitions=1&replicas=1&acks=all&step=1"),
        ("lab/new-scenario", "toml=name"),
        ("lab/scenarios/mine", "toml=name"),
        ("lab/scenarios/mine/delete", "confirm=mine"),
    ];
    for (path, form) in changes {
        let answer = post(address, &format!("/clusters/local/{path}"), form, &[]);
        assert_eq!(answer.status, 403, "{path}");
        assert!(answer.body.contains("read-only"), "{}", answer.body);
    }
    assert_eq!(broker.ok(&["topic", "list"]), "orders\n");
    let page = get(address, "/clusters/local/topics");
    assert!(
        !page.body.contains("Create a topic") && !page.body.contains("Select") && page.body.contains("Read-only"),
        "{}",
        page.body
    );
    let page = get(address, "/clusters/local/topics/orders");
    assert!(page.status == 200 && !page.body.contains("Delete"), "{}", page.body);
}

#[test]
fn who_was_throttled_is_shown_beside_the_quotas() {
    let broker = Broker::start_with(&["--console", "127.0.0.1:0"]);
    let address = broker.console.as_deref().unwrap();
    broker.ok(&["quota", "set", "--client-id", "greedy<b>", "producer_byte_rate=1000"]);
    broker.ok(&["topic", "create", "t"]);
    assert_eq!(json(address, "/api/v1/clusters/local/quotas")["throttled"], serde_json::json!([]));
    assert!(!get(address, "/clusters/local/quotas").body.contains("Throttled clients"));
    let perf =
        ["perf", "produce", "--topic", "t", "--num-records", "3", "--record-size", "10000", "--throughput", "-1"];
    broker.ok(&[&perf[..], &["--producer-props", "acks=1", "client.id=greedy<b>", "batch.size=1"]].concat());
    // The console takes a look at the cluster every few seconds.
    let mut told = (0..600).map(|_| {
        sleep(Duration::from_millis(100));
        json(address, "/api/v1/clusters/local/quotas")["throttled"].clone()
    });
    let told = told.find(|told| *told != serde_json::json!([])).expect("nobody is shown who was throttled");
    let client = &told[0];
    assert_eq!(client["entity"], serde_json::json!({ "client-id": "greedy<b>" }));
    assert_eq!((&client["quota"], &client["brokers"]), (&"producer_byte_rate".into(), &serde_json::json!([1])));
    assert!(client["seconds"].as_f64().unwrap() > 0.0 && client["age_seconds"].as_f64().unwrap() < 60.0, "{client}");
    let page = get(address, "/clusters/local/quotas").body;
    assert!(page.contains("Throttled clients") && !page.contains("greedy<b>"), "{page}");
    assert!(page.matches("client-id &#34;greedy&#60;b&#62;&#34;").count() >= 2, "{page}");
    assert!(!get(address, "/clusters/local/quotas?q=other").body.contains("Throttled clients"));
}

#[test]
fn every_page_says_that_everybody_may_use_it() {
    let broker = Broker::start_with(&["--console", "0.0.0.0:0", "--insecure"]);
    let address = &broker.console.as_deref().unwrap().replace("0.0.0.0", "127.0.0.1");
    assert!(get(address, "/clusters/local").body.contains("No login"));
}

#[test]
fn several_clusters_are_shown_and_one_that_is_down_says_so() {
    let (orders, logs) = (Broker::start(), Broker::start());
    orders.ok(&["topic", "create", "first"]);
    logs.ok(&["topic", "create", "second"]);
    let servers = [format!("orders={}", orders.address), format!("logs={}", logs.address)];
    // Nobody listens there.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = format!("gone={free}");
    let flags = ["--bootstrap-server", &servers[0], "--bootstrap-server", &servers[1], "--bootstrap-server", &gone];
    let console = Console::start(&flags);
    assert_eq!(json(&console.address, "/api/v1/clusters")["clusters"], serde_json::json!(["orders", "logs", "gone"]));
    let topics = |cluster: &str| json(&console.address, &format!("/api/v1/clusters/{cluster}/topics"));
    assert_eq!(
        (&topics("orders")["topics"][0]["name"], &topics("logs")["topics"][0]["name"]),
        (&"first".into(), &"second".into())
    );
    let page = get(&console.address, "/clusters/orders/topics").body;
    assert!(page.contains("first") && !page.contains("second"), "{page}");
    assert_eq!(get(&console.address, "/clusters/elsewhere").status, 404);
    assert_eq!(get(&console.address, "/metrics").status, 404, "there is no broker in the process");
}

#[test]
fn clusters_are_added_in_the_page_when_they_answer_and_removed() {
    let (orders, logs) = (Broker::start(), Broker::start());
    let state = tempfile::tempdir().unwrap();
    let flags = ["--bootstrap-server", &format!("orders={}", orders.address)];
    let console = Console::start_in(state.path(), &flags);
    let names = |console: &Console| json(&console.address, "/api/v1/clusters")["clusters"].clone();
    let add = |console: &Console, form: &str| post(&console.address, "/add-cluster", form, &[]);
    // Nobody listens there, and that is said of each of them.
    let has_others = |console: &Console| {
        let page = |path: &str| get(&console.address, &format!("/clusters/logs{path}")).body;
        let said = [
            ("/connect", "<th scope=\"row\" class=\"mono name\">127.0.0.1:1</th>"),
            ("/schemas", "the schema registry at 127.0.0.1:1 cannot be asked"),
            ("", "its metrics at 1@127.0.0.1:1/m"),
        ];
        for (path, said) in said {
            let page = (0..LOOKS).map(|_| page(path)).find(|page| {
                let is_said = page.contains(said);
                if !is_said {
                    sleep(Duration::from_millis(100));
                }
                is_said
            });
            assert!(page.is_some_and(|page| !page.contains("sesame")), "{path}: {said}");
        }
    };
    assert!(get(&console.address, "/clusters").body.contains("Add a cluster"));
    assert!(get(&console.address, "/add-cluster").body.contains("Test and save it"));

    // Nobody listens there, or speaks as was said: nothing is saved, and no secret comes back.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let login = "&protocol=SASL_PLAINTEXT&mechanism=PLAIN&user=me&password=sesame";
    let servers = [(free.to_string(), ""), (logs.address.clone(), login)];
    for (server, more) in &servers {
        let refused = add(&console, &format!("name=logs&servers={server}{more}"));
        assert_eq!(refused.status, 422, "{}", refused.body);
        assert!(refused.body.contains("it was not saved") && !refused.body.contains("sesame"), "{}", refused.body);
    }
    let tls = add(&console, &format!("name=logs&servers={}&schema_registry=https://me:sesame@r:1", logs.address));
    assert!(tls.status == 422 && tls.body.contains("schema registry: only http:// is spoken here"), "{}", tls.body);
    assert!(tls.body.contains("Secrets have to be typed again") && !tls.body.contains("sesame"), "{}", tls.body);
    let file = state.path().join("parshall/console-clusters.json");
    assert!(!file.exists());
    assert_eq!(add(&console, &format!("name=orders&servers={}", logs.address)).status, 422, "the name is taken");
    let foreign = [("Origin", "http://evil.example")];
    let others =
        "&connect=http://me:sesame@127.0.0.1:1&schema_registry=http://127.0.0.1:1&metrics=1@http://127.0.0.1:1/m";
    let form = format!("name=logs&servers={}{others}", logs.address);
    assert_eq!(post(&console.address, "/add-cluster", &form, &foreign).status, 403);

    let added = add(&console, &form);
    assert!(added.status == 200 && added.body.contains("reachable: 1 broker, cluster id"), "{}", added.body);
    assert_eq!(names(&console), serde_json::json!(["orders", "logs"]));
    assert!(std::fs::read_to_string(&file).unwrap().contains(&logs.address));
    logs.ok(&["topic", "create", "second"]);
    assert_eq!(json(&console.address, "/api/v1/clusters/logs/topics/second")["name"], "second");
    has_others(&console);
    drop(console);

    // It is there again, also without a cluster of a flag. A console that is read-only shows it.
    let console = Console::start_in(state.path(), &["--console-read-only"]);
    assert_eq!(names(&console), serde_json::json!(["logs"]));
    has_others(&console);
    assert!(!get(&console.address, "/clusters").body.contains("remove it"));
    assert_eq!(add(&console, &form).status, 403);
    assert_eq!(post(&console.address, "/clusters/logs/remove", "confirm=logs", &[]).status, 403);
    drop(console);
    let console = Console::start_in(state.path(), &flags);
    let page = get(&console.address, "/clusters").body;
    assert!(page.contains("by a flag") && page.matches("remove it").count() == 1, "{page}");
    let of_flag = post(&console.address, "/clusters/orders/remove", "confirm=orders", &[]);
    assert!(of_flag.status == 400 && of_flag.body.contains("leave it out there"), "{}", of_flag.body);
    assert_eq!(post(&console.address, "/clusters/logs/remove", "confirm=log", &[]).status, 400);
    assert_eq!(post(&console.address, "/clusters/logs/remove", "confirm=logs", &[]).status, 303);
    assert_eq!(names(&console), serde_json::json!(["orders"]));
    assert!(!std::fs::read_to_string(&file).unwrap().contains("logs"));
}

#[test]
fn changes_of_a_partition_are_read_from_the_metadata_again_after_a_restart() {
    let flags = ["--console", "127.0.0.1:0"];
    let mut broker = Broker::start_with(&flags);
    broker.ok(&["topic", "create", "orders"]);
    let began_ms = json(broker.console.as_deref().unwrap(), "/api/v1/clusters/local")["taken_ms"].as_i64().unwrap();
    for restarts in 1..=2 {
        let data_dir = std::mem::replace(&mut broker.data_dir, tempfile::tempdir().unwrap());
        drop(broker);
        broker = Broker::start_in(data_dir, &flags);
        let address = broker.console.as_deref().unwrap();
        let partition = json(address, "/api/v1/clusters/local/partitions/orders/0");
        let changes = partition["changes"].as_array().unwrap();
        let epoch = |of: &Value| of["leader_epoch"].as_i64().unwrap();
        let epochs: Vec<_> = changes.iter().map(|change| (epoch(&change["before"]), epoch(&change["after"]))).collect();
        assert_eq!(epochs, (1..=restarts).rev().map(|after| (after - 1, after)).collect::<Vec<_>>(), "{partition}");
        assert!(changes.iter().all(|change| change["cause"] == "broker 1 was started again"), "{partition}");
        // When they were made, and not when they were read.
        let times: Vec<_> = changes.iter().map(|change| change["at_ms"].as_i64().unwrap()).collect();
        assert!(
            times.is_sorted_by(|later, earlier| later > earlier) && times.iter().all(|ms| *ms > began_ms),
            "{times:?}"
        );
        assert!(get(address, "/clusters/local/partitions/orders/0").body.contains("broker 1 was started again"));
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test has files")]
fn changes_of_other_clusters_are_those_that_were_seen() {
    let cluster = Cluster::start();
    cluster.ok(&["topic", "create", "orders", "--replica-assignment", "1:2"]);
    let console = Console::start(&["--bootstrap-server", &format!("two={}", cluster.address)]);
    let partition = || json(&console.address, "/api/v1/clusters/two/partitions/orders/0");
    while partition()["isr"] != serde_json::json!([1, 2]) {
        sleep(Duration::from_millis(50));
    }
    let plan = cluster.data_dir.path().join("plan.json");
    std::fs::write(&plan, "{\"partitions\":[{\"topic\":\"orders\",\"partition\":0,\"replicas\":[2,1]}]}").unwrap();
    cluster.ok(&["partition", "reassign", plan.to_str().unwrap(), "--execute"]);
    while partition()["changes"].as_array().unwrap().is_empty() {
        sleep(Duration::from_millis(50));
    }
    let change = &partition()["changes"][0];
    assert_eq!(
        (&change["cause"], &change["before"]["replicas"]),
        (&"a reassignment".into(), &serde_json::json!([1, 2]))
    );
    assert_eq!(change["after"]["replicas"], serde_json::json!([2, 1]));
    assert!(change["after_ms"].as_i64().unwrap() < change["at_ms"].as_i64().unwrap(), "{change}");
    let page = get(&console.address, "/clusters/two/partitions/orders/0").body;
    assert!(page.contains("As this console has seen it since") && page.contains("a reassignment"), "{page}");
}

#[test]
fn a_page_waits_a_moment_for_what_a_broker_has_not_heard_of_yet() {
    let broker = Broker::start_with(&["--console", "127.0.0.1:0"]);
    let address = broker.console.as_deref().unwrap();
    get(address, "/clusters/local");
    // On a machine that stands still for a second the topic comes too late; it does not do so each time.
    let is_found = |attempt: u32| {
        let topic = format!("late-{attempt}");
        std::thread::scope(|scope| {
            let page = scope.spawn(|| get(address, &format!("/clusters/local/topics/{topic}/messages")));
            sleep(Duration::from_millis(300));
            broker.ok(&["topic", "create", &topic]);
            page.join().unwrap().status == 200
        })
    };
    assert!((0..5).any(is_found));
    assert_eq!(get(address, "/clusters/local/topics/never/messages").status, 404);
}

#[test]
fn many_records_are_produced_from_templates() {
    let broker = Broker::start_with(&["--console", "127.0.0.1:0"]);
    let address = broker.console.as_deref().unwrap();
    broker.ok(&["topic", "create", "orders", "--partitions", "3"]);
    let many = "/clusters/local/topics/orders/messages/many";
    let start = |form: &str| {
        let started = post(address, many, form, &[]);
        assert_eq!(started.status, 303, "{}", started.body);
        started.header("location").unwrap().to_owned()
    };
    let until = |run: &str, words: &str| loop {
        let page = get(address, run).body;
        if page.contains(words) {
            break page;
        }
        sleep(Duration::from_millis(20));
    };
    // {"id":{{i}},"die":{{random 1 6}}}
    let value = "%7B%22id%22:%7B%7Bi%7D%7D,%22die%22:%7B%7Brandom+1+6%7D%7D%7D";
    let page = until(&start(&format!("count=1000&key=%7B%7Buuid%7D%7D&value={value}")), ">done<");
    assert!(page.contains("<dd>1,000 of 1,000</dd>") && page.matches("from=offset").count() == 3, "{page}");
    let records: Vec<Value> =
        broker.values("orders").iter().map(|value| serde_json::from_str(value).unwrap()).collect();
    let mut ids: Vec<_> = records.iter().map(|record| record["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=1000).collect::<Vec<_>>());
    assert!(records.iter().all(|record| (1..=6).contains(&record["die"].as_u64().unwrap())));

    // One that would take long is stopped: what it has written stays.
    let slow = start("count=1000&rate=1&value=slow&partition=0");
    until(&slow, " of 1,000</dd>");
    assert_eq!(post(address, &format!("{slow}/stop"), "", &[]).status, 303);
    let page = until(&slow, ">stopped<");
    let written = broker.values("orders").iter().filter(|value| *value == "slow").count();
    assert!(written < 1000 && page.contains(&format!("<dd>{written} of 1,000</dd>")), "{written}: {page}");

    // What a broker refuses is said once, and is not tried a thousand times.
    broker.ok(&["config", "alter", "topic", "orders", "--set", "max.message.bytes=100"]);
    let refused = until(&start(&format!("count=1000&rate=100&value={}", "x".repeat(1000))), ">failed<");
    assert!(refused.contains("<dd>0 of 1,000</dd>") && refused.contains("MESSAGE_TOO_LARGE"), "{refused}");
    assert_eq!(post(address, many, "count=5&value=%7B%7Bname%7D%7D", &[]).status, 422);
    assert_eq!(get(address, &format!("{many}/99")).status, 404);
}

#[test]
fn alerts_are_shown_as_they_would_fire() {
    let broker = Broker::start_with(&["--console", "127.0.0.1:0"]);
    let address = broker.console.as_deref().unwrap();
    broker.ok(&["topic", "create", "orders"]);
    broker.ok(&["produce", "orders", "--value", "a"]);
    broker.ok(&["consume", "orders", "--group", "late", "--from-beginning", "--max-messages", "1"]);
    let rule = |name: &str| {
        let alerts = json(address, "/api/v1/clusters/local/alerts");
        let rules = alerts["rules"].as_array().unwrap();
        rules.iter().find(|rule| rule["name"] == name).unwrap().clone()
    };
    assert_eq!((&rule("BrokerDown")["state"], &rule("GroupBehind")["state"]), (&"inactive".into(), &"inactive".into()));
    // One that has been waiting since long ago.
    broker.ok(&["produce", "orders", "--value", "b", "--timestamp", "2020-01-01T00:00:00Z"]);
    let behind = loop {
        match rule("GroupBehind") {
            behind if behind["state"] == "pending" => break behind,
            _ => sleep(Duration::from_millis(100)),
        }
    };
    assert_eq!((&behind["severity"], &behind["for_seconds"]), (&"warning".into(), &300.into()));
    let summary = behind["alerts"][0]["summary"].as_str().unwrap();
    assert!(summary.starts_with("group late is ") && summary.ends_with(" behind in orders"), "{summary}");
    let page = get(address, "/clusters/local/alerts").body;
    assert!(page.contains(summary) && page.contains("it fires in"), "{page}");
    let rules = get(address, "/clusters/local/alerts/alerts.yml");
    assert_eq!(rules.body, include_str!("../docs/examples/alerts.yml"));

    // Others do not tell their metrics to a console.
    let console = Console::start(&["--bootstrap-server", &format!("here={}", broker.address)]);
    let page = get(&console.address, "/clusters/here/alerts").body;
    assert!(page.contains("tell this console no metrics") && !page.contains("inactive"), "{page}");
    assert!(!get(&console.address, "/clusters/here").body.contains(">Alerts<"));
}

#[test]
fn programs_get_json() {
    let broker = Broker::start_with(&["--console", "127.0.0.1:0"]);
    let address = broker.console.as_deref().unwrap();
    broker.ok(&["topic", "create", "orders", "--partitions", "2"]);
    broker.ok_with(&["produce", "orders"], "a\nb\nc\n");
    broker.ok(&["consume", "orders", "--group", "a/b <c>", "--from-beginning", "--max-messages", "3"]);
    let cluster = json(address, "/api/v1/clusters/local");
    assert_eq!((&cluster["brokers"], &cluster["brokers_alive"]), (&1.into(), &1.into()), "{cluster}");
    assert_eq!(cluster["quorum"]["voters"], serde_json::json!([1]), "{cluster}");
    let brokers = json(address, "/api/v1/clusters/local/brokers");
    assert!(brokers["brokers"][0]["memory_bytes"].as_f64().unwrap() > 0.0, "{brokers}");
    let journal = &brokers["brokers"][0]["journal"];
    assert_eq!((&journal["state"], journal["needed_bytes"].is_f64()), (&"in_use".into(), true), "{brokers}");
    let overview = get(address, "/clusters/local").body;
    assert!(overview.contains("Acknowledged and only in the journal: "), "{overview}");
    assert!(overview.contains("<span class=\"pill good\">journal</span>"), "{overview}");
    // What is told is a few seconds old.
    let records = || {
        let topic = json(address, "/api/v1/clusters/local/topics/orders");
        let ends = topic["partitions"].as_array().unwrap().iter().map(|of| of["log_end_offset"].as_i64().unwrap());
        ends.sum::<i64>()
    };
    while records() < 3 {
        sleep(Duration::from_millis(100));
    }
    let group = json(address, "/api/v1/clusters/local/groups/a%2Fb%20%3Cc%3E");
    assert_eq!((&group["group"]["id"], &group["group"]["lag_records"]), (&"a/b <c>".into(), &0.into()), "{group}");
    let none = get(address, "/api/v1/clusters/local/topics/none");
    assert_eq!((none.status, none.header("content-type")), (404, Some("application/json")));
    let policy = get(address, "/clusters/local");
    let policy = policy.header("content-security-policy").unwrap();
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
}
