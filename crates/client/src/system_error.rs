//! Errors of the system in messages.

use std::io;

/// The system's words for an error, without Rust's "(os error 111)".
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
