//! `parshall dump` from outside, on files made here: what is sound is shown, what is damaged is found.

use std::path::Path;
use std::process::{Command, Output};

use wire::batch::{Batch, BatchBuilder};
use wire::compress::Codec;

fn dump(args: &[&str], path: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_parshall")).arg("dump").args(args).arg(path).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Three records from this offset on.
fn batch(base_offset: i64, codec: Codec) -> Batch {
    let mut builder = BatchBuilder::new().base_offset(base_offset).compression(codec, None);
    for i in 0..3 {
        let value = format!("value {}", base_offset + i);
        builder.push(1000 + base_offset + i, Some(b"key"), Some(value.as_bytes()), &[(b"h", Some(b"1"))]);
    }
    builder.build()
}

/// Four batches, offsets 0 to 11, with each one's position.
fn segment() -> (Vec<u8>, Vec<usize>) {
    let mut bytes = Vec::new();
    let mut positions = Vec::new();
    for (i, codec) in [Codec::None, Codec::Zstd, Codec::Lz4, Codec::None].into_iter().enumerate() {
        positions.push(bytes.len());
        bytes.extend_from_slice(&batch(i as i64 * 3, codec).bytes);
    }
    (bytes, positions)
}

#[expect(clippy::disallowed_methods, reason = "the test's own files")]
fn write(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fn shown_offsets(output: &Output) -> Vec<i64> {
    let offset = |line: &str| line.strip_prefix("| offset: ")?.split(' ').next()?.parse().ok();
    stdout(output).lines().filter_map(offset).collect()
}

const LOG: &str = "orders-0/00000000000000000000.log";

#[test]
fn a_sound_segment_is_shown_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(LOG);
    write(&path, &segment().0);
    let output = dump(&["--print-data"], &path);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    assert_eq!(shown_offsets(&output), (0..12).collect::<Vec<_>>());
    let text = stdout(&output);
    assert!(text.contains("baseOffset: 3 lastOffset: 5 count: 3 "), "{text}");
    assert!(text.contains("headerKeys: [h] key: key payload: value 7\n"), "{text}");
}

#[test]
fn a_flipped_bit_costs_one_batch_and_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(LOG);
    let (sound, positions) = segment();
    for (victim, &position) in positions.iter().enumerate() {
        let end = positions.get(victim + 1).copied().unwrap_or(sound.len());
        // Base offset, length, magic, checksum, record count, and the records; the leader epoch may be anything.
        for byte in [0, 8, 10, 16, 17, 21, 57, 61, end - position - 1] {
            let mut bytes = sound.clone();
            bytes[position + byte] ^= 0x40;
            write(&path, &bytes);
            let output = dump(&["--print-data"], &path);
            let expected: Vec<_> = (0..12).filter(|offset| offset / 3 != victim as i64).collect();
            // The base offset lies outside of the checksum: only its order can be wrong.
            if byte != 0 {
                assert_eq!(shown_offsets(&output), expected, "batch {victim}, byte {byte}");
            }
            assert_eq!(output.status.code(), Some(1), "batch {victim}, byte {byte}");
            let told = stderr(&output);
            assert!(told.contains(&format!("{}: position ", path.display())), "{told}");
            if byte >= 17 {
                let (first, last) = (victim * 3, victim * 3 + 2);
                assert!(
                    told.contains(&format!("position {position}: the batch of offsets {first} to {last}"))
                        || byte == 57,
                    "{told}"
                );
            }
        }
    }
}

#[test]
fn a_torn_end_is_told_and_zeros_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(LOG);
    let (bytes, positions) = segment();
    write(&path, &bytes[..bytes.len() - 5]);
    let output = dump(&["--print-data"], &path);
    assert_eq!((output.status.code(), shown_offsets(&output)), (Some(1), (0..9).collect()));
    let told = stderr(&output);
    assert!(
        told.contains(&format!("position {}: the last ", positions[3])) && told.contains("offset 9 is due"),
        "{told}"
    );

    let mut preallocated = bytes;
    preallocated.resize(preallocated.len() + 100_000, 0);
    write(&path, &preallocated);
    let output = dump(&["--print-data"], &path);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}

#[test]
fn garbage_in_the_middle_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(LOG);
    let (bytes, positions) = segment();
    let mut with_garbage = bytes[..positions[2]].to_vec();
    with_garbage.extend((0..1_000_000u32).map(|n| (n * 7 + n / 251) as u8));
    with_garbage.extend_from_slice(&bytes[positions[2]..]);
    write(&path, &with_garbage);
    let output = dump(&["--print-data"], &path);
    assert_eq!((output.status.code(), shown_offsets(&output)), (Some(1), (0..12).collect()));
    assert!(stderr(&output).contains("1000000 bytes are unreadable"), "{}", stderr(&output));
}

#[test]
fn indexes_are_checked_against_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, positions) = segment();
    write(&dir.path().join(LOG), &bytes);
    let index = dir.path().join("orders-0/00000000000000000000.index");
    let times = dir.path().join("orders-0/00000000000000000000.timeindex");
    let entry = |offset: u32, position: usize| [offset.to_be_bytes(), (position as u32).to_be_bytes()].concat();
    let time = |timestamp: i64, offset: u32| [&timestamp.to_be_bytes()[..], &offset.to_be_bytes()].concat();

    write(&index, &[entry(5, positions[1]), entry(11, positions[3]), vec![0; 800]].concat());
    write(&times, &[time(1005, 5), time(1011, 11), vec![0; 1200]].concat());
    let output = dump(&[], dir.path());
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    assert!(stdout(&output).contains(&format!("offset: 11 position: {}\n", positions[3])));
    assert!(stdout(&output).contains("timestamp: 1005 offset: 5\n"));

    let wrong = [entry(5, positions[1] + 1), entry(4, positions[3]), entry(2, bytes.len())];
    for wrong in wrong {
        write(&index, &[entry(2, positions[0]), wrong].concat());
        let output = dump(&[], &index);
        assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    }
    for wrong in [time(1004, 5), time(1011, 99), time(1, 0)] {
        write(&times, &[time(1002, 2), wrong].concat());
        let output = dump(&[], &times);
        assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    }
}

#[test]
fn small_files_are_shown_and_garbage_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let epochs = dir.path().join("leader-epoch-checkpoint");
    let recovery = dir.path().join("recovery-point-offset-checkpoint");
    let snapshot = dir.path().join("00000000000000000012.snapshot");
    write(&epochs, b"0\n2\n0 0\n3 17\n");
    write(&recovery, b"0\n1\norders 0 12\n");
    for own in ["truncation-checkpoint", "journal-checkpoint", "journal-files-checkpoint"] {
        write(&dir.path().join(own), b"0\n1\n17 19\n");
    }
    let entry =
        wire::state::producer_snapshot::ProducerEntry { producer_id: 4711, last_offset: 11, ..Default::default() };
    write(&snapshot, &wire::state::producer_snapshot::ProducerSnapshot::to_bytes(vec![entry]));
    let output = dump(&[], dir.path());
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    for line in ["epoch: 3 offset: 17\n", "offset: orders 0 offset: 12\n", "producerId: 4711 "] {
        assert!(stdout(&output).contains(line), "{line}{}", stdout(&output));
    }
    for (path, garbage) in [
        (&epochs, &b"0\n3\n0 0\n3 17\n"[..]),
        (&epochs, b"0\n1\nzero 0 0\n"),
        (&recovery, b"\xff\xfe"),
        (&recovery, b"1\n0\n"),
        (&snapshot, b"\0\x01garbage"),
    ] {
        write(path, garbage);
        let output = dump(&[], path);
        assert_eq!((output.status.code(), stderr(&output).lines().count()), (Some(1), 1), "{}", stderr(&output));
    }
}

#[test]
fn json_has_a_line_for_each_batch_and_record() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(LOG);
    write(&path, &segment().0);
    let output = dump(&["--print-data", "--json"], &path);
    let lines: Vec<serde_json::Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| lines.iter().filter(|line| line["type"] == kind).count();
    assert_eq!((of("batch"), of("record"), lines.len()), (4, 12, 16));
    assert_eq!(lines[1]["value"], "value 0");
}

#[test]
fn a_file_that_is_not_there_is_one_line() {
    let output = dump(&[], Path::new("/nonexistent/x.log"));
    assert_eq!((output.status.code(), stderr(&output).lines().count()), (Some(1), 1), "{}", stderr(&output));
}
