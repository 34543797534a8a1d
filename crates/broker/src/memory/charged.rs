//! Bytes that hold a part of a budget.

use bytes::Bytes;

use super::Permit;

/// A buffer that is charged until its last slice is dropped.
pub struct Charged<B> {
    bytes: B,
    _permit: Permit,
}

impl<B: AsRef<[u8]> + Send + 'static> Charged<B> {
    pub fn share(bytes: B, permit: Permit) -> Bytes {
        Bytes::from_owner(Self { bytes, _permit: permit })
    }
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Charged<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}
