//! Files that settings of security name: certificates, keys, and who signs tokens.

use std::fs::File;
use std::io::Read;

use security::tls::STORE_BYTES_MAX;

/// Reads a file. One that is too large is read as far as shows it.
#[expect(clippy::disallowed_methods, reason = "a file that the operator names")]
pub fn read_file(path: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(STORE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}
