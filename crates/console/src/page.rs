//! The pages, one file each: what it shows, and which forms it takes. Their HTML is in `templates/`.

pub(crate) mod broker;
pub(crate) mod clusters;
pub(crate) mod configs;
pub(crate) mod elections;
pub(crate) mod follow;
pub(crate) mod group;
pub(crate) mod group_changes;
pub(crate) mod group_reset;
pub(crate) mod groups;
pub(crate) mod lab;
pub(crate) mod message;
pub(crate) mod messages;
pub(crate) mod moves;
pub(crate) mod overview;
pub(crate) mod partition;
pub(crate) mod partitions;
pub(crate) mod produce;
pub(crate) mod quorum;
pub(crate) mod reassign;
pub(crate) mod topic;
pub(crate) mod topic_changes;
pub(crate) mod topics;

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
    /// The rows of the page that was asked for.
    pub(crate) fn cut<T>(&self, rows: Vec<T>) -> (Vec<T>, Pages) {
        let count = rows.len().div_ceil(ROWS).max(1);
        let page = self.page.clamp(1, count);
        let pages = Pages { page, count, rows: rows.len(), listing: self.clone(), rest: String::new() };
        (rows.into_iter().skip((page - 1) * ROWS).take(ROWS).collect(), pages)
    }
}

/// Where in a long list a page is.
pub(crate) struct Pages {
    pub page: usize,
    pub count: usize,
    /// Of all pages.
    pub rows: usize,
    listing: Listing,
    /// What else was asked for, as the end of a query.
    rest: String,
}

impl Pages {
    /// With something else that all pages are asked for with: `&name=value`.
    pub(crate) fn with(self, rest: String) -> Self {
        Self { rest, ..self }
    }

    pub(crate) fn query(&self, page: usize) -> String {
        let Listing { q, sort, .. } = &self.listing;
        format!("?q={}&sort={}&page={page}{}", crate::format::escape(q), crate::format::escape(sort), self.rest)
    }

    pub(crate) fn sorted(&self, sort: &str) -> String {
        format!("?q={}&sort={sort}{}", crate::format::escape(&self.listing.q), self.rest)
    }

    pub(crate) fn is_sorted(&self, sort: &str) -> bool {
        self.listing.sort == sort
    }
}
