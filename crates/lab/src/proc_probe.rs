//! What Linux says in /proc about processes and the machine: what they used, and what they are.
//!
//! Texts are taken apart by functions that know nothing of files. A machine or a process that keeps something to itself
//! costs that value and nothing else.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::param::{clock_ticks_per_second, page_size};
use serde::{Deserialize, Serialize};

/// /proc counts in sectors of this size, whatever those of the disk are.
const SECTOR_BYTES: u64 = 512;
/// Of a file that is read at once.
const CHUNK_BYTES: usize = 1 << 20;
/// State of a socket that listens, in /proc/net/tcp.
const LISTEN: &str = "0A";
/// Disks that are memory or files; a write to a file counts at the disk of the file.
const NO_DISKS: [&str; 3] = ["loop", "ram", "zram"];
/// Processes that hold a port for another one, whose use of the machine would say nothing.
const FORWARDERS: [&str; 4] = ["docker-proxy", "rootlessport", "kubectl", "ssh"];
/// What firmware calls a virtual machine where the processor does not say that it is one.
const VIRTUAL: [&str; 8] =
    ["QEMU", "KVM", "VMware", "VirtualBox", "Virtual Machine", "Xen", "Google Compute Engine", "Amazon EC2"];

/// A process at one moment. Counters grow from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessSample {
    /// In user and system mode, by all threads.
    pub cpu: Duration,
    pub resident_bytes: u64,
    /// From and to the disk; 0 where that is not for us to see.
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// What the machine did since its start, or since an earlier sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSample {
    /// All cores together, without what other machines took from them.
    pub busy: Duration,
    /// What the hypervisor gave to other machines while there was work here.
    pub stolen: Duration,
    pub io_wait: Duration,
    /// By all interfaces but the loopback.
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub loopback_bytes: u64,
    /// Of the busiest disk. Which disk that is may change, so differences are for [`HostSample::since`].
    pub disk_written_bytes: u64,
    pub disk_busy: Duration,
    /// All disks, by name.
    pub disks: Vec<DiskSample>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskSample {
    pub name: String,
    pub written_bytes: u64,
    pub busy: Duration,
}

/// What the machine is. What cannot be found out is "unknown", or 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    pub os: String,
    pub kernel: String,
    /// The model of the processor.
    pub cpu: String,
    pub cores: u32,
    pub memory_bytes: u64,
    /// Under what, for a virtual machine.
    pub virtualized: Option<String>,
}

impl HostSample {
    /// What happened since an earlier sample; the disk is the busiest in between.
    pub fn since(&self, earlier: &Self) -> Self {
        let disks = self.disks.iter().map(|disk| {
            let before = earlier.disks.iter().find(|before| before.name == disk.name);
            let (written_bytes, busy) =
                before.map_or((0, Duration::ZERO), |before| (before.written_bytes, before.busy));
            DiskSample {
                name: disk.name.clone(),
                written_bytes: disk.written_bytes.saturating_sub(written_bytes),
                busy: disk.busy.saturating_sub(busy),
            }
        });
        let difference = Self {
            busy: self.busy.saturating_sub(earlier.busy),
            stolen: self.stolen.saturating_sub(earlier.stolen),
            io_wait: self.io_wait.saturating_sub(earlier.io_wait),
            received_bytes: self.received_bytes.saturating_sub(earlier.received_bytes),
            sent_bytes: self.sent_bytes.saturating_sub(earlier.sent_bytes),
            loopback_bytes: self.loopback_bytes.saturating_sub(earlier.loopback_bytes),
            ..Self::default()
        };
        difference.with_disks(disks.collect())
    }

    fn with_disks(self, disks: Vec<DiskSample>) -> Self {
        let busiest = disks.iter().max_by_key(|disk| (disk.busy, disk.written_bytes)).cloned().unwrap_or_default();
        Self { disk_written_bytes: busiest.written_bytes, disk_busy: busiest.busy, disks, ..self }
    }
}

pub fn sample_process(pid: u32) -> io::Result<ProcessSample> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (ticks, pages) = process_stat(&stat).ok_or_else(|| unreadable("stat"))?;
    // The processes of other users keep this to themselves.
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    Ok(ProcessSample {
        cpu: of_ticks(ticks),
        resident_bytes: pages * page_size() as u64,
        read_bytes: number_of(&io, "read_bytes").unwrap_or(0),
        written_bytes: number_of(&io, "write_bytes").unwrap_or(0),
    })
}

pub fn sample_host() -> io::Result<HostSample> {
    let processors = processors(&fs::read_to_string("/proc/stat")?).ok_or_else(|| unreadable("stat"))?;
    let network = network(&fs::read_to_string("/proc/net/dev")?);
    // Containers may be without these.
    let disks = disks(&fs::read_to_string("/proc/diskstats").unwrap_or_default(), is_whole_disk);
    let sample = HostSample {
        busy: of_ticks(processors.busy_ticks),
        stolen: of_ticks(processors.stolen_ticks),
        io_wait: of_ticks(processors.io_wait_ticks),
        received_bytes: network.received_bytes,
        sent_bytes: network.sent_bytes,
        loopback_bytes: network.loopback_bytes,
        ..HostSample::default()
    };
    Ok(sample.with_disks(disks))
}

pub fn host_facts() -> HostFacts {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu_info = read("/proc/cpuinfo");
    let firmware =
        format!("{} {}", read("/sys/class/dmi/id/sys_vendor").trim(), read("/sys/class/dmi/id/product_name"));
    HostFacts {
        os: os_name(&read("/etc/os-release")).unwrap_or_else(unknown),
        kernel: Some(read("/proc/sys/kernel/osrelease").trim().to_owned())
            .filter(|kernel| !kernel.is_empty())
            .unwrap_or_else(unknown),
        cpu: value_of(&cpu_info, "model name").map_or_else(unknown, str::to_owned),
        cores: cpu_info.lines().filter(|line| line.starts_with("processor")).count() as u32,
        memory_bytes: number_of(&read("/proc/meminfo"), "MemTotal").unwrap_or(0) * 1024,
        virtualized: virtualized(&cpu_info, firmware.trim()),
    }
}

/// The process of this machine that listens on a TCP port, if we may see it.
pub fn listener_of(port: u16) -> Option<u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let sockets: Vec<_> = tables.iter().flat_map(|table| listening_sockets(table, port)).collect();
    if sockets.is_empty() {
        return None;
    }
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let listener = pids.find(|pid| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        targets.any(|target| sockets.iter().any(|socket| target == Path::new(socket)))
    })?;
    let name = fs::read_to_string(format!("/proc/{listener}/comm")).unwrap_or_default();
    (!FORWARDERS.contains(&name.trim())).then_some(listener)
}

/// Whether a process runs the very file that this one does, even if another has taken its name since.
pub(crate) fn is_this_program(pid: u32) -> bool {
    let file = |process: &str| fs::metadata(format!("/proc/{process}/exe")).map(|file| (file.dev(), file.ino()));
    matches!((file("self"), file(&pid.to_string())), (Ok(ours), Ok(theirs)) if ours == theirs)
}

/// CRC-32C of the file of this program.
pub(crate) fn program_checksum() -> Option<String> {
    let mut file = fs::File::open("/proc/self/exe").ok()?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut checksum = 0;
    loop {
        match file.read(&mut chunk).ok()? {
            0 => return Some(format!("{checksum:08x}")),
            length => checksum = crc32c::crc32c_append(checksum, &chunk[..length]),
        }
    }
}

fn unreadable(file: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("/proc has a {file} that cannot be read"))
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn of_ticks(ticks: u64) -> Duration {
    Duration::from_micros(ticks * 1_000_000 / clock_ticks_per_second())
}

/// CPU in ticks and resident memory in pages, of /proc/PID/stat.
fn process_stat(text: &str) -> Option<(u64, u64)> {
    // The name of the command stands in parentheses, and may have some itself.
    let (_, behind_name) = text.rsplit_once(')')?;
    let fields: Vec<_> = behind_name.split_ascii_whitespace().collect();
    // proc(5) counts from 1, and what stands behind the name is field 3.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some((field(14)? + field(15)?, field(24)?))
}

struct Processors {
    busy_ticks: u64,
    stolen_ticks: u64,
    io_wait_ticks: u64,
}

/// Of /proc/stat, all cores together.
fn processors(text: &str) -> Option<Processors> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
    // What guests used is part of `user` and `nice`.
    let [user, nice, system, _idle, io_wait, irq, soft_irq, stolen, ..] = ticks[..] else { return None };
    Some(Processors { busy_ticks: user + nice + system + irq + soft_irq, stolen_ticks: stolen, io_wait_ticks: io_wait })
}

#[derive(Debug, Default, PartialEq)]
struct Network {
    received_bytes: u64,
    sent_bytes: u64,
    loopback_bytes: u64,
}

/// Of /proc/net/dev.
fn network(text: &str) -> Network {
    let mut network = Network::default();
    for (name, counters) in text.lines().filter_map(|line| line.split_once(':')) {
        let counters: Vec<u64> = counters.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
        let [received, _, _, _, _, _, _, _, sent, ..] = counters[..] else { continue };
        if name.trim() == "lo" {
            network.loopback_bytes += sent;
        } else {
            network.received_bytes += received;
            network.sent_bytes += sent;
        }
    }
    network
}

/// Of /proc/diskstats, which lists partitions too.
fn disks(text: &str, is_whole: impl Fn(&str) -> bool) -> Vec<DiskSample> {
    let disks = text.lines().filter_map(|line| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let [_, _, name, _, _, _, _, _, _, written_sectors, _, _, busy_ms, ..] = fields[..] else { return None };
        let written_bytes = written_sectors.parse::<u64>().ok()? * SECTOR_BYTES;
        Some(DiskSample { name: name.to_owned(), written_bytes, busy: Duration::from_millis(busy_ms.parse().ok()?) })
    });
    disks.filter(|disk| !NO_DISKS.iter().any(|kind| disk.name.starts_with(kind)) && is_whole(&disk.name)).collect()
}

fn is_whole_disk(name: &str) -> bool {
    // A slash in a name is written as an exclamation mark there.
    Path::new("/sys/block").join(name.replace('/', "!")).exists()
}

/// The links that lead to sockets which listen on the port, as /proc/PID/fd has them.
fn listening_sockets(table: &str, port: u16) -> Vec<String> {
    let suffix = format!(":{port:04X}");
    let rows = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let listening = rows.filter_map(|fields| match fields[..] {
        [_, local, _, LISTEN, _, _, _, _, _, inode, ..] if local.ends_with(&suffix) => Some(inode.to_owned()),
        _ => None,
    });
    listening.map(|inode| format!("socket:[{inode}]")).collect()
}

fn os_name(os_release: &str) -> Option<String> {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches(['"', '\'']).to_owned())
}

/// The first value of a name, in lines of `name: value`.
fn value_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

fn number_of(text: &str, name: &str) -> Option<u64> {
    value_of(text, name)?.split_ascii_whitespace().next()?.parse().ok()
}

/// Under what this runs, by the flag of the processor that only x86 has, or by the names in the firmware.
fn virtualized(cpu_info: &str, firmware: &str) -> Option<String> {
    let has_flag = value_of(cpu_info, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let by_firmware = VIRTUAL.iter().any(|name| firmware.contains(name)) && !firmware.contains("metal");
    match (has_flag || by_firmware, firmware) {
        (false, _) => None,
        (true, "") => Some("an unknown hypervisor".to_owned()),
        (true, firmware) => Some(firmware.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_command_may_be_called_anything() {
        let stat = "4217 (a) b (c) S 1 4217 4217 0 -1 4194560 900 0 2 0 150 25 7 9 20 0 12 0 1234 98765432 777 184 1";
        assert_eq!(process_stat(stat), Some((175, 777)));
        assert_eq!(process_stat("1 (init) S 1 2"), None);
        assert_eq!(process_stat(""), None);
    }

    #[test]
    fn cores_are_busy_or_wait_or_are_taken_away() {
        let stat = "cpu  100 20 30 4000 50 6 7 8 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\nctxt 5\n";
        let processors = processors(stat).unwrap();
        assert_eq!((processors.busy_ticks, processors.stolen_ticks, processors.io_wait_ticks), (163, 8, 50));
        assert!(super::processors("cpu0 1 2 3\n").is_none());
    }

    #[test]
    fn the_loopback_counts_apart() {
        let text = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    3193      29    0    0    0     0          0         0     3193      29    0    0    0     0       0          0
  eth0:2000 1 0 0 0 0 0 0 714 4546 0 0 0 0 0 0
  eth1: 100 1 0 0 0 0 0 0 20 4546 0 0 0 0 0 0
";
        assert_eq!(network(text), Network { received_bytes: 2100, sent_bytes: 734, loopback_bytes: 3193 });
    }

    #[test]
    fn the_busiest_whole_disk_counts() {
        let text = "\
   7       0 loop0 0 0 0 0 9 9 9 9 0 9999 0 0 0 0 0 0 0
 259       0 nvme0n1 38963 7736 3911746 27858 8050 17713 3000 12536 0 7988 40808 3709 55 324800 399 263 14
 259       1 nvme0n1p1 38963 7736 3911746 27858 8050 17713 3000 12536 0 7988 40808
   8       0 sda 1 2 3 4 5 6 10 8 0 100 0
";
        let sample = |text: &str| HostSample::default().with_disks(disks(text, |name| !name.ends_with("p1")));
        let first = sample(text);
        let names: Vec<_> = first.disks.iter().map(|disk| disk.name.as_str()).collect();
        assert_eq!(names, ["nvme0n1", "sda"]);
        assert_eq!((first.disk_written_bytes, first.disk_busy), (3000 * 512, Duration::from_millis(7988)));
        let second = sample(&text.replace("6 10 8 0 100", "6 30 8 0 900").replace("7988", "7989"));
        let between = second.since(&first);
        assert_eq!((between.disk_written_bytes, between.disk_busy), (20 * 512, Duration::from_millis(800)));
    }

    #[test]
    fn a_port_leads_to_its_sockets() {
        let table = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2384 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1145 1 0 100 0 0 10 0
   1: 0100007F:2384 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 1146 1 0 100 0 0 10 0
   2: 0100007F:0035 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1147 1 0 100 0 0 10 0
";
        assert_eq!(listening_sockets(table, 9092), ["socket:[1145]"]);
        assert_eq!(listening_sockets(table, 53), ["socket:[1147]"]);
        assert!(listening_sockets(table, 0x84).is_empty());
    }

    #[test]
    fn a_virtual_machine_is_told_from_a_real_one() {
        let flagged = "processor\t: 0\nmodel name\t: Some CPU: fast\nflags\t\t: fpu hypervisor sse\n";
        assert_eq!(value_of(flagged, "model name"), Some("Some CPU: fast"));
        assert_eq!(virtualized(flagged, "").as_deref(), Some("an unknown hypervisor"));
        assert_eq!(virtualized(flagged, "Acme Cloud c3").as_deref(), Some("Acme Cloud c3"));
        assert_eq!(virtualized("flags: fpu\n", "Amazon EC2 m7g.large").as_deref(), Some("Amazon EC2 m7g.large"));
        assert_eq!(virtualized("flags: fpu\n", "Amazon EC2 m7g.metal"), None);
        assert_eq!(virtualized("flags: fpu\n", "Dell Inc. PowerEdge"), None);
    }

    #[test]
    fn values_are_found_in_their_files() {
        assert_eq!(os_name("ID=debian\nPRETTY_NAME=\"Debian 12\"\n").as_deref(), Some("Debian 12"));
        assert_eq!(number_of("MemTotal:       16384 kB\nMemFree: 5 kB\n", "MemTotal"), Some(16384));
        assert_eq!(number_of("rchar: 1\nread_bytes: 2\nwrite_bytes: 3\n", "write_bytes"), Some(3));
        assert_eq!(number_of("", "write_bytes"), None);
    }

    #[test]
    fn this_machine_can_be_read() {
        let facts = host_facts();
        assert!(facts.cores > 0 && facts.memory_bytes > 0, "{facts:?}");
        let host = sample_host().unwrap();
        assert!(host.busy > Duration::ZERO, "{host:?}");
        let own = sample_process(std::process::id()).unwrap();
        assert!(own.resident_bytes > 0, "{own:?}");
        let mut child = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
        child.wait().unwrap();
        assert!(sample_process(child.id()).is_err(), "it is gone");
    }

    #[test]
    fn a_listener_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(listener_of(port), Some(std::process::id()));
        assert_eq!(listener_of(0), None, "nobody listens there");
    }
}
