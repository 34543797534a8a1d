//! The file `raft-state`: the term a node has seen, and its vote in it. Neither may be forgotten, or a node could vote
//! twice. While many entries are written at once it also has the offset from which on none of them was acknowledged.
//! The file is replaced as a whole, after its copy; its bytes are a record batch, for its CRC.

use std::io;
use std::path::Path;

use raft::eraftpb::HardState;
use storage::disk::Disk;
use wire::batch::BatchBuilder;
use wire::state::Stored;

use super::{QuorumError, batches, copies};

pub(super) const NAME: &str = "raft-state";
const BYTES_MAX: usize = 4096;

wire::message! {
    pub struct RaftState {
        term: i64, 0..;
        vote: i64, 0..;
        /// A lower bound: entries below were committed.
        commit: i64, 0..;
        /// -1 where nothing is being written.
        unpromised_offset: i64 = -1, 0.., tag 0;
    }
}

impl Stored for RaftState {
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

/// What the file says: the state, and the offset from which on entries were being written that were not acknowledged.
/// `None` when it is not there. Anything that was not written by [`write`] is an error.
pub(super) fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<(HardState, Option<i64>)>, QuorumError> {
    copies::read(disk, &dir.join(NAME), BYTES_MAX, parse)
}

/// The same, without restoring anything.
pub(super) fn look_at(disk: &dyn Disk, dir: &Path) -> Result<Option<(HardState, Option<i64>)>, QuorumError> {
    copies::look_at(disk, &dir.join(NAME), BYTES_MAX, parse)
}

fn parse(bytes: Vec<u8>) -> Result<(HardState, Option<i64>), QuorumError> {
    let batches = batches::parse(bytes.into())?;
    let values = batches.first().map(batches::values).transpose()?.unwrap_or_default();
    let [value] = &values[..] else { return Err(QuorumError::corrupt("raft-state has no state")) };
    let state = RaftState::read_versioned(value).map_err(QuorumError::corrupt)?;
    let number = |field: i64| u64::try_from(field).map_err(QuorumError::corrupt);
    // An id uses all 64 bits.
    let (term, vote, commit) = (number(state.term)?, state.vote as u64, number(state.commit)?);
    let unpromised_offset = Some(state.unpromised_offset).filter(|offset| *offset >= 0);
    Ok((HardState { term, vote, commit, ..HardState::default() }, unpromised_offset))
}

/// Durable when this returns.
pub(super) fn write(disk: &dyn Disk, dir: &Path, state: &HardState, unpromised_offset: Option<i64>) -> io::Result<()> {
    // Terms and indexes are counted up from 0, so far they do not get.
    let number = |field: u64| i64::try_from(field).unwrap_or(i64::MAX);
    let state = RaftState {
        term: number(state.term),
        vote: state.vote as i64,
        commit: number(state.commit),
        unpromised_offset: unpromised_offset.unwrap_or(-1),
    };
    let mut builder = BatchBuilder::new();
    builder.push(0, None, Some(&state.write_versioned(0)), &[]);
    copies::write(disk, &dir.join(NAME), &builder.build().bytes)
}

#[cfg(test)]
mod tests {
    use storage::SimDisk;

    use super::*;

    #[test]
    fn is_read_back_and_garbage_is_an_error() {
        let disk = SimDisk::new(1);
        let dir = Path::new("/data/__cluster_metadata-0");
        disk.create_dir_all(dir).unwrap();
        assert!(read(&disk, dir).unwrap().is_none());
        for (vote, unpromised_offset) in [(2, None), (u64::MAX - 3, Some(0)), (1 << 63, Some(4711))] {
            let state = HardState { term: 7, vote, commit: 99, ..HardState::default() };
            write(&disk, dir, &state, unpromised_offset).unwrap();
            assert_eq!(read(&disk, dir).unwrap(), Some((state, unpromised_offset)));
        }
        let last = HardState { term: 7, vote: 1 << 63, commit: 99, ..HardState::default() };
        let good = disk.get(&dir.join(NAME)).unwrap();
        for index in 0..good.len() {
            let mut bad = good.clone();
            bad[index] ^= 0x10;
            disk.put(&dir.join(NAME), &bad);
            assert_eq!(read(&disk, dir).unwrap(), Some((last.clone(), Some(4711))), "{index}: the copy is good");
            disk.put(&copies::copy_of(&dir.join(NAME)), &bad);
            disk.put(&dir.join(NAME), &bad);
            // The batch's base offset and epoch lie outside its CRC, and say nothing here.
            assert!((index < 8 || (12..16).contains(&index)) || read(&disk, dir).is_err(), "{index}");
            disk.put(&copies::copy_of(&dir.join(NAME)), &good);
        }
        for garbage in [vec![], vec![0; 100], vec![0xff; 100], vec![1; 5000], good[..good.len() - 1].to_vec()] {
            disk.put(&dir.join(NAME), &garbage);
            disk.put(&copies::copy_of(&dir.join(NAME)), &garbage);
            assert!(matches!(read(&disk, dir), Err(QuorumError::Corrupt(_))));
        }
    }
}
