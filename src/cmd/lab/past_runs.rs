//! Runs that are kept in directories, for the history of their suite.

use std::path::{Path, PathBuf};

use lab::{History, LeftOut, PastRun, Results, RunFacts};

/// A run's directory, what it is called here, and what it is.
pub(in crate::cmd) struct Kept {
    name: String,
    directory: PathBuf,
    pub facts: RunFacts,
}

/// Runs, the newest first, and directories of runs that cannot be read.
#[derive(Default)]
pub(in crate::cmd) struct PastRuns {
    pub runs: Vec<Kept>,
    unreadable: Vec<LeftOut>,
}

impl PastRuns {
    /// All runs in a directory, called as their own directories are.
    pub(in crate::cmd) fn in_directory(parent: &Path) -> std::io::Result<Self> {
        let mut directories = Vec::new();
        for entry in std::fs::read_dir(parent)? {
            let path = entry?.path();
            if Results::are_in(&path) {
                directories.push((path.file_name().unwrap_or_default().to_string_lossy().into_owned(), path));
            }
        }
        directories.sort();
        Ok(Self::read(directories))
    }

    pub(in crate::cmd) fn read(directories: impl IntoIterator<Item = (String, PathBuf)>) -> Self {
        let mut found = Self::default();
        for (name, directory) in directories {
            match Results::read_run(&directory) {
                Ok(facts) => found.runs.push(Kept { name, directory, facts }),
                Err(error) => found.unreadable.push(LeftOut { directory: name, reason: error.to_string() }),
            }
        }
        found.runs.sort_by(|a, b| b.facts.started.cmp(&a.facts.started));
        found
    }

    /// Suites and scenarios with the number of their runs, that of the newest run first.
    pub(in crate::cmd) fn suites(&self) -> Vec<(&str, usize)> {
        let mut suites: Vec<(&str, usize)> = Vec::new();
        for run in &self.runs {
            match suites.iter_mut().find(|(name, _)| *name == run.facts.name) {
                Some((_, count)) => *count += 1,
                None => suites.push((&run.facts.name, 1)),
            }
        }
        suites
    }

    pub(in crate::cmd) fn of_suite(mut self, name: &str) -> Self {
        self.runs.retain(|run| run.facts.name == name);
        self
    }

    /// Of so many runs, the newest. `None` if they have measured nothing.
    pub(in crate::cmd) fn history(self, last: usize) -> Option<History> {
        let mut unreadable = self.unreadable;
        let results = self.runs.into_iter().take(last).filter_map(|Kept { name, directory, .. }| {
            match Results::read(&directory) {
                Ok(Results { run, cases }) => Some(PastRun { directory: name, facts: run, cases }),
                Err(error) => {
                    unreadable.push(LeftOut { directory: name, reason: error.to_string() });
                    None
                }
            }
        });
        let mut history = History::of(results)?;
        history.left_out.extend(unreadable);
        Some(history)
    }
}
