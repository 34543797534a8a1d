//! Writing to stdout: whole lines in few writes. A closed pipe comes back as an error, which ends the command quietly.

use std::io::{self, BufWriter, StdoutLock, Write};

/// Buffered; what was written is out after [`Write::flush`].
pub(crate) fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(64 * 1024, io::stdout().lock())
}

/// Prints text as it is.
pub(crate) fn print(text: &str) -> io::Result<()> {
    write(text.as_bytes())
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

/// Columns padded to widths, as Java's `%-15s` does: the last one is as long as it is.
pub(crate) fn columns(cells: &[&str], widths: &[usize]) -> String {
    let mut line = String::new();
    for (i, cell) in cells.iter().enumerate() {
        if i > 0 {
            line.push(' ');
        }
        let width = widths.get(i).copied().unwrap_or(0);
        line.push_str(&format!("{cell:<width$}"));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_padded_and_never_cut() {
        assert_eq!(columns(&["a", "bcd", "e"], &[3, 2]), "a   bcd e");
    }
}
