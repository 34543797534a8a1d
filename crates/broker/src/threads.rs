//! Threads: those that wait for the disk in the place of the runtime's, and the few that a broker has of its own. A
//! simulation has one thread only: there tasks stand in for them, which a disk that takes its time keeps waiting.

use std::io;
use std::sync::Arc;
use std::thread;

use arc_swap::ArcSwap;
use tokio::task::JoinHandle;

use crate::config::BrokerConfig;
use crate::meta::{MetadataCache, Publisher};
use crate::partition::Syncer;
use crate::quorum::{Node, Quorum, QuorumError};

/// Has work done that may wait for the disk, by a thread of the runtime's that is there for it.
pub(crate) fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    #[cfg(test)]
    if let Some(machine) = crate::simulation::machine::current() {
        return tokio::spawn(async move {
            machine.wait_for_disk().await;
            work()
        });
    }
    tokio::task::spawn_blocking(work)
}

/// A thread of a broker's own.
pub(crate) enum Thread<T> {
    Thread(thread::JoinHandle<T>),
    #[cfg(test)]
    Task(JoinHandle<T>),
}

impl<T: Send + 'static> Thread<T> {
    /// Waits until it has ended. None if it panicked.
    pub(crate) async fn join(self) -> Option<T> {
        match self {
            Self::Thread(thread) => spawn_blocking(|| thread.join().ok()).await.ok().flatten(),
            #[cfg(test)]
            Self::Task(task) => task.await.ok(),
        }
    }
}

type QuorumThread = Thread<Result<(), QuorumError>>;

/// [`Quorum::start`].
pub(crate) fn start_quorum(node: Node<Publisher>) -> Result<(Quorum, QuorumThread), QuorumError> {
    #[cfg(test)]
    if let Some(machine) = crate::simulation::machine::current() {
        let (quorum, driver) = Quorum::prepare(node)?;
        return Ok((quorum, Thread::Task(tokio::spawn(machine.stand_still_with_disk(driver.run())))));
    }
    Quorum::start(node).map(|(quorum, thread)| (quorum, Thread::Thread(thread)))
}

/// [`Publisher::start`].
pub(crate) fn start_publisher(cache: Arc<MetadataCache>, config: Arc<ArcSwap<BrokerConfig>>) -> io::Result<Publisher> {
    #[cfg(test)]
    if let Some(machine) = crate::simulation::machine::current() {
        let (publisher, backlog) = Publisher::prepare(cache, config);
        tokio::spawn(machine.publish(backlog));
        return Ok(publisher);
    }
    Publisher::start(cache, config)
}

/// [`Syncer::start`].
pub(crate) fn start_syncer() -> (Arc<Syncer>, Vec<Thread<()>>) {
    #[cfg(test)]
    if let Some(machine) = crate::simulation::machine::current() {
        let syncer = Syncer::idle();
        let tasks = (0..2).map(|_| Thread::Task(tokio::spawn(Arc::clone(&machine).sync(Arc::clone(&syncer)))));
        return (Arc::clone(&syncer), tasks.collect());
    }
    let (syncer, threads) = Syncer::start();
    (syncer, threads.into_iter().map(Thread::Thread).collect())
}
