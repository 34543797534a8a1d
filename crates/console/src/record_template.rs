//! Text with placeholders, which is another one for each record.

use std::fmt::Write;

use ring::rand::{SecureRandom, SystemRandom};

use crate::format::moment;

/// A text whose placeholders are filled in anew each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Number,
    Uuid,
    Now,
    NowMs,
    Random { from: i64, to: i64 },
}

impl Template {
    /// Or what is wrong with it, as a sentence.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("{{") {
            let (placeholder, behind) = behind
                .split_once("}}")
                .ok_or_else(|| format!("A placeholder is not closed: {:?}.", shortened(behind)))?;
            parts.push(Part::Text(before.to_owned()));
            parts.push(Part::parse(placeholder)?);
            rest = behind;
        }
        parts.push(Part::Text(rest.to_owned()));
        parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        Ok(Self(parts))
    }

    /// For the record of this number.
    pub(crate) fn fill_in(&self, number: u32, now_ms: i64) -> String {
        let mut text = String::new();
        for part in &self.0 {
            let _ = match part {
                Part::Text(part) => write!(text, "{part}"),
                Part::Number => write!(text, "{number}"),
                Part::Uuid => write!(text, "{}", uuid()),
                Part::Now => {
                    write!(text, "{}.{:03}Z", moment(now_ms).replace(' ', "T"), now_ms.rem_euclid(1000))
                }
                Part::NowMs => write!(text, "{now_ms}"),
                Part::Random { from, to } => write!(text, "{}", random(*from, *to)),
            };
        }
        text
    }
}

impl Part {
    fn parse(placeholder: &str) -> Result<Self, String> {
        let words: Vec<_> = placeholder.split_whitespace().collect();
        match words.as_slice() {
            ["i"] => Ok(Self::Number),
            ["uuid"] => Ok(Self::Uuid),
            ["now"] => Ok(Self::Now),
            ["now_ms"] => Ok(Self::NowMs),
            ["random", from, to] => match (from.parse(), to.parse()) {
                (Ok(from), Ok(to)) if from <= to => Ok(Self::Random { from, to }),
                _ => Err(format!("{{{{random {from} {to}}}}} needs two whole numbers, the smaller one first.")),
            },
            _ => Err(format!(
                "There is no placeholder {:?}: there are {{{{i}}}}, {{{{uuid}}}}, {{{{now}}}}, {{{{now_ms}}}} and \
                 {{{{random 1 100}}}}.",
                shortened(placeholder)
            )),
        }
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

fn random_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    // Without the system's random numbers it would have no TLS and no sessions either.
    SystemRandom::new().fill(&mut bytes).expect("the system has random numbers");
    bytes
}

/// Of version 4: random.
fn uuid() -> String {
    let number = u128::from_be_bytes(random_bytes());
    let number = number & !(0xf << 76) & !(0b11 << 62) | (4 << 76) | (0b10 << 62);
    let hex = format!("{number:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Both included. The numbers are so many more than are asked for that each is as likely as the others.
fn random(from: i64, to: i64) -> i64 {
    let count = u128::from(to.abs_diff(from)) + 1;
    (i128::from(from) + (u128::from_be_bytes(random_bytes()) % count) as i128) as i64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn filled_in(text: &str, number: u32) -> String {
        Template::parse(text).unwrap().fill_in(number, 1_795_357_211_042)
    }

    #[test]
    fn placeholders_are_filled_in() {
        assert_eq!(
            filled_in("{\"id\": {{i}}, \"at\": \"{{now}}\"}", 7),
            "{\"id\": 7, \"at\": \"2026-11-22T14:20:11.042Z\"}"
        );
        assert_eq!(
            [filled_in("", 1), filled_in("a } { b", 1), filled_in("{{ i }}{{now_ms}}", 2)],
            ["", "a } { b", "21795357211042"]
        );
        let uuids: BTreeSet<_> = (0..50).map(|number| filled_in("{{uuid}}", number)).collect();
        assert_eq!(uuids.len(), 50);
        for uuid in uuids {
            let parts: Vec<_> = uuid.split('-').map(str::len).collect();
            assert_eq!(parts, [8, 4, 4, 4, 12]);
            assert!(uuid.as_bytes()[14] == b'4' && b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
        }
    }

    #[test]
    fn random_numbers_are_all_of_those_that_are_asked_for() {
        let numbers: BTreeSet<_> = (0..1000).map(|number| filled_in("{{random -1 2}}", number)).collect();
        assert_eq!(numbers.into_iter().collect::<Vec<_>>(), ["-1", "0", "1", "2"]);
        assert_eq!(filled_in("{{random 5 5}}", 1), "5");
        let whole = format!("{{{{random {} {}}}}}", i64::MIN, i64::MAX);
        assert!(filled_in(&whole, 1).parse::<i64>().is_ok());
    }

    #[test]
    fn what_is_no_placeholder_is_said_in_a_sentence() {
        let error = |text| Template::parse(text).unwrap_err();
        assert!(error("{{name}}").starts_with("There is no placeholder \"name\": there are {{i}}, {{uuid}}"));
        assert!(error("a {{i").contains("is not closed"));
        assert!(error("{{random 5 1}}").contains("the smaller one first"));
        assert!(error("{{random a}}").contains("no placeholder"));
    }
}
