//! Threads for work that would hold up a thread of the runtime: reads of what is not in the page cache, checks of large
//! requests.
//!
//! The number of concurrent tasks of one kind is bounded, later ones wait for their turn: a slow or stalled disk delays
//! readers, and leaves threads to appends, syncs and all other work.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::threads::spawn_blocking;

/// The permits for one kind of work. Clones share them.
#[derive(Clone)]
pub struct BlockingPool(Arc<Semaphore>);

impl BlockingPool {
    pub fn new(threads_max: usize) -> Self {
        Self(Arc::new(Semaphore::new(threads_max)))
    }

    /// Runs a closure. `None` if it panicked. When the caller gives up waiting, work that has begun goes on in its
    /// thread, which keeps its permit until it is done.
    pub async fn run<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let permit = self.0.acquire_owned().await.ok()?;
        let work = move || {
            let done = work();
            drop(permit);
            done
        };
        spawn_blocking(work).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use parking_lot::RwLock;
    use tokio::task::JoinHandle;

    use super::*;

    const THREADS_MAX: usize = 8;

    #[test]
    fn only_so_many_threads_work_at_the_same_time() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
        let (pool, disk) = (BlockingPool::new(THREADS_MAX), Arc::new(RwLock::new(())));
        let reading = Arc::<AtomicUsize>::default();
        let stands_still = disk.write();
        let readers: Vec<_> = (0..3 * THREADS_MAX)
            .map(|_| {
                let (disk, reading) = (Arc::clone(&disk), Arc::clone(&reading));
                runtime.spawn(pool.clone().run(move || {
                    let already = reading.fetch_add(1, Ordering::SeqCst);
                    drop(disk.read());
                    reading.fetch_sub(1, Ordering::SeqCst);
                    already
                }))
            })
            .collect();
        while reading.load(Ordering::SeqCst) < THREADS_MAX {
            std::thread::yield_now();
        }
        // Tasks whose callers gave up still hold their permits.
        readers.iter().step_by(2).for_each(JoinHandle::abort);
        while !readers.iter().step_by(2).all(JoinHandle::is_finished) {
            std::thread::yield_now();
        }
        assert_eq!(pool.0.available_permits(), 0);
        drop(stands_still);
        for reader in readers.into_iter().skip(1).step_by(2) {
            assert!(runtime.block_on(reader).unwrap().unwrap() < THREADS_MAX);
        }
    }
}
