//! Gathers records into batches, by the rules of Kafka's producer (`RecordAccumulator`, `BuiltInPartitioner`): one open
//! batch per partition, full ones in front of it, all of them within `buffer.memory`.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use client::Partitioner;
use tokio::time::Instant;
use wire::batch::{self, Batch, BatchBuilder};

use crate::settings::ProducerSettings;
use crate::split::{self, Part};
use crate::stats::Sent;

/// What a record takes in a batch beside its key and value, at most (`DefaultRecord.MAX_RECORD_OVERHEAD`).
const RECORD_OVERHEAD_BYTES: usize = 21;
/// How fast the estimate of what compression saves follows (`CompressionRatioEstimator`).
const RATIO_BETTER_STEP: f64 = 0.005;
const RATIO_WORSE_STEP: f64 = 0.05;

/// Id and epoch of an idempotent producer.
pub(crate) type ProducerId = (i64, i16);

/// A batch that takes records.
struct OpenBatch {
    builder: BatchBuilder,
    sent: Vec<Sent>,
    begun: Instant,
    reserved_bytes: usize,
}

/// A batch that is ready to be sent, for the first time or again.
pub(crate) struct ReadyBatch {
    pub(crate) bytes: Bytes,
    /// Without compression.
    pub(crate) plain_bytes: usize,
    pub(crate) sent: Vec<Sent>,
    pub(crate) begun: Instant,
    pub(crate) tries: u32,
    sequence: i32,
    reserved_bytes: usize,
}

/// What waits for one partition, oldest first.
pub(crate) struct Lane {
    /// The broker that leads the partition; -1 if there is none.
    pub(crate) leader: i32,
    /// Failed batches to retry, in their order. While there are any, nothing newer is sent.
    reenqueued: VecDeque<ReadyBatch>,
    /// Before then they are not sent.
    retry_at: Option<Instant>,
    /// The last one is open, the others are full.
    gathering: VecDeque<OpenBatch>,
    in_flight: usize,
    producer: Option<ProducerId>,
    next_sequence: i32,
    /// Whether the broker has taken a batch of this producer id. Until then it takes any sequence for the first one.
    is_known: bool,
    /// Sequences of records that were refused for good while others were under way behind them.
    refused: Vec<i32>,
}

impl Lane {
    /// Whether nothing may go out before what is under way has come to its end: sequences would not be in order.
    fn is_held_up(&self) -> bool {
        self.in_flight > 0 && (!self.refused.is_empty() || (self.producer.is_some() && !self.is_known))
    }

    /// In their order.
    fn reenqueue(&mut self, batch: ReadyBatch) {
        let is_before = |other: &ReadyBatch| other.begun <= batch.begun && other.sequence <= batch.sequence;
        let index = self.reenqueued.partition_point(is_before);
        self.reenqueued.insert(index, batch);
    }

    /// When nothing is under way any more, closes the gaps that refused records have left in the sequences
    /// (`TransactionManager.adjustSequencesDueToFailedBatch`).
    fn close_gaps(&mut self) {
        if self.in_flight > 0 || self.refused.is_empty() {
            return;
        }
        for batch in &mut self.reenqueued {
            let gaps = self.refused.iter().filter(|&&refused| refused < batch.sequence).count() as i32;
            batch.sequence = batch::add_sequence(batch.sequence, -gaps);
            let parsed = Batch::parse(&batch.bytes).expect("it was built here");
            batch.bytes = parsed.with_sequence(batch.sequence).bytes;
        }
        self.next_sequence = batch::add_sequence(self.next_sequence, -(self.refused.len() as i32));
        self.refused.clear();
    }
}

/// All partitions of a topic.
pub(crate) struct Batches {
    pub(crate) lanes: Vec<Lane>,
    partitioner: Partitioner,
    /// Bytes that went to the sticky partition since it was chosen.
    sticky_bytes: usize,
    buffered_bytes: usize,
    /// Compressed size by plain size, as far as is known.
    compression_ratio: f64,
    settings: ProducerSettings,
    /// Of every record.
    headers: Arc<[(Bytes, Bytes)]>,
    header_bytes: usize,
}

impl Batches {
    pub(crate) fn new(
        leaders: impl Iterator<Item = i32>,
        settings: ProducerSettings,
        headers: Arc<[(Bytes, Bytes)]>,
        seed: u64,
    ) -> Self {
        // Each has two lengths of at most 5 bytes.
        let header_bytes = headers.iter().map(|(name, value)| name.len() + value.len() + 10).sum();
        let lane = |leader| Lane {
            leader,
            reenqueued: VecDeque::new(),
            retry_at: None,
            gathering: VecDeque::new(),
            in_flight: 0,
            producer: None,
            next_sequence: 0,
            is_known: false,
            refused: Vec::new(),
        };
        Self {
            lanes: leaders.map(lane).collect(),
            partitioner: Partitioner::new(seed),
            sticky_bytes: 0,
            buffered_bytes: 0,
            compression_ratio: 1.0,
            settings,
            headers,
            header_bytes,
        }
    }

    /// Appends a record to a batch (`RecordAccumulator.append`). Returns false when there is no memory for it now.
    pub(crate) fn append(
        &mut self,
        key: Option<&[u8]>,
        value: &[u8],
        timestamp_ms: i64,
        sent: Sent,
        now: Instant,
    ) -> bool {
        let bytes = key.map_or(0, <[u8]>::len) + value.len() + self.header_bytes + RECORD_OVERHEAD_BYTES;
        let count = self.lanes.len();
        let mut partition = self.partitioner.partition(key, count);
        let limit = (self.settings.batch_bytes as f64 / self.compression_ratio) as usize;
        let has_room =
            |lane: &Lane| lane.gathering.back().is_some_and(|open| open.builder.size_bytes() + bytes <= limit);
        if !has_room(&self.lanes[partition]) {
            let reserved_bytes = self.settings.batch_bytes.max(bytes + batch::HEADER_BYTES);
            // One batch is allowed however small the memory, or nothing would ever be sent.
            if self.buffered_bytes > 0 && self.buffered_bytes + reserved_bytes > self.settings.buffer_bytes {
                return false;
            }
            let is_full = !self.lanes[partition].gathering.is_empty();
            if key.is_none() && (is_full || self.sticky_bytes >= self.settings.batch_bytes) {
                self.partitioner.batch_is_full(partition, count);
                self.sticky_bytes = 0;
                partition = self.partitioner.partition(None, count);
            }
            if !has_room(&self.lanes[partition]) {
                self.buffered_bytes += reserved_bytes;
                let builder =
                    BatchBuilder::new().compression(self.settings.compression, self.settings.compression_level);
                let open = OpenBatch { builder, sent: Vec::new(), begun: now, reserved_bytes };
                self.lanes[partition].gathering.push_back(open);
            }
        }
        if key.is_none() {
            self.sticky_bytes += bytes;
        }
        let open = self.lanes[partition].gathering.back_mut().expect("a batch with room was found or made");
        let headers: Vec<_> = self.headers.iter().map(|(name, value)| (&**name, Some(&**value))).collect();
        open.builder.push(timestamp_ms, key, Some(value), &headers);
        open.sent.push(sent);
        true
    }

    /// Whether the buffer is full for another batch.
    fn is_exhausted(&self) -> bool {
        self.buffered_bytes + self.settings.batch_bytes > self.settings.buffer_bytes
    }

    /// Whether nothing waits and nothing is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.buffered_bytes == 0
    }

    /// Whether a lane has something to send now.
    pub(crate) fn is_due(&self, lane: usize, now: Instant, flush: bool) -> bool {
        let lane = &self.lanes[lane];
        if lane.is_held_up() {
            return false;
        }
        if !lane.reenqueued.is_empty() {
            return lane.in_flight == 0 && lane.retry_at.is_none_or(|at| at <= now);
        }
        let Some(first) = lane.gathering.front() else { return false };
        let is_full = lane.gathering.len() > 1 || first.builder.size_bytes() >= self.settings.batch_bytes;
        is_full || flush || self.is_exhausted() || now >= first.begun + self.settings.linger
    }

    /// When a lane will have something to send, if nothing else happens.
    pub(crate) fn due_at(&self, lane: usize) -> Option<Instant> {
        let lane = &self.lanes[lane];
        if lane.is_held_up() {
            return None;
        }
        if !lane.reenqueued.is_empty() {
            return lane.retry_at.filter(|_| lane.in_flight == 0);
        }
        lane.gathering.front().map(|first| first.begun + self.settings.linger)
    }

    /// How large the next batch of a lane is, plain.
    pub(crate) fn next_bytes(&self, lane: usize) -> usize {
        let lane = &self.lanes[lane];
        match lane.reenqueued.front() {
            Some(reenqueued) => reenqueued.bytes.len(),
            None => lane.gathering.front().map_or(0, |first| first.builder.size_bytes()),
        }
    }

    /// Takes the oldest batch of a lane to send it, due or not. Nothing passes a batch that has to be sent again.
    pub(crate) fn take(&mut self, lane: usize, producer: Option<ProducerId>, now: Instant) -> Option<ReadyBatch> {
        let may_go_again = self.is_due(lane, now, false);
        let lane = &mut self.lanes[lane];
        if lane.is_held_up() {
            return None;
        }
        if !lane.reenqueued.is_empty() {
            if !may_go_again {
                return None;
            }
            lane.in_flight += 1;
            return lane.reenqueued.pop_front();
        }
        let OpenBatch { mut builder, sent, begun, reserved_bytes } = lane.gathering.pop_front()?;
        if lane.producer != producer {
            (lane.producer, lane.next_sequence, lane.is_known) = (producer, 0, false);
        }
        let sequence = lane.next_sequence;
        if let Some((id, epoch)) = producer {
            builder = builder.producer(id, epoch, sequence);
            lane.next_sequence = batch::add_sequence(sequence, sent.len() as i32);
            if self.settings.transactional_id.is_some() {
                builder = builder.transactional();
            }
        }
        lane.in_flight += 1;
        let plain_bytes = builder.size_bytes();
        let bytes = builder.build().bytes;
        let ratio = bytes.len() as f64 / plain_bytes as f64;
        self.compression_ratio = match ratio < self.compression_ratio {
            true => ratio.max(self.compression_ratio - RATIO_BETTER_STEP),
            false => ratio.min(self.compression_ratio + RATIO_WORSE_STEP),
        };
        Some(ReadyBatch { bytes, plain_bytes, sent, begun, tries: 1, sequence, reserved_bytes })
    }

    /// A batch of a lane was delivered.
    pub(crate) fn delivered(&mut self, lane: usize, batch: &ReadyBatch) {
        self.lanes[lane].is_known = true;
        self.end(lane, batch);
    }

    /// A batch of a lane has ended, acknowledged or failed.
    pub(crate) fn end(&mut self, lane: usize, batch: &ReadyBatch) {
        self.buffered_bytes -= batch.reserved_bytes;
        self.lanes[lane].in_flight -= 1;
        self.lanes[lane].close_gaps();
    }

    /// A batch with a single record was refused for good. What follows goes on without it.
    pub(crate) fn refused(&mut self, lane: usize, batch: &ReadyBatch) {
        if self.lanes[lane].producer.is_some() {
            self.lanes[lane].refused.push(batch.sequence);
        }
        self.end(lane, batch);
    }

    /// Splits a batch that is too large for the broker into two, which are sent instead
    /// (`RecordAccumulator.splitAndReenqueue`). Gives it back if it has a single record.
    pub(crate) fn split(&mut self, lane: usize, mut batch: ReadyBatch) -> Result<(), ReadyBatch> {
        let Ok(Some(parts)) = split::halves(&batch.bytes, &self.settings) else { return Err(batch) };
        self.buffered_bytes -= batch.reserved_bytes;
        // The size estimate of batches from now on assumes no compression.
        self.compression_ratio = self.compression_ratio.max(1.0);
        let lane = &mut self.lanes[lane];
        if lane.reenqueued.is_empty() {
            lane.retry_at = None;
        }
        for part in parts {
            let later = batch.sent.split_off(part.records);
            let sent = std::mem::replace(&mut batch.sent, later);
            let Part { bytes, sequence, plain_bytes, .. } = part;
            self.buffered_bytes += plain_bytes;
            lane.reenqueue(ReadyBatch {
                bytes,
                plain_bytes,
                sent,
                begun: batch.begun,
                tries: 1,
                sequence,
                reserved_bytes: plain_bytes,
            });
        }
        lane.in_flight -= 1;
        lane.close_gaps();
        Ok(())
    }

    /// A batch has to be sent again, not before `at`.
    pub(crate) fn put_back(&mut self, lane: usize, mut batch: ReadyBatch, at: Instant) {
        let lane = &mut self.lanes[lane];
        lane.in_flight -= 1;
        lane.retry_at = Some(at);
        batch.tries += 1;
        lane.reenqueue(batch);
        lane.close_gaps();
    }

    /// Whether one before those under way has failed, so that they cannot be in order.
    pub(crate) fn has_failed(&self, lane: usize) -> bool {
        !self.lanes[lane].reenqueued.is_empty() || !self.lanes[lane].refused.is_empty()
    }

    /// Gives up what waits in a lane since before `limit`. Returns how many records that are.
    pub(crate) fn expire(&mut self, lane: usize, limit: Instant) -> usize {
        let mut records = self.give_up_again(lane, |batch| batch.begun <= limit);
        let lane = &mut self.lanes[lane];
        while let Some(first) = lane.gathering.pop_front_if(|first| first.begun <= limit) {
            records += first.sent.len();
            self.buffered_bytes -= first.reserved_bytes;
        }
        records
    }

    /// Gives up batches to retry, since their producer id is no longer valid.
    pub(crate) fn give_up_failed(&mut self, lane: usize) -> usize {
        self.give_up_again(lane, |_| true)
    }

    fn give_up_again(&mut self, lane: usize, is_given_up: impl Fn(&ReadyBatch) -> bool) -> usize {
        let mut records = 0;
        self.lanes[lane].reenqueued.retain(|batch| {
            let is_kept = !is_given_up(batch);
            if !is_kept {
                records += batch.sent.len();
                self.buffered_bytes -= batch.reserved_bytes;
            }
            is_kept
        });
        records
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SENT: Sent = Sent { at_us: 0, bytes: 100, is_warm_up: false };

    fn batches(partitions: usize, pairs: &[(&str, &str)]) -> Batches {
        let mut settings = ProducerSettings::default();
        for (name, value) in pairs {
            settings.set(name, value).unwrap();
        }
        Batches::new((0..partitions).map(|_| 1), settings, Arc::new([]), 1)
    }

    fn append(batches: &mut Batches, key: Option<&[u8]>, now: Instant) -> bool {
        batches.append(key, &[b'x'; 100], 0, SENT, now)
    }

    #[test]
    fn a_batch_is_due_when_it_is_full_or_has_waited_or_is_flushed() {
        let mut batches = batches(1, &[("batch.size", "300"), ("linger.ms", "5")]);
        let now = Instant::now();
        assert!(append(&mut batches, None, now));
        assert!(!batches.is_due(0, now, false));
        assert!(batches.is_due(0, now, true));
        assert!(batches.is_due(0, now + Duration::from_millis(5), false));
        assert_eq!(batches.due_at(0), Some(now + Duration::from_millis(5)));
        assert!(append(&mut batches, None, now));
        assert!(append(&mut batches, None, now));
        assert!(batches.is_due(0, now, false), "the third record did not fit");
        assert_eq!(batches.take(0, None, now).unwrap().sent.len(), 2);
    }

    #[test]
    fn memory_is_bounded_and_comes_back() {
        let mut batches = batches(1, &[("batch.size", "1000"), ("buffer.memory", "2000")]);
        let now = Instant::now();
        let placed = (0..100).take_while(|_| append(&mut batches, None, now)).count();
        assert_eq!(placed, 2 * 8, "as many as fit into two batches");
        assert!(batches.is_due(0, now, false), "somebody waits for the memory");
        let first = batches.take(0, None, now).unwrap();
        assert!(!append(&mut batches, None, now));
        batches.end(0, &first);
        assert!(append(&mut batches, None, now));
    }

    #[test]
    fn records_without_keys_change_partitions_with_batches_and_those_with_keys_stay() {
        let mut batches = batches(3, &[("batch.size", "500")]);
        let now = Instant::now();
        (0..30).for_each(|_| assert!(append(&mut batches, None, now)));
        assert!(batches.lanes.iter().filter(|lane| !lane.gathering.is_empty()).count() > 1);
        let full = |open: &OpenBatch| open.sent.len() == 3;
        let partly = batches.lanes.iter().flat_map(|lane| &lane.gathering).filter(|open| !full(open)).count();
        assert_eq!(partly, 0);
        let mut batches = self::batches(3, &[]);
        (0..30).for_each(|_| assert!(append(&mut batches, Some(b"key"), now)));
        assert_eq!(batches.lanes.iter().filter(|lane| !lane.gathering.is_empty()).count(), 1);
    }

    #[test]
    fn what_failed_is_sent_again_in_order_before_anything_newer() {
        let mut batches = batches(1, &[("batch.size", "0"), ("linger.ms", "0")]);
        let now = Instant::now();
        (0..4).for_each(|_| assert!(append(&mut batches, None, now)));
        let producer = Some((7, 0));
        introduce(&mut batches, producer, now);
        let first = batches.take(0, producer, now).unwrap();
        let second = batches.take(0, producer, now).unwrap();
        assert_eq!((first.sequence, second.sequence), (1, 2));
        let later = now + Duration::from_millis(100);
        batches.put_back(0, second, later);
        assert!(batches.take(0, producer, later).is_none(), "the first is still under way");
        batches.put_back(0, first, later);
        assert!(batches.take(0, producer, now).is_none(), "it is too early");
        let order: Vec<i32> = (0..3)
            .map(|_| {
                let batch = batches.take(0, producer, later).unwrap();
                batches.end(0, &batch);
                batch.sequence
            })
            .collect();
        assert_eq!(order, [1, 2, 3]);
        assert!(batches.is_empty());
    }

    /// Sends a batch, which goes alone: with another one beside it a broker could take that as the first.
    fn introduce(batches: &mut Batches, producer: Option<ProducerId>, now: Instant) {
        let first = batches.take(0, producer, now).unwrap();
        assert!(batches.take(0, producer, now).is_none() && !batches.is_due(0, now, true));
        assert_eq!(batches.due_at(0), None);
        batches.delivered(0, &first);
    }

    #[test]
    fn a_batch_that_is_too_large_goes_out_again_in_parts_before_anything_newer() {
        let mut batches = batches(1, &[("batch.size", "1000"), ("linger.ms", "0")]);
        let (now, producer) = (Instant::now(), Some((7, 0)));
        (0..9).for_each(|_| assert!(append(&mut batches, None, now)));
        let large = batches.take(0, producer, now).unwrap();
        assert_eq!(large.sent.len(), 8);
        assert!(batches.split(0, large).is_ok());
        let parts: Vec<(i32, usize)> = (0..3)
            .map(|_| {
                let part = batches.take(0, producer, now).unwrap();
                batches.delivered(0, &part);
                (part.sequence, part.sent.len())
            })
            .collect();
        assert_eq!(parts, [(0, 4), (4, 4), (8, 1)]);
        assert!(batches.is_empty());
        assert!(append(&mut batches, None, now));
        let single = batches.take(0, producer, now).unwrap();
        assert!(batches.split(0, single).is_err(), "it has one record");
    }

    #[test]
    fn sequences_close_the_gap_that_a_refused_record_leaves() {
        let mut batches = batches(1, &[("batch.size", "0"), ("linger.ms", "0")]);
        let (now, producer) = (Instant::now(), Some((7, 0)));
        (0..6).for_each(|_| assert!(append(&mut batches, None, now)));
        introduce(&mut batches, producer, now);
        let sent: Vec<_> = (0..4).map(|_| batches.take(0, producer, now).unwrap()).collect();
        let [first, second, third, fourth] = sent.try_into().ok().unwrap();
        // The first and the third are too large; the others could not be in order.
        batches.refused(0, &first);
        assert!(batches.has_failed(0) && batches.take(0, producer, now).is_none(), "others are under way");
        batches.put_back(0, second, now);
        batches.refused(0, &third);
        batches.put_back(0, fourth, now);
        let order: Vec<i32> = (0..3)
            .map(|_| {
                let batch = batches.take(0, producer, now).unwrap();
                let header = Batch::parse(&batch.bytes).unwrap();
                header.verify_crc().unwrap();
                batches.delivered(0, &batch);
                assert_eq!(header.header.base_sequence, batch.sequence);
                batch.sequence
            })
            .collect();
        assert_eq!(order, [1, 2, 3], "the second, the fourth, and one that was sent never");
        assert!(batches.is_empty());
    }

    #[test]
    fn giving_up_frees_the_memory() {
        let mut batches = batches(1, &[("batch.size", "0")]);
        let now = Instant::now();
        (0..3).for_each(|_| assert!(append(&mut batches, None, now)));
        let first = batches.take(0, Some((7, 0)), now).unwrap();
        batches.put_back(0, first, now);
        assert_eq!(batches.give_up_failed(0), 1);
        assert_eq!(batches.expire(0, now - Duration::from_secs(1)), 0);
        assert_eq!(batches.expire(0, now), 2);
        assert!(batches.is_empty());
    }
}
