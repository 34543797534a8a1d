//! Logs and a journal on a simulated disk, compared after each crash with what was promised.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use wire::Uuid;
use wire::batch::record::RecordReader;
use wire::batch::{BatchBuilder, Batches};

use super::*;
use crate::seeds::{run_seeds, seeds};
use crate::simdisk::{Rng, SimOp};
use crate::{Log, LogConfig, Now, OpenOptions, Origin, SimDisk};

const DIR: &str = "/data";
const DIRECTORY_ID: Uuid = Uuid([9; 16]);
const LIMITS: JournalLimits = JournalLimits { bytes: 256 << 10, bypass_bytes: 12_000 };
const NOW: Now = Now { wall_ms: 1_000_000, monotonic_ms: 1 };

/// A log, what was appended to it, and what was promised of it.
struct Member {
    log: Log,
    topic_id: Uuid,
    leader_epoch: i32,
    /// One record per offset.
    values: Vec<u64>,
    promised: i64,
    /// What the recovery point's checkpoint has.
    recovery_point: i64,
}

struct Machine {
    disk: SimDisk,
    journal: Journal,
    logs: BTreeMap<String, Member>,
    epochs: u64,
    next_value: u64,
    next_topic: u8,
}

fn config(rng: &mut Rng) -> LogConfig {
    LogConfig { segment_bytes: 4000 + rng.below(8000) as u32, ..LogConfig::default() }
}

fn open_journal(
    disk: &SimDisk,
    epoch: u64,
    known: &dyn Fn(&str) -> Known,
) -> Result<(Journal, Replayed), JournalError> {
    Journal::open(Arc::new(disk.clone()), DIR.into(), DIRECTORY_ID, epoch, LIMITS, known)
}

impl Machine {
    fn new(seed: u64) -> Self {
        let disk = SimDisk::new(seed);
        disk.create_dir_all(Path::new(DIR)).unwrap();
        let (journal, _) = open_journal(&disk, 1, &|_| Known::default()).unwrap();
        journal.make_file().unwrap();
        Self { disk, journal, logs: BTreeMap::new(), epochs: 1, next_value: 0, next_topic: 1 }
    }

    fn dir(name: &str) -> PathBuf {
        Path::new(DIR).join(name)
    }

    fn create(&mut self, name: &str, topic_id: Uuid, config: LogConfig) {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let dir = Self::dir(name);
        if self.journal.holds(name) {
            disk.create_dir_all(&dir).unwrap();
            self.journal.void(&*disk, &dir).unwrap();
        }
        let (log, _) = Log::create(disk, dir, config, topic_id, NOW).unwrap();
        let member = Member { log, topic_id, leader_epoch: 0, values: Vec::new(), promised: 0, recovery_point: 0 };
        self.logs.insert(name.to_owned(), member);
    }

    /// As the owner does it: the directory goes, then everything that is known of it.
    fn remove(&mut self, name: &str) {
        let mut member = self.logs.remove(name).expect("it is there");
        member.log.retire();
        self.disk.remove_dir_all(&Self::dir(name)).unwrap();
    }

    fn append(&mut self, name: &str, records: usize, bytes: usize) {
        let member = self.logs.get_mut(name).expect("it is there");
        for _ in 0..records {
            self.next_value += 1;
            let mut value = self.next_value.to_be_bytes().to_vec();
            value.resize(8 + bytes, 7);
            let mut builder = BatchBuilder::new();
            builder.push(0, None, Some(&value), &[]);
            let appended = member.log.append(&[builder.build()], Origin::Client, member.leader_epoch, NOW).unwrap();
            assert!(appended[0].is_ok());
            member.values.push(self.next_value);
        }
    }

    /// Returns what became of each log.
    fn commit(&mut self) -> Vec<Committed> {
        let views: Vec<_> = self.logs.values().map(|member| (member.log.view(), member.topic_id)).collect();
        let asked: Vec<_> = views.iter().map(|(view, id)| (view, *id)).collect();
        let committed = self.journal.commit(&asked);
        for (member, committed) in self.logs.values_mut().zip(&committed) {
            let view = member.log.view();
            match committed {
                Committed::Durable { .. } => assert_eq!(view.durable_offset(), view.log_end_offset()),
                Committed::Direct(_) => {}
            }
            member.promised = view.durable_offset();
        }
        committed
    }

    fn sync(&mut self, name: &str) {
        let member = self.logs.get_mut(name).expect("it is there");
        if member.log.view().sync().is_ok() {
            member.promised = member.log.view().durable_offset();
        }
    }

    fn checkpoint(&mut self) {
        for member in self.logs.values_mut() {
            member.recovery_point = member.log.view().synced_offset();
        }
    }

    fn known(logs: &BTreeMap<String, Member>, name: &str) -> Known {
        let recovery_point = logs.get(name).map_or(0, |member| member.recovery_point);
        Known { recovery_point, log_start_offset: 0 }
    }

    fn truncate(&mut self, name: &str, to: i64) {
        let member = self.logs.get_mut(name).expect("it is there");
        let end = member.log.truncate_to(to, NOW).unwrap();
        member.values.truncate(end as usize);
        member.promised = member.promised.min(end);
        // Who appends next is another leader.
        member.leader_epoch += 1;
    }

    /// Starts again on what is there, once or several times, and compares.
    fn restart(&mut self, rng: &mut Rng) {
        let logs = std::mem::take(&mut self.logs);
        let mut opened = None;
        for _ in 0..1 + rng.below(3) {
            self.epochs += 1;
            if rng.percent(30) {
                self.disk.stop_after(rng.below(12));
                if open_journal(&self.disk, self.epochs, &|name| Self::known(&logs, name)).is_err() {
                    self.disk.clear_faults();
                    if rng.percent(50) {
                        self.disk.crash();
                    } else {
                        self.disk.kill();
                    }
                    continue;
                }
                self.disk.clear_faults();
            }
        }
        self.epochs += 1;
        let (journal, replayed) = open_journal(&self.disk, self.epochs, &|name| Self::known(&logs, name)).unwrap();
        assert_eq!(replayed.lost_frames, 0);
        opened.get_or_insert(journal);
        for (name, mut member) in logs {
            let options = OpenOptions {
                recovery_point: member.recovery_point,
                log_start_offset: 0,
                clean_shutdown: false,
                now: NOW,
            };
            let open = || {
                let disk = Arc::new(self.disk.clone());
                Log::open(disk, Self::dir(&name), member.log.config().clone(), options).unwrap()
            };
            let (mut log, mut report) = open();
            if log.view().sync().is_err() {
                // The system tells now of a write that failed before. What may be missing is written again.
                (log, report) = open();
            }
            let end = log.log_end_offset();
            assert!(end >= member.promised, "{name} has {end} of {}: {report:?}", member.promised);
            log.view().sync().unwrap();
            if let Some(hole) = report.bad_ranges.first() {
                // Of what nobody was promised a later part may survive without an earlier one.
                assert!(
                    hole.first_offset >= member.promised,
                    "{name} has lost some of {}: {report:?}",
                    member.promised
                );
                log.truncate_to(hole.first_offset, NOW).unwrap();
            }
            let end = log.log_end_offset();
            let found = values(&log);
            assert_eq!(found, member.values[..found.len().min(member.values.len())], "{name}");
            member.values.truncate(found.len());
            (member.log, member.promised) = (log, end);
            member.leader_epoch += 1;
            self.logs.insert(name, member);
        }
        self.journal = opened.expect("it was opened");
        if self.journal.wants_file() {
            self.journal.make_file().unwrap();
        }
    }
}

fn values(log: &Log) -> Vec<u64> {
    let view = log.view();
    let (mut offset, mut values) = (view.log_start_offset(), Vec::new());
    while offset < view.log_end_offset() {
        let bytes = view.read(offset, view.log_end_offset(), u32::MAX).unwrap();
        for batch in Batches::new(bytes) {
            let batch = batch.unwrap();
            offset = batch.header.next_offset();
            for record in RecordReader::new(&batch.header, &batch.records(1 << 20).unwrap()) {
                let value = record.unwrap().value.unwrap();
                values.push(u64::from_be_bytes(*value.first_chunk().unwrap()));
            }
        }
    }
    values
}

/// One life of a few logs, with everything that the journal has to stand.
fn live(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut machine = Machine::new(seed);
    let names = ["a-0", "b-0", "b-1"];
    // Where crashes are rare the ring goes round several times.
    let crash_percent = [8, 8, 1][seed as usize % 3];
    for _ in 0..200 {
        let name = names[rng.below(3) as usize];
        if !machine.logs.contains_key(name) {
            let topic_id = Uuid([machine.next_topic; 16]);
            machine.next_topic += u8::from(rng.percent(50));
            let config = config(&mut rng);
            machine.create(name, topic_id, config);
            continue;
        }
        match rng.below(92 + crash_percent) {
            0..45 => {
                let (records, bytes) = (1 + rng.below(4) as usize, rng.below([700, 3500][seed as usize % 2]) as usize);
                machine.append(name, records, bytes);
            }
            45..70 => _ = machine.commit(),
            70..78 => machine.sync(name),
            78..83 => machine.checkpoint(),
            83..88 => {
                let end = machine.logs[name].log.log_end_offset();
                let to = rng.below(end as u64 + 1) as i64;
                machine.truncate(name, to);
            }
            88..90 => machine.remove(name),
            90..91 => {
                // Nobody is told before the process ends.
                machine.disk.fail_behind_all();
                machine.disk.kill();
                machine.restart(&mut rng);
                machine.disk.crash();
                machine.restart(&mut rng);
            }
            91..92 => {
                machine.disk.fail(SimOp::Write, rng.below(3), Errno::IO);
                machine.commit();
                machine.disk.clear_faults();
            }
            92..94 => {
                if machine.journal.wants_file() {
                    if rng.percent(20) {
                        machine.disk.stop_after(rng.below(12));
                        // It may have been through by then.
                        _ = machine.journal.make_file();
                        machine.disk.crash();
                        machine.restart(&mut rng);
                    } else {
                        machine.journal.make_file().unwrap();
                    }
                }
            }
            _ => {
                if rng.percent(20) {
                    // The process ends in the middle of a write.
                    machine.disk.stop_after(0);
                    machine.commit();
                }
                if rng.percent(60) {
                    machine.disk.crash();
                } else {
                    machine.disk.kill();
                }
                machine.restart(&mut rng);
            }
        }
    }
    machine.disk.crash();
    machine.restart(&mut rng);
}

#[test]
fn nothing_of_a_log_that_has_failed_is_promised() {
    let mut machine = Machine::new(1);
    machine.create("a-0", Uuid([1; 16]), LogConfig::default());
    machine.append("a-0", 2, 100);
    machine.sync("a-0");
    machine.append("a-0", 1, 100);
    assert!(matches!(machine.commit()[..], [Committed::Durable { bytes: 1.. }]));
    machine.append("a-0", 1, 100);
    machine.disk.fail(SimOp::Sync, 0, Errno::IO);
    assert!(machine.logs["a-0"].log.view().sync().is_err());
    // The system calls the pages clean, and may have forgotten them.
    assert_eq!(machine.commit(), [Committed::Direct(DirectReason::Unknown)]);
    assert_eq!(machine.logs["a-0"].promised, 3);
    machine.disk.crash();
    machine.restart(&mut Rng::new(1));
}

#[test]
fn a_file_that_was_removed_after_a_crash_is_missed_until_it_is_forgotten() {
    let mut machine = Machine::new(1);
    machine.create("a-0", Uuid([1; 16]), LogConfig::default());
    machine.append("a-0", 1, 100);
    machine.sync("a-0");
    machine.append("a-0", 1, 100);
    assert!(matches!(machine.commit()[..], [Committed::Durable { bytes: 1.. }]));
    machine.disk.crash();
    let path = file_path(Path::new(DIR), 0);
    machine.disk.remove_file(&path).unwrap();
    let opened = || open_journal(&machine.disk, 2, &|_| Known::default());
    match opened() {
        Err(JournalError::Missing { path: missing, .. }) => assert_eq!(missing, path),
        other => panic!("{:?}", other.map(|(_, replayed)| replayed)),
    }
    assert!(matches!(
        inspect(&machine.disk, Path::new(DIR), DIRECTORY_ID, &mut |_| Ok(())),
        Err(JournalError::Missing { .. })
    ));
    assert_eq!(forget(&machine.disk, Path::new(DIR), DIRECTORY_ID).unwrap(), [path]);
    assert!(opened().is_ok());
    assert!(forget(&machine.disk, Path::new(DIR), DIRECTORY_ID).unwrap().is_empty());
}

#[test]
fn a_file_in_which_nothing_is_needed_may_be_removed() {
    let machine = Machine::new(1);
    let path = file_path(Path::new(DIR), 0);
    machine.journal.close().unwrap();
    machine.disk.crash();
    machine.disk.remove_file(&path).unwrap();
    let (journal, _) = open_journal(&machine.disk, 2, &|_| Known::default()).unwrap();
    journal.make_file().unwrap();
    machine.disk.crash();
    apply(Arc::new(machine.disk.clone()), Path::new(DIR), DIRECTORY_ID, 3, &|_| Known::default()).unwrap();
    machine.disk.crash();
    machine.disk.remove_file(&path).unwrap();
    assert!(open_journal(&machine.disk, 4, &|_| Known::default()).is_ok());
}

#[test]
fn the_figures_say_why_the_journal_is_bypassed() {
    let mut machine = Machine::new(1);
    machine.create("a-0", Uuid([1; 16]), LogConfig::default());
    machine.sync("a-0");
    assert_eq!(machine.journal.figures(), JournalFigures { needed_bytes: 0, files: 1, bypassed: None });
    let fill = |machine: &mut Machine| loop {
        machine.append("a-0", 5, 1000);
        match machine.commit()[..] {
            [Committed::Durable { .. }] => {}
            [Committed::Direct(reason)] => break assert_eq!(reason, DirectReason::NoRoom),
            _ => unreachable!("there is one log"),
        }
        if machine.journal.wants_file() {
            let _ = machine.journal.make_file();
        }
    };
    // Less is free than another file would leave to the logs.
    machine.disk.set_free_bytes(500_000);
    fill(&mut machine);
    let figures = machine.journal.figures();
    assert_eq!((figures.files, figures.bypassed), (1, Some(BypassReason::NoSpace)));
    assert!(figures.needed_bytes > 30_000, "{figures:?}");
    machine.disk.set_free_bytes(u64::MAX);
    machine.journal.make_file().unwrap();
    assert_eq!(machine.journal.figures().bypassed, None);
    fill(&mut machine);
    assert_eq!(machine.journal.figures().bypassed, Some(BypassReason::FillingUp));
    machine.sync("a-0");
    assert_eq!(machine.journal.figures(), JournalFigures { needed_bytes: 0, files: 4, bypassed: None });
    machine.append("a-0", 1, 100);
    machine.disk.fail(SimOp::Write, 0, Errno::IO);
    assert_eq!(machine.commit(), [Committed::Direct(DirectReason::Failed)]);
    assert_eq!(machine.journal.figures().bypassed, Some(BypassReason::Failed));
}

#[test]
fn the_figures_do_not_wait_for_a_disk_that_hangs() {
    let mut machine = Machine::new(1);
    machine.create("a-0", Uuid([1; 16]), LogConfig::default());
    machine.sync("a-0");
    machine.append("a-0", 1, 100);
    machine.commit();
    let before = machine.journal.figures();
    machine.append("a-0", 1, 100);
    let (disk, journal, view) = (machine.disk.clone(), &machine.journal, machine.logs["a-0"].log.view());
    disk.set_hangs(true);
    std::thread::scope(|scope| {
        scope.spawn(|| journal.commit(&[(&view, Uuid([1; 16]))]));
        while disk.waiting() == 0 {
            std::thread::yield_now();
        }
        let (told, figures) = std::sync::mpsc::channel();
        scope.spawn(move || told.send(journal.figures()).expect("somebody waits"));
        let figures = figures.recv_timeout(Duration::from_secs(20));
        disk.set_hangs(false);
        assert_eq!(figures, Ok(before));
    });
    assert!(machine.journal.figures().needed_bytes > before.needed_bytes);
}

#[cfg(feature = "injected-faults")]
#[test]
fn every_injected_fault_is_found() {
    use crate::injected_faults::{InjectedFault, find};
    let of_journal: Vec<_> = InjectedFault::ALL.into_iter().filter(|(fault, _)| fault.is_of_journal()).collect();
    run_seeds(0..of_journal.len() as u64, |index| {
        let (fault, name) = of_journal[index as usize];
        find(name, fault, live);
    });
}

#[test]
fn whatever_happens_nothing_promised_is_lost_and_nothing_else_comes_back() {
    run_seeds(seeds(300), live);
}
