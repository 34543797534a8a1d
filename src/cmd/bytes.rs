//! Keys and values as text: as they are where they are UTF-8, in base64 where they are not.

use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};

/// Whoever leaves out the padding is understood.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

pub(crate) fn base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

/// Adds a field `name`, or `name_base64` where the bytes are not UTF-8.
pub(crate) fn put_json(object: &mut Map<String, Value>, name: &str, bytes: Option<&[u8]>) {
    match bytes.map(|bytes| (std::str::from_utf8(bytes), bytes)) {
        None => object.insert(name.to_owned(), Value::Null),
        Some((Ok(text), _)) => object.insert(name.to_owned(), Value::from(text)),
        Some((Err(_), bytes)) => object.insert(format!("{name}_base64"), Value::from(base64(bytes))),
    };
}

/// Takes what [`put_json`] has put: the bytes, null, or nothing at all.
pub(crate) fn take_json(object: &mut Map<String, Value>, name: &str) -> Result<Option<Vec<u8>>, String> {
    let encoded = format!("{name}_base64");
    match (object.remove(name), object.remove(&encoded)) {
        (Some(_), Some(_)) => Err(format!("{name:?} and {encoded:?} exclude each other")),
        (None | Some(Value::Null), None) | (None, Some(Value::Null)) => Ok(None),
        (Some(Value::String(text)), None) => Ok(Some(text.into_bytes())),
        // Numbers and whole documents are written as the JSON that they are.
        (Some(value), None) => Ok(Some(value.to_string().into_bytes())),
        (None, Some(Value::String(text))) => {
            from_base64(&text).map(Some).ok_or_else(|| format!("{encoded:?} is not base64"))
        }
        (None, Some(_)) => Err(format!("{encoded:?} is not a string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 4648.
    #[test]
    fn base64_is_the_standard_one() {
        let cases =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")];
        for (plain, encoded) in cases {
            assert_eq!(base64(plain.as_bytes()), encoded);
            assert_eq!(from_base64(encoded), Some(plain.as_bytes().to_vec()));
        }
        assert_eq!(base64(&[0xff, 0xfe, 0xfd]), "//79");
        for wrong in ["A", "Zm9vY", "Zm9!", "Zg==Zg=="] {
            assert_eq!(from_base64(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn json_carries_any_bytes_there_and_back() {
        for bytes in [None, Some(&b""[..]), Some(b"text \"quoted\""), Some(&[0xff, 0, 0x80])] {
            let mut object = Map::new();
            put_json(&mut object, "key", bytes);
            assert_eq!(take_json(&mut object, "key"), Ok(bytes.map(<[u8]>::to_vec)), "{bytes:?}");
            assert!(object.is_empty());
        }
    }

    #[test]
    fn json_that_makes_no_sense_is_refused() {
        for text in [r#"{"key":"a","key_base64":"YQ=="}"#, r#"{"key_base64":"!"}"#, r#"{"key_base64":1}"#] {
            let mut object = serde_json::from_str(text).unwrap();
            assert!(take_json(&mut object, "key").is_err(), "{text}");
        }
        let mut object = serde_json::from_str(r#"{"value":{"a":[1,2]}}"#).unwrap();
        assert_eq!(take_json(&mut object, "value"), Ok(Some(br#"{"a":[1,2]}"#.to_vec())));
    }
}
