//! From what was asked for to records.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::query::{From, Plan, Positions};
use crate::failure::Failure;
use crate::format::count;
use crate::page::topic::find;
use crate::reading::{Bounds, Evaluation, Filter, Message, Spans, Unknown, Wanted, begin_at, bounds, read};
use crate::request_context::RequestContext;
use crate::text::Show;

/// How long one waits for others who look at records.
const PATIENCE: Duration = Duration::from_secs(10);

/// The partitions of a topic that exists.
pub(crate) struct Watched {
    pub partitions: Vec<i32>,
}

pub(crate) async fn watched(context: &RequestContext) -> Result<Watched, Failure> {
    let snapshot = context.snapshot_with(|snapshot| find(context, snapshot).is_ok()).await?;
    let topic = find(context, &snapshot)?;
    Ok(Watched { partitions: topic.partitions.iter().map(|partition| partition.index).collect() })
}

/// What was found, and how to go on from there.
pub(crate) struct Look {
    /// In the order in which they are shown.
    pub messages: Vec<Message>,
    /// The offsets that there are.
    pub bounds: Spans,
    /// The offsets that were looked through.
    pub spans: Spans,
    /// The same, as positions.
    pub starts: Positions,
    pub ends: Positions,
    /// Positions of what comes before and behind, where there is something.
    pub older: Option<Positions>,
    pub newer: Option<Positions>,
    pub problems: BTreeMap<i32, String>,
    pub notes: Vec<String>,
    pub is_cut: bool,
    pub records: u64,
    pub bytes: u64,
    /// Of what was looked through, what the expression could not be evaluated on.
    pub unknown: Unknown,
    /// The memory of the messages is that of few looks.
    _permit: OwnedSemaphorePermit,
}

pub(crate) async fn permit(context: &RequestContext) -> Result<OwnedSemaphorePermit, Failure> {
    let permit = timeout(PATIENCE, Arc::clone(&context.console.looks).acquire_owned()).await;
    match permit {
        Ok(Ok(permit)) => Ok(permit),
        _ => Err(Failure::unavailable("too many others look at records right now: try again in a moment")),
    }
}

pub(crate) async fn look(context: &RequestContext, watched: &Watched, plan: &Plan) -> Result<Look, Failure> {
    let permit = permit(context).await?;
    let (client, topic) = (&context.client, context.param("topic"));
    let partitions = plan.partition.map_or_else(|| watched.partitions.clone(), |partition| vec![partition]);
    let Bounds { spans: logs, problems } = bounds(client, topic, &partitions).await;
    let mut from = Bounds { spans: logs.clone(), problems };
    if let From::Time(ms) = plan.from
        && plan.after.is_none()
        && plan.before.is_none()
    {
        begin_at(client, topic, &mut from, ms).await;
    }
    let (wanted_spans, notes) = narrowed(plan, &logs, from.spans);
    let filter = filter(context, plan);
    let evaluation = filter.evaluation.clone();
    let wanted = Wanted { topic: topic.to_owned(), filter, limit: plan.limit, is_backward: plan.is_backward() };
    let mut found = read(client, &wanted, &wanted_spans).await;
    if plan.is_backward() != plan.is_newest_first() {
        found.messages.reverse();
    }
    from.problems.extend(found.problems);
    let starts: Positions = found.spans.iter().map(|(partition, span)| (*partition, span.start)).collect();
    let ends: Positions = found.spans.iter().map(|(partition, span)| (*partition, span.end)).collect();
    let has_older = starts.iter().any(|(partition, start)| logs.get(partition).is_some_and(|log| log.start < *start));
    let has_newer = ends.iter().any(|(partition, end)| logs.get(partition).is_some_and(|log| *end < log.end));
    // Partitions that cannot be read now keep the position that they came with.
    let kept = |positions: &Positions| {
        let mut kept = plan.before.clone().or_else(|| plan.after.clone()).unwrap_or_default();
        kept.extend(positions);
        kept
    };
    Ok(Look {
        older: has_older.then(|| kept(&starts)),
        newer: has_newer.then(|| kept(&ends)),
        messages: found.messages,
        bounds: logs,
        spans: found.spans,
        starts,
        ends,
        problems: from.problems,
        notes,
        is_cut: found.is_cut,
        records: found.records,
        bytes: found.bytes,
        unknown: evaluation.map_or_else(Unknown::default, |evaluation| evaluation.take_unknown()),
        _permit: permit,
    })
}

/// What records are compared with. An expression has them decoded even where they are shown as they are.
pub(crate) fn filter(context: &RequestContext, plan: &Plan) -> Filter {
    let show = match plan.show {
        Show::Text | Show::Json | Show::Hex => Show::Auto,
        show => show,
    };
    let evaluation = |expression| Arc::new(Evaluation::new(expression, context.decoder(show)));
    Filter { evaluation: plan.expression.clone().map(evaluation), ..plan.filter.clone() }
}

/// The offsets to look through, and what should be said of them.
fn narrowed(plan: &Plan, logs: &Spans, from: Spans) -> (Spans, Vec<String>) {
    let mut notes = Vec::new();
    let spans = from.into_iter().map(|(partition, span)| {
        let Range { mut start, mut end } = span;
        let log = &logs[&partition];
        let at = |positions: &Option<Positions>, missing: i64| {
            let position = positions.as_ref().map(|positions| positions.get(&partition).copied());
            position.map(|position| position.unwrap_or(missing))
        };
        let (after, before) = (at(&plan.after, log.start), at(&plan.before, log.end));
        if after.is_some() || before.is_some() {
            start = after.unwrap_or(log.start);
            end = before.unwrap_or(log.end);
        } else if let From::Offset(offset) = plan.from {
            start = offset;
        }
        let is_alone = plan.partition.is_some();
        if start < log.start && (is_alone || after.is_some()) {
            let (offset, first) = (count(start), count(log.start));
            notes.push(format!("Offset {offset} of partition {partition} is gone: it begins at {first} now."));
        } else if start > log.end && is_alone {
            let (offset, next) = (count(start), count(log.end));
            notes.push(format!("Offset {offset} of partition {partition} is still to come: the next one is {next}."));
        }
        let start = start.clamp(log.start, log.end);
        (partition, start..end.clamp(start, log.end.max(start)))
    });
    let spans = spans.collect();
    notes.truncate(super::NAMED_MAX);
    (spans, notes)
}

#[cfg(test)]
mod tests {
    use super::super::MessagesQuery;
    use super::*;

    fn plan(partition: &str, from: &str, after: &str, before: &str) -> Plan {
        let text = |text: &str| text.to_owned();
        let (kind, offset) = from.split_once(' ').unwrap_or((from, ""));
        let asked = MessagesQuery {
            partition: text(partition),
            from: text(kind),
            offset: text(offset),
            after: text(after),
            before: text(before),
            ..MessagesQuery::default()
        };
        asked.plan(2).unwrap()
    }

    fn spans(plan: &Plan, notes: &[&str]) -> Vec<(i32, i64, i64)> {
        let mut logs = Spans::from([(0, 5..100), (1, 0..0)]);
        logs.retain(|partition, _| plan.partition.is_none_or(|chosen| chosen == *partition));
        let (spans, noted) = narrowed(plan, &logs, logs.clone());
        assert_eq!(noted, notes);
        spans.into_iter().map(|(partition, span)| (partition, span.start, span.end)).collect()
    }

    #[test]
    fn offsets_are_moved_to_where_there_are_records() {
        assert_eq!(spans(&plan("", "start", "", ""), &[]), [(0, 5, 100), (1, 0, 0)]);
        assert_eq!(spans(&plan("", "offset 50", "", ""), &[]), [(0, 50, 100), (1, 0, 0)]);
        let gone = "Offset 3 of partition 0 is gone: it begins at 5 now.";
        assert_eq!(spans(&plan("0", "offset 3", "", ""), &[gone]), [(0, 5, 100)]);
        let to_come = "Offset 300 of partition 0 is still to come: the next one is 100.";
        assert_eq!(spans(&plan("0", "offset 300", "", ""), &[to_come]), [(0, 100, 100)]);
    }

    #[test]
    fn positions_go_before_the_beginning_that_was_chosen() {
        assert_eq!(spans(&plan("", "offset 50", "0:20", ""), &[]), [(0, 20, 100), (1, 0, 0)]);
        assert_eq!(spans(&plan("", "newest", "", "0:20,1:7"), &[]), [(0, 5, 20), (1, 0, 0)]);
        assert_eq!(spans(&plan("", "newest", "0:10", "0:20"), &[]), [(0, 10, 20), (1, 0, 0)]);
        assert_eq!(spans(&plan("", "newest", "0:30", "0:20"), &[]), [(0, 30, 30), (1, 0, 0)]);
        let gone = "Offset 2 of partition 0 is gone: it begins at 5 now.";
        assert_eq!(spans(&plan("", "start", "0:2", ""), &[gone]), [(0, 5, 100), (1, 0, 0)]);
    }
}
