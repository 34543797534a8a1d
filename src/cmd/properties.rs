//! Properties files of Kafka's clients, in the form that `java.util.Properties` reads, and what they say of security.

use std::path::Path;

use anyhow::Result;
use client::{Security, SecurityConfig};

use super::failure::{self, Usage};

/// Names and values, in the file's order.
pub(crate) fn read(file: &Path) -> Result<Vec<(String, String)>> {
    let text = String::from_utf8(read_bytes(file)?).map_err(|_| Usage(format!("{} is not UTF-8", file.display())))?;
    Ok(parse(&text))
}

#[expect(clippy::disallowed_methods, reason = "a file that the user names")]
pub(crate) fn read_bytes(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|error| failure::of_file("read", file, &error))
}

/// How to connect, by those of the settings that say so; a later one wins. What is left out is warned of.
pub(crate) fn security(pairs: &[(String, String)]) -> Result<Security> {
    let mut config = SecurityConfig::default();
    for (name, value) in pairs.iter().filter(|(name, _)| SecurityConfig::is_about(name)) {
        match config.set(name, value) {
            Ok(()) => {}
            Err(error) if error.is_harmless() => eprintln!("warning: {error}"),
            Err(error) => return Err(Usage(error.to_string()).into()),
        }
    }
    Ok(config.load().map_err(|error| Usage(error.to_string()))?)
}

/// The security that a file asks for; without one, plain text.
pub(crate) fn security_of(file: Option<&Path>) -> Result<Security> {
    match file {
        Some(file) => security(&read(file)?),
        None => Ok(Security::default()),
    }
}

fn parse(text: &str) -> Vec<(String, String)> {
    let mut lines = text.lines();
    let mut pairs = Vec::new();
    while let Some(line) = lines.next() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut line = line.to_owned();
        while is_continued(&line) {
            line.pop();
            line.push_str(lines.next().unwrap_or_default().trim_start());
        }
        let (name, value) = split(&line);
        pairs.push((unescaped(name), unescaped(value).trim().to_owned()));
    }
    pairs
}

/// An odd number of backslashes at the end: the last one is for the line's end.
fn is_continued(line: &str) -> bool {
    line.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1
}

/// At the first `=`, `:` or space that is not escaped.
fn split(line: &str) -> (&str, &str) {
    let mut is_escaped = false;
    let end = line.find(|letter: char| {
        let is_end = !is_escaped && (letter.is_whitespace() || letter == '=' || letter == ':');
        is_escaped = letter == '\\' && !is_escaped;
        is_end
    });
    let (name, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start();
    (name, rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start())
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('f') => out.push('\x0c'),
            Some('u') => {
                let digits: String = letters.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                out.push(code.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text)
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn names_values_and_comments() {
        let text = "# a comment\n! another\n\n a = b \nc:d\ne f=g\nh\ni=\r\nj==k\n";
        let expected =
            [pair("a", "b"), pair("c", "d"), pair("e", "f=g"), pair("h", ""), pair("i", ""), pair("j", "=k")];
        assert_eq!(pairs(text), expected);
    }

    #[test]
    fn a_backslash_joins_lines_and_escapes() {
        let text =
            "sasl.jaas.config=x.PlainLoginModule required \\\n    username=\"a\" \\\n    password=\"b\\\\\\\"c\";\nz=1";
        let expected = [
            pair("sasl.jaas.config", "x.PlainLoginModule required username=\"a\" password=\"b\\\"c\";"),
            pair("z", "1"),
        ];
        assert_eq!(pairs(text), expected);
        assert_eq!(pairs("a\\=b=c\\n\\u0041\nd=e\\\\\nf=g\\"), [pair("a=b", "c\nA"), pair("d", "e\\"), pair("f", "g")]);
    }

    #[test]
    fn settings_that_are_not_about_security_are_not_looked_at() {
        let given = [pair("acks", "9"), pair("no.such.thing", "x"), pair("security.protocol", "PLAINTEXT")];
        assert_eq!(security(&given).unwrap(), Security::default());
        let error = security(&[pair("security.protocol", "SASL")]).unwrap_err();
        assert!(error.to_string().starts_with("security.protocol is \"SASL\"; it takes PLAINTEXT"), "{error}");
    }
}
