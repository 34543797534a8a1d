//! Long lists, a page at a time: what was asked for, and the links to the other pages.

use crate::format::{count, counted, escape};

/// What was asked for of a long list.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct Listing {
    /// Part of the name.
    pub q: String,
    pub sort: String,
    /// From 1.
    pub page: usize,
}

/// Rows of a long list that are shown at a time.
pub(crate) const ROWS: usize = 50;

impl Listing {
    /// The rows of the page that was asked for. One of them is called `one`, as in `topic`.
    pub(crate) fn cut<T>(&self, rows: Vec<T>, one: &'static str) -> (Vec<T>, Pages) {
        let count = rows.len().div_ceil(ROWS).max(1);
        let page = self.page.clamp(1, count);
        let listing = self.clone();
        let pages =
            Pages { page, count, rows: rows.len(), one, listing, rest: String::new(), field: "page", anchor: "" };
        (rows.into_iter().skip((page - 1) * ROWS).take(ROWS).collect(), pages)
    }
}

/// Where in a long list a page is.
pub(crate) struct Pages {
    pub page: usize,
    pub count: usize,
    /// Of all pages.
    pub rows: usize,
    pub one: &'static str,
    listing: Listing,
    /// What else was asked for, as a part of a query.
    rest: String,
    /// Of the query: which one has the number of the page.
    field: &'static str,
    anchor: &'static str,
}

impl Pages {
    /// With something else that all pages are asked for with: `name=value`.
    pub(crate) fn with(self, rest: String) -> Self {
        Self { rest, ..self }
    }

    /// As the second list of its page: `field` of the query has the number, and `anchor` leads there.
    pub(crate) fn second(self, field: &'static str, anchor: &'static str) -> Self {
        Self { field, anchor, ..self }
    }

    pub(crate) fn query(&self, page: usize) -> String {
        format!("{}{}", self.joined(&self.listing.sort, &format!("{}={page}", self.field)), self.anchor)
    }

    pub(crate) fn sorted(&self, sort: &str) -> String {
        self.joined(sort, "")
    }

    pub(crate) fn is_sorted(&self, sort: &str) -> bool {
        self.listing.sort == sort
    }

    fn joined(&self, sort: &str, end: &str) -> String {
        let named = |name: &str, value: &str| match value {
            "" => String::new(),
            _ => format!("{name}={}", escape(value)),
        };
        let parts = [named("q", &self.listing.q), named("sort", sort), self.rest.clone(), end.to_owned()];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        format!("?{}", parts.join("&"))
    }

    /// The pages that are linked: the first, the last, and those around the shown one. `None` where some are left out.
    pub(crate) fn numbers(&self) -> Vec<Option<usize>> {
        let mut numbers = Vec::new();
        let mut last = 0;
        for page in 1..=self.count {
            let is_near = page.abs_diff(self.page) <= 1;
            // One that would be left out alone takes no more room than the mark in its place.
            let is_alone = page.abs_diff(self.page) == 2 && (page == 2 || page + 1 == self.count);
            if !(page == 1 || page == self.count || is_near || is_alone) {
                continue;
            }
            if page > last + 1 {
                numbers.push(None);
            }
            numbers.push(Some(page));
            last = page;
        }
        numbers
    }

    /// `51–100 of 1,200 topics`.
    pub(crate) fn range(&self) -> String {
        let first = (self.page - 1) * ROWS + 1;
        let last = (self.page * ROWS).min(self.rows);
        format!("{}–{} of {}", count(first as u64), count(last as u64), counted(self.rows, self.one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(rows: usize, page: usize) -> Pages {
        let listing = Listing { q: "a&b".to_owned(), sort: "size".to_owned(), page };
        listing.cut((0..rows).collect(), "topic").1
    }

    #[test]
    fn the_first_the_last_and_the_next_pages_are_linked() {
        let numbers = |count: usize, page: usize| {
            let numbers = pages(count * ROWS, page).numbers();
            let texts =
                numbers.into_iter().map(|number| number.map_or_else(|| "…".to_owned(), |page| page.to_string()));
            texts.collect::<Vec<_>>().join(" ")
        };
        assert_eq!([numbers(1, 1), numbers(2, 2), numbers(3, 1)], ["1", "1 2", "1 2 3"]);
        assert_eq!([numbers(20, 1), numbers(20, 20)], ["1 2 … 20", "1 … 19 20"]);
        assert_eq!([numbers(20, 5), numbers(20, 10)], ["1 … 4 5 6 … 20", "1 … 9 10 11 … 20"]);
        // Never a mark for a single page.
        assert_eq!([numbers(20, 3), numbers(20, 4)], ["1 2 3 4 … 20", "1 2 3 4 5 … 20"]);
        assert_eq!([numbers(20, 17), numbers(20, 18)], ["1 … 16 17 18 19 20", "1 … 17 18 19 20"]);
        assert_eq!(numbers(5, 3), "1 2 3 4 5");
    }

    #[test]
    fn the_rows_of_a_page_are_counted() {
        assert_eq!(
            [pages(1000, 3).range(), pages(1230, 25).range()],
            ["101–150 of 1,000 topics", "1,201–1,230 of 1,230 topics"]
        );
        // What was asked for may be behind the end, or before the beginning.
        assert_eq!([pages(60, 9).range(), pages(60, 0).range()], ["51–60 of 60 topics", "1–50 of 60 topics"]);
        let rows = Listing { page: 2, ..Listing::default() }.cut((0..60).collect(), "topic").0;
        assert_eq!(rows, (50..60).collect::<Vec<_>>());
    }

    #[test]
    fn other_pages_are_asked_for_with_the_same_words() {
        let pages = pages(1000, 3).with("internal=on".to_owned());
        assert_eq!(pages.query(4), "?q=a%26b&sort=size&internal=on&page=4");
        assert_eq!(pages.sorted("lag"), "?q=a%26b&sort=lag&internal=on");
        assert_eq!(pages.second("members", "#members").query(2), "?q=a%26b&sort=size&internal=on&members=2#members");
        assert_eq!(Listing::default().cut(vec![0; 60], "topic").1.query(2), "?page=2");
    }
}
