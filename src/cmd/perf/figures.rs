//! What a run came to, for people (a table), for spreadsheets (CSV) and for scripts (JSON). Latencies in microseconds.

use std::time::Duration;

use lab::Tally;
use serde_json::{Value, json};

const MIB: f64 = 1024.0 * 1024.0;

/// The columns of [`csv`].
pub(super) const CSV_HEADER: &str =
    "part,seconds,records,records_per_s,mib_per_s,mean_us,p50_us,p95_us,p99_us,p99_9_us,max_us\n";

fn per_second(count: f64, elapsed: Duration) -> f64 {
    let seconds = elapsed.as_secs_f64();
    if seconds > 0.0 { count / seconds } else { 0.0 }
}

fn quantiles(tally: &Tally) -> [u64; 4] {
    [0.5, 0.95, 0.99, 0.999].map(|quantile| tally.quantile_us(quantile))
}

/// A line for a window, the total, or the steady state.
pub(super) fn csv(part: &str, tally: &Tally, elapsed: Duration) -> String {
    let [p50, p95, p99, p999] = quantiles(tally);
    format!(
        "{part},{:.3},{},{:.1},{:.3},{:.1},{p50},{p95},{p99},{p999},{}\n",
        elapsed.as_secs_f64(),
        tally.records,
        per_second(tally.records as f64, elapsed),
        per_second(tally.bytes as f64, elapsed) / MIB,
        tally.mean_us(),
        tally.max_us(),
    )
}

pub(super) fn json(tally: &Tally, elapsed: Duration) -> Value {
    let [p50, p95, p99, p999] = quantiles(tally);
    json!({
        "records": tally.records,
        "bytes": tally.bytes,
        "seconds": elapsed.as_secs_f64(),
        "records_per_s": per_second(tally.records as f64, elapsed),
        "mib_per_s": per_second(tally.bytes as f64, elapsed) / MIB,
        "latency_us": {
            "mean": tally.mean_us(), "p50": p50, "p95": p95, "p99": p99, "p99_9": p999, "max": tally.max_us(),
        },
    })
}

/// A column for each part, a line for each figure.
pub(super) fn table(parts: &[(&str, &Tally, Duration)]) -> String {
    type Figure = fn(&Tally, Duration) -> String;
    let ms = |us: u64| format!("{:.3} ms", us as f64 / 1000.0);
    let rows: [(&str, Figure); 5] = [
        ("records", |tally, _| tally.records.to_string()),
        ("seconds", |_, elapsed| format!("{:.3}", elapsed.as_secs_f64())),
        ("records/s", |tally, elapsed| format!("{:.1}", per_second(tally.records as f64, elapsed))),
        ("MiB/s", |tally, elapsed| format!("{:.2}", per_second(tally.bytes as f64, elapsed) / MIB)),
        ("latency, mean", |tally, _| format!("{:.3} ms", tally.mean_us() / 1000.0)),
    ];
    let mut lines = vec![line("", parts.iter().map(|(part, ..)| (*part).to_owned()))];
    for (name, figure) in rows {
        lines.push(line(name, parts.iter().map(|(_, tally, elapsed)| figure(tally, *elapsed))));
    }
    for (index, name) in ["50 %", "95 %", "99 %", "99.9 %"].into_iter().enumerate() {
        lines.push(line(&format!("latency, {name}"), parts.iter().map(|(_, tally, _)| ms(quantiles(tally)[index]))));
    }
    lines.push(line("latency, most", parts.iter().map(|(_, tally, _)| ms(tally.max_us()))));
    lines.concat()
}

fn line(name: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.map(|cell| format!("{cell:>16}")).collect();
    format!("{name:<16}{cells}\n")
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
        let text = csv("total", &tally(), Duration::from_secs(2));
        assert_eq!(text, "total,2.000,1000,500.0,0.488,500.5,500,950,990,999,1000\n");
        assert_eq!(text.split(',').count(), CSV_HEADER.split(',').count());
        assert_eq!(csv("window", &Tally::default(), Duration::ZERO), "window,0.000,0,0.0,0.000,0.0,0,0,0,0,0\n");
    }

    #[test]
    fn a_table_has_a_column_for_each_part() {
        let (tally, elapsed) = (tally(), Duration::from_secs(2));
        let text = table(&[("total", &tally, elapsed), ("steady state", &tally, elapsed)]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "                           total    steady state");
        assert_eq!(lines[3], "records/s                  500.0           500.0");
        assert_eq!(lines[8], "latency, 99 %           0.990 ms        0.990 ms");
        assert_eq!(lines.len(), 11);
    }
}
