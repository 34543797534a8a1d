//! The journal of a node that lost power: shown, applied without a start, and damage in it told.

mod common;

use std::fs::{OpenOptions, read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use common::{Broker, PARSHALL};
use serde_json::{Value, json};

fn journal(broker: &Broker, args: &[&str]) -> Output {
    let data_dir = broker.data_dir.path();
    Command::new(PARSHALL).arg("journal").args(args).arg("--data-dir").arg(data_dir).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

fn lines(output: &Output) -> Vec<Value> {
    output.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

fn segment(broker: &Broker) -> PathBuf {
    broker.data_dir.path().join("t-0/00000000000000000000.log")
}

/// Produces until the journal has some of it, and returns how many records.
fn produce_into_journal(broker: &Broker) -> usize {
    broker.ok(&["topic", "create", "t"]);
    // The file of the journal is made meanwhile.
    for records in 1..1000 {
        broker.ok(&["produce", "t", "--acks", "all", "--value", "a"]);
        if lines(&journal(broker, &["status", "--json"]))[0]["needed_frames"].as_u64().unwrap() >= 2 {
            return records;
        }
    }
    panic!("nothing goes into the journal");
}

/// A node whose power failed: of what was acknowledged the segment has what does not stand in the journal. Returns what
/// it would have had, and how many records.
#[expect(clippy::disallowed_methods, reason = "the test does to the file what a lost page cache does")]
fn after_power_loss(broker: &mut Broker) -> (Vec<u8>, usize) {
    let records = produce_into_journal(broker);
    broker.process.kill().unwrap();
    broker.process.wait().unwrap();
    let whole = read(segment(broker)).unwrap();
    let dumped = lines(&journal(broker, &["dump", "--json"]));
    let first = dumped.iter().find(|line| line["directory"] == "t-0").unwrap();
    let synced_bytes = first["position"].as_u64().unwrap();
    OpenOptions::new().write(true).open(segment(broker)).unwrap().set_len(synced_bytes).unwrap();
    (whole, records)
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the files of a broker that is down")]
fn what_only_the_journal_has_is_shown_and_applied_while_the_broker_is_down() {
    let mut broker = Broker::start();
    let while_it_runs = journal(&broker, &["apply"]);
    assert_eq!(while_it_runs.status.code(), Some(1));
    assert!(text(&while_it_runs).contains("in use"), "{}", text(&while_it_runs));
    let (whole, records) = after_power_loss(&mut broker);

    let status = &lines(&journal(&broker, &["status", "--json"]))[0];
    let frames = status["needed_frames"].as_u64().unwrap();
    assert!(frames >= 2 && status["lost_frames"] == 0 && status["needed_logs"] == 1, "{status}");
    assert_eq!(status["files"][0]["file"], "journal-0.parshall");
    let shown = text(&journal(&broker, &["status"]));
    assert!(shown.contains(&format!("Needed: {frames} frames")), "{shown}");
    let dumped = lines(&journal(&broker, &["dump", "--json"]));
    let entries: Vec<_> = dumped.iter().filter(|line| line["directory"] == "t-0").collect();
    let last = entries.last().unwrap();
    assert_eq!((&last["segment"], &last["next_offset"]), (&json!(0), &json!(records)));
    let end = last["position"].as_u64().unwrap() + last["length_bytes"].as_u64().unwrap();
    assert_eq!(end, whole.len() as u64);
    let shown = text(&journal(&broker, &["dump"]));
    assert!(
        shown.contains("log: t-0 topicId: ") && shown.contains(&format!(" nextOffset: {records} bytes: ")),
        "{shown}"
    );

    let applied = &lines(&journal(&broker, &["apply", "--json"]))[0];
    assert_eq!((&applied["frames"], &applied["lost_frames"]), (&json!(frames), &json!(0)));
    assert!(applied["written_bytes"].as_u64().unwrap() > 0);
    assert_eq!(read(segment(&broker)).unwrap(), whole);
    let status = &lines(&journal(&broker, &["status", "--json"]))[0];
    assert_eq!((&status["needed_frames"], &status["needed_bytes"]), (&json!(0), &json!(0)));
    let again = text(&journal(&broker, &["apply"]));
    assert!(again.contains("wrote 0 bytes"), "{again}");
    broker.kill_and_restart();
    assert_eq!(broker.values("t").len(), records);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test damages a file")]
fn a_damaged_frame_is_told_and_the_others_are_applied() {
    let mut broker = Broker::start();
    let (whole, _) = after_power_loss(&mut broker);
    let path = broker.data_dir.path().join("journal-0.parshall");
    // Behind the file's header and that of the first frame.
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(b"damage", 4096 + 70).unwrap();

    let dumped = journal(&broker, &["dump"]);
    assert_eq!(dumped.status.code(), Some(1));
    assert!(text(&dumped).contains("frames 0 to 0 are damaged or missing"), "{}", text(&dumped));
    let status = journal(&broker, &["status", "--json"]);
    assert_eq!((status.status.code(), &lines(&status)[0]["lost_frames"]), (Some(1), &json!(1)));
    let applied = journal(&broker, &["apply"]);
    assert_eq!(applied.status.code(), Some(1));
    assert!(text(&applied).contains("may be gone"), "{}", text(&applied));
    assert_eq!(read(segment(&broker)).unwrap().len(), whole.len(), "the last frame is whole");
    let nothing = text(&journal(&broker, &["status"]));
    assert!(nothing.contains("Needed: 0 frames"), "{nothing}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test removes a file")]
fn a_broker_does_not_start_without_its_journal_until_that_is_forgotten() {
    let mut broker = Broker::start();
    produce_into_journal(&broker);
    broker.process.kill().unwrap();
    broker.process.wait().unwrap();
    std::fs::remove_file(broker.data_dir.path().join("journal-0.parshall")).unwrap();

    let data_dir = broker.data_dir.path();
    let serve = |args: &[&str]| Command::new(PARSHALL).args(args).arg("--data-dir").arg(data_dir).output().unwrap();
    let refused = serve(&["serve", "--listen", "127.0.0.1:0", "--console", "off"]);
    assert_eq!(refused.status.code(), Some(1));
    let says = text(&refused);
    assert!(says.contains("journal-0.parshall is missing") && says.contains("'parshall journal forget"), "{says}");
    let forgotten = &lines(&journal(&broker, &["forget", "--json"]))[0];
    assert_eq!(forgotten["forgotten_files"], json!(["journal-0.parshall"]));
    let again = text(&journal(&broker, &["forget"]));
    assert!(again.contains("No file of the journal is missing"), "{again}");
    broker.kill_and_restart();
}

#[test]
fn a_clean_stop_leaves_nothing_in_the_journal() {
    let mut broker = Broker::start();
    produce_into_journal(&broker);
    common::signal(&broker.process, "-TERM");
    assert!(broker.process.wait().unwrap().success());
    let status = &lines(&journal(&broker, &["status", "--json"]))[0];
    assert_eq!((&status["needed_frames"], &status["lost_frames"]), (&json!(0), &json!(0)), "{status}");
}
