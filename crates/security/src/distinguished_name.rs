//! A distinguished name as Java's `X500Principal.getName()` writes it: the text that mapping rules, ACLs and
//! `super.users` of Kafka are written for. It is RFC 2253 with Java's own ways (`sun.security.x509.AVA`), which the
//! tests have from Java itself.
//!
//! Behaviour:
//! - The most specific part comes first, a comma without a space between parts, a plus sign between the attributes of
//!   one.
//! - CN, C, L, ST, O, OU, STREET, DC and UID have names. All others are numbers, with the value as it is encoded, in
//!   hexadecimal digits behind a `#`. So are values that are no strings.
//! - `,=+<>#;"\` are escaped by a backslash wherever they are; blanks and carriage returns at the beginning and the
//!   end; NUL is `\00`. Everything else stands as it is, also what could confuse a terminal: escape it in logs.
//! - The bytes of all strings are taken as UTF-8, also of those that are not, and replaced where they cannot be.

use crate::der::{Der, DerError, dotted, tag};

type Result<T> = std::result::Result<T, DerError>;

/// UTF8String, PrintableString, T61String, IA5String, GeneralString and BMPString.
const STRINGS: [u8; 6] = [0x0c, 0x13, 0x14, 0x16, 0x1b, 0x1e];

const ESCAPED: &str = ",=+<>#;\"\\";

/// `name` is encoded, as [`crate::Certificate`] has it. A name without parts is empty.
pub fn distinguished_name(name: &[u8]) -> Result<String> {
    let mut parts = Der::only_sequence(name)?;
    let mut written = Vec::new();
    while !parts.is_empty() {
        let mut attributes = Der::new(parts.expect(tag::SET)?);
        let mut part = Vec::new();
        while !attributes.is_empty() {
            part.push(attribute(attributes.sequence()?)?);
        }
        if part.is_empty() {
            return Err(DerError);
        }
        written.push(part.join("+"));
    }
    written.reverse();
    Ok(written.join(","))
}

fn attribute(mut attribute: Der<'_>) -> Result<String> {
    let kind = attribute.object_identifier()?;
    let value = attribute.next()?;
    attribute.end()?;
    let keyword = keyword(kind);
    match keyword {
        Some(keyword) if STRINGS.contains(&value.tag) => Ok(format!("{keyword}={}", escape(&text(value.contents)))),
        _ => {
            let kind = keyword.map_or_else(|| dotted(kind), |keyword| Ok(keyword.to_owned()))?;
            let digits: String = value.whole.iter().map(|byte| format!("{byte:02x}")).collect();
            Ok(format!("{kind}=#{digits}"))
        }
    }
}

/// UTF-8, with a sign in place of what is none. Half of a pair of UTF-16 is one to Java, and three to Rust.
fn text(contents: &[u8]) -> String {
    let mut bytes = contents.to_vec();
    for at in 2..bytes.len() {
        if let [0xed, 0xa0..=0xbf, 0x80..=0xbf] = bytes[at - 2..=at] {
            bytes[at - 2..=at].copy_from_slice("\u{fffd}".as_bytes());
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn keyword(kind: &[u8]) -> Option<&'static str> {
    Some(match kind {
        [0x55, 0x04, 0x03] => "CN",
        [0x55, 0x04, 0x06] => "C",
        [0x55, 0x04, 0x07] => "L",
        [0x55, 0x04, 0x08] => "ST",
        [0x55, 0x04, 0x09] => "STREET",
        [0x55, 0x04, 0x0a] => "O",
        [0x55, 0x04, 0x0b] => "OU",
        // 0.9.2342.19200300.100.1.
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x01] => "UID",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x19] => "DC",
        _ => return None,
    })
}

fn escape(value: &str) -> String {
    let is_blank = |letter: char| letter == ' ' || letter == '\r';
    let begins_at = value.len() - value.trim_start_matches(is_blank).len();
    let ends_at = value.trim_end_matches(is_blank).len();
    let mut out = String::with_capacity(value.len());
    for (at, letter) in value.char_indices() {
        if letter == '\0' {
            out.push_str("\\00");
            continue;
        }
        if ESCAPED.contains(letter) || at < begins_at || at >= ends_at {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests;
