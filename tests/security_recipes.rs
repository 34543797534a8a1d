//! The recipes of docs/security.md, as they stand there: files are written, commands run in turn, and what they print
//! is what the page says. Only the ports are others.

#![expect(clippy::disallowed_methods, reason = "a test reads the page and writes the files that are on it")]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

mod common;

use common::PARSHALL;

const PAGE: &str = include_str!("../docs/security.md");
/// The port on the page.
const PORT: &str = "9092";

/// The blocks of code below a heading and those below it, with their languages.
fn blocks(heading: &str) -> Vec<(&'static str, &'static str)> {
    let level = heading.split(' ').next().unwrap();
    let (_, rest) = PAGE.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("there is no {heading}"));
    let is_end = |line: &str| {
        let marks = line.chars().take_while(|letter| *letter == '#').count();
        line[marks..].starts_with(' ') && (1..=level.len()).contains(&marks)
    };
    let mut blocks = Vec::new();
    // In a block a line of settings may begin as a heading does.
    let mut parts = rest.split("```");
    while let (Some(text), Some(block)) = (parts.next(), parts.next()) {
        if text.lines().any(is_end) {
            break;
        }
        blocks.push(block.split_once('\n').unwrap());
    }
    assert!(!blocks.is_empty(), "{heading} has no code");
    blocks
}

/// Of a block: each command with the lines that it prints.
fn commands(block: &str) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for line in block.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => commands.push((command.to_owned(), Vec::new())),
            None => commands.last_mut().expect("a command is first").1.push(line.to_owned()),
        }
    }
    commands
}

/// Where a recipe is followed.
struct Kitchen {
    dir: tempfile::TempDir,
    port: String,
    /// Variables that were exported.
    exports: String,
    /// What goes on until the end.
    running: Vec<Child>,
}

impl Kitchen {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        Self { dir: tempfile::tempdir().unwrap(), port, exports: String::new(), running: Vec::new() }
    }

    fn follow(&mut self, heading: &str) {
        for (language, block) in blocks(heading) {
            match language {
                "properties" => {
                    let name = block.lines().next().and_then(|line| line.strip_prefix("# ")).expect("it has a name");
                    std::fs::write(self.dir.path().join(name), block.replace(PORT, &self.port)).unwrap();
                }
                "console" => commands(block).iter().for_each(|(command, printed)| self.run(command, printed)),
                other => panic!("{heading} has a block of {other:?}"),
            }
        }
    }

    fn command(&self, text: &str) -> Command {
        let path = PathBuf::from(PARSHALL);
        let bin = path.parent().unwrap().display();
        let mut command = Command::new("bash");
        command.args(["-c", &format!("set -o pipefail\n{}{text}", self.exports)]).current_dir(self.dir.path());
        command.env_clear().env("PATH", format!("{bin}:{}", std::env::var("PATH").unwrap()));
        command.env("HOME", self.dir.path()).env("PARSHALL_CONSOLE", "off").env("PARSHALL_LOG", "warn");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&mut self, text: &str, printed: &[String]) {
        let text = text.replace(PORT, &self.port);
        if text.starts_with("export ") {
            self.exports.push_str(&format!("{text}\n"));
            return;
        }
        if text.starts_with("parshall serve ") || text.starts_with("parshall cluster start ") {
            return self.start(&text);
        }
        let output = self.command(&text).output().unwrap();
        let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
        let is_denied = printed.first().is_some_and(|line| line.starts_with("denied"));
        assert_eq!(output.status.code(), Some(i32::from(is_denied)), "{text}: {out}{err}");
        let (is_whole, expected) = match printed.split_last() {
            Some((last, before)) if last == "…" => (false, before),
            _ => (true, printed),
        };
        // Settings are for the reader.
        if !expected.is_empty() {
            let lines: Vec<_> = out.lines().collect();
            let compared = if is_whole { &lines[..] } else { &lines[..expected.len()] };
            assert_eq!(compared, expected, "{text}");
        }
    }

    /// Starts a broker or a cluster, and goes on when it is ready.
    fn start(&mut self, text: &str) {
        let is_cluster = text.contains(" cluster ");
        let text = if is_cluster { format!("{text} --port 0") } else { text.to_owned() };
        let mut process = self.command(&format!("exec {text}")).stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        self.running.push(process);
        let address = line.split(" is ready on ").nth(1).unwrap_or_else(|| panic!("not ready: {line:?}"));
        if is_cluster {
            let first = address.split(',').next().and_then(|first| first.rsplit_once(':'));
            first.expect("it has a port").1.clone_into(&mut self.port);
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for Kitchen {
    fn drop(&mut self) {
        for process in &mut self.running {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn mode(path: &Path) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions()) & 0o777
}

/// What a command prints on standard error that must fail.
fn fails(kitchen: &Kitchen, text: &str) -> String {
    let output = kitchen.command(text).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn one_broker_with_tls_and_users() {
    let mut kitchen = Kitchen::new();
    kitchen.follow("## TLS and users");
    let wrong = "sed s/alice-secret/guess/ alice.properties >wrong.properties";
    assert!(
        fails(&kitchen, &format!("{wrong}; parshall topic list --command-config wrong.properties"))
            .contains("does not let alice in")
    );
    assert!(fails(&kitchen, "env -u PARSHALL_COMMAND_CONFIG parshall topic list").starts_with("error: "));
}

#[test]
fn clients_with_certificates_and_mapping_rules() {
    let mut kitchen = Kitchen::new();
    kitchen.follow("## Certificates of clients and mapping rules");
    let text = fails(&kitchen, "parshall topic delete orders --command-config bob.properties");
    assert!(text.contains("AUTHORIZATION_FAILED"), "{text}");
    // A node's certificate is no client's.
    let node = "sed s/client-bob/node-1/ bob.properties >node.properties";
    assert!(
        fails(&kitchen, &format!("{node}; parshall topic list --command-config node.properties"))
            .starts_with("error: ")
    );
}

#[test]
fn acls_for_a_team_and_a_quota_for_a_tenant() {
    let mut kitchen = Kitchen::new();
    kitchen.follow("## ACLs for a team");
    assert!(blocks("## ACLs for a team").iter().any(|(_, block)| block.contains("parshall quota set")));
    let alice =
        "sed 's/admin/alice/g' admin.properties >alice.properties; export PARSHALL_COMMAND_CONFIG=alice.properties; ";
    let output = kitchen.command(&format!("{alice} echo 1 | parshall produce orders-eu")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(fails(&kitchen, &format!("{alice} echo 1 | parshall produce payments")).contains("payments"));
}

#[test]
fn three_nodes_that_know_each_other() {
    let mut kitchen = Kitchen::new();
    kitchen.follow("## Three nodes that know each other");
    for secret in ["admin.properties", "first-users", "tls/ca-key.pem", "tls/node-1.pem"] {
        assert_eq!(mode(&kitchen.path("parshall-cluster").join(secret)), 0o600, "{secret}");
    }
    let unknown = "env -u PARSHALL_COMMAND_CONFIG parshall topic list";
    assert!(fails(&kitchen, unknown).starts_with("error: "));

    // What was begun as a secured cluster stays one.
    let mut cluster = kitchen.running.pop().unwrap();
    common::signal(&cluster, "-TERM");
    assert!(cluster.wait().unwrap().success());
    kitchen.start("parshall cluster start");
    kitchen.run("parshall topic list", &["orders".to_owned()]);
    assert!(fails(&kitchen, unknown).starts_with("error: "));
}
