//! Profiles: which cluster a command works on, and the file that they are kept in.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

mod common;

use common::{Broker, PARSHALL};
use serde_json::{Value, json};

/// Nobody listens there.
const DESERTED: &str = "127.0.0.1:1";

/// Somebody with profiles of their own.
struct User {
    config: tempfile::TempDir,
}

impl User {
    fn new() -> Self {
        Self { config: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.config.path().join("parshall/profiles.toml")
    }

    fn run(&self, variables: &[(&str, &str)], args: &[&str]) -> Output {
        self.command(variables, args).output().unwrap()
    }

    fn command(&self, variables: &[(&str, &str)], args: &[&str]) -> Command {
        let mut command = Command::new(PARSHALL);
        command.args(args).current_dir(self.config.path()).env("XDG_CONFIG_HOME", self.config.path());
        for name in ["PARSHALL_BOOTSTRAP_SERVER", "PARSHALL_COMMAND_CONFIG", "PARSHALL_PROFILE", "PARSHALL_LOG"] {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied()).stdin(Stdio::null());
        command
    }

    /// What a command prints that must succeed: on stdout and on stderr.
    fn both(&self, variables: &[(&str, &str)], args: &[&str]) -> (String, String) {
        let output = self.run(variables, args);
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(output.status.success(), "{args:?}: {err}");
        (out, err)
    }

    fn ok(&self, args: &[&str]) -> String {
        self.both(&[], args).0
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[args, &["--json"]].concat())).unwrap()
    }

    /// The last line of a command that must fail.
    fn fails(&self, variables: &[(&str, &str)], args: &[&str]) -> String {
        let output = self.run(variables, args);
        assert!(!output.status.success(), "{args:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        text.lines().last().unwrap_or_default().to_owned()
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "files that the test itself has made")]
fn profiles_are_kept_where_nobody_else_reads_them() {
    let user = User::new();
    assert_eq!(user.json(&["profile", "list"]), json!([]));
    std::fs::write(user.config.path().join("prod.properties"), "sasl.jaas.config=secret\n").unwrap();
    let add = ["profile", "add", "prod", "--bootstrap-server", "kafka-1,kafka-2:9093"];
    user.ok(&[&add[..], &["--command-config", "prod.properties"]].concat());
    user.ok(&["profile", "add", "test", "--bootstrap-server", DESERTED]);
    assert!(user.fails(&[], &add).contains("--replace"));

    let mode = |path: PathBuf| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(user.file()), mode(user.config.path().join("parshall"))), (0o600, 0o700));
    let text = std::fs::read_to_string(user.file()).unwrap();
    assert!(!text.contains("secret") && !text.contains("in_use"), "{text}");

    assert!(user.ok(&["profile", "use", "prod"]).contains("kafka-1:9092,kafka-2:9093"));
    let path = user.config.path().canonicalize().unwrap().join("prod.properties");
    let prod = json!({
        "name": "prod", "is_in_use": true, "bootstrap_servers": ["kafka-1:9092", "kafka-2:9093"],
        "command_config": path.to_str().unwrap(),
    });
    let test = json!({ "name": "test", "is_in_use": false, "bootstrap_servers": [DESERTED], "command_config": null });
    assert_eq!(user.json(&["profile", "list"]), json!([prod, test]));
    assert_eq!(user.json(&["profile", "show", "test"]), test);
    let list = user.ok(&["profile", "list"]);
    assert!(list.lines().nth(1).unwrap().starts_with("*  prod  "), "{list}");
    assert!(list.lines().nth(2).unwrap().starts_with("   test  "), "{list}");

    assert!(user.fails(&[], &["profile", "use", "dev"]).contains("there are prod, test"));
    assert_eq!(user.json(&["profile", "use", "--none"]), Value::Null);
    user.ok(&["profile", "use", "prod"]);
    user.ok(&[&add[..], &["--replace"]].concat());
    assert_eq!(user.json(&["profile", "show", "prod"])["command_config"], Value::Null);
    assert_eq!(user.json(&["profile", "show", "prod"])["is_in_use"], true);
    assert!(user.ok(&["profile", "remove", "prod"]).contains("No profile is in use"));
    assert_eq!(user.json(&["profile", "list"]), json!([test]));
    // A command without one goes to the default.
    assert!(user.fails(&[], &["profile", "add", "a", "--bootstrap-server", "http://k"]).contains("scheme"));
    assert!(user.fails(&[], &["profile", "add", "a b", "--bootstrap-server", "k"]).contains("letters"));
    let missing = ["profile", "add", "a", "--bootstrap-server", "k", "--command-config", "missing.properties"];
    assert!(user.fails(&[], &missing).contains("missing.properties: No such file"));
}

#[test]
fn a_flag_counts_more_than_the_environment_and_that_more_than_the_profile_in_use() {
    let broker = Broker::start();
    let user = User::new();
    user.ok(&["profile", "add", "here", "--bootstrap-server", &broker.address]);
    user.ok(&["profile", "add", "gone", "--bootstrap-server", DESERTED]);
    let here = [("PARSHALL_BOOTSTRAP_SERVER", broker.address.as_str())];
    let gone = [("PARSHALL_BOOTSTRAP_SERVER", DESERTED)];
    let list = ["topic", "list"];

    user.ok(&["profile", "use", "here"]);
    assert_eq!(user.both(&[], &list), (String::new(), String::new()));
    assert!(user.fails(&gone, &list).contains(DESERTED));
    user.both(&gone, &["topic", "list", "--profile", "here"]);
    user.both(&gone, &["topic", "list", "--bootstrap-server", &broker.address]);
    user.both(&[("PARSHALL_PROFILE", "here"), gone[0]], &["topic", "list", "--bootstrap-server", &broker.address]);

    user.ok(&["profile", "use", "gone"]);
    let text = user.fails(&[], &list);
    assert!(text.starts_with("error: profile gone: ") && text.contains(DESERTED), "{text}");
    user.both(&here, &list);
    user.both(&[("PARSHALL_PROFILE", "here")], &list);
    user.both(&[("PARSHALL_PROFILE", "gone"), here[0]], &list);
    let both = ["topic", "list", "--profile", "here", "--bootstrap-server", &broker.address];
    assert!(user.fails(&[], &both).contains("leave one out"));
    assert!(user.fails(&[], &["topic", "list", "--profile", "dev"]).contains("there are gone, here"));
    let (_, told) = user.both(&[("PARSHALL_PROFILE", "here")], &["profile", "list"]);
    assert!(told.contains("PARSHALL_PROFILE is set"), "{told}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "files that the test itself has made")]
fn the_properties_file_of_a_profile_is_for_its_own_servers() {
    let broker = Broker::start();
    let user = User::new();
    std::fs::write(user.config.path().join("ssl.properties"), "security.protocol=SSL\n").unwrap();
    std::fs::write(user.config.path().join("plain.properties"), "bootstrap.servers=127.0.0.1:1\n").unwrap();
    let add = ["profile", "add", "secured", "--bootstrap-server", &broker.address, "--command-config"];
    user.ok(&[&add[..], &["ssl.properties"]].concat());
    user.ok(&["profile", "use", "secured"]);
    // A broker without TLS is greeted with it.
    assert!(!user.run(&[], &["topic", "list"]).status.success());
    user.both(&[], &["topic", "list", "--bootstrap-server", &broker.address]);
    user.both(&[], &["topic", "list", "--command-config", "plain.properties"]);
    let props = format!("bootstrap.servers={}", broker.address);
    let perf = ["perf", "produce", "--topic", "t", "--num-records", "1", "--record-size", "1"];
    user.ok(&["topic", "create", "t", "--bootstrap-server", &broker.address]);
    user.both(&[], &[&perf[..], &["--producer-props", &props]].concat());
    // Those of the profile count, and not those of its file.
    user.ok(&[&add[..], &["plain.properties", "--replace"]].concat());
    let (_, told) =
        user.both(&[("PARSHALL_COMMAND_CONFIG", "ssl.properties")], &[&perf[..], &["--profile", "secured"]].concat());
    assert_eq!(told, format!("Using profile secured: {}\n", broker.address));
}

#[test]
fn a_command_that_changes_something_says_which_profile_it_takes() {
    let broker = Broker::start();
    let user = User::new();
    user.ok(&["profile", "add", "prod", "--bootstrap-server", &broker.address]);
    user.ok(&["profile", "use", "prod"]);
    let told = format!("Using profile prod: {}\n", broker.address);
    let changes: &[&[&str]] = &[
        &["topic", "create", "t", "--partitions", "2"],
        &["topic", "alter", "t", "--config", "retention.ms=1000"],
        &["produce", "t", "--value", "a"],
        &["consume", "t", "--group", "g", "--from-beginning", "--max-messages", "1"],
        &["group", "reset-offsets", "g", "--topic", "t", "--to-earliest", "--execute"],
        &["group", "delete-offsets", "g", "--topic", "t:0"],
        &["group", "delete", "g"],
        &["config", "alter", "topic", "t", "--delete", "retention.ms"],
        &["partition", "elect", "--all"],
        &["topic", "delete-records", "t", "--before", "end"],
        &["perf", "produce", "--topic", "t", "--num-records", "1", "--record-size", "1"],
        &["topic", "delete", "t"],
    ];
    for change in changes {
        assert_eq!(user.both(&[], change).1, told, "{change:?}");
    }
    for look in [&["topic", "list"][..], &["topic", "describe"], &["group", "list"], &["cluster", "status"]] {
        assert_eq!(user.both(&[], look).1, "", "{look:?}");
    }
    let text = user.run(&[], &["cluster", "remove-node", "7"]).stderr;
    assert!(String::from_utf8(text).unwrap().starts_with(&told));
    // Who names the servers knows them.
    assert_eq!(user.both(&[], &["topic", "create", "u", "--bootstrap-server", &broker.address]).1, "");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "files that the test itself has made")]
fn a_broken_file_is_told_in_a_line_and_left_alone() {
    let broker = Broker::start();
    let user = User::new();
    std::fs::create_dir_all(user.file().parent().unwrap()).unwrap();
    std::fs::write(user.file(), "in_use = \"a\"\n[profiles.a]\nservers = 1\n").unwrap();
    for command in [&["topic", "list"][..], &["profile", "list"], &["profile", "add", "b", "--bootstrap-server", "k"]] {
        let output = user.run(&[], command);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains("profiles.toml is not a file of profiles (line 3: "), "{text}");
        assert!(text.contains("repair it") && text.lines().count() == 1, "{text}");
    }
    assert!(std::fs::read_to_string(user.file()).unwrap().contains("servers = 1"));
    user.both(&[], &["topic", "list", "--bootstrap-server", &broker.address]);
    std::fs::write(user.file(), "in_use = \"a\"\n").unwrap();
    assert!(user.fails(&[], &["topic", "list"]).contains("there is no profile a"));
    user.ok(&["profile", "use", "--none"]);
}

#[test]
fn changes_that_are_made_at_the_same_moment_are_all_kept() {
    let user = User::new();
    let names: Vec<_> = (1..=8).map(|number| format!("p{number}")).collect();
    let add = |name: &String| {
        let mut command = user.command(&[], &["profile", "add", name, "--bootstrap-server", DESERTED]);
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    let processes: Vec<_> = names.iter().map(add).collect();
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    let listed = user.json(&["profile", "list"]);
    let listed: Vec<_> = listed.as_array().unwrap().iter().map(|profile| profile["name"].as_str().unwrap()).collect();
    assert_eq!(listed, names);
}

#[test]
fn a_broker_does_not_take_a_profile_for_a_setting() {
    let user = User::new();
    let mut serve = Command::new(PARSHALL);
    serve
        .args(["serve", "--console", "off", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(user.config.path().join("data"));
    serve.arg("--until-stdin-ends").stdin(Stdio::null()).env("PARSHALL_PROFILE", "prod").env("PARSHALL_LOG", "warn");
    let output = serve.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
