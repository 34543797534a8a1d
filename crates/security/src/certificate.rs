//! What is looked at in a certificate (RFC 5280) besides who has signed it: whose it is, and until when it is good.
//! Signatures, chains and uses are the TLS library's.

use std::collections::BTreeSet;

use crate::der::{Der, DerError, tag};

type Result<T> = std::result::Result<T, DerError>;

/// 2.5.29.17.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate<'a> {
    /// From 1 to 3. Only the third has extensions, and is taken by the TLS library.
    pub version: u32,
    /// Names, as they are encoded.
    pub issuer: &'a [u8],
    pub subject: &'a [u8],
    /// In milliseconds since 1970, as Kafka's timestamps are.
    pub not_before_ms: i64,
    pub not_after_ms: i64,
}

impl<'a> Certificate<'a> {
    pub fn read(bytes: &'a [u8]) -> Result<Self> {
        let mut certificate = Der::only_sequence(bytes)?;
        let mut signed = certificate.sequence()?;
        let version = match signed.optional(tag::constructed(0))? {
            Some(version) => Der::new(version).unsigned()?.min(2) + 1,
            None => 1,
        };
        signed.expect(tag::INTEGER)?; // the serial number
        signed.expect(tag::SEQUENCE)?; // the algorithm of the signature
        let issuer = signed.next()?;
        let mut validity = signed.sequence()?;
        let (not_before_ms, not_after_ms) = (time_ms(&mut validity)?, time_ms(&mut validity)?);
        let subject = signed.next()?;
        if issuer.tag != tag::SEQUENCE || subject.tag != tag::SEQUENCE {
            return Err(DerError);
        }
        Ok(Self { version, issuer: issuer.whole, subject: subject.whole, not_before_ms, not_after_ms })
    }

    /// The names of its subjectAltName, as they are encoded.
    pub fn alternative_names(bytes: &'a [u8]) -> Result<BTreeSet<&'a [u8]>> {
        let mut signed = Der::only_sequence(bytes)?.sequence()?;
        let mut names = BTreeSet::new();
        while !signed.is_empty() {
            let part = signed.next()?;
            if part.tag != tag::constructed(3) {
                continue;
            }
            let mut extensions = Der::only_sequence(part.contents)?;
            while !extensions.is_empty() {
                let mut extension = extensions.sequence()?;
                if extension.object_identifier()? != SUBJECT_ALT_NAME {
                    continue;
                }
                extension.optional(tag::BOOLEAN)?; // whether it is critical
                let mut found = Der::only_sequence(extension.expect(tag::OCTET_STRING)?)?;
                while !found.is_empty() {
                    names.insert(found.next()?.whole);
                }
            }
        }
        Ok(names)
    }

    pub(crate) fn is_self_issued(&self) -> bool {
        self.issuer == self.subject
    }
}

/// `YYMMDDHHMMSSZ`, with years from 1950 to 2049, or `YYYYMMDDHHMMSSZ`: the only forms that certificates may have.
fn time_ms(der: &mut Der<'_>) -> Result<i64> {
    let value = der.next()?;
    let (year_digits, rest) = match value.tag {
        tag::UTC_TIME => value.contents.split_at_checked(2),
        tag::GENERALIZED_TIME => value.contents.split_at_checked(4),
        _ => None,
    }
    .ok_or(DerError)?;
    let [rest @ .., b'Z'] = rest else { return Err(DerError) };
    if rest.len() != 10 {
        return Err(DerError);
    }
    let year = match (number(year_digits)?, value.tag) {
        (year, tag::UTC_TIME) if year < 50 => year + 2000,
        (year, tag::UTC_TIME) => year + 1900,
        (year, _) => year,
    };
    let part = |at: usize| number(&rest[at..at + 2]);
    let (month, day, hour, minute, second) = (part(0)?, part(2)?, part(4)?, part(6)?, part(8)?);
    let is_time = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 60;
    if !is_time {
        return Err(DerError);
    }
    Ok(days_since_1970(year, month, day) * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000)
}

fn number(digits: &[u8]) -> Result<i64> {
    let digit = |byte: &u8| if byte.is_ascii_digit() { Ok(i64::from(byte - b'0')) } else { Err(DerError) };
    digits.iter().try_fold(0, |number, byte| Ok(number * 10 + digit(byte)?))
}

/// Of the Gregorian calendar, by counting years from March, so that a leap day is the last of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // From 0000-03-01 to 1970-01-01.
    const DAYS_TO_1970: i64 = 719_468;
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - DAYS_TO_1970
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn a_certificate_says_whose_it_is_and_until_when() {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "a");
        params.not_before = date_time_ymd(2024, 2, 29);
        params.not_after = date_time_ymd(2051, 3, 1);
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let certificate = Certificate::read(made.der()).unwrap();
        assert!(certificate.is_self_issued() && certificate.version == 3);
        // `date -d 2024-02-29Z +%s`, and that of 2051-03-01.
        assert_eq!(certificate.not_before_ms, 1_709_164_800_000);
        assert_eq!(certificate.not_after_ms, 2_561_241_600_000);
        for length in 0..made.der().len() {
            assert_eq!(Certificate::read(&made.der()[..length]), Err(DerError));
        }
    }

    #[test]
    fn a_certificate_has_names_beside_that_of_its_subject() {
        let names = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            CertificateParams::new(names).unwrap().self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
        };
        assert_eq!(Certificate::alternative_names(&names(&[])), Ok(BTreeSet::new()));
        let certificate = names(&["b.example", "127.0.0.1", "a"]);
        // [2] is the name of a host, [7] an address.
        let expected: [&[u8]; 3] = [b"\x82\x01a", b"\x82\x09b.example", b"\x87\x04\x7f\0\0\x01"];
        assert_eq!(Certificate::alternative_names(&certificate), Ok(expected.into()));
        for length in 0..certificate.len() {
            assert_eq!(Certificate::alternative_names(&certificate[..length]), Err(DerError));
        }
    }

    #[test]
    fn times_have_one_form() {
        let time = |tag: u8, text: &str| {
            let mut bytes = vec![tag, text.len() as u8];
            bytes.extend(text.as_bytes());
            time_ms(&mut Der::new(&bytes))
        };
        assert_eq!(time(tag::UTC_TIME, "700101000000Z"), Ok(0));
        assert_eq!(time(tag::UTC_TIME, "491231235959Z"), Ok(2_524_607_999_000));
        assert_eq!(time(tag::UTC_TIME, "500101000000Z"), Ok(-631_152_000_000));
        assert_eq!(time(tag::GENERALIZED_TIME, "99991231235959Z"), Ok(253_402_300_799_000));
        assert_eq!(time(tag::GENERALIZED_TIME, "20000301000001Z"), Ok(951_868_801_000));
        for text in ["", "Z", "7001010000Z", "700101000000", "701301000000Z", "700100000000Z", "70010100000xZ"] {
            assert_eq!(time(tag::UTC_TIME, text), Err(DerError), "{text}");
        }
        assert_eq!(time(tag::OCTET_STRING, "700101000000Z"), Err(DerError));
    }
}
