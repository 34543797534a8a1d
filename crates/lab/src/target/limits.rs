//! Makes the machines of brokers smaller while they run: with control groups where there are some for us, otherwise by
//! the CPUs that a broker may use. What was done is said with the results.

use std::io;
use std::sync::Arc;

use super::{affinity, cgroup};
use crate::broker_size::{BrokerSize, counted_cpus};
use crate::byte_size::ByteSize;
use crate::proc_probe::HostFacts;
use crate::result::BrokerLimits;
use crate::scenario::Case;

/// What a run has to know before it starts brokers whose machines it makes smaller.
#[derive(Clone, Debug)]
pub(crate) struct Sizing {
    means: Arc<Means>,
    /// The least that any case gives a broker. What a process settles once at its start has to fit it.
    pub(super) memory_min: Option<ByteSize>,
}

#[derive(Debug)]
enum Means {
    Cgroups(cgroup::Parent),
    /// These CPUs, and why there is nothing better.
    Affinity {
        cpus: Vec<usize>,
        reason: String,
    },
}

/// Brokers that can be limited. Their groups, if they have some, are removed with it: when they have ended.
#[derive(Debug)]
pub(super) struct Limits {
    members: Vec<Member>,
    sizing: Sizing,
}

#[derive(Debug)]
struct Member {
    process: u32,
    group: Option<cgroup::Group>,
}

/// What a size has come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Limited {
    pub(crate) limits: BrokerLimits,
    /// In what brokers are not the machines that were asked for.
    pub(crate) warnings: Vec<String>,
}

impl Sizing {
    /// `None` where no case limits anything.
    pub(crate) fn of(cases: &[Case]) -> Option<Self> {
        let sizes = || cases.iter().map(|case| case.load.broker_size()).filter(|size| size.is_limited());
        sizes().next()?;
        let means = match cgroup::Parent::find() {
            Ok(parent) => Means::Cgroups(parent),
            Err(reason) => Means::Affinity { cpus: affinity::allowed(), reason },
        };
        let memory_min = sizes().map(|size| size.memory).filter(|memory| memory.0 > 0).min();
        Some(Self { means: Arc::new(means), memory_min })
    }

    /// To be called when brokers have just been started: memory counts in the group where it was first used.
    pub(super) fn limits(&self, processes: impl Iterator<Item = u32>) -> io::Result<Limits> {
        let member = |(index, process): (usize, u32)| {
            let group = match &*self.means {
                Means::Cgroups(parent) => Some(parent.group(&format!("{process}-broker-{}", index + 1), process)?),
                Means::Affinity { .. } => None,
            };
            Ok(Member { process, group })
        };
        let members = processes.enumerate().map(member).collect::<io::Result<_>>()?;
        Ok(Limits { members, sizing: self.clone() })
    }
}

impl Limited {
    /// So many brokers of that size on this machine may be more than it is.
    pub(crate) fn for_host(mut self, host: &HostFacts, brokers: usize) -> Self {
        let all = |each: f64| each * brokers as f64;
        let BrokerLimits { cpus, memory_bytes, .. } = self.limits;
        if let Some(cpus) = cpus.filter(|cpus| all(*cpus) > f64::from(host.cores)) {
            let each = counted_cpus(cpus);
            self.warnings.push(format!("{brokers} brokers of {each} and the client share {} CPUs", host.cores));
        }
        if let Some(bytes) = memory_bytes.filter(|bytes| all(*bytes as f64) > host.memory_bytes as f64) {
            let (each, has) = (ByteSize(bytes), host.memory_bytes as f64 / f64::from(1 << 30));
            self.warnings.push(format!("{brokers} brokers of {each} and the client share {has:.1} GiB of memory"));
        }
        self
    }
}

impl Limits {
    /// Gives each broker a machine of this size, in place of the one that it had.
    pub(super) fn apply(&self, size: BrokerSize) -> io::Result<Limited> {
        match &*self.sizing.means {
            Means::Cgroups(_) => {
                self.members
                    .iter()
                    .filter_map(|member| member.group.as_ref())
                    .try_for_each(|group| group.limit(size))?;
                Ok(by_cgroups(size, self.members.len()))
            }
            Means::Affinity { cpus, reason } => {
                let shares = shares(cpus, size.cpus, self.members.len());
                let pinned = self.members.iter().zip(&shares);
                pinned.into_iter().try_for_each(|(member, share)| affinity::pin(member.process, share))?;
                Ok(by_affinity(size, &shares, reason))
            }
        }
    }
}

fn by_cgroups(size: BrokerSize, brokers: usize) -> Limited {
    let each = if brokers > 1 { " each" } else { "" };
    let limits = BrokerLimits {
        cpus: (size.cpus > 0.0).then_some(size.cpus),
        memory_bytes: (size.memory.0 > 0).then_some(size.memory.0),
        means: format!("cgroup v2: {size}{each}"),
    };
    Limited { limits, warnings: Vec::new() }
}

fn by_affinity(size: BrokerSize, shares: &[Vec<usize>], reason: &str) -> Limited {
    let mut parts = Vec::new();
    let mut warnings = Vec::new();
    let whole = shares.first().map_or(0.0, |share| share.len() as f64);
    let cpus = (size.cpus > 0.0).then_some(whole);
    if let Some(whole) = cpus {
        let named = |share: &Vec<usize>| match &share[..] {
            [one] => format!("CPU {one}"),
            several => format!("CPUs {}", affinity::listed(several)),
        };
        parts.push(match shares {
            [first, others @ ..] if others.iter().all(|other| other == first) => format!("affinity: {}", named(first)),
            shares => {
                let of = |(index, share)| format!("broker {} on {}", index + 1, named(share));
                format!("affinity: {}", shares.iter().enumerate().map(of).collect::<Vec<_>>().join(", "))
            }
        });
        if whole != size.cpus {
            let (had, asked) = (counted_cpus(whole), size.cpus);
            warnings.push(match whole < asked {
                true => format!("brokers had {had} and not {asked}: the lab may use no more itself"),
                false => format!("brokers had {had} and not {asked}"),
            });
        }
    }
    if size.memory.0 > 0 {
        parts.push("memory not limited".to_owned());
        warnings.push(format!("the memory of brokers was not limited to {}", size.memory));
    }
    if !warnings.is_empty() {
        warnings.push(format!("brokers have no control groups: {reason}"));
    }
    Limited { limits: BrokerLimits { cpus, memory_bytes: None, means: parts.join("; ") }, warnings }
}

/// Which of these CPUs each broker gets: whole ones, and its own as long as there are enough.
fn shares(cpus: &[usize], asked: f64, brokers: usize) -> Vec<Vec<usize>> {
    let whole = match asked {
        0.0 => cpus.len(),
        asked => (asked.ceil() as usize).min(cpus.len()),
    };
    let share = |broker: usize| (0..whole).map(|at| cpus[(broker * whole + at) % cpus.len()]).collect();
    (0..brokers).map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(cpus: f64, gib: u64) -> BrokerSize {
        BrokerSize { cpus, memory: ByteSize(gib << 30) }
    }

    #[test]
    fn brokers_have_cpus_of_their_own_while_there_are_enough() {
        assert_eq!(shares(&[0, 1, 4, 5], 2.0, 2), [[0, 1], [4, 5]]);
        assert_eq!(shares(&[0, 1, 4], 1.5, 3), [[0, 1], [4, 0], [1, 4]]);
        assert_eq!(shares(&[0, 1], 0.25, 3), [[0], [1], [0]]);
        assert_eq!(shares(&[0, 1], 8.0, 1), [[0, 1]]);
        assert_eq!(shares(&[0, 1], 0.0, 2), [[0, 1], [0, 1]]);
    }

    #[test]
    fn what_was_done_is_said() {
        let limited = by_cgroups(size(2.0, 2), 1);
        assert_eq!(limited.limits.means, "cgroup v2: 2 CPUs, 2GiB");
        assert_eq!((limited.limits.cpus, limited.limits.memory_bytes), (Some(2.0), Some(2 << 30)));
        assert_eq!(by_cgroups(size(0.5, 0), 3).limits.means, "cgroup v2: 0.5 CPUs each");
        assert_eq!(by_cgroups(size(0.0, 1), 3).limits.means, "cgroup v2: 1GiB each");

        let limited = by_affinity(size(1.5, 2), &[vec![0, 1], vec![0, 1]], "no cgroup v2");
        assert_eq!(limited.limits.means, "affinity: CPUs 0-1; memory not limited");
        assert_eq!((limited.limits.cpus, limited.limits.memory_bytes), (Some(2.0), None));
        assert_eq!(
            limited.warnings,
            [
                "brokers had 2 CPUs and not 1.5",
                "the memory of brokers was not limited to 2GiB",
                "brokers have no control groups: no cgroup v2",
            ]
        );
        let host = HostFacts { cores: 2, memory_bytes: 5 << 30, ..HostFacts::default() };
        let limited = by_cgroups(size(1.0, 2), 3);
        assert!(limited.clone().for_host(&host, 2).warnings.is_empty());
        assert_eq!(
            limited.for_host(&host, 3).warnings,
            [
                "3 brokers of 1 CPU and the client share 2 CPUs",
                "3 brokers of 2GiB and the client share 5.0 GiB of memory",
            ]
        );
        let limited = by_affinity(size(1.0, 0), &[vec![0], vec![1]], "no cgroup v2");
        assert_eq!(limited.limits.means, "affinity: broker 1 on CPU 0, broker 2 on CPU 1");
        assert!(limited.warnings.is_empty());
    }
}
