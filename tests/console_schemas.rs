//! A schema registry in the console: what it shows of subjects, and what it does when the registry is gone.

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

fn answer(line: &str, _body: &Value) -> (u16, Value) {
    let order = json!({ "subject": NAME, "version": 3, "id": 17, "schema": ORDER });
    let payment = json!({
        "subject": "payments-value", "version": 1, "id": 21, "schemaType": "PROTOBUF", "schema": PAYMENT,
        "references": [{ "name": "money.proto", "subject": "money", "version": 2 }],
    });
    match line.strip_prefix("GET ").unwrap_or(line) {
        "/subjects" => (200, json!(["payments-value", NAME])),
        "/subjects/payments-value/versions" => (200, json!([1])),
        "/subjects/payments-value/versions/latest" => (200, payment),
        "/config" => (200, json!({ "compatibilityLevel": "BACKWARD" })),
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
        [ESCAPED, "AVRO", "17", "payments-value", "PROTOBUF", "21"].map(|text| list.find(text).unwrap()).into();
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
