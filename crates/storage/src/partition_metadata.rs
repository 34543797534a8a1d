//! The file `partition.metadata`, which ties a log's directory to a topic id (`PartitionMetadataFile`).
//!
//! Its two lines are Kafka's. A third one, which Kafka does not read, has the id again with its CRC: any two of the two
//! ids and the CRC that agree tell the id, so that one bad bit does not make a log another topic's.

use std::io;
use std::path::Path;

use wire::Uuid;

use crate::disk::{Disk, read_file, replace_file};
use crate::names::PARTITION_METADATA;

const VERSION: &str = "version: 0";
const TOPIC_ID: &str = "topic_id: ";
const CHECK: &str = "check: ";

/// What the file says of whose log a directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredTopicId {
    /// `None` if the file is missing or garbage.
    pub id: Option<Uuid>,
    /// Whether the check confirms the id. A file that Kafka wrote has none.
    pub is_checked: bool,
    /// Whether the file is as it would be written.
    pub is_whole: bool,
}

/// Reads what the file in a log's directory says.
pub fn read_stored_topic_id(disk: &dyn Disk, dir: &Path) -> io::Result<StoredTopicId> {
    match read_file(disk, &dir.join(PARTITION_METADATA), 4096) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {
            Ok(StoredTopicId { id: None, is_checked: false, is_whole: false })
        }
        bytes => Ok(parse(&bytes?)),
    }
}

/// The topic id in a log's directory; `None` if the file is missing or garbage.
pub fn read_topic_id(disk: &dyn Disk, dir: &Path) -> io::Result<Option<Uuid>> {
    Ok(read_stored_topic_id(disk, dir)?.id)
}

pub fn write_topic_id(disk: &dyn Disk, dir: &Path, topic_id: Uuid) -> io::Result<()> {
    replace_file(disk, &dir.join(PARTITION_METADATA), text_of(topic_id).as_bytes())
}

fn text_of(topic_id: Uuid) -> String {
    let crc = crc32c::crc32c(&topic_id.0);
    format!("{VERSION}\n{TOPIC_ID}{topic_id}\n{CHECK}{topic_id} {crc:08x}\n")
}

fn parse(bytes: &[u8]) -> StoredTopicId {
    // A bad byte spoils its own line only.
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let has_version = lines.next() == Some(VERSION);
    let first: Option<Uuid> = lines.next().and_then(|line| line.strip_prefix(TOPIC_ID)?.trim().parse().ok());
    let check = lines.next().and_then(|line| line.strip_prefix(CHECK)?.split_once(' '));
    let second: Option<Uuid> = check.and_then(|(id, _)| id.parse().ok());
    let crc = check.and_then(|(_, crc)| u32::from_str_radix(crc.trim(), 16).ok());
    let is_confirmed = |id: &Uuid| crc == Some(crc32c::crc32c(&id.0));
    let agreed = first.filter(|_| first == second);
    let checked = first.filter(is_confirmed).or(second.filter(is_confirmed)).or(agreed);
    StoredTopicId {
        id: checked.or(first.filter(|_| has_version)),
        is_checked: checked.is_some(),
        is_whole: checked.is_some_and(|id| text_of(id).as_bytes() == bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simdisk::SimDisk;

    const ID: &str = "fl1zAcUQQ4qh2Qd2sL4NAQ";

    fn directory() -> (SimDisk, &'static Path) {
        let (disk, dir) = (SimDisk::new(1), Path::new("/data/topic-0"));
        disk.create_dir_all(dir).unwrap();
        (disk, dir)
    }

    #[test]
    fn a_topic_id_round_trips_and_garbage_is_none() {
        let (disk, dir) = directory();
        assert_eq!(read_topic_id(&disk, dir).unwrap(), None);
        let id: Uuid = ID.parse().unwrap();
        write_topic_id(&disk, dir, id).unwrap();
        let whole = StoredTopicId { id: Some(id), is_checked: true, is_whole: true };
        assert_eq!(read_stored_topic_id(&disk, dir).unwrap(), whole);
        for garbage in [&b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"[..], b"version: 0\n", b"\xff", &[b'x'; 5000]]
        {
            replace_file(&disk, &dir.join(PARTITION_METADATA), garbage).unwrap();
            assert_eq!(read_topic_id(&disk, dir).unwrap(), None);
        }
    }

    #[test]
    fn what_kafka_wrote_is_read_and_not_checked() {
        let (disk, dir) = directory();
        disk.put(&dir.join(PARTITION_METADATA), format!("version: 0\ntopic_id: {ID}\n").as_bytes());
        let unchecked = StoredTopicId { id: ID.parse().ok(), is_checked: false, is_whole: false };
        assert_eq!(read_stored_topic_id(&disk, dir).unwrap(), unchecked);
    }

    /// It may leave the id unknown or unchecked, where the line that confirms it is gone.
    #[test]
    fn no_single_bit_makes_it_another_id() {
        let id: Uuid = ID.parse().unwrap();
        let whole = text_of(id).into_bytes();
        let mut still_checked = 0;
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let stored = parse(&bytes);
            assert!(stored.id.is_none_or(|stored| stored == id) && !stored.is_whole, "bit {bit}: {stored:?}");
            still_checked += usize::from(stored.is_checked);
        }
        assert!(still_checked > whole.len() * 6, "{still_checked} of {}", whole.len() * 8);
    }
}
