//! Requests by API: how long they took, and which errors they were answered with.

use platform::Count;
use wire::ErrorCode;
use wire::api::TABLE;

use super::{Histogram, Stage, Stopwatch};

/// Kafka's codes run from -1; larger ones count as UNKNOWN_SERVER_ERROR.
const ERROR_CODES: usize = 140;

pub struct Requests {
    /// By row of the table of APIs.
    apis: Vec<OfApi>,
}

pub struct OfApi {
    pub total: Histogram,
    pub stages: [Histogram; Stage::ALL.len()],
    errors: [Count; ERROR_CODES],
}

impl Default for Requests {
    fn default() -> Self {
        let of_api = || OfApi {
            total: Histogram::default(),
            stages: Default::default(),
            errors: std::array::from_fn(|_| Count::default()),
        };
        Self { apis: TABLE.iter().map(|_| of_api()).collect() }
    }
}

impl Requests {
    /// Takes note of answers that have left, to so many requests of which each took what the watch says.
    pub fn record_sent(&self, requests: u64, watch: &Stopwatch) {
        let api = &self.apis[watch.row];
        api.total.add(requests, watch.total_ns());
        for (stage, took_ns) in watch.stages_ns() {
            api.stages[stage as usize].add(requests, took_ns);
        }
    }

    /// Takes note of the errors of an answer.
    pub fn record_errors(&self, watch: &Stopwatch, errors: &[ErrorCode]) {
        for code in errors {
            self.apis[watch.row].errors[index(*code)].add(1);
        }
    }

    /// The APIs that were asked for anything.
    pub fn requested(&self) -> impl Iterator<Item = (&'static str, &OfApi)> {
        TABLE.iter().map(|api| api.name).zip(&self.apis).filter(|(_, of)| of.total.snapshot().count > 0)
    }

    /// How often an API has answered with each error.
    pub fn errors(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        self.apis.iter().zip(TABLE).flat_map(|(of, api)| {
            let errors = of.errors.iter().enumerate().filter(|(_, count)| count.get() > 0);
            errors.map(|(index, count)| (api.name, error_name(index), count.get()))
        })
    }
}

fn index(code: ErrorCode) -> usize {
    usize::try_from(i32::from(code.0) + 1).ok().filter(|index| *index < ERROR_CODES).unwrap_or(0)
}

fn error_name(index: usize) -> &'static str {
    let code = i16::try_from(index).map_or(ErrorCode::UNKNOWN_SERVER_ERROR, |index| ErrorCode(index - 1));
    code.name().unwrap_or("UNKNOWN_SERVER_ERROR")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_an_index_and_its_name() {
        for code in
            [ErrorCode::UNKNOWN_SERVER_ERROR, ErrorCode::OFFSET_OUT_OF_RANGE, ErrorCode::SHARE_SESSION_LIMIT_REACHED]
        {
            assert_eq!(Some(error_name(index(code))), code.name());
        }
        for unknown in [-2, i16::MIN, 139, i16::MAX] {
            assert_eq!(error_name(index(ErrorCode(unknown))), "UNKNOWN_SERVER_ERROR");
        }
    }
}
