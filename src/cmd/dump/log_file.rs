//! The log file of a segment: its headers and checksums.

use std::io;
use std::path::Path;
use std::sync::Arc;

use storage::disk::{File, OpenMode, read_exact_at, read_up_to};
use wire::batch::{BatchHeader, CRC_COVERS_FROM, HEADER_BYTES, MAGIC};

use super::Dump;

/// What is read at once to find a batch or to check one.
const STEP_BYTES: usize = 256 * 1024;

/// The offset in the name of a segment's file, which the entries of its indexes are relative to.
pub(super) fn base_offset(path: &Path) -> Option<i64> {
    path.file_name()?.to_str()?.split('.').next()?.parse().ok()
}

/// A log file, and how much of it there is.
pub(super) struct LogFile {
    pub(super) file: Arc<dyn File>,
    pub(super) length: u64,
}

impl LogFile {
    pub(super) fn open(dump: &Dump<'_>, path: &Path) -> io::Result<Self> {
        let file = dump.disk.open(path, OpenMode::Read)?;
        Ok(Self { length: file.len()?, file })
    }

    /// The header at a position, unless what stands there cannot be a batch that ends in this file.
    pub(super) fn header(&self, position: u64) -> io::Result<Option<BatchHeader>> {
        if position.saturating_add(HEADER_BYTES as u64) > self.length {
            return Ok(None);
        }
        let mut bytes = [0; HEADER_BYTES];
        read_exact_at(&*self.file, &mut bytes, position)?;
        let header = BatchHeader::parse(&bytes);
        Ok(self.is_plausible(position, &header).then_some(header))
    }

    fn is_plausible(&self, position: u64, header: &BatchHeader) -> bool {
        header.magic == MAGIC
            && header.base_offset >= 0
            && header.last_offset_delta >= 0
            && header.base_offset.checked_add(header.last_offset_delta.into()).is_some()
            && header.length >= 0
            && header.size() >= HEADER_BYTES
            && header.size() as u64 <= self.length - position
    }

    /// Whether the checksum of the batch at a position is right.
    pub(super) fn crc_fits(&self, position: u64, header: &BatchHeader) -> io::Result<bool> {
        let end = position + header.size() as u64;
        let mut at = position + CRC_COVERS_FROM as u64;
        let mut crc = 0;
        let mut buffer = vec![0; STEP_BYTES.min((end - at) as usize)];
        while at < end {
            let step = buffer.len().min((end - at) as usize);
            read_exact_at(&*self.file, &mut buffer[..step], at)?;
            crc = crc32c::crc32c_append(crc, &buffer[..step]);
            at += step as u64;
        }
        Ok(crc == header.crc)
    }

    /// The next sound batch behind a position: what looks like a header and has the right checksum.
    pub(super) fn find_batch(&self, mut position: u64) -> io::Result<Option<u64>> {
        let mut buffer = vec![0; STEP_BYTES + HEADER_BYTES];
        while position + (HEADER_BYTES as u64) <= self.length {
            let filled = read_up_to(&*self.file, &mut buffer, position)?;
            let windows = filled.saturating_sub(HEADER_BYTES - 1).min(STEP_BYTES);
            for i in 0..windows {
                let Some(bytes) = buffer[i..filled].first_chunk() else { break };
                let header = BatchHeader::parse(bytes);
                let at = position + i as u64;
                if self.is_plausible(at, &header) && self.crc_fits(at, &header)? {
                    return Ok(Some(at));
                }
            }
            match windows {
                0 => break,
                windows => position += windows as u64,
            }
        }
        Ok(None)
    }

    /// Whether only zeros follow, as in a file that was made longer in advance.
    pub(super) fn is_zero_from(&self, mut position: u64) -> io::Result<bool> {
        let mut buffer = vec![0; STEP_BYTES];
        while position < self.length {
            let filled = read_up_to(&*self.file, &mut buffer, position)?;
            if filled == 0 {
                break;
            }
            if buffer[..filled].iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            position += filled as u64;
        }
        Ok(true)
    }
}
