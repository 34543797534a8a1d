//! The process behind a page, under the names that Prometheus' client libraries give it, and with them Kafka's JMX
//! exporter.

use super::Exposition;

/// What is missing where a page tells nothing of its process.
pub const PROCESS_CPU_SECONDS: &str = "process_cpu_seconds_total";

const RESIDENT: &str = "process_resident_memory_bytes";
/// By area, heap and others, where the system does not tell what is resident. Older libraries have the second name.
const JVM_USED: [&str; 2] = ["jvm_memory_used_bytes", "jvm_memory_bytes_used"];

impl Exposition {
    pub fn process_cpu_seconds(&self) -> Option<f64> {
        self.first(PROCESS_CPU_SECONDS).filter(|seconds| (0.0..1e12).contains(seconds))
    }

    pub fn process_memory_bytes(&self) -> Option<f64> {
        self.first(RESIDENT).or_else(|| JVM_USED.iter().find_map(|name| self.sum(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_is_resident_or_else_what_the_jvm_uses() {
        let memory = |text: &str| Exposition::new(text.to_owned()).process_memory_bytes();
        let areas = "{area=\"heap\"} 5\nNAME{area=\"nonheap\"} 2\n";
        for name in JVM_USED {
            let jvm = format!("{name}{}", areas.replace("NAME", name));
            assert_eq!(memory(&jvm), Some(7.0), "{name}");
            assert_eq!(memory(&format!("{jvm}{RESIDENT} 9\n")), Some(9.0), "{name}");
        }
        assert_eq!(memory("up 1\n"), None);
    }

    #[test]
    fn processor_time_that_cannot_be_is_none() {
        let cpu = |value: &str| Exposition::new(format!("{PROCESS_CPU_SECONDS} {value}\n")).process_cpu_seconds();
        assert_eq!((cpu("12.5"), cpu("-1"), cpu("NaN"), cpu("1e300")), (Some(12.5), None, None, None));
    }
}
