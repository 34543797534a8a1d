//! Schemas of what is stored: Kafka's own, so that its tools read our files. One module per kind of record.

use std::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};

use crate::codec::{Reader, Result, Wire, WireError, Writer};

pub mod consumer_protocol;
pub mod control;
pub mod group;
pub mod metadata;
pub mod producer_snapshot;
pub mod transaction_log;

/// A stored message, and the versions that can be read.
pub trait Stored: Wire {
    const VERSIONS: RangeInclusive<i16>;
    /// First version in the flexible (KIP-482) form; `i16::MAX` where there is none.
    const FLEXIBLE_SINCE: i16;

    /// Reads a body of this version. Bytes that follow it are ignored, as Kafka does.
    fn read_body(bytes: &Bytes, version: i16) -> Result<Self> {
        Self::read(&mut Reader::new(bytes, version, version >= Self::FLEXIBLE_SINCE))
    }

    /// Appends the body in this version.
    fn write_body(&self, out: &mut BytesMut, version: i16) {
        self.write(&mut Writer::new(out, version, version >= Self::FLEXIBLE_SINCE));
    }

    /// Reads a body that follows its version.
    fn read_versioned(bytes: &Bytes) -> Result<Self> {
        let (version, body) = split_number(bytes)?;
        if !Self::VERSIONS.contains(&version) {
            return Err(WireError::UnknownStoredVersion(version));
        }
        Self::read_body(&body, version)
    }

    /// The version and the body in it.
    fn write_versioned(&self, version: i16) -> Bytes {
        let mut out = BytesMut::new();
        version.write(&mut Writer::new(&mut out, version, false));
        self.write_body(&mut out, version);
        out.freeze()
    }
}

/// The number that most stored records start with, and the rest.
fn split_number(bytes: &Bytes) -> Result<(i16, Bytes)> {
    let mut r = Reader::new(bytes, 0, false);
    let number = i16::read(&mut r)?;
    Ok((number, r.slice(r.remaining())?))
}

macro_rules! stored {
    ($($name:ident $versions:expr, $flexible_since:expr;)*) => {$(
        impl $crate::state::Stored for $name {
            const VERSIONS: std::ops::RangeInclusive<i16> = $versions;
            const FLEXIBLE_SINCE: i16 = $flexible_since;
        }
    )*};
}
use stored;
