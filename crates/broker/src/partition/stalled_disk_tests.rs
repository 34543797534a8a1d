//! What becomes of appends and other requests while the disk stalls.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use configuration::{BrokerConfig, ConfigMap, TopicConfig};
use parking_lot::{Condvar, Mutex};
use storage::disk::{DirEntry, Disk, File, OpenMode};
use storage::{Log, OpenOptions, ReadError, SimDisk};
use wire::batch::BatchBuilder;
use wire::{ErrorCode, Uuid};

use super::*;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// Holds up writes and syncs while it is closed.
#[derive(Default)]
struct Valve {
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Valve {
    fn close(&self) {
        self.state.lock().0 = true;
    }

    fn open(&self) {
        self.state.lock().0 = false;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock();
        state.1 += 1;
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |(is_closed, _)| *is_closed);
        state.1 -= 1;
    }

    /// Waits until so many threads block in here.
    fn wait_for(&self, threads: usize) {
        let mut state = self.state.lock();
        let waited = self.changed.wait_while_for(&mut state, |(_, stalled)| *stalled < threads, PATIENCE);
        assert!(!waited.timed_out(), "{} of {threads} threads write", state.1);
    }
}

#[derive(Clone)]
struct StalledDisk(SimDisk, Arc<Valve>);

struct StalledFile(Arc<dyn File>, Arc<Valve>);

impl Disk for StalledDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(StalledFile(self.0.open(path, mode)?, Arc::clone(&self.1))))
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir_all(path)
    }
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.0.read_dir(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.remove_file(path)
    }
    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.remove_dir_all(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.0.sync_dir(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.exists(path)
    }
    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.0.free_bytes(path)
    }
    fn total_bytes(&self, path: &Path) -> io::Result<u64> {
        self.0.total_bytes(path)
    }
}

impl File for StalledFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_at(buffer, position)
    }
    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_cached_at(buffer, position)
    }
    fn write_at(&self, slices: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        self.1.pass();
        self.0.write_at(slices, position)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.1.pass();
        self.0.sync_data()
    }
    fn drop_cached(&self, position: u64, bytes: u64) -> io::Result<()> {
        self.0.drop_cached(position, bytes)
    }
    fn allocate(&self, position: u64, bytes: u64) -> io::Result<()> {
        self.0.allocate(position, bytes)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// The partitions of a broker whose disk can stall, and whose syncs the test runs.
struct Node {
    valve: Arc<Valve>,
    shared: Shared,
}

impl Node {
    fn new(runtime_threads: usize) -> Self {
        let valve = Arc::<Valve>::default();
        let disk = StalledDisk(SimDisk::new(1), Arc::clone(&valve));
        let env = Env { disk: Arc::new(disk), ..Env::real() };
        let shared = Shared {
            inline_appends: Arc::new(InlineAppends::new(runtime_threads)),
            ..Shared::new(env, 1, 30_000, Syncer::idle())
        };
        Self { valve, shared }
    }

    fn partition(&self, index: i32) -> Arc<Partition> {
        let now = self.shared.env.clock.now();
        let (log, _) =
            Log::create(self.shared.env.disk.clone(), dir(index), settings().log.clone(), Uuid([1; 16]), now)
                .expect("an empty disk");
        let identity = Identity { topic: "t".into(), topic_id: Uuid([1; 16]), index, traffic: Arc::default() };
        let partition = Partition::new(identity, log, 0, settings(), self.shared.clone());
        let alone =
            metadata::Partition { replicas: vec![1], isr: vec![1], leader: 1, ..metadata::Partition::default() };
        partition.take_role(&alone, &|_| None);
        partition
    }
}

fn dir(index: i32) -> PathBuf {
    format!("/data/t-{index}").into()
}

fn settings() -> Arc<Settings> {
    let config = BrokerConfig::default();
    let topic = TopicConfig::resolve(&config, &ConfigMap::new()).expect("the defaults are in order");
    Arc::new(Settings::new(&topic, &config))
}

fn produce(partition: &Arc<Partition>, acks: Acks, size_bytes: usize) -> Arc<ProduceCompletion> {
    let mut builder = BatchBuilder::new();
    builder.push(0, None, Some(&vec![1; size_bytes]), &[]);
    let (completion, mut commits) = (Arc::new(ProduceCompletion::new(1)), PendingCommits::default());
    partition.enqueue(builder.build(), acks, &completion, 0, &mut commits);
    commits.commit();
    completion
}

fn outcome(completion: &ProduceCompletion) -> Option<Result<i64, ErrorCode>> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match completion.poll(&mut context) {
        std::task::Poll::Pending => None,
        std::task::Poll::Ready(mut outcomes) => Some(match outcomes.remove(0) {
            ProduceOutcome::Appended { base_offset, .. } => Ok(base_offset),
            ProduceOutcome::Refused(refusal) => Err(refusal.code),
        }),
    }
}

#[test]
fn a_disk_that_stands_still_leaves_a_thread_to_others() {
    const THREADS: usize = 2;
    let node = Node::new(THREADS);
    let partitions: Vec<_> = (0..4).map(|index| node.partition(index)).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    let runtime = runtime.expect("a runtime");
    node.valve.close();
    let sent: Vec<_> = partitions
        .iter()
        .map(|partition| {
            let partition = Arc::clone(partition);
            runtime.spawn(async move {
                let completion = produce(&partition, Acks::Leader, 10);
                poll_fn(|cx| completion.poll(cx)).await
            })
        })
        .collect();
    node.valve.wait_for(1);
    let (served, others) = std::sync::mpsc::channel();
    for _ in 0..10 {
        let served = served.clone();
        runtime.spawn(async move { served.send(()) });
    }
    // Not by the runtime's clock: that stops when all its threads block.
    let served = (0..10).try_for_each(|_| others.recv_timeout(PATIENCE));
    node.valve.open();
    for sent in sent {
        let outcomes = runtime.block_on(sent).expect("the task ends");
        assert!(matches!(outcomes[..], [ProduceOutcome::Appended { base_offset: 0, .. }]), "{outcomes:?}");
    }
    assert!(served.is_ok(), "nobody else was served while the disk stood still");
}

#[test]
fn what_was_refused_while_its_write_was_under_way_is_not_read_before_it_is_synced() {
    let node = Node::new(2);
    let partition = node.partition(0);
    node.valve.close();
    std::thread::scope(|scope| {
        let completion = produce(&partition, Acks::All, 10);
        scope.spawn(|| partition.append_queued());
        node.valve.wait_for(1);
        partition.refuse_for_stall();
        assert_eq!(outcome(&completion), Some(Err(ErrorCode::KAFKA_STORAGE_ERROR)));
        node.valve.open();
    });
    assert_eq!((partition.view().log_end_offset(), partition.high_watermark()), (1, 0));
    node.shared.syncer.run_pending();
    assert_eq!(partition.high_watermark(), 1);
}

#[test]
fn a_batch_whose_request_has_timed_out_before_its_append_is_not_appended() {
    let node = Node::new(2);
    let partition = node.partition(0);
    let log = partition.log.lock();
    let expired = produce(&partition, Acks::All, 10);
    let waiting = produce(&partition, Acks::All, 10);
    expired.fill_open(ErrorCode::REQUEST_TIMED_OUT);
    drop(log);
    node.shared.syncer.run_pending();
    assert_eq!(outcome(&expired), Some(Err(ErrorCode::REQUEST_TIMED_OUT)));
    assert_eq!(outcome(&waiting), Some(Ok(0)));
    assert_eq!(partition.view().log_end_offset(), 1);
}

#[test]
fn what_waits_for_the_disk_is_bounded() {
    const SIZE_BYTES: usize = 8_000_000;
    let node = Node::new(2);
    let partition = node.partition(0);
    let log = partition.log.lock();
    let waiting: Vec<_> = (0..4).map(|_| produce(&partition, Acks::All, SIZE_BYTES)).collect();
    let refused = produce(&partition, Acks::All, SIZE_BYTES);
    assert_eq!(outcome(&refused), Some(Err(ErrorCode::KAFKA_STORAGE_ERROR)));
    assert!(waiting.iter().all(|completion| outcome(completion).is_none()));
    waiting[0].fill_open(ErrorCode::REQUEST_TIMED_OUT);
    drop(log);
    node.shared.syncer.run_pending();
    // They are larger than the topic takes.
    assert!(waiting[1..].iter().all(|completion| outcome(completion) == Some(Err(ErrorCode::MESSAGE_TOO_LARGE))));
    // There is space in the queue again for any batch.
    assert_eq!(outcome(&produce(&partition, Acks::Leader, SIZE_BYTES)), Some(Err(ErrorCode::MESSAGE_TOO_LARGE)));
}

#[test]
fn what_was_not_looked_at_since_the_start_is_told_from_what_was() {
    let node = Node::new(2);
    let partition = node.partition(0);
    produce(&partition, Acks::Leader, 10);
    produce(&partition, Acks::Leader, 10);
    assert!(matches!(partition.view().span_at_once(0, 2, u32::MAX), Ok(Some(_))), "it was written just now");
    partition.with_log(Log::close).expect("the disk works");
    let options =
        OpenOptions { recovery_point: 2, log_start_offset: 0, clean_shutdown: true, now: node.shared.env.clock.now() };
    let (log, _) = Log::open(node.shared.env.disk.clone(), dir(0), settings().log.clone(), options).expect("a log");
    let view = log.view();
    assert!(matches!(view.span_at_once(0, 2, u32::MAX), Err(ReadError::Cold)));
    assert!(matches!(view.span(0, 2, u32::MAX), Ok(Some(_))));
    assert!(matches!(view.span_at_once(0, 2, u32::MAX), Ok(Some(_))), "it has been checked");
}

#[test]
fn a_runtime_thread_does_not_wait_for_a_stalled_disk_to_start_a_verification() {
    let node = Node::new(2);
    let partition = node.partition(0);
    node.valve.close();
    std::thread::scope(|scope| {
        scope.spawn(|| produce(&partition, Acks::Leader, 10));
        node.valve.wait_for(1);
        let started = partition.try_start_verification(7, 0, 0, 2);
        node.valve.open();
        assert!(matches!(started, Ok(None)), "{started:?}");
    });
    assert!(matches!(partition.try_start_verification(7, 0, 0, 2), Ok(Some(Verification::Needed(_)))));
    assert_eq!(partition.view().log_end_offset(), 1);
}

#[test]
fn what_is_queued_while_a_verification_has_the_log_is_appended() {
    let node = Node::new(2);
    let partition = node.partition(0);
    let (completion, mut commits) = (Arc::new(ProduceCompletion::new(1)), PendingCommits::default());
    let mut builder = BatchBuilder::new();
    builder.push(0, None, Some(b"value"), &[]);
    partition.enqueue(builder.build(), Acks::Leader, &completion, 0, &mut commits);
    partition.try_start_verification(7, 0, 0, 2).expect("it leads");
    assert_eq!(outcome(&completion), Some(Ok(0)));
}
