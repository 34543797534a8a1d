//! A history as charts, a figure each: by themselves for the console, and as a page to read and to send on.

use std::collections::BTreeSet;

use askama::Template;

use super::axis::Axis;
use super::chart::{Chart, Line, Point, SMALL};
use super::drawing::{Mark, Style};
use super::figure::Figure;
use super::format;
use super::when;
use crate::compare::Spread;
use crate::history::{CaseHistory, Finding, History, HistoryFigure, HistoryPoint, HistoryRun, Trend, known_version};

/// Of a commit; `git` shows as many.
const COMMIT_CHARS: usize = 7;
/// In the order of [`HistoryFigure::ALL`].
const COLUMNS: [&str; 3] = ["Records/s", "p99, ms", "Broker CPU, s per million"];

#[derive(Template)]
#[template(path = "history.html")]
struct Page<'a> {
    history: &'a History,
    style: &'static str,
    runs: String,
    days: String,
    targets: String,
    summary: [String; 2],
    has_several_targets: bool,
    rows: Vec<Row<'a>>,
    cases: Vec<Case<'a>>,
}

/// A case on a target: the newest figures, and what has become of them.
struct Row<'a> {
    anchor: String,
    case: &'a CaseHistory,
    /// What is in the middle, and from where to where the repetitions are.
    figures: Vec<(&'static str, String, String)>,
    findings: [(&'static str, &'a Finding, &'static str); 2],
}

struct Case<'a> {
    anchor: String,
    id: &'a str,
    title: &'a str,
    charts: String,
}

#[derive(Template)]
#[template(path = "history_charts.html")]
struct Charts {
    charts: Vec<Figure>,
}

/// One page, with nothing outside it.
pub fn history_html(history: &History) -> String {
    let anchors: BTreeSet<_> = history.cases.iter().map(|case| &case.id).collect();
    let anchor = |id| format!("case-{}", anchors.iter().position(|known| *known == id).unwrap_or(0) + 1);
    let targets: BTreeSet<_> = history.cases.iter().map(|case| case.target.as_str()).collect();
    let page = Page {
        history,
        style: include_str!("../../templates/report.css"),
        runs: format::counted(history.runs.len(), "run"),
        days: days(&history.runs),
        summary: history.summary(),
        has_several_targets: targets.len() > 1,
        targets: targets.into_iter().collect::<Vec<_>>().join(", "),
        rows: history.cases.iter().map(|case| row(anchor(&case.id), case)).collect(),
        cases: history
            .by_case()
            .map(|on_targets| Case {
                anchor: anchor(&on_targets[0].id),
                id: &on_targets[0].id,
                title: &on_targets[0].title,
                charts: history_charts(history, on_targets),
            })
            .collect(),
    };
    page.to_string() + "\n"
}

/// The figures of a case over the runs, a line for each target, as HTML.
pub fn history_charts(history: &History, on_targets: &[CaseHistory]) -> String {
    let charts = HistoryFigure::ALL.into_iter().filter_map(|figure| chart(history, on_targets, figure));
    Charts { charts: charts.collect() }.to_string()
}

fn row(anchor: String, case: &CaseHistory) -> Row<'_> {
    let newest = case.points.last();
    let figure = |figure: HistoryFigure| {
        let spread = newest.and_then(|point| point.figures[figure as usize]);
        let is_saturated = newest.is_some_and(|point| point.side.is_saturated);
        let text = match spread {
            None if figure == HistoryFigure::LatencyP99 && is_saturated => "saturated".to_owned(),
            spread => format::maybe(spread.map(|spread| spread.median)),
        };
        (COLUMNS[figure as usize], text, spread.map_or_else(String::new, range))
    };
    let finding = |label, finding| (label, finding, class(finding));
    Row {
        anchor,
        figures: HistoryFigure::ALL.map(figure).into(),
        findings: [finding("Against the run before", &case.before), finding("Against the first run", &case.first)],
        case,
    }
}

fn class(finding: &Finding) -> &'static str {
    match finding.trend {
        Trend::Better => "ratio better",
        Trend::Worse => "ratio worse",
        Trend::NoDifference | Trend::Unknown => "muted",
    }
}

/// From the least to the most of several.
fn range(spread: Spread) -> String {
    let Spread { least, most, count, .. } = spread;
    if count > 1 { format!("{} to {}", format::number(least), format::number(most)) } else { String::new() }
}

fn days(runs: &[HistoryRun]) -> String {
    let day = |run: Option<&HistoryRun>| run.map_or("", HistoryRun::day).to_owned();
    let (first, last) = (day(runs.first()), day(runs.last()));
    if first == last { first } else { format!("{first} to {last}") }
}

fn chart(history: &History, on_targets: &[CaseHistory], figure: HistoryFigure) -> Option<Figure> {
    let spreads = || on_targets.iter().flat_map(|case| &case.points).filter_map(|point| point.figures[figure as usize]);
    let least = spreads().map(|spread| spread.least).reduce(f64::min)?;
    let most = spreads().map(|spread| spread.most).reduce(f64::max)?;
    let line = |(index, case): (usize, &CaseHistory)| Line {
        label: case.target.clone(),
        style: Style::of(index),
        is_joined: true,
        points: (0..history.runs.len()).map(|run| point(history, case, run, figure)).collect(),
    };
    let mut drawn = Figure::of_chart(&Chart {
        name: figure.title().to_owned(),
        size: SMALL,
        x: Axis::of_names("runs, by commit and day", history.runs.iter().map(label).collect()),
        y: Axis::around(figure.unit(), least, most),
        lines: on_targets.iter().enumerate().map(line).collect(),
        warm_up: None,
        steps: Vec::new(),
    });
    if history.cases.iter().all(|case| case.target == history.cases[0].target) {
        drawn.legend.clear();
    }
    let mut points = on_targets.iter().flat_map(|case| &case.points);
    if figure == HistoryFigure::LatencyP99 && points.any(|point| point.side.is_saturated) {
        drawn.notes.push("Saturated runs have no latency.".to_owned());
    }
    Some(drawn)
}

fn point(history: &History, case: &CaseHistory, run: usize, figure: HistoryFigure) -> Point {
    let found = case.points.iter().find(|point| point.run == run);
    let Some((point, spread)) = found.and_then(|point| Some((point, point.figures[figure as usize]?))) else {
        return Point::plain(run as f64, None);
    };
    Point {
        spread: (spread.count > 1).then_some((spread.least, spread.most)),
        mark: Some(Mark::Filled),
        title: Some(tooltip(&history.runs[run], point, spread, figure)),
        ..Point::plain(run as f64, Some(spread.median))
    }
}

fn tooltip(run: &HistoryRun, point: &HistoryPoint, spread: Spread, figure: HistoryFigure) -> String {
    let version = known_version(&point.version);
    let range = Some(range(spread)).filter(|range| !range.is_empty()).map(|range| format!(" ({range})"));
    let repetitions = format::counted(spread.count, "repetition");
    let (number, unit) = (format::number(spread.median), figure.unit());
    format!("{}, {version}: {number} {unit}{}, {repetitions}", when(&run.started), range.unwrap_or_default())
}

/// The commit, or the version of what has none, above the day.
fn label(run: &HistoryRun) -> String {
    let commit = run.version.split_once(" (").map(|(_, commit)| commit.chars().take(COMMIT_CHARS).collect());
    format!("{}\n{}", commit.unwrap_or_else(|| run.version.clone()), run.day().get(5..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::history::PastRun;

    fn history() -> History {
        let run = |(at, rates): (usize, [f64; 2])| {
            let mut facts = sample::run();
            facts.started = format!("2026-11-2{at}T04:10:02.548Z");
            facts.program_version = format!("0.1.0 (abcdef{at}12345 2026-11-2{at})");
            facts.targets.truncate(1);
            let repetitions = (1..).zip(rates);
            let mut cases: Vec<_> =
                repetitions.map(|(repetition, rate)| sample::measured("<H1>", "parshall", repetition, rate)).collect();
            cases.push(sample::saturated(
                sample::measured("H2", "parshall", 1, 5.0),
                crate::bottleneck::Limit::ClientCpu,
                "",
            ));
            PastRun { directory: format!("results-{at}"), facts, cases }
        };
        let mut runs: Vec<_> =
            [[1000.0, 1010.0], [1000.0, 1020.0], [1500.0, 1530.0]].into_iter().enumerate().map(run).collect();
        runs[0].facts.host.cores = 4;
        runs.push(PastRun { directory: "results-3".to_owned(), ..runs[2].clone() });
        runs[3].facts.started = "2026-11-23T04:10:02.548Z".to_owned();
        History::of(runs.into_iter().rev()).unwrap()
    }

    #[test]
    fn a_page_has_a_chart_of_each_figure_with_the_spread_and_what_it_comes_to() {
        let page = history_html(&history());
        assert_eq!(page.matches("<figcaption>").count(), 5, "a saturated case has no latency");
        assert_eq!(
            page.matches("class=\"spread c1\"").count(),
            3 * 3,
            "three runs with two repetitions, three figures"
        );
        assert!(page.contains(">abcdef1</text>") && page.contains(">11-21</text>"), "{page}");
        assert!(!page.contains("abcdef0"), "another host");
        assert!(page.contains("another host: 4 x AMD EPYC") && page.contains("and not 8 x AMD"), "{page}");
        let title =
            "<title>2026-11-22 04:10:02 UTC, Parshall 0.1.0, embedded: 1,515 records/s (1,500 to 1,530), 2 repetitions";
        assert!(page.contains(title), "{page}");
        assert!(!page.contains("<H1>") && page.contains("&#60;H1&#62;"));
        assert!(!page.contains("<script") && !page.contains("http"), "it needs nothing from elsewhere");
        assert!(
            page.contains("no difference within the noise") && page.contains("unknown: one repetition only"),
            "{page}"
        );
    }

    #[test]
    fn charts_of_a_case_are_whole_by_themselves() {
        let history = history();
        let charts = history_charts(&history, history.by_case().next().unwrap());
        assert_eq!((charts.matches("<figure").count(), charts.matches("</figure>").count()), (3, 3));
    }
}
