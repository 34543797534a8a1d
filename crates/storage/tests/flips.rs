//! Flipped bits and garbage: a damaged batch is the only one that is lost, and side files can be anything.

mod common;

use std::panic::AssertUnwindSafe;
use std::path::Path;

use common::*;
use storage::seeds::seeds;
use storage::{BadRange, Log, LogConfig, LogView, Now, Origin, ReadError, ScrubCursor, SimDisk};
use wire::batch::BatchHeader;

const DAY_MS: i64 = 24 * 3600 * 1000;

/// A log of several segments with everything in its directory.
fn written(disk: &SimDisk, seed: u64) -> (Log, Content) {
    let mut rng = Rng::new(seed);
    let (mut log, _) = open(disk, &small_config(), options(0, false));
    for n in 0..60 {
        let mut batches = Vec::new();
        for _ in 0..1 + rng.below(4) {
            let (records, bytes) = (1 + rng.below(5) as usize, rng.below(500) as usize);
            let builder = batch(records, bytes, &mut rng, at(n));
            batches.push(builder.build());
        }
        let results = log.append(&batches, Origin::Client, n as i32 / 20, at(n)).unwrap();
        assert!(results.iter().all(Result::is_ok));
    }
    let content = read_all(&log.view(), &mut rng);
    assert_eq!(content.corrupt, []);
    assert!(log.view().segment_count() > 3);
    (log, content)
}

/// Which batch has a byte of a segment's file.
fn victim(content: &Content, path: &Path, position: u64) -> usize {
    let base: i64 = file_name(path).trim_end_matches(".log").parse().unwrap();
    let mut at = 0;
    let first = content.batches.iter().position(|(header, _)| header.base_offset == base).unwrap();
    for (index, (header, _)) in content.batches.iter().enumerate().skip(first) {
        at += header.size() as u64;
        if position < at {
            return index;
        }
    }
    panic!("no batch at {position} of {}", path.display());
}

fn flip_somewhere(disk: &SimDisk, content: &Content, rng: &mut Rng) -> usize {
    let paths = segment_paths(disk);
    let path = &paths[rng.below(paths.len() as u64) as usize];
    let bytes = disk.get(path).unwrap();
    let mut position = rng.below(bytes.len() as u64);
    let mut index = victim(content, path, position);
    if rng.percent(50) {
        // Within a header, which is where it hurts most.
        let base: i64 = file_name(path).trim_end_matches(".log").parse().unwrap();
        let start: u64 = content.batches[..index]
            .iter()
            .filter(|(header, _)| header.base_offset >= base)
            .map(|(header, _)| header.size() as u64)
            .sum();
        position = start + rng.below(61);
        index = victim(content, path, position);
    }
    assert!(disk.flip_bit(path, position, rng.below(8) as u32));
    index
}

/// Scrubs the log once, in small steps. Returns how many bytes were checked, and what was found.
fn scrub_all(view: &LogView, now: Now) -> (u64, Vec<BadRange>) {
    let (mut cursor, mut bytes, mut found) = (ScrubCursor::default(), 0, Vec::new());
    loop {
        let scrubbed = view.scrub(&mut cursor, 3000, now).unwrap();
        assert!(scrubbed.bytes < 3000 + 3000);
        bytes += scrubbed.bytes;
        found.extend(scrubbed.bad_ranges);
        if scrubbed.is_done {
            return (bytes, found);
        }
    }
}

/// Offsets that a reader gets, compared with those that were written but for one batch.
fn assert_only_lost(found: &Content, content: &Content, victim: usize, seed: u64) {
    let is_whole = found.batches == content.batches;
    let mut expected = content.batches.clone();
    let (header, _) = expected.remove(victim);
    // The base offset and the epoch are not covered by the CRC; such a flip may go unnoticed by it.
    let flipped =
        found.batches.get(victim).filter(|(found, _)| found.crc == header.crc && found.length == header.length);
    let is_uncovered = flipped.is_some() && found.batches.len() == content.batches.len();
    if is_uncovered {
        let mut others = found.batches.clone();
        others.remove(victim);
        assert_eq!(others, expected, "PARSHALL_SEED={seed}");
        return;
    }
    assert!(!is_whole, "PARSHALL_SEED={seed}: nobody noticed");
    let offsets = |batches: &[(BatchHeader, _)]| batches.iter().map(|b| b.0.base_offset).collect::<Vec<_>>();
    assert_eq!(
        offsets(&found.batches),
        offsets(&expected),
        "PARSHALL_SEED={seed}: lost more than {header:?}: {:?}",
        found.corrupt
    );
    assert!(found.batches == expected);
    if victim + 1 < content.batches.len() {
        assert_eq!(found.corrupt, [(header.base_offset, header.next_offset())], "PARSHALL_SEED={seed}");
    }
}

#[test]
fn one_bit_costs_one_batch() {
    for seed in seeds(400) {
        let disk = SimDisk::new(seed);
        let mut rng = Rng::new(seed);
        let (mut log, content) = written(&disk, seed);
        let end = log.log_end_offset();
        let how = rng.below(4);
        let mut recovery_point = 0;
        match how {
            // Found while the log is open.
            0 => {}
            1 => recovery_point = log.close().unwrap(),
            _ => {
                log.view().sync().unwrap();
            }
        }
        let victim = flip_somewhere(&disk, &content, &mut rng);
        if how > 0 {
            disk.kill();
            if how == 3 {
                recovery_point = rng.below(end as u64 + 1) as i64;
            }
            let (reopened, report) = open(&disk, &small_config(), options(recovery_point, how == 1));
            log = reopened;
            let was_last = victim + 1 == content.batches.len();
            assert!(log.log_end_offset() == end || was_last, "PARSHALL_SEED={seed}: {report:?}");
            if recovery_point == end {
                assert_eq!(log.log_end_offset(), end, "PARSHALL_SEED={seed}: {report:?}");
            }
            assert!(report.cut.is_none() || was_last, "PARSHALL_SEED={seed}: {report:?}");
        }
        if rng.percent(50) {
            let mut cursor = ScrubCursor::default();
            while !log.view().scrub(&mut cursor, rng.below(5000), at(2 * DAY_MS)).unwrap().is_done {}
        }
        if std::env::var("PARSHALL_SEED").is_ok() {
            eprintln!("{how} {recovery_point} {:?} {:?}", content.batches[victim].0, log.view().bad_ranges());
        }
        let found = std::panic::catch_unwind(AssertUnwindSafe(|| read_all(&log.view(), &mut rng)));
        let found = found.unwrap_or_else(|_| panic!("PARSHALL_SEED={seed} shows it again"));
        assert_only_lost(&found, &content, victim, seed);
        // Appending goes on, and the new batch is readable too.
        let next = log.append(&[batch(1, 10, &mut rng, at(99)).build()], Origin::Client, 9, at(99)).unwrap();
        let next = next[0].clone().unwrap().base_offset;
        assert!(!log.view().read(next, i64::MAX, 1000).unwrap().is_empty());
    }
}

/// A small log whose last segment has so many batches, all of one size, its content and the noted end of a clean close.
fn small(batches_in_last: i64, is_clean: bool) -> (SimDisk, Content, i64) {
    let disk = SimDisk::new(1);
    let mut rng = Rng::new(7);
    let (mut log, _) = open(&disk, &small_config(), options(0, false));
    for n in 0..3 + batches_in_last {
        if n == 3 {
            log.roll(at(n)).unwrap();
        }
        log.append(&[batch(3, 30, &mut rng, at(n)).build()], Origin::Client, 1 + n as i32 / 4, at(n)).unwrap();
    }
    log.view().sync().unwrap();
    if is_clean {
        log.close().unwrap();
    }
    let content = read_all(&log.view(), &mut rng);
    let end = log.log_end_offset();
    drop(log);
    disk.kill();
    (disk, content, end)
}

/// With which recovery points a log is opened, and whether it was closed cleanly.
fn openings(end: i64, is_clean: bool) -> Vec<(i64, bool)> {
    if is_clean { vec![(end, true)] } else { [end - 3, 0].map(|recovery_point| (recovery_point, false)).to_vec() }
}

/// A header with a wrong checksum is believed in nothing, the last one of a log included, which nothing follows.
#[test]
fn no_bit_of_a_header_moves_the_end_or_hides_other_batches() {
    for batches_in_last in [1, 3] {
        for is_clean in [true, false] {
            let (disk, content, end) = small(batches_in_last, is_clean);
            let paths = segment_paths(&disk);
            let path = paths.last().unwrap();
            let (bytes, size) = (disk.get(path).unwrap(), content.batches[0].0.size());
            for number in 0..batches_in_last as usize {
                let victim = content.batches.len() - batches_in_last as usize + number;
                let header = content.batches[victim].0;
                let is_last = victim + 1 == content.batches.len();
                for bit in 0..8 * 61 {
                    for (recovery_point, is_clean) in openings(end, is_clean) {
                        let what =
                            format!("bit {bit} of batch {number} of {batches_in_last}, {recovery_point} {is_clean}");
                        let mut flipped = bytes.clone();
                        flipped[number * size + bit / 8] ^= 1 << (bit % 8);
                        disk.put(path, &flipped);
                        let (log, report) = open(&disk, &small_config(), options(recovery_point, is_clean));
                        let found = read_all(&log.view(), &mut Rng::new(0));
                        let expected_end = if is_last { header.base_offset..=end } else { end..=end };
                        assert!(expected_end.contains(&log.log_end_offset()), "{what}: {report:?}");
                        let mut others = found.batches.clone();
                        others.retain(|(found, _)| found.crc != header.crc);
                        let mut expected = content.batches.clone();
                        expected.remove(victim);
                        assert!(others == expected, "{what}: {:?} {:?}", found.offsets(), found.corrupt);
                        // What is damaged is told, or served whole: only its leader epoch may be another.
                        if let Some((served, _)) = found.batches.iter().find(|(found, _)| found.crc == header.crc) {
                            let epoch = served.partition_leader_epoch;
                            assert_eq!(*served, BatchHeader { partition_leader_epoch: epoch, ..header }, "{what}");
                        }
                        drop(log);
                        disk.kill();
                        disk.put(path, &bytes);
                    }
                }
            }
        }
    }
}

/// Bytes behind the last batch that look like a header change nothing of what is in front of them.
#[test]
fn what_only_looks_like_a_header_is_cut_and_hides_nothing() {
    // Of two the last is the first of its epoch.
    for batches_in_last in [1, 2, 3] {
        for is_clean in [true, false] {
            let (disk, content, end) = small(batches_in_last, is_clean);
            let paths = segment_paths(&disk);
            let path = paths.last().unwrap();
            let bytes = disk.get(path).unwrap();
            let last = content.batches.last().unwrap().0;
            let plausible = [
                [end, end + 1, end + (1 << 30), end - 1, end - 2, end - 3, 0]
                    .map(|base_offset| BatchHeader { base_offset, ..last })
                    .to_vec(),
                [0, 1 << 30, i32::MAX]
                    .map(|last_offset_delta| BatchHeader { last_offset_delta, base_offset: end, ..last })
                    .to_vec(),
                [0, 1, 7, i32::MAX]
                    .map(|partition_leader_epoch| BatchHeader { partition_leader_epoch, base_offset: end - 1, ..last })
                    .to_vec(),
                [49, 50, 200].map(|length| BatchHeader { length, base_offset: end - 1, ..last }).to_vec(),
            ];
            for (header, count) in plausible.concat().into_iter().flat_map(|header| [(header, 1), (header, 2)]) {
                for (recovery_point, is_clean) in openings(end, is_clean) {
                    let what = format!("{count} of {header:?}, {recovery_point} {is_clean}");
                    let mut torn = bytes.clone();
                    for number in 1..=count {
                        torn.extend(header.to_bytes());
                        torn.resize(bytes.len() + number * header.size(), 0x5a);
                    }
                    disk.put(path, &torn);
                    let (log, report) = open(&disk, &small_config(), options(recovery_point, is_clean));
                    assert_eq!(log.log_end_offset(), end, "{what}: {report:?}");
                    let found = read_all(&log.view(), &mut Rng::new(0));
                    assert!(found == content, "{what}: {:?} {:?}", found.offsets(), found.corrupt);
                    assert_eq!(disk.get(path).unwrap(), bytes, "{what}");
                    drop(log);
                    disk.kill();
                }
            }
        }
    }
}

#[test]
fn scrubbing_finds_the_damage_and_readers_are_told() {
    let disk = SimDisk::new(1);
    let (log, content) = written(&disk, 1);
    let view = log.view();
    let scrub = || {
        let (bytes, found) = scrub_all(&view, at(2 * DAY_MS));
        assert_eq!(bytes, view.size_bytes());
        found
    };
    assert_eq!(scrub(), []);
    let path = &segment_paths(&disk)[1];
    disk.flip_bit(path, 5000, 0);
    let victim = victim(&content, path, 5000);
    let header = content.batches[victim].0;
    // Nobody knows yet: this process wrote it, so only scrubbing looks again.
    assert!(view.span(header.base_offset, i64::MAX, 1).is_ok());
    let bad = scrub();
    assert_eq!(bad.len(), 1);
    assert_eq!((bad[0].first_offset, bad[0].next_offset), (header.base_offset, header.next_offset()));
    assert_eq!(scrub(), [], "known");
    assert_eq!(view.bad_ranges(), bad);
    for offset in header.base_offset..header.next_offset() {
        match view.span(offset, i64::MAX, 1000) {
            Err(ReadError::Corrupt { first_offset, next_offset }) => {
                assert_eq!((first_offset, next_offset), (header.base_offset, header.next_offset()));
            }
            other => panic!("{other:?}"),
        }
    }
    let before = view.span(header.base_offset - 1, i64::MAX, u32::MAX).unwrap().unwrap();
    assert_eq!(before.position + u64::from(before.length), bad[0].position);
}

#[test]
fn what_is_appended_where_the_end_was_lost_can_be_read() {
    let mut rng = Rng::new(1);
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, &small_config(), options(0, false));
    let mut append = |log: &mut Log, count| {
        for _ in 0..count {
            log.append(&[batch(1, 10, &mut rng, at(1)).build()], Origin::Client, EPOCH, at(1)).unwrap();
        }
    };
    append(&mut log, 5);
    log.roll(at(1)).unwrap();
    append(&mut log, 1);
    log.view().sync().unwrap();
    disk.put(&segment_paths(&disk)[0], b"");
    let (mut log, report) = open(&disk, &small_config(), options(0, false));
    assert_eq!(report.bad_ranges.len(), 1, "{report:?}");
    // The segment goes on where it has lost everything.
    log.truncate_to(5, at(2)).unwrap();
    append(&mut log, 1);
    let content = read_all(&log.view(), &mut rng);
    assert_eq!((content.offsets(), content.corrupt), (vec![5], vec![(0, 5)]));
}

#[test]
fn scrubbing_leaves_alone_what_this_process_wrote_in_the_last_day() {
    let disk = SimDisk::new(1);
    let (mut log, content) = written(&disk, 1);
    let end = log.close().unwrap();
    assert_eq!(scrub_all(&log.view(), at(DAY_MS - 1)), (0, vec![]));
    disk.kill();
    let (mut log, _) = open(&disk, &small_config(), options(end, true));
    let view = log.view();
    let old_bytes = view.size_bytes();
    let mut rng = Rng::new(2);
    let mut append = |ms| {
        let batches = [batch(3, 400, &mut rng, at(0)).build()];
        assert!(log.append(&batches, Origin::Client, 3, at(ms)).unwrap()[0].is_ok());
    };
    append(5);
    let segments = view.segment_count();
    append(10);
    let younger_bytes = view.size_bytes();
    assert!(segments > 1 && view.segment_count() == segments, "old and new bytes are in one segment");
    assert_eq!(scrub_all(&view, at(DAY_MS + 4)), (old_bytes, vec![]), "only what was there before");
    assert_eq!(scrub_all(&view, at(DAY_MS + 5)), (younger_bytes, vec![]), "each is checked a day later");
    append(DAY_MS + 5);
    assert_eq!(scrub_all(&view, at(2 * DAY_MS + 4)), (younger_bytes, vec![]));
    // Damage is found in front of recent bytes and not in them.
    let paths = segment_paths(&disk);
    let last = disk.get(paths.last().unwrap()).unwrap();
    disk.flip_bit(paths.last().unwrap(), last.len() as u64 - 1, 0);
    disk.flip_bit(&paths[1], 5000, 0);
    let header = content.batches[victim(&content, &paths[1], 5000)].0;
    let (_, bad) = scrub_all(&view, at(2 * DAY_MS + 4));
    let found: Vec<_> = bad.iter().map(|bad| (bad.first_offset, bad.next_offset)).collect();
    assert_eq!(found, [(header.base_offset, header.next_offset())]);
    let (_, bad) = scrub_all(&view, at(2 * DAY_MS + 5));
    assert_eq!((bad.len(), bad[0].next_offset), (1, view.log_end_offset()));
}

#[test]
fn side_files_can_be_anything() {
    for seed in seeds(150) {
        let disk = SimDisk::new(seed);
        let mut rng = Rng::new(seed);
        let (mut log, content) = written(&disk, seed);
        let producers = log.describe_producers();
        let epochs = log.view().epoch_entries();
        let clean = rng.percent(50);
        let recovery_point = if clean { log.close().unwrap() } else { rng.below(log.log_end_offset() as u64) as i64 };
        disk.kill();
        for path in disk.paths() {
            if file_name(&path).ends_with(".log") || rng.percent(30) {
                continue;
            }
            let mut bytes = disk.get(&path).unwrap();
            match rng.below(4) {
                0 => bytes = (0..rng.below(200)).map(|_| rng.next_u64() as u8).collect(),
                1 => bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize),
                2 => bytes.iter_mut().for_each(|byte| *byte = 0),
                _ => {
                    let at = rng.below(bytes.len() as u64) as usize;
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << rng.below(8);
                    }
                }
            }
            disk.put(&path, &bytes);
        }
        disk.put(&dir().join("stranger.txt"), b"?");
        disk.put(&dir().join("00000000000000000000.log.deleted"), b"?");
        disk.put(&dir().join("00000000000000000000.log.cleaned"), b"?");
        disk.put(&dir().join("00000000000000009999.index"), b"?");
        let (log, report) = open(&disk, &small_config(), options(recovery_point, clean));
        assert_eq!(report.cut, None, "PARSHALL_SEED={seed}");
        let found = read_all(&log.view(), &mut rng);
        assert_eq!(found.offsets(), content.offsets(), "PARSHALL_SEED={seed}: {report:?}");
        assert!(found == content, "PARSHALL_SEED={seed}");
        assert_eq!(log.describe_producers(), producers);
        let latest = log.view().max_timestamp().unwrap();
        assert_eq!(latest.timestamp, at(59).wall_ms, "PARSHALL_SEED={seed}");
        for n in 0..60 {
            let wanted = at(n).wall_ms;
            let header = log.view().batch_for_timestamp(wanted, i64::MAX).unwrap().unwrap();
            let expected = content.batches.iter().find(|(header, _)| header.max_timestamp >= wanted).unwrap().0;
            assert_eq!(header, expected, "PARSHALL_SEED={seed}: {n}");
        }
        // A flipped digit can make another epoch of it; nothing can tell.
        if log.view().epoch_entries() != epochs {
            assert!(!log.view().epoch_entries().is_empty());
        }
        assert!(disk.get(&dir().join("stranger.txt")).is_some(), "not ours");
    }
}

/// What recovery must do with any bytes at all. Also the body of a fuzz target.
fn recover_any(bytes: &[u8], recovery_point: i64, clean: bool) {
    let disk = SimDisk::new(0);
    let config = LogConfig { index_interval_bytes: 64, ..LogConfig::default() };
    let (_, _) = open(&disk, &config, options(0, false));
    let path = dir().join("00000000000000000000.log");
    disk.put(&path, bytes);
    let (mut log, report) = open(&disk, &config, options(recovery_point, clean));
    let stored = disk.get(&path).unwrap();
    assert!(bytes.starts_with(&stored), "only the end may be cut");
    if let Some(cut) = report.cut {
        assert_eq!(cut.position + cut.bytes, bytes.len() as u64);
        let found = read_all(&log.view(), &mut Rng::new(0));
        assert!(found.batches.iter().all(|(header, _)| header.last_offset() < cut.offset));
    }
    let found = read_all(&log.view(), &mut Rng::new(0));
    let ascending = found.batches.is_sorted_by(|(one, _), (other, _)| one.last_offset() < other.base_offset);
    assert!(ascending);
    let end = log.log_end_offset();
    let appended = log.append(&[batch(1, 1, &mut Rng::new(0), at(0)).build()], Origin::Client, 0, at(0)).unwrap();
    if let Ok(appended) = &appended[0] {
        assert_eq!(appended.base_offset, end);
        let again = read_all(&log.view(), &mut Rng::new(0));
        assert_eq!(again.batches.len(), found.batches.len() + 1);
    }
}

#[test]
fn recovery_copes_with_any_bytes() {
    let disk = SimDisk::new(1);
    let (_, _) = written(&disk, 1);
    let good = disk.get(&dir().join("00000000000000000000.log")).unwrap();
    for seed in seeds(2000) {
        let mut rng = Rng::new(seed);
        let mut bytes = match rng.below(4) {
            0 => (0..rng.below(3000)).map(|_| rng.next_u64() as u8).collect(),
            1 => vec![rng.next_u64() as u8; rng.below(3000) as usize],
            _ => good[..rng.below(good.len() as u64) as usize].to_vec(),
        };
        for _ in 0..rng.below(6) {
            if bytes.is_empty() {
                break;
            }
            let (from, to) = (rng.below(bytes.len() as u64) as usize, rng.below(bytes.len() as u64) as usize);
            let (from, to) = (from.min(to), from.max(to));
            match rng.below(5) {
                0 => bytes[from] ^= 1 << rng.below(8),
                1 => bytes[from..to].fill(0),
                2 => bytes.truncate(to),
                3 => bytes.extend_from_within(from..to),
                _ => {
                    bytes.drain(from..to);
                }
            }
        }
        let recovery_point = if rng.percent(50) { 0 } else { rng.below(300) as i64 };
        let clean = rng.percent(30);
        let result = std::panic::catch_unwind(|| recover_any(&bytes, recovery_point, clean));
        if let Err(panic) = result {
            eprintln!("PARSHALL_SEED={seed} shows it again");
            std::panic::resume_unwind(panic);
        }
    }
}
