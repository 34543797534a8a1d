//! What readers of committed records get beside the records: which transactions in them were aborted
//! (`LocalLog.collectAbortedTransactions`). Bytes and list are of the same segments: a truncation or a compaction
//! meanwhile has them found anew.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use crate::error::ReadError;
use crate::markers;
use crate::part::Part;
use crate::scan::Item;
use crate::segment::Segment;
use crate::snapshot;
use crate::txn_index::AbortedTransaction;
use crate::view::{FoundSpan, LogView, Span};

impl LogView {
    /// [`LogView::span`] with the aborted transactions of its whole batches: those that end at `offset` or behind, and
    /// start below the end of the last of these batches. Consumers skip what such a producer wrote up to its marker, so
    /// that one too many would hide records, and one too few would show them what never happened. `end_offset` is at
    /// most the last stable offset.
    pub fn committed_span(
        &self,
        offset: i64,
        end_offset: i64,
        max_bytes: u32,
    ) -> Result<Option<(Span, Vec<AbortedTransaction>)>, ReadError> {
        self.find_committed(offset, end_offset, max_bytes, false)
    }

    /// The same for threads that must not wait: see [`LogView::span_at_once`].
    pub fn committed_span_at_once(
        &self,
        offset: i64,
        end_offset: i64,
        max_bytes: u32,
    ) -> Result<Option<(Span, Vec<AbortedTransaction>)>, ReadError> {
        self.find_committed(offset, end_offset, max_bytes, true)
    }

    fn find_committed(
        &self,
        offset: i64,
        end_offset: i64,
        max_bytes: u32,
        is_urgent: bool,
    ) -> Result<Option<(Span, Vec<AbortedTransaction>)>, ReadError> {
        loop {
            let Some(found) = self.find_span(offset, end_offset, max_bytes, is_urgent)? else { return Ok(None) };
            let Some(parts) = self.parts_from(&found.part.segment) else { continue };
            let aborted = aborted_in(self, &found, &parts, offset, is_urgent);
            if parts.iter().any(|part| part.segment.is_cut()) {
                continue;
            }
            return Ok(Some((found.span, aborted?)));
        }
    }

    /// A segment and all behind it, as they are now; `None` if it is none of the log any more.
    fn parts_from(&self, segment: &Arc<Segment>) -> Option<Vec<Part>> {
        let published = self.published();
        let first = published.segments.iter().position(|other| Arc::ptr_eq(segment, other))?;
        Some((first..published.segments.len()).map(|index| published.part(index)).collect())
    }

    /// Looks at a segment's transaction index, if nobody has, and makes it anew if it cannot be right.
    pub(crate) fn ensure_txn_index(&self, part: &Part) -> io::Result<()> {
        if part.segment.load_txn_index()? {
            return Ok(());
        }
        let segment = part.segment.base_offset();
        tracing::warn!(dir = %self.dir().display(), segment, "transaction index is garbage, rebuilding");
        self.rebuild_txn_index(part)
    }

    /// Finds the aborted transactions that end in a segment by their batches. Which are open where it starts is in the
    /// producer snapshot there, or in an older one and the batches behind that.
    pub(crate) fn rebuild_txn_index(&self, part: &Part) -> io::Result<()> {
        let base_offset = part.segment.base_offset();
        let (mut from, mut open) = (i64::MIN, BTreeMap::new());
        let snapshots = snapshot::offsets(self.disk(), self.dir())?;
        for &offset in snapshots.iter().rev().filter(|&&offset| offset <= base_offset) {
            if let Some(states) = snapshot::read(self.disk(), self.dir(), offset)? {
                let first = |state: &crate::ProducerState| Some((state.producer_id, state.current_txn_first_offset?));
                (from, open) = (offset, states.iter().filter_map(first).collect());
                break;
            }
        }
        let mut entries = Vec::new();
        let parts = self.published().with_sizes();
        let before = parts.iter().filter(|before| before.upper_offset > from);
        for walked in before.filter(|before| before.segment.base_offset() < base_offset).chain([part]) {
            let (file, mut walk) = (walked.segment.log_file()?, walked.headers()?);
            while let Some(item) = walk.step()? {
                let Item::Batch(position, header) = item else { continue };
                if header.base_offset < from || !header.attributes.is_transactional() {
                    continue;
                }
                if !header.attributes.is_control() {
                    open.entry(header.producer_id).or_insert(header.base_offset);
                } else if let Some(marker) = markers::read_at(&*file, position, &header)?
                    && let Some(first_offset) = open.remove(&header.producer_id)
                    && marker.is_abort
                    && header.base_offset >= base_offset
                {
                    entries.push(AbortedTransaction {
                        producer_id: header.producer_id,
                        first_offset,
                        last_offset: header.base_offset,
                        last_stable_offset: open.values().copied().min().unwrap_or(header.next_offset()),
                    });
                }
            }
        }
        part.segment.replace_txn_index(&entries)?;
        self.note_dir_changed();
        Ok(())
    }
}

/// The aborted transactions of a span, from its segment and those behind it.
fn aborted_in(
    view: &LogView,
    found: &FoundSpan,
    parts: &[Part],
    fetch_offset: i64,
    is_urgent: bool,
) -> Result<Vec<AbortedTransaction>, ReadError> {
    let mut aborted = Vec::new();
    if parts.iter().all(|part| part.segment.has_no_aborted()) {
        return Ok(aborted);
    }
    let upper_offset = end_of_batches(found, is_urgent)?;
    for part in parts {
        if !is_urgent {
            view.ensure_txn_index(part)?;
        }
        if part.segment.collect_aborted(fetch_offset, upper_offset, is_urgent, &mut aborted)? {
            break;
        }
    }
    Ok(aborted)
}

/// The offset behind the last whole batch of a span.
fn end_of_batches(found: &FoundSpan, is_urgent: bool) -> Result<i64, ReadError> {
    let (part, span) = (&found.part, &found.span);
    let end = span.position + u64::from(span.length);
    let file = part.segment.log_reader(is_urgent)?;
    let mut walk = part.segment.headers(file, part.size, part.upper_offset).from(span.position, found.lowest_offset);
    if is_urgent {
        walk = walk.without_search();
    }
    let mut upper_offset = found.lowest_offset;
    while walk.position() < end
        && let Some(Item::Batch(_, header)) = walk.step()?
        && walk.position() <= end
    {
        upper_offset = header.next_offset();
    }
    Ok(upper_offset)
}
