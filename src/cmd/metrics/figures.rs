//! What a row says of a broker, from two pages of its metrics.

use crate::cmd::time;
use openmetrics::Exposition;
use serde_json::{Map, Value};

/// How a column comes out of a page.
enum From {
    /// The value as it is now.
    Now(fn(&Exposition) -> Option<f64>),
    /// Of what only grows: by how much each second.
    Rate(&'static str),
    /// Milliseconds that each of what a histogram counts took on average.
    MeanMs(&'static str),
}

const COLUMNS: [(&str, From); 22] = [
    ("records_in_per_s", From::Rate("parshall_topic_received_records_total")),
    ("bytes_in_per_s", From::Rate("parshall_topic_received_bytes_total")),
    ("bytes_out_per_s", From::Rate("parshall_topic_sent_bytes_total")),
    ("replication_bytes_in_per_s", From::Rate("parshall_topic_replication_received_bytes_total")),
    ("requests_per_s", From::Rate("parshall_request_seconds_count")),
    ("errors_per_s", From::Rate("parshall_request_errors_total")),
    ("append_mean_ms", From::MeanMs("parshall_log_append_seconds")),
    ("sync_mean_ms", From::MeanMs("parshall_log_sync_seconds")),
    ("syncs_per_s", From::Rate("parshall_log_sync_seconds_count")),
    ("unsynced_bytes", From::Now(|page| page.sum("parshall_unsynced_bytes"))),
    ("connections", From::Now(|page| page.sum("parshall_connections"))),
    ("leaders", From::Now(|page| page.sum("parshall_leaders"))),
    ("under_replicated", From::Now(|page| page.sum("parshall_under_replicated_partitions"))),
    ("offline", From::Now(|page| page.sum("parshall_cluster_offline_partitions"))),
    ("log_bytes", From::Now(|page| page.sum("parshall_topic_log_bytes"))),
    ("groups", From::Now(|page| page.sum("parshall_groups"))),
    ("lag_records", From::Now(|page| page.sum("parshall_group_lag_records"))),
    ("lag_max_s", From::Now(|page| page.max("parshall_group_lag_seconds"))),
    ("cpu_cores", From::Rate("process_cpu_seconds_total")),
    ("memory_bytes", From::Now(|page| page.sum("process_resident_memory_bytes"))),
    ("open_fds", From::Now(|page| page.sum("process_open_fds"))),
    ("disk_free_bytes", From::Now(|page| page.sum("parshall_disk_free_bytes"))),
];

/// The values of the columns; what is not known is `None`.
pub(super) struct Figures(Vec<Option<f64>>);

impl Figures {
    /// What happened between two pages. There are no rates without the first, or when the broker began anew in between.
    pub(super) fn between(before: Option<&Exposition>, now: &Exposition) -> Self {
        let uptime = |page: &Exposition| page.sum("parshall_uptime_seconds").unwrap_or(0.0);
        let since = before.map(|before| (before, uptime(now) - uptime(before))).filter(|(_, seconds)| *seconds > 0.0);
        let grown = |name: &str| {
            let (before, _) = since?;
            Some(now.sum(name).unwrap_or(0.0) - before.sum(name).unwrap_or(0.0)).filter(|grown| *grown >= 0.0)
        };
        let value = |from: &From| match from {
            From::Now(value) => Some(value(now).unwrap_or(0.0)),
            From::Rate(name) => Some(grown(name)? / since?.1),
            From::MeanMs(name) => {
                let count = grown(&format!("{name}_count")).filter(|count| *count > 0.0)?;
                Some(1000.0 * grown(&format!("{name}_sum"))? / count)
            }
        };
        Self(COLUMNS.iter().map(|(_, from)| value(from)).collect())
    }
}

/// The first line of a file.
pub(super) fn header() -> String {
    let names = COLUMNS.iter().map(|(name, _)| *name);
    ["time", "up"].into_iter().chain(names).collect::<Vec<_>>().join(",") + "\n"
}

/// A line of the file; without figures the broker did not answer.
pub(super) fn row(now_ms: i64, figures: Option<&Figures>) -> String {
    let up = if figures.is_some() { "1" } else { "0" };
    let value = |at: usize| figures.and_then(|figures| figures.0[at]).map_or_else(String::new, number);
    let values = (0..COLUMNS.len()).map(value);
    let cells = [time::format_time(now_ms), up.to_owned()].into_iter().chain(values);
    cells.collect::<Vec<_>>().join(",") + "\n"
}

/// The same as an object.
pub(super) fn json(now_ms: i64, figures: Option<&Figures>) -> Value {
    let mut row = Map::new();
    row.insert("time".to_owned(), time::format_time(now_ms).into());
    row.insert("is_up".to_owned(), figures.is_some().into());
    let value = |at: usize| figures.and_then(|figures| figures.0[at]);
    row.extend(COLUMNS.iter().enumerate().map(|(at, (name, _))| ((*name).to_owned(), value(at).into())));
    Value::Object(row)
}

/// With as many digits as are of use.
fn number(value: f64) -> String {
    if value == value.trunc() { format!("{value:.0}") } else { format!("{value:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(uptime_s: f64, records: f64, syncs: f64, sync_s: f64) -> Exposition {
        Exposition::new(format!(
            "parshall_uptime_seconds {uptime_s}\nparshall_topic_received_records_total{{topic=\"a\"}} {records}\n\
             parshall_log_sync_seconds_count {syncs}\nparshall_log_sync_seconds_sum {sync_s}\nparshall_leaders 3\n"
        ))
    }

    fn cell(row: &str, column: &str) -> String {
        let place = header().trim_end().split(',').position(|name| name == column).unwrap();
        row.trim_end().split(',').nth(place).unwrap().to_owned()
    }

    #[test]
    fn rates_are_those_of_the_interval() {
        let (first, second) = (page(10.0, 1000.0, 5.0, 1.0), page(14.0, 3000.0, 7.0, 1.005));
        let row = row(0, Some(&Figures::between(Some(&first), &second)));
        assert_eq!(row.matches(',').count(), header().matches(',').count());
        let cells = ["time", "up", "records_in_per_s", "sync_mean_ms", "syncs_per_s", "leaders", "append_mean_ms"];
        let cells = cells.map(|column| cell(&row, column));
        assert_eq!(cells, ["1970-01-01T00:00:00.000Z", "1", "500", "2.500", "0.500", "3", ""]);
    }

    #[test]
    fn nothing_is_made_up() {
        let (first, again) = (page(10.0, 1000.0, 5.0, 1.0), page(1.0, 20.0, 1.0, 1.0));
        for before in [Some(&first), None] {
            let row = row(0, Some(&Figures::between(before, &again)));
            assert_eq!((cell(&row, "records_in_per_s"), cell(&row, "leaders")), (String::new(), "3".to_owned()));
        }
        let down = json(0, None);
        assert_eq!((&down["is_up"], &down["leaders"]), (&false.into(), &Value::Null));
        let up = json(0, Some(&Figures::between(Some(&first), &again)));
        assert_eq!((&up["is_up"], &up["leaders"], &up["syncs_per_s"]), (&true.into(), &3.0.into(), &Value::Null));
        let row = row(0, None);
        assert_eq!((cell(&row, "up"), cell(&row, "leaders")), ("0".to_owned(), String::new()));
    }
}
