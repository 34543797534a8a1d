//! A password that a command needs: from a file, from the terminal, or from stdin. Never from the command line, which
//! every process of the machine can read.

use std::io::{self, BufRead, IsTerminal, Read};
use std::path::Path;

use anyhow::{Result, bail};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::failure::{self, Usage};

/// More is no password.
const LINE_BYTES_MAX: u64 = 4096;

/// The first line of the file, if there is one; else it is asked for at the terminal, twice, or is the first line of
/// stdin.
pub(crate) async fn read(file: Option<&Path>) -> Result<String> {
    let password = match file {
        Some(path) => first_line(open(path).map_err(|error| failure::of_file("read", path, &error))?)
            .map_err(|error| failure::of_file("read", path, &error))?,
        None if io::stdin().is_terminal() => {
            let _echo = NoEcho::begin()?;
            let password = asked("Password: ").await?;
            if asked("The same again: ").await? != password {
                bail!("the passwords differ");
            }
            password
        }
        None => first_line(io::stdin())?,
    };
    if password.is_empty() {
        bail!(Usage("a password may not be empty".to_owned()));
    }
    Ok(password)
}

#[expect(clippy::disallowed_methods, reason = "a file of the user's, not of a broker")]
fn open(path: &Path) -> io::Result<std::fs::File> {
    std::fs::File::open(path)
}

/// Without its end, `\n` or `\r\n`.
fn first_line(input: impl Read) -> io::Result<String> {
    let mut line = String::new();
    io::BufReader::new(input.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    let line = line.strip_suffix('\n').unwrap_or(&line);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

/// Asks for a line. Who interrupts that gets the terminal back as it was.
async fn asked(prompt: &str) -> Result<String> {
    eprint!("{prompt}");
    let line = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().lock().take(LINE_BYTES_MAX).read_line(&mut line).map(|_| line)
    });
    let line = tokio::select! {
        line = line => line??,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
    };
    eprintln!();
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// While it is there, the terminal does not show what is typed.
struct NoEcho {
    before: Termios,
}

impl NoEcho {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self { before })
    }
}

impl Drop for NoEcho {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_a_line_without_its_end() {
        for (input, password) in [("a b ", "a b "), ("a\nb\n", "a"), ("ä\r\n", "ä"), ("\n", ""), ("", "")] {
            assert_eq!(first_line(input.as_bytes()).unwrap(), password, "{input:?}");
        }
        assert!(first_line(&[b'a', 0xff, b'\n'][..]).is_err());
    }
}
