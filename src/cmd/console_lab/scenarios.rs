//! Scenarios that were kept in the console: a TOML file for each, beside the runs, named as the scenario is.
//!
//! Only what can be run is kept, in bounds. A file that somebody has put there is a scenario, too, with its mistakes.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use ::console::{ScenarioMistake, Suite};
use lab::{Scenario, ScenarioError};
use parking_lot::Mutex;

use super::CAPACITY;
use crate::cmd::lab::outlook;

const SCENARIOS_MAX: usize = 50;
const BYTES_MAX: usize = 64 << 10;
const NAME_CHARS_MAX: usize = 50;
/// Nobody waits for more, and all of them are read for each look at the page.
const CASES_MAX: usize = 500;

pub(super) struct Scenarios {
    directory: PathBuf,
    /// Held while something is changed.
    changing: Mutex<()>,
}

impl Scenarios {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory, changing: Mutex::default() }
    }

    /// Where one is, or would be. Only names that scenarios have are looked for.
    fn path(&self, name: &str) -> Option<PathBuf> {
        check_name(name).ok().map(|()| self.directory.join(format!("{name}.toml")))
    }

    pub(super) fn find(&self, name: &str) -> Option<PathBuf> {
        self.path(name).filter(|path| path.is_file())
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        read(&self.find(name)?).ok()
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let files = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<_> = files
            .filter_map(|file| file.strip_suffix(".toml").map(str::to_owned))
            .filter(|name| self.find(name).is_some())
            .collect();
        names.sort_unstable();
        names.truncate(SCENARIOS_MAX);
        names
    }

    pub(super) fn suites(&self) -> Vec<Suite> {
        self.names().into_iter().filter_map(|name| Some(suite(self.text(&name)?, name))).collect()
    }

    /// Keeps a scenario under its own name, in place of the one that is replaced, and of no other.
    pub(super) fn keep(&self, toml: &str, replaced: Option<&str>) -> Result<String, ScenarioMistake> {
        let scenario = checked(toml)?;
        let at_name = |reason: String| ScenarioMistake { line: name_line(toml), reason };
        check_name(&scenario.name).map_err(at_name)?;
        let name = scenario.name;
        let whole = |reason: String| ScenarioMistake { line: None, reason };
        let _changing = self.changing.lock();
        let names = self.names();
        let is_there = names.contains(&name);
        if is_there && replaced != Some(name.as_str()) {
            return Err(at_name(format!("another scenario is called {name:?}: edit that one, or choose another name")));
        }
        if !is_there && names.len() >= SCENARIOS_MAX {
            return Err(whole(format!("there are {SCENARIOS_MAX} scenarios already: delete one first")));
        }
        let written = write(&self.directory, &name, toml);
        written.map_err(|error| whole(format!("it cannot be kept in {}: {error}", self.directory.display())))?;
        Ok(name)
    }

    #[expect(clippy::disallowed_methods, reason = "a file of the console's own")]
    pub(super) fn delete(&self, name: &str) -> Result<(), String> {
        let _changing = self.changing.lock();
        let path = self.find(name).ok_or_else(|| format!("there is no scenario {name:?}"))?;
        std::fs::remove_file(&path).map_err(|error| format!("cannot delete {}: {error}", path.display()))
    }
}

/// Runs and files are named by it.
fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_plain) {
        return Err(format!("the name is {name:?}; it takes 1 to {NAME_CHARS_MAX} letters, digits and hyphens"));
    }
    if lab::suite(name).is_some() || name == CAPACITY {
        return Err(format!("{name:?} is the name of what is built in: choose another one"));
    }
    Ok(())
}

fn checked(toml: &str) -> Result<Scenario, ScenarioMistake> {
    if toml.len() > BYTES_MAX {
        let reason = format!("it has more than {} KiB", BYTES_MAX >> 10);
        return Err(ScenarioMistake { line: None, reason });
    }
    let mistake = |error: ScenarioError| ScenarioMistake { line: error.line(), reason: error.reason().to_owned() };
    let scenario = Scenario::parse(toml).map_err(mistake)?;
    match scenario.cases.len() {
        cases if cases > CASES_MAX => {
            let reason = format!("{cases} cases are more than {CASES_MAX}: skip combinations, or list less");
            Err(ScenarioMistake { line: None, reason })
        }
        _ => Ok(scenario),
    }
}

/// Where a scenario says its name.
fn name_line(toml: &str) -> Option<usize> {
    let is_name = |line: &str| line.split_once('=').is_some_and(|(key, _)| key.trim() == "name");
    toml.lines().position(is_name).map(|at| at + 1)
}

fn suite(toml: String, name: String) -> Suite {
    let own = |scenario: &Scenario| match scenario.name == name {
        true => Ok(()),
        false => Err(format!("its name is {:?} and its file is {name}.toml: edit it", scenario.name)),
    };
    match checked(&toml) {
        Ok(scenario) => Suite { name: name.clone(), is_own: true, mistake: own(&scenario).err(), ..suite_of(scenario) },
        Err(ScenarioMistake { line, reason }) => Suite {
            title: name.clone(),
            name,
            description: String::new(),
            cases: 0,
            seconds: 0.0,
            brokers: 1,
            is_own: true,
            mistake: Some(line.map_or_else(|| reason.clone(), |line| format!("line {line}: {reason}"))),
        },
    }
}

/// As the console shows one that is built in.
pub(super) fn suite_of(scenario: Scenario) -> Suite {
    Suite {
        seconds: outlook::seconds(&scenario),
        cases: scenario.cases.len(),
        brokers: scenario.cases.iter().map(|case| case.load.brokers_min()).max().unwrap_or(1),
        name: scenario.name,
        title: scenario.title,
        description: scenario.description,
        is_own: false,
        mistake: None,
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    // One byte more than there may be is seen as too long.
    OpenOptions::new().read(true).open(path)?.take(BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// The file has either what it had or what it shall have.
#[expect(clippy::disallowed_methods, reason = "a file of the console's own")]
fn write(directory: &Path, name: &str, toml: &str) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(directory)?;
    let new = directory.join(format!("{name}.toml.new"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&new)?;
    file.write_all(toml.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, directory.join(format!("{name}.toml")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toml(name: &str) -> String {
        format!("title = \"Mine\"\nname = {name:?}\n[[case]]\nid = \"a\"\nduration_s = 5\n")
    }

    fn scenarios() -> (tempfile::TempDir, Scenarios) {
        let home = tempfile::tempdir().unwrap();
        let scenarios = Scenarios::new(home.path().join("lab"));
        (home, scenarios)
    }

    #[test]
    fn scenarios_are_kept_by_their_names() {
        let (_home, scenarios) = scenarios();
        assert!(scenarios.suites().is_empty());
        assert_eq!(scenarios.keep(&toml("mine"), None), Ok("mine".to_owned()));
        let suite = scenarios.suites().remove(0);
        assert_eq!((&*suite.name, &*suite.title, suite.cases, suite.is_own), ("mine", "Mine", 1, true));
        assert_eq!(suite.seconds, 9.5);
        assert_eq!(scenarios.text("mine"), Some(toml("mine")));
        // No other makes way for it.
        let taken = scenarios.keep(&toml("mine"), None).unwrap_err();
        assert!(taken.line == Some(2) && taken.reason.contains("another scenario"), "{taken:?}");
        assert!(scenarios.keep(&toml("mine"), Some("other")).is_err());
        let longer = toml("mine") + "warm_up_s = 5\n";
        scenarios.keep(&longer, Some("mine")).unwrap();
        assert_eq!(scenarios.text("mine"), Some(longer));
        scenarios.keep(&toml("other"), Some("mine")).unwrap();
        assert_eq!(scenarios.names(), ["mine", "other"]);
        scenarios.delete("mine").unwrap();
        assert_eq!(scenarios.names(), ["other"]);
        assert!(scenarios.delete("mine").is_err());
    }

    #[test]
    fn what_cannot_run_is_not_kept() {
        let (_home, scenarios) = scenarios();
        let wrong = |toml: &str| scenarios.keep(toml, None).unwrap_err();
        let mistake = wrong(&(toml("mine") + "recrods = 5\n"));
        assert!(mistake.line == Some(6) && mistake.reason.starts_with("unknown field `recrods`"), "{mistake:?}");
        assert_eq!(wrong(&(toml("mine") + "producers = 0\n")).line, Some(3));
        for name in ["", "a/b", "..", "a b", "ä", "quick", "capacity", &"x".repeat(51)] {
            assert_eq!(wrong(&toml(name)).line, Some(2), "{name}");
        }
        assert!(wrong(&format!("{}# {}", toml("mine"), "x".repeat(BYTES_MAX))).reason.contains("64 KiB"));
        let numbers: Vec<_> = (1..=501).map(|n| n.to_string()).collect();
        let many = format!("{}partitions = [{}]\n", toml("mine"), numbers.join(","));
        assert!(wrong(&many).reason.contains("501 cases"));
        assert!(scenarios.names().is_empty());
    }

    #[test]
    fn there_are_only_so_many() {
        let (_home, scenarios) = scenarios();
        for n in 0..SCENARIOS_MAX {
            scenarios.keep(&toml(&format!("s{n}")), None).unwrap();
        }
        assert!(scenarios.keep(&toml("more"), None).unwrap_err().reason.contains("delete one first"));
        assert!(scenarios.keep(&toml("s1"), Some("s1")).is_ok());
    }

    #[test]
    fn a_file_with_a_mistake_is_there_to_be_edited() {
        let (home, scenarios) = scenarios();
        for name in ["", ".", "..", "../lab/mine", "mine/"] {
            assert_eq!(scenarios.find(name), None, "{name}");
        }
        write(&home.path().join("lab"), "broken", "name = \"broken\"\n[[case]]\n").unwrap();
        write(&home.path().join("lab"), "moved", &toml("mine")).unwrap();
        let mistakes: Vec<_> = scenarios.suites().into_iter().map(|suite| suite.mistake.unwrap()).collect();
        assert!(mistakes[0].starts_with("line 1: missing field `title`"), "{mistakes:?}");
        assert!(mistakes[1].contains("its name is \"mine\""), "{mistakes:?}");
    }
}
