//! Fields by version, tagged fields, and bounds of what a reader allocates.

use super::*;

message! {
    pub struct Outer {
        id: i32 = -1, 0..;
        old: i8, 0..=1;
        inner: Vec<Inner>, 0..;
        maybe: Option<Inner>, 2..;
        note: String = "none".into(), 2.., tag 0;
        rack: Option<String>, 2.., tag 3;
        late: Option<String>, 1.., null 3..;
    }

    pub struct Inner {
        name: String, 0..;
    }
}

fn write(message: &impl Wire, version: i16) -> Bytes {
    let mut out = BytesMut::new();
    message.write(&mut Writer::new(&mut out, version, version >= 2));
    out.freeze()
}

fn read<T: Wire>(bytes: &[u8], version: i16) -> Result<T> {
    let bytes = Bytes::copy_from_slice(bytes);
    let mut r = Reader::new(&bytes, version, version >= 2);
    let message = T::read(&mut r)?;
    r.finish().map(|()| message)
}

#[test]
fn a_field_is_where_its_versions_are() {
    let message = Outer { id: 1, old: 2, inner: vec![Inner { name: "x".into() }], ..Outer::default() };
    assert_eq!(write(&message, 0)[..], [0, 0, 0, 1, 2, 0, 0, 0, 1, 0, 1, b'x']);
    assert_eq!(write(&message, 3)[..], [0, 0, 0, 1, 2, 2, b'x', 0, 0xff, 0, 0]);
    assert_eq!(read(&write(&message, 0), 0), Ok(message.clone()));
    assert_eq!(read(&write(&message, 3), 3), Ok(Outer { old: 0, ..message }));
}

#[test]
fn tagged_fields_are_written_when_they_differ() {
    let message = Outer { note: String::new(), rack: Some("r".into()), ..Outer::default() };
    let bytes = write(&message, 3);
    assert_eq!(bytes[7..], [2, 0, 1, 1, 3, 2, 2, b'r']);
    assert_eq!(read(&bytes, 3), Ok(message));
}

#[test]
fn unknown_tagged_fields_are_skipped_and_known_ones_must_fit() {
    let start = [0, 0, 0, 1, 1, 0xff, 0];
    let tagged = |tags: &[u8]| read::<Outer>(&[&start, tags].concat(), 3);
    assert_eq!(tagged(&[1, 9, 2, 7, 7]).map(|outer| outer.id), Ok(1));
    assert_eq!(tagged(&[1, 0, 3, 3, b'a', b'b']).map(|outer| outer.note), Ok("ab".into()));
    assert_eq!(tagged(&[1, 0, 4, 3, b'a', b'b', 0]), Err(WireError::Trailing(1)));
    assert_eq!(tagged(&[1, 0, 2, 3, b'a', b'b']), Err(WireError::Truncated));
    assert_eq!(tagged(&[1, 9, 3, 7, 7]), Err(WireError::Truncated));
    assert_eq!(tagged(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Err(WireError::Truncated));
    assert_eq!(tagged(&[0xff, 0xff, 0xff, 0xff, 0x1f]), Err(WireError::InvalidVarint));
    assert_eq!(tagged(&[1, 0, 1, 0]), Err(WireError::UnexpectedNull));
}

#[test]
fn nulls_are_where_they_may_be() {
    assert_eq!(read::<Option<String>>(&[0xff, 0xff], 0), Ok(None));
    assert_eq!(read::<String>(&[0xff, 0xff], 0), Err(WireError::UnexpectedNull));
    assert_eq!(read::<String>(&[0xff, 0xfe], 0), Err(WireError::InvalidLength(-2)));
    assert_eq!(read::<Option<Vec<i32>>>(&[0xff; 4], 0), Ok(None));
    assert_eq!(read::<Vec<i32>>(&[0xff; 4], 0), Err(WireError::UnexpectedNull));
    assert_eq!(read::<Option<Vec<i32>>>(&[0xff, 0xff, 0xff, 0xfe], 0), Err(WireError::InvalidLength(-2)));
    assert_eq!(read::<Option<Bytes>>(&[0], 2), Ok(None));
    assert_eq!(read::<Bytes>(&[0], 2), Err(WireError::UnexpectedNull));
    assert_eq!(read::<Option<Inner>>(&[0xff], 2), Ok(None));
}

#[test]
fn before_null_was_allowed_an_empty_value_stands_for_it() {
    let late = |late: Option<&str>| Outer { late: late.map(str::to_owned), ..Outer::default() };
    let both_ways = |message: &Outer, version| read::<Outer>(&write(message, version), version).map(|outer| outer.late);
    assert_eq!(both_ways(&late(None), 0), Ok(None));
    assert_eq!(both_ways(&late(None), 2), Ok(Some(String::new())));
    assert_eq!(both_ways(&late(Some("x")), 2), Ok(Some("x".to_owned())));
    assert_eq!(both_ways(&late(None), 3), Ok(None));
    let null = [0, 0, 0, 1, 1, 0xff, 0, 0];
    assert_eq!(read::<Outer>(&null, 2), Err(WireError::UnexpectedNull));
}

#[test]
fn strings_are_utf8_and_not_too_long() {
    assert_eq!(read::<String>(&[0, 1, 0xff], 0), Err(WireError::InvalidUtf8));
    let long = "x".repeat(STRING_BYTES_MAX);
    assert_eq!(read(&write(&long, 0), 0), Ok(long.clone()));
    assert_eq!(read(&write(&long, 2), 2), Ok(long.clone()));
    let mut longer = vec![0x81, 0x80, 0x02];
    longer.extend_from_slice(&[b'x'; STRING_BYTES_MAX + 1]);
    assert_eq!(read::<String>(&longer, 2), Err(WireError::InvalidLength(STRING_BYTES_MAX as i64 + 1)));
    // One of our own is cut between two characters.
    let own = format!("{}é", &long[1..]);
    assert_eq!(read(&write(&own, 0), 0), Ok(long[1..].to_owned()));
}

#[test]
fn memory_is_bounded_by_the_frame() {
    // 10,000 empty strings in 10,000 bytes: 24 bytes of memory each.
    let strings = |count: usize| write(&vec![String::new(); count], 2);
    assert!(read::<Vec<String>>(&strings(3000), 2).is_ok());
    assert_eq!(read::<Vec<String>>(&strings(10_000), 2), Err(WireError::TooLarge));
    assert_eq!(read::<Vec<i64>>(&[0x7f, 0xff, 0xff, 0xff], 0), Err(WireError::Truncated));
}

#[test]
fn elements_are_counted_in_all_arrays_together() {
    let lists = |lists: usize| write(&vec![vec![7i32; 3]; lists], 2);
    let read_limited = |bytes: &Bytes, elements_max| {
        let mut r = Reader::new(bytes, 2, true);
        r.limit_elements(elements_max);
        Vec::<Vec<i32>>::read(&mut r).map(|lists| lists.len())
    };
    assert_eq!(read_limited(&lists(4), 16), Ok(4));
    assert_eq!(read_limited(&lists(4), 15), Err(WireError::TooManyElements));
    assert_eq!(read_limited(&lists(4), 3), Err(WireError::TooManyElements));
}

#[test]
fn tagged_fields_that_nobody_knows_are_elements() {
    let bytes = Bytes::from_static(&[0, 0, 0, 1, 1, 0xff, 0, 3, 7, 0, 8, 0, 9, 0]);
    let read_limited = |elements_max| {
        let mut r = Reader::new(&bytes, 3, true);
        r.limit_elements(elements_max);
        Outer::read(&mut r).map(|outer| outer.id)
    };
    assert_eq!(read_limited(3), Ok(1));
    assert_eq!(read_limited(2), Err(WireError::TooManyElements));
    // A field that is known could come as often as it likes.
    let repeated = [0, 0, 0, 1, 1, 0xff, 0, 2, 0, 2, 2, b'a', 0, 2, 2, b'b'];
    assert_eq!(read::<Outer>(&repeated, 3), Err(WireError::UnorderedTags));
}

#[test]
fn nothing_is_written_beyond_the_limit() {
    let message = Outer { inner: vec![Inner { name: "abc".into() }; 30], ..Outer::default() };
    for version in 0..=3 {
        let whole = write(&message, version);
        for bytes_max in 0..whole.len() + 2 {
            let mut out = BytesMut::from(&b"before"[..]);
            let mut w = Writer::new(&mut out, version, version >= 2);
            w.limit_bytes(bytes_max);
            message.write(&mut w);
            assert_eq!(w.is_overflown(), bytes_max < whole.len(), "{version} {bytes_max}");
            assert!(out.len() <= 6 + bytes_max);
        }
    }
}
