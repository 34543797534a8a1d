//! The records inside a batch: reading them in place, walking them without keeping anything, and writing them.
//!
//! The layout is that of `org.apache.kafka.common.record.DefaultRecord`: a size, then zigzag variable-length numbers
//! and length-prefixed bytes. Nothing here allocates by what the bytes claim.

use bytes::{BufMut, BytesMut};

use crate::batch::BatchHeader;
use crate::compress::{CompressError, Decompressor};

/// Why the records section of a batch is not what its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error("a record ends behind the end of its batch")]
    Truncated,
    #[error("a record is not as long as it says")]
    SizeMismatch,
    #[error("a length of {0} is not possible in a record")]
    InvalidLength(i32),
    #[error("a variable-length number does not end")]
    InvalidVarint,
    #[error("a record's offset is out of range")]
    OutOfRange,
    #[error("bytes follow the last record of the batch")]
    Trailing,
    #[error(transparent)]
    Compress(#[from] CompressError),
}

/// One record, borrowed from the bytes of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub offset: i64,
    pub timestamp: i64,
    pub key: Option<&'a [u8]>,
    /// `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
}

/// The headers of a record: a list, in which a key may occur more than once. Checked when the record was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a> {
    count: u32,
    bytes: &'a [u8],
}

/// One header: its key, and its value, which may be null.
pub type Header<'a> = (&'a [u8], Option<&'a [u8]>);

impl<'a> Headers<'a> {
    pub fn len(&self) -> usize {
        self.count as usize
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn iter(&self) -> HeaderIter<'a> {
        HeaderIter(Slice(self.bytes))
    }
}

impl<'a> IntoIterator for Headers<'a> {
    type Item = Header<'a>;
    type IntoIter = HeaderIter<'a>;

    fn into_iter(self) -> HeaderIter<'a> {
        self.iter()
    }
}

/// The headers of a record, one after the other.
#[derive(Clone, Debug)]
pub struct HeaderIter<'a>(Slice<'a>);

impl<'a> Iterator for HeaderIter<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        if self.0.0.is_empty() {
            return None;
        }
        read_header(&mut self.0).ok()
    }
}

/// Where the bytes of records come from.
pub(crate) trait Input {
    /// A field's bytes, as far as this input keeps them.
    type Field;

    fn byte(&mut self) -> Result<u8, RecordError>;
    fn field(&mut self, length: usize) -> Result<Self::Field, RecordError>;
    /// Bytes read so far, counted from anywhere.
    fn position(&self) -> usize;
    fn is_at_end(&mut self) -> Result<bool, RecordError>;

    fn varlong(&mut self) -> Result<i64, RecordError>;

    #[inline(always)]
    fn varint(&mut self) -> Result<i32, RecordError> {
        self.varlong()?.try_into().map_err(|_| RecordError::InvalidVarint)
    }

    /// A field after its length; -1 is null.
    #[inline(always)]
    fn nullable_field(&mut self) -> Result<Option<Self::Field>, RecordError> {
        match self.varint()? {
            -1 => Ok(None),
            length => self.field(checked_length(length)?).map(Some),
        }
    }
}

/// A number and its length, if it has one byte or two, as nearly every number in a record has.
#[inline(always)]
fn short_varlong(bytes: &[u8]) -> Option<(i64, usize)> {
    match *bytes {
        [first @ ..0x80, ..] => Some((zigzag(u64::from(first)), 1)),
        [first, second @ ..0x80, ..] => Some((zigzag(u64::from(first & 0x7f) | u64::from(second) << 7), 2)),
        _ => None,
    }
}

/// A number of any length, byte by byte.
#[cold]
fn long_varlong(mut byte: impl FnMut() -> Result<u8, RecordError>) -> Result<i64, RecordError> {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let byte = byte()?;
        if shift == 63 && byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(zigzag(value));
        }
    }
    Err(RecordError::InvalidVarint)
}

fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

fn checked_length(length: i32) -> Result<usize, RecordError> {
    usize::try_from(length).map_err(|_| RecordError::InvalidLength(length))
}

/// Bytes in memory.
#[derive(Clone, Debug)]
struct Slice<'a>(&'a [u8]);

impl<'a> Input for Slice<'a> {
    type Field = &'a [u8];

    #[inline(always)]
    fn varlong(&mut self) -> Result<i64, RecordError> {
        match short_varlong(self.0) {
            Some((number, length)) => {
                self.0 = &self.0[length..];
                Ok(number)
            }
            None => long_varlong(|| self.byte()),
        }
    }

    #[inline(always)]
    fn byte(&mut self) -> Result<u8, RecordError> {
        let (&byte, rest) = self.0.split_first().ok_or(RecordError::Truncated)?;
        self.0 = rest;
        Ok(byte)
    }

    #[inline(always)]
    fn field(&mut self, length: usize) -> Result<&'a [u8], RecordError> {
        let (field, rest) = self.0.split_at_checked(length).ok_or(RecordError::Truncated)?;
        self.0 = rest;
        Ok(field)
    }

    #[inline(always)]
    fn position(&self) -> usize {
        0usize.wrapping_sub(self.0.len())
    }

    fn is_at_end(&mut self) -> Result<bool, RecordError> {
        Ok(self.0.is_empty())
    }
}

/// Bytes that are decompressed as they are read; fields are skipped.
pub(crate) struct Stream<'a> {
    decompressor: Decompressor<'a>,
    position: usize,
}

impl<'a> Stream<'a> {
    pub(crate) fn new(decompressor: Decompressor<'a>) -> Self {
        Self { decompressor, position: 0 }
    }
}

impl Input for Stream<'_> {
    type Field = ();

    #[inline(always)]
    fn varlong(&mut self) -> Result<i64, RecordError> {
        match short_varlong(self.decompressor.fill()?) {
            Some((number, length)) => {
                self.decompressor.consume(length);
                self.position += length;
                Ok(number)
            }
            None => long_varlong(|| self.byte()),
        }
    }

    fn byte(&mut self) -> Result<u8, RecordError> {
        let byte = *self.decompressor.fill()?.first().ok_or(RecordError::Truncated)?;
        self.decompressor.consume(1);
        self.position += 1;
        Ok(byte)
    }

    fn field(&mut self, length: usize) -> Result<(), RecordError> {
        let mut left = length;
        while left > 0 {
            let step = self.decompressor.fill()?.len().min(left);
            if step == 0 {
                return Err(RecordError::Truncated);
            }
            self.decompressor.consume(step);
            left -= step;
        }
        self.position += length;
        Ok(())
    }

    fn position(&self) -> usize {
        self.position
    }

    fn is_at_end(&mut self) -> Result<bool, RecordError> {
        Ok(self.decompressor.fill()?.is_empty())
    }
}

fn read_header<I: Input>(input: &mut I) -> Result<(I::Field, Option<I::Field>), RecordError> {
    let key_length = input.varint()?;
    let key = input.field(checked_length(key_length)?)?;
    Ok((key, input.nullable_field()?))
}

/// A record as it stands in the batch.
struct RawRecord<F> {
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<F>,
    value: Option<F>,
    header_count: u32,
}

/// Reads a record up to its headers, skips those with `headers`, and checks the record's size.
#[inline(always)]
fn read_record<I: Input, H>(
    input: &mut I,
    headers: impl FnOnce(&mut I, u32) -> Result<H, RecordError>,
) -> Result<(RawRecord<I::Field>, H), RecordError> {
    let size = input.varint()?;
    let start = input.position();
    let _attributes = input.byte()?;
    let timestamp_delta = input.varlong()?;
    let offset_delta = input.varint()?;
    let key = input.nullable_field()?;
    let value = input.nullable_field()?;
    let header_count = input.varint()?;
    let header_count = u32::try_from(header_count).map_err(|_| RecordError::InvalidLength(header_count))?;
    let headers = headers(input, header_count)?;
    if usize::try_from(size) != Ok(input.position().wrapping_sub(start)) {
        return Err(RecordError::SizeMismatch);
    }
    Ok((RawRecord { timestamp_delta, offset_delta, key, value, header_count }, headers))
}

fn skip_headers<I: Input>(input: &mut I, count: u32) -> Result<(), RecordError> {
    // Every header takes at least two bytes, so a count that lies soon meets the end.
    for _ in 0..count {
        read_header(input)?;
    }
    Ok(())
}

/// What [`walk`] passes of a record.
pub(crate) struct Walked {
    pub(crate) index: i32,
    pub(crate) offset_delta: i32,
    pub(crate) timestamp_delta: i64,
    pub(crate) has_key: bool,
}

/// Reads the `count` records of a batch, and nothing must follow. Keeps nothing.
#[inline(always)]
fn walk_input<I: Input, E: From<RecordError>>(
    mut input: I,
    count: i32,
    mut record: impl FnMut(Walked) -> Result<(), E>,
) -> Result<(), E> {
    for index in 0..count {
        let (raw, ()) = read_record(&mut input, skip_headers)?;
        let RawRecord { timestamp_delta, offset_delta, key, .. } = raw;
        record(Walked { index, offset_delta, timestamp_delta, has_key: key.is_some() })?;
    }
    if input.is_at_end()? { Ok(()) } else { Err(RecordError::Trailing.into()) }
}

/// Walks the records of an uncompressed section.
#[inline(always)]
pub(crate) fn walk<E: From<RecordError>>(
    section: &[u8],
    count: i32,
    record: impl FnMut(Walked) -> Result<(), E>,
) -> Result<(), E> {
    walk_input(Slice(section), count, record)
}

/// Walks the records of a compressed section in a small buffer.
pub(crate) fn walk_compressed<E: From<RecordError>>(
    section: Decompressor<'_>,
    count: i32,
    record: impl FnMut(Walked) -> Result<(), E>,
) -> Result<(), E> {
    walk_input(Stream::new(section), count, record)
}

/// The records of an uncompressed or decompressed section, with the offsets and timestamps that the batch's header
/// gives them. After an error there is no next record.
pub struct RecordReader<'a> {
    header: BatchHeader,
    input: Slice<'a>,
    left: i32,
}

impl<'a> RecordReader<'a> {
    pub fn new(header: &BatchHeader, section: &'a [u8]) -> Self {
        Self { header: *header, input: Slice(section), left: header.record_count }
    }

    fn read(&mut self) -> Result<Record<'a>, RecordError> {
        let (raw, header_bytes) = read_record(&mut self.input, |input, count| {
            let before = input.0;
            skip_headers(input, count)?;
            Ok(&before[..before.len() - input.0.len()])
        })?;
        let offset = self.header.base_offset.checked_add(raw.offset_delta.into());
        let offset = offset.ok_or(RecordError::OutOfRange)?;
        let timestamp = self.header.record_timestamp(raw.timestamp_delta);
        let headers = Headers { count: raw.header_count, bytes: header_bytes };
        Ok(Record { offset, timestamp, key: raw.key, value: raw.value, headers })
    }
}

impl<'a> Iterator for RecordReader<'a> {
    type Item = Result<Record<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left <= 0 {
            let trailing = !std::mem::take(&mut self.input.0).is_empty();
            return trailing.then_some(Err(RecordError::Trailing));
        }
        let record = self.read();
        if record.is_ok() {
            self.left -= 1;
        } else {
            self.left = 0;
            self.input.0 = &[];
        }
        Some(record)
    }
}

fn varint_bytes(value: i64) -> usize {
    let zigzag = ((value << 1) ^ (value >> 63)) as u64;
    (64 - (zigzag | 1).leading_zeros() as usize).div_ceil(7)
}

fn put_varint(out: &mut BytesMut, value: i64) {
    let mut zigzag = ((value << 1) ^ (value >> 63)) as u64;
    while zigzag >= 0x80 {
        out.put_u8(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    out.put_u8(zigzag as u8);
}

fn field_bytes(field: Option<&[u8]>) -> usize {
    field.map_or(1, |field| varint_bytes(field.len() as i64) + field.len())
}

fn put_field(out: &mut BytesMut, field: Option<&[u8]>) {
    put_varint(out, field.map_or(-1, |field| field.len() as i64));
    out.put_slice(field.unwrap_or_default());
}

/// Appends one record.
pub(crate) fn put_record<'h, H>(
    out: &mut BytesMut,
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: H,
) where
    H: Iterator<Item = Header<'h>> + Clone,
{
    let mut header_count = 0;
    let mut size = 1 + varint_bytes(timestamp_delta) + varint_bytes(offset_delta.into());
    size += field_bytes(key) + field_bytes(value);
    for (key, value) in headers.clone() {
        header_count += 1;
        size += field_bytes(Some(key)) + field_bytes(value);
    }
    size += varint_bytes(header_count);

    out.reserve(size + 5);
    put_varint(out, size as i64);
    out.put_i8(0);
    put_varint(out, timestamp_delta);
    put_varint(out, offset_delta.into());
    put_field(out, key);
    put_field(out, value);
    put_varint(out, header_count);
    for (key, value) in headers {
        put_field(out, Some(key));
        put_field(out, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(record_count: i32) -> BatchHeader {
        BatchHeader { base_offset: 100, base_timestamp: 1000, record_count, ..BatchHeader::default() }
    }

    type Fields<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, Vec<Header<'a>>);

    fn section(records: &[Fields<'_>]) -> BytesMut {
        let mut out = BytesMut::new();
        for (i, (key, value, headers)) in records.iter().enumerate() {
            put_record(&mut out, -(i as i64), i as i32, *key, *value, headers.iter().copied());
        }
        out
    }

    #[test]
    fn records_come_back_with_nulls_and_duplicate_headers() {
        let headers: Vec<Header<'_>> = vec![(b"k", Some(b"1")), (b"k", None), (b"", Some(b"")), (b"k", Some(b"2"))];
        let section = section(&[
            (None, None, Vec::new()),
            (Some(b""), Some(b""), headers.clone()),
            (Some(b"key"), Some(&[9; 300]), Vec::new()),
        ]);
        let records: Vec<_> = RecordReader::new(&header(3), &section).map(Result::unwrap).collect();
        assert_eq!(records.len(), 3);
        assert_eq!(
            (records[0].offset, records[0].timestamp, records[0].key, records[0].value),
            (100, 1000, None, None)
        );
        assert_eq!((records[1].offset, records[1].timestamp, records[1].key), (101, 999, Some(&b""[..])));
        assert_eq!(records[1].headers.len(), 4);
        assert_eq!(records[1].headers.iter().collect::<Vec<_>>(), headers);
        assert_eq!(records[2].value.map(<[u8]>::len), Some(300));
        assert!(records[2].headers.is_empty());
    }

    #[test]
    fn every_truncation_is_an_error() {
        let section = section(&[
            (Some(b"key"), Some(&[9; 200]), vec![(b"k", Some(b"v")), (b"n", None)]),
            (None, None, Vec::new()),
        ]);
        for end in 0..section.len() {
            let mut reader = RecordReader::new(&header(2), &section[..end]);
            assert!(reader.by_ref().any(|record| record.is_err()), "{end}");
            assert!(reader.next().is_none(), "an error is the last item");
            assert!(walk(&section[..end], 2, |_| Ok::<_, RecordError>(())).is_err(), "{end}");
        }
    }

    #[test]
    fn counts_must_match() {
        let section = section(&[(None, None, Vec::new()), (None, None, Vec::new())]);
        let read = |count| {
            RecordReader::new(&header(count), &section).collect::<Result<Vec<_>, _>>().map(|records| records.len())
        };
        assert_eq!(read(1), Err(RecordError::Trailing));
        assert_eq!(read(2), Ok(2));
        assert_eq!(read(3), Err(RecordError::Truncated));
        assert_eq!(read(0), Err(RecordError::Trailing));
        assert_eq!(read(-1), Err(RecordError::Trailing));
    }

    /// A record from its fields' raw numbers: size, timestamp delta, offset delta, key, value, header count, the rest.
    fn raw(size: i64, key: i64, value: i64, headers: i64, rest: &[u8]) -> BytesMut {
        let mut out = BytesMut::new();
        put_varint(&mut out, size);
        out.put_i8(0);
        for number in [0, 0, key, value, headers] {
            put_varint(&mut out, number);
        }
        out.put_slice(rest);
        out
    }

    #[test]
    fn hostile_lengths_are_errors() {
        let read = |bytes: &[u8]| RecordReader::new(&header(1), bytes).next().unwrap().map(|_| ());
        assert_eq!(read(&raw(6, -1, -1, 0, &[])), Ok(()));
        assert_eq!(read(&raw(5, -1, -1, 0, &[])), Err(RecordError::SizeMismatch));
        assert_eq!(read(&raw(7, -1, -1, 0, &[0])), Err(RecordError::SizeMismatch));
        assert_eq!(read(&raw(-6, -1, -1, 0, &[])), Err(RecordError::SizeMismatch));
        assert_eq!(read(&raw(6, -2, -1, 0, &[])), Err(RecordError::InvalidLength(-2)));
        assert_eq!(read(&raw(6, -1, i32::MIN.into(), 0, &[])), Err(RecordError::InvalidLength(i32::MIN)));
        assert_eq!(read(&raw(10, i32::MAX.into(), -1, 0, &[])), Err(RecordError::Truncated));
        assert_eq!(read(&raw(6, -1, -1, -1, &[])), Err(RecordError::InvalidLength(-1)));
        assert_eq!(read(&raw(10, -1, -1, i32::MAX.into(), &[])), Err(RecordError::Truncated));
        assert_eq!(read(&raw(6, 1 << 40, -1, 0, &[])), Err(RecordError::InvalidVarint));
        // A header's key may not be null.
        assert_eq!(read(&raw(8, -1, -1, 1, &[1, 1])), Err(RecordError::InvalidLength(-1)));
        assert_eq!(read(&[0xff; 20]), Err(RecordError::InvalidVarint));
    }

    #[test]
    fn numbers_have_the_length_they_are_written_with() {
        for value in [0, -1, 63, 64, -64, -65, 8191, 8192, i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX, i64::MIN]
        {
            let mut out = BytesMut::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), varint_bytes(value), "{value}");
            assert_eq!(Slice(&out).varlong(), Ok(value));
        }
    }

    #[test]
    fn offsets_and_timestamps_do_not_panic() {
        let mut out = BytesMut::new();
        put_record(&mut out, i64::MAX, 1, None, None, std::iter::empty());
        let record = RecordReader::new(&header(1), &out).next().unwrap().unwrap();
        assert_eq!(record.timestamp, i64::MIN + 999, "as Java wraps it");
        let header = BatchHeader { base_offset: i64::MAX, ..header(1) };
        assert_eq!(RecordReader::new(&header, &out).next(), Some(Err(RecordError::OutOfRange)));
    }
}
