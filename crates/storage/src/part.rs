//! A segment as readers see it.

use std::io;
use std::sync::Arc;

use crate::scan::Walk;
use crate::segment::Segment;

/// A segment as it was at one moment.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) segment: Arc<Segment>,
    pub(crate) size: u64,
    /// All of its offsets are below.
    pub(crate) upper_offset: i64,
}

impl Part {
    pub(crate) fn headers(&self) -> io::Result<Walk> {
        Ok(self.segment.headers(self.segment.log_file()?, self.size, self.upper_offset))
    }
}
