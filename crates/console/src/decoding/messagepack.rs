//! MessagePack, which says of itself what it is.

use rmpv::ValueRef;
use rmpv::decode::{Error, read_value_ref_with_max_depth};

use super::structure::{Budget, DEPTH_MAX, DecodeError, Structure, deeper, float};

/// What the reader counts as depth for a level of ours: a collection and its parts.
const READER_DEPTH_MAX: usize = 3 * DEPTH_MAX;

/// One value, which is all of the bytes.
pub(super) fn decode(bytes: &[u8]) -> Result<Structure, DecodeError> {
    let mut rest = bytes;
    // Collections grow as their parts are read, whatever length they claim.
    let value = read_value_ref_with_max_depth(&mut rest, READER_DEPTH_MAX).map_err(|error| match error {
        Error::InvalidMarkerRead(_) | Error::InvalidDataRead(_) => DecodeError::TooShort,
        Error::DepthLimitExceeded => DecodeError::TooDeep,
    })?;
    if !rest.is_empty() {
        return Err(DecodeError::TooLong(bytes.len() - rest.len()));
    }
    structure(value, 0, &mut Budget::new())
}

fn structure(value: ValueRef<'_>, depth: usize, budget: &mut Budget) -> Result<Structure, DecodeError> {
    budget.take(0)?;
    Ok(match value {
        ValueRef::Nil => Structure::Null,
        ValueRef::Boolean(value) => Structure::Boolean(value),
        ValueRef::Integer(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Structure::Int(value),
            (None, value) => Structure::Uint(value.unwrap_or(u64::MAX)),
        },
        ValueRef::F32(value) => float(value),
        ValueRef::F64(value) => Structure::Double(value),
        ValueRef::String(text) => {
            budget.take(text.as_bytes().len())?;
            match text.as_str() {
                Some(text) => Structure::Text(text.to_owned()),
                None => Structure::Bytes(text.as_bytes().to_vec()),
            }
        }
        ValueRef::Binary(bytes) => bytes_of(bytes, budget)?,
        ValueRef::Array(items) => {
            let depth = deeper(depth)?;
            Structure::List(items.into_iter().map(|item| structure(item, depth, budget)).collect::<Result<_, _>>()?)
        }
        ValueRef::Map(entries) => {
            let depth = deeper(depth)?;
            let entry = |(key, value)| Ok((name(structure(key, depth, budget)?), structure(value, depth, budget)?));
            Structure::Map(entries.into_iter().map(entry).collect::<Result<_, DecodeError>>()?)
        }
        ValueRef::Ext(kind, bytes) => Structure::Map(vec![
            ("type".to_owned(), Structure::Int(i64::from(kind))),
            ("data".to_owned(), bytes_of(bytes, budget)?),
        ]),
    })
}

fn bytes_of(bytes: &[u8], budget: &mut Budget) -> Result<Structure, DecodeError> {
    budget.take(bytes.len())?;
    Ok(Structure::Bytes(bytes.to_vec()))
}

/// A key that is no text, as its JSON.
fn name(key: Structure) -> String {
    match key {
        Structure::Text(text) => text,
        other => serde_json::to_string(&other).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(bytes: &[u8]) -> String {
        serde_json::to_string(&decode(bytes).unwrap()).unwrap()
    }

    #[test]
    fn all_kinds_of_values_are_read() {
        // {"a": [1, -1, 2^64-1, 1.5, 0.1f32, nil, true], 7: bin, "t": ext}
        let mut bytes = b"\x83\xa1a\x97\x01\xff\xcf\xff\xff\xff\xff\xff\xff\xff\xff".to_vec();
        bytes.extend(b"\xcb\x3f\xf8\0\0\0\0\0\0\xca\x3d\xcc\xcc\xcd\xc0\xc3\x07\xc4\x02\xff\0\xa1t\xd4\x05\x09");
        let expected = r#"{"a":[1,-1,18446744073709551615,1.5,0.1,null,true],"7":"/wA=","t":{"type":5,"data":"CQ=="}}"#;
        assert_eq!(json(&bytes), expected);
        assert_eq!(json(b"\xa3abc"), "\"abc\"");
        assert_eq!(json(b"\xa2\xff\xfe"), "\"//4=\"");
    }

    #[test]
    fn what_is_not_one_value_is_refused() {
        assert_eq!(decode(b"\x92\x01"), Err(DecodeError::TooShort));
        assert_eq!(decode(b"\x01\x02"), Err(DecodeError::TooLong(1)));
        // A list that claims four billion parts.
        assert_eq!(decode(b"\xdd\xff\xff\xff\xff\x01"), Err(DecodeError::TooShort));
        assert_eq!(decode(b"\xdb\xff\xff\xff\xffabc"), Err(DecodeError::TooShort));
        let nested = |depth| [vec![0x91; depth], vec![0xc0]].concat();
        assert!(decode(&nested(DEPTH_MAX)).is_ok());
        assert_eq!(decode(&nested(DEPTH_MAX + 1)), Err(DecodeError::TooDeep));
        assert_eq!(decode(&nested(1_000_000)), Err(DecodeError::TooDeep));
        let wide = [b"\xdd\x00\x0f\x00\x00".to_vec(), vec![0xc0; 0x000f_0000]].concat();
        assert_eq!(decode(&wide), Err(DecodeError::TooLarge));
    }
}
