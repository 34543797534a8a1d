//! The charts of one case: what happened second by second, and how its latencies are distributed.

use super::axis::{Axis, nines};
use super::chart::{Chart, Line, Point, SMALL, Step};
use super::drawing::Style;
use super::figure::Figure;
use super::format;
use crate::result::{Latency, Measured, Second};

/// No more fit a chart; longer runs have several seconds in a step.
const STEPS_MAX: usize = 90;
/// A distribution has more points than tooltips need.
const QUANTILES_PER_STEP: usize = 4;
/// Brokers have the colours behind the client's.
const BROKER_COLORS: usize = 5;

/// What one chart shows.
struct Plan {
    caption: &'static str,
    unit: &'static str,
    lines: Vec<Shown>,
    merge: Merge,
    /// Whether it may stand on a logarithmic axis, and a 0 means that nothing is known.
    may_be_log: bool,
}

struct Shown {
    label: String,
    style: Style,
    value: Box<dyn Fn(&Second) -> f64>,
}

/// How the values of several seconds become one.
#[derive(Clone, Copy)]
enum Merge {
    Mean,
    Most,
}

/// Some seconds that are shown as one.
struct Span<'a> {
    from_s: f64,
    to_s: f64,
    seconds: &'a [Second],
}

pub(super) fn figures(measured: &Measured) -> Vec<Figure> {
    let spans = spans(&measured.series);
    let over_time = plans(measured).into_iter().filter_map(|plan| plan.figure(&spans));
    over_time.chain(distribution(measured)).collect()
}

fn plans(measured: &Measured) -> Vec<Plan> {
    let is_saturated = measured.verdict.is_saturated;
    let brokers =
        measured.series.iter().map(|second| second.broker_cpu.len().max(second.broker_resident_bytes.len())).max();
    let each_broker = |value: fn(&Second, usize) -> Option<f64>| {
        let brokers = brokers.unwrap_or(0);
        let id = |at: usize| measured.cost.brokers.get(at).and_then(|broker| broker.id).unwrap_or(at as i32 + 1);
        let name = |at: usize| if brokers == 1 { "broker".to_owned() } else { format!("broker {}", id(at)) };
        let of = move |at| shown(&name(at), 2 + at % BROKER_COLORS, move |second| value(second, at).unwrap_or(0.0));
        (0..brokers).map(of).collect::<Vec<_>>()
    };
    let cpu = |second: &Second, at: usize| second.broker_cpu.get(at).copied();
    let memory =
        |second: &Second, at: usize| second.broker_resident_bytes.get(at).map(|bytes| format::mebibytes(*bytes));
    let ms = |us: u64| us as f64 / 1000.0;
    let client_memory = |second: &Second| format::mebibytes(second.client_resident_bytes);
    let mut memory_lines = vec![shown("client", 1, client_memory)];
    memory_lines.extend(each_broker(memory));
    let mut cpu_lines = vec![shown("client", 1, |second| second.client_cpu)];
    cpu_lines.extend(each_broker(cpu));
    cpu_lines.push(dashed("whole machine", 0, |second| second.host_cpu));
    let throughput = vec![
        shown("produced", 1, |second| second.produced_records_per_s),
        dashed("consumed", 2, |second| second.consumed_records_per_s),
    ];
    let latency = vec![
        shown("p50", 1, move |second| ms(second.latency_p50_us)),
        shown("p99", 2, move |second| ms(second.latency_p99_us)),
        dashed("max", 4, move |second| ms(second.latency_max_us)),
    ];
    let traffic = vec![
        shown("written to disk", 5, |second| second.disk_written_mib_per_s),
        dashed("network", 1, |second| second.network_mib_per_s),
    ];
    let backlog = vec![shown("backlog", 3, |second| second.backlog_records as f64)];
    let failed = vec![shown("failed", 2, |second| second.failed_records as f64)];
    let latency_caption = if is_saturated { "Length of the queue, as latency" } else { "Latency" };
    let plan = |caption, unit, lines, merge| Plan { caption, unit, lines, merge, may_be_log: false };
    vec![
        plan("Throughput", "records/s", throughput, Merge::Mean),
        Plan { may_be_log: true, ..plan(latency_caption, "ms", latency, Merge::Most) },
        plan("CPU", "cores", cpu_lines, Merge::Mean),
        plan("Backlog of consumers", "records", backlog, Merge::Most),
        plan("Resident memory", "MiB", memory_lines, Merge::Most),
        plan("Disk and network", "MiB/s", traffic, Merge::Mean),
        plan("Records that failed", "records/s", failed, Merge::Most),
    ]
}

fn shown(label: &str, color: usize, value: impl Fn(&Second) -> f64 + 'static) -> Shown {
    Shown { label: label.to_owned(), style: Style { color, form: 0, is_dashed: false }, value: Box::new(value) }
}

fn dashed(label: &str, color: usize, value: impl Fn(&Second) -> f64 + 'static) -> Shown {
    let shown = shown(label, color, value);
    Shown { style: Style { is_dashed: true, ..shown.style }, ..shown }
}

fn spans(series: &[Second]) -> Vec<Span<'_>> {
    let chunks = series.chunks(series.len().div_ceil(STEPS_MAX).max(1));
    let ends = chunks.clone().filter_map(|seconds| Some(seconds.last()?.at_s));
    let starts = [0.0].into_iter().chain(ends.clone());
    chunks.zip(starts.zip(ends)).map(|(seconds, (from_s, to_s))| Span { from_s, to_s, seconds }).collect()
}

impl Plan {
    /// `None` where there is nothing but zeros.
    fn figure(&self, spans: &[Span<'_>]) -> Option<Figure> {
        let values = |shown: &Shown| spans.iter().map(|span| self.value(shown, span)).collect::<Vec<_>>();
        let known = self.lines.iter().map(|shown| (shown, values(shown)));
        let known: Vec<_> = known.filter(|(_, values)| values.iter().any(|value| *value > 0.0)).collect();
        let all = || known.iter().flat_map(|(_, values)| values.iter().copied());
        let most = all().reduce(f64::max)?;
        let y = if self.may_be_log { Axis::fitting(self.unit, all()) } else { Axis::from_zero(self.unit, most) };
        let step = |(at, span): (usize, &Span<'_>)| {
            let figures = known.iter().map(|(shown, values)| format!("{} {}", shown.label, format::number(values[at])));
            let figures = figures.collect::<Vec<_>>().join(", ");
            let at_s = format::trimmed(&format!("{:.1}", span.to_s));
            Step { from: span.from_s, to: span.to_s, title: format!("{at_s} s: {figures} {}", self.unit) }
        };
        let point = |(span, value): (&Span<'_>, &f64)| {
            let y = Some(*value).filter(|value| !self.may_be_log || *value > 0.0);
            Point::plain(f64::midpoint(span.from_s, span.to_s), y)
        };
        let line = |(shown, values): &(&Shown, Vec<f64>)| Line {
            label: shown.label.clone(),
            style: shown.style,
            is_joined: true,
            points: spans.iter().zip(values).map(point).collect(),
        };
        let is_warm_up = |span: &&Span<'_>| span.seconds.iter().all(|second| second.is_warm_up);
        Some(Figure::of_chart(&Chart {
            name: self.caption.to_owned(),
            size: SMALL,
            x: Axis::until("seconds", spans.last().map_or(0.0, |span| span.to_s)),
            y,
            lines: known.iter().map(line).collect(),
            warm_up: spans.iter().take_while(is_warm_up).last().map(|span| span.to_s),
            steps: spans.iter().enumerate().map(step).collect(),
        }))
    }

    fn value(&self, shown: &Shown, span: &Span<'_>) -> f64 {
        let values = span.seconds.iter().map(&shown.value);
        match self.merge {
            Merge::Mean => values.sum::<f64>() / span.seconds.len() as f64,
            Merge::Most => values.fold(0.0, f64::max),
        }
    }
}

/// Percentiles on an axis of nines, as HDR plots have it.
fn distribution(measured: &Measured) -> Option<Figure> {
    let all = [("producer", 1, &measured.latency), ("end to end", 2, &measured.end_to_end)];
    let known =
        all.into_iter().filter_map(|(label, color, latency)| Some((label, color, quantiles(latency.as_ref()?))));
    let known: Vec<_> = known.collect();
    let most = known.iter().flat_map(|(.., quantiles)| quantiles).map(|quantile| quantile.nines).reduce(f64::max)?;
    let y = Axis::fitting("ms", known.iter().flat_map(|(.., quantiles)| quantiles).map(|quantile| quantile.ms));
    let is_saturated = measured.verdict.is_saturated;
    let (label, _, quantiles) = known.first()?;
    let step = |(before, quantile): (&Quantile, &Quantile)| {
        let percent = format::trimmed(&format!("{:.6}", quantile.part * 100.0));
        let title = format!("{label}: {percent} % within {} ms", format::number(quantile.ms));
        Step { from: before.nines, to: quantile.nines, title }
    };
    let shown = || quantiles.iter().step_by(QUANTILES_PER_STEP);
    let line = |(label, color, quantiles): &(&str, usize, Vec<Quantile>)| Line {
        label: (*label).to_owned(),
        style: Style { color: *color, form: 0, is_dashed: *color > 1 },
        is_joined: true,
        points: quantiles.iter().map(|quantile| Point::plain(quantile.nines, Some(quantile.ms))).collect(),
    };
    Some(Figure::of_chart(&Chart {
        name: if is_saturated { "Distribution of the wait in the queue" } else { "Distribution of latency" }.to_owned(),
        size: SMALL,
        x: Axis::of_nines("percentile", most),
        y,
        lines: known.iter().map(line).collect(),
        warm_up: None,
        steps: shown().zip(shown().skip(1)).map(step).collect(),
    }))
}

/// A point of a distribution.
struct Quantile {
    nines: f64,
    part: f64,
    ms: f64,
}

/// The slowest record of all is left out: it has infinitely many nines.
fn quantiles(latency: &Latency) -> Vec<Quantile> {
    let finite = latency.distribution.iter().filter(|(part, _)| *part < 1.0);
    finite.map(|(part, us)| Quantile { nines: nines(*part), part: *part, ms: *us as f64 / 1000.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::result::tests::measured;

    #[test]
    fn long_runs_are_merged_and_what_was_not_there_has_no_chart() {
        let second = |at: u32| Second {
            at_s: f64::from(at),
            is_warm_up: at <= 10,
            produced_records_per_s: f64::from(at % 2),
            latency_max_us: if at == 500 { 9_000_000 } else { 1000 },
            ..Second::default()
        };
        let series: Vec<_> = (1..=900).map(second).collect();
        let spans = spans(&series);
        assert_eq!((spans.len(), spans[0].to_s, spans[1].from_s), (90, 10.0, 10.0));
        let measured = Measured { series: series.clone(), ..measured() };
        let figures: Vec<_> = plans(&measured).iter().filter_map(|plan| plan.figure(&spans)).collect();
        let captions: Vec<_> = figures.iter().map(|figure| figure.caption.as_str()).collect();
        assert_eq!(captions, ["Throughput", "Latency"]);
        assert!(figures[0].svg.contains("<title>10 s: produced 0.500 records/s</title>"), "{}", figures[0].svg);
        assert!(figures[0].svg.contains("class=\"warm-up\""));
        assert!(figures[1].svg.contains("max 9,000 ms"), "the most is not averaged away");
        assert!(self::spans(&[]).is_empty());
    }

    #[test]
    fn distributions_end_before_the_slowest_record() {
        let case = sample::measured("H2", "kafka", 1, 1000.0);
        let measured = case.measured().unwrap();
        let quantiles = quantiles(measured.latency.as_ref().unwrap());
        assert!(quantiles.iter().all(|quantile| quantile.nines.is_finite()));
        let figure = distribution(measured).unwrap();
        assert!(figure.svg.contains(">99.9 %<") && figure.svg.contains("% within"), "{}", figure.svg);
    }
}
