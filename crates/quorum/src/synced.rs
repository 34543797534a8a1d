//! The file `synced-offset`: up to where the metadata log was on disk, so that its end cannot be lost unnoticed.
//!
//! A torn batch at the end of the log was never acknowledged, and is truncated. A damaged or missing one that was
//! acknowledged looks the same; this file tells them apart. It is written in place after each sync of the log and not
//! synced itself, so it costs a write: what it says is a lower bound, and what a kill leaves of it is exact. A start
//! makes that durable before it reads the log, and before the log is truncated it is lowered, durably. It has two
//! slots, written in turn, so that a torn write leaves the other.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use storage::disk::{Disk, File, OpenMode, read_up_to, write_all_at};

pub(super) const NAME: &str = "synced-offset";
const SLOT_BYTES: usize = 12;
const SLOTS: usize = 2;

pub(super) struct SyncedOffset {
    file: Arc<dyn File>,
    next_slot: usize,
    offset: i64,
}

/// What the file says; `None` if it is not there or damaged.
pub(super) fn read(disk: &dyn Disk, dir: &Path) -> io::Result<Option<i64>> {
    match open(disk, dir, OpenMode::Read)? {
        Some(file) => Ok(newest(&*file)?.map(|(offset, _)| offset)),
        None => Ok(None),
    }
}

/// Makes durable what a killed process has left: a start that is refused for it is refused after a power loss, too.
pub(super) fn sync(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    open(disk, dir, OpenMode::ReadWrite)?.map_or(Ok(()), |file| file.sync_data())
}

fn open(disk: &dyn Disk, dir: &Path, mode: OpenMode) -> io::Result<Option<Arc<dyn File>>> {
    match disk.open(&dir.join(NAME), mode) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        file => file.map(Some),
    }
}

/// The highest offset of an intact slot, and the index of that slot.
fn newest(file: &dyn File) -> io::Result<Option<(i64, usize)>> {
    let mut bytes = [0; SLOT_BYTES * SLOTS];
    let filled = read_up_to(file, &mut bytes, 0)?;
    let slots = bytes[..filled].chunks_exact(SLOT_BYTES).map(parse).zip(0..);
    Ok(slots.filter_map(|(offset, slot)| Some((offset?, slot))).max())
}

fn parse(slot: &[u8]) -> Option<i64> {
    let (offset, crc) = slot.split_first_chunk::<8>()?;
    (crc == crc32c::crc32c(offset).to_be_bytes()).then_some(i64::from_be_bytes(*offset))
}

fn slot(offset: i64) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    let bytes = offset.to_be_bytes();
    slot[..8].copy_from_slice(&bytes);
    slot[8..].copy_from_slice(&crc32c::crc32c(&bytes).to_be_bytes());
    slot
}

impl SyncedOffset {
    /// Begins with what is known to be on disk. Durable when this returns.
    pub(super) fn open(disk: &dyn Disk, dir: &Path, offset: i64) -> io::Result<Self> {
        let file = disk.open(&dir.join(NAME), OpenMode::Create)?;
        match newest(&*file)? {
            Some((known, slot)) if known == offset => Ok(Self { file, next_slot: (slot + 1) % SLOTS, offset }),
            _ => {
                let mut synced = Self { file, next_slot: 0, offset };
                synced.lower(offset)?;
                disk.sync_dir(dir)?;
                Ok(synced)
            }
        }
    }

    /// Writes that the log is on disk up to `offset`. If the write fails, a loss above it goes unnoticed.
    pub(super) fn raise(&mut self, offset: i64) {
        if offset <= self.offset {
            return;
        }
        let position = (self.next_slot * SLOT_BYTES) as u64;
        match write_all_at(&*self.file, &mut [IoSlice::new(&slot(offset))], position) {
            Ok(()) => (self.offset, self.next_slot) = (offset, (self.next_slot + 1) % SLOTS),
            Err(error) => tracing::debug!(%error, "how far the metadata log is on disk is not noted"),
        }
    }

    /// Lowers the offset before the log is truncated at `offset`. Durable when this returns.
    pub(super) fn lower(&mut self, offset: i64) -> io::Result<()> {
        let slots = [slot(offset), slot(offset)].concat();
        write_all_at(&*self.file, &mut [IoSlice::new(&slots)], 0)?;
        self.file.sync_data()?;
        self.offset = offset;
        Ok(())
    }

    pub(super) fn offset(&self) -> i64 {
        self.offset
    }
}

#[cfg(test)]
mod tests {
    use storage::SimDisk;

    use super::*;

    #[test]
    fn a_flipped_bit_and_a_lost_write_leave_a_lower_bound() {
        let dir = Path::new("/data");
        for seed in 0..50 {
            let disk = SimDisk::new(seed);
            disk.create_dir_all(dir).unwrap();
            assert_eq!(read(&disk, dir).unwrap(), None);
            let mut synced = SyncedOffset::open(&disk, dir, 7).unwrap();
            for offset in [9, 12, 40] {
                synced.raise(offset);
                assert_eq!(read(&disk, dir).unwrap(), Some(offset));
            }
            let bytes = disk.get(&dir.join(NAME)).unwrap();
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                disk.put(&dir.join(NAME), &flipped);
                assert!([Some(12), Some(40)].contains(&read(&disk, dir).unwrap()), "{bit}");
            }
            disk.put(&dir.join(NAME), &bytes);
            synced.lower(20).unwrap();
            synced.raise(25);
            disk.crash();
            assert!([Some(20), Some(25)].contains(&read(&disk, dir).unwrap()));
        }
    }
}
