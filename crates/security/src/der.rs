//! DER (X.690), as far as certificates, names, keys and PKCS#12 need it: values one after the other, each within the
//! one around it. Nothing is copied, nothing is allocated, and nothing is read past the end.

/// The bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no DER, or has not the parts that it should have")]
pub struct DerError;

type Result<T> = std::result::Result<T, DerError>;

pub(crate) mod tag {
    pub(crate) const BOOLEAN: u8 = 0x01;
    pub(crate) const INTEGER: u8 = 0x02;
    pub(crate) const OCTET_STRING: u8 = 0x04;
    pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
    pub(crate) const UTC_TIME: u8 = 0x17;
    pub(crate) const GENERALIZED_TIME: u8 = 0x18;
    pub(crate) const SEQUENCE: u8 = 0x30;
    pub(crate) const SET: u8 = 0x31;

    /// `[NUMBER]` around another value.
    pub(crate) const fn constructed(number: u8) -> u8 {
        0xa0 | number
    }

    /// `[NUMBER]` in place of the tag of a string.
    pub(crate) const fn primitive(number: u8) -> u8 {
        0x80 | number
    }
}

/// What is left of some values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Der<'a>(&'a [u8]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value<'a> {
    pub(crate) tag: u8,
    pub(crate) contents: &'a [u8],
    /// With tag and length.
    pub(crate) whole: &'a [u8],
}

impl<'a> Der<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The values within the only one of `bytes`, a sequence.
    pub(crate) fn only_sequence(bytes: &'a [u8]) -> Result<Self> {
        let mut all = Self(bytes);
        let inside = all.sequence()?;
        all.end()?;
        Ok(inside)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn end(&self) -> Result<()> {
        if self.is_empty() { Ok(()) } else { Err(DerError) }
    }

    pub(crate) fn next(&mut self) -> Result<Value<'a>> {
        let (&tag, rest) = self.0.split_first().ok_or(DerError)?;
        let (&first, mut rest) = rest.split_first().ok_or(DerError)?;
        let is_of_many_bytes = tag & 0x1f == 0x1f;
        let length = match first {
            0..=0x7f => usize::from(first),
            0x81..=0x84 => {
                let (bytes, behind) = rest.split_at_checked(usize::from(first & 0x7f)).ok_or(DerError)?;
                rest = behind;
                let length = bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
                let is_shortest = bytes[0] != 0 && length > 0x7f;
                if is_shortest { length } else { return Err(DerError) }
            }
            // Without a length, which is BER; or longer than anything that is read here.
            _ => return Err(DerError),
        };
        let (contents, behind) = rest.split_at_checked(length).ok_or(DerError)?;
        if is_of_many_bytes {
            return Err(DerError);
        }
        let whole = &self.0[..self.0.len() - behind.len()];
        self.0 = behind;
        Ok(Value { tag, contents, whole })
    }

    /// The contents of the next value, which has this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Result<&'a [u8]> {
        let value = self.next()?;
        if value.tag == tag { Ok(value.contents) } else { Err(DerError) }
    }

    /// The contents of the next value, if it has this tag.
    pub(crate) fn optional(&mut self, tag: u8) -> Result<Option<&'a [u8]>> {
        if self.0.first() == Some(&tag) { self.expect(tag).map(Some) } else { Ok(None) }
    }

    pub(crate) fn sequence(&mut self) -> Result<Self> {
        self.expect(tag::SEQUENCE).map(Self)
    }

    pub(crate) fn object_identifier(&mut self) -> Result<&'a [u8]> {
        self.expect(tag::OBJECT_IDENTIFIER)
    }

    /// A number that is not negative and has at most four bytes.
    pub(crate) fn unsigned(&mut self) -> Result<u32> {
        let bytes = self.expect(tag::INTEGER)?;
        let significant = match bytes {
            [] => return Err(DerError),
            [0, rest @ ..] => rest,
            [first, ..] if *first > 0x7f => return Err(DerError),
            _ => bytes,
        };
        if significant.len() > size_of::<u32>() {
            return Err(DerError);
        }
        Ok(significant.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }
}

/// An object identifier with dots between its numbers.
pub(crate) fn dotted(identifier: &[u8]) -> Result<String> {
    let mut numbers: Vec<u128> = Vec::new();
    let mut number: u128 = 0;
    for byte in identifier {
        number = number.checked_mul(128).ok_or(DerError)? | u128::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if numbers.is_empty() {
                let first = (number / 40).min(2);
                numbers.extend([first, number - first * 40]);
            } else {
                numbers.push(number);
            }
            number = 0;
        }
    }
    let is_complete = identifier.last().is_some_and(|byte| byte & 0x80 == 0);
    if !is_complete {
        return Err(DerError);
    }
    Ok(numbers.iter().map(u128::to_string).collect::<Vec<_>>().join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_follow_each_other() {
        let bytes = [0x30, 0x06, 0x02, 0x01, 0x05, 0x04, 0x01, 0xff];
        let mut inside = Der::only_sequence(&bytes).unwrap();
        assert_eq!(inside.optional(tag::OCTET_STRING), Ok(None));
        assert_eq!(inside.unsigned(), Ok(5));
        assert_eq!(inside.next(), Ok(Value { tag: 0x04, contents: &[0xff], whole: &[0x04, 0x01, 0xff] }));
        assert_eq!(inside.end(), Ok(()));
        assert_eq!(inside.next(), Err(DerError));
    }

    #[test]
    fn lengths_may_have_several_bytes() {
        let mut bytes = vec![0x04, 0x82, 0x01, 0x00];
        bytes.resize(4 + 256, 7);
        assert_eq!(Der::new(&bytes).expect(0x04).map(<[u8]>::len), Ok(256));
        let mut bytes = vec![0x04, 0x81, 0x80];
        bytes.resize(3 + 128, 7);
        assert_eq!(Der::new(&bytes).expect(0x04).map(<[u8]>::len), Ok(128));
    }

    #[test]
    fn what_is_no_der_is_refused() {
        for bytes in [
            &[][..],
            &[0x30],
            &[0x30, 0x01],
            // Lengths that are not there, not the shortest, or of too many bytes.
            &[0x04, 0x80, 0x00, 0x00],
            &[0x04, 0x81, 0x01, 0x00],
            &[0x04, 0x82, 0x00, 0x81, 0x00],
            &[0x04, 0x82, 0x01],
            &[0x04, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[0x04, 0x85, 0x00, 0x00, 0x00, 0x00, 0x00],
            // A tag of several bytes.
            &[0x1f, 0x01, 0x00],
        ] {
            assert_eq!(Der::new(bytes).next(), Err(DerError), "{bytes:x?}");
        }
        for bytes in [&[0x02, 0x00][..], &[0x02, 0x01, 0x80], &[0x02, 0x05, 0x01, 0, 0, 0, 0], &[0x04, 0x01, 0x01]] {
            assert_eq!(Der::new(bytes).unsigned(), Err(DerError), "{bytes:x?}");
        }
        assert_eq!(Der::new(&[0x02, 0x05, 0x00, 0xff, 0xff, 0xff, 0xff]).unsigned(), Ok(u32::MAX));
    }

    #[test]
    fn identifiers_have_dots() {
        assert_eq!(dotted(&[0x55, 0x04, 0x03]).as_deref(), Ok("2.5.4.3"));
        assert_eq!(
            dotted(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x01]).as_deref(),
            Ok("1.2.840.113549.1.9.1")
        );
        assert_eq!(dotted(&[0x88, 0x37, 0x03]).as_deref(), Ok("2.999.3"));
        for identifier in [&[][..], &[0x55, 0x84], &[0xff; 30]] {
            assert_eq!(dotted(identifier), Err(DerError));
        }
    }
}
