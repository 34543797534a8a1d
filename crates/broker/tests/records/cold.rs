//! Reads of what is not in the page cache, from a disk that does not answer for a while.

use std::sync::Arc;
use std::time::{Duration, Instant};

use platform::Env;
use storage::{Disk, OpenMode, SimDisk};
use wire::api::api_versions::ApiVersionsRequest;

use super::*;
use crate::common::TestBroker;

/// More than the log remembers the places of.
const BATCHES: i64 = 12;

/// Nothing takes so long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Answers at the latest when the test ends: the broker does not stop before.
struct StandingDisk(SimDisk);

impl StandingDisk {
    fn wait_for(&self, threads: usize) {
        let give_up = Instant::now() + PATIENCE;
        while self.0.waiting() < threads {
            assert!(Instant::now() < give_up, "{} of {threads} threads wait for the disk", self.0.waiting());
            std::thread::yield_now();
        }
    }

    fn answer(&self) {
        self.0.set_hangs(false);
    }
}

impl Drop for StandingDisk {
    fn drop(&mut self) {
        self.answer();
    }
}

/// A broker whose records, each of so many bytes, are only on a disk that does not answer.
fn start(size_bytes: usize) -> (TestBroker, StandingDisk) {
    let disk = SimDisk::new(1);
    let broker = TestBroker::start_in(Env { disk: Arc::new(disk.clone()), ..Env::real() }, &[]);
    let mut client = broker.connect();
    create(&mut client, 1, &[]);
    let values = batch(&[&"x".repeat(size_bytes)]);
    for offset in 0..BATCHES {
        assert_eq!(append(&mut client, &values), (ErrorCode::NONE, offset));
    }
    // They may be acknowledged from the journal; what only the page cache has of a segment stays there.
    for path in disk.paths() {
        // One that is renamed meanwhile is none of a log.
        if let Ok(file) = disk.open(&path, OpenMode::ReadWrite) {
            file.sync_data().expect("nothing is wrong with the disk");
        }
    }
    disk.evict();
    disk.set_hangs(true);
    (broker, StandingDisk(disk))
}

fn others_are_served(broker: &TestBroker) {
    for _ in 0..10 {
        let answer = broker.connect().call(0, &ApiVersionsRequest::default());
        assert_eq!(answer.error_code, ErrorCode::NONE);
    }
}

#[test]
fn readers_that_wait_for_the_disk_keep_nobody_else_waiting() {
    // Copied into the answer, and sent from the file; from where the log knows the place, and from where it looks.
    for (size_bytes, offset) in [(200, 0), (200, BATCHES - 1), (100_000, 0), (100_000, BATCHES - 2)] {
        let (broker, disk) = start(size_bytes);
        let mut readers: Vec<_> = (0..4).map(|_| broker.connect()).collect();
        for reader in &mut readers {
            reader.send(FETCH_VERSION, &fetch_request(offset));
        }
        disk.wait_for(2);
        others_are_served(&broker);
        disk.answer();
        for reader in &mut readers {
            // One that has waited for long has been told nothing.
            reader.receive::<FetchRequest>(FETCH_VERSION);
            let found = read(reader, offset);
            let offsets: Vec<i64> = found.iter().map(|(offset, _)| *offset).collect();
            assert_eq!(offsets, (offset..BATCHES).collect::<Vec<_>>());
            assert!(found.iter().all(|(_, value)| value.len() == size_bytes));
        }
    }
}
