//! The axes of charts: where a value lies between the ends, and which values have a tick.

use super::format;

/// A linear axis has about so many steps.
const STEPS: f64 = 4.0;
/// Values that are further apart than this factor cannot be seen beside each other on a linear axis.
const LOG_FROM: f64 = 100.0;
/// What is left free at both ends of an axis whose ends are values.
const MARGIN: f64 = 0.04;
/// What an axis that does not begin at 0 shows at least, as a part of the largest value.
const LEAST_PART: f64 = 0.2;

/// One axis. Its ends are coordinates: the values themselves, or their logarithms.
pub(super) struct Axis {
    pub title: String,
    from: f64,
    to: f64,
    is_log: bool,
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From 0 to a round value that is not less than `most`.
    pub(super) fn from_zero(title: &str, most: f64) -> Self {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        let step = round_step(most / STEPS);
        let steps = (most / step - 1e-9).ceil().max(1.0);
        let values: Vec<_> = (0..=steps as u32).map(|n| f64::from(n) * step).collect();
        let texts = format::tick_texts(&values, step);
        let ticks = values.into_iter().zip(texts).collect();
        Self { title: title.to_owned(), from: 0.0, to: steps * step, is_log: false, ticks }
    }

    /// Between round values around what is shown, for points whose differences matter more than their sizes. It has a
    /// fifth of the largest at least, so that small differences look small.
    pub(super) fn around(title: &str, least: f64, most: f64) -> Self {
        let span = (most - least).max(most * LEAST_PART);
        if span.is_nan() || span <= 0.0 {
            return Self::from_zero(title, most);
        }
        let from = (f64::midpoint(least, most) - span / 2.0).max(0.0);
        let step = round_step(span / STEPS);
        let (first, last) = ((from / step + 1e-9).floor(), ((from + span) / step - 1e-9).ceil());
        let values: Vec<_> = (0..=(last - first) as u32).map(|n| (first + f64::from(n)) * step).collect();
        let texts = format::tick_texts(&values, step);
        let ticks = values.into_iter().zip(texts).collect();
        Self { title: title.to_owned(), from: first * step, to: last * step, is_log: false, ticks }
    }

    /// From 0 to exactly `most`: time, of which there is no more.
    pub(super) fn until(title: &str, most: f64) -> Self {
        let axis = Self::from_zero(title, most);
        let most = if most > 0.0 { most } else { axis.to };
        let ticks = axis.ticks.into_iter().filter(|(value, _)| *value <= most).collect();
        Self { ticks, to: most, ..axis }
    }

    /// Logarithmic, between round values.
    pub(super) fn log(title: &str, least: f64, most: f64) -> Self {
        let round = (-6..13).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)));
        let round: Vec<f64> = round.collect();
        let first = round.iter().rposition(|&value| value <= least * 1.000_001).unwrap_or(0).min(round.len() - 2);
        let last = round.iter().position(|&value| value >= most * 0.999_999).unwrap_or(round.len() - 1).max(first + 1);
        let inside = &round[first..=last];
        let is_decade = |value: &f64| (value.log10().round() - value.log10()).abs() < 1e-6;
        let decades: Vec<_> = inside.iter().copied().filter(is_decade).collect();
        let values = match decades.len() {
            0..3 => inside.to_vec(),
            3..8 => decades,
            _ => decades.into_iter().step_by(2).collect(),
        };
        let ticks = values.into_iter().map(|value| (value, format::compact(value))).collect();
        Self { title: title.to_owned(), from: round[first].log10(), to: round[last].log10(), is_log: true, ticks }
    }

    /// From 0, or logarithmic where the values that are more than 0 are too far apart.
    pub(super) fn fitting(title: &str, values: impl Iterator<Item = f64>) -> Self {
        let positive = values.filter(|value| value.is_finite() && *value > 0.0);
        let (least, most) = positive.fold((f64::MAX, 0.0), |(least, most), value| (value.min(least), value.max(most)));
        if most > least * LOG_FROM { Self::log(title, least, most) } else { Self::from_zero(title, most) }
    }

    /// A tick at each of these values, which are in order.
    pub(super) fn of_values(title: &str, ticks: Vec<(f64, String)>, is_log: bool) -> Self {
        let coordinate = |value: f64| if is_log { value.log10() } else { value };
        let from = ticks.first().map_or(0.0, |(value, _)| coordinate(*value));
        let to = ticks.last().map_or(1.0, |(value, _)| coordinate(*value));
        let margin = if to > from { (to - from) * MARGIN } else { 1.0 };
        Self { title: title.to_owned(), from: from - margin, to: to + margin, is_log, ticks }
    }

    /// A tick for each name, at 0, 1, 2 ...
    pub(super) fn of_names(title: &str, names: Vec<String>) -> Self {
        let to = names.len() as f64 - 0.5;
        let ticks = names.into_iter().enumerate().map(|(at, name)| (at as f64, name)).collect();
        Self { title: title.to_owned(), from: -0.5, to, is_log: false, ticks }
    }

    /// Of the [`nines`] of a distribution.
    pub(super) fn of_nines(title: &str, most: f64) -> Self {
        let text = |nines: usize| match nines {
            0 => "0 %".to_owned(),
            1 => "90 %".to_owned(),
            2 => "99 %".to_owned(),
            _ => format!("99.{} %", "9".repeat(nines - 2)),
        };
        let most = most.max(1.0);
        let ticks = (0..=most as usize).map(|nines| (nines as f64, text(nines))).collect();
        Self { title: title.to_owned(), from: 0.0, to: most, is_log: false, ticks }
    }

    /// Where a value lies: 0 at the start of the axis, 1 at its end.
    pub(super) fn part(&self, value: f64) -> f64 {
        let coordinate = match self.is_log {
            false => value,
            true if value > 0.0 => value.log10(),
            true => self.from,
        };
        ((coordinate - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }
}

/// How many nines a part of a distribution has: 0 for none of it, 1 for 0.9, 2 for 0.99.
pub(super) fn nines(part: f64) -> f64 {
    -(1.0 - part).log10()
}

/// The smallest of 1, 2 and 5 times a power of ten that is not less.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= least * 0.999_999);
    digit.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn linear_axes_have_round_ticks() {
        let axis = Axis::from_zero("", 1_170_000.0);
        assert_eq!(texts(&axis), ["0", "0.5\u{a0}M", "1.0\u{a0}M", "1.5\u{a0}M"]);
        assert_eq!((axis.part(0.0), axis.part(750_000.0), axis.part(2e6)), (0.0, 0.5, 1.0));
        assert_eq!(texts(&Axis::from_zero("", 4.0)), ["0", "1", "2", "3", "4"]);
        assert_eq!(texts(&Axis::from_zero("", 0.3)), ["0", "0.1", "0.2", "0.3"]);
        assert_eq!(texts(&Axis::from_zero("", 0.0)), ["0", "0.5", "1.0"]);
        let axis = Axis::until("", 23.0);
        assert_eq!((texts(&axis), axis.part(23.0)), (vec!["0", "10", "20"], 1.0));
    }

    #[test]
    fn small_differences_look_small() {
        let axis = Axis::around("", 99.0, 101.0);
        assert_eq!(texts(&axis), ["80", "90", "100", "110", "120"]);
        assert!((axis.part(101.0) - axis.part(99.0)).abs() < 0.1);
        assert_eq!(texts(&Axis::around("", 5.9, 7.8)), ["5.5", "6.0", "6.5", "7.0", "7.5", "8.0"]);
        assert_eq!(texts(&Axis::around("", 0.0, 4.0)), ["0", "1", "2", "3", "4"]);
        assert_eq!(texts(&Axis::around("", 0.0, 0.0)), ["0", "0.5", "1.0"]);
    }

    #[test]
    fn logarithmic_axes_have_decades() {
        let axis = Axis::fitting("", [0.4, 0.0, 3838.0].into_iter());
        assert_eq!(texts(&axis), ["1", "10", "100", "1,000"]);
        assert_eq!((axis.part(0.0), axis.part(0.2), axis.part(5000.0)), (0.0, 0.0, 1.0));
        assert!((axis.part(1000_f64.sqrt()) - 0.5).abs() < 1e-9, "the middle between 0.2 and 5000");
        assert_eq!(texts(&Axis::log("", 3.0, 40.0)), ["2", "5", "10", "20", "50"]);
        assert_eq!(texts(&Axis::log("", 5.0, 5.0)), ["5", "10"]);
        assert_eq!(texts(&Axis::fitting("", [1.0, 30.0].into_iter())), ["0", "10", "20", "30"]);
    }

    #[test]
    fn axes_of_values_have_them_as_ticks() {
        let axis = Axis::of_values("", vec![(1.0, "1".to_owned()), (100.0, "100".to_owned())], true);
        assert!((axis.part(10.0) - 0.5).abs() < 1e-9 && axis.part(1.0) > 0.0);
        let alone = Axis::of_values("", vec![(3.0, "3".to_owned())], false);
        assert_eq!(alone.part(3.0), 0.5);
        assert_eq!(Axis::of_names("", vec!["a".to_owned(), "b".to_owned()]).part(0.0), 0.25);
        assert_eq!(texts(&Axis::of_nines("", 4.2)), ["0 %", "90 %", "99 %", "99.9 %", "99.99 %"]);
        assert!((nines(0.99) - 2.0).abs() < 1e-9);
    }
}
