//! Journals that rotted, were cut, mixed up or forged: replay brings back what was written or nothing, in its place.

use std::collections::BTreeMap;
use std::path::Path;

use wire::batch::BatchBuilder;

use super::format::{EntryHeader, FRAME_HEADER_BYTES, FileHeader, FrameHeader, padded};
use super::*;
use crate::checkpoint::JOURNAL_FILES_FILE;
use crate::seeds::{run_seeds, seeds};
use crate::simdisk::Rng;
use crate::{Log, LogConfig, Now, Origin, SimDisk};

const DIR: &str = "/node/data";
/// Not of this node.
const NEIGHBOUR: &str = "/node/other/a-0";
const DIRECTORY_ID: Uuid = Uuid([9; 16]);
const LIMITS: JournalLimits = JournalLimits { bytes: 512 << 10, bypass_bytes: 12_000 };
const NOW: Now = Now { wall_ms: 1_000_000, monotonic_ms: 1 };
const TOPIC_IDS: [(&str, Uuid); 2] = [("a-0", Uuid([1; 16])), ("b-0", Uuid([2; 16]))];

/// The files below a directory, by path.
type Tree = BTreeMap<PathBuf, Vec<u8>>;

/// A data directory behind a power loss: no byte of the logs is in their segments, all are in the journal.
struct Crashed {
    tree: Tree,
    /// The segments as they were.
    segments: Tree,
    /// Where the frames stand.
    frames: Vec<(PathBuf, usize, usize)>,
}

fn tree_of(disk: &SimDisk) -> Tree {
    disk.paths().into_iter().filter_map(|path| Some((path.clone(), disk.get(&path)?))).collect()
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

fn is_journal(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "parshall")
}

/// Or the note of which files there are.
fn is_of_journal(path: &Path) -> bool {
    is_journal(path) || path.ends_with(JOURNAL_FILES_FILE)
}

fn open(disk: &SimDisk, epoch: u64) -> Result<(Journal, Replayed), JournalError> {
    Journal::open(Arc::new(disk.clone()), DIR.into(), DIRECTORY_ID, epoch, LIMITS, &|_| Known::default())
}

impl Crashed {
    fn new() -> Self {
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new(DIR)).unwrap();
        let (journal, _) = open(&disk, 77).unwrap();
        let config = LogConfig { segment_bytes: 10_000, ..LogConfig::default() };
        let mut logs = TOPIC_IDS.map(|(name, topic_id)| {
            let (log, _) =
                Log::create(Arc::new(disk.clone()), Path::new(DIR).join(name), config.clone(), topic_id, NOW).unwrap();
            log.view().sync().unwrap();
            (log, topic_id)
        });
        for commit in 0..40 {
            if journal.wants_file() {
                journal.make_file().unwrap();
            }
            for (log, _) in &mut logs {
                let mut builder = BatchBuilder::new();
                builder.push(0, None, Some(&vec![commit; 100 * usize::from(commit)]), &[]);
                assert!(log.append(&[builder.build()], Origin::Client, 0, NOW).unwrap()[0].is_ok());
            }
            let asked = logs.each_ref().map(|(log, topic_id)| (log.view(), *topic_id));
            let asked = asked.each_ref().map(|(view, topic_id)| (view, *topic_id));
            assert!(journal.commit(&asked).iter().all(|one| matches!(one, Committed::Durable { .. })));
        }
        let mut frames = Vec::new();
        inspect(&disk, Path::new(DIR), DIRECTORY_ID, &mut |inspected| {
            if let Inspected::Frame { path, size_bytes, .. } = inspected {
                let last = frames.last().filter(|(last, _, _)| *last == path);
                let at = last.map_or(BLOCK_BYTES, |(_, at, bytes): &(PathBuf, usize, usize)| at + bytes);
                frames.push((path, at, size_bytes as usize));
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(frames.len(), 40);
        let mut tree = tree_of(&disk);
        tree.insert("/node/neighbour".into(), b"of others".to_vec());
        let segments: Tree =
            tree.iter().filter(|(path, _)| is_segment(path)).map(|(p, b)| (p.clone(), b.clone())).collect();
        assert!(segments.len() > 2, "they have rolled");
        let first = segments.keys().filter(|path| path.ends_with("00000000000000000000.log")).cloned();
        let first: Vec<_> = first.collect();
        tree.retain(|path, _| !is_segment(path));
        tree.extend(first.into_iter().map(|path| (path, Vec::new())));
        Self { tree, segments, frames }
    }

    /// Replays with such files of the journal. Checks that what is in segments then was in them before, and that
    /// nothing else has changed.
    fn replay(&self, tree: &Tree) -> (Result<Replayed, JournalError>, Tree) {
        let disk = SimDisk::new(1);
        for (path, bytes) in tree {
            disk.create_dir_all(path.parent().unwrap()).unwrap();
            disk.put(path, bytes);
        }
        let replayed = open(&disk, 78).map(|(_, replayed)| replayed);
        let mut after = tree_of(&disk);
        for (path, bytes) in after.iter().filter(|(path, _)| is_segment(path)) {
            let whole = self.segments.get(path).unwrap_or_else(|| panic!("{} is new", path.display()));
            // Between two pieces is a hole where another was lost.
            let is_original = bytes.iter().zip(whole).all(|(now, then)| now == then || *now == 0);
            assert!(is_original && bytes.len() <= whole.len(), "{} has something else", path.display());
        }
        let rest = |tree: &Tree| {
            let rest = tree.iter().filter(|(path, _)| !is_segment(path) && !is_of_journal(path));
            rest.map(|(path, bytes)| (path.clone(), bytes.clone())).collect::<Tree>()
        };
        assert_eq!(rest(&after), rest(tree));
        after.retain(|path, _| is_segment(path));
        (replayed, after)
    }
}

fn damage(tree: &mut Tree, rng: &mut Rng) {
    let paths: Vec<_> = tree.keys().filter(|path| is_journal(path)).cloned().collect();
    let path = &paths[rng.below(paths.len() as u64) as usize];
    let other = &paths[rng.below(paths.len() as u64) as usize];
    let others_bytes = tree[other].clone();
    let bytes = tree.get_mut(path).unwrap();
    let length = bytes.len() as u64;
    match rng.below(6) {
        0 | 1 => {
            for _ in 0..1 + rng.below(20) {
                bytes[rng.below(length) as usize] ^= 1 << rng.below(8);
            }
        }
        2 => bytes.truncate(rng.below(length) as usize),
        3 => {
            let (one, two) = (rng.below(length) as usize, rng.below(length) as usize);
            bytes[one.min(two)..one.max(two)].fill_with(|| rng.below(256) as u8);
        }
        4 => *bytes = others_bytes,
        _ => {
            // A block of another place, as a disk does that loses a write.
            let blocks = length / BLOCK_BYTES as u64;
            let [from, to] = [(); 2].map(|()| rng.below(blocks) as usize * BLOCK_BYTES);
            let block = others_bytes.get(from..from + BLOCK_BYTES).map(<[u8]>::to_vec).unwrap_or_default();
            if let Some(place) = bytes.get_mut(to..to + block.len()) {
                place.copy_from_slice(&block);
            }
        }
    }
}

#[test]
fn a_whole_journal_brings_everything_back() {
    let crashed = Crashed::new();
    let (replayed, segments) = crashed.replay(&crashed.tree);
    assert_eq!(replayed.unwrap().lost_frames, 0);
    assert_eq!(segments, crashed.segments);
}

#[test]
fn a_damaged_frame_costs_itself_and_is_told() {
    let crashed = Crashed::new();
    for (index, (path, at, _)) in crashed.frames.iter().enumerate() {
        for place in [0, 20, FRAME_HEADER_BYTES + 1, FRAME_HEADER_BYTES + 100].map(|place| at + place) {
            let mut tree = crashed.tree.clone();
            tree.get_mut(path).unwrap()[place] ^= 0x10;
            let is_last = index + 1 == crashed.frames.len();
            let (replayed, segments) = crashed.replay(&tree);
            let replayed = replayed.unwrap();
            // Whether the last one was ever acknowledged nobody knows.
            let lost = u64::from(!is_last);
            assert_eq!((replayed.lost_frames, replayed.frames), (lost, 39), "frame {index} at {place}");
            assert_ne!(segments, crashed.segments);
        }
    }
}

#[test]
fn whatever_is_damaged_nothing_else_comes_back() {
    let crashed = Crashed::new();
    run_seeds(seeds(300), |seed| {
        let mut rng = Rng::new(seed);
        let mut tree = crashed.tree.clone();
        for _ in 0..1 + rng.below(3) {
            damage(&mut tree, &mut rng);
        }
        match crashed.replay(&tree).0 {
            Ok(_) | Err(JournalError::Foreign { .. } | JournalError::Version { .. }) => {}
            Err(error @ (JournalError::Io(_) | JournalError::Missing { .. })) => panic!("{error}"),
        }
    });
}

#[test]
fn a_frame_that_claims_much_is_not_believed() {
    let crashed = Crashed::new();
    let (path, at, _) = &crashed.frames[3];
    for claim in [u32::MAX, 1 << 30, 1 << 20, (1 << 20) - 64, 100_000] {
        let mut tree = crashed.tree.clone();
        tree.get_mut(path).unwrap()[at + 32..at + 36].copy_from_slice(&claim.to_be_bytes());
        let replayed = crashed.replay(&tree).0.unwrap();
        assert_eq!((replayed.lost_frames, replayed.frames), (1, 39), "{claim}");
    }
}

/// A file with sound checksums.
fn forged(entries: &[(EntryHeader<'_>, &[u8])], sequence: u64) -> Vec<u8> {
    let mut frame = vec![0; FRAME_HEADER_BYTES];
    for (entry, batches) in entries {
        let mut header = vec![0; EntryHeader::header_bytes(entry.directory)];
        entry.write(&mut header);
        frame.extend(header);
        frame.extend(*batches);
    }
    let entry_bytes = (frame.len() - FRAME_HEADER_BYTES) as u32;
    // More than there are.
    FrameHeader { epoch: 5, sequence, needed_from: 0, entry_bytes, entries: u32::MAX }.write(&mut frame);
    frame.resize(padded(frame.len()), 0);
    let mut file = vec![0; BLOCK_BYTES];
    let header =
        FileHeader { directory_id: DIRECTORY_ID, file_sequence: 9, epoch: 5, first_frame: sequence, needed_from: 0 };
    header.write(&mut file);
    file.extend(frame);
    file
}

#[test]
fn a_forged_name_leads_nowhere() {
    let mut crashed = Crashed::new();
    // A log of another node has the same topic.
    let metadata = crashed.tree[&Path::new(DIR).join("a-0/partition.metadata")].clone();
    crashed.tree.insert(Path::new(NEIGHBOUR).join("partition.metadata"), metadata);
    let names =
        ["..", ".", "", "../a-0", "a-0/../../neighbour", NEIGHBOUR, "neighbour", "c-0", "journal-0.parshall", "a-0\0"];
    for name in names {
        for topic_id in [TOPIC_IDS[0].1, Uuid([0; 16])] {
            let entry = |directory, length| EntryHeader {
                topic_id,
                directory,
                segment: 0,
                position: 0,
                next_offset: i64::MAX,
                length,
            };
            let mut tree = crashed.tree.clone();
            tree.retain(|path, _| !is_of_journal(path));
            tree.insert(Path::new(DIR).join("journal-3.parshall"), forged(&[(entry(name, 5), b"wrong")], 0));
            // It may be an error. Checked is that nothing was written.
            let (_, segments) = crashed.replay(&tree);
            assert!(segments.values().all(Vec::is_empty), "{name:?}");
        }
    }
}

#[test]
fn the_greatest_numbers_overflow_nothing() {
    let crashed = Crashed::new();
    for sequence in [u64::MAX - 1, u64::MAX] {
        let mut tree = crashed.tree.clone();
        tree.retain(|path, _| !is_of_journal(path));
        tree.insert(Path::new(DIR).join("journal-3.parshall"), forged(&[], sequence));
        let replayed = crashed.replay(&tree).0.unwrap();
        assert_eq!((replayed.frames, replayed.lost_frames), (1, sequence));
    }
}
