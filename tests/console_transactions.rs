//! Transactions in the console: what it shows of open ones, and ending them, with and without a coordinator.

use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

mod common;
#[path = "common/console_process.rs"]
mod console_process;
#[path = "common/http.rs"]
mod http;

use common::Broker;
use console_process::Console;
use http::Answer;

const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");
/// A transaction may be open for so long, and this is more than any test takes.
const LONG_MS: u32 = 900_000;
/// An id that would be markup if it were not escaped, and other parts of a path.
const ID: &str = "a/<b>";
const PART: &str = "a%2F%3Cb%3E";
const ESCAPED: &str = "a/&#60;b&#62;";

fn get(address: &str, path: &str) -> Answer {
    http::request(address, "GET", &format!("/clusters/c/{path}"), &[("Host", address)], "")
}

fn page(address: &str, path: &str) -> String {
    let answer = get(address, path);
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

fn confirm(address: &str, path: &str, typed: &str) -> Answer {
    let form = format!("confirm={typed}");
    http::request(address, "POST", &format!("/clusters/c/{path}"), &[("Host", address), FORM], &form)
}

fn api(address: &str, path: &str) -> Value {
    let answer = http::request(address, "GET", &format!("/api/v1/clusters/c/{path}"), &[("Host", address)], "");
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

/// Asks again until the answer is as it should be.
fn wait_for(address: &str, path: &str, is_right: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..600 {
        let answer = api(address, path);
        if is_right(&answer) {
            return answer;
        }
        sleep(Duration::from_millis(100));
    }
    panic!("{path} stays {}", api(address, path));
}

/// A producer in a transaction that is open until it is killed, or times out.
struct Producer(Child);

impl Producer {
    fn start(broker: &Broker, console: &Console, timeout_ms: u32) -> Self {
        let mut command = broker.command(&["perf", "produce", "--topic", "orders", "--transactional-id", ID]);
        command.args(["--record-size", "10", "--throughput", "100", "--duration", "10m"]);
        command.args(["--transaction-duration-ms", "600000", "--producer-props"]);
        command.arg(format!("transaction.timeout.ms={timeout_ms}")).stdout(Stdio::null()).stderr(Stdio::null());
        let producer = Self(command.spawn().unwrap());
        let is_open = |listed: &Value| listed["transactions"][0]["partitions"] == 1;
        wait_for(&console.address, "transactions?state=Ongoing", is_open);
        producer
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start() -> (Broker, Console) {
    let interval = "transaction.abort.timed.out.transaction.cleanup.interval.ms=500";
    let flags = ["--console", "off", "--set", "transaction.state.log.num.partitions=2", "--set", interval];
    let broker = Broker::start_with(&flags);
    let console = Console::start(&["--bootstrap-server", &format!("c={}", broker.address)]);
    (broker, console)
}

#[test]
fn an_open_transaction_is_shown_and_terminated_when_its_id_is_typed() {
    let (broker, console) = start();
    let address = &console.address;
    assert!(page(address, "transactions").contains("No transactional id is known."));
    assert_eq!(get(address, &format!("transactions/{PART}")).status, 404);
    broker.ok(&["topic", "create", "orders"]);
    let _producer = Producer::start(&broker, &console, LONG_MS);

    let one = api(address, &format!("transactions/{PART}"));
    assert_eq!(
        (&one["transactional_id"], &one["state"], &one["overdue"]),
        (&json!(ID), &json!("Ongoing"), &json!(false))
    );
    assert_eq!(one["partitions"], json!([{ "topic": "orders", "partition": 0 }]));
    let list = page(address, "transactions?state=open");
    assert!(list.contains(ESCAPED) && !list.contains("<b>") && list.contains("1 transactional id<"), "{list}");
    assert!(page(address, "transactions?state=Empty").contains("There is no such transactional id."));
    assert_eq!(get(address, "transactions?state=Lost").status, 400);

    // The partition says what consumers of committed records wait for.
    let has_records = |told: &Value| told["high_watermark"].as_i64() > Some(0);
    let told = wait_for(address, "partitions/orders/0/producers", has_records);
    assert_eq!(
        (&told["last_stable_offset"], told["producers"][0]["transaction_start_offset"].as_i64()),
        (&json!(0), Some(0))
    );
    let partition = page(address, "partitions/orders/0");
    assert!(partition.contains("(read_committed) get to offset 0: "), "{partition}");
    assert!(partition.contains(&format!("/transactions/{PART}\">{ESCAPED}</a>")), "{partition}");
    // A coordinator has it, so that it does not hang, and is not aborted past that.
    assert!(page(address, "hanging-transactions?minutes=0").contains("No transaction hangs in "));
    let refused = confirm(address, "partitions/orders/0/transactions/0/abort", "orders-0");
    assert!(refused.status == 400 && refused.body.contains("a coordinator has it"), "{}", refused.body);

    let terminate = format!("transactions/{PART}/terminate");
    assert!(page(address, &terminate).contains("has written in 1 partition: "));
    assert_eq!(confirm(address, &terminate, "other").status, 400);
    assert_eq!(api(address, &format!("transactions/{PART}"))["state"], "Ongoing");
    let done = confirm(address, &terminate, PART);
    let location = format!("/clusters/c/transactions/{PART}?done=transaction-terminated");
    assert_eq!((done.status, done.header("location")), (303, Some(location.as_str())), "{}", done.body);
    assert_eq!(api(address, "transactions?state=open")["total"], 0);
    assert_eq!(api(address, "partitions/orders/0/producers")["finding"], Value::Null);
}

#[test]
fn a_transaction_that_no_coordinator_has_is_found_and_aborted_when_its_partition_is_typed() {
    let (mut broker, console) = start();
    let address = &console.address;
    for topic in ["orders", "copies"] {
        broker.ok(&["topic", "create", topic]);
    }
    drop(Producer::start(&broker, &console, LONG_MS));
    // Another partition with the same records, of which the coordinator knows nothing.
    broker.process.kill().unwrap();
    broker.process.wait().unwrap();
    let log = |topic: &str| broker.data_dir.path().join(format!("{topic}-0/00000000000000000000.log"));
    std::fs::copy(log("orders"), log("copies")).unwrap();
    broker.kill_and_restart();

    let found = wait_for(address, "hanging-transactions?idle_ms=0", |found| found["hanging"].as_array().is_some());
    let hanging = found["hanging"].as_array().unwrap();
    assert_eq!((hanging.len(), &hanging[0]["topic"]), (1, &json!("copies")), "{found}");
    let command = "parshall transaction abort copies:0 --start-offset 0";
    assert_eq!(hanging[0]["abort_command"], command);
    let list = page(address, "hanging-transactions?minutes=0");
    assert!(list.contains("1 transaction hangs, of ") && list.contains(command), "{list}");
    assert!(!page(address, "hanging-transactions").contains("hangs, of"), "it was not asked for");

    let abort = "partitions/copies/0/transactions/0/abort";
    assert!(page(address, abort).contains("from offset 0 on: "));
    assert_eq!(confirm(address, abort, "copies").status, 400);
    let done = confirm(address, abort, "copies-0");
    let location = "/clusters/c/partitions/copies/0?done=transaction-aborted";
    assert_eq!((done.status, done.header("location")), (303, Some(location)), "{}", done.body);
    let told = api(address, "partitions/copies/0/producers");
    assert_eq!(told["last_stable_offset"], told["high_watermark"], "{told}");
    assert_eq!(get(address, abort).status, 400, "it has ended");
}

#[test]
fn a_transaction_that_times_out_is_remembered_as_aborted() {
    let (broker, console) = start();
    let address = &console.address;
    broker.ok(&["topic", "create", "orders"]);
    // Long enough to be seen while it is open.
    let producer = Producer::start(&broker, &console, 10_000);
    assert_eq!(api(address, "aborted-transactions")["aborted"], json!([]));
    drop(producer);
    let seen = wait_for(address, "aborted-transactions", |seen| seen["aborted"][0]["state"] == "CompleteAbort");
    let aborted = &seen["aborted"][0];
    let ms = |field: &str| aborted[field].as_i64().unwrap();
    assert_eq!(aborted["transactional_id"], ID);
    assert!(ms("started_ms") < ms("first_seen_ms") && ms("after_ms") < ms("first_seen_ms"), "{seen}");
    let list = page(address, "aborted-transactions?q=B");
    assert!(list.contains(ESCAPED) && list.contains("1 aborted transaction<"), "{list}");
    assert!(page(address, "aborted-transactions?q=other").contains("None was seen."));
}
