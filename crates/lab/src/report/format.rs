//! How figures are written: enough digits to compare them, none that mean nothing.

/// Where there is no figure.
pub(super) const NONE: &str = "–";

/// Three significant digits, and never fewer than all in front of the point: `1,234,567`, `36.8`, `0.0123`.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let digits = decimals(value);
    // Rounding may have added a digit in front: 9.996 is 10.0.
    let rounded: f64 = format!("{value:.digits$}").parse().unwrap_or(value);
    let digits = decimals(rounded);
    with_separators(&format!("{value:.digits$}"))
}

/// As many decimals as make three digits of it.
fn decimals(value: f64) -> usize {
    if value == 0.0 { 0 } else { (2.0 - value.abs().log10().floor()).clamp(0.0, 9.0) as usize }
}

fn with_separators(text: &str) -> String {
    let (whole, rest) = text.find('.').map_or((text, ""), |at| text.split_at(at));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("-", whole));
    let mut grouped = String::from(sign);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

/// Short, for charts: `1.28 M`, `48 k`, `36.8`.
pub(super) fn compact(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        size if size >= 999_500_000.0 => (value / 1e9, "\u{a0}G"),
        size if size >= 999_500.0 => (value / 1e6, "\u{a0}M"),
        size if size >= 10_000.0 => (value / 1e3, "\u{a0}k"),
        _ => (value, ""),
    };
    trimmed(&number(scaled)) + unit
}

/// Without zeros at the end of the decimals.
pub(super) fn trimmed(text: &str) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text.to_owned() }
}

/// The ticks of a linear axis, which all have the same unit and as many decimals as their step needs.
pub(super) fn tick_texts(ticks: &[f64], step: f64) -> Vec<String> {
    let most = ticks.iter().copied().fold(0.0, f64::max);
    let (unit, suffix) = match most {
        most if most >= 1e9 => (1e9, "\u{a0}G"),
        most if most >= 1e6 => (1e6, "\u{a0}M"),
        most if most >= 1e4 => (1e3, "\u{a0}k"),
        _ => (1.0, ""),
    };
    // A hair more than the logarithm, which is not exact for powers of ten.
    let digits = (-((step / unit).log10() + 1e-9).floor()).clamp(0.0, 9.0) as usize;
    let text = |tick: &f64| {
        let scaled = tick / unit;
        if *tick == 0.0 { "0".to_owned() } else { with_separators(&format!("{scaled:.digits$}")) + suffix }
    };
    ticks.iter().map(text).collect()
}

/// Microseconds as milliseconds.
pub(super) fn milliseconds(us: f64) -> String {
    number(us / 1000.0)
}

pub(super) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

/// An amount of memory: `601 MiB`, `1.20 GiB`.
pub(super) fn memory(bytes: u64) -> String {
    let mib = mebibytes(bytes);
    if mib >= 1024.0 { format!("{}\u{a0}GiB", number(mib / 1024.0)) } else { format!("{}\u{a0}MiB", number(mib)) }
}

/// What one figure is of another: `2.72×`.
pub(super) fn ratio(value: f64) -> String {
    if value.is_finite() { number(value) + "×" } else { NONE.to_owned() }
}

/// A figure, or that there is none.
pub(super) fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), number)
}

/// `1 case`, `2 cases`.
pub(super) fn counted(count: usize, one: &str) -> String {
    format!("{} {one}{}", with_separators(&count.to_string()), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits() {
        let cases = [
            (0.0, "0"),
            (1_234_567.4, "1,234,567"),
            (102_399.32, "102,399"),
            (999.6, "1,000"),
            (123.4, "123"),
            (36.81, "36.8"),
            (9.996, "10.0"),
            (0.9999, "1.00"),
            (0.01234, "0.0123"),
            (-1234.0, "-1,234"),
            (f64::NAN, NONE),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text, "{value}");
        }
    }

    #[test]
    fn charts_have_short_numbers() {
        let cases = [(1_280_000.0, "1.28\u{a0}M"), (48_049.0, "48\u{a0}k"), (999_800.0, "1\u{a0}M"), (2000.0, "2,000")];
        for (value, text) in cases {
            assert_eq!(compact(value), text, "{value}");
        }
        assert_eq!(tick_texts(&[0.0, 0.5e6, 1e6, 1.5e6], 0.5e6), ["0", "0.5\u{a0}M", "1.0\u{a0}M", "1.5\u{a0}M"]);
        assert_eq!(tick_texts(&[0.0, 5000.0, 10_000.0], 5000.0), ["0", "5\u{a0}k", "10\u{a0}k"]);
        assert_eq!(tick_texts(&[0.0, 0.05, 0.1], 0.05), ["0", "0.05", "0.10"]);
        assert_eq!(tick_texts(&[0.0, 1.0, 2.0], 1.0), ["0", "1", "2"]);
    }

    #[test]
    fn units() {
        assert_eq!((memory(601 << 20), memory(1229 << 20)), ("601\u{a0}MiB".to_owned(), "1.20\u{a0}GiB".to_owned()));
        assert_eq!((ratio(2.7168), milliseconds(1250.0)), ("2.72×".to_owned(), "1.25".to_owned()));
        assert_eq!((counted(1, "case"), counted(1200, "case")), ("1 case".to_owned(), "1,200 cases".to_owned()));
    }
}
