//! Topic, directory and incarnation ids: 16 bytes, written as Kafka does in 22 characters of URL-safe base64.

use std::fmt;
use std::str::FromStr;

/// A 128-bit id. All zeros means "none" (Kafka's `Uuid.ZERO_UUID`).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Uuid {
    pub const ZERO: Self = Self([0; 16]);

    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }

    /// A version 4 id from 16 random bytes.
    pub fn from_random(mut bytes: [u8; 16]) -> Self {
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self(bytes)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        for i in 0..22 {
            // 128 bits are 21 digits of 6 bits and a last one of 2, which stand left-aligned in it.
            let digit = if i < 21 { bits >> (122 - 6 * i) } else { bits << 4 };
            fmt::Write::write_char(f, ALPHABET[(digit & 63) as usize] as char)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not 22 characters of URL-safe base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an id is 22 characters of URL-safe base64")]
pub struct InvalidUuid;

impl FromStr for Uuid {
    type Err = InvalidUuid;

    fn from_str(text: &str) -> Result<Self, InvalidUuid> {
        let text = text.as_bytes();
        if text.len() != 22 {
            return Err(InvalidUuid);
        }
        let mut bits = 0u128;
        for (i, c) in text.iter().enumerate() {
            let digit = ALPHABET.iter().position(|a| a == c).ok_or(InvalidUuid)? as u128;
            bits = if i < 21 { bits << 6 | digit } else { bits << 2 | digit >> 4 };
        }
        Ok(Self(bits.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_what_kafka_prints() {
        let id = Uuid([0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00]);
        assert_eq!(id.to_string(), "_-7dzLuqmYh3ZlVEMyIRAA");
        assert_eq!("_-7dzLuqmYh3ZlVEMyIRAA".parse(), Ok(id));
        assert_eq!(Uuid::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
    }

    #[test]
    fn refuses_other_text() {
        for text in ["", "short", "AAAAAAAAAAAAAAAAAAAAA!", "AAAAAAAAAAAAAAAAAAAAAAA"] {
            assert_eq!(text.parse::<Uuid>(), Err(InvalidUuid), "{text}");
        }
    }
}
