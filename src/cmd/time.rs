//! Times as people write them: RFC 3339, milliseconds since 1970, or so long ago.

use time::{Date, Month, OffsetDateTime};

const MS_PER_DAY: i64 = 86_400_000;

/// Milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the command line lives in real time")]
pub(crate) fn now_ms() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// A point in time: RFC 3339 (UTC where no zone is given), a date, milliseconds since 1970, or `-10m` for ten minutes
/// before now.
pub(crate) fn parse_time(text: &str, now_ms: i64) -> Result<i64, String> {
    if let Some(ago) = text.strip_prefix('-')
        && let Some(span) = parse_span(ago)
    {
        return now_ms.checked_sub(span).ok_or_else(|| format!("{text:?} is too long ago"));
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map_err(|_| format!("{text:?} is too large for milliseconds since 1970"));
    }
    parse_rfc3339(text).ok_or_else(|| {
        format!(
            "{text:?} is not a time; use 2026-11-21T10:00:00Z, milliseconds since 1970, or -10m for ten minutes ago"
        )
    })
}

/// A length of time in milliseconds: `500ms`, `10s`, `1h30m`, `2d`.
pub(crate) fn parse_span(text: &str) -> Option<i64> {
    let mut rest = text;
    let mut total = 0i64;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: i64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = match &rest[..letters] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => MS_PER_DAY,
            "w" => 7 * MS_PER_DAY,
            _ => return None,
        };
        rest = &rest[letters..];
        total = total.checked_add(number.checked_mul(unit)?)?;
    }
    (!text.is_empty()).then_some(total)
}

/// A duration as Kafka's tools take it, `P1DT2H3M4.5S` (ISO 8601), in milliseconds.
pub(crate) fn parse_iso_duration(text: &str) -> Option<i64> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut rest = text.strip_prefix('P')?;
    let mut in_time = false;
    let mut total = 0.0;
    let mut parts = 0;
    while !rest.is_empty() {
        if let Some(time) = rest.strip_prefix('T').filter(|_| !in_time) {
            (rest, in_time) = (time, true);
            continue;
        }
        let length = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let number: f64 = rest[..length].parse().ok()?;
        let unit = rest[length..].chars().next()?;
        total += number
            * match (unit, in_time) {
                ('D', false) => MS_PER_DAY as f64,
                ('H', true) => 3_600_000.0,
                ('M', true) => 60_000.0,
                ('S', true) => 1000.0,
                _ => return None,
            };
        rest = &rest[length + unit.len_utf8()..];
        parts += 1;
    }
    let total = (total < 1e17).then_some(total.round() as i64)?;
    (parts > 0).then_some(if negative { -total } else { total })
}

fn parse_rfc3339(text: &str) -> Option<i64> {
    let (date, clock) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, "00:00:00Z"),
    };
    let mut numbers = date.split('-');
    let year = digits(numbers.next()?, 4)?;
    let month = digits(numbers.next()?, 2)?;
    let day = digits(numbers.next()?, 2)?;
    if numbers.next().is_some() {
        return None;
    }
    let month = Month::try_from(month as u8).ok()?;
    let date = Date::from_calendar_date(year as i32, month, day as u8).ok()?;
    let (clock, offset_minutes) = split_zone(clock)?;
    let (clock, fraction_ms) = match clock.split_once('.') {
        Some((clock, fraction)) => (clock, fraction_ms(fraction)?),
        None => (clock, 0),
    };
    let mut numbers = clock.split(':');
    let hour = digits(numbers.next()?, 2)?;
    let minute = digits(numbers.next()?, 2)?;
    let second = numbers.next().map_or(Some(0), |text| digits(text, 2))?;
    if numbers.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let minutes = hour * 60 + minute - offset_minutes;
    Some((date.midnight().assume_utc().unix_timestamp() + minutes * 60 + second) * 1000 + fraction_ms)
}

/// Takes the zone off the end of a time of day: its offset in minutes, 0 where there is none.
fn split_zone(clock: &str) -> Option<(&str, i64)> {
    if let Some(clock) = clock.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let Some(at) = clock.find(['+', '-']) else { return Some((clock, 0)) };
    let sign = if clock[at..].starts_with('-') { -1 } else { 1 };
    // Kafka's tools take the colon or leave it.
    let zone = clock[at + 1..].replacen(':', "", 1);
    let (hours, minutes) = zone.split_at_checked(2)?;
    let (hours, minutes) = (digits(hours, 2)?, if minutes.is_empty() { 0 } else { digits(minutes, 2)? });
    (hours < 24 && minutes < 60).then_some((&clock[..at], sign * (hours * 60 + minutes)))
}

fn digits(text: &str, length: usize) -> Option<i64> {
    let is_number = text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

fn fraction_ms(text: &str) -> Option<i64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    format!("{text:0<3.3}").parse().ok()
}

/// RFC 3339 in UTC with milliseconds. A moment that no calendar has is shown as milliseconds since 1970.
pub(crate) fn format_time(ms: i64) -> String {
    let Ok(at) = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000) else {
        return ms.to_string();
    };
    let (year, month, day) = at.to_calendar_date();
    let (hour, minute, second, milli) = at.to_hms_milli();
    format!("{year:04}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z", u8::from(month))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_every_form() {
        let now = 1_000_000_000_000;
        let cases = [
            ("0", 0),
            ("1700000000000", 1_700_000_000_000),
            ("1970-01-01T00:00:00Z", 0),
            ("2023-11-14T22:13:20Z", 1_700_000_000_000),
            ("2023-11-14t22:13:20.5z", 1_700_000_000_500),
            ("2023-11-14 22:13:20.1239", 1_700_000_000_123),
            ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
            ("2023-11-14T17:43:20-0430", 1_700_000_000_000),
            ("2023-11-14T22:13Z", 1_699_999_980_000),
            ("2024-02-29", 1_709_164_800_000),
            ("1969-12-31T23:59:59.999Z", -1),
            ("-10m", now - 600_000),
            ("-1h30m", now - 5_400_000),
            ("-2w", now - 14 * MS_PER_DAY),
        ];
        for (text, ms) in cases {
            assert_eq!(parse_time(text, now), Ok(ms), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        let wrong = [
            "",
            "-",
            "now",
            "-10",
            "-m",
            "10m",
            "2023-02-29",
            "2023-13-01",
            "2023-1-1",
            "2023-11-14T24:00:00Z",
            "2023-11-14T22:13:20.Z",
            "2023-11-14T22:13:20+25:00",
            "2023-11-14T",
            "99999999999999999999",
            "2023-11-14T22:61Z",
        ];
        for text in wrong {
            assert!(parse_time(text, 0).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_printed_is_read_again() {
        for ms in [0, -1, 1_700_000_000_123, 951_782_400_000, 4_102_444_799_999, -62_135_596_800_000] {
            assert_eq!(parse_rfc3339(&format_time(ms)), Some(ms), "{}", format_time(ms));
        }
        assert_eq!(format_time(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
    }

    #[test]
    fn kafkas_durations_are_read() {
        assert_eq!(parse_iso_duration("P1DT2H3M4.5S"), Some(93_784_500));
        assert_eq!(parse_iso_duration("PT0S"), Some(0));
        assert_eq!(parse_iso_duration("-PT1M"), Some(-60_000));
        for wrong in ["", "P", "PT", "P1H", "PT1D", "1D", "PT1X", "PTS"] {
            assert_eq!(parse_iso_duration(wrong), None, "{wrong}");
        }
    }
}
