//! Patterns of `java.util.regex`, for an engine whose time is linear. What means the same there goes through, what
//! means something else is rewritten, and what the engine has not is refused by name, before anything is matched.
//!
//! Behaviour:
//! - `\d`, `\s`, `\w` and their opposites are of ASCII, `.` is no end of a line, as they are in Java without flags.
//!   `\<` and `\>` are the signs themselves.
//! - Lookaround, backreferences, possessive quantifiers, atomic groups and inline flags are refused.
//! - The whole text has to match.

use regex::{Regex, RegexBuilder};

const PATTERN_BYTES_MAX: usize = 4096;
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Why a pattern is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("is longer than {PATTERN_BYTES_MAX} bytes")]
    TooLong,
    #[error("has {what}, which is not there")]
    Unsupported { what: &'static str },
    #[error("cannot be read: {reason}")]
    Syntax { reason: String },
}

pub(crate) fn compile(pattern: &str) -> Result<Regex, PatternError> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(PatternError::TooLong);
    }
    let translated = translate(pattern)?;
    // First alone: with what is put around it, "a)|(b" would be a pattern, and match more than whole texts.
    build(&translated)?;
    build(&format!("^(?:{translated})$"))
}

fn build(pattern: &str) -> Result<Regex, PatternError> {
    RegexBuilder::new(pattern).size_limit(COMPILED_BYTES_MAX).build().map_err(|error| {
        // The last line says what is wrong, those before it show where.
        let reason = error.to_string();
        let last = reason.lines().last().unwrap_or_default();
        PatternError::Syntax { reason: last.trim_start_matches("error: ").to_owned() }
    })
}

/// What stands before a sign, as far as it changes what that means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Parenthesis,
    Quantifier,
    Other,
}

fn unsupported<T>(what: &'static str) -> Result<T, PatternError> {
    Err(PatternError::Unsupported { what })
}

fn translate(pattern: &str) -> Result<String, PatternError> {
    let mut out = String::with_capacity(pattern.len() * 2);
    let mut classes_open = 0;
    let mut before = Before::Other;
    let mut rest = pattern.chars();
    while let Some(letter) = rest.next() {
        let last = std::mem::replace(&mut before, Before::Other);
        match letter {
            '\\' => escape(&mut rest, &mut out)?,
            '[' => {
                if classes_open > 0 && rest.as_str().starts_with(':') {
                    return unsupported("a class within colons");
                }
                let inside = rest.as_str();
                if inside.strip_prefix('^').unwrap_or(inside).starts_with(']') {
                    return unsupported("a class that begins with ]");
                }
                classes_open += 1;
                out.push('[');
            }
            ']' => {
                classes_open = i32::max(classes_open - 1, 0);
                out.push(']');
            }
            '-' | '~' if classes_open > 0 && rest.as_str().starts_with(letter) => {
                return unsupported("two signs -- or ~~ in a class");
            }
            _ if classes_open > 0 => out.push(letter),
            '.' => out.push_str(r"[^\n\r\u{85}\u{2028}\u{2029}]"),
            '(' => {
                group(rest.as_str())?;
                before = Before::Parenthesis;
                out.push('(');
            }
            '+' if last == Before::Quantifier => return unsupported("a possessive quantifier"),
            // `(?` begins a group.
            '*' | '+' | '?' | '}' if last != Before::Parenthesis => {
                before = Before::Quantifier;
                out.push(letter);
            }
            _ => out.push(letter),
        }
    }
    Ok(out)
}

fn escape(rest: &mut std::str::Chars<'_>, out: &mut String) -> Result<(), PatternError> {
    match rest.next() {
        Some('d') => out.push_str("[0-9]"),
        Some('D') => out.push_str("[^0-9]"),
        Some('s') => out.push_str(r"[ \t\n\x0B\f\r]"),
        Some('S') => out.push_str(r"[^ \t\n\x0B\f\r]"),
        Some('w') => out.push_str("[0-9A-Za-z_]"),
        Some('W') => out.push_str("[^0-9A-Za-z_]"),
        Some(sign @ ('<' | '>')) => out.push(sign),
        Some('1'..='9' | 'k') => return unsupported("a backreference"),
        Some('b' | 'B' | 'v' | 'U') => return unsupported(r"one of \b, \B, \v and \U"),
        Some(letter) => out.extend(['\\', letter]),
        None => return unsupported("a backslash at its end"),
    }
    Ok(())
}

/// What follows upon a parenthesis.
fn group(rest: &str) -> Result<(), PatternError> {
    let Some(rest) = rest.strip_prefix('?') else { return Ok(()) };
    match rest.as_bytes() {
        [b'=' | b'!', ..] | [b'<', b'=' | b'!', ..] => unsupported("lookaround"),
        [b':' | b'<', ..] => Ok(()),
        [b'>', ..] => unsupported("an atomic group"),
        _ => unsupported("a flag; write both letters, as in [Cc][Nn]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        compile(pattern).unwrap_or_else(|error| panic!("{pattern} {error}")).is_match(text)
    }

    #[test]
    fn what_java_matches() {
        for (pattern, text) in [
            ("", ""),
            ("a|ab", "ab"),
            ("^CN=(.*),OU=a.*$", "CN=x,OU=abc"),
            (r"CN=\w+\,\ \d{2,3}?\/\<\>", "CN=a_b, 12/<>"),
            (r"[\w.\-&&[^b]]+", "a_c.-"),
            (r"[^\d]\S\D\W", "aaa-"),
            ("(?<name>a)(?:b)", "ab"),
            (r"a*?b+?c??", "ab"),
            (r"a{2}b", "aab"),
            ("[a+*?(.]+", "(+*"),
            (r"\[?\(?", "("),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn what_java_does_not_match() {
        for (pattern, text) in [
            ("a", "ab"),
            ("a", "ba"),
            ("a|b", "ab"),
            (".", "\r"),
            (".", "\u{2028}"),
            (r"\w", "é"),
            (r"[\w]", "é"),
            (r"\d", "\u{663}"),
            (r"\s", "\u{a0}"),
            ("a", "a\n"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text:?}");
        }
    }

    #[test]
    fn what_is_not_there_is_refused() {
        for (pattern, wrong) in [
            ("(?=a)", "lookaround"),
            ("(?!a)", "lookaround"),
            ("(?<=a)", "lookaround"),
            ("(?<!a)", "lookaround"),
            (r"(a)\1", "backreference"),
            (r"(?<x>a)\k<x>", "backreference"),
            ("a*+", "possessive"),
            ("a++", "possessive"),
            ("a?+", "possessive"),
            ("a{2}+", "possessive"),
            ("(?>a)", "atomic"),
            ("(?i)a", "flag"),
            (r"\(?+", "possessive"),
            ("[[:alpha:]]", "colons"),
            ("[^]a]", "begins with ]"),
            ("[a--b]", "--"),
            (r"\bCN", r"\b"),
            ("(a", "unclosed"),
            ("a)", "unopened"),
            (r"\Qa\E", "escape"),
            ("a)|(b", "unopened"),
            ("\\", "backslash"),
            ("(((a{100}){100}){100})", "size"),
        ] {
            let error = compile(pattern).unwrap_err().to_string();
            assert!(error.contains(wrong), "{pattern}: {error}");
        }
        assert_eq!(compile(&"a".repeat(5000)).unwrap_err(), PatternError::TooLong);
    }
}
