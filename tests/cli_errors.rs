//! A mistake gets one helpful line on stderr, nothing on stdout, and the right exit code. No broker is needed.

use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

fn parshall(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parshall"));
    command.args(args).stdin(Stdio::null()).env_remove("PARSHALL_BOOTSTRAP_SERVER").env_remove("PARSHALL_LOG");
    // Without profiles.
    command.env_remove("PARSHALL_COMMAND_CONFIG").env_remove("PARSHALL_PROFILE").env("XDG_CONFIG_HOME", "/dev/null");
    command.output().unwrap()
}

/// The one line of a failure.
fn failure(args: &[&str], code: i32) -> String {
    let output = parshall(args);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
    assert!(output.stdout.is_empty(), "{args:?}");
    assert_eq!(text.lines().count(), 1, "{args:?}: {text}");
    assert!(text.starts_with("error: "), "{args:?}: {text}");
    assert!(!text.contains("os error") && !text.contains("Err("), "{args:?}: {text}");
    text
}

/// An address where nobody listens.
fn deserted() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

#[test]
fn a_broker_that_is_not_there() {
    let address = deserted();
    let commands: &[&[&str]] = &[
        &["topic", "list"],
        &["topic", "create", "t"],
        &["topic", "describe", "t"],
        &["topic", "alter", "t", "--partitions", "2"],
        &["topic", "delete", "t"],
        &["produce", "t"],
        &["consume", "t"],
        &["consume", "t", "--group", "g"],
        &["group", "list"],
        &["group", "describe", "g"],
        &["group", "reset-offsets", "g", "--topic", "t", "--to-earliest"],
        &["group", "delete", "g"],
        &["config", "describe", "topic", "t"],
        &["config", "alter", "broker", "1", "--set", "a=b"],
        &["user", "list"],
        &["user", "delete", "alice"],
        &["quota", "list"],
        &["quota", "set", "--user", "alice", "request_percentage=50"],
        &["acl", "list"],
        &["acl", "add", "--allow-principal", "User:a", "--operation", "read", "--topic", "t"],
        &["acl", "check", "--principal", "User:a", "--operation", "read", "--topic", "t"],
        &["cluster", "status"],
    ];
    for command in commands {
        let text = failure(&[command, &["--bootstrap-server", &address][..]].concat(), 1);
        assert!(text.contains(&address) && text.contains("--bootstrap-server"), "{text}");
    }
}

#[test]
fn the_command_line_describes_itself() {
    let long = String::from_utf8(parshall(&["--version"]).stdout).unwrap();
    let short = String::from_utf8(parshall(&["-V"]).stdout).unwrap();
    assert!(short.starts_with("parshall ") && long.starts_with(short.trim_end()), "{short}{long}");
    for (shell, word) in [("bash", "complete "), ("zsh", "#compdef parshall"), ("fish", "complete -c parshall")] {
        let script = String::from_utf8(parshall(&["completion", shell]).stdout).unwrap();
        assert!(script.contains(word) && script.contains("replication-factor"), "{shell}");
    }
    let dir = tempfile::tempdir().unwrap();
    assert!(parshall(&["man", dir.path().to_str().unwrap()]).status.success());
    let page = std::fs::read_to_string(dir.path().join("parshall-topic-create.1")).unwrap();
    assert!(page.contains("parshall topic create orders"), "{page}");
    assert!(failure(&["man", "/dev/null/man"], 1).contains("cannot write the pages to /dev/null/man: "));
}

#[test]
fn a_server_that_speaks_something_else() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        use std::io::Write;
        let (mut connection, _) = listener.accept().unwrap();
        connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        connection
    });
    let text = failure(&["topic", "list", "--bootstrap-server", &address], 1);
    assert!(text.contains("does not speak Kafka"), "{text}");
    drop(server.join());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "files that the test itself has made")]
fn security_that_cannot_be_had() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("client.properties");
    let cases = [
        ("security.protocol=TLS", "it takes PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
        ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism is not set"),
        (
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\nsasl.jaas.config=x",
            "OAUTHBEARER is not there",
        ),
        (
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=x",
            "sasl.jaas.config has no control flag",
        ),
        ("security.protocol=SSL\nssl.truststore.location=missing.pem", "missing.pem: No such file"),
        ("security.protocol=SSL\nssl.truststore.certificates=x", "ssl.truststore.certificates has no certificate"),
    ];
    for (text, expected) in cases {
        std::fs::write(&file, text).unwrap();
        for command in [&["topic", "list"][..], &["perf", "net"], &["lab", "run", "quick", "--bootstrap-server", "x"]] {
            let text = failure(&[command, &["--command-config", file.to_str().unwrap()][..]].concat(), 2);
            assert!(text.contains(expected), "{text}");
        }
    }
    let text = failure(&["topic", "list", "--command-config", "missing.properties"], 1);
    assert!(text.contains("cannot read missing.properties"), "{text}");
}

#[test]
fn mistakes_in_the_command() {
    let cases: &[(&[&str], &str)] = &[
        (&["bogus"], "'parshall --help'"),
        (&["topic", "bogus"], "'parshall topic --help'"),
        (&["topic", "create"], "<TOPIC>"),
        (&["topic", "create", "t", "--partition", "3"], "'--partitions'"),
        (&["topic", "create", "t", "--partitions", "0"], "--partitions"),
        (&["topic", "create", "t", "--config", "novalue"], "NAME=VALUE"),
        (&["topic", "create", "t", "--replica-assignment", "1:1"], "twice"),
        (&["topic", "alter", "t"], "nothing to change"),
        (&["topic", "list", "--bootstrap-server", "http://x"], "scheme"),
        (&["topic", "list", "--bootstrap-server", "x", "--profile", "a"], "leave one out"),
        (&["profile", "use"], "<NAME>"),
        (&["profile", "add", "a"], "--bootstrap-server"),
        (&["produce", "t", "--compression", "rar"], "gzip"),
        (&["produce", "t", "--acks", "2"], "--acks"),
        (&["produce", "t", "--timestamp", "soon"], "not a time"),
        (&["produce", "t", "--json", "--key", "k"], "--key"),
        (&["consume", "t", "--offset", "middle"], "beginning"),
        (&["consume", "t", "--from-time", "soon"], "not a time"),
        (&["consume", "t", "--format", "%q"], "%q"),
        (&["consume", "t", "--timeout", "soon"], "10s"),
        (&["consume", "t", "--group", "g", "--offset", "1"], "--group"),
        (&["group", "describe"], "<GROUP>"),
        (&["group", "reset-offsets", "g", "--topic", "t"], "--to-earliest"),
        (&["group", "reset-offsets", "g", "--topic", "t", "--by-duration", "long"], "PT1H30M"),
        (&["config", "describe", "broker", "one"], "default"),
        (&["config", "alter", "topic", "t"], "--set"),
        (&["dump"], "<FILE|DIR>"),
        (&["serve", "--join", "h1:9093"], "--node-id"),
        (&["serve", "--controller-quorum-voters", "1@h1:9093"], "--node-id"),
        (&["serve", "--join", "h1:9093", "--controller-quorum-voters", "1@h1:9093"], "cannot be used with"),
        (&["topic", "list", "--regex"], "<TOPIC>"),
        (&["topic", "--create", "--partitions", "3"], "see 'parshall topic create --help'"),
        (&["serve", "--node-id", "one"], "--node-id"),
        (&["serve", "--console", "9644"], "HOST:PORT, or off"),
        (&["serve", "--console", "0.0.0.0:0"], "--insecure"),
        (&["serve", "--add-scram", "PLAIN=[name=a,password=b]"], "it is SCRAM-SHA-256=[name=NAME,password=PASSWORD]"),
        (&["acl", "add", "--operation", "read", "--topic", "t"], "--allow-principal"),
        (&["acl", "add", "--allow-principal", "alice", "--operation", "read", "--topic", "t"], "User:alice"),
        (&["acl", "add", "--allow-principal", "User:a", "--operation", "reed", "--topic", "t"], "READ, WRITE"),
        (&["acl", "remove"], "--topic"),
        (&["acl", "check", "--principal", "User:a", "--operation", "read"], "of which resource"),
        (&["acl", "check", "--principal", "User:a", "--operation", "read", "--cluster"], "of type CLUSTER is CREATE"),
        (&["tls", "init", "--dir", "d"], "--node"),
        (&["tls", "init", "--dir", "d", "--node", "1"], "1=kafka-1.example.com"),
        (&["tls", "init", "--dir", "d", "--client", "../alice"], "letters, digits"),
        (&["metrics"], "--csv"),
        (&["metrics", "--csv", "-", "--interval", "1ms"], "at least 100ms"),
        (&["cluster", "start", "--nodes", "0"], "--nodes"),
        (&["cluster", "start", "--port", "65534"], "need 6 ports"),
        (&["cluster", "start", "--set", "listeners=x"], "another one for each broker"),
        (&["topic", "describe", "--under-min-isr-partitions", "--at-min-isr-partitions"], "cannot be used with"),
    ];
    for (command, expected) in cases {
        let text = failure(command, 2);
        assert!(text.contains(expected), "{command:?}: {text}");
    }
}

#[test]
fn a_listener_that_lets_everybody_in_from_other_machines_shows_the_lines_that_close_it() {
    let serve = ["serve", "--console", "off", "--data-dir", "/dev/null/data", "--set", "listeners=PLAINTEXT://:9192"];
    let output = parshall(&serve);
    let text = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(output.status.code(), Some(2), "{text}");
    let settings =
        ["listeners=SASL_SSL://:9192", "ssl.keystore.location=tls/node-1.pem", "sasl.enabled.mechanisms=SCRAM-SHA-512"];
    assert_eq!(lines[..3], settings);
    assert!(
        lines.len() == 4 && lines[3].starts_with("error: PLAINTEXT: ") && lines[3].contains("--insecure"),
        "{text}"
    );
    // With the flag or its variable it goes on, to a directory that cannot be.
    let insecure = parshall(&[&serve[..], &["--insecure"]].concat());
    let mut by_variable = Command::new(env!("CARGO_BIN_EXE_parshall"));
    let by_variable = by_variable.args(serve).env("PARSHALL_INSECURE", "true").output().unwrap();
    for output in [insecure, by_variable] {
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(
            text.contains("everybody who reaches it may do everything") && text.contains("/dev/null/data"),
            "{text}"
        );
    }
}

#[test]
fn every_help_has_an_example() {
    let commands: &[&[&str]] = &[
        &[],
        &["serve"],
        &["topic", "create"],
        &["topic", "list"],
        &["topic", "describe"],
        &["topic", "alter"],
        &["topic", "delete"],
        &["produce"],
        &["consume"],
        &["group", "list"],
        &["group", "describe"],
        &["group", "reset-offsets"],
        &["group", "delete"],
        &["config", "describe"],
        &["config", "alter"],
        &["user", "create"],
        &["user", "list"],
        &["user", "delete"],
        &["quota", "list"],
        &["quota", "set"],
        &["quota", "remove"],
        &["acl", "add"],
        &["acl", "list"],
        &["acl", "remove"],
        &["acl", "check"],
        &["tls", "init"],
        &["dump"],
        &["metrics"],
        &["cluster", "start"],
        &["cluster", "status"],
    ];
    for command in commands {
        let output = parshall(&[command, &["--help"][..]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{command:?}");
        let example = [&["parshall"], *command].concat().join(" ");
        assert!(text.matches(&example).count() >= 2, "{command:?}: {text}");
    }
}
