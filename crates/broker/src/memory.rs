//! How much memory the process may have, and the pools of it that peers may take.

mod budget;
mod buffers;
mod charged;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use configuration::BrokerConfig;
use storage::disk::{Disk, OpenMode, read_up_to};

pub use self::budget::{Budget, Permit, SMALL_BYTES_MAX, Share, Waiting};
pub use self::buffers::{Buffer, Buffers};
pub use self::charged::Charged;

/// The most bytes of descriptions in one answer: further items get an error each. A single item that does not fit is
/// described in any case.
pub const DESCRIBED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How much is read from a socket at a time: a buffer is so much larger than what it is for.
pub const READ_BYTES: usize = 64 * 1024;
/// A connection that has nothing more in memory to send leaves it to connections that have more to release some.
pub const SMALL_ANSWER_BYTES_MAX: usize = 16 * 1024;
/// Memory that has to be free for answers before a request is started.
pub const ANSWER_BYTES: usize = 64 * 1024;
/// An answer up to this size is about as large as its request, and is made in any case.
const MODEST_ANSWER_BYTES_MAX: usize = 4 * 1024;

/// Requests may take this part of the memory, where `queued.max.request.bytes` says nothing else.
const REQUESTS_PART: u64 = 8;
/// Nor is the largest request larger than this part of the memory, then.
const REQUEST_PART: u64 = 4;
/// Answers may take this part of what requests may, and as much again while they are made.
const ANSWERS_PART: u64 = 2;
/// What large answers of one address may take, at least.
const LARGE_ANSWERS_BYTES: usize = 8 << 20;
/// What is assumed where the system does not tell.
const MEMORY_BYTES_DEFAULT: u64 = 1 << 30;

const MEMINFO: &str = "/proc/meminfo";
const CGROUPS: &str = "/proc/self/cgroup";
const FILE_BYTES_MAX: usize = 16 * 1024;

/// An answer that is being made, as far as its size is known. It waits when it becomes large, and not before: small
/// answers do not wait for answers that are not read.
pub struct AnswerSize<'a> {
    memory: &'a Memory,
    kind: LargeAnswer,
    address: IpAddr,
    is_inter_broker: bool,
    bytes: usize,
    turn: Option<Permit>,
}

/// The pools of a broker. All its listeners share them.
pub struct Memory {
    /// What has arrived of requests, until its records are appended or it is answered.
    pub requests: Arc<Budget>,
    /// For requests that are still to come.
    pub buffers: Arc<Buffers>,
    /// The largest request that this machine takes, whatever `socket.request.max.bytes` says.
    pub request_bytes_max: usize,
    /// What large requests take beside their bytes, until they are answered.
    pub decoding: Arc<Budget>,
    /// Answers, until they have left.
    pub answers: Arc<Budget>,
    /// Answers that may be large, while they are made. How large they become is known afterwards.
    making: [Arc<Budget>; 3],
}

/// Answers that may be large. Those of one kind wait for each other.
#[derive(Clone, Copy, Debug)]
pub enum LargeAnswer {
    /// Made from memory: without waiting for another task or the disk.
    Described,
    /// Committed offsets: commits that are on their way are waited for.
    Offsets,
    /// Producers: a log that is being written to is waited for.
    Producers,
}

impl Memory {
    pub fn new(config: &BrokerConfig, disk: &dyn Disk) -> Self {
        let (size, request_max) = match u64::try_from(config.queued_max_request_bytes) {
            Ok(said) => (said, u64::MAX),
            Err(_) => {
                let available = available_bytes(disk);
                (available / REQUESTS_PART, available / REQUEST_PART)
            }
        };
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX / 4);
        let request_bytes_max = usize::try_from(config.socket_request_max_bytes).unwrap_or(0).min(bytes(request_max));
        // A buffer is a little larger than what it is for.
        let largest = request_bytes_max + READ_BYTES;
        let answers = bytes(size / ANSWERS_PART);
        Self {
            requests: Budget::new(bytes(size), largest),
            buffers: Buffers::new(bytes(size)),
            request_bytes_max,
            decoding: Budget::new(answers, LARGE_ANSWERS_BYTES),
            answers: Budget::new(answers, LARGE_ANSWERS_BYTES),
            making: std::array::from_fn(|_| Budget::new(answers, DESCRIBED_BYTES_MAX)),
        }
    }

    /// Waits until an answer may be made that may be large, for as long as the permit is held.
    pub async fn large_answer(&self, kind: LargeAnswer, address: IpAddr, is_inter_broker: bool) -> Permit {
        let share = self.making[kind as usize].share(address, is_inter_broker);
        let permit = match share.has_room(DESCRIBED_BYTES_MAX, false) {
            true => {
                let mut permit = share.empty_permit();
                permit.resize(DESCRIBED_BYTES_MAX);
                permit
            }
            false => share.wait_for(DESCRIBED_BYTES_MAX, false).await,
        };
        // Answers that were made meanwhile may be unread.
        let answers = self.answers.share(address, is_inter_broker);
        if !answers.has_room(ANSWER_BYTES, true) {
            drop(answers.wait_for(ANSWER_BYTES, true).await);
        }
        permit
    }

    /// The size of an answer that may become large, before anything of it is made.
    pub fn answer_size(&self, kind: LargeAnswer, address: IpAddr, is_inter_broker: bool) -> AnswerSize<'_> {
        AnswerSize { memory: self, kind, address, is_inter_broker, bytes: 0, turn: None }
    }

    /// A permit of 0 bytes for data that is copied into an answer.
    pub fn copies(&self, address: IpAddr, is_inter_broker: bool) -> Permit {
        let mut permit = self.answers.share(address, is_inter_broker).empty_permit();
        permit.make_large();
        permit
    }

    /// Charges data that was made of a request and outlives it, such as a recompressed batch.
    pub fn charge(&self, bytes: Bytes, address: IpAddr, is_inter_broker: bool) -> Bytes {
        let mut permit = self.requests.share(address, is_inter_broker).empty_permit();
        permit.resize(bytes.len());
        Charged::share(bytes, permit)
    }
}

impl AnswerSize<'_> {
    /// Adds about so many bytes. Waits until they may be made.
    pub async fn add(&mut self, bytes: usize) {
        let before = self.bytes;
        self.bytes += bytes;
        if self.turn.is_some() || self.bytes <= MODEST_ANSWER_BYTES_MAX {
            return;
        }
        if self.bytes > SMALL_ANSWER_BYTES_MAX {
            self.turn = Some(self.memory.large_answer(self.kind, self.address, self.is_inter_broker).await);
        } else if before <= MODEST_ANSWER_BYTES_MAX {
            let answers = self.memory.answers.share(self.address, self.is_inter_broker);
            if !answers.has_room(ANSWER_BYTES, false) {
                drop(answers.wait_for(ANSWER_BYTES, false).await);
            }
        }
    }
}

/// What this process may have: the memory of the machine, or the limit of its control group where that is less.
fn available_bytes(disk: &dyn Disk) -> u64 {
    let read = |path: &Path| read_text(disk, path);
    let limits = read(Path::new(CGROUPS)).map_or_else(Vec::new, |groups| limit_files(&groups));
    let limits = limits.iter().filter_map(|path| read(path)?.trim().parse::<u64>().ok());
    let machine = read(Path::new(MEMINFO)).and_then(|text| total_bytes(&text));
    limits.chain(machine).min().unwrap_or(MEMORY_BYTES_DEFAULT)
}

fn read_text(disk: &dyn Disk, path: &Path) -> Option<String> {
    // Such a file has no length before it is read.
    let file = disk.open(path, OpenMode::Read).ok()?;
    let mut bytes = vec![0; FILE_BYTES_MAX];
    let length = read_up_to(&*file, &mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

fn total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Where the limits of the process's control groups stand: those of its own group and of all around it. In a container
/// its own group is the root of what it sees.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            controllers if controllers.split(',').any(|controller| controller == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let group = Path::new(group.trim_start_matches('/'));
        files.extend(group.ancestors().map(|group| Path::new(root).join(group).join(name)));
    }
    files
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// The result of a future that is polled once.
    fn now<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
        match Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn the_machine_tells_its_memory() {
        assert_eq!(total_bytes("MemTotal:       16384 kB\nMemFree:  5 kB\n"), Some(16 << 20));
        assert_eq!(total_bytes("MemFree: 5 kB\n"), None);
    }

    #[test]
    fn limits_stand_in_the_group_and_in_those_around_it() {
        let of = |text: &str| limit_files(text).iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        let v2 = ["/sys/fs/cgroup/system.slice/a.service/memory.max", "/sys/fs/cgroup/system.slice/memory.max"];
        assert_eq!(of("0::/system.slice/a.service\n")[..2], v2);
        assert_eq!(of("0::/\n"), ["/sys/fs/cgroup/memory.max"]);
        let v1 = ["/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
        assert_eq!(of("5:cpu,cpuacct:/docker\n4:memory:/docker\n"), v1);
    }

    #[test]
    fn pools_are_parts_of_the_memory_and_hold_the_largest_request() {
        let disk = storage::SimDisk::new(1);
        let memory = Memory::new(&BrokerConfig::default(), &disk);
        assert_eq!(memory.requests.size_bytes(), 1 << 27);
        assert_eq!(memory.answers.size_bytes(), 1 << 26);
    }

    #[test]
    fn a_small_machine_does_not_take_the_largest_request_that_settings_allow() {
        let disk = storage::SimDisk::new(1);
        disk.create_dir_all(Path::new("/proc")).unwrap();
        disk.put(Path::new(MEMINFO), b"MemTotal:       262144 kB\n");
        let memory = Memory::new(&BrokerConfig::default(), &disk);
        assert_eq!(memory.request_bytes_max, 64 << 20);
        let pools = memory.requests.size_bytes() + memory.answers.size_bytes();
        assert!(pools < 112 << 20, "{pools} of 256 MiB");
        let said = BrokerConfig::new([("queued.max.request.bytes".to_owned(), "1".to_owned())].into()).unwrap();
        assert_eq!(Memory::new(&said, &disk).request_bytes_max, 100 << 20, "who sets it knows what they need");
    }

    #[test]
    fn large_answers_are_made_one_after_the_other_and_addresses_take_turns() {
        let config = BrokerConfig::new([("queued.max.request.bytes".to_owned(), "1".to_owned())].into()).unwrap();
        let memory = Memory::new(&config, &storage::SimDisk::new(1));
        let [a, b] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
        let make = |address: IpAddr| Box::pin(memory.large_answer(LargeAnswer::Described, address, false));
        let first = now(make(a)).expect("there is room");
        let (mut second, mut third) = (make(a), make(a));
        assert!(now(&mut second).is_none() && now(&mut third).is_none(), "an address makes one");
        let of_another = now(make(b)).expect("another address does not wait for it");
        assert!(now(Box::pin(memory.large_answer(LargeAnswer::Offsets, a, false))).is_some(), "nor does another kind");
        drop(first);
        let second = now(&mut second).expect("it is its turn");
        assert!(now(&mut third).is_none());
        drop((second, of_another));
        assert!(now(&mut third).is_some());
    }

    #[test]
    fn an_answer_waits_when_it_becomes_large_and_not_before() {
        let config = BrokerConfig::new([("queued.max.request.bytes".to_owned(), "1".to_owned())].into()).unwrap();
        let memory = Memory::new(&config, &storage::SimDisk::new(1));
        let address = IpAddr::from([10, 0, 0, 1]);
        let mut unread = memory.copies(address, false);
        unread.resize(LARGE_ANSWERS_BYTES);
        let turn = now(Box::pin(memory.large_answer(LargeAnswer::Offsets, address, false)));
        assert!(turn.is_none(), "others left all that large answers may take unread");
        let mut size = memory.answer_size(LargeAnswer::Described, address, false);
        for _ in 0..16 {
            assert!(now(Box::pin(size.add(1024))).is_some(), "what is small is made");
        }
        let mut more = Box::pin(size.add(1024));
        assert!(now(&mut more).is_none());
        drop(unread);
        assert!(now(&mut more).is_some());
        drop(more);
        let mut other = memory.answer_size(LargeAnswer::Described, address, false);
        assert!(now(Box::pin(other.add(1 << 20))).is_none(), "it has its turn as long as it is made");
        drop(size);
        assert!(now(Box::pin(other.add(1 << 20))).is_some());
    }

    #[test]
    fn what_was_made_of_a_request_is_charged_until_its_last_slice_is_gone() {
        let memory = Memory::new(&BrokerConfig::default(), &storage::SimDisk::new(1));
        let batch = memory.charge(Bytes::from(vec![0; 1000]), [127, 0, 0, 1].into(), false);
        let queued = batch.slice(10..20);
        drop(batch);
        assert_eq!(memory.requests.used_bytes(), 1000);
        drop(queued);
        assert_eq!(memory.requests.used_bytes(), 0);
    }
}
