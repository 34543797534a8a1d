//! The resources of this process, under the names of Prometheus' own client libraries.
//!
//! The system has it in files; where there are none, as on a simulated disk, there are no metrics.

use std::fmt;
use std::path::Path;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use storage::disk::{Disk, OpenMode, read_up_to};

use super::page::Page;

const STAT: &str = "/proc/self/stat";
const DESCRIPTORS: &str = "/proc/self/fd";
const STAT_BYTES_MAX: usize = 4096;

pub(super) fn write(page: &mut Page<'_>, disk: &dyn Disk) -> fmt::Result {
    if let Some(stat) = Stat::read(disk) {
        let cpu_seconds = stat.cpu_ticks as f64 / clock_ticks_per_second() as f64;
        page.counter("process_cpu_seconds", "Time that processors worked for this process", cpu_seconds)?;
        let resident = stat.resident_pages * page_size() as u64;
        page.gauge("process_resident_memory_bytes", "Memory of this process", resident)?;
        page.gauge("process_threads", "Threads of this process", stat.threads)?;
    }
    if let Ok(descriptors) = disk.read_dir(Path::new(DESCRIPTORS)) {
        page.gauge("process_open_fds", "Open file descriptors", descriptors.len())?;
    }
    match getrlimit(Resource::Nofile).current {
        Some(limit) => page.gauge("process_max_fds", "How many file descriptors may be open", limit),
        None => Ok(()),
    }
}

#[derive(Debug, PartialEq)]
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    resident_pages: u64,
}

impl Stat {
    fn read(disk: &dyn Disk) -> Option<Self> {
        // Such a file has no length before it is read.
        let file = disk.open(Path::new(STAT), OpenMode::Read).ok()?;
        let mut bytes = [0; STAT_BYTES_MAX];
        let length = read_up_to(&*file, &mut bytes, 0).ok()?;
        Self::parse(&String::from_utf8_lossy(&bytes[..length]))
    }

    fn parse(text: &str) -> Option<Self> {
        // The name of the command stands in parentheses, and may have some itself.
        let (_, behind_name) = text.rsplit_once(')')?;
        let fields: Vec<_> = behind_name.split_ascii_whitespace().collect();
        // proc(5) counts from 1, and what stands behind the name is field 3.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self { cpu_ticks: field(14)? + field(15)?, threads: field(20)?, resident_pages: field(24)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_may_be_called_anything() {
        let stat = "4217 (a) b (c) S 1 4217 4217 0 -1 4194560 900 0 2 0 150 25 7 9 20 0 12 0 1234 98765432 777 184 1";
        assert_eq!(Stat::parse(stat), Some(Stat { cpu_ticks: 175, threads: 12, resident_pages: 777 }));
        assert_eq!(Stat::parse("1 (init) S 1 2"), None);
    }
}
