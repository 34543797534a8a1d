//! How large the machine of a broker is to be, for brokers that the lab starts: a part of this machine.

use std::fmt;

use crate::byte_size::ByteSize;
use crate::proc_probe::HostFacts;

/// 0 is all that this machine has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BrokerSize {
    /// May be a fraction.
    pub cpus: f64,
    /// The page cache included.
    pub memory: ByteSize,
}

/// What is limited: `1.5 CPUs, 2GiB`.
impl fmt::Display for BrokerSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.cpus > 0.0, self.memory.0 > 0) {
            (true, true) => write!(f, "{}, {}", counted_cpus(self.cpus), self.memory),
            (true, false) => f.write_str(&counted_cpus(self.cpus)),
            (false, true) => self.memory.fmt(f),
            (false, false) => f.write_str("all of the machine"),
        }
    }
}

impl BrokerSize {
    pub fn is_limited(self) -> bool {
        self != Self::default()
    }

    /// Why a broker on this machine cannot be so large.
    pub fn exceeds(self, host: &HostFacts) -> Option<String> {
        if self.cpus > f64::from(host.cores) {
            let asked = counted_cpus(self.cpus);
            return Some(format!("its brokers have {asked} each, and this machine has {}", host.cores));
        }
        let has = ByteSize(host.memory_bytes);
        let gib = |size: ByteSize| size.0 as f64 / f64::from(1 << 30);
        (self.memory > has).then(|| {
            format!("its brokers have {} of memory each, and this machine has {:.1} GiB", self.memory, gib(has))
        })
    }
}

/// `1 CPU`, `1.5 CPUs`.
pub(crate) fn counted_cpus(cpus: f64) -> String {
    format!("{cpus} CPU{}", if cpus == 1.0 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_is_no_larger_than_the_machine() {
        let host = HostFacts { cores: 2, memory_bytes: (7 << 30) + (1 << 29), ..HostFacts::default() };
        let exceeds = |cpus, gib: u64| BrokerSize { cpus, memory: ByteSize(gib << 30) }.exceeds(&host);
        assert_eq!(exceeds(0.0, 0), None);
        assert_eq!(exceeds(2.0, 7), None);
        assert_eq!(exceeds(2.5, 1).unwrap(), "its brokers have 2.5 CPUs each, and this machine has 2");
        assert_eq!(exceeds(1.0, 8).unwrap(), "its brokers have 8GiB of memory each, and this machine has 7.5 GiB");
    }

    #[test]
    fn a_size_is_told_by_what_is_limited() {
        let told = |cpus, gib: u64| BrokerSize { cpus, memory: ByteSize(gib << 30) }.to_string();
        let all = [told(1.0, 2), told(0.5, 0), told(0.0, 1), told(0.0, 0)];
        assert_eq!(all, ["1 CPU, 2GiB", "0.5 CPUs", "1GiB", "all of the machine"]);
    }
}
