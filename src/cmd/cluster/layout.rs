//! Which brokers with which ports a local cluster has. It is kept beside their data: nodes of a cluster find each other
//! by the addresses that they began with, so a later start has to give them the same.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use lab::Ports;
use serde::{Deserialize, Serialize};
use storage::disk::DIR_MODE;

use crate::cmd::failure::Usage;

const FILE: &str = "cluster.json";
const DEFAULT_BROKERS: u16 = 3;
const DEFAULT_PORT: u16 = 9092;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Broker {
    port: u16,
    inter_broker_port: u16,
}

/// What the command says of it, where it does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    pub(super) brokers: Option<u16>,
    /// Of the first broker's clients; 0 is any that are free.
    pub(super) port: Option<u16>,
}

pub(super) struct Layout {
    pub(super) ports: Vec<Ports>,
    /// Whether it has never run.
    pub(super) is_new: bool,
    path: PathBuf,
}

impl Layout {
    /// That of the cluster in a directory. Nothing is written: a new one may turn out not to work.
    pub(super) fn of(dir: &Path, wanted: Wanted) -> Result<Self> {
        let path = dir.join(FILE);
        if let Some(ports) = read(&path)? {
            agrees(dir, &ports, wanted)?;
            return Ok(Self { ports, path, is_new: false });
        }
        let brokers = wanted.brokers.unwrap_or(DEFAULT_BROKERS);
        let ports = match wanted.port.unwrap_or(DEFAULT_PORT) {
            0 => Ports::free(brokers).context("cannot find free ports")?,
            first => Ports::from(first, brokers).ok_or_else(|| {
                Usage(format!("{brokers} brokers need {} ports from --port on; {first} is too high", 2 * brokers))
            })?,
        };
        Ok(Self { ports, path, is_new: true })
    }

    /// Makes the directory, and writes down what it does not know yet.
    pub(super) fn keep(&self) -> Result<()> {
        match self.is_new {
            true => write(&self.path, &self.ports).with_context(|| format!("cannot write {}", self.path.display())),
            false => Ok(()),
        }
    }

    /// A cluster that has never run may get other ports: these may have been the trouble.
    pub(super) fn give_up(&self) {
        if self.is_new
            && let Err(error) = remove(&self.path)
        {
            tracing::warn!(%error, "{} cannot be removed", self.path.display());
        }
    }
}

fn agrees(dir: &Path, ports: &[Ports], Wanted { brokers, port }: Wanted) -> Result<()> {
    let dir = dir.display();
    let (found, first) = (ports.len(), ports.first().map_or(0, |ports| ports.clients));
    if brokers.is_some_and(|brokers| usize::from(brokers) != found) {
        bail!(Usage(format!("the cluster in {dir} has {found} brokers; name another directory with --data-dir")));
    }
    if port.is_some_and(|port| port != 0 && port != first) {
        bail!(Usage(format!("the cluster in {dir} has its ports from {first} on; leave out --port")));
    }
    Ok(())
}

fn read(path: &PathBuf) -> Result<Option<Vec<Ports>>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let brokers: Vec<Broker> =
        serde_json::from_str(&text).with_context(|| format!("{} does not list ports of brokers", path.display()))?;
    if brokers.is_empty() {
        bail!("{} does not list ports of brokers", path.display());
    }
    let ports = |broker: Broker| Ports { clients: broker.port, brokers: broker.inter_broker_port };
    Ok(Some(brokers.into_iter().map(ports).collect()))
}

#[expect(clippy::disallowed_methods, reason = "a file of the command line's own, not of a broker")]
fn write(path: &Path, ports: &[Ports]) -> io::Result<()> {
    let broker = |ports: &Ports| Broker { port: ports.clients, inter_broker_port: ports.brokers };
    let text = serde_json::to_string(&ports.iter().map(broker).collect::<Vec<_>>())?;
    if let Some(dir) = path.parent() {
        // The logs and the data of the brokers are in it.
        std::fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)?;
    }
    std::fs::write(path, text + "\n")
}

#[expect(clippy::disallowed_methods, reason = "a file of the command line's own, not of a broker")]
fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_keeps_its_ports() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("new");
        let wanted = |brokers, port| Wanted { brokers, port };
        let failed = Layout::of(&dir, wanted(Some(3), None)).unwrap();
        assert!(!dir.exists());
        failed.keep().unwrap();
        failed.give_up();
        let kept = Layout::of(&dir, wanted(Some(2), Some(0))).unwrap();
        kept.keep().unwrap();
        let first = kept.ports;
        assert_eq!(first.len(), 2);
        for same in [wanted(None, None), wanted(Some(2), Some(0)), wanted(None, Some(first[0].clients))] {
            let layout = Layout::of(&dir, same).unwrap();
            assert_eq!(layout.ports, first);
            layout.give_up();
        }
        for (other, part) in [
            (wanted(Some(3), None), "has 2 brokers; name another directory"),
            (wanted(None, Some(first[0].clients ^ 1)), "leave out --port"),
        ] {
            let error = Layout::of(&dir, other).err().unwrap();
            assert!(error.to_string().contains(part) && error.is::<Usage>(), "{error}");
        }
    }

    #[test]
    fn without_a_word_there_are_three_from_kafkas_port_on() {
        let dir = tempfile::tempdir().unwrap();
        let found = Layout::of(dir.path(), Wanted::default()).unwrap();
        assert_eq!(found.ports, Ports::from(9092, 3).unwrap());
        let too_high = Wanted { port: Some(65_534), brokers: None };
        let error = Layout::of(&dir.path().join("b"), too_high).err().unwrap();
        assert!(error.to_string().contains("need 6 ports"), "{error}");
    }
}
