//! Files that say how to reach clusters. They are one user's: nobody else may read them. Each is replaced as a whole,
//! so that it has either what it had or what it shall have.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Certificates are the most of the largest.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The text of a file; none where there is no file yet.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    let mut text = String::new();
    let file = OpenOptions::new().read(true).open(path);
    match file.and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text)) {
        Ok(_) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces a file, or makes it, with its directory.
#[expect(clippy::disallowed_methods, reason = "a file of the user's, not of a broker")]
pub fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    let mut new = path.to_owned().into_os_string();
    new.push(format!(".{}", std::process::id()));
    let result = (|| {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text)?;
        file.sync_all()?;
        std::fs::rename(&new, path)
    })();
    if result.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    result
}
