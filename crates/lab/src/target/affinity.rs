//! Which CPUs a process may use (sched_setaffinity): whole ones, and for each of its threads.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Threads that are started meanwhile have what the thread has that starts them; after some looks there are no others.
const LOOKS_MAX: u32 = 100;

/// The CPUs that this process may use, by their numbers.
pub(super) fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// Lets a process, with all its threads, use these CPUs and no others. One that has ended is none to limit.
pub(super) fn pin(process: u32, cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    let mut pinned = BTreeSet::new();
    for _ in 0..LOOKS_MAX {
        let tasks = match fs::read_dir(format!("/proc/{process}/task")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            tasks => tasks?.flatten(),
        };
        let threads = tasks.filter_map(|task| task.file_name().to_str()?.parse::<i32>().ok());
        let new: Vec<_> = threads.filter(|thread| pinned.insert(*thread)).collect();
        if new.is_empty() {
            return Ok(());
        }
        for thread in new {
            match sched_setaffinity(Pid::from_raw(thread), &set) {
                // It has ended.
                Err(Errno::SRCH) | Ok(()) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Err(io::Error::other("it starts threads all the time"))
}

/// `0-1,4`, as Linux lists them.
pub(super) fn listed(cpus: &[usize]) -> String {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable();
    let runs = cpus.chunk_by(|before, after| before + 1 == *after);
    let run = |run: &[usize]| match run {
        [first, .., last] => format!("{first}-{last}"),
        run => run.iter().map(ToString::to_string).collect(),
    };
    runs.map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_gets_the_cpus_that_it_is_given() {
        let allowed = allowed();
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let may_use = || {
            let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
            status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t")).unwrap().to_owned()
        };
        pin(child.id(), &allowed[..1]).unwrap();
        assert_eq!(may_use(), allowed[0].to_string());
        pin(child.id(), &allowed).unwrap();
        assert_eq!(may_use(), listed(&allowed));
        child.kill().unwrap();
        child.wait().unwrap();
        pin(child.id(), &allowed).unwrap();
    }

    #[test]
    fn cpus_are_listed_as_linux_does() {
        assert_eq!(listed(&[4, 0, 1]), "0-1,4");
        assert_eq!(listed(&[3]), "3");
    }
}
