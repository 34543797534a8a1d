//! Horizontal bars, a group of them for each case, with what was published as a diamond across them.

use super::axis::Axis;
use super::drawing::{Drawing, Mark, Style, width_of};
use super::format;

const WIDTH: f64 = 480.0;
const FONT: f64 = 15.0;
const BAR_HEIGHT: f64 = 14.0;
/// From bar to bar, and from group to group.
const BAR_PITCH: f64 = 18.0;
const GROUP_GAP: f64 = 10.0;
/// The names of groups stand above their bars.
const NAME_HEIGHT: f64 = 21.0;
/// For the values, right of the bars.
const VALUE_WIDTH: f64 = 72.0;
const TOP: f64 = 26.0;

pub(super) struct BarGroup {
    /// In tooltips.
    pub id: String,
    pub label: String,
    /// Empty where all cases have the same.
    pub title: String,
    pub bars: Vec<Bar>,
    pub published: Option<f64>,
}

pub(super) struct Bar {
    pub target: String,
    pub style: Style,
    pub value: f64,
    pub spread: Option<(f64, f64)>,
    /// A latency that only says how long the client's queue was.
    pub is_queue: bool,
}

impl BarGroup {
    fn bars_height(&self) -> f64 {
        self.bars.len().max(1) as f64 * BAR_PITCH
    }

    fn height(&self) -> f64 {
        NAME_HEIGHT + self.bars_height() + GROUP_GAP
    }
}

pub(super) fn svg(name: &str, unit: &str, groups: &[BarGroup]) -> String {
    let values = groups.iter().flat_map(|group| {
        let bars = group.bars.iter().flat_map(|bar| [Some(bar.value), bar.spread.map(|(_, most)| most)]);
        bars.chain([group.published]).flatten()
    });
    let axis = Axis::from_zero(unit, values.fold(0.0, f64::max));
    let bottom = TOP + groups.iter().map(BarGroup::height).sum::<f64>();
    let mut drawing = Drawing::new(Some(name.to_owned()), "plot large", WIDTH, bottom + FONT + 8.0);
    drawing.text("title", 0.0, FONT, unit);
    let grid = axis.ticks.iter().map(|(value, _)| x_at(&axis, *value));
    drawing.line("grid".to_owned(), grid.flat_map(|x| [Some((x, TOP)), Some((x, bottom)), None]));
    for (value, text) in &axis.ticks {
        let x = x_at(&axis, *value);
        drawing.text(if *value == 0.0 { "tick" } else { "tick middle" }, x, bottom + FONT + 2.0, text);
    }
    let mut top = TOP;
    for group in groups {
        draw(group, top, &axis, &mut drawing);
        top += group.height();
    }
    drawing.svg()
}

fn x_at(axis: &Axis, value: f64) -> f64 {
    1.0 + axis.part(value) * (WIDTH - VALUE_WIDTH - 1.0)
}

fn draw(group: &BarGroup, top: f64, axis: &Axis, drawing: &mut Drawing) {
    drawing.text("name", 1.0, top + FONT, &shortened(&group.label, &group.title));
    let first = top + NAME_HEIGHT;
    for (at, bar) in group.bars.iter().enumerate() {
        draw_bar(&group.id, bar, first + at as f64 * BAR_PITCH, axis, drawing);
    }
    if let Some(published) = group.published {
        let (x, last) = (x_at(axis, published), first + group.bars_height() - (BAR_PITCH - BAR_HEIGHT));
        let title = format!("{}, published: {} {}", group.id, format::number(published), axis.title);
        drawing.segment("line c0", (x, first - 2.0), (x, last + 2.0));
        drawing.mark(Style::published(0), Mark::Hollow, (x, f64::midpoint(first, last)), Some(title));
    }
}

fn draw_bar(id: &str, bar: &Bar, y: f64, axis: &Axis, drawing: &mut Drawing) {
    let (sign, saturated) = if bar.is_queue { ("× ", " (saturated)") } else { ("", "") };
    let title = format!("{id} on {}: {} {}{saturated}", bar.target, format::number(bar.value), axis.title);
    drawing.rectangle(bar_class(bar), (1.0, y), (x_at(axis, bar.value) - 1.0, BAR_HEIGHT), Some(title));
    drawing.text("value end", WIDTH, y + BAR_HEIGHT * 0.85, &format!("{sign}{}", format::compact(bar.value)));
    if let Some((least, most)) = bar.spread {
        let (low, high, middle) = (x_at(axis, least), x_at(axis, most), y + BAR_HEIGHT / 2.0);
        let across = |x: f64| [Some((x, middle - 4.0)), Some((x, middle + 4.0)), None];
        let along = [Some((low, middle)), Some((high, middle)), None];
        drawing.line("spread".to_owned(), [across(low), along, across(high)].concat());
    }
}

fn bar_class(bar: &Bar) -> &'static str {
    const CLASSES: [&str; 7] = ["bar c0", "bar c1", "bar c2", "bar c3", "bar c4", "bar c5", "bar c6"];
    if bar.is_queue { CLASSES[0] } else { CLASSES[bar.style.color % CLASSES.len()] }
}

/// The sample of a bar that a legend has.
pub(super) fn swatch(style: Style) -> String {
    let bar = Bar { target: String::new(), style, value: 0.0, spread: None, is_queue: false };
    let mut drawing = Drawing::new(None, "swatch", 28.0, 12.0);
    drawing.rectangle(bar_class(&bar), (2.0, 1.0), (24.0, 10.0), None);
    drawing.svg()
}

/// As much as fits one line: the start of the title, but the end of the label, where labels differ.
fn shortened(label: &str, title: &str) -> String {
    let room = (WIDTH / width_of("x", FONT)) as usize;
    let whole = if title.is_empty() { label.to_owned() } else { format!("{label} · {title}") };
    let label_length = label.chars().count();
    if whole.chars().count() <= room {
        whole
    } else if label_length < room {
        let cut: String = whole.chars().take(room - 1).collect();
        cut.trim_end_matches([' ', '·']).to_owned() + "…"
    } else {
        "…".chars().chain(label.chars().skip(label_length + 1 - room)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shortened_to_what_tells_them_apart() {
        assert_eq!(shortened("H1", "Batches"), "H1 · Batches");
        let (id, title) = ("i".repeat(40), "t".repeat(40));
        assert_eq!(shortened(&id, &title), format!("{id} · {}…", "t".repeat(11)));
        assert_eq!(shortened(&format!("{}end", id.repeat(2)), ""), format!("…{}end", "i".repeat(51)));
    }

    #[test]
    fn bars_have_values_and_what_was_published() {
        let bar = Bar {
            target: "kafka".to_owned(),
            style: Style::of(1),
            value: 37.0,
            spread: Some((36.0, 38.0)),
            is_queue: false,
        };
        let queue =
            Bar { target: "parshall".to_owned(), style: Style::of(0), value: 20.0, spread: None, is_queue: true };
        let bars = vec![bar, queue];
        let (id, label) = ("H1/partitions=3".to_owned(), "partitions=3".to_owned());
        let groups = [BarGroup { id, label, title: "x".repeat(200), bars, published: Some(36.81) }];
        let svg = svg("MiB/s of each case", "MiB/s", &groups);
        for part in [
            "class=\"bar c2\"",
            "class=\"bar c0\"",
            "class=\"spread\"",
            "class=\"mark hollow c0\"",
            "H1/partitions=3, published: 36.8 MiB/s",
            "H1/partitions=3 on kafka: 37.0 MiB/s",
            ">partitions=3 · xxx",
            "× 20",
            "xxx…",
        ] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
    }
}
