//! Which bytes of a segment have had their CRCs checked by this process, when they were appended or when they were
//! first read: the others may have changed on the disk while nobody looked.

use std::ops::Range;

/// Readers go forwards, each through a piece of its own. With more pieces than this some are checked again.
const PIECES_MAX: usize = 32;

/// Pieces of a file, in order; no two touch.
#[derive(Default)]
pub(crate) struct VerifiedRanges {
    pieces: Vec<Range<u64>>,
}

impl VerifiedRanges {
    pub(crate) fn has(&self, piece: &Range<u64>) -> bool {
        let after = self.pieces.partition_point(|known| known.start <= piece.start);
        piece.is_empty() || after > 0 && self.pieces[after - 1].end >= piece.end
    }

    pub(crate) fn add(&mut self, piece: Range<u64>) {
        if piece.is_empty() {
            return;
        }
        let first = self.pieces.partition_point(|known| known.end < piece.start);
        let behind = self.pieces.partition_point(|known| known.start <= piece.end);
        let touched = &self.pieces[first..behind];
        let start = touched.first().map_or(piece.start, |known| known.start.min(piece.start));
        let end = touched.last().map_or(piece.end, |known| known.end.max(piece.end));
        self.pieces.splice(first..behind, std::iter::once(start..end));
        if self.pieces.len() > PIECES_MAX {
            let smallest = self.pieces.iter().enumerate().min_by_key(|(_, piece)| piece.end - piece.start);
            if let Some((index, _)) = smallest {
                self.pieces.remove(index);
            }
        }
    }

    pub(crate) fn remove(&mut self, piece: &Range<u64>) {
        let split = self
            .pieces
            .iter()
            .flat_map(|known| [known.start..known.end.min(piece.start), known.start.max(piece.end)..known.end]);
        self.pieces = split.filter(|left| !left.is_empty()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(pieces: &[Range<u64>]) -> VerifiedRanges {
        let mut checked = VerifiedRanges::default();
        pieces.iter().for_each(|piece| checked.add(piece.clone()));
        checked
    }

    #[test]
    fn pieces_that_touch_become_one() {
        let checked = checked(&[0..10, 20..30, 40..50, 10..20]);
        assert_eq!(checked.pieces, [0..30, 40..50]);
        assert!(checked.has(&(5..30)));
        assert!(!checked.has(&(5..31)));
        assert!(!checked.has(&(30..40)));
        assert!(checked.has(&(40..41)));
    }

    #[test]
    fn one_that_covers_others_takes_their_place() {
        let checked = checked(&[5..10, 20..30, 40..50, 0..45]);
        assert!(checked.has(&(0..50)));
        assert_eq!(checked.pieces.len(), 1);
    }

    #[test]
    fn what_is_removed_is_to_be_checked_again() {
        let mut checked = checked(&[0..50, 60..70]);
        checked.remove(&(10..20));
        checked.remove(&(60..70));
        assert_eq!(checked.pieces, [0..10, 20..50]);
    }

    #[test]
    fn the_number_of_pieces_is_bounded_and_the_largest_stay() {
        let mut checked = VerifiedRanges::default();
        checked.add(0..1000);
        for n in 0..2 * PIECES_MAX as u64 {
            checked.add(2000 + 10 * n..2000 + 10 * n + 5);
        }
        assert_eq!(checked.pieces.len(), PIECES_MAX);
        assert!(checked.has(&(0..1000)));
    }
}
