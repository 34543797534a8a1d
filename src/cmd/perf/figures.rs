//! What a run came to, for people (a table), for spreadsheets (CSV) and for scripts (JSON). One shape for all tools;
//! latencies in microseconds.

use std::time::Duration;

use lab::{Consumed, Tally};
use serde_json::{Value, json};

use crate::cmd::table::{Column, table};

const MIB: f64 = 1024.0 * 1024.0;

/// The columns of [`csv`].
pub(super) const CSV_HEADER: &str =
    "part,seconds,records,records_per_s,mib_per_s,mean_us,p50_us,p95_us,p99_us,p99_9_us,max_us\n";

/// What was done within some time.
pub(super) struct Part<'a> {
    name: &'a str,
    elapsed: Duration,
    records: u64,
    bytes: u64,
    /// Where somebody has looked at it: a consumer of old records sees none.
    latency: Option<&'a Tally>,
}

impl<'a> Part<'a> {
    /// Of records that were sent or followed.
    pub(super) fn new(name: &'a str, tally: &'a Tally, elapsed: Duration) -> Self {
        Self { name, elapsed, records: tally.records, bytes: tally.bytes, latency: Some(tally) }
    }

    /// Of records that were read.
    pub(super) fn read(name: &'a str, consumed: Consumed, elapsed: Duration, latency: Option<&'a Tally>) -> Self {
        Self { name, elapsed, records: consumed.records, bytes: consumed.bytes, latency }
    }

    pub(super) fn without_latency(self) -> Self {
        Self { latency: None, ..self }
    }

    fn seconds(&self) -> f64 {
        self.elapsed.as_secs_f64()
    }

    fn records_per_s(&self) -> f64 {
        self.per_second(self.records as f64)
    }

    fn mib_per_s(&self) -> f64 {
        self.per_second(self.bytes as f64) / MIB
    }

    fn per_second(&self, count: f64) -> f64 {
        if self.elapsed.is_zero() { 0.0 } else { count / self.seconds() }
    }
}

fn quantiles(tally: &Tally) -> [u64; 4] {
    [0.5, 0.95, 0.99, 0.999].map(|quantile| tally.quantile_us(quantile))
}

/// A line of cells. Those of a latency that nobody has looked at are empty.
pub(super) fn csv(part: &Part<'_>) -> String {
    let latency = part.latency.map_or(",,,,,".to_owned(), |tally| {
        let [p50, p95, p99, p999] = quantiles(tally);
        format!("{:.1},{p50},{p95},{p99},{p999},{}", tally.mean_us(), tally.max_us())
    });
    format!(
        "{},{:.3},{},{:.1},{:.3},{latency}\n",
        part.name,
        part.seconds(),
        part.records,
        part.records_per_s(),
        part.mib_per_s(),
    )
}

pub(super) fn json(part: &Part<'_>) -> Value {
    let mut object = json!({
        "records": part.records,
        "bytes": part.bytes,
        "seconds": part.seconds(),
        "records_per_s": part.records_per_s(),
        "mib_per_s": part.mib_per_s(),
    });
    if let Some(tally) = part.latency {
        let [p50, p95, p99, p999] = quantiles(tally);
        object["latency_us"] = json!({
            "mean": tally.mean_us(), "p50": p50, "p95": p95, "p99": p99, "p99_9": p999, "max": tally.max_us(),
        });
    }
    object
}

/// A column for each part, a line for each figure that one of them has.
pub(super) fn text(parts: &[Part<'_>]) -> String {
    type Figure = fn(&Part<'_>) -> Option<String>;
    fn latency(part: &Part<'_>, us: impl Fn(&Tally) -> f64) -> Option<String> {
        part.latency.map(|tally| format!("{:.3} ms", us(tally) / 1000.0))
    }
    let rows: [(&str, Figure); 10] = [
        ("records", |part| Some(part.records.to_string())),
        ("seconds", |part| Some(format!("{:.3}", part.seconds()))),
        ("records/s", |part| Some(format!("{:.1}", part.records_per_s()))),
        ("MiB/s", |part| Some(format!("{:.2}", part.mib_per_s()))),
        ("latency, mean", |part| latency(part, Tally::mean_us)),
        ("latency, 50 %", |part| latency(part, |tally| tally.quantile_us(0.5) as f64)),
        ("latency, 95 %", |part| latency(part, |tally| tally.quantile_us(0.95) as f64)),
        ("latency, 99 %", |part| latency(part, |tally| tally.quantile_us(0.99) as f64)),
        ("latency, 99.9 %", |part| latency(part, |tally| tally.quantile_us(0.999) as f64)),
        ("latency, most", |part| latency(part, |tally| tally.max_us() as f64)),
    ];
    let mut lines = vec![vec![String::new()]];
    lines[0].extend(parts.iter().map(|part| part.name.to_owned()));
    for (name, figure) in rows {
        let cells: Vec<_> = parts.iter().map(figure).collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
            lines.push(std::iter::once(name.to_owned()).chain(cells).collect());
        }
    }
    let mut columns = vec![Column::Right(16); parts.len() + 1];
    columns[0] = Column::Fixed(16);
    table(&lines, &columns, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally() -> Tally {
        let mut tally = Tally::default();
        (1..=1000).for_each(|n| tally.record(n, 1024));
        tally
    }

    #[test]
    fn csv_has_a_cell_for_each_column() {
        let (tally, none) = (tally(), Tally::default());
        let text = csv(&Part::new("total", &tally, Duration::from_secs(2)));
        assert_eq!(text, "total,2.000,1000,500.0,0.488,500.5,500,950,990,999,1000\n");
        let text = csv(&Part::new("window", &none, Duration::ZERO));
        assert_eq!(text, "window,0.000,0,0.0,0.000,0.0,0,0,0,0,0\n");
        let read = Consumed { records: 1000, bytes: 1_024_000, ..Consumed::default() };
        let text = csv(&Part::read("total", read, Duration::from_secs(2), None));
        assert_eq!(text, "total,2.000,1000,500.0,0.488,,,,,,\n");
        assert_eq!(text.split(',').count(), CSV_HEADER.split(',').count());
    }

    #[test]
    fn a_table_has_a_column_for_each_part() {
        let (tally, elapsed) = (tally(), Duration::from_secs(2));
        let text = text(&[Part::new("total", &tally, elapsed), Part::new("steady state", &tally, elapsed)]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "                           total    steady state");
        assert_eq!(lines[3], "records/s                  500.0           500.0");
        assert_eq!(lines[8], "latency, 99 %           0.990 ms        0.990 ms");
        assert_eq!(lines.len(), 11);
        let read = Part::read("total", Consumed::default(), elapsed, None);
        assert_eq!(super::text(&[read]).lines().count(), 5, "there is no latency");
    }
}
