//! A size in bytes as people write it behind a flag or in a scenario: `64K`, `2GiB`, `4096`.

use std::fmt;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::text::Text;

const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct ByteSize(pub u64);

impl fmt::Display for ByteSize {
    /// In the largest unit of which it is a multiple.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, unit)| self.0 >= *unit && self.0.is_multiple_of(*unit)) {
            Some((name, unit)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for ByteSize {
    type Err = String;

    /// Units are powers of 1024, by their whole names or, as dd takes them, by their first letter.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "a size is a number with KiB, MiB or GiB, for example 2GiB".to_owned();
        let with_unit = UNITS.iter().find_map(|(name, unit)| {
            let number = text.strip_suffix(name).or_else(|| text.strip_suffix(&name[..1]))?;
            Some((number, *unit))
        });
        let (number, unit) = with_unit.unwrap_or((text, 1));
        let number: f64 = number.trim_end().parse().map_err(|_| wrong())?;
        let bytes = number * unit as f64;
        if (0.0..=1e18).contains(&bytes) { Ok(Self(bytes as u64)) } else { Err(wrong()) }
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    /// A number of bytes, or a text with a unit.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes, shown) in [
            ("4096", 4096, "4KiB"),
            ("4K", 4096, "4KiB"),
            ("100M", 100 << 20, "100MiB"),
            ("2 GiB", 2 << 30, "2GiB"),
            ("1.5GiB", 1536 << 20, "1536MiB"),
            ("0", 0, "0"),
            ("1025", 1025, "1025"),
        ] {
            let size: ByteSize = text.parse().unwrap();
            assert_eq!((size.0, size.to_string().as_str()), (bytes, shown));
        }
        for text in ["", "G", "2GB", "-1", "-1K", "1e30", "nan", "inf", "two"] {
            assert!(text.parse::<ByteSize>().unwrap_err().contains("for example 2GiB"), "{text}");
        }
    }
}
