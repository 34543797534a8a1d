//! Reader, Writer and the [`message!`] macro: how Kafka's types look in bytes.
//!
//! A message knows its version and whether it is in the flexible (KIP-482) form from the [`Reader`] or [`Writer`] that
//! it passes through, so a nested struct needs no parameters of its own.

pub mod sample;

use bytes::{BufMut, Bytes, BytesMut};

use self::sample::Sample;
use crate::{ErrorCode, Uuid};

/// Why bytes are not the message that they claim to be. The connection that sent them is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("the message ends in the middle of a field")]
    Truncated,
    #[error("{0} bytes follow the end of the message")]
    Trailing(usize),
    #[error("a length of {0} is not possible here")]
    InvalidLength(i64),
    #[error("a value that may not be null is null")]
    UnexpectedNull,
    #[error("a string is not UTF-8")]
    InvalidUtf8,
    #[error("a variable-length number does not end")]
    InvalidVarint,
    #[error("the arrays of the message take more memory than a message of its size may")]
    TooLarge,
    #[error("the arrays of the request have more elements than its API allows")]
    TooManyElements,
    #[error("tagged fields are not in the order of their tags")]
    UnorderedTags,
    #[error("API {key} version {version} is not served")]
    UnsupportedVersion { key: i16, version: i16 },
    #[error("a stored record of type {key} and version {version} is not known")]
    UnknownRecord { key: u32, version: u32 },
    #[error("version {0} of a stored record is not known")]
    UnknownStoredVersion(i16),
    #[error("the CRC is not that of the bytes")]
    WrongCrc,
}

/// Longest string.
const STRING_BYTES_MAX: usize = i16::MAX as usize;

pub type Result<T> = std::result::Result<T, WireError>;

/// A value that can be read from and written to the wire.
pub trait Wire: Sized {
    fn read(r: &mut Reader<'_>) -> Result<Self>;
    fn write(&self, w: &mut Writer<'_>);
}

/// A cursor over one frame. Byte and record fields are slices of the frame, not copies.
///
/// A claimed length is compared with the bytes that are left before anything is allocated, all arrays of a message
/// together may take at most [`Reader::MEMORY_PER_BYTE`] bytes of memory per byte of the frame, and those of a request
/// have at most as many elements as its API allows ([`Api::elements_max`](crate::api::Api::elements_max)).
pub struct Reader<'a> {
    frame: &'a Bytes,
    position: usize,
    end: usize,
    version: i16,
    flexible: bool,
    memory: usize,
    /// How many elements may still be read. Tagged fields that are not known count, too.
    elements_left: usize,
}

impl<'a> Reader<'a> {
    /// Bound on memory amplification: an empty string is 1 byte on the wire and 24 in memory.
    pub const MEMORY_PER_BYTE: usize = 8;
    const MEMORY_MIN: usize = 64 * 1024;

    pub fn new(frame: &'a Bytes, version: i16, flexible: bool) -> Self {
        let memory = Self::MEMORY_MIN + frame.len() * Self::MEMORY_PER_BYTE;
        Self { frame, position: 0, end: frame.len(), version, flexible, memory, elements_left: usize::MAX }
    }

    /// Sets how many elements all following arrays may have together.
    pub fn limit_elements(&mut self, elements_max: usize) {
        self.elements_left = elements_max;
    }

    fn count_elements(&mut self, elements: usize) -> Result<()> {
        self.elements_left = self.elements_left.checked_sub(elements).ok_or(WireError::TooManyElements)?;
        Ok(())
    }

    /// Goes on in the same frame as another version, as a body does after its header.
    pub fn set_version(&mut self, version: i16, flexible: bool) {
        self.version = version;
        self.flexible = flexible;
    }

    pub fn version(&self) -> i16 {
        self.version
    }

    pub fn flexible(&self) -> bool {
        self.flexible
    }

    pub fn remaining(&self) -> usize {
        self.end - self.position
    }

    /// Fails unless everything has been read.
    pub fn finish(&self) -> Result<()> {
        match self.remaining() {
            0 => Ok(()),
            n => Err(WireError::Trailing(n)),
        }
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.frame[self.position..self.end].first_chunk::<N>().ok_or(WireError::Truncated)?;
        self.position += N;
        Ok(*bytes)
    }

    /// The next `length` bytes, sharing the frame's memory.
    pub fn slice(&mut self, length: usize) -> Result<Bytes> {
        if length > self.remaining() {
            return Err(WireError::Truncated);
        }
        let bytes = self.frame.slice(self.position..self.position + length);
        self.position += length;
        Ok(bytes)
    }

    fn str(&mut self, length: usize) -> Result<String> {
        if length > self.remaining() {
            return Err(WireError::Truncated);
        }
        let bytes = &self.frame[self.position..self.position + length];
        self.position += length;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| WireError::InvalidUtf8)
    }

    pub fn unsigned_varint(&mut self) -> Result<u32> {
        let mut value = 0u32;
        for shift in (0..35).step_by(7) {
            let [byte] = self.array()?;
            if shift == 28 && byte > 0x0f {
                return Err(WireError::InvalidVarint);
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireError::InvalidVarint)
    }

    /// The length of a string, of bytes or of an array: `None` is null. `classic` reads the form before KIP-482.
    fn length(&mut self, classic: impl FnOnce(&mut Self) -> Result<i64>) -> Result<Option<usize>> {
        let length = if self.flexible { i64::from(self.unsigned_varint()?) - 1 } else { classic(self)? };
        match length {
            -1 => Ok(None),
            0.. if length as usize <= self.remaining() => Ok(Some(length as usize)),
            0.. => Err(WireError::Truncated),
            _ => Err(WireError::InvalidLength(length)),
        }
    }

    /// A string may not be longer than its classic form can say, in either form.
    fn string_length(&mut self) -> Result<Option<usize>> {
        match self.length(|r| i16::read(r).map(i64::from))? {
            Some(length) if length > STRING_BYTES_MAX => Err(WireError::InvalidLength(length as i64)),
            length => Ok(length),
        }
    }

    fn bytes_length(&mut self) -> Result<Option<usize>> {
        self.length(|r| i32::read(r).map(i64::from))
    }

    fn elements<T: Wire>(&mut self) -> Result<Option<Vec<T>>> {
        let Some(length) = self.bytes_length()? else { return Ok(None) };
        self.count_elements(length)?;
        let memory = length * size_of::<T>();
        self.memory = self.memory.checked_sub(memory).ok_or(WireError::TooLarge)?;
        let mut elements = Vec::with_capacity(length);
        for _ in 0..length {
            elements.push(T::read(self)?);
        }
        Ok(Some(elements))
    }

    /// Reads the tagged fields that end a flexible struct. `known` reads a field it knows and returns true; the others
    /// are skipped. A tag comes once, and tags ascend (KIP-482), so that a field is not read again and again.
    pub fn tagged_fields(&mut self, mut known: impl FnMut(u32, &mut Self) -> Result<bool>) -> Result<()> {
        let mut tag_min = 0;
        for _ in 0..self.unsigned_varint()? {
            let tag = self.unsigned_varint()?;
            if u64::from(tag) < tag_min {
                return Err(WireError::UnorderedTags);
            }
            tag_min = u64::from(tag) + 1;
            let size = self.unsigned_varint()? as usize;
            if size > self.remaining() {
                return Err(WireError::Truncated);
            }
            let end = std::mem::replace(&mut self.end, self.position + size);
            if known(tag, self)? {
                self.finish()?;
            } else {
                self.count_elements(1)?;
            }
            self.position = self.end;
            self.end = end;
        }
        Ok(())
    }
}

/// Appends a message to a buffer. What would make the buffer longer than its limit is left out, and
/// [`Writer::is_overflown`] returns it.
pub struct Writer<'a> {
    out: &'a mut BytesMut,
    /// The longest that `out` may become.
    length_max: usize,
    is_overflown: bool,
    version: i16,
    flexible: bool,
    /// Where bytes that are not in `out` belong: see [`Records::Elsewhere`].
    splices: Vec<Splice>,
    errors: Vec<ErrorCode>,
    throttle_time: Option<ThrottleTime>,
}

/// Where a response says for how long its client is throttled, and what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottleTime {
    /// Position of the field in the buffer.
    pub position: usize,
    pub ms: i32,
}

/// A gap in what was written, to be filled from elsewhere when it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Splice {
    /// Position in the buffer behind which the bytes belong.
    pub position: usize,
    /// How many bytes.
    pub length: u32,
}

impl<'a> Writer<'a> {
    pub fn new(out: &'a mut BytesMut, version: i16, flexible: bool) -> Self {
        Self {
            out,
            length_max: usize::MAX,
            is_overflown: false,
            version,
            flexible,
            splices: Vec::new(),
            errors: Vec::new(),
            throttle_time: None,
        }
    }

    /// Lets so many bytes follow.
    pub fn limit_bytes(&mut self, bytes_max: usize) {
        self.length_max = self.out.len().saturating_add(bytes_max);
    }

    /// Whether something was left out because it would have gone beyond the limit: then what was written is no message.
    pub fn is_overflown(&self) -> bool {
        self.is_overflown
    }

    /// Goes on in the same buffer as another version, as a body does after its header.
    pub fn set_version(&mut self, version: i16, flexible: bool) {
        self.version = version;
        self.flexible = flexible;
    }

    pub fn version(&self) -> i16 {
        self.version
    }

    pub fn flexible(&self) -> bool {
        self.flexible
    }

    pub fn put(&mut self, bytes: &[u8]) {
        if bytes.len() > self.length_max.saturating_sub(self.out.len()) {
            self.is_overflown = true;
            return;
        }
        self.out.put_slice(bytes);
    }

    /// The gaps left by [`Records::Elsewhere`], in the order of their positions.
    pub fn into_splices(self) -> Vec<Splice> {
        self.splices
    }

    /// The error codes that were written, but for NONE.
    pub fn take_errors(&mut self) -> Vec<ErrorCode> {
        std::mem::take(&mut self.errors)
    }

    /// Writes the field of that name, which every response of Kafka has at most once.
    pub fn throttle_time_ms(&mut self, ms: i32) {
        self.throttle_time = Some(ThrottleTime { position: self.out.len(), ms });
        ms.write(self);
    }

    /// Where that was written, if it was.
    pub fn throttle_time(&self) -> Option<ThrottleTime> {
        self.throttle_time
    }

    pub fn unsigned_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.put(&[value as u8 | 0x80]);
            value >>= 7;
        }
        self.put(&[value as u8]);
    }

    fn length(&mut self, length: Option<usize>, classic: impl FnOnce(&mut Self, i32)) {
        let Ok(length) = length.map_or(Ok(-1), i32::try_from) else {
            self.is_overflown = true;
            return;
        };
        if self.flexible {
            self.unsigned_varint((length as u32).wrapping_add(1));
        } else {
            classic(self, length);
        }
    }

    /// What does not fit is cut: that can only be a text of our own, such as an error message that quotes a long name.
    fn string(&mut self, string: Option<&str>) {
        let string = string.map(|string| &string[..string.floor_char_boundary(STRING_BYTES_MAX)]);
        self.length(string.map(str::len), |w, length| w.put(&(length as i16).to_be_bytes()));
        self.put(string.unwrap_or_default().as_bytes());
    }

    fn bytes(&mut self, bytes: Option<&[u8]>) {
        self.length(bytes.map(<[u8]>::len), |w, length| w.put(&length.to_be_bytes()));
        self.put(bytes.unwrap_or_default());
    }

    fn elements<T: Wire>(&mut self, elements: Option<&[T]>) {
        self.length(elements.map(<[T]>::len), |w, length| w.put(&length.to_be_bytes()));
        for element in elements.unwrap_or_default() {
            if self.is_overflown {
                break;
            }
            element.write(self);
        }
    }

    /// One tagged field: its tag, its size, its value.
    pub fn tagged_field(&mut self, tag: u32, value: &impl Wire) {
        let mut content = BytesMut::new();
        let mut w = Writer::new(&mut content, self.version, self.flexible);
        w.limit_bytes(self.length_max.saturating_sub(self.out.len()));
        value.write(&mut w);
        self.is_overflown |= w.is_overflown;
        self.unsigned_varint(tag);
        self.unsigned_varint(content.len() as u32);
        self.put(&content);
    }
}

macro_rules! numbers {
    ($($ty:ty)*) => {$(
        impl Wire for $ty {
            fn read(r: &mut Reader<'_>) -> Result<Self> {
                r.array().map(<$ty>::from_be_bytes)
            }

            fn write(&self, w: &mut Writer<'_>) {
                w.put(&self.to_be_bytes());
            }
        }
    )*};
}

numbers!(i8 i16 i32 i64 u16 u32 f64);

impl Wire for bool {
    fn read(r: &mut Reader<'_>) -> Result<Self> {
        i8::read(r).map(|byte| byte != 0)
    }

    fn write(&self, w: &mut Writer<'_>) {
        i8::from(*self).write(w);
    }
}

impl Wire for ErrorCode {
    fn read(r: &mut Reader<'_>) -> Result<Self> {
        i16::read(r).map(Self)
    }

    fn write(&self, w: &mut Writer<'_>) {
        if !self.is_none() {
            w.errors.push(*self);
        }
        self.0.write(w);
    }
}

impl Wire for Uuid {
    fn read(r: &mut Reader<'_>) -> Result<Self> {
        r.array().map(Self)
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.put(&self.0);
    }
}

impl Wire for Option<String> {
    fn read(r: &mut Reader<'_>) -> Result<Self> {
        r.string_length()?.map(|length| r.str(length)).transpose()
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.string(self.as_deref());
    }
}

impl Wire for String {
    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Option::read(r)?.ok_or(WireError::UnexpectedNull)
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.string(Some(self));
    }
}

/// Bytes of its own: what is kept of a message, such as the metadata of a group's member, does not keep all of it.
impl Wire for Option<Bytes> {
    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let length = r.bytes_length()?;
        length.map(|length| r.slice(length).map(|bytes| Bytes::copy_from_slice(&bytes))).transpose()
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.bytes(self.as_deref());
    }
}

impl Wire for Bytes {
    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Option::read(r)?.ok_or(WireError::UnexpectedNull)
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.bytes(Some(self));
    }
}

/// Record batches in a message, sharing its memory.
#[derive(Clone, Debug, PartialEq)]
pub enum Records {
    Inline(Bytes),
    /// So many bytes that the sender will send from elsewhere (a log file): only their length is written here, and the
    /// [`Writer`] remembers where they belong.
    Elsewhere(u32),
}

impl Records {
    pub fn len(&self) -> usize {
        match self {
            Self::Inline(bytes) => bytes.len(),
            Self::Elsewhere(length) => *length as usize,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Wire for Option<Records> {
    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let length = r.bytes_length()?;
        length.map(|length| r.slice(length).map(Records::Inline)).transpose()
    }

    fn write(&self, w: &mut Writer<'_>) {
        match self {
            None => w.bytes(None),
            Some(Records::Inline(bytes)) => w.bytes(Some(bytes)),
            Some(Records::Elsewhere(length)) => {
                w.length(Some(*length as usize), |w, length| w.put(&length.to_be_bytes()));
                let position = w.out.len();
                w.splices.push(Splice { position, length: *length });
            }
        }
    }
}

impl<T: Wire> Wire for Option<Vec<T>> {
    fn read(r: &mut Reader<'_>) -> Result<Self> {
        r.elements()
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.elements(self.as_deref());
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn read(r: &mut Reader<'_>) -> Result<Self> {
        r.elements()?.ok_or(WireError::UnexpectedNull)
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.elements(Some(self));
    }
}

/// A struct declared by [`message!`].
pub trait Message: Wire + Sample + Default + Clone + PartialEq + std::fmt::Debug {}

impl<T: Message> Wire for Option<T> {
    fn read(r: &mut Reader<'_>) -> Result<Self> {
        match i8::read(r)? {
            ..0 => Ok(None),
            _ => T::read(r).map(Some),
        }
    }

    fn write(&self, w: &mut Writer<'_>) {
        match self {
            None => (-1i8).write(w),
            Some(value) => {
                1i8.write(w);
                value.write(w);
            }
        }
    }
}

/// A struct in a tagged field that may be null. In other fields a byte says whether the struct is there, here a varint.
#[derive(Clone, Debug, PartialEq)]
pub struct TaggedOption<T>(pub Option<T>);

/// Not null: Kafka's generator makes an empty struct of `"default": null`, so that null is what is written.
impl<T: Default> Default for TaggedOption<T> {
    fn default() -> Self {
        Self(Some(T::default()))
    }
}

impl<T: Message> Wire for TaggedOption<T> {
    fn read(r: &mut Reader<'_>) -> Result<Self> {
        match r.unsigned_varint()? {
            0 => Ok(Self(None)),
            _ => T::read(r).map(|value| Self(Some(value))),
        }
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.unsigned_varint(u32::from(self.0.is_some()));
        if let Some(value) = &self.0 {
            value.write(w);
        }
    }
}

/// Writes a value in a version that has no null for it: an empty one stands for null.
pub fn write_or_empty<T: Wire + Default>(value: &Option<T>, w: &mut Writer<'_>) {
    match value {
        Some(value) => value.write(w),
        None => T::default().write(w),
    }
}

/// Whether a tagged field is worth writing.
pub fn differs<T: PartialEq>(value: &T, default: T) -> bool {
    *value != default
}

/// Declares messages: the struct is the schema.
///
/// A field is `name: Type = default, versions, tag N, null versions;` where default, tag and null may be missing; null
/// is for an `Option` that may be null in some of its versions only. A field that the version
/// at hand does not have is read as its default and not written. A tagged field is written when it differs from its
/// default; tagged fields stand in the order of their tags.
///
/// ```
/// wire::message! {
///     pub struct Coordinator {
///         node_id: i32 = -1, 0..;
///         host: String, 0..=3;
///         rack: Option<String>, 2.., tag 0;
///     }
/// }
/// ```
#[macro_export]
macro_rules! message {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$field_meta:meta])* $field:ident : $ty:ty $(= $default:expr)?, $versions:expr $(, tag $tag:literal)? $(, null $nulls:expr)?;)*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $ty,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $crate::message!(@default $($default)?),)* }
            }
        }

        impl $crate::codec::Message for $name {}

        impl $crate::sample::Sample for $name {
            #[allow(unused_mut, unused_variables)]
            fn sample(s: &mut $crate::sample::Sampler<'_>) -> Self {
                let version = s.version();
                let mut message = Self::default();
                $(if ($versions).contains(&version) {
                    s.enter(stringify!($field));
                    message.$field = $crate::sample::Sample::sample(s);
                })*
                message
            }
        }

        impl $crate::codec::Wire for $name {
            #[allow(unused_mut, unused_variables)]
            fn read(r: &mut $crate::codec::Reader<'_>) -> $crate::codec::Result<Self> {
                let version = r.version();
                let mut message = Self::default();
                $($crate::message!(@read message r version $field $versions, $($nulls)?; $($tag)?);)*
                if r.flexible() {
                    r.tagged_fields(|tag, r| {
                        $($crate::message!(@read_tag message r version tag $field $versions, $($tag)?);)*
                        Ok(false)
                    })?;
                }
                Ok(message)
            }

            #[allow(unused_mut, unused_variables)]
            fn write(&self, w: &mut $crate::codec::Writer<'_>) {
                let version = w.version();
                $($crate::message!(@write self w version $field $versions, $($nulls)?; $($tag)?);)*
                if w.flexible() {
                    let mut count = 0u32;
                    $($crate::message!(@count self count version $field $versions, $($default)?, $($tag)?);)*
                    w.unsigned_varint(count);
                    $($crate::message!(@write_tag self w version $field $versions, $($default)?, $($tag)?);)*
                }
            }
        }
    )*};

    (@default) => { Default::default() };
    (@default $default:expr) => { $default };

    (@read $message:ident $r:ident $version:ident $field:ident $versions:expr, ; ) => {
        if ($versions).contains(&$version) {
            $message.$field = $crate::codec::Wire::read($r)?;
        }
    };
    (@read $message:ident $r:ident $version:ident $field:ident $versions:expr, $nulls:expr; ) => {
        if ($nulls).contains(&$version) {
            $message.$field = $crate::codec::Wire::read($r)?;
        } else if ($versions).contains(&$version) {
            $message.$field = Some($crate::codec::Wire::read($r)?);
        }
    };
    (@read $message:ident $r:ident $version:ident $field:ident $versions:expr, ; $tag:literal) => {};

    (@read_tag $message:ident $r:ident $version:ident $seen:ident $field:ident $versions:expr, ) => {};
    (@read_tag $message:ident $r:ident $version:ident $seen:ident $field:ident $versions:expr, $tag:literal) => {
        if $seen == $tag && ($versions).contains(&$version) {
            $message.$field = $crate::codec::Wire::read($r)?;
            return Ok(true);
        }
    };

    (@write $self:ident $w:ident $version:ident throttle_time_ms $versions:expr, ; ) => {
        if ($versions).contains(&$version) {
            $w.throttle_time_ms($self.throttle_time_ms);
        }
    };
    (@write $self:ident $w:ident $version:ident $field:ident $versions:expr, ; ) => {
        if ($versions).contains(&$version) {
            $crate::codec::Wire::write(&$self.$field, $w);
        }
    };
    (@write $self:ident $w:ident $version:ident $field:ident $versions:expr, $nulls:expr; ) => {
        if ($nulls).contains(&$version) {
            $crate::codec::Wire::write(&$self.$field, $w);
        } else if ($versions).contains(&$version) {
            $crate::codec::write_or_empty(&$self.$field, $w);
        }
    };
    (@write $self:ident $w:ident $version:ident $field:ident $versions:expr, ; $tag:literal) => {};

    (@count $self:ident $count:ident $version:ident $field:ident $versions:expr, $($default:expr)?, ) => {};
    (@count $self:ident $count:ident $version:ident $field:ident $versions:expr, $($default:expr)?, $tag:literal) => {
        if ($versions).contains(&$version) && $crate::codec::differs(&$self.$field, $crate::message!(@default $($default)?)) {
            $count += 1;
        }
    };

    (@write_tag $self:ident $w:ident $version:ident $field:ident $versions:expr, $($default:expr)?, ) => {};
    (@write_tag $self:ident $w:ident $version:ident $field:ident $versions:expr, $($default:expr)?, $tag:literal) => {
        if ($versions).contains(&$version) && $crate::codec::differs(&$self.$field, $crate::message!(@default $($default)?)) {
            $w.tagged_field($tag, &$self.$field);
        }
    };
}

#[cfg(test)]
#[expect(unreachable_pub, reason = "the macro declares public structs")]
mod tests;
