//! Kafka's checkpoint files: a version, the number of lines, the lines (`CheckpointFile`).
//!
//! A file is replaced whole and durably. A garbage file is an error of its own kind, which nobody has to die from: what
//! it says can always be found out otherwise or assumed to be 0.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::disk::{Disk, read_file, replace_file};

/// Offsets up to which the logs of a data directory are known to be on disk.
pub const RECOVERY_POINT_FILE: &str = "recovery-point-offset-checkpoint";
/// The first offsets that the logs of a data directory still have.
pub const LOG_START_OFFSET_FILE: &str = "log-start-offset-checkpoint";
/// The high watermarks of the partitions of a data directory (`OffsetCheckpointFile` of Kafka's `ReplicaManager`).
pub const HIGH_WATERMARK_FILE: &str = "replication-offset-checkpoint";
/// The files of the journal ([`crate::journal`]) that have to be there.
pub(crate) const JOURNAL_FILES_FILE: &str = "journal-files-checkpoint";
/// Where compaction goes on.
pub const CLEANER_OFFSET_FILE: &str = "cleaner-offset-checkpoint";

const VERSION: &str = "0";
/// A data directory with a million partitions.
const FILE_BYTES_MAX: usize = 256 << 20;

#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("garbage in line {line}")]
    Garbage { line: usize },
}

/// Reads a checkpoint's lines through `parse`. `None` if there is no such file.
pub(crate) fn read_lines<T>(
    disk: &dyn Disk,
    path: &Path,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<Vec<T>>, CheckpointError> {
    let bytes = match read_file(disk, path, FILE_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(CheckpointError::Garbage { line: 0 }),
        bytes => bytes?,
    };
    let garbage = |line| CheckpointError::Garbage { line };
    let text = std::str::from_utf8(&bytes).map_err(|_| garbage(0))?;
    let mut lines = text.lines();
    if lines.next().map(str::trim) != Some(VERSION) {
        return Err(garbage(1));
    }
    let count: usize = lines.next().and_then(|line| line.trim().parse().ok()).ok_or(garbage(2))?;
    let entries: Option<Vec<T>> = lines.by_ref().take(count).map(parse).collect();
    let entries = entries.ok_or(garbage(3))?;
    if entries.len() != count || lines.any(|line| !line.trim().is_empty()) {
        return Err(garbage(3 + count.min(entries.len())));
    }
    Ok(Some(entries))
}

pub(crate) fn write_lines(
    disk: &dyn Disk,
    path: &Path,
    lines: impl ExactSizeIterator<Item = String>,
) -> io::Result<()> {
    let mut text = format!("{VERSION}\n{}\n", lines.len());
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    replace_file(disk, path, text.as_bytes())
}

/// Offsets by topic and partition, as in the files named above.
pub type Offsets = BTreeMap<(String, i32), i64>;

/// `Ok(None)` if there is no such file.
pub fn read_offsets(disk: &dyn Disk, path: &Path) -> Result<Option<Offsets>, CheckpointError> {
    let lines = read_lines(disk, path, |line| {
        let mut words = line.split_ascii_whitespace();
        let entry = ((words.next()?.to_owned(), words.next()?.parse().ok()?), words.next()?.parse().ok()?);
        words.next().is_none().then_some(entry)
    })?;
    Ok(lines.map(|lines| lines.into_iter().collect()))
}

pub fn write_offsets(disk: &dyn Disk, path: &Path, offsets: &Offsets) -> io::Result<()> {
    let lines = offsets.iter().map(|((topic, partition), offset)| format!("{topic} {partition} {offset}"));
    write_lines(disk, path, lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simdisk::SimDisk;

    #[test]
    fn offsets_round_trip_in_kafkas_words() {
        let disk = SimDisk::new(1);
        let path = Path::new("/data/recovery-point-offset-checkpoint");
        disk.create_dir_all(Path::new("/data")).unwrap();
        assert!(read_offsets(&disk, path).unwrap().is_none());
        let offsets = Offsets::from([(("b".into(), 10), 7), (("a.x".into(), 0), i64::MAX)]);
        write_offsets(&disk, path, &offsets).unwrap();
        assert_eq!(read_file(&disk, path, 100).unwrap(), b"0\n2\na.x 0 9223372036854775807\nb 10 7\n");
        assert_eq!(read_offsets(&disk, path).unwrap(), Some(offsets));
    }

    #[test]
    fn garbage_is_told_apart_from_trouble() {
        let disk = SimDisk::new(1);
        let path = Path::new("/checkpoint");
        for bytes in [
            &b""[..],
            b"1\n0\n",
            b"0\n",
            b"0\n1\n",
            b"0\nx\n",
            b"0\n1\na 0\n",
            b"0\n1\na 0 1 2\n",
            b"0\n1\na 0 1\na 1 1\n",
            b"0\n18446744073709551615\na 0 1\n",
            b"\xff\xfe",
        ] {
            replace_file(&disk, path, bytes).unwrap();
            assert!(matches!(read_offsets(&disk, path), Err(CheckpointError::Garbage { .. })), "{bytes:?}");
        }
    }
}
