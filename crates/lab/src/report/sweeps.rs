//! The charts that a scenario asks for: a figure over what its matrix varies, or a bar for each case.

use super::axis::Axis;
use super::bars::{self, Bar, BarGroup};
use super::chart::{Chart, LARGE, Line, Point};
use super::drawing::{Mark, Style, swatch};
use super::figure::{Figure, LegendEntry};
use super::group::Group;
use super::labels::Labels;
use super::{format, measure};
use crate::result::{self, Measure, SearchFacts};

/// Values that span more than this factor stand on a logarithmic axis.
const LOG_FROM: f64 = 30.0;
const SATURATED_NOTE: &str = "× saturated: the length of the client's queue, not the latency of the broker.";
const SPREAD_NOTE: &str = "Whiskers are the least and the most of all repetitions, around the one in the middle.";

/// The cases of a chart, and what tells its lines apart.
struct Sweep<'a> {
    chart: &'a result::Chart,
    groups: Vec<&'a Group<'a>>,
    labels: Labels<'a>,
    has_several_targets: bool,
}

pub(super) fn figure(chart: &result::Chart, search: Option<&SearchFacts>, groups: &[Group<'_>]) -> Figure {
    let sweep = Sweep::new(chart, groups);
    let figure = match &chart.x {
        Some(x) => sweep.lines(x),
        None => sweep.bars(),
    };
    let Some(mut figure) = figure else {
        let notes = vec!["None of its cases was measured.".to_owned()];
        return Figure { caption: chart.title.clone(), notes, ..Figure::default() };
    };
    if let Some(SearchFacts { goal, capacities }) = search {
        let answers = capacities.iter().filter_map(|found| Some((&found.target, found.highest_records_per_s?)));
        figure
            .notes
            .extend(answers.map(|(target, highest)| format!("{target} met {goal} up to {highest:.0} records/s.")));
    }
    if sweep.groups.iter().any(|group| sweep.is_queue(group)) {
        figure.notes.push(SATURATED_NOTE.to_owned());
    }
    if sweep.groups.iter().any(|group| group.spread(chart.y).is_some()) {
        figure.notes.push(SPREAD_NOTE.to_owned());
    }
    figure.commands = distinct(sweep.groups.iter().map(|group| group.case.reproduce.clone()));
    Figure { caption: chart.title.clone(), ..figure }
}

/// Whether positive values are so far apart that a linear axis would hide the small ones.
pub(super) fn is_log(least: f64, most: f64) -> bool {
    least > 0.0 && most > least * LOG_FROM
}

impl<'a> Sweep<'a> {
    fn new(chart: &'a result::Chart, groups: &'a [Group<'a>]) -> Self {
        let is_chosen = |group: &&Group<'_>| {
            let is_named = chart.cases.iter().any(|id| *id == group.case.group || *id == group.case.id);
            is_named && chart.x.as_ref().is_none_or(|x| group.case.axes.contains_key(x))
        };
        let groups: Vec<_> = groups.iter().filter(is_chosen).collect();
        let labels = Labels::of(groups.iter().map(|group| group.case), chart.x.as_deref());
        let has_several_targets = groups.iter().any(|group| group.case.target != groups[0].case.target);
        Self { chart, groups, labels, has_several_targets }
    }

    /// Whether it is shown as a latency, and is none.
    fn is_queue(&self, group: &Group<'_>) -> bool {
        measure::is_latency(self.chart.y) && group.is_saturated() && group.value(self.chart.y).is_some()
    }

    fn published(&self, group: &Group<'_>) -> Option<f64> {
        group.published(self.chart.y)
    }

    /// Which line it belongs to, the target left out.
    fn variant(&self, group: &Group<'_>) -> String {
        self.labels.of_case(group.case)
    }

    fn label(&self, group: &Group<'_>) -> String {
        match (self.variant(group), &group.case.target) {
            (variant, target) if variant.is_empty() => target.clone(),
            (variant, target) if self.has_several_targets => format!("{target}, {variant}"),
            (variant, _) => variant,
        }
    }

    fn bar_label(&self, group: &Group<'_>) -> String {
        let label = self.labels.or_group(group.case);
        match group.base {
            Some(base) if self.chart.y == Measure::BrokerCpuRatio => format!("{label} over {}", base.id),
            _ => label,
        }
    }

    fn lines(&self, x: &str) -> Option<Figure> {
        let values = distinct(self.groups.iter().filter_map(|group| group.case.axes.get(x).map(String::as_str)));
        let axis = ValueAxis::of(x, values);
        let labels = distinct(self.groups.iter().map(|group| self.label(group)));
        let ours = labels.into_iter().enumerate().map(|(index, label)| {
            let own = self.groups.iter().filter(|group| self.label(group) == label);
            let points = own.filter_map(|group| self.point(group, x, &axis)).collect();
            line(label.clone(), Style::of(index), points)
        });
        // They are the same for all targets.
        let variants = distinct(self.groups.iter().map(|group| self.variant(group)));
        let theirs = variants.into_iter().enumerate().map(|(index, variant)| {
            let own = self.groups.iter().filter(|group| self.variant(group) == variant);
            let points = own.filter_map(|group| self.published_point(group, x, &axis)).collect();
            let label = if variant.is_empty() { "published".to_owned() } else { format!("published, {variant}") };
            line(label, Style::published(index), points)
        });
        let lines: Vec<_> = ours.chain(theirs).filter(|line| !line.points.is_empty()).collect();
        let points = lines.iter().flat_map(|line| &line.points);
        let values = points.flat_map(|point| [point.y, point.spread.map(|(_, most)| most)]);
        let most = values.flatten().reduce(f64::max)?;
        let (name, y) = (self.chart.title.clone(), Axis::from_zero(measure::title(self.chart.y), most));
        let chart = Chart { name, size: LARGE, x: axis.axis, y, lines, warm_up: None, steps: Vec::new() };
        Some(Figure::of_chart(&chart))
    }

    fn point(&self, group: &Group<'_>, x: &str, axis: &ValueAxis<'_>) -> Option<Point> {
        let (value, y) = (group.case.axes.get(x)?, group.value(self.chart.y)?);
        let (id, target) = (&group.case.id, &group.case.target);
        let (figure, unit) = (format::number(y), measure::title(self.chart.y));
        let (mark, saturated) = if self.is_queue(group) { (Mark::Cross, " (saturated)") } else { (Mark::Filled, "") };
        Some(Point {
            spread: group.spread(self.chart.y),
            mark: Some(mark),
            title: Some(format!("{id} on {target}: {figure} {unit}{saturated}")),
            ..Point::plain(axis.of_value(value)?, Some(y))
        })
    }

    fn published_point(&self, group: &Group<'_>, x: &str, axis: &ValueAxis<'_>) -> Option<Point> {
        let (value, y) = (group.case.axes.get(x)?, self.published(group)?);
        let (figure, unit) = (format::number(y), measure::title(self.chart.y));
        Some(Point {
            mark: Some(Mark::Hollow),
            title: Some(format!("{}, published: {figure} {unit}", group.case.id)),
            ..Point::plain(axis.of_value(value)?, Some(y))
        })
    }

    fn bars(&self) -> Option<Figure> {
        let measured = self.groups.iter().filter(|group| group.value(self.chart.y).is_some());
        let targets = distinct(measured.map(|group| group.case.target.as_str()));
        let bar = |group: &Group<'_>| {
            let index = targets.iter().position(|target| *target == group.case.target)?;
            Some(Bar {
                target: group.case.target.clone(),
                style: Style::of(index),
                value: group.value(self.chart.y)?,
                spread: group.spread(self.chart.y),
                is_queue: self.is_queue(group),
            })
        };
        let has_several_titles = self.groups.iter().any(|group| group.case.title != self.groups[0].case.title);
        let together = self.groups.chunk_by(|a, b| a.case.id == b.case.id).map(|groups| BarGroup {
            id: groups[0].case.id.clone(),
            label: self.bar_label(groups[0]),
            title: if has_several_titles { groups[0].case.title.clone() } else { String::new() },
            bars: groups.iter().filter_map(|group| bar(group)).collect(),
            published: self.published(groups[0]),
        });
        let bar_groups: Vec<_> = together.filter(|group| !group.bars.is_empty() || group.published.is_some()).collect();
        if bar_groups.is_empty() {
            return None;
        }
        let named = targets.iter().enumerate().filter(|_| targets.len() > 1);
        let entry = |swatch, label: &str| LegendEntry { swatch, label: label.to_owned() };
        let mut legend: Vec<_> = named.map(|(at, target)| entry(bars::swatch(Style::of(at)), target)).collect();
        if bar_groups.iter().any(|group| group.published.is_some()) {
            legend.push(entry(swatch(Style::published(0), Some(Mark::Hollow), false), "published"));
        }
        let svg = bars::svg(&self.chart.title, measure::title(self.chart.y), &bar_groups);
        Some(Figure { svg, legend, ..Figure::default() })
    }
}

/// Its points in order, one for each value.
fn line(label: String, style: Style, mut points: Vec<Point>) -> Line {
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    points.dedup_by(|a, b| a.x == b.x);
    // No line joins the length of a queue and a latency.
    let is_queue = |point: &Point| point.mark == Some(Mark::Cross);
    let runs = points.chunk_by(|a, b| is_queue(a) == is_queue(b));
    let points = runs.map(<[Point]>::to_vec).collect::<Vec<_>>().join(&Point::plain(0.0, None));
    Line { label, style, is_joined: true, points }
}

/// The x axis, and where the values are on it.
struct ValueAxis<'a> {
    axis: Axis,
    /// `None` where all of them are numbers.
    names: Option<Vec<&'a str>>,
}

impl<'a> ValueAxis<'a> {
    fn of(x: &str, values: Vec<&'a str>) -> Self {
        let numbers: Option<Vec<f64>> = values.iter().map(|value| number(value)).collect();
        let Some(mut numbers) = numbers else {
            let names = values.iter().map(|&name| name.to_owned()).collect();
            return Self { axis: Axis::of_names(x, names), names: Some(values) };
        };
        numbers.sort_by(f64::total_cmp);
        let is_log = matches!(numbers[..], [least, .., most] if is_log(least, most));
        let ticks = numbers.into_iter().map(|value| (value, tick_text(x, value))).collect();
        Self { axis: Axis::of_values(x, ticks, is_log), names: None }
    }

    fn of_value(&self, value: &str) -> Option<f64> {
        match &self.names {
            Some(names) => names.iter().position(|name| *name == value).map(|at| at as f64),
            None => number(value),
        }
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Sizes of memory are powers of two more often than not.
fn tick_text(axis: &str, value: f64) -> String {
    const UNITS: [(f64, &str); 2] = [(1_048_576.0, "\u{a0}MiB"), (1024.0, "\u{a0}KiB")];
    let is_size = ["size", "bytes", "memory"].iter().any(|word| axis.contains(word));
    let unit = UNITS.iter().find(|(unit, _)| is_size && value >= *unit && value % unit == 0.0);
    unit.map_or_else(|| format::compact(value), |(unit, name)| format::compact(value / unit) + name)
}

/// In the order in which they come first.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.fold(Vec::new(), |mut found, value| {
        if !found.contains(&value) {
            found.push(value);
        }
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spaced_as_numbers_and_names_evenly() {
        let axis = ValueAxis::of("partitions", vec!["9", "1", "3"]);
        let texts: Vec<_> = axis.axis.ticks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!((texts, axis.of_value("3")), (vec!["1", "3", "9"], Some(3.0)));
        let axis = ValueAxis::of("fetch.max.bytes", vec!["10240", "1048576", "1000"]);
        let texts: Vec<_> = axis.axis.ticks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["1,000", "10\u{a0}KiB", "1\u{a0}MiB"]);
        assert!((axis.axis.part(32_400.0) - 0.5).abs() < 0.01, "logarithmic");
        let axis = ValueAxis::of("producer.acks", vec!["all", "1"]);
        assert_eq!((axis.of_value("all"), axis.of_value("1"), axis.of_value("0")), (Some(0.0), Some(1.0), None));
    }
}
