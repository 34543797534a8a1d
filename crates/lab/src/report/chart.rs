//! Charts of lines and points on two axes, as drawings.

use super::axis::Axis;
use super::drawing::{Drawing, Mark, Style, width_of};

/// The size of a chart, in the drawing's own units. The font is the largest that the style sheet uses for it (on
/// phones), so that what fits here fits everywhere.
#[derive(Clone, Copy)]
pub(super) struct Size {
    class: &'static str,
    width: f64,
    height: f64,
    font: f64,
}

/// Two beside each other on a page.
pub(super) const LARGE: Size = Size { class: "plot large", width: 480.0, height: 300.0, font: 15.0 };
/// Three beside each other.
pub(super) const SMALL: Size = Size { class: "plot small", width: 360.0, height: 190.0, font: 12.0 };

/// Between the texts of two ticks.
const TICK_GAP: f64 = 8.0;

pub(super) struct Chart {
    pub name: String,
    pub size: Size,
    pub x: Axis,
    pub y: Axis,
    pub lines: Vec<Line>,
    /// What lies left of it is the warm-up.
    pub warm_up: Option<f64>,
    /// Where a tooltip is for a whole part of the x axis.
    pub steps: Vec<Step>,
}

pub(super) struct Line {
    pub label: String,
    pub style: Style,
    /// Whether the points are joined.
    pub is_joined: bool,
    pub points: Vec<Point>,
}

#[derive(Clone, Debug)]
pub(super) struct Point {
    pub x: f64,
    /// `None` makes a gap.
    pub y: Option<f64>,
    pub spread: Option<(f64, f64)>,
    /// Points without a mark are only part of the line.
    pub mark: Option<Mark>,
    pub title: Option<String>,
    /// Beside the point, if it fits.
    pub label: Option<String>,
}

impl Point {
    /// A point of a line that has no marks.
    pub(super) fn plain(x: f64, y: Option<f64>) -> Self {
        Self { x, y, spread: None, mark: None, title: None, label: None }
    }
}

pub(super) struct Step {
    pub from: f64,
    pub to: f64,
    pub title: String,
}

/// Part of a drawing: where the values are, or what a label covers.
#[derive(Clone, Copy)]
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Area {
    fn around(x: f64, y: f64, distance: f64) -> Self {
        Self { left: x - distance, right: x + distance, top: y - distance, bottom: y + distance }
    }

    fn meets(&self, other: &Self) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }
}

impl Chart {
    pub(super) fn svg(&self) -> String {
        let Size { class, width, height, .. } = self.size;
        let area = self.area();
        let mut drawing = Drawing::new(Some(self.name.clone()), class, width, height);
        self.draw_axes(&area, &mut drawing);
        for line in self.lines.iter().filter(|line| line.is_joined) {
            drawing.line(line.style.line_class(), line.points.iter().map(|point| self.position(&area, point)));
        }
        for line in &self.lines {
            self.draw_spreads(line, &area, &mut drawing);
        }
        for line in &self.lines {
            for point in &line.points {
                if let (Some(position), Some(mark)) = (self.position(&area, point), point.mark) {
                    drawing.mark(line.style, mark, position, point.title.clone());
                }
            }
        }
        self.draw_labels(&area, &mut drawing);
        for step in &self.steps {
            let (from, to) = (self.x_at(&area, step.from), self.x_at(&area, step.to));
            let size = (to - from, area.bottom - area.top);
            drawing.rectangle("step", (from, area.top), size, Some(step.title.clone()));
        }
        drawing.svg()
    }

    fn area(&self) -> Area {
        let Size { width, height, font, .. } = self.size;
        let widest = self.y.ticks.iter().map(|(_, text)| width_of(text, font)).fold(0.0, f64::max);
        let left = widest + 8.0;
        // The text of the last tick is centred below it and must not be cut off.
        let room = self
            .x
            .ticks
            .last()
            .map(|(value, text)| (width - width_of(text, font) / 2.0 - 2.0 - left) / self.x.part(*value).max(0.1));
        Area {
            left,
            right: room.map_or(f64::MAX, |room| left + room).min(width - 8.0),
            top: font + 14.0,
            bottom: height - (1.0 + self.x_text_lines() as f64) * font - 14.0,
        }
    }

    fn x_text_lines(&self) -> usize {
        self.x.ticks.iter().map(|(_, text)| text.split('\n').count()).max().unwrap_or(1)
    }

    fn x_at(&self, area: &Area, value: f64) -> f64 {
        area.left + self.x.part(value) * (area.right - area.left)
    }

    fn y_at(&self, area: &Area, value: f64) -> f64 {
        area.bottom - self.y.part(value) * (area.bottom - area.top)
    }

    fn position(&self, area: &Area, point: &Point) -> Option<(f64, f64)> {
        Some((self.x_at(area, point.x), self.y_at(area, point.y?)))
    }

    fn draw_axes(&self, area: &Area, drawing: &mut Drawing) {
        let Size { height, font, .. } = self.size;
        let Area { left, right, top, bottom } = *area;
        if let Some(warm_up) = self.warm_up {
            drawing.rectangle("warm-up", (left, top), (self.x_at(area, warm_up) - left, bottom - top), None);
        }
        let levels = self.y.ticks.iter().map(|(value, _)| self.y_at(area, *value));
        drawing.line("grid".to_owned(), levels.flat_map(|y| [Some((left, y)), Some((right, y)), None]));
        for (value, text) in &self.y.ticks {
            drawing.text("tick end", left - 6.0, self.y_at(area, *value) + font * 0.35, text);
        }
        let marks = self.x.ticks.iter().map(|(value, _)| self.x_at(area, *value));
        drawing.line("axis".to_owned(), marks.flat_map(|x| [Some((x, bottom)), Some((x, bottom + 4.0)), None]));
        for (x, text) in self.x_texts(area) {
            for (row, line) in text.split('\n').enumerate() {
                drawing.text("tick middle", x, bottom + (row + 1) as f64 * font + 4.0, line);
            }
        }
        drawing.segment("axis", (left, bottom), (right, bottom));
        drawing.text("title", 0.0, font, &self.y.title);
        drawing.text("title middle", f64::midpoint(left, right), height - 4.0, &self.x.title);
    }

    /// The texts of the x axis that fit; the last one before all others.
    fn x_texts(&self, area: &Area) -> Vec<(f64, &str)> {
        let mut shown = Vec::new();
        let Some(((last, last_text), others)) = self.x.ticks.split_last() else { return shown };
        let half = |text: &str| width_of(text, self.size.font) / 2.0;
        let last_x = self.x_at(area, *last);
        let mut free_from = f64::MIN;
        for (value, text) in others {
            let x = self.x_at(area, *value);
            if x - half(text) >= free_from && x + half(text) + TICK_GAP <= last_x - half(last_text) {
                shown.push((x, text.as_str()));
                free_from = x + half(text) + TICK_GAP;
            }
        }
        shown.push((last_x, last_text));
        shown
    }

    /// From the least to the most of all repetitions.
    fn draw_spreads(&self, line: &Line, area: &Area, drawing: &mut Drawing) {
        for point in &line.points {
            let Some((least, most)) = point.spread else { continue };
            let (x, low, high) = (self.x_at(area, point.x), self.y_at(area, least), self.y_at(area, most));
            let across = |y: f64| [Some((x - 4.0, y)), Some((x + 4.0, y)), None];
            let along = [Some((x, low)), Some((x, high)), None];
            drawing.line(format!("spread c{}", line.style.color), [across(low), along, across(high)].concat());
        }
    }

    /// Right or left of their points, where they meet neither each other nor another point nor the edge.
    fn draw_labels(&self, area: &Area, drawing: &mut Drawing) {
        let font = self.size.font;
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let marks = points().filter_map(|point| self.position(area, point));
        let mut taken: Vec<_> = marks.map(|(x, y)| Area::around(x, y, 6.0)).collect();
        for point in points() {
            let (Some(text), Some((x, y))) = (&point.label, self.position(area, point)) else { continue };
            let width = width_of(text, font);
            let (top, bottom) = (y - font * 0.4, y + font * 0.4);
            let right_of_it = Area { left: x + 8.0, right: x + 8.0 + width, top, bottom };
            let left_of_it = Area { left: x - 8.0 - width, right: x - 8.0, top, bottom };
            let candidates = [("label", x + 8.0, right_of_it), ("label end", x - 8.0, left_of_it)];
            let is_free = |(_, _, text_area): &(&str, f64, Area)| {
                text_area.left >= area.left
                    && text_area.right <= self.size.width
                    && !taken.iter().any(|other| other.meets(text_area))
            };
            if let Some((class, x, text_area)) = candidates.into_iter().find(is_free) {
                drawing.text(class, x, y + font * 0.35, text);
                taken.push(text_area);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<Point>) -> Chart {
        let line = Line { label: "parshall".to_owned(), style: Style::of(0), is_joined: true, points };
        Chart {
            name: "Throughput <b>".to_owned(),
            size: LARGE,
            x: Axis::of_values("partitions", vec![(1.0, "1".to_owned()), (2.0, "2".to_owned())], false),
            y: Axis::from_zero("records/s", 4.0),
            lines: vec![line],
            warm_up: None,
            steps: Vec::new(),
        }
    }

    fn marked(x: f64, y: f64, label: &str) -> Point {
        Point { mark: Some(Mark::Filled), label: Some(label.to_owned()), ..Point::plain(x, Some(y)) }
    }

    #[test]
    fn a_chart_has_lines_marks_spreads_and_ticks() {
        let mut chart = chart(vec![marked(1.0, 2.0, "a"), Point { spread: Some((1.0, 4.0)), ..marked(2.0, 3.0, "b") }]);
        chart.warm_up = Some(1.5);
        chart.steps.push(Step { from: 1.0, to: 2.0, title: "1 s: 5".to_owned() });
        let svg = chart.svg();
        for part in [
            "class=\"line c1\"",
            "class=\"mark c1\"",
            "class=\"spread c1\"",
            "class=\"warm-up\"",
            ">partitions<",
            "<title>1 s: 5</title>",
            "Throughput &#60;b",
        ] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
    }

    #[test]
    fn ticks_that_would_meet_have_no_text_but_the_last_one_has() {
        let mut chart = chart(vec![marked(1.0, 2.0, "a")]);
        let ticks = [1.0, 2.0, 50.0, 96.0, 100.0].map(|value: f64| (value, format!("{value} records")));
        chart.x = Axis::of_values("", ticks.to_vec(), false);
        let texts: Vec<_> = chart.x_texts(&chart.area()).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["1 records", "50 records", "100 records"]);
    }

    #[test]
    fn labels_that_would_meet_are_left_out() {
        let svg = chart(vec![marked(1.5, 2.0, "first"), marked(1.5, 2.0, "second"), marked(1.5, 2.0, "third")]).svg();
        assert!(svg.contains("first") && svg.contains("second") && !svg.contains("third"), "{svg}");
        let svg = chart(vec![marked(1.0, 2.0, "first"), marked(2.0, 2.0, "second")]).svg();
        assert!(svg.contains("first") && svg.contains("second"), "{svg}");
    }
}
