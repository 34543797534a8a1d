//! What throughput costs a broker: all cases of a run as points.

use super::axis::Axis;
use super::chart::{Chart, LARGE, Line, Point};
use super::drawing::{Mark, Style};
use super::figure::Figure;
use super::group::Group;
use super::labels::Labels;
use super::{format, sweeps};
use crate::result::RunFacts;

/// Fewer points show nothing.
const POINTS_MIN: usize = 3;
/// With more points labels do not fit.
const LABELS_MAX: usize = 24;

pub(super) fn figure(run: &RunFacts, groups: &[Group<'_>]) -> Option<Figure> {
    let count = groups.iter().filter_map(point).count();
    if count < POINTS_MIN {
        return None;
    }
    let labels = Labels::of(groups.iter().map(|group| group.case), None);
    let lines = run.targets.iter().enumerate().map(|(index, target)| {
        let own = groups.iter().filter(|group| group.case.target == target.label);
        let label = |group: &Group<'_>| (count <= LABELS_MAX).then(|| labels.or_group(group.case));
        let points = own.filter_map(|group| Some(Point { label: label(group), ..point(group)? })).collect();
        Line { label: target.label.clone(), style: Style::of(index), is_joined: false, points }
    });
    let lines: Vec<_> = lines.filter(|line| !line.points.is_empty()).collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let (least, most) = points().fold((f64::MAX, 0.0), |(least, most), point| (point.x.min(least), point.x.max(most)));
    let x = match sweeps::is_log(least, most) {
        true => Axis::log("records/s", least, most),
        false => Axis::from_zero("records/s", most),
    };
    let y = Axis::from_zero("CPU of all brokers, cores", points().filter_map(|point| point.y).fold(0.0, f64::max));
    let name = "Broker CPU against throughput".to_owned();
    let mut figure = Figure::of_chart(&Chart { name, size: LARGE, x, y, lines, warm_up: None, steps: Vec::new() });
    figure.notes.push("Each point is a case; the lower and the further right, the cheaper.".to_owned());
    Some(figure)
}

fn point(group: &Group<'_>) -> Option<Point> {
    let measured = group.measured().filter(|measured| !measured.cost.brokers.is_empty() && measured.seconds > 0.0)?;
    let rate = group.rate()?;
    let cores = measured.cost.brokers.iter().map(|broker| broker.cpu_s).sum::<f64>() / measured.seconds;
    // CPU that is too little to be seen, or for nothing, says nothing about what a record costs.
    if rate <= 0.0 || cores <= 0.0 {
        return None;
    }
    let (id, target) = (&group.case.id, &group.case.target);
    let title = format!("{id} on {target}: {} records/s, {} cores", format::number(rate), format::number(cores));
    Some(Point { mark: Some(Mark::Filled), title: Some(title), ..Point::plain(rate, Some(cores)) })
}
