//! Where programs keep files of their user, as freedesktop.org has it.

use std::path::PathBuf;

/// A file of ours in the directory that a variable names, or else in the one below the user's own. `None` where neither
/// is known.
pub(crate) fn user_file(variable: &str, below_home: &str, name: &str) -> Option<PathBuf> {
    let directory = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = directory(variable).or_else(|| Some(directory("HOME")?.join(below_home)))?;
    Some(base.join("parshall").join(name))
}
