//! Figures as people read them.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use time::{Date, Month, OffsetDateTime};

/// Names of more characters are shown in part.
const NAME_CHARS_MAX: usize = 120;

/// 1234567 as 1,234,567.
pub(crate) fn count(value: impl TryInto<i128>) -> String {
    let value = value.try_into().unwrap_or_default();
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    match value < 0 {
        true => format!("-{text}"),
        false => text,
    }
}

/// 1536 as 1.5 KiB.
pub(crate) fn bytes(value: impl TryInto<i128>) -> String {
    let value = value.try_into().unwrap_or_default();
    scaled(value as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// Bytes per second.
pub(crate) fn byte_rate(per_second: f64) -> String {
    format!("{}/s", scaled(per_second.max(0.0), 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"]))
}

/// Something per second: 1234567.0 as 1.23 M/s.
pub(crate) fn rate(per_second: f64) -> String {
    format!("{}/s", scaled(per_second.max(0.0), 1000.0, &["", "k", "M", "G"]).trim_end())
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // What would be rounded to 1000 or 1024 has the next unit.
    while value.abs() >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let decimals = match value.abs() {
        0.0 => 0,
        ..9.995 if unit > 0 => 2,
        ..0.995 => 2,
        ..99.95 if unit > 0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {}", units[unit])
}

pub(crate) fn percent(part: f64) -> String {
    match part * 100.0 {
        percent @ 0.05..9.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// Milliseconds in the unit that suits them.
pub(crate) fn milliseconds(seconds: f64) -> String {
    match seconds * 1000.0 {
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        _ => duration(seconds),
    }
}

/// A time that passes: 7384 as 2 h 3 min.
pub(crate) fn duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "for ever".to_owned();
    }
    let whole = seconds.max(0.0).round() as u64;
    let (days, hours, minutes, rest) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60, whole % 60);
    let mut text = String::new();
    let parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")];
    let first = parts.iter().position(|(value, _)| *value > 0).unwrap_or(3);
    // Two units say enough.
    for (value, unit) in parts.iter().skip(first).take(2).filter(|(value, _)| *value > 0 || whole == 0) {
        let _ = write!(text, "{}{value} {unit}", if text.is_empty() { "" } else { " " });
    }
    text
}

/// The wall clock, in milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "pages say when things were")]
pub(crate) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// A moment, in UTC: 2026-11-22 14:20:11. One that no calendar has is shown as milliseconds.
pub(crate) fn moment(ms: i64) -> String {
    let Ok(at) = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000) else {
        return format!("{ms} ms");
    };
    let (year, month, day) = at.to_calendar_date();
    let (hour, minute, second) = at.to_hms();
    format!("{year:04}-{:02}-{day:02} {hour:02}:{minute:02}:{second:02}", u8::from(month))
}

/// The moment, in UTC, of `2026-11-22T14:20`, with seconds and their fraction or without: what a browser's field for a
/// date and a time sends. In milliseconds.
pub(crate) fn parse_moment(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', ' '])?;
    let number = |text: &str, digits: usize, max: i64| {
        let is_plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<i64>().ok().filter(|number| is_plain && *number <= max)
    };
    let mut date = date.split('-');
    let (year, month, day) =
        (number(date.next()?, 4, 9999)?, number(date.next()?, 2, 12)?, number(date.next()?, 2, 31)?);
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut time = time.split(':');
    let (hour, minute) = (number(time.next()?, 2, 23)?, number(time.next()?, 2, 59)?);
    let second = time.next().map_or(Some(0), |second| number(second, 2, 59))?;
    let millisecond = match fraction.len() {
        0 => 0,
        digits @ 1..=3 => number(fraction, digits, 999)? * 10_i64.pow(3 - digits as u32),
        _ => return None,
    };
    if date.next().is_some() || time.next().is_some() {
        return None;
    }
    let month = Month::try_from(month as u8).ok()?;
    let date = Date::from_calendar_date(year as i32, month, day as u8).ok()?;
    let midnight_ms = date.midnight().assume_utc().unix_timestamp() * 1000;
    Some(midnight_ms + (hour * 60 + minute) * 60_000 + second * 1000 + millisecond)
}

/// `1 topic`, `2 topics`.
pub(crate) fn counted(number: usize, one: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{} {one}s", count(number as u64)),
    }
}

/// A part of a path or of a query, with everything but letters, digits and a few marks escaped.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => escaped.push(char::from(byte)),
            _ => {
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
    }
    escaped
}

/// A part of a path whose bytes may be escaped; `None` where it is not UTF-8.
pub(crate) fn unescape(part: &str) -> Option<String> {
    let bytes = part.as_bytes();
    let (mut unescaped, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let digits = if *byte == b'%' { bytes.get(at + 1..at + 3) } else { None };
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let escaped = digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
        unescaped.push(escaped.unwrap_or(*byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8(unescaped).ok()
}

/// A group's part of a path. Its id may be anything; what a browser would take for something else in a path has a tilde
/// before it, and so has what begins with one. [`group_of_part`] takes it away.
pub(crate) fn group_part(id: &str) -> String {
    match id {
        "" | "." | ".." => format!("~{id}"),
        id if id.starts_with('~') => format!("~{}", escape(id)),
        id => escape(id),
    }
}

/// Of a part that is no longer escaped.
pub(crate) fn group_of_part(part: &str) -> &str {
    part.strip_prefix('~').unwrap_or(part)
}

/// A name that somebody has chosen, who may have chosen a long one, or none.
pub(crate) fn name_shown(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &name[..at]),
        // What would not be seen is told as in a program.
        None if name.trim() != name || name.is_empty() || name.contains(char::is_control) => format!("{name:?}"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!([count(0), count(999), count(-1_234_567)], ["0", "999", "-1,234,567"]);
        assert_eq!([bytes(0), bytes(1023), bytes(1536), bytes(20 << 20)], ["0 B", "1023 B", "1.50 KiB", "20.0 MiB"]);
        assert_eq!([bytes((1 << 20) - 1), byte_rate(123.4 * 1024.0)], ["1.00 MiB", "123 KiB/s"]);
        assert_eq!([rate(0.0), rate(0.5), rate(12.0), rate(1_234_567.0)], ["0/s", "0.50/s", "12/s", "1.23 M/s"]);
        assert_eq!([percent(0.0), percent(0.012), percent(0.5)], ["0 %", "1.2 %", "50 %"]);
        assert_eq!([milliseconds(0.00012), milliseconds(0.25), milliseconds(61.0)], ["0.12 ms", "250 ms", "1 min 1 s"]);
        assert_eq!([duration(0.0), duration(59.6), duration(7384.0)], ["0 s", "1 min", "2 h 3 min"]);
        assert_eq!([duration(90_000.0), duration(f64::INFINITY)], ["1 d 1 h", "for ever"]);
        assert_eq!([counted(1, "topic"), counted(1200, "topic")], ["1 topic", "1,200 topics"]);
    }

    #[test]
    fn moments_are_dates() {
        assert_eq!(moment(0), "1970-01-01 00:00:00");
        assert_eq!(moment(951_782_399_999), "2000-02-28 23:59:59");
        assert_eq!(moment(951_868_799_000), "2000-02-29 23:59:59");
        assert_eq!(moment(1_795_357_211_000), "2026-11-22 14:20:11");
        assert_eq!(moment(-1), "1969-12-31 23:59:59");
    }

    #[test]
    fn moments_are_read() {
        for ms in [0, 951_782_399_000, 951_868_799_000, 1_795_357_211_000, 1_709_164_800_000] {
            assert_eq!(parse_moment(&moment(ms)), Some(ms));
            assert_eq!(parse_moment(&moment(ms).replace(' ', "T")), Some(ms));
        }
        assert_eq!(parse_moment("1970-01-01T00:01"), Some(60_000));
        assert_eq!(parse_moment("1970-01-01T00:00:01.5"), Some(1500));
        assert_eq!(parse_moment("1970-01-01T00:00:00.042"), Some(42));
        let wrong = ["", "2026-11-22", "2026-02-29T00:00", "2026-00-01T00:00", "2026-01-00T00:00", "2026-13-01T00:00"];
        let worse =
            ["2026-01-01T24:00", "2026-01-01T00:60", "+026-01-01T00:00", "2026-01-01T00:00:00.1234", "1-1-1T1:1"];
        for text in wrong.into_iter().chain(worse) {
            assert_eq!(parse_moment(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_escaped_is_read_again() {
        for text in ["", "a/b c", "127.0.0.1:9092", "ä%41", "100%", "%zz%4"] {
            assert_eq!(unescape(&escape(text)).as_deref(), Some(text));
        }
        assert_eq!(
            [unescape("a%3a%"), unescape("%zz"), unescape("%ff")],
            [Some("a:%".to_owned()), Some("%zz".to_owned()), None]
        );
    }

    #[test]
    fn any_group_has_a_path() {
        for id in ["", ".", "..", "~", "~a", "a/b", "...", "ä <b>"] {
            let part = group_part(id);
            assert!(!["", ".", ".."].contains(&part.as_str()) && !part.contains('/'), "{part}");
            // What stands in the path without percent signs.
            let read = if part.starts_with('~') { format!("~{id}") } else { id.to_owned() };
            assert_eq!(group_of_part(&read), id);
        }
        assert_eq!([group_part("billing"), group_part(".."), group_part("~a")], ["billing", "~..", "~~a"]);
    }

    #[test]
    fn names_are_shown_in_part() {
        assert_eq!([name_shown("a b"), name_shown(""), name_shown(" ")], ["a b", "\"\"", "\" \""]);
        assert_eq!([name_shown("a\nb"), name_shown("a ")], ["\"a\\nb\"", "\"a \""]);
        assert_eq!(name_shown(&"ä".repeat(10_000)), format!("{}…", "ä".repeat(NAME_CHARS_MAX)));
    }

    #[test]
    fn names_are_escaped_for_paths() {
        assert_eq!(escape("a-b_c.d~9"), "a-b_c.d~9");
        assert_eq!(escape("ä/\"<&?#% "), "%C3%A4%2F%22%3C%26%3F%23%25%20");
    }
}
