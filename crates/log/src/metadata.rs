//! The file `partition.metadata`, which ties a log's directory to a topic id (`PartitionMetadataFile`).

use std::io;
use std::path::Path;

use wire::Uuid;

use crate::disk::{Disk, read_file, replace_file};
use crate::names::PARTITION_METADATA;

/// The topic id in a log's directory; `None` if the file is missing or garbage.
pub fn read_topic_id(disk: &dyn Disk, dir: &Path) -> io::Result<Option<Uuid>> {
    let bytes = match read_file(disk, &dir.join(PARTITION_METADATA), 4096) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => return Ok(None),
        bytes => bytes?,
    };
    let Ok(text) = std::str::from_utf8(&bytes) else { return Ok(None) };
    let mut lines = text.lines();
    if lines.next() != Some("version: 0") {
        return Ok(None);
    }
    Ok(lines.next().and_then(|line| line.strip_prefix("topic_id: ")?.trim().parse().ok()))
}

pub fn write_topic_id(disk: &dyn Disk, dir: &Path, topic_id: Uuid) -> io::Result<()> {
    replace_file(disk, &dir.join(PARTITION_METADATA), format!("version: 0\ntopic_id: {topic_id}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simdisk::SimDisk;

    #[test]
    fn a_topic_id_round_trips_and_garbage_is_none() {
        let disk = SimDisk::new(1);
        let dir = Path::new("/data/topic-0");
        disk.create_dir_all(dir).unwrap();
        assert_eq!(read_topic_id(&disk, dir).unwrap(), None);
        let id: Uuid = "AAAAAAAAAAAAAAAAAAAAAQ".parse().unwrap();
        write_topic_id(&disk, dir, id).unwrap();
        assert_eq!(read_topic_id(&disk, dir).unwrap(), Some(id));
        for garbage in [&b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"[..], b"version: 0\n", b"\xff", &[b'x'; 5000]]
        {
            replace_file(&disk, &dir.join(PARTITION_METADATA), garbage).unwrap();
            assert_eq!(read_topic_id(&disk, dir).unwrap(), None);
        }
    }
}
