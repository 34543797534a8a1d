//! Control groups of Linux (cgroup v2) that limit how much CPU and memory a process may have.
//!
//! Groups are made below that of this process, and removed when they are dropped; their processes have ended by then.
//! A group below which there are limits may have no processes of its own, so this process steps aside into a group
//! beside those of the brokers, and returns at the end.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use crate::broker_size::BrokerSize;

/// A process that has used up its part of a period waits for the next one: short, so that the wait is no pause that a
/// smaller machine would not have.
const PERIOD_US: f64 = 10_000.0;
/// What the names of our groups begin with; the id of our process stands behind it.
const PREFIX: &str = "parshall-lab-";
/// What a user can do who has no control groups.
const ADVICE: &str = "systemd-run --user --scope -p Delegate=yes parshall lab run ... has them";

/// Where groups can be made.
#[derive(Debug)]
pub(super) struct Parent {
    path: PathBuf,
    /// The group that this process is in meanwhile, where it has stepped aside.
    aside: Option<PathBuf>,
}

/// The group of one process.
#[derive(Debug)]
pub(super) struct Group(PathBuf);

impl Parent {
    /// The error says why there are no control groups for us.
    pub(super) fn find() -> Result<Self, String> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let own = own_group(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
        let (root, path) = own.ok_or("this system has no cgroup v2")?;
        Self::at(&root, path)
    }

    /// `root` is the group of the whole system, or of the container.
    fn at(root: &Path, path: PathBuf) -> Result<Self, String> {
        remove_abandoned(&path);
        if !lists_both(&root.join("cgroup.controllers")) {
            return Err("this system has no cpu and memory controllers in cgroup v2".to_owned());
        }
        if !lists_both(&path.join("cgroup.controllers")) {
            return Err(format!("{} has no cpu and memory controllers; {ADVICE}", path.display()));
        }
        let mut parent = Self { path, aside: None };
        if lists_both(&parent.path.join("cgroup.subtree_control")) {
            return Ok(parent);
        }
        let enabled = match parent.enable() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                parent.step_aside().and_then(|()| parent.enable())
            }
            enabled => enabled,
        };
        match enabled {
            Ok(()) => Ok(parent),
            Err(error) => {
                Err(format!("no control groups can be made in {} ({error}); {ADVICE}", parent.path.display()))
            }
        }
    }

    fn enable(&self) -> io::Result<()> {
        fs::write(self.path.join("cgroup.subtree_control"), "+cpu +memory")
    }

    /// Others in the group are not ours to move.
    fn step_aside(&mut self) -> io::Result<()> {
        let own = process::id().to_string();
        if fs::read_to_string(self.path.join("cgroup.procs"))?.lines().any(|member| member != own) {
            return Err(io::Error::other("other processes are in it, too"));
        }
        let aside = self.path.join(format!("{PREFIX}{own}"));
        fs::create_dir(&aside)?;
        self.aside = Some(aside.clone());
        fs::write(aside.join("cgroup.procs"), own)
    }

    /// A group with this process, without limits.
    pub(super) fn group(&self, name: &str, member: u32) -> io::Result<Group> {
        let path = self.path.join(format!("{PREFIX}{}-{name}", process::id()));
        fs::create_dir(&path)?;
        let group = Group(path);
        fs::write(group.0.join("cgroup.procs"), member.to_string())?;
        Ok(group)
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        if let Some(aside) = self.aside.take() {
            let returned = fs::write(self.path.join("cgroup.subtree_control"), "-cpu -memory")
                .and_then(|()| fs::write(self.path.join("cgroup.procs"), process::id().to_string()))
                .and_then(|()| fs::remove_dir(&aside));
            if let Err(error) = returned {
                tracing::debug!(%error, group = %aside.display(), "the control group is left behind");
            }
        }
    }
}

impl Group {
    pub(super) fn limit(&self, size: BrokerSize) -> io::Result<()> {
        let quota = match size.cpus {
            0.0 => "max".to_owned(),
            cpus => format!("{:.0}", cpus * PERIOD_US),
        };
        let (memory, swap) = match size.memory.0 {
            0 => ("max".to_owned(), "max"),
            bytes => (bytes.to_string(), "0"),
        };
        fs::write(self.0.join("cpu.max"), format!("{quota} {PERIOD_US}"))?;
        // A machine of that size would not have the swap of this one. A kernel without any has no such file.
        match fs::write(self.0.join("memory.swap.max"), swap) {
            Err(error)
                if error.kind() != io::ErrorKind::NotFound && error.kind() != io::ErrorKind::PermissionDenied =>
            {
                return Err(error);
            }
            _ => {}
        }
        fs::write(self.0.join("memory.max"), memory)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            tracing::debug!(%error, group = %self.0.display(), "the control group is left behind");
        }
    }
}

/// Whether a file lists both controllers.
fn lists_both(file: &Path) -> bool {
    let listed = fs::read_to_string(file).unwrap_or_default();
    ["cpu", "memory"].iter().all(|name| listed.split_whitespace().any(|controller| controller == *name))
}

/// The directories of the root and of this process's group, from what /proc/self says of its group and of what is
/// mounted.
fn own_group(groups: &str, mounts: &str) -> Option<(PathBuf, PathBuf)> {
    let group = Path::new(groups.lines().find_map(|line| line.strip_prefix("0::"))?);
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let fields: Vec<_> = mount.split(' ').collect();
        let [_, _, _, root, at, ..] = fields[..] else { return None };
        // A group outside of what is mounted is called /../..
        let below = group.strip_prefix(root).ok().filter(|below| !below.starts_with(".."))?;
        kind.starts_with("cgroup2 ").then(|| (at.into(), Path::new(at).join(below)))
    })
}

/// Removes the groups of runs that were killed. They are empty: their brokers have ended.
fn remove_abandoned(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let ours = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let process = ours.and_then(|ours| ours.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            // One that still has a process is none of our business.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::byte_size::ByteSize;

    #[test]
    fn the_own_group_is_where_its_file_system_is_mounted() {
        let mounts = "\
25 30 0:23 / /sys rw shared:7 - sysfs sysfs rw
35 25 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
";
        let group = "0::/user.slice/run-1.scope\n";
        let own = |group, mounts| own_group(group, mounts).map(|(_, own)| own);
        assert_eq!(own(group, mounts), Some("/sys/fs/cgroup/user.slice/run-1.scope".into()));
        assert_eq!(own_group("0::/\n", mounts), Some(("/sys/fs/cgroup".into(), "/sys/fs/cgroup/".into())));
        // A container may see a part of it only.
        let part = mounts.replace("0:30 / ", "0:30 /user.slice ");
        assert_eq!(own(group, &part), Some("/sys/fs/cgroup/run-1.scope".into()));
        assert_eq!(own("0::/system.slice\n", &part), None);
        assert_eq!(own("0::/../other\n", mounts), None);
        // With cgroup v1 there is no group of that kind, or nowhere to find it.
        assert_eq!(own("4:memory:/a\n", mounts), None);
        assert_eq!(own(group, "35 25 0:30 / /sys/fs/cgroup rw - cgroup cgroup rw,memory\n"), None);
    }

    /// A directory that looks like a group's.
    fn group(controllers: &str, enabled: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("cgroup.controllers"), controllers).unwrap();
        fs::write(dir.path().join("cgroup.subtree_control"), enabled).unwrap();
        dir
    }

    #[test]
    fn limits_are_written_and_taken_back() {
        let dir = group("cpuset cpu io memory\n", "cpu memory\n");
        let parent = Parent::at(dir.path(), dir.path().to_owned()).unwrap();
        let group = parent.group("broker-1", 4711).unwrap();
        let read = |file: &str| fs::read_to_string(group.0.join(file)).unwrap();
        assert_eq!(read("cgroup.procs"), "4711");
        group.limit(BrokerSize { cpus: 1.5, memory: ByteSize(2 << 30) }).unwrap();
        assert_eq!([read("cpu.max"), read("memory.max"), read("memory.swap.max")], ["15000 10000", "2147483648", "0"]);
        group.limit(BrokerSize::default()).unwrap();
        assert_eq!([read("cpu.max"), read("memory.max"), read("memory.swap.max")], ["max 10000", "max", "max"]);
    }

    #[test]
    fn controllers_are_asked_for_and_missing_ones_are_said() {
        let dir = group("cpu memory", "");
        drop(Parent::at(dir.path(), dir.path().to_owned()).unwrap());
        assert_eq!(fs::read_to_string(dir.path().join("cgroup.subtree_control")).unwrap(), "+cpu +memory");
        let (whole, none) = (group("cpu memory", ""), group("cpuset memory", ""));
        let error = Parent::at(whole.path(), none.path().to_owned()).unwrap_err();
        assert!(error.contains("has no cpu and memory controllers; systemd-run --user"), "{error}");
        let error = Parent::at(none.path(), none.path().to_owned()).unwrap_err();
        assert_eq!(error, "this system has no cpu and memory controllers in cgroup v2");
    }

    #[test]
    fn groups_of_runs_that_were_killed_are_removed() {
        let dir = group("cpu memory", "cpu memory");
        // No process has so high an id.
        let names = ["parshall-lab-4294967295-broker-1", "parshall-lab-x", "other-1"];
        names.iter().for_each(|name| fs::create_dir(dir.path().join(name)).unwrap());
        let own = format!("parshall-lab-{}", process::id());
        fs::create_dir(dir.path().join(&own)).unwrap();
        Parent::at(dir.path(), dir.path().to_owned()).unwrap();
        let is_there = |name: &str| dir.path().join(name).exists();
        assert_eq!(names.map(is_there), [false, true, true]);
        assert!(is_there(&own));
    }
}
