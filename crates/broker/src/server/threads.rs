//! The few threads that a broker has of its own. A simulation has tasks instead.

use std::io;
use std::sync::Arc;

use arc_swap::ArcSwap;
use configuration::BrokerConfig;
use metadata::MetadataCache;
use quorum::{Node, Quorum, QuorumError};

use crate::controller::Publisher;
use crate::partition::Syncer;
use crate::threads::Thread;

pub(super) type QuorumThread = Thread<Result<(), QuorumError>>;

/// [`Quorum::start`].
pub(super) fn start_quorum(node: Node<Publisher>) -> Result<(Quorum, QuorumThread), QuorumError> {
    #[cfg(test)]
    if let Some(machine) = crate::simulation::machine::current() {
        let (quorum, driver) = Quorum::prepare(node)?;
        return Ok((quorum, Thread::Task(tokio::spawn(machine.stall_with_disk(driver.run())))));
    }
    Quorum::start(node).map(|(quorum, thread)| (quorum, Thread::Thread(thread)))
}

/// [`Publisher::start`].
pub(super) fn start_publisher(cache: Arc<MetadataCache>, config: Arc<ArcSwap<BrokerConfig>>) -> io::Result<Publisher> {
    #[cfg(test)]
    if let Some(machine) = crate::simulation::machine::current() {
        let (publisher, backlog) = Publisher::prepare(cache, config);
        tokio::spawn(machine.publish(backlog));
        return Ok(publisher);
    }
    Publisher::start(cache, config)
}

/// [`Syncer::start`].
pub(super) fn start_syncer() -> (Arc<Syncer>, Vec<Thread<()>>) {
    #[cfg(test)]
    if let Some(machine) = crate::simulation::machine::current() {
        let syncer = Syncer::idle();
        let tasks = (0..2).map(|_| Thread::Task(tokio::spawn(Arc::clone(&machine).sync(Arc::clone(&syncer)))));
        return (Arc::clone(&syncer), tasks.collect());
    }
    let (syncer, threads) = Syncer::start();
    (syncer, threads.into_iter().map(Thread::Thread).collect())
}
