//! The directory of a run: `run.json`, `cases/*.json` and `report.html`. A file is there whole or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::result::{CaseResult, RunFacts, SCHEMA_VERSION};

const RUN: &str = "run.json";
const CASES: &str = "cases";
const REPORT: &str = "report.html";

#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("cannot write {}: {error}", path.display())]
    Write { path: PathBuf, error: io::Error },
    #[error("cannot read {}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("{} is no result of ours: {reason}", path.display())]
    Content { path: PathBuf, reason: String },
    #[error("{} has schema {found}, and this program knows up to {SCHEMA_VERSION}", path.display())]
    Schema { path: PathBuf, found: u32 },
}

/// A run as it was left behind.
#[derive(Clone, Debug)]
pub struct Results {
    pub run: RunFacts,
    /// In the order of the scenario as far as files tell: by name.
    pub cases: Vec<CaseResult>,
}

impl Results {
    pub fn read(directory: &Path) -> Result<Self, FilesError> {
        let run = Self::read_run(directory)?;
        let cases_dir = directory.join(CASES);
        let mut paths = Vec::new();
        match fs::read_dir(&cases_dir) {
            Ok(entries) => {
                for entry in entries {
                    let entry = entry.map_err(|error| FilesError::Read { path: cases_dir.clone(), error })?;
                    paths.push(entry.path());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(FilesError::Read { path: cases_dir, error }),
        }
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        let mut cases: Vec<CaseResult> = paths.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
        cases.sort_by(|a, b| (a.number, &a.target, a.repetition).cmp(&(b.number, &b.target, b.repetition)));
        Ok(Self { run, cases })
    }

    /// The run without its cases.
    pub fn read_run(directory: &Path) -> Result<RunFacts, FilesError> {
        let run: RunFacts = read(&directory.join(RUN))?;
        match run.schema {
            ..=SCHEMA_VERSION => Ok(run),
            found => Err(FilesError::Schema { path: directory.join(RUN), found }),
        }
    }

    /// Whether there is a run in the directory.
    pub fn are_in(directory: &Path) -> bool {
        directory.join(RUN).is_file()
    }
}

pub(super) fn write_run(directory: &Path, run: &RunFacts) -> Result<(), FilesError> {
    let cases = directory.join(CASES);
    fs::create_dir_all(&cases).map_err(|error| FilesError::Write { path: cases, error })?;
    write_json(&directory.join(RUN), run)
}

pub(super) fn write_case(directory: &Path, case: &CaseResult) -> Result<(), FilesError> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '=' | ',');
    let plain = |text: &str| text.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect::<String>();
    let mut id = plain(&case.id);
    // The number keeps names apart that have become alike.
    id.truncate(100);
    let name = format!("{:04}-{id}.{}.{}.json", case.number, plain(&case.target), case.repetition);
    write_json(&directory.join(CASES).join(name), case)
}

pub(super) fn write_report(directory: &Path, html: &str) -> Result<PathBuf, FilesError> {
    let path = directory.join(REPORT);
    write(&path, html.as_bytes())?;
    Ok(path)
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), FilesError> {
    let mut text = serde_json::to_vec_pretty(value).expect("the schema has no keys but text");
    text.push(b'\n');
    write(path, &text)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), FilesError> {
    let failed = |error| FilesError::Write { path: path.to_owned(), error };
    let new = path.with_extension("new");
    fs::write(&new, bytes).map_err(failed)?;
    fs::rename(&new, path).map_err(failed)
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, FilesError> {
    let text = fs::read(path).map_err(|error| FilesError::Read { path: path.to_owned(), error })?;
    serde_json::from_slice(&text)
        .map_err(|error| FilesError::Content { path: path.to_owned(), reason: error.to_string() })
}
