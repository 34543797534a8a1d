//! Going through the records of batches, which takes processor time: those that match are kept.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use client::FetchedBatches;
use tokio::time::Instant;
use wire::batch::Batch;
use wire::record::{Record, RecordReader};

use super::{Evaluation, Message};

/// A batch that is larger than this when it is decompressed is not read.
const BATCH_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How many records are looked at between two looks at the clock.
const RECORDS_PER_LOOK: u64 = 1000;
/// The same where each has an expression evaluated.
const EVALUATIONS_PER_LOOK: u64 = 10;

/// What each field has to contain, and what has to be true of a record. Empty is everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub key: String,
    pub value: String,
    /// The name or the value of any header.
    pub header: String,
    pub evaluation: Option<Arc<Evaluation>>,
}

impl Filter {
    fn matches(&self, record: &Record<'_>) -> bool {
        let has = |field: Option<&[u8]>, part: &str| {
            part.is_empty() || field.is_some_and(|field| contains(field, part.as_bytes()))
        };
        has(record.key, &self.key)
            && has(record.value, &self.value)
            && (self.header.is_empty()
                || record
                    .headers
                    .iter()
                    .any(|(name, value)| contains(name, self.header.as_bytes()) || has(value, &self.header)))
    }
}

/// Whether `part`, which is not empty, occurs in `bytes`.
fn contains(mut bytes: &[u8], part: &[u8]) -> bool {
    while let Some(at) = bytes.iter().position(|byte| *byte == part[0]) {
        if bytes[at..].starts_with(part) {
            return true;
        }
        bytes = &bytes[at + 1..];
    }
    false
}

/// How much may be looked at.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    records: u64,
    bytes: u64,
    records_max: u64,
    bytes_max: u64,
    deadline: Instant,
}

impl Budget {
    pub(super) fn new(records_max: u64, bytes_max: u64, deadline: Instant) -> Self {
        Self { records: 0, bytes: 0, records_max, bytes_max, deadline }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.records >= self.records_max || self.bytes >= self.bytes_max || Instant::now() >= self.deadline
    }

    /// Records and bytes, decompressed.
    pub(super) fn used(&self) -> (u64, u64) {
        (self.records, self.bytes)
    }
}

/// Batches of one partition that are to be gone through.
pub(super) struct Scan {
    pub(super) partition: i32,
    pub(super) batches: FetchedBatches,
    /// Which of their records are looked at.
    pub(super) offsets: Range<i64>,
    pub(super) filter: Filter,
    /// More are not kept: the first ones are, and of a backward look the last ones.
    pub(super) limit: usize,
    pub(super) is_backward: bool,
    /// Of one record.
    pub(super) headers_max: usize,
    pub(super) budget: Budget,
}

pub(super) struct Scanned {
    pub(super) messages: VecDeque<Message>,
    /// The offset behind the last one that was looked at.
    pub(super) next: i64,
    pub(super) bytes: u64,
    pub(super) limit: usize,
    pub(super) budget: Budget,
    pub(super) problem: Option<String>,
    /// Whether nothing behind `next` can be read.
    pub(super) has_failed: bool,
}

impl Scan {
    pub(super) fn run(mut self) -> Scanned {
        let mut scanned = Scanned {
            messages: VecDeque::new(),
            next: self.offsets.start,
            bytes: 0,
            limit: self.limit,
            budget: self.budget.clone(),
            problem: None,
            has_failed: false,
        };
        let batches = std::mem::take(&mut self.batches.batches);
        for batch in batches {
            if scanned.budget.is_spent() || self.is_full(&scanned) || scanned.next >= self.offsets.end {
                return scanned;
            }
            self.scan(&batch, &mut scanned);
        }
        if let Some(damage) = &self.batches.damage
            && scanned.next < self.offsets.end
        {
            scanned.problem = Some(format!("offset {} cannot be read: {damage}", scanned.next));
            scanned.has_failed = true;
        }
        scanned
    }

    fn is_full(&self, scanned: &Scanned) -> bool {
        !self.is_backward && scanned.messages.len() >= self.limit
    }

    fn is_true_of(&self, record: &Record<'_>) -> bool {
        let evaluation = self.filter.evaluation.as_ref();
        evaluation.is_none_or(|evaluation| evaluation.is_true_of(self.partition, record, self.budget.deadline))
    }

    fn scan(&self, batch: &Batch, scanned: &mut Scanned) {
        let next = batch.header.next_offset();
        // Markers of transactions are no records.
        if batch.header.attributes.is_control() {
            scanned.budget.bytes += batch.bytes.len() as u64;
            scanned.next = next;
            return;
        }
        let section = match batch.records(BATCH_BYTES_MAX) {
            Ok(section) => section,
            Err(error) => {
                scanned.budget.bytes += batch.bytes.len() as u64;
                scanned.problem = Some(format!("offsets {} to {} cannot be read: {error}", scanned.next, next - 1));
                scanned.next = next;
                return;
            }
        };
        scanned.bytes += section.len() as u64;
        scanned.budget.bytes += section.len() as u64;
        let records_per_look = if self.filter.evaluation.is_some() { EVALUATIONS_PER_LOOK } else { RECORDS_PER_LOOK };
        for (at, record) in RecordReader::new(&batch.header, &section).enumerate() {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    scanned.problem = Some(format!("offsets {} to {} cannot be read: {error}", scanned.next, next - 1));
                    break;
                }
            };
            if record.offset < self.offsets.start {
                continue;
            }
            if record.offset >= self.offsets.end {
                break;
            }
            let is_time_to_look = at as u64 % records_per_look == records_per_look - 1;
            if self.is_full(scanned) || is_time_to_look && scanned.budget.is_spent() {
                scanned.next = record.offset;
                return;
            }
            scanned.budget.records += 1;
            if self.filter.matches(&record) && self.is_true_of(&record) {
                let message = Message::new(self.partition, &batch.header, &section, &record, self.headers_max);
                scanned.messages.push_back(message);
                if scanned.messages.len() > self.limit {
                    scanned.messages.pop_front();
                }
            }
            scanned.next = record.offset + 1;
        }
        scanned.next = next.max(scanned.next);
    }
}
