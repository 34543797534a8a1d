//! Requests by API: how long they took, and which errors they were answered with.

use std::fmt;

use super::page::Page;
use crate::stats::{Requests, Stage};

pub(super) fn write(page: &mut Page<'_>, requests: &Requests) -> fmt::Result {
    let totals = requests.requested().map(|(api, of)| ([("api", api)], &of.total));
    page.histograms("parshall_request_seconds", "From the last byte of a request to the last of its answer", totals)?;
    let stages = requests.requested().flat_map(|(api, of)| {
        let stages = Stage::ALL.into_iter().zip(&of.stages);
        stages.map(move |(stage, took)| ([("api", api), ("stage", stage.name())], took))
    });
    let entered = stages.filter(|(_, took)| took.snapshot().count > 0);
    page.histograms("parshall_request_stage_seconds", "The same by what the time went to", entered)?;
    let errors = requests.errors().map(|(api, error, count)| ([("api", api), ("error", error)], count));
    page.counters("parshall_request_errors", "Error codes in answers", errors)
}
