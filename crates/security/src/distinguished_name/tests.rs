//! Names against what Java makes of them: `tests/names/names.txt`, by `Names.java` beside it.

use super::*;

const NAMES: &str = include_str!("../../tests/names/names.txt");

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
}

/// A name of parts with one attribute each.
fn name(attributes: &[(&[u8], u8, &str)]) -> Vec<u8> {
    let value = |tag: u8, contents: &[u8]| [&[tag, contents.len() as u8], contents].concat();
    let parts = attributes.iter().flat_map(|(kind, tag, text)| {
        let attribute = [value(0x06, kind), value(*tag, text.as_bytes())].concat();
        value(0x31, &value(0x30, &attribute))
    });
    value(0x30, &parts.collect::<Vec<u8>>())
}

const CN: &[u8] = &[0x55, 0x04, 0x03];
const C: &[u8] = &[0x55, 0x04, 0x06];
const EMAIL: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x01];

#[test]
fn names_are_written_as_java_writes_them() {
    let mut count = 0;
    for line in NAMES.lines() {
        let (encoded, expected) = line.split_once(' ').unwrap();
        let expected = String::from_utf8(bytes(expected)).unwrap();
        assert_eq!(distinguished_name(&bytes(encoded)).as_deref(), Ok(expected.as_str()), "{encoded}");
        count += 1;
    }
    assert!(count > 400, "{count}");
}

#[test]
fn what_is_most_specific_comes_first() {
    assert_eq!(distinguished_name(&name(&[(C, 0x13, "US"), (CN, 0x0c, "a, b")])).as_deref(), Ok(r"CN=a\, b,C=US"));
    let with_email = name(&[(CN, 0x0c, "#a "), (EMAIL, 0x16, "a@b")]);
    assert_eq!(distinguished_name(&with_email).as_deref(), Ok(r"1.2.840.113549.1.9.1=#1603614062,CN=\#a\ "));
}

#[test]
fn what_is_no_name_is_refused() {
    let good = name(&[(C, 0x13, "US"), (CN, 0x0c, "a")]);
    for length in 0..good.len() {
        assert_eq!(distinguished_name(&good[..length]), Err(DerError));
    }
    assert_eq!(distinguished_name(&[good.as_slice(), &[0]].concat()), Err(DerError));
    // A part without attributes, an attribute with a third value.
    assert_eq!(distinguished_name(&[0x30, 0x02, 0x31, 0x00]), Err(DerError));
    let third = [0x30, 0x0d, 0x31, 0x0b, 0x30, 0x09, 0x06, 0x03, 0x55, 0x04, 0x03, 0x05, 0x00, 0x05, 0x00];
    assert_eq!(distinguished_name(&third), Err(DerError));
}
