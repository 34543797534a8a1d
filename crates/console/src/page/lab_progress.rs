//! A run that goes on: how far it is, what its case carries, how long the rest takes, and charts of the seconds so far.

use axum::Json;
use axum::response::{IntoResponse, Response};

use super::lab_access::{ask, run_path};
use crate::benchmark_runner::{CasePoint, Progress, RunningCase};
use crate::failure::Failure;
use crate::format::{byte_rate, count, duration, milliseconds};
use crate::history::{Chart, Series};
use crate::request_context::RequestContext;

/// From here on a time that is estimated is told in whole minutes.
const MINUTES_FROM_S: f64 = 90.0;

/// As `lab_progress.html` shows it.
pub(super) struct ProgressView {
    pub id: String,
    pub href: String,
    /// What happens before the first case.
    pub preparing: Option<String>,
    pub case: Option<CaseView>,
    pub left: String,
}

pub(super) struct CaseView {
    pub id: String,
    pub title: String,
    /// `3 of 12`.
    pub number: String,
    pub part: f64,
    pub is_warm_up: bool,
    pub tiles: Vec<(&'static str, String)>,
    /// The path of each chart's data, and its caption.
    pub charts: Vec<(&'static str, &'static str)>,
}

impl ProgressView {
    pub(super) fn new(context: &RequestContext, id: &str, progress: Progress) -> Self {
        let (preparing, case, left) = match progress {
            Progress::Preparing { what, run_left_seconds } => (Some(what), None, estimate("about", run_left_seconds)),
            Progress::Running(case) => {
                let left = estimate(if case.is_at_most { "at most" } else { "about" }, case.run_left_seconds);
                (None, Some(CaseView::new(case)), left)
            }
        };
        Self { id: id.to_owned(), href: run_path(context, id), preparing, case, left }
    }
}

impl CaseView {
    fn new(case: RunningCase) -> Self {
        let [produced, consumed] = [is_produced, is_consumed].map(|is| case.points.iter().any(is));
        let mut tiles = Vec::new();
        if let Some(point) = case.points.last() {
            let records = |per_second: f64| format!("{}/s", count(per_second.round() as i64));
            if produced {
                tiles.push(("Records produced", records(point.produced_records_per_second)));
                tiles.push(("Bytes produced", byte_rate(point.produced_bytes_per_second)));
                tiles.push(("Latency, p99", milliseconds(point.latency_p99)));
            }
            if consumed {
                tiles.push(("Records read", records(point.consumed_records_per_second)));
                tiles.push(("Bytes read", byte_rate(point.consumed_bytes_per_second)));
            }
            tiles.push(("Load for", duration(point.at_seconds)));
        }
        tiles.push(("Left of this case", estimate("about", case.case_left_seconds)));
        let mut charts = Vec::new();
        if produced || consumed {
            charts.push(("records", "Records per second"));
            charts.push(("bytes", "Bytes per second"));
        }
        if produced {
            charts.push(("latency", "Latency of producers"));
        }
        let most = if case.is_at_most { "at most " } else { "" };
        Self {
            number: format!("{} of {most}{}", case.number, case.of),
            part: case.part,
            is_warm_up: case.points.last().is_some_and(|point| point.is_warm_up),
            id: case.case,
            title: case.title,
            tiles,
            charts,
        }
    }
}

fn is_produced(point: &CasePoint) -> bool {
    point.produced_records_per_second > 0.0
}

fn is_consumed(point: &CasePoint) -> bool {
    point.consumed_records_per_second > 0.0
}

fn estimate(how: &str, seconds: f64) -> String {
    let seconds = if seconds < MINUTES_FROM_S { seconds } else { (seconds / 60.0).round() * 60.0 };
    format!("{how} {}", duration(seconds))
}

/// The data of a chart of the case that runs.
pub(crate) async fn chart(context: RequestContext) -> Result<Response, Failure> {
    let id = context.param("run").to_owned();
    let progress = ask(&context, move |laboratory| laboratory.progress(&id)).await?;
    let Some(Progress::Running(case)) = progress else {
        return Err(Failure::not_found("no case of this run is under way"));
    };
    Ok(Json(chart_of(&case.points, context.param("chart"))?).into_response())
}

fn chart_of(points: &[CasePoint], chart: &str) -> Result<Chart, Failure> {
    let series = |name: &str, color, value: &dyn Fn(&CasePoint) -> Option<f64>| Series {
        name: name.to_owned(),
        color,
        values: points.iter().map(value).collect(),
    };
    let (unit, mut series) = match chart {
        "records" => (
            "/s",
            vec![
                series("produced", 0, &|point| Some(point.produced_records_per_second)),
                series("read", 1, &|point| Some(point.consumed_records_per_second)),
            ],
        ),
        "bytes" => (
            "B/s",
            vec![
                series("produced", 0, &|point| Some(point.produced_bytes_per_second)),
                series("read", 1, &|point| Some(point.consumed_bytes_per_second)),
            ],
        ),
        // A second in which nothing was acknowledged has none.
        "latency" => (
            "ms",
            vec![
                series("p50", 0, &|point| is_produced(point).then_some(point.latency_p50 * 1000.0)),
                series("p99", 1, &|point| is_produced(point).then_some(point.latency_p99 * 1000.0)),
            ],
        ),
        other => return Err(Failure::not_found(format!("there is no chart {other:?}"))),
    };
    // Without consumers there is no line of theirs, and none of producers where there are none.
    series.retain(|series| series.values.iter().any(|value| value.is_some_and(|value| value > 0.0)));
    Ok(Chart { unit, times: points.iter().map(|point| point.at_ms as f64 / 1000.0).collect(), series })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at_seconds: f64, produced: f64, consumed: f64) -> CasePoint {
        CasePoint {
            at_ms: 1000 * at_seconds as i64,
            at_seconds,
            is_warm_up: false,
            produced_records_per_second: produced,
            produced_bytes_per_second: produced * 1024.0,
            consumed_records_per_second: consumed,
            consumed_bytes_per_second: consumed * 1024.0,
            latency_p50: 0.002,
            latency_p99: 0.0121,
        }
    }

    fn case(points: Vec<CasePoint>) -> RunningCase {
        RunningCase {
            case: "Q4".to_owned(),
            title: "t".to_owned(),
            number: 3,
            of: 12,
            is_at_most: false,
            part: 0.5,
            case_left_seconds: 11.0,
            run_left_seconds: 352.0,
            points,
        }
    }

    #[test]
    fn a_case_shows_what_it_carries() {
        let view = CaseView::new(case(vec![point(1.0, 0.0, 0.0), point(2.0, 48_120.0, 0.0)]));
        let tiles: Vec<_> = view.tiles.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let expected = [
            ("Records produced", "48,120/s"),
            ("Bytes produced", "47.0 MiB/s"),
            ("Latency, p99", "12 ms"),
            ("Load for", "2 s"),
            ("Left of this case", "about 11 s"),
        ];
        assert_eq!(tiles, expected);
        assert_eq!(view.number, "3 of 12");
        let before = CaseView::new(RunningCase { is_at_most: true, ..case(Vec::new()) });
        assert_eq!((before.number.as_str(), before.charts.len(), before.tiles.len()), ("3 of at most 12", 0, 1));
        let read = CaseView::new(case(vec![point(1.0, 0.0, 10.0)]));
        assert!(read.charts.iter().all(|(chart, _)| *chart != "latency"));
        assert_eq!([estimate("about", 89.0), estimate("at most", 352.0)], ["about 1 min 29 s", "at most 6 min"]);
    }

    #[test]
    fn a_chart_has_a_line_for_what_there_is() {
        let points = [point(1.0, 0.0, 0.0), point(2.0, 100.0, 0.0)];
        let names = |chart: &Chart| chart.series.iter().map(|series| series.name.clone()).collect::<Vec<_>>();
        let records = chart_of(&points, "records").unwrap();
        assert_eq!((names(&records), &records.times), (vec!["produced".to_owned()], &vec![1.0, 2.0]));
        let latency = chart_of(&points, "latency").unwrap();
        assert_eq!(names(&latency), ["p50", "p99"]);
        assert_eq!(latency.series[1].values, [None, Some(12.1)]);
        assert!(chart_of(&points, "other").is_err());
    }
}
