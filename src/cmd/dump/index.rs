//! The indexes of a segment, checked against its log file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use storage::disk::{File, OpenMode, read_up_to};

use super::Dump;
use super::log_file::{LogFile, base_offset};

const OFFSET_ENTRY_BYTES: usize = 8;
const TIME_ENTRY_BYTES: usize = 12;
/// `AbortedTxn`: a version, the producer, the first and last offsets, and the last stable offset.
const TRANSACTION_ENTRY_BYTES: usize = 34;
/// A multiple of all of them.
const STEP_BYTES: usize = OFFSET_ENTRY_BYTES * TIME_ENTRY_BYTES * TRANSACTION_ENTRY_BYTES * 16;

/// The entries of an index file, a few at a time.
struct Entries {
    file: Arc<dyn File>,
    position: u64,
    buffer: Vec<u8>,
    at: usize,
}

impl Entries {
    fn open(dump: &Dump<'_>, path: &Path) -> io::Result<Self> {
        let file = dump.disk.open(path, OpenMode::Read)?;
        Ok(Self { file, position: 0, buffer: Vec::new(), at: 0 })
    }

    /// The next entry; one that is cut off counts as the end.
    fn next<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        if self.at == self.buffer.len() {
            self.buffer.resize(STEP_BYTES, 0);
            let filled = read_up_to(&*self.file, &mut self.buffer, self.position)?;
            self.buffer.truncate(filled);
            self.position += filled as u64;
            self.at = 0;
        }
        let entry = self.buffer[self.at..].first_chunk().copied();
        self.at += N;
        Ok(entry)
    }
}

fn field<const N: usize>(entry: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&entry[at..at + N]);
    bytes
}

/// The log file beside an index.
fn log_of(path: &Path, suffix: &str) -> PathBuf {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    path.with_file_name(name.replacen(suffix, ".log", 1))
}

impl Dump<'_> {
    /// The base offset and the log file, or the damage told.
    fn indexed(&mut self, path: &Path, suffix: &str) -> io::Result<Option<(i64, LogFile)>> {
        self.title()?;
        let Some(base) = base_offset(path) else {
            self.damage(format_args!("its name is not that of a segment's file"))?;
            return Ok(None);
        };
        match LogFile::open(self, &log_of(path, suffix)) {
            Ok(log) => Ok(Some((base, log))),
            Err(error) => {
                self.damage(format_args!("its log file cannot be read: {error}"))?;
                Ok(None)
            }
        }
    }

    /// Each entry says where the batch stands whose last offset it has. (Kafka, when it wrote several batches at once,
    /// notes the first one's position with the last one's offset.)
    pub(super) fn offset_index(&mut self, path: &Path) -> io::Result<()> {
        #[derive(Serialize)]
        struct Entry {
            offset: i64,
            position: u32,
        }
        let Some((base, log)) = self.indexed(path, ".index")? else { return Ok(()) };
        let mut entries = Entries::open(self, path)?;
        let mut last: Option<Entry> = None;
        while let Some(entry) = entries.next::<OFFSET_ENTRY_BYTES>()? {
            let relative = u32::from_be_bytes(field(&entry, 0));
            let position = u32::from_be_bytes(field(&entry, 4));
            // Kafka makes the file of the active segment longer in advance.
            if relative == 0 && position == 0 {
                break;
            }
            let offset = base.saturating_add(relative.into());
            self.line(format_args!("offset: {offset} position: {position}"), &Entry { offset, position })?;
            if last.is_some_and(|last| last.offset >= offset || last.position >= position) {
                self.damage(format_args!(
                    "offset {offset}, position {position}: the entry is not behind the one before"
                ))?;
            }
            match log.header(position.into())? {
                Some(header) if header.base_offset <= offset => {}
                Some(header) => self.damage(format_args!(
                    "offset {offset}, position {position}: the batch there starts at offset {}",
                    header.base_offset
                ))?,
                None => {
                    self.damage(format_args!("offset {offset}, position {position}: there is no batch in the log"))?;
                }
            }
            last = Some(Entry { offset, position });
        }
        Ok(())
    }

    /// Each entry says which batch has the greatest timestamp so far.
    pub(super) fn time_index(&mut self, path: &Path) -> io::Result<()> {
        #[derive(Serialize)]
        struct Entry {
            timestamp: i64,
            offset: i64,
        }
        let Some((base, log)) = self.indexed(path, ".timeindex")? else { return Ok(()) };
        let mut entries = Entries::open(self, path)?;
        let mut position = 0;
        let mut last: Option<Entry> = None;
        while let Some(entry) = entries.next::<TIME_ENTRY_BYTES>()? {
            let timestamp = i64::from_be_bytes(field(&entry, 0));
            let relative = u32::from_be_bytes(field(&entry, 8));
            if timestamp == 0 && relative == 0 {
                break;
            }
            let offset = base.saturating_add(relative.into());
            self.line(format_args!("timestamp: {timestamp} offset: {offset}"), &Entry { timestamp, offset })?;
            if last.is_some_and(|last| last.timestamp >= timestamp || last.offset > offset) {
                self.damage(format_args!("offset {offset}: the entry is not behind the one before"))?;
            }
            // Both are in the order of their offsets, so one walk through the log checks all entries.
            let mut header = log.header(position)?;
            while let Some(passed) = header.filter(|header| header.last_offset() < offset) {
                position += passed.size() as u64;
                header = log.header(position)?;
            }
            match header {
                Some(header) if header.base_offset <= offset && header.max_timestamp == timestamp => {}
                Some(header) if header.base_offset <= offset => self.damage(format_args!(
                    "offset {offset}: the index says {timestamp}, the batch at position {position} has {}",
                    header.max_timestamp
                ))?,
                _ => self.damage(format_args!("offset {offset}: there is no such batch in the log"))?,
            }
            last = Some(Entry { timestamp, offset });
        }
        Ok(())
    }

    pub(super) fn transaction_index(&mut self, path: &Path) -> io::Result<()> {
        #[derive(Serialize)]
        struct Aborted {
            version: i16,
            producer_id: i64,
            first_offset: i64,
            last_offset: i64,
            last_stable_offset: i64,
        }
        self.title()?;
        let mut entries = Entries::open(self, path)?;
        while let Some(entry) = entries.next::<TRANSACTION_ENTRY_BYTES>()? {
            let aborted = Aborted {
                version: i16::from_be_bytes(field(&entry, 0)),
                producer_id: i64::from_be_bytes(field(&entry, 2)),
                first_offset: i64::from_be_bytes(field(&entry, 10)),
                last_offset: i64::from_be_bytes(field(&entry, 18)),
                last_stable_offset: i64::from_be_bytes(field(&entry, 26)),
            };
            self.line(
                format_args!(
                    "version: {} producerId: {} firstOffset: {} lastOffset: {} lastStableOffset: {}",
                    aborted.version,
                    aborted.producer_id,
                    aborted.first_offset,
                    aborted.last_offset,
                    aborted.last_stable_offset
                ),
                &aborted,
            )?;
        }
        Ok(())
    }
}
