//! Whether this process may open as many files as a case needs: each connection and each timer is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::CaseError;
use crate::scenario::Load;

/// What the process has open beside the load: its own files, the connections that it looks after the cluster with.
const OTHERS: u64 = 200;
/// Beside the connections to each broker: the first one, the group's coordinator's, a timer.
const OF_EACH_CLIENT: u64 = 3;

/// How many files a case has open at the same time, at most.
fn needed(load: &Load, brokers: usize) -> u64 {
    let consumers = u64::from(load.consumers) * u64::from(load.consumer_groups.max(1));
    let clients = u64::from(load.producers) + consumers;
    u64::from(load.idle_connections) + clients * (brokers as u64 + OF_EACH_CLIENT) + OTHERS
}

/// Raises the limit for a case as far as the system lets this process.
pub(super) fn allow(load: &Load, brokers: usize) -> Result<(), CaseError> {
    let needed = needed(load, brokers);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let is_allowed = limit.maximum.is_none_or(|maximum| maximum >= needed);
    if is_allowed && setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).is_ok() {
        return Ok(());
    }
    let allowed = limit.maximum.or(limit.current).unwrap_or(u64::MAX);
    Err(CaseError::OpenFiles { needed, allowed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_needs_too_many_files_says_how_many() {
        let load = |idle_connections, producers| Load { idle_connections, producers, ..Load::default() };
        assert_eq!(needed(&load(10_000, 1), 3), 10_000 + 6 + OTHERS);
        let with_consumers = Load { consumers: 2, consumer_groups: 5, ..load(0, 1) };
        assert_eq!(needed(&with_consumers, 1), 11 * 4 + OTHERS);
        assert!(allow(&load(0, 1), 1).is_ok());
        // More than any system allows a process.
        let error = allow(&load(u32::MAX, 1), 1).unwrap_err().to_string();
        let words = "it needs 4294967499 open files, and this process may have ";
        assert!(getrlimit(Resource::Nofile).maximum.is_none() || error.starts_with(words), "{error}");
    }
}
