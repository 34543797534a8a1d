//! Files that a user names: keys, certificates, tokens.

use std::fs::File;
use std::io::Read;

use security::tls::STORE_BYTES_MAX;

use crate::system_error::reason;

/// Reads a file. One that is too large is read as far as shows it.
#[expect(clippy::disallowed_methods, reason = "a file that the user names")]
pub(crate) fn read_file(path: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| reason(&error))?;
    let read = file.take(STORE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| reason(&error)).map(|_| bytes)
}
