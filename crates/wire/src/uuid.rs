//! Topic, directory and incarnation ids: 16 bytes, written as Kafka does in 22 characters of URL-safe base64.

use std::fmt;
use std::str::FromStr;

use base64::alphabet;
use base64::engine::{DecodePaddingMode, Engine, GeneralPurpose, GeneralPurposeConfig};

/// A 128-bit id. All zeros means "none" (Kafka's `Uuid.ZERO_UUID`).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

/// What Kafka writes and reads: bits behind the last byte are left out of account, as by Java's decoder.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);
const TEXT_BYTES: usize = 22;

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
        let mut text = [0; TEXT_BYTES];
        let length = BASE64.encode_slice(self.0, &mut text).map_err(|_| fmt::Error)?;
        f.write_str(std::str::from_utf8(&text[..length]).map_err(|_| fmt::Error)?)
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
        if text.len() != TEXT_BYTES {
            return Err(InvalidUuid);
        }
        let mut bytes = [0; 16];
        match BASE64.decode_slice(text, &mut bytes) {
            Ok(16) => Ok(Self(bytes)),
            _ => Err(InvalidUuid),
        }
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
