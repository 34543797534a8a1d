//! Patterns that members subscribe with, in the syntax of RE2 (KIP-848's `SubscribedTopicRegex`).
//!
//! The engine needs time in proportion to a topic's name, whatever the pattern. A pattern has to match a whole name.
//! Names are ASCII, and so are classes of characters here; those of Unicode (`\p{Greek}`) are not known.

use std::collections::BTreeSet;

use regex::bytes::{Regex, RegexBuilder};

/// The longest pattern, and the most that one may take when it is compiled.
const PATTERN_BYTES_MAX: usize = 16 * 1024;
const COMPILED_BYTES_MAX: usize = 1024 * 1024;

/// A pattern for whole names of topics.
pub struct Pattern {
    regex: Regex,
}

/// A pattern that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}.")]
pub struct InvalidPattern {
    pattern: String,
    reason: String,
}

impl Pattern {
    pub fn new(pattern: &str) -> Result<Self, InvalidPattern> {
        let invalid = |reason: String| {
            let shown = &pattern[..pattern.floor_char_boundary(200)];
            InvalidPattern { pattern: shown.to_owned(), reason }
        };
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(invalid(format!("it is longer than {PATTERN_BYTES_MAX} bytes")));
        }
        let unquoted = unquote(pattern);
        let build = |text: &str| {
            let mut builder = RegexBuilder::new(text);
            builder.size_limit(COMPILED_BYTES_MAX).unicode(false).build()
        };
        // Alone first: `a)(b` is not a pattern, though it would be one between parentheses.
        let whole = build(&unquoted).and_then(|_| build(&format!("^(?:{unquoted})$")));
        let regex = whole.map_err(|error| invalid(error.to_string().replace('\n', " ")))?;
        Ok(Self { regex })
    }

    pub fn matches(&self, name: &str) -> bool {
        self.regex.is_match(name.as_bytes())
    }

    /// The names that it matches.
    pub fn matching<'a>(&self, names: impl IntoIterator<Item = &'a String>) -> BTreeSet<String> {
        names.into_iter().filter(|name| self.matches(name)).cloned().collect()
    }
}

/// RE2 has `\Q` and `\E` around what is to be taken literally, which Java's `Pattern.quote` writes.
fn unquote(pattern: &str) -> String {
    let mut unquoted = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(at) = rest.find('\\') {
        unquoted.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(quoted) = rest.strip_prefix("\\Q") {
            let (literal, behind) = quoted.split_once("\\E").unwrap_or((quoted, ""));
            unquoted.push_str(&regex::escape(literal));
            rest = behind;
        } else {
            // Whatever is escaped, another backslash perhaps, begins nothing.
            let end = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
            unquoted.push_str(&rest[..end]);
            rest = &rest[end..];
        }
    }
    unquoted.push_str(rest);
    unquoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::new(pattern).unwrap().matches(name)
    }

    #[test]
    fn a_pattern_matches_whole_names() {
        assert!(matches("orders-.*", "orders-eu") && matches("a|bc", "bc") && matches("(?i)ORD.rs", "orders"));
        assert!(!matches("orders", "orders-eu") && !matches("a|bc", "abc") && !matches("", "a"));
        let names = ["a-1", "b-1", "a-22"].map(str::to_owned);
        assert_eq!(Pattern::new("a-[0-9]+").unwrap().matching(&names), BTreeSet::from(["a-1".into(), "a-22".into()]));
    }

    #[test]
    fn what_is_quoted_is_taken_literally() {
        assert!(matches("\\Qa.b\\E.*", "a.bcd") && !matches("\\Qa.b\\E.*", "axbcd"));
        assert!(matches("\\Qa+(", "a+(") && matches("\\\\Q.", "\\Qx"));
    }

    #[test]
    fn bad_and_hostile_patterns_are_refused() {
        let hostile = ["(", "a)(b", "[z-a]", "*", "a{2}{", "((a{100}){100}){100}", "\\"].map(str::to_owned);
        for pattern in hostile.into_iter().chain(["a".repeat(PATTERN_BYTES_MAX + 1)]) {
            let error = Pattern::new(&pattern).err().unwrap_or_else(|| panic!("{pattern} is a pattern"));
            assert!(error.to_string().len() < 1_000 + pattern.len().min(200) * 4, "{error}");
        }
    }
}
