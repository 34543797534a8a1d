//! Writing to stdout: whole lines in few writes. A closed pipe comes back as an error, which ends the command quietly.

use std::borrow::Cow;
use std::io::{self, BufWriter, StdoutLock, Write};

/// What ends a line, or has text run from right to left, and is no control character.
const TURNING: [char; 13] = [
    '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}',
    '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
];

/// Buffered; what was written is out after [`Write::flush`].
pub(crate) fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(64 * 1024, io::stdout().lock())
}

/// Prints lines of text. What a terminal would take for a command stands there escaped: anybody names things.
pub(crate) fn print(text: &str) -> io::Result<()> {
    write(escaped(text, |c| c == '\n' || c == '\t').as_bytes())
}

/// A name or a value from a cluster as part of a line: whatever is in it, it begins no other line and no other column,
/// and a terminal shows it and obeys nothing.
pub(crate) fn visible(value: &str) -> Cow<'_, str> {
    escaped(value, |_| false)
}

fn escaped(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_command = |c: char| (c.is_control() || TURNING.contains(&c)) && !stays(c);
    if !text.contains(is_command) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_command(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// Prints bytes as they are.
pub(crate) fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Prints a value as one line of JSON.
pub(crate) fn print_json(value: &impl serde::Serialize) -> io::Result<()> {
    let mut out = stdout();
    serde_json::to_writer(&mut out, value)?;
    writeln!(out)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_no_name() {
        let hostile = "g\u{1b}[2J\u{1b}]0;title\u{7}\r\u{9b}1m\u{7f}\u{202e}x";
        let shown = "g\\u{1b}[2J\\u{1b}]0;title\\u{7}\\r\\u{9b}1m\\u{7f}\\u{202e}x";
        assert_eq!(visible(hostile), shown);
        assert_eq!(visible("two\nlines\tand columns"), "two\\nlines\\tand columns");
        for plain in ["orders", "größer, 北, 🦀", "a \\ b"] {
            assert!(matches!(visible(plain), Cow::Borrowed(text) if text == plain));
        }
        let lines = |c| c == '\n' || c == '\t';
        assert_eq!(escaped("a\tb\n\u{1b}c\n", lines), "a\tb\n\\u{1b}c\n");
    }
}
