//! A schema registry in the console: what it shows of subjects, and what it does when the registry is gone.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

mod common;
#[path = "common/http.rs"]
mod http;
#[path = "common/http_server.rs"]
mod http_server;

use common::Broker;
use http::Answer;
use http_server::HttpServer;

/// A name that would be markup if it were not escaped, and lead elsewhere in a path.
const NAME: &str = "../<b>\"&amp;";
const ESCAPED: &str = "../&#60;b&#62;&#34;&#38;amp;";
const PART: &str = "..%2F%3Cb%3E%22%26amp%3B";

const ORDER: &str = r#"{"type":"record","name":"Order<i>","fields":[{"name":"id","type":"long"}]}"#;
const PAYMENT: &str = "syntax = \"proto3\";\nimport \"money.proto\";\nmessage Payment { Money money = 1; }\n";
const MONEY: &str = "syntax = \"proto3\";\nmessage Money { string currency = 1; int64 units = 2; }\n";

fn references() -> Value {
    json!([{ "name": "money.proto", "subject": "money", "version": 2 }])
}

fn answer(line: &str, _body: &Value) -> (u16, Value) {
    let order = json!({ "subject": NAME, "version": 3, "id": 17, "schema": ORDER });
    let payment = json!({
        "subject": "payments-value", "version": 1, "id": 21, "schemaType": "PROTOBUF", "schema": PAYMENT,
        "references": references(),
    });
    match line.strip_prefix("GET ").unwrap_or(line) {
        "/subjects" => (200, json!(["payments-value", NAME])),
        "/subjects/payments-value/versions" => (200, json!([1])),
        "/subjects/payments-value/versions/latest" => (200, payment),
        "/config" => (200, json!({ "compatibilityLevel": "BACKWARD" })),
        "/schemas/ids/17" => (200, json!({ "schema": ORDER })),
        "/schemas/ids/21" => (200, json!({ "schema": PAYMENT, "schemaType": "PROTOBUF", "references": references() })),
        "/schemas/ids/22" => (200, json!({ "schema": "{\"type\":\"object\"}", "schemaType": "JSON" })),
        "/subjects/money/versions/2" => {
            (200, json!({ "subject": "money", "version": 2, "id": 20, "schemaType": "PROTOBUF", "schema": MONEY }))
        }
        "/config/payments-value" => (200, json!({ "compatibilityLevel": "FULL" })),
        rest => match rest.strip_prefix(&format!("/subjects/{PART}/versions")) {
            Some("") => (200, json!([1, 2, 3])),
            Some("/latest" | "/3") => (200, order),
            Some("/1") => (200, json!({ "subject": NAME, "version": 1, "id": 4, "schema": "\"string\"" })),
            _ => (404, json!({ "error_code": 40401, "message": "Subject <u> not found." })),
        },
    }
}

fn get(address: &str, path: &str) -> Answer {
    http::request(address, "GET", path, &[("Host", address)], "")
}

fn started(url: &str) -> (Broker, String) {
    let broker = Broker::start_with(&["--console", "127.0.0.1:0", "--schema-registry", url]);
    let address = broker.console.clone().unwrap();
    (broker, address)
}

#[test]
fn subjects_are_shown_with_their_schemas_as_text() {
    let registry = HttpServer::start(answer);
    let (_broker, address) = started(&registry.url());
    let list = get(&address, "/clusters/local/schemas").body;
    let in_order: Vec<_> =
        [ESCAPED, "AVRO", ">17<", "payments-value", "PROTOBUF", ">21<"].map(|text| list.find(text).unwrap()).into();
    assert!(in_order.is_sorted() && list.contains("2 subjects") && list.contains("BACKWARD"), "{list}");
    assert!(list.contains(&format!("/clusters/local/schemas/{PART}\"")) && !list.contains("sesame"), "{list}");
    let found = get(&address, "/clusters/local/schemas?q=PAY").body;
    assert!(found.contains("1 subject ") && !found.contains(ESCAPED), "{found}");

    let page = get(&address, &format!("/clusters/local/schemas/{PART}")).body;
    assert!(page.contains("&#34;name&#34;: &#34;Order&#60;i&#62;&#34;") && !page.contains("<i>"), "{page}");
    assert!(page.contains("3 of 3") && page.contains("BACKWARD, as all subjects"), "{page}");
    let first = get(&address, &format!("/clusters/local/schemas/{PART}?version=1")).body;
    assert!(first.contains("1 of 3") && first.contains(">&#34;string&#34;</pre>"), "{first}");
    assert!(first.contains("<option selected>1</option>"), "{first}");
    let page = get(&address, "/clusters/local/schemas/payments-value").body;
    assert!(page.contains("<a href=\"/clusters/local/schemas/money?version=2\">money</a>"), "{page}");
    assert!(page.contains("FULL") && page.contains("message Payment"), "{page}");
    assert_eq!(registry.requests(), []);
}

/// An order of Avro with the id 7, a payment of Protobuf over 5 EUR, JSON, an order whose schema is not there,
/// MessagePack and text.
const VALUES: [&[u8]; 6] = [
    b"\0\0\0\0\x11\x0e",
    b"\0\0\0\0\x15\0\x0a\x07\x0a\x03EUR\x10\x05",
    b"\0\0\0\0\x16{\"id\":9}",
    b"\0\0\0\0\x63\x0e",
    b"\x81\xa2id\x0b",
    b"{\"id\":8}",
];

fn with_records(url: &str) -> (Broker, String) {
    let (broker, address) = started(url);
    let lines = VALUES.map(|value| json!({ "key": "k", "value_base64": STANDARD.encode(value) }).to_string());
    broker.ok(&["topic", "create", "orders"]);
    broker.ok_with(&["produce", "orders", "--json"], &lines.join("\n"));
    (broker, address)
}

fn messages(address: &str, query: &str) -> Value {
    let path = format!("/api/v1/clusters/local/topics/orders/messages?from=start&{query}");
    serde_json::from_str(&get(address, &path).body).unwrap()
}

#[test]
fn records_are_decoded_by_the_schemas_that_they_name() {
    let registry = HttpServer::start(answer);
    let (_broker, address) = with_records(&registry.url());
    let all = messages(&address, "");
    let decoded: Vec<_> = (0..6).map(|at| all["messages"][at]["value_decoded"].clone()).collect();
    let payment = json!({ "money": { "currency": "EUR", "units": 5 } });
    assert_eq!(decoded, [json!({ "id": 7 }), payment, json!({ "id": 9 }), Value::Null, Value::Null, Value::Null]);
    let first = &all["messages"][0];
    assert_eq!((&first["value_format"], &first["value_schema_id"]), (&json!("Avro"), &json!(17)));
    // The id of a schema is text where its bytes are.
    assert_eq!(first["value"], "\0\0\0\0\u{11}\u{e}");
    let missing = "the schema registry has no schema 99, or not all that it refers to";
    assert_eq!(all["messages"][3]["value_error"], missing);
    assert!(all["messages"][5].get("value_error").is_none() && all["messages"][5].get("key_error").is_none(), "{all}");
    assert_eq!(messages(&address, "show=messagepack")["messages"][4]["value_decoded"], json!({ "id": 11 }));
    assert!(messages(&address, "show=text")["messages"][0].get("value_decoded").is_none());

    let list = get(&address, "/clusters/local/topics/orders/messages?from=start").body;
    let shown = [
        "{&#34;id&#34;: 7}",
        "{&#34;money&#34;: {&#34;currency&#34;: &#34;EUR&#34;",
        "{&#34;id&#34;: 9}",
        "has no schema 99",
    ];
    assert!(shown.iter().all(|text| list.contains(text)), "{list}");
    let record = |rest: &str| get(&address, &format!("/clusters/local/topics/orders/messages/0/{rest}")).body;
    let page = record("0");
    assert!(page.contains("Decoded as Avro with schema 17.") && page.contains("  &#34;id&#34;: 7\n}"), "{page}");
    assert!(record("1?show=avro").contains("It is not decoded: its schema is one of Protobuf."));
    assert!(record("0?show=hex").contains("00000000  00 00 00 00 11 0e"));
    assert!(record("4?show=messagepack").contains("Decoded as MessagePack."));
    assert!(record("5?show=protobuf").contains("It is not decoded: it does not begin with the id of a schema."));
    let line =
        get(&address, "/clusters/local/topics/orders/messages/download?from=start&limit=1&after=0:0&before=0:1").body;
    // It comes in parts.
    let line = line.lines().find(|line| line.starts_with('{')).unwrap();
    assert_eq!(serde_json::from_str::<Value>(line).unwrap()["value_decoded"], json!({ "id": 7 }));
}

#[test]
fn expressions_choose_among_decoded_records() {
    let registry = HttpServer::start(answer);
    let (_broker, address) = with_records(&registry.url());
    let found = |query: &str| {
        let found = messages(&address, query);
        let offsets = found["messages"].as_array().unwrap().iter().map(|record| record["offset"].as_i64().unwrap());
        (offsets.collect::<Vec<_>>(), found["not_evaluated"].as_i64().unwrap(), found["not_evaluated_reason"].clone())
    };
    let (offsets, unknown, reason) = found("expression=value.id+%3E+7.5");
    assert_eq!((offsets, unknown), (vec![2, 5], 3), "{reason}");
    assert_eq!(reason, "there is no id");
    assert_eq!(found("expression=value.money.units+%3D%3D+5&show=hex").0, [1]);
    assert_eq!(found("expression=value.id+%3D%3D+11&show=messagepack").0, [4]);
    assert_eq!(found("expression=offset+%3E+3+%26%26+key+%3D%3D+%22k%22"), (vec![4, 5], 0, Value::Null));
    let page = get(&address, "/clusters/local/topics/orders/messages?from=start&expression=value.id+%3E+7.5").body;
    let said =
        "The expression could not be evaluated on 3 records; the first has offset 1 of partition 0: there is no id.";
    assert!(page.contains(said), "{page}");
    let mistake = get(&address, "/clusters/local/topics/orders/messages?expression=value.id+%3D%3D+%22%3Cb%3E");
    assert_eq!(mistake.status, 400);
    assert!(mistake.body.contains("The expression is not right: "), "{}", mistake.body);
    assert!(mistake.body.contains("value=\"value.id == &#34;&#60;b&#62;\""), "{}", mistake.body);
}

#[test]
fn pages_of_records_do_not_wait_for_a_registry_that_does_not_answer() {
    // It takes connections, and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (_broker, address) = with_records(&format!("http://{}", silent.local_addr().unwrap()));
    let reason = format!(
        "the schema registry at {} cannot be asked: it has not answered within 1 s",
        silent.local_addr().unwrap()
    );
    let list = get(&address, "/clusters/local/topics/orders/messages?from=start").body;
    assert!(list.contains(&reason) && list.contains("{&#34;id&#34;:8}"), "{list}");
    let page = get(&address, "/clusters/local/topics/orders/messages/0/0").body;
    assert!(page.contains(&format!("It is not decoded: {reason}.")), "{page}");
}

#[test]
fn what_the_registry_refuses_is_told_in_its_words() {
    let registry = HttpServer::start(answer);
    let (_broker, address) = started(&registry.url());
    let none = get(&address, "/clusters/local/schemas/none");
    assert_eq!(none.status, 404);
    assert!(none.body.contains("has refused it (404): Subject &#60;u&#62; not found."), "{}", none.body);
    assert_eq!(get(&address, &format!("/clusters/local/schemas/{PART}?version=9")).status, 404);
    assert_eq!(get(&address, &format!("/clusters/local/schemas/{PART}?version=x")).status, 400);
}

#[test]
fn a_registry_that_is_gone_is_told_without_its_credentials() {
    let (_broker, address) = started("http://me:sesame@127.0.0.1:1");
    let reason = "the schema registry at 127.0.0.1:1 cannot be asked: nobody listens there";
    let list = get(&address, "/clusters/local/schemas");
    assert_eq!((list.status, list.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let subject = get(&address, "/clusters/local/schemas/orders");
    assert_eq!(subject.status, 502);
    for page in [list.body, subject.body] {
        assert!(page.contains(reason) && !page.contains("sesame"), "{page}");
    }
    assert_eq!(get(&address, "/clusters/local/topics").status, 200);
}

#[test]
fn without_a_registry_there_are_no_pages_of_schemas() {
    let broker = Broker::start_with(&["--console", "127.0.0.1:0"]);
    let address = broker.console.as_deref().unwrap();
    assert!(!get(address, "/clusters/local").body.contains("/schemas"));
    let page = get(address, "/clusters/local/schemas");
    assert!(page.status == 404 && page.body.contains("--schema-registry http://HOST:8081"), "{}", page.body);
}
