//! How many files this process has open, and how some are closed when they become too many.
//!
//! Each log opens its files when it needs them and keeps them. There may be more of them than descriptors, so opening
//! one beyond the bound first closes files that their logs did not use lately, and if these are few, all that can be
//! opened again. The bound is half of the descriptors: the rest is for connections.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// The part of the descriptors that files may take.
const PART_OF_DESCRIPTORS: u64 = 2;
/// A part of the bound that has to be free after files were given up, or more of them are. It is also how many more are
/// opened before the logs are asked again if they closed too few.
const PART_FREE: usize = 8;

/// Gives up idle files, or all, and says how many.
type GiveUp = Box<dyn Fn(bool) -> usize + Send + Sync>;

pub struct OpenFiles {
    max: usize,
    count: AtomicUsize,
    /// The number of files from which on the logs are asked.
    give_up_at: AtomicUsize,
    give_up: OnceLock<GiveUp>,
    /// Held by the thread that asks the logs.
    giving_up: Mutex<()>,
}

impl OpenFiles {
    pub fn new(descriptors: u64) -> Self {
        let max = usize::try_from(descriptors / PART_OF_DESCRIPTORS).unwrap_or(usize::MAX);
        Self {
            max,
            count: AtomicUsize::new(0),
            give_up_at: AtomicUsize::new(max),
            give_up: OnceLock::new(),
            giving_up: Mutex::default(),
        }
    }

    /// Sets what closes files. Until then none are closed.
    pub fn set_give_up(&self, give_up: impl Fn(bool) -> usize + Send + Sync + 'static) {
        _ = self.give_up.set(Box::new(give_up));
    }

    /// A file was opened.
    pub fn record_opened(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub fn record_closed(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Called before a file is opened.
    pub fn make_room(&self) {
        if self.count.load(Ordering::Relaxed) >= self.give_up_at.load(Ordering::Relaxed) {
            self.give_up_some();
        }
    }

    /// Has files closed, unless another thread does so already.
    pub fn give_up_some(&self) {
        let (Some(_one), Some(give_up)) = (self.giving_up.try_lock(), self.give_up.get()) else { return };
        let wanted = self.max - self.max / PART_FREE;
        for even_used in [false, true] {
            give_up(even_used);
            let count = self.count.load(Ordering::Relaxed);
            self.give_up_at.store(self.max.max(count + self.max / PART_FREE), Ordering::Relaxed);
            if count <= wanted {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use storage::{Disk, Log, LogConfig, LogView, Origin, SimDisk};
    use wire::Uuid;
    use wire::batch::BatchBuilder;

    use super::*;
    use crate::env::Clock;
    use crate::simulation::SimClock;
    use crate::{DiskWatch, WatchedDisk};

    /// Files of which some are idle and some cannot be closed, and how often each kind was requested.
    fn open_files(idle: usize, used: usize, kept: usize) -> (Arc<OpenFiles>, Arc<Mutex<[usize; 2]>>) {
        let files = Arc::new(OpenFiles::new(64));
        (0..idle + used + kept).for_each(|_| files.record_opened());
        let calls = Arc::new(Mutex::new([0; 2]));
        let (of, counted, left) = (Arc::downgrade(&files), Arc::clone(&calls), Mutex::new([idle, used]));
        files.set_give_up(move |even_used| {
            counted.lock()[usize::from(even_used)] += 1;
            let files = of.upgrade().expect("it asks");
            let gone = std::mem::take(&mut left.lock()[usize::from(even_used)]);
            (0..gone).for_each(|_| files.record_closed());
            gone
        });
        (files, calls)
    }

    #[test]
    fn idle_files_go_first_and_others_if_that_is_too_little() {
        for (idle, used, kept, expected) in [(20, 11, 0, [0, 0]), (20, 12, 0, [1, 0]), (2, 30, 0, [1, 1])] {
            let (files, calls) = open_files(idle, used, kept);
            files.make_room();
            assert_eq!(*calls.lock(), expected, "{idle} {used} {kept}");
        }
    }

    #[test]
    fn more_logs_than_descriptors_take_turns() {
        let (clock, files) = (Arc::new(SimClock::default()), Arc::new(OpenFiles::new(32)));
        let watch = Arc::new(DiskWatch::new(clock.clone(), Duration::from_secs(2)));
        let disk: Arc<dyn Disk> = Arc::new(WatchedDisk::new(Arc::new(SimDisk::new(1)), watch, Arc::clone(&files)));
        let views = Arc::new(Mutex::new(Vec::<Arc<LogView>>::new()));
        let all = Arc::clone(&views);
        files.set_give_up(move |even_used| all.lock().iter().map(|view| view.give_up_files(even_used)).sum());
        let now = clock.now();
        let mut logs: Vec<Log> = Vec::new();
        for n in 0..100 {
            let dir = format!("/data/t-{n}").into();
            let (log, _) =
                Log::create(Arc::clone(&disk), dir, LogConfig::default(), Uuid([1; 16]), now).expect("the disk works");
            views.lock().push(log.view());
            logs.push(log);
        }
        for round in 1..=3 {
            for log in &mut logs {
                let mut builder = BatchBuilder::new();
                builder.push(now.wall_ms, None, Some(b"value"), &[]);
                let appended = log.append(&[builder.build()], Origin::Client, 0, now).expect("the disk works");
                assert!(appended.iter().all(Result::is_ok));
                log.view().sync().expect("the disk works");
                assert!(files.count.load(Ordering::Relaxed) <= files.max + 4);
                assert_eq!(log.log_end_offset(), round);
                assert!(!log.view().read(0, round, 1000).expect("the disk works").is_empty());
            }
        }
        drop((logs, views));
    }

    #[test]
    fn where_nothing_can_go_the_logs_are_asked_now_and_then_only() {
        let (files, calls) = open_files(0, 0, 40);
        for _ in 0..8 {
            files.make_room();
            files.record_opened();
        }
        assert_eq!(calls.lock()[0], 2);
    }
}
