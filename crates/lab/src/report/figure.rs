//! A drawing with its caption, its legend and what belongs below it.

use super::chart::{Chart, Line};
use super::drawing::{Mark, swatch};

#[derive(Default)]
pub(super) struct Figure {
    pub caption: String,
    /// Escaped already.
    pub svg: String,
    pub legend: Vec<LegendEntry>,
    pub notes: Vec<String>,
    /// What makes its figures again.
    pub commands: Vec<String>,
}

pub(super) struct LegendEntry {
    /// Escaped already.
    pub swatch: String,
    pub label: String,
}

impl Figure {
    pub(super) fn of_chart(chart: &Chart) -> Self {
        let legend = chart.lines.iter().map(entry).collect();
        Self { caption: chart.name.clone(), svg: chart.svg(), legend, ..Self::default() }
    }
}

fn entry(line: &Line) -> LegendEntry {
    let marks = || line.points.iter().filter_map(|point| point.mark);
    let mark = marks().find(|mark| *mark != Mark::Cross).or(marks().next());
    LegendEntry { swatch: swatch(line.style, mark, line.is_joined), label: line.label.clone() }
}
