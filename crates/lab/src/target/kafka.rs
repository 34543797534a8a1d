//! Apache Kafka as a target: finds it in a directory, and starts its nodes as its own scripts would.
//!
//! Each node is broker and controller, on loopback, with the settings that Apache Kafka ships in its server.properties
//! and what has to differ. The settings of the run come last and win.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use client::Security;

use super::loopback::{Ports, until_all_see_all};
use super::node::{Input, Node};
use super::{Sizing, Target, TargetError, by_id, data_dir};
use crate::byte_size::ByteSize;

/// A UUID in base64, as Apache Kafka writes it.
const CLUSTER_ID: &str = "parshallLaboratoryAAAA";
const FORMAT_MAX: Duration = Duration::from_secs(60);
const READY_MAX: Duration = Duration::from_secs(60);
/// What kafka-storage.sh takes.
const FORMAT_HEAP: &str = "-Xmx256M";
/// What kafka-server-start.sh takes where KAFKA_HEAP_OPTS says nothing.
const HEAP: ByteSize = ByteSize(1 << 30);
/// On a machine without room for that, the heap has this part of the memory; the rest is for the page cache.
const HEAP_PART: u64 = 2;
/// KAFKA_JVM_PERFORMANCE_OPTS of kafka-run-class.sh.
const JVM_FLAGS: [&str; 6] = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
];
/// All to the standard output, which is kept.
const LOG_CONFIG: &str = "\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
";

pub(super) async fn start(
    home: &Path,
    settings: &[(String, String)],
    brokers: u16,
    data_parent: Option<&Path>,
    sizing: Option<&Sizing>,
) -> Result<Target, TargetError> {
    let java = Java::find(home)?;
    let dir = data_dir(data_parent)?;
    let prepared = |error| TargetError::Data { dir: dir.path().to_owned(), error };
    let log_config = dir.path().join("log4j2.properties");
    fs::write(&log_config, LOG_CONFIG).map_err(prepared)?;
    let ports = Ports::free(brokers).map_err(prepared)?;
    let names: Vec<_> = (1..=ports.len()).map(|id| format!("broker-{id}")).collect();
    let path = |name: &str, suffix: &str| dir.path().join(format!("{name}{suffix}"));

    let mut formats = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let text = properties(index + 1, &ports, &dir.path().join(name), settings);
        fs::write(path(name, ".properties"), text).map_err(prepared)?;
        let mut command = java.command(FORMAT_HEAP, &log_config, "kafka.tools.StorageTool");
        command.args(["format", "-t", CLUSTER_ID, "-c"]).arg(path(name, ".properties"));
        formats.push(java.spawn(format!("the format of {name}"), command, path(name, "-format.log"))?);
    }
    for format in &mut formats {
        format.until_done(FORMAT_MAX).await?;
    }

    let heap = std::env::var("KAFKA_HEAP_OPTS").unwrap_or_else(|_| heap(sizing.and_then(|sizing| sizing.memory_min)));
    let mut nodes = Vec::new();
    for name in &names {
        let mut command = java.command(&heap, &log_config, "kafka.Kafka");
        command.arg(path(name, ".properties"));
        nodes.push(java.spawn(name.clone(), command, path(name, ".log"))?);
    }
    let limits = sizing.map(|sizing| sizing.limits(nodes.iter().map(Node::id))).transpose();
    let limits = limits.map_err(TargetError::Limits)?;
    let bootstrap_servers: Vec<_> = ports.iter().map(|ports| format!("127.0.0.1:{}", ports.clients)).collect();
    until_all_see_all(&bootstrap_servers, &Security::default(), &mut nodes, READY_MAX).await?;
    Ok(Target {
        label: "kafka".to_owned(),
        bootstrap_servers,
        security: Security::default(),
        processes: by_id(nodes.iter().map(Node::id)),
        version: java.version,
        endpoints: None,
        nodes,
        limits,
        dir: Some(dir),
    })
}

/// The heap cannot change while a broker runs: it fits the smallest of the machines that it is to have.
fn heap(memory_min: Option<ByteSize>) -> String {
    let mib = memory_min.map_or(HEAP, |memory| HEAP.min(ByteSize(memory.0 / HEAP_PART))).0 >> 20;
    format!("-Xmx{mib}M -Xms{mib}M")
}

/// What it takes to run a class of Apache Kafka.
struct Java {
    program: PathBuf,
    class_path: PathBuf,
    /// "Apache Kafka 4.3.1", or without the number where no jar tells it.
    version: String,
}

impl Java {
    fn find(home: &Path) -> Result<Self, TargetError> {
        let program = match std::env::var_os("JAVA_HOME").filter(|home| !home.is_empty()) {
            Some(home) => Path::new(&home).join("bin/java"),
            None => PathBuf::from("java"),
        };
        for dir in [home.join("libs"), home.to_owned()] {
            let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
            let jars: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
            if jars.iter().any(|jar| jar.starts_with("kafka_") && jar.ends_with(".jar")) {
                let version = jars.iter().find_map(|jar| version_of(jar)).unwrap_or_default();
                let version = format!("Apache Kafka {version}").trim_end().to_owned();
                return Ok(Self { program, class_path: dir.join("*"), version });
            }
        }
        Err(TargetError::NoKafka { home: home.to_owned() })
    }

    fn command(&self, heap: &str, log_config: &Path, class: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(heap.split_ascii_whitespace()).args(JVM_FLAGS);
        command.arg(format!("-Dlog4j2.configurationFile={}", log_config.display()));
        command.arg("-cp").arg(&self.class_path).arg(class);
        command
    }

    fn spawn(&self, what: String, command: Command, log: PathBuf) -> Result<Node, TargetError> {
        Node::spawn(what, command, Input::Nothing, log).map_err(|error| match error {
            TargetError::Start { error, .. } if error.kind() == io::ErrorKind::NotFound => {
                TargetError::NoJava { java: self.program.clone() }
            }
            error => error,
        })
    }
}

/// The version in the name of the clients' jar, but not in that of its sources or tests.
fn version_of(jar: &str) -> Option<&str> {
    let version = jar.strip_prefix("kafka-clients-")?.strip_suffix(".jar")?;
    let is_another = ["test", "sources", "javadoc"].iter().any(|kind| version.ends_with(kind));
    (version.starts_with(|first: char| first.is_ascii_digit()) && !is_another).then_some(version)
}

/// The server.properties of one node, whose ids run from 1.
fn properties(id: usize, ports: &[Ports], data_dir: &Path, settings: &[(String, String)]) -> String {
    let Ports { clients, brokers } = ports[id - 1];
    let voters = ports.iter().enumerate().map(|(at, ports)| format!("{}@127.0.0.1:{}", at + 1, ports.brokers));
    let replicas = ports.len().min(3).to_string();
    let in_sync = if ports.len() < 3 { "1" } else { "2" };
    let own = [
        ("process.roles", "broker,controller".to_owned()),
        ("node.id", id.to_string()),
        ("controller.quorum.voters", voters.collect::<Vec<_>>().join(",")),
        ("controller.listener.names", "CONTROLLER".to_owned()),
        ("listeners", format!("PLAINTEXT://127.0.0.1:{clients},CONTROLLER://127.0.0.1:{brokers}")),
        ("advertised.listeners", format!("PLAINTEXT://127.0.0.1:{clients}")),
        ("inter.broker.listener.name", "PLAINTEXT".to_owned()),
        ("listener.security.protocol.map", "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT".to_owned()),
        ("log.dirs", data_dir.display().to_string()),
    ];
    // Where the internal topics cannot have the defaults, which are for three brokers and more.
    let internal = [
        ("offsets.topic.replication.factor", &*replicas),
        ("transaction.state.log.replication.factor", &replicas),
        ("transaction.state.log.min.isr", in_sync),
        ("share.coordinator.state.topic.replication.factor", &replicas),
        ("share.coordinator.state.topic.min.isr", in_sync),
    ];
    let shipped = [
        ("num.network.threads", "3"),
        ("num.io.threads", "8"),
        ("socket.send.buffer.bytes", "102400"),
        ("socket.receive.buffer.bytes", "102400"),
        ("socket.request.max.bytes", "104857600"),
        ("num.partitions", "1"),
        ("num.recovery.threads.per.data.dir", "2"),
        ("log.retention.hours", "168"),
        ("log.segment.bytes", "1073741824"),
        ("log.retention.check.interval.ms", "300000"),
    ];
    // As with the embedded broker: groups start at once, and topics are created by the lab.
    let measured = [("group.initial.rebalance.delay.ms", "0"), ("auto.create.topics.enable", "false")];
    let fixed = internal.iter().chain(&shipped).chain(&measured).copied();
    let settings = settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut text = String::new();
    for (name, value) in own.iter().map(|(name, value)| (*name, value.as_str())).chain(fixed).chain(settings) {
        let _ = writeln!(text, "{}={}", escaped(name), escaped(value));
    }
    text
}

/// The file is read as Latin-1, with backslashes for what cannot stand in it.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for unit in text.encode_utf16() {
        match u8::try_from(unit) {
            Ok(b'\\') => escaped.push_str("\\\\"),
            Ok(plain @ b' '..=b'~') => escaped.push(char::from(plain)),
            _ => {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_clients() {
        assert_eq!(version_of("kafka-clients-4.3.1.jar"), Some("4.3.1"));
        assert_eq!(version_of("kafka-clients-4.4.0-SNAPSHOT.jar"), Some("4.4.0-SNAPSHOT"));
        assert_eq!(version_of("kafka-clients-4.3.1-sources.jar"), None);
        assert_eq!(version_of("kafka-server-4.3.1.jar"), None);
    }

    #[test]
    fn the_heap_leaves_half_of_a_small_machine_to_the_page_cache() {
        let heaps = [None, Some(8 << 30), Some(512 << 20)].map(|memory| heap(memory.map(ByteSize)));
        assert_eq!(heaps, ["-Xmx1024M -Xms1024M", "-Xmx1024M -Xms1024M", "-Xmx256M -Xms256M"]);
    }

    #[test]
    fn settings_come_last_and_cannot_break_out() {
        let ports = [Ports { clients: 1, brokers: 2 }, Ports { clients: 3, brokers: 4 }];
        let settings = [("log.segment.bytes".to_owned(), "1\n2\\ü".to_owned())];
        let text = properties(2, &ports, Path::new("/data"), &settings);
        for line in [
            "node.id=2",
            "controller.quorum.voters=1@127.0.0.1:2,2@127.0.0.1:4",
            "listeners=PLAINTEXT://127.0.0.1:3,CONTROLLER://127.0.0.1:4",
            "log.dirs=/data",
            "offsets.topic.replication.factor=2",
            "transaction.state.log.min.isr=1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert_eq!(text.lines().last(), Some("log.segment.bytes=1\\u000a2\\\\\\u00fc"));
    }

    #[tokio::test]
    async fn without_its_jars_there_is_no_kafka() {
        let home = tempfile::tempdir().unwrap();
        let error = start(home.path(), &[], 1, None, None).await.unwrap_err();
        assert!(error.to_string().contains("libs/kafka_*.jar"), "{error}");
        let jars = home.path().join("libs");
        fs::create_dir(&jars).unwrap();
        fs::write(jars.join("kafka_2.13-4.3.1.jar"), "").unwrap();
        fs::write(jars.join("kafka-clients-4.3.1.jar"), "").unwrap();
        assert_eq!(Java::find(home.path()).unwrap().version, "Apache Kafka 4.3.1");
    }
}
