//! `meta.properties`: whose data directory this is (`org.apache.kafka.metadata.properties.MetaProperties`, version 1).
//!
//! A digit that flipped would be another node or another cluster, so a comment holds a checksum of the rest, and there
//! is a copy of the file. Files of Kafka's have neither, and are taken as they are.

use std::io;
use std::path::{Path, PathBuf};

use platform::Random;
use storage::disk::{Disk, read_file, replace_file};
use storage::set_aside::set_aside;
use wire::Uuid;

const NAME: &str = "meta.properties";
const COPY_NAME: &str = "meta.properties.copy";
/// What stands before the checksum, which covers all that is behind its line.
const CHECKSUM: &str = "# crc32c=";
const BYTES_MAX: usize = 64 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaProperties {
    /// `None` until the node belongs to a cluster.
    pub cluster_id: Option<String>,
    pub node_id: i32,
    pub directory_id: Uuid,
}

/// This node cannot use the directory. Each text is for the operator.
#[derive(Debug, thiserror::Error)]
pub enum PropertiesError {
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: io::Error },
    #[error("{path}: {reason}")]
    Invalid { path: PathBuf, reason: String },
    #[error("{path} is of node {found}, this is node {expected}")]
    OtherNode { path: PathBuf, found: i32, expected: i32 },
    #[error("{path} is of cluster {found}, this is cluster {expected}")]
    OtherCluster { path: PathBuf, found: String, expected: String },
}

/// Reads the properties of a data directory; a new directory, or one without them, gets some, which belong to no
/// cluster yet. Everything is durable when this returns.
pub fn open(
    disk: &dyn Disk,
    dir: &Path,
    node_id: i32,
    cluster_id: Option<&str>,
    random: &dyn Random,
) -> Result<MetaProperties, PropertiesError> {
    let path = dir.join(NAME);
    let io_error = |error| PropertiesError::Io { path: path.clone(), error };
    disk.create_dir_all(dir).map_err(io_error)?;
    let Some(properties) = read_and_repair(disk, dir)? else {
        let properties = MetaProperties { cluster_id: None, node_id, directory_id: Uuid::from_random(random.bytes()) };
        properties.write(disk, dir)?;
        return Ok(properties);
    };
    if properties.node_id != node_id {
        return Err(PropertiesError::OtherNode { path, found: properties.node_id, expected: node_id });
    }
    match (cluster_id, &properties.cluster_id) {
        (Some(expected), Some(found)) if expected != found => {
            Err(PropertiesError::OtherCluster { path, found: found.clone(), expected: expected.to_owned() })
        }
        _ => Ok(properties),
    }
}

/// What a data directory says of its node; `None` if it says nothing. Changes nothing.
pub fn look_at(disk: &dyn Disk, dir: &Path) -> Result<Option<MetaProperties>, PropertiesError> {
    let own = load(disk, &dir.join(NAME));
    match &own {
        Ok(None) | Err(PropertiesError::Invalid { .. }) => match load(disk, &dir.join(COPY_NAME)) {
            Ok(Some(copy)) => Ok(Some(copy)),
            _ => own,
        },
        _ => own,
    }
}

/// The same, and restores a damaged or missing file from the other one.
fn read_and_repair(disk: &dyn Disk, dir: &Path) -> Result<Option<MetaProperties>, PropertiesError> {
    let Some(properties) = look_at(disk, dir)? else { return Ok(None) };
    let path = dir.join(NAME);
    let found = load(disk, &path);
    if let Err(error @ PropertiesError::Invalid { .. }) = &found {
        tracing::warn!(%error, "it is made anew from its copy");
        set_aside(disk, &path).map_err(|error| PropertiesError::Io { path, error })?;
    }
    let expected = properties.to_text().into_bytes();
    let is_whole = |name| read_file(disk, &dir.join(name), BYTES_MAX).is_ok_and(|bytes| bytes == expected);
    if (!is_whole(NAME) || !is_whole(COPY_NAME))
        && let Err(error) = properties.write(disk, dir)
    {
        // A full disk is no reason not to start where the file itself can be read.
        if !matches!(found, Ok(Some(_))) {
            return Err(error);
        }
        tracing::warn!(%error, "the copy of a file is not written");
    }
    Ok(Some(properties))
}

fn load(disk: &dyn Disk, path: &Path) -> Result<Option<MetaProperties>, PropertiesError> {
    let bytes = match read_file(disk, path, BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(PropertiesError::Io { path: path.to_owned(), error }),
        Ok(bytes) => bytes,
    };
    let invalid = |reason| PropertiesError::Invalid { path: path.to_owned(), reason };
    MetaProperties::parse(&bytes).map(Some).map_err(invalid)
}

impl MetaProperties {
    /// Durable when this returns. The copy is never older than the file.
    pub fn write(&self, disk: &dyn Disk, dir: &Path) -> Result<(), PropertiesError> {
        let bytes = self.to_text().into_bytes();
        for name in [COPY_NAME, NAME] {
            let path = dir.join(name);
            replace_file(disk, &path, &bytes).map_err(|error| PropertiesError::Io { path, error })?;
        }
        Ok(())
    }

    fn to_text(&self) -> String {
        let Self { cluster_id, node_id, directory_id } = self;
        let cluster = cluster_id.as_ref().map_or_else(String::new, |id| format!("cluster.id={id}\n"));
        let rest = format!("version=1\n{cluster}node.id={node_id}\ndirectory.id={directory_id}\n");
        format!("{CHECKSUM}{:08x}\n{rest}", crc32c::crc32c(rest.as_bytes()))
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
        if let Some((checksum, rest)) = text.strip_prefix(CHECKSUM).and_then(|behind| behind.split_once('\n'))
            && checksum != format!("{:08x}", crc32c::crc32c(rest.as_bytes()))
        {
            return Err("its checksum does not fit; without the line that has it, it is taken as it is".to_owned());
        }
        let pairs: Vec<(&str, &str)> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.trim(), value.trim()))
            .collect();
        let find = |name: &str| {
            let found = pairs.iter().find(|(other, value)| *other == name && !value.is_empty());
            found.map(|(_, value)| *value).ok_or_else(|| format!("{name} is missing"))
        };
        let version = find("version")?;
        if version != "1" {
            return Err(format!("version {version} is not known; 1 is"));
        }
        let cluster_id = find("cluster.id").ok().map(str::to_owned);
        let node_id = find("node.id")?.parse().map_err(|_| "node.id is not a number".to_owned())?;
        let directory_id = find("directory.id")?.parse().map_err(|error| format!("directory.id: {error}"))?;
        Ok(Self { cluster_id, node_id, directory_id })
    }
}

#[cfg(test)]
mod tests {
    use storage::{Disk, SimDisk};

    use super::*;
    use crate::changes::tests::Counter;

    const DIR: &str = "/data/parshall";

    fn start(disk: &SimDisk, node_id: i32, cluster_id: Option<&str>) -> Result<MetaProperties, String> {
        let random = Counter::default();
        open(disk, Path::new(DIR), node_id, cluster_id, &random).map_err(|error| error.to_string())
    }

    fn belong(disk: &SimDisk, properties: &MetaProperties, cluster_id: &str) {
        let properties = MetaProperties { cluster_id: Some(cluster_id.to_owned()), ..properties.clone() };
        properties.write(disk, Path::new(DIR)).unwrap();
    }

    #[test]
    fn are_made_once_and_survive_power_loss() {
        for seed in 0..200 {
            let disk = SimDisk::new(seed);
            let first = start(&disk, 3, None).unwrap();
            disk.crash();
            assert_eq!(start(&disk, 3, None), Ok(first.clone()), "seed {seed}");
            assert_eq!(first.cluster_id, None);
            belong(&disk, &first, "c");
            disk.crash();
            assert_eq!(start(&disk, 3, None).unwrap().cluster_id.as_deref(), Some("c"), "seed {seed}");
        }
    }

    #[test]
    fn power_loss_while_they_are_made_leaves_a_directory_that_starts() {
        use storage::simdisk::SimOp;
        for seed in 0..300 {
            let disk = SimDisk::new(seed);
            let op = [SimOp::Write, SimOp::Sync, SimOp::SyncDir, SimOp::Rename, SimOp::Open][seed as usize % 5];
            disk.fail(op, 0, rustix::io::Errno::IO);
            assert!(start(&disk, 3, None).is_err(), "seed {seed}");
            disk.crash();
            disk.clear_faults();
            assert_eq!(start(&disk, 3, None).unwrap().node_id, 3, "seed {seed}");
        }
    }

    #[test]
    fn another_nodes_or_clusters_directory_is_refused() {
        let disk = SimDisk::new(1);
        let first = start(&disk, 3, Some("peersKafkaClusterAAAAA")).unwrap();
        belong(&disk, &first, "peersKafkaClusterAAAAA");
        assert!(start(&disk, 3, Some("peersKafkaClusterAAAAA")).is_ok());
        assert_eq!(start(&disk, 4, None).unwrap_err(), "/data/parshall/meta.properties is of node 3, this is node 4");
        assert_eq!(
            start(&disk, 3, Some("other")).unwrap_err(),
            "/data/parshall/meta.properties is of cluster peersKafkaClusterAAAAA, this is cluster other"
        );
    }

    #[test]
    fn a_flipped_bit_or_a_missing_file_changes_nothing() {
        let disk = SimDisk::new(2);
        let first = start(&disk, 3, None).unwrap();
        belong(&disk, &first, "peersKafkaClusterAAAAA");
        let expected = start(&disk, 3, None).unwrap();
        let [own, copy] = [NAME, COPY_NAME].map(|name| Path::new(DIR).join(name));
        let bytes = disk.get(&own).unwrap();
        assert_eq!(disk.get(&copy).unwrap(), bytes);
        for bit in 0..bytes.len() * 8 {
            for path in [&own, &copy] {
                assert!(disk.flip_bit(path, bit as u64 / 8, bit as u32 % 8));
                assert_eq!(look_at(&disk, Path::new(DIR)).unwrap(), Some(expected.clone()), "{bit}");
                assert_eq!(start(&disk, 3, None), Ok(expected.clone()), "{bit}");
                assert_eq!([&own, &copy].map(|path| disk.get(path).unwrap()), [bytes.clone(), bytes.clone()], "{bit}");
            }
        }
        for path in [&own, &copy] {
            disk.remove_file(path).unwrap();
            assert_eq!(start(&disk, 3, None), Ok(expected.clone()));
            assert_eq!(disk.get(path).unwrap(), bytes);
        }
        for path in [&own, &copy] {
            disk.put(path, &bytes[..30]);
        }
        assert!(start(&disk, 3, None).unwrap_err().contains("checksum"));
        assert_eq!(disk.get(&own).unwrap(), bytes[..30], "it is left as it is");
    }

    #[test]
    fn kafkas_own_are_read_and_others_are_refused() {
        let kafka = "#\n#Sat Nov 21 21:44:31 UTC 2026\nnode.id=1\ndirectory.id=ZNCVpi1taLminJWnKbsONw\nversion=1\n\
                     cluster.id=peersKafkaClusterAAAAA\n";
        let properties = MetaProperties::parse(kafka.as_bytes()).unwrap();
        assert_eq!((properties.node_id, properties.cluster_id.as_deref()), (1, Some("peersKafkaClusterAAAAA")));
        assert_eq!(MetaProperties::parse(properties.to_text().as_bytes()), Ok(properties));
        for (text, reason) in [
            ("", "version is missing"),
            ("version=0\n", "version 0 is not known; 1 is"),
            ("version=1\ncluster.id=a\nnode.id=x\n", "node.id is not a number"),
            (
                "version=1\ncluster.id=a\nnode.id=1\ndirectory.id=b\n",
                "directory.id: an id is 22 characters of URL-safe base64",
            ),
            ("version=1\ncluster.id=\n", "node.id is missing"),
        ] {
            assert_eq!(MetaProperties::parse(text.as_bytes()).unwrap_err(), reason);
        }
        assert_eq!(MetaProperties::parse(b"\xff\xfe").unwrap_err(), "it is not text");
    }
}
