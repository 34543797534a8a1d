//! Looks at logs that are simulated, with answers as small as they can be.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use client::{ByPartition, ClientError, FetchedBatches, TopicPartition};
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};
use wire::batch::{Batch, BatchBuilder};
use wire::compress::Codec;

use super::*;
use crate::decoding::Decoder;
use crate::expression::Expression;
use crate::text::Show;

/// Batches by partition, one of them in each answer.
#[derive(Default)]
struct Logs {
    batches: BTreeMap<i32, Vec<Batch>>,
    fetched: Mutex<Vec<(i32, i64)>>,
}

fn batch(base_offset: i64, records: &[(i64, &str)]) -> Batch {
    let mut builder = BatchBuilder::new().base_offset(base_offset);
    for (timestamp, value) in records {
        let headers: &[(&[u8], Option<&[u8]>)] = &[(b"of", Some(value.as_bytes())), (b"none", None)];
        builder.push(*timestamp, Some(b"key"), Some(value.as_bytes()), headers);
    }
    builder.build()
}

impl Logs {
    /// One record in each batch, at these times.
    fn with(mut self, partition: i32, times: impl IntoIterator<Item = i64>) -> Self {
        let batches = times.into_iter().enumerate();
        let batches = batches.map(|(offset, time)| batch(offset as i64, &[(time, &format!("{partition}-{offset}"))]));
        self.batches.insert(partition, batches.collect());
        self
    }

    fn spans(&self) -> Spans {
        let end = |batches: &Vec<Batch>| batches.last().map_or(0, |batch| batch.header.next_offset());
        self.batches.iter().map(|(partition, batches)| (*partition, 0..end(batches))).collect()
    }

    fn fetch(&self, offsets: Offsets) -> ByPartition<FetchedBatches> {
        let answer = |(of, offset): (TopicPartition, i64)| {
            self.fetched.lock().push((of.partition, offset));
            let Some(batches) = self.batches.get(&of.partition) else {
                let error = ClientError::NoLeader(of.clone());
                return (of, Err(error));
            };
            let batch = batches.iter().find(|batch| batch.header.next_offset() > offset);
            let batches = batch.cloned().into_iter().collect();
            (of, Ok(FetchedBatches { batches, damage: None, high_watermark: 0 }))
        };
        offsets.into_iter().map(answer).collect()
    }

    async fn look(&self, wanted: &Wanted, spans: &Spans) -> Found {
        let budget = Budget::new(RECORDS_MAX, BYTES_MAX, Instant::now() + TIME_MAX);
        look(async |offsets| self.fetch(offsets), wanted, spans, budget).await
    }
}

fn wanted(limit: usize, is_backward: bool) -> Wanted {
    Wanted { topic: "t".into(), filter: Filter::default(), limit, is_backward }
}

fn values(found: &Found) -> Vec<String> {
    let value = |message: &Message| String::from_utf8(message.value.clone().unwrap().to_vec()).unwrap();
    found.messages.iter().map(value).collect()
}

#[tokio::test]
async fn partitions_are_merged_by_time_and_keep_their_order() {
    // The third record of partition 0 has an older time than the one before it.
    let logs = Logs::default().with(0, [10, 30, 20, 60]).with(1, [15, 25, 65]).with(2, []);
    let found = logs.look(&wanted(4, false), &logs.spans()).await;
    assert_eq!(values(&found), ["0-0", "1-0", "1-1", "0-1"]);
    assert_eq!(found.spans, Spans::from([(0, 0..2), (1, 0..2), (2, 0..0)]));
    assert!(!found.is_cut);
    let rest = Spans::from([(0, 2..4), (1, 2..3), (2, 0..0)]);
    let found = logs.look(&wanted(4, false), &rest).await;
    assert_eq!(values(&found), ["0-2", "0-3", "1-2"]);
    assert_eq!(found.spans, rest);
}

#[tokio::test]
async fn backwards_begins_at_the_end() {
    let logs = Logs::default().with(0, [10, 30, 20, 60]).with(1, [15, 25, 65]).with(2, []);
    let found = logs.look(&wanted(3, true), &logs.spans()).await;
    assert_eq!(values(&found), ["1-2", "0-3", "1-1"]);
    assert_eq!(found.spans, Spans::from([(0, 3..4), (1, 1..3), (2, 0..0)]));
    let found = logs.look(&wanted(50, true), &Spans::from([(0, 0..3), (1, 0..1)])).await;
    assert_eq!(values(&found), ["0-2", "0-1", "1-0", "0-0"]);
    assert_eq!(found.spans, Spans::from([(0, 0..3), (1, 0..1)]));
}

#[tokio::test]
async fn backwards_reads_little_of_a_long_log() {
    let logs = Logs::default().with(0, 0..10_000);
    let found = logs.look(&wanted(50, true), &logs.spans()).await;
    assert_eq!(values(&found).first().unwrap(), "0-9999");
    assert_eq!(found.spans[&0], 9950..10_000);
    assert_eq!(found.records, 50);
}

#[tokio::test]
async fn both_ways_of_paging_meet_every_record_once() {
    let logs = Logs::default().with(0, (0..97).map(|at| at * 7 % 50)).with(1, (0..31).map(|at| at * 3)).with(2, 40..41);
    for is_backward in [false, true] {
        let (mut spans, mut met) = (logs.spans(), Vec::new());
        loop {
            let found = logs.look(&wanted(10, is_backward), &spans).await;
            if found.messages.is_empty() {
                break;
            }
            met.extend(values(&found));
            for (partition, covered) in found.spans {
                let span = spans.get_mut(&partition).unwrap();
                *span = if is_backward { span.start..covered.start } else { covered.end..span.end };
            }
        }
        assert_eq!(met.len(), 97 + 31 + 1);
        met.sort();
        met.dedup();
        assert_eq!(met.len(), 97 + 31 + 1);
    }
}

#[tokio::test]
async fn what_compaction_has_left_is_found() {
    let mut logs = Logs::default();
    let left = [0, 3, 1_000_000, 1_000_001, 9_999_999];
    logs.batches.insert(0, left.iter().map(|offset| batch(*offset, &[(*offset, &offset.to_string())])).collect());
    // The end is behind a batch of which nothing is left.
    let spans = Spans::from([(0, 0..20_000_000)]);
    logs.batches.get_mut(&0).unwrap().push({
        let mut empty = batch(19_999_999, &[(0, "x")]);
        empty.header.attributes = empty.header.attributes.with_control();
        empty
    });
    for (is_backward, first) in [(false, "0"), (true, "9999999")] {
        let found = logs.look(&wanted(50, is_backward), &spans).await;
        assert_eq!(found.messages.len(), 5);
        assert_eq!(values(&found)[0], first);
        assert_eq!(found.spans, spans);
    }
    assert!(logs.fetched.lock().len() < 100);
}

#[tokio::test]
async fn large_records_at_the_end_are_met_without_reading_many() {
    let mut logs = Logs::default();
    let large = "x".repeat(3 << 20);
    logs.batches.insert(0, (0..60).map(|offset| batch(offset, &[(offset, &large)])).collect());
    let found = logs.look(&wanted(50, true), &logs.spans()).await;
    assert!(found.is_cut);
    let offsets: Vec<_> = found.messages.iter().map(|message| message.offset).collect();
    assert!(offsets.len() >= 10, "{offsets:?}");
    assert_eq!(offsets, (0..60).rev().take(offsets.len()).collect::<Vec<_>>());
    assert_eq!(found.spans[&0], offsets[offsets.len() - 1]..60);
}

#[tokio::test]
async fn a_filter_ends_where_the_budget_does() {
    let logs = Logs::default().with(0, 0..100).with(1, 0..100);
    let mut wanted = wanted(50, false);
    wanted.filter.value = "-99".into();
    let budget = Budget::new(120, u64::MAX, Instant::now() + Duration::from_secs(600));
    let found = look(async |offsets| logs.fetch(offsets), &wanted, &logs.spans(), budget.clone()).await;
    assert!(found.is_cut && found.messages.is_empty());
    assert_eq!(found.records, 120);
    assert_eq!(found.spans, Spans::from([(0, 0..60), (1, 0..60)]));
    let rest = Spans::from([(0, 60..100), (1, 60..100)]);
    let found = look(async |offsets| logs.fetch(offsets), &wanted, &rest, budget).await;
    assert!(!found.is_cut);
    assert_eq!(values(&found), ["0-99", "1-99"]);
}

#[tokio::test]
async fn every_field_has_its_own_filter() {
    let logs = Logs::default().with(0, 0..12);
    let count = async |key: &str, value: &str, header: &str| {
        let filter = Filter { key: key.into(), value: value.into(), header: header.into(), evaluation: None };
        let found = logs.look(&Wanted { filter, ..wanted(50, false) }, &logs.spans()).await;
        found.messages.len()
    };
    assert_eq!(count("ke", "", "").await, 12);
    assert_eq!(count("0-1", "", "").await, 0);
    assert_eq!(count("", "0-1", "").await, 3);
    assert_eq!(count("", "", "0-1").await, 3);
    assert_eq!(count("", "", "none").await, 12);
    assert_eq!(count("key", "1", "0-11").await, 1);
}

fn evaluation(expression: &str) -> Arc<Evaluation> {
    let expression = Arc::new(Expression::parse(expression).unwrap());
    Arc::new(Evaluation::new(expression, Decoder::new(None, Show::Auto)))
}

#[tokio::test]
async fn an_expression_is_true_of_records_and_not_known_of_others() {
    let mut logs = Logs::default();
    let values_of = ["{\"n\":1}", "{\"n\":2.5,\"b\":[1]}", "text", "{\"other\":3}", "{\"n\":\"x\"}", "{\"n\":7}"];
    let batches = values_of.iter().enumerate().map(|(offset, value)| batch(offset as i64, &[(0, value)]));
    logs.batches.insert(0, batches.collect());
    let look = async |source: &str, key: &str| {
        let evaluation = evaluation(source);
        let filter = Filter { key: key.into(), evaluation: Some(Arc::clone(&evaluation)), ..Filter::default() };
        let found = logs.look(&Wanted { filter, ..wanted(50, false) }, &logs.spans()).await;
        (values(&found), evaluation.take_unknown())
    };
    let (found, unknown) = look("value.n > 2.0", "").await;
    assert_eq!(found, [values_of[1], values_of[5]]);
    // A text, one without the field, and one where it is no number.
    let (partition, offset, reason) = unknown.first.unwrap();
    assert_eq!((unknown.count, partition, offset), (3, 0, 2));
    assert!(!reason.is_empty());
    assert_eq!(look("has(value.n) && value.n == 7", "").await.0, [values_of[5]]);
    let (found, unknown) = look("offset >= 4 && key == 'key' && headers.of == value || value == 'text'", "ey").await;
    assert_eq!((found, unknown), (vec!["text".to_owned()], Unknown::default()));
    assert_eq!(look("headers.none == null && partition == 0 && timestamp == 0", "").await.0.len(), 6);
    // What other filters leave out is not evaluated.
    assert_eq!(look("value.n > 2.0", "none").await.1, Unknown::default());
}

#[tokio::test]
async fn expressions_that_take_long_end_with_the_time_of_the_look() {
    let many = format!("[{}]", vec!["1"; 500].join(","));
    let batch = batch(0, &vec![(0, many.as_str()); 1000]);
    let logs = Logs { batches: BTreeMap::from([(0, vec![batch])]), ..Logs::default() };
    let evaluation = evaluation("value.all(a, value.all(b, value.all(c, a == b && b == c)))");
    let filter = Filter { evaluation: Some(Arc::clone(&evaluation)), ..Filter::default() };
    let wanted = Wanted { filter, ..wanted(50, false) };
    let budget = Budget::new(RECORDS_MAX, BYTES_MAX, Instant::now());
    let found = look(async |offsets| logs.fetch(offsets), &wanted, &logs.spans(), budget).await;
    assert!(found.messages.is_empty());
    assert_eq!(found.records, 0);
    let budget = Budget::new(RECORDS_MAX, BYTES_MAX, Instant::now() + Duration::from_millis(50));
    let found = look(async |offsets| logs.fetch(offsets), &wanted, &logs.spans(), budget).await;
    assert!(found.is_cut && found.records < 1000, "{found:?}");
    assert_eq!(evaluation.take_unknown().count, found.records);
}

#[tokio::test]
async fn one_partition_that_fails_does_not_hide_the_others() {
    let logs = Logs::default().with(0, 0..3);
    let mut spans = logs.spans();
    spans.insert(1, 0..10);
    let found = logs.look(&wanted(50, false), &spans).await;
    assert_eq!(values(&found), ["0-0", "0-1", "0-2"]);
    assert_eq!(found.problems, BTreeMap::from([(1, "partition t-1 has no leader".to_owned())]));
    assert_eq!(found.spans[&1], 0..0);
    // A leader that has less than it said.
    spans.insert(1, 0..0);
    spans.insert(0, 0..5);
    let found = logs.look(&wanted(50, false), &spans).await;
    assert_eq!(values(&found).len(), 3);
    assert_eq!(found.problems, BTreeMap::from([(0, "its leader sends nothing from offset 3 on".to_owned())]));
}

#[tokio::test]
async fn a_damaged_batch_is_passed_over_and_said() {
    let mut logs = Logs::default().with(0, 0..3);
    let damaged = {
        let mut builder = BatchBuilder::new().base_offset(1).compression(Codec::Gzip, None);
        builder.push(0, None, Some(b"lost"), &[]);
        let mut bytes = builder.build().bytes.to_vec();
        let end = bytes.len();
        bytes[end - 12..].fill(0);
        Batch::parse(&Bytes::from(bytes)).unwrap()
    };
    logs.batches.get_mut(&0).unwrap()[1] = damaged;
    let found = logs.look(&wanted(50, false), &logs.spans()).await;
    assert_eq!(values(&found), ["0-0", "0-2"]);
    let problem = &found.problems[&0];
    assert!(problem.starts_with("offsets 1 to 1 cannot be read: "), "{problem}");
}

#[tokio::test]
async fn records_are_lines_of_json_with_all_of_their_bytes() {
    let mut logs = Logs::default();
    let mut builder = BatchBuilder::new().base_offset(7);
    let headers: &[(&[u8], Option<&[u8]>)] = &[(b"a", Some(b"1")), (b"a", Some(&[0xfe])), (b"b", None)];
    builder.push(1_700_000_000_123, Some(&[0xff, 0xfe]), Some("väl\0\"".as_bytes()), headers);
    builder.push(1_700_000_000_123, None, None, &[]);
    logs.batches.insert(3, vec![builder.build()]);
    let found = logs.look(&wanted(50, false), &Spans::from([(3, 7..9)])).await;
    let decoder = Decoder::new(None, Show::Auto);
    let lines: Vec<_> = found.messages.iter().map(|message| json_line("orders", message, &decoder)).collect();
    let first = "{\"headers\":[[\"a\",\"1\"],[\"a\",{\"base64\":\"/g==\"}],[\"b\",null]],\"key_base64\":\"//4=\",\
                 \"offset\":7,\"partition\":3,\"timestamp\":1700000000123,\"topic\":\"orders\",\
                 \"value\":\"väl\\u0000\\\"\"}\n";
    let second = "{\"key\":null,\"offset\":8,\"partition\":3,\"timestamp\":1700000000123,\"topic\":\"orders\",\
                  \"value\":null}\n";
    assert_eq!(lines, [first, second]);
}
