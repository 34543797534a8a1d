//! Drawings made of a few shapes, written as SVG. Colours and fonts are the style sheet's.
//!
//! All text goes through the template, which escapes it.

use std::fmt::{self, Write};

use askama::Template;

/// Colours that the style sheet has besides grey.
const COLORS: usize = 6;
/// Characters are about so wide, in parts of the size of the font.
const CHARACTER_WIDTH: f64 = 0.58;

#[derive(Template)]
#[template(path = "drawing.svg")]
pub(super) struct Drawing {
    /// For readers who cannot see it; `None` for decoration.
    name: Option<String>,
    class: &'static str,
    width: f64,
    height: f64,
    shapes: Vec<Shape>,
}

enum Shape {
    Path { class: String, d: String, title: Option<String> },
    Rectangle { class: &'static str, x: Px, y: Px, width: Px, height: Px, title: Option<String> },
    Text { class: &'static str, x: Px, y: Px, text: String },
}

/// A coordinate: tenths are enough.
#[derive(Clone, Copy)]
struct Px(f64);

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", (self.0 * 10.0).round() / 10.0)
    }
}

/// How a line and its marks look. Forms differ as well as colours, for color-blind readers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Style {
    /// Of the palette, from 1 on; 0 is grey.
    pub color: usize,
    pub form: usize,
    pub is_dashed: bool,
}

impl Style {
    /// Of the lines of a chart, from 0 on. After the last colour they come again, dashed.
    pub(super) fn of(index: usize) -> Self {
        Self { color: index % COLORS + 1, form: index, is_dashed: (index / COLORS) % 2 == 1 }
    }

    /// For what is not ours.
    pub(super) fn published(index: usize) -> Self {
        Self { color: 0, form: 3 + index, is_dashed: true }
    }

    pub(super) fn line_class(self) -> String {
        format!("line c{}{}", self.color, if self.is_dashed { " dashed" } else { "" })
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Mark {
    Filled,
    /// Of what others have published.
    Hollow,
    /// A figure that must not be taken for what it looks like.
    Cross,
}

impl Drawing {
    pub(super) fn new(name: Option<String>, class: &'static str, width: f64, height: f64) -> Self {
        Self { name, class, width, height, shapes: Vec::new() }
    }

    pub(super) fn text(&mut self, class: &'static str, x: f64, y: f64, text: &str) {
        self.shapes.push(Shape::Text { class, x: Px(x), y: Px(y), text: text.to_owned() });
    }

    pub(super) fn rectangle(
        &mut self,
        class: &'static str,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        title: Option<String>,
    ) {
        self.shapes.push(Shape::Rectangle { class, x: Px(x), y: Px(y), width: Px(width), height: Px(height), title });
    }

    /// A line through points, with a gap where there is `None`.
    pub(super) fn line(&mut self, class: String, points: impl IntoIterator<Item = Option<(f64, f64)>>) {
        let mut d = String::new();
        let mut is_begun = false;
        for point in points {
            if let Some((x, y)) = point {
                _ = write!(d, "{}{} {}", if is_begun { 'L' } else { 'M' }, Px(x), Px(y));
            }
            is_begun = point.is_some();
        }
        self.shapes.push(Shape::Path { class, d, title: None });
    }

    pub(super) fn segment(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.line(class.to_owned(), [Some(from), Some(to)]);
    }

    pub(super) fn mark(&mut self, style: Style, mark: Mark, (x, y): (f64, f64), title: Option<String>) {
        let kind = match mark {
            Mark::Filled => "mark",
            Mark::Hollow => "mark hollow",
            Mark::Cross => "mark cross",
        };
        let d = if mark == Mark::Cross { cross(x, y) } else { form(style.form, x, y) };
        self.shapes.push(Shape::Path { class: format!("{kind} c{}", style.color), d, title });
    }

    pub(super) fn svg(&self) -> String {
        self.to_string()
    }
}

fn form(form: usize, x: f64, y: f64) -> String {
    let polygon = |corners: &[(f64, f64)]| {
        let corners: Vec<_> = corners.iter().map(|(dx, dy)| format!("{} {}", Px(x + dx), Px(y + dy))).collect();
        format!("M{}Z", corners.join("L"))
    };
    match form % 5 {
        0 => format!("M{} {}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z", Px(x - 4.0), Px(y)),
        1 => polygon(&[(-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)]),
        2 => polygon(&[(0.0, -4.8), (4.5, 3.4), (-4.5, 3.4)]),
        3 => polygon(&[(0.0, -5.4), (5.4, 0.0), (0.0, 5.4), (-5.4, 0.0)]),
        _ => polygon(&[(0.0, 4.8), (4.5, -3.4), (-4.5, -3.4)]),
    }
}

fn cross(x: f64, y: f64) -> String {
    let [left, right, top, bottom] = [x - 4.0, x + 4.0, y - 4.0, y + 4.0].map(Px);
    format!("M{left} {top}L{right} {bottom}M{left} {bottom}L{right} {top}")
}

/// The sample of a line that a legend has.
pub(super) fn swatch(style: Style, mark: Option<Mark>, is_line: bool) -> String {
    let mut drawing = Drawing::new(None, "swatch", 28.0, 12.0);
    if is_line {
        drawing.line(style.line_class(), [Some((1.0, 6.0)), Some((27.0, 6.0))]);
    }
    if let Some(mark) = mark {
        drawing.mark(style, mark, (14.0, 6.0), None);
    }
    drawing.svg()
}

/// About how wide a text is, or the longest of its lines.
pub(super) fn width_of(text: &str, font_size: f64) -> f64 {
    text.split('\n').map(|line| line.chars().count()).max().unwrap_or(0) as f64 * font_size * CHARACTER_WIDTH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_escaped() {
        let hostile = "<script>alert(\"1\")</script>";
        let mut drawing = Drawing::new(Some(hostile.to_owned()), "plot", 100.0, 50.0);
        drawing.text("tick", 1.0, 2.0, hostile);
        drawing.mark(Style::of(0), Mark::Filled, (10.0, 10.0), Some(hostile.to_owned()));
        drawing.rectangle("bar c1", (0.0, 0.0), (5.0, 5.0), Some(hostile.to_owned()));
        let svg = drawing.svg();
        assert!(!svg.contains("<script") && !svg.contains("(\"1\")"), "{svg}");
        assert_eq!(svg.matches("&#60;script&#62;").count(), 4, "{svg}");
    }

    #[test]
    fn lines_have_gaps_where_nothing_is_known() {
        let mut drawing = Drawing::new(None, "plot", 100.0, 50.0);
        drawing.line(Style::of(0).line_class(), [Some((0.0, 1.0)), Some((2.04, 3.0)), None, Some((4.0, 5.0))]);
        assert!(drawing.svg().contains("d=\"M0 1L2 3M4 5\""), "{}", drawing.svg());
    }

    #[test]
    fn lines_differ_without_their_colour() {
        assert_ne!(form(Style::of(0).form, 0.0, 0.0), form(Style::of(1).form, 0.0, 0.0));
        assert!(Style::of(7).is_dashed && Style::of(7).color == Style::of(1).color);
    }
}
