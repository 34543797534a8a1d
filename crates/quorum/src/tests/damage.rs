//! Flipped bits and missing files of the metadata: a node starts with all that it had, or refuses and leaves all files
//! as they are; and then its operator can go on with what can be read.

use std::collections::BTreeMap;

use super::super::recover;
use super::hostile::Three;
use super::*;

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn files(sim: &SimDisk) -> Files {
    sim.paths().into_iter().filter_map(|path| sim.get(&path).map(|bytes| (path, bytes))).collect()
}

fn restore(sim: &SimDisk, files: &Files) {
    for path in sim.paths().into_iter().filter(|path| !files.contains_key(path)) {
        sim.remove_file(&path).unwrap();
    }
    files.iter().filter(|(path, bytes)| sim.get(path).as_ref() != Some(*bytes)).for_each(|(path, bytes)| {
        sim.put(path, bytes);
    });
}

/// Whether nothing can be rebuilt without it.
fn is_needed(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    [".log", ".checkpoint", ".copy"].iter().any(|suffix| name.ends_with(suffix))
        || ["raft-state", "synced-offset"].contains(&name)
}

/// Starts a node whose files were damaged. Returns whether it did.
fn try_start(sim: &SimDisk, expected: &[Bytes], snapshot_bytes: u64, what: &str) -> bool {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let dir = Path::new(DIR);
    let before = files(sim);
    let error = match start(&disk, dir, snapshot_bytes) {
        Ok(node) => {
            assert!(node.machine().values == expected, "{what}: {} values", node.machine().values.len());
            return true;
        }
        Err(error) => error,
    };
    assert!(matches!(error, QuorumError::Corrupt(_)), "{what}: {error}");
    assert!(error.to_string().contains("parshall recover"), "{what}: {error}");
    sim.kill();
    let after = files(sim);
    for (path, bytes) in before.iter().filter(|(path, _)| is_needed(path)) {
        assert_eq!(after.get(path), Some(bytes), "{what}: {} after {error}", path.display());
    }
    let is_new = |path: &&PathBuf| is_needed(path) && !before.contains_key(*path);
    assert_eq!(after.keys().find(is_new), None, "{what}: a file is there that was not");
    // What can be read is what was first.
    let readable = recover::read(sim, dir).unwrap();
    assert!(!readable.trouble.is_empty(), "{what}: {error}");
    let entries = readable.snapshot.iter().chain(&readable.entries);
    let values: Vec<Bytes> = entries.flat_map(|(values, _)| values.clone()).collect();
    assert!(expected.starts_with(&values), "{what}");
    let voters = VoterSet::new(vec![voter(options(disk.clone(), dir, 0).key())]);
    let kept_as = readable.replace(sim, dir, voters, values.clone(), 0).unwrap().unwrap();
    for (path, bytes) in after.iter().filter(|(path, _)| is_needed(path)) {
        assert_eq!(sim.get(&kept_as.join(path.file_name().unwrap())).as_ref(), Some(bytes), "{what}");
    }
    let mut node = start(&disk, dir, snapshot_bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(node.machine().values, values, "{what}");
    commit(&mut node, &self::values(999, 1)).unwrap();
    assert!(recover::read(sim, dir).unwrap().trouble.is_empty(), "{what}");
    false
}

#[test]
fn a_flipped_bit_or_a_missing_file_loses_nothing_unnoticed() {
    // Every byte by hand, with PARSHALL_SEEDS.
    let stride = if std::env::var("PARSHALL_SEEDS").is_ok() { 1 } else { 5 };
    let (mut starts, mut refusals) = (0, 0);
    // Without a snapshot of the node's own, and with several.
    for (snapshot_bytes, count) in [(1 << 20, 6), (200, 12)] {
        let sim = SimDisk::new(20);
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let mut node = start(&disk, Path::new(DIR), snapshot_bytes).unwrap();
        (0..count).for_each(|n| _ = commit(&mut node, &values(n, 1)).unwrap());
        let expected = values(0, count);
        drop(node);
        sim.kill();
        let whole = files(&sim);
        assert!(recover::read(&sim, Path::new(DIR)).unwrap().trouble.is_empty());
        for (path, bytes) in &whole {
            let bits = (0..bytes.len() as u64).step_by(stride).map(|byte| Some((byte, (byte % 8) as u32)));
            for bit in bits.chain([None]) {
                let what = format!("{bit:?} of {} with {count}", path.display());
                match bit {
                    Some((byte, bit)) => assert!(sim.flip_bit(path, byte, bit)),
                    None => sim.remove_file(path).unwrap(),
                }
                match try_start(&sim, &expected, snapshot_bytes, &what) {
                    true => starts += 1,
                    false => refusals += 1,
                }
                sim.kill();
                restore(&sim, &whole);
            }
        }
    }
    assert!(starts > 200 && refusals > 50, "{starts} starts, {refusals} refusals");
}

/// Among several a vote must not be given twice, and a log that is too short must not vote.
#[test]
fn among_several_a_vote_comes_from_its_copy_or_not_at_all() {
    let sim = SimDisk::new(21);
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let options = options(disk, Path::new(DIR), 1 << 20);
    let other = voter(VoterKey { node_id: 2, directory_id: wire::Uuid([2; 16]) });
    let set = VoterSet::new(vec![voter(options.key()), other]);
    Node::bootstrap(&*options.disk, &options.dir, &*options.clock, &set).unwrap();
    let state = raft::eraftpb::HardState { term: 5, vote: 7, commit: 1, ..Default::default() };
    let (mut storage, _) = raft_storage::Storage::open(&options).unwrap();
    storage.set_hard_state(&state).unwrap();
    let entry = |index: u64| raft::eraftpb::Entry {
        index,
        term: 5,
        data: storage.batch_of(&[Bytes::from_static(b"value")]).bytes,
        ..raft::eraftpb::Entry::default()
    };
    let entries: Vec<_> = (2..5).map(entry).collect();
    storage.append(&entries, 0).unwrap();
    drop(storage);
    sim.kill();
    let whole = files(&sim);
    for (path, bytes) in &whole {
        for byte in (0..bytes.len() as u64).step_by(3).map(Some).chain([None]) {
            match byte {
                Some(byte) => assert!(sim.flip_bit(path, byte, (byte % 8) as u32)),
                None => sim.remove_file(path).unwrap(),
            }
            match raft_storage::Storage::open(&options) {
                Ok((storage, _)) => {
                    let found = raft::Storage::initial_state(&storage).unwrap().hard_state;
                    // The epoch of a batch is not covered by its checksum; in a later one no vote was given.
                    let is_known = (found.term, found.vote) == (5, 7) || found.term > 5 && found.vote == 0;
                    assert!(is_known, "{found:?}: {byte:?} of {}", path.display());
                    assert_eq!(storage.last_index(), 4, "{byte:?} of {}", path.display());
                }
                Err(error) => assert!(matches!(error, QuorumError::Corrupt(_)), "{error}"),
            }
            sim.kill();
            restore(&sim, &whole);
        }
    }
}

/// A leader does not go back before what a member has acknowledged, unless that member says so.
#[test]
fn a_member_that_lost_what_it_had_promised_is_sent_it_again() {
    let mut three = Three::led();
    let before = files(&three.disks[1]);
    for n in 5..7 {
        three.propose(0, n);
        three.deliver_all();
    }
    (0..4).for_each(|_| three.nodes[0].tick().unwrap());
    three.deliver_all();
    let (term, _, committed, ..) = three.state(1);
    restore(&three.disks[1], &before);
    three.nodes[1] = three.open(1);
    assert_eq!(three.nodes[1].last_index(), committed - 2);
    (0..4).for_each(|_| three.nodes[0].tick().unwrap());
    let heartbeats = std::mem::take(&mut *three.sent.lock());
    let member = three.id(1);
    for message in heartbeats.into_iter().filter(|message| message.to == member) {
        assert!(matches!(three.nodes[1].receive(message), Err(QuorumError::Impossible(_)) | Ok(())));
    }
    three.deliver_all();
    (0..4).for_each(|_| three.nodes[0].tick().unwrap());
    three.deliver_all();
    assert_eq!(three.nodes[1].machine().values, values(0, 7));
    assert!(three.nodes[0].leads() && three.state(0).0 == term);
}

#[test]
fn what_was_refused_is_refused_again_after_a_power_loss() {
    let dir = Path::new(DIR);
    for seed in 0..20 {
        let sim = SimDisk::new(seed);
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let mut node = start(&disk, dir, 1 << 20).unwrap();
        (0..6).for_each(|n| _ = commit(&mut node, &values(n, 1)).unwrap());
        drop(node);
        sim.kill();
        let log = sim.paths().into_iter().find(|path| path.extension().is_some_and(|name| name == "log")).unwrap();
        let size = sim.get(&log).unwrap().len() as u64;
        assert!(sim.flip_bit(&log, size - 1, 0));
        for power_losses in 0..2 {
            let error = start(&disk, dir, 1 << 20).err().unwrap_or_else(|| panic!("seed {seed}, {power_losses}"));
            assert!(matches!(error, QuorumError::Corrupt(_)), "{error}");
            sim.crash();
        }
    }
}
