//! Patterns in place of names: `--regex` of the commands that take several topics or groups.

use anyhow::{Result, bail};
use regex::{Regex, RegexBuilder};

use super::failure::Usage;

/// The largest program that a pattern may become: `(?:a{1000}){1000}` is short.
const PROGRAM_BYTES_MAX: usize = 1 << 20;

/// Those of the existing names that one of the patterns matches from end to end, or an error where there are none.
pub(crate) fn matching<'a>(patterns: &[String], existing: impl Iterator<Item = &'a str>) -> Result<Vec<String>> {
    let whole = patterns.iter().map(|text| whole(text)).collect::<Result<Vec<_>>>()?;
    let matching = existing.filter(|name| whole.iter().any(|pattern| pattern.is_match(name)));
    let matching: Vec<_> = matching.map(str::to_owned).collect();
    if matching.is_empty() {
        bail!("nothing is called like {}", patterns.join(" or "));
    }
    Ok(matching)
}

fn whole(text: &str) -> Result<Regex> {
    match RegexBuilder::new(&format!("^(?:{text})$")).size_limit(PROGRAM_BYTES_MAX).build() {
        Ok(pattern) => Ok(pattern),
        Err(error) => {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
            bail!(Usage(format!("{text:?} is no regular expression: {reason}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(patterns: &[&str]) -> Result<Vec<String>> {
        let patterns: Vec<_> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        matching(&patterns, ["orders", "orders-dead", "payments"].into_iter())
    }

    #[test]
    fn patterns_are_of_whole_names() {
        assert_eq!(found(&["orders"]).unwrap(), ["orders"]);
        assert_eq!(found(&["orders|pay.*"]).unwrap(), ["orders", "payments"]);
        assert_eq!(found(&["o.*", ".*-dead"]).unwrap(), ["orders", "orders-dead"]);
        assert_eq!(found(&["order", "x"]).unwrap_err().to_string(), "nothing is called like order or x");
    }

    #[test]
    fn what_is_no_pattern_is_told_in_a_line() {
        for wrong in ["(", "a{1000000000}", "(?:a{1000}){1000}"] {
            let error = found(&[wrong]).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("is no regular expression: ") && !text.contains('\n'), "{text}");
            assert!(error.is::<Usage>());
        }
    }
}
