//! Rows of cells as lines of columns.

use super::output::visible;

/// How the cells of a column are padded. None is ever cut.
#[derive(Clone, Copy)]
pub(crate) enum Column {
    /// On the right to this width, as Java's `%-15s` does. The last column of most tables has the width 0.
    Fixed(usize),
    /// On the right to the widest cell, and to this width at least.
    Fitted(usize),
    /// On the left to the widest cell, and to this width at least: numbers.
    Right(usize),
}

/// One line for each row, with `gap` between its cells. Widths are in characters.
pub(crate) fn table<R: AsRef<[C]>, C: AsRef<str>>(rows: &[R], columns: &[Column], gap: &str) -> String {
    let rows: Vec<Vec<_>> =
        rows.iter().map(|row| row.as_ref().iter().map(|cell| visible(cell.as_ref())).collect()).collect();
    let widest = |index: usize| {
        let cells = rows.iter().filter_map(|row| row.get(index));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths = columns.iter().enumerate().map(|(index, column)| match column {
        Column::Fixed(width) => *width,
        Column::Fitted(width) | Column::Right(width) => widest(index).max(*width),
    });
    let columns: Vec<_> = columns.iter().zip(widths).collect();
    let mut text = String::new();
    for row in &rows {
        for (index, (cell, (column, width))) in row.iter().zip(&columns).enumerate() {
            if index > 0 {
                text.push_str(gap);
            }
            text.push_str(&match column {
                Column::Right(_) => format!("{cell:>width$}"),
                _ => format!("{cell:<width$}"),
            });
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::Column::{Fitted, Fixed, Right};
    use super::*;

    #[test]
    fn cells_are_padded_and_never_cut() {
        let rows = [["a", "bc", "7", "long"], ["größe", "bcd", "12", "x"]];
        let text = table(&rows, &[Fitted(3), Fixed(2), Right(0), Fixed(0)], " ");
        assert_eq!(text, "a     bc  7 long\ngröße bcd 12 x\n");
        assert_eq!(table(&[["a", "b"]], &[Fitted(3), Right(3)], "  "), "a      b\n");
    }

    #[test]
    fn no_cell_begins_another_line_or_column() {
        let text = table(&[["a\nb", "\u{1b}c"], ["d", "e"]], &[Fitted(0), Fixed(0)], " ");
        assert_eq!(text, "a\\nb \\u{1b}c\nd    e\n");
    }
}
