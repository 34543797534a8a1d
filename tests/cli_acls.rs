//! Access control lists on the command line, against a broker of our own as a process.

mod common;

use common::Broker;
use serde_json::{Value, json};

const AUTHORIZER: &str = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer";

/// A broker where these tools may do everything, because they do not say who they are.
fn broker(settings: &[&str]) -> Broker {
    let mut flags = vec!["--console", "off", "--set", AUTHORIZER, "--set", "super.users=User:ANONYMOUS;User:root"];
    settings.iter().for_each(|setting| flags.extend(["--set", setting]));
    Broker::start_with(&flags)
}

fn json_of(broker: &Broker, args: &[&str]) -> Value {
    serde_json::from_slice(&broker.run(&[args, &["--json"]].concat(), "").stdout).expect("it prints JSON")
}

/// What a check says, and its exit status.
fn check(broker: &Broker, line: &str) -> (i32, String) {
    let args: Vec<_> = ["acl", "check"].into_iter().chain(line.split(' ')).collect();
    let output = broker.run(&args, "");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code().expect("it ends"), String::from_utf8(output.stdout).expect("it is text"))
}

#[test]
fn acls_are_added_listed_and_removed() {
    let broker = broker(&[]);
    let add = ["acl", "add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders"];
    assert_eq!(broker.ok(&add), "Added ALLOW User:alice READ on TOPIC orders.\n");
    assert_eq!(broker.ok(&add), "Added ALLOW User:alice READ on TOPIC orders.\n", "once more is no error");
    let prefixed = ["--topic", "o", "--resource-pattern-type", "prefixed"];
    broker.ok(&[&["acl", "add", "--deny-principal", "User:bob", "--operation", "All"], &prefixed[..]].concat());
    // Kafka's form.
    broker.ok(&["acl", "--add", "--allow-principal=User:bob", "--operation=Alter", "--cluster"]);
    let of_orders = "RESOURCE  NAME    PATTERN   PRINCIPAL   HOST  OPERATION  PERMISSION\n\
                     TOPIC     orders  LITERAL   User:alice  *     READ       ALLOW\n\
                     TOPIC     o       PREFIXED  User:bob    *     ALL        DENY\n";
    assert_eq!(broker.ok(&["acl", "list", "--topic", "orders", "--topic", "orders-2", "--topic", "orders"]), of_orders);
    let literal = ["acl", "list", "--topic", "orders", "--resource-pattern-type", "literal"];
    let acl = json!({
        "resource_type": "TOPIC", "resource_name": "orders", "pattern_type": "LITERAL", "principal": "User:alice",
        "host": "*", "operation": "READ", "permission_type": "ALLOW",
    });
    assert_eq!(json_of(&broker, &literal), json!([acl]));
    assert_eq!(broker.ok(&["acl", "list", "--principal", "User:bob"]).lines().count(), 3);
    assert_eq!(broker.ok(&["acl", "list"]).lines().count(), 4);

    let refused = ["acl", "add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "t", "--cluster"];
    let rows = json_of(&broker, &refused);
    assert!(rows[0]["error"].is_null() && rows[1]["error"].as_str().unwrap().contains("INVALID_REQUEST"), "{rows}");
    assert!(broker.fails(&refused, "").contains("Operation READ is not one of resourceType CLUSTER"));

    let none = ["acl", "remove", "--allow-principal", "User:bob", "--topic", "orders"];
    assert_eq!(broker.ok(&none), "No ACL is like that.\n");
    assert_eq!(broker.ok(&["acl", "remove", "--topic", "orders"]), "Removed ALLOW User:alice READ on TOPIC orders.\n");
    let removed = json_of(&broker, &["acl", "remove", "--allow-principal", "User:bob", "--deny-principal", "User:bob"]);
    let operations = removed.as_array().unwrap().iter().map(|acl| acl["operation"].as_str().unwrap());
    assert_eq!(operations.collect::<Vec<_>>(), ["ALTER", "ALL"]);
    assert_eq!(broker.ok(&["acl", "list"]).lines().count(), 2, "that of User:a stays");
}

#[test]
fn a_check_says_which_rule_decides() {
    let broker = broker(&[]);
    let of_alice = ["acl", "add", "--allow-principal", "User:alice", "--operation", "Write", "--topic"];
    broker.ok(&[&of_alice[..], &["orders"]].concat());
    let from_one = ["--deny-host", "10.0.0.9", "--operation", "All", "--topic", "*"];
    broker.ok(&[&["acl", "add", "--deny-principal", "User:*"], &from_one[..]].concat());
    let denied_by = "DENY User:* from 10.0.0.9 ALL on TOPIC *\n";
    for (line, code, said) in [
        ("User:alice --operation Write --topic orders", 0, "allowed: ALLOW User:alice WRITE on TOPIC orders\n"),
        ("User:alice --operation describe --topic orders", 0, "allowed: ALLOW User:alice WRITE on TOPIC orders\n"),
        ("User:alice --operation Read --topic orders", 1, "denied: no ACL allows it\n"),
        ("User:alice --operation Write --topic orders --host 10.0.0.9", 1, &format!("denied: {denied_by}")),
        (
            "User:alice --operation Write --topic orders --host 10.0.0.8",
            0,
            "allowed: ALLOW User:alice WRITE on TOPIC orders\n",
        ),
        ("User:root --operation Write --topic orders --host 10.0.0.9", 0, "allowed: User:root is one of super.users\n"),
        ("User:bob --operation IdempotentWrite --cluster", 1, "denied: no ACL allows it\n"),
    ] {
        assert_eq!(check(&broker, &format!("--principal {line}")), (code, said.to_owned()), "{line}");
    }
    let args =
        ["acl", "check", "--principal", "User:alice", "--operation", "Read", "--topic", "t", "--host", "10.0.0.9"];
    let told = json_of(&broker, &args);
    assert_eq!((&told["allowed"], &told["rule"]), (&json!(false), &json!("MatchingAcl")));
    assert_eq!(told["acl"]["host"], "10.0.0.9");
}

#[test]
fn what_has_no_acls_is_as_the_settings_say() {
    let question = "--principal User:a --operation Read --topic t";
    let open = broker(&["allow.everyone.if.no.acl.found=true"]);
    let said = "allowed: no ACL is about TOPIC t, and allow.everyone.if.no.acl.found is true\n";
    assert_eq!(check(&open, question), (0, said.to_owned()));
    open.ok(&["acl", "add", "--allow-principal", "User:b", "--operation", "Read", "--topic", "t"]);
    assert_eq!(check(&open, question), (1, "denied: no ACL allows it\n".to_owned()));

    let without = Broker::start();
    let said = "allowed: the brokers have no authorizer.class.name, so everybody may do everything\n";
    assert_eq!(check(&without, question), (0, said.to_owned()));
    let text = without.fails(&["acl", "list"], "");
    assert!(text.contains("SECURITY_DISABLED") && text.contains("authorizer.class.name"), "{text}");
}
