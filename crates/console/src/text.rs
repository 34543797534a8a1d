//! Bytes of records as people read them: text, JSON laid out, or hexadecimal. What would steer a terminal or turn the
//! direction of the text is shown instead of done.

use std::fmt::Write;

use serde::de::IgnoredAny;

/// Of a field that is shown in full. The rest can be downloaded.
pub(crate) const FULL_BYTES_MAX: usize = 1024 * 1024;
/// In steps of so many it is looked whether it is enough.
const VISIBLE_STEP_BYTES: usize = 16 * 1024;
/// JSON that would take more when it is laid out is shown as it came.
const LAID_OUT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Of the beginning of a field in a row of a table.
const BEGINNING_CHARS: usize = 200;
const BEGINNING_HEX_BYTES: usize = 48;
const HEX_BYTES_PER_LINE: usize = 16;

/// The names that ASCII has for its control characters.
const CONTROLS: [&str; 32] = [
    "NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "HT", "LF", "VT", "FF", "CR", "SO", "SI", "DLE",
    "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS", "US",
];

/// How bytes are to be shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Show {
    /// By the schema that the bytes name, if they do, and else as text.
    #[default]
    Auto,
    /// What is not UTF-8 is shown as hexadecimal all the same.
    Text,
    /// Laid out, where it is JSON.
    Json,
    Hex,
    MessagePack,
    /// With the id of a schema before it, as Protobuf.
    Avro,
    Protobuf,
}

impl Show {
    pub(crate) const ALL: [(Self, &'static str, &'static str); 7] = [
        (Self::Auto, "auto", "Automatic"),
        (Self::Text, "text", "Text"),
        (Self::Json, "json", "JSON"),
        (Self::Hex, "hex", "Hexadecimal"),
        (Self::MessagePack, "messagepack", "MessagePack"),
        (Self::Avro, "avro", "Avro"),
        (Self::Protobuf, "protobuf", "Protobuf"),
    ];

    /// The query of a page that shows records in this way.
    pub(crate) fn query(self) -> String {
        let name =
            Self::ALL.into_iter().find(|(show, ..)| *show == self && self != Self::Auto).map(|(_, name, _)| name);
        name.map_or_else(String::new, |name| format!("?show={name}"))
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known, _)| *known == name).map(|(show, ..)| show)
    }
}

/// A field as it stands on a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub text: String,
    /// Whether the text is of the bytes, and not our word for there being none.
    pub is_content: bool,
    /// What should be known about it.
    pub note: Option<String>,
}

impl Shown {
    fn content(text: String, note: Option<String>) -> Self {
        Self { text, is_content: true, note }
    }

    fn word(text: &str) -> Self {
        Self { text: text.to_owned(), is_content: false, note: None }
    }
}

/// The beginning of a field, in one line.
pub(crate) fn beginning(bytes: Option<&[u8]>, show: Show) -> Shown {
    let bytes = match bytes {
        None => return Shown::word("null"),
        Some([]) => return Shown::word("empty"),
        Some(bytes) => bytes,
    };
    let text = match str::from_utf8(bytes) {
        Ok(text) if show != Show::Hex => text,
        _ => {
            let mut hex = String::new();
            for (at, byte) in bytes.iter().take(BEGINNING_HEX_BYTES).enumerate() {
                let _ = write!(hex, "{}{byte:02x}", if at > 0 { " " } else { "" });
            }
            hex.push_str(if bytes.len() > BEGINNING_HEX_BYTES { " …" } else { "" });
            return Shown::content(hex, (show != Show::Hex).then(|| "not UTF-8".to_owned()));
        }
    };
    let compact = (show == Show::Json && is_json(text)).then(|| compact(text));
    let text = compact.as_deref().unwrap_or(text);
    let end = text.char_indices().nth(BEGINNING_CHARS).map_or(text.len(), |(at, _)| at);
    let mut beginning = visible(&text[..end], false);
    beginning.push_str(if end < text.len() { "…" } else { "" });
    Shown::content(beginning, None)
}

/// A field in full, up to [`FULL_BYTES_MAX`].
pub(crate) fn full(bytes: Option<&[u8]>, show: Show) -> Shown {
    let bytes = match bytes {
        None => return Shown::word("null"),
        Some([]) => return Shown::word("empty"),
        Some(bytes) => bytes,
    };
    let first = &bytes[..bytes.len().min(FULL_BYTES_MAX)];
    let mut notes = Vec::new();
    let (text, shown) = match (show, str::from_utf8(bytes)) {
        (Show::Hex, _) => (hex_dump(first), first.len()),
        (_, Err(error)) => {
            notes.push(format!(
                "It is not UTF-8 (from byte {} on), so it is shown as hexadecimal.",
                error.valid_up_to()
            ));
            (hex_dump(first), first.len())
        }
        (Show::Json, Ok(text)) => {
            let is_short = text.len() <= FULL_BYTES_MAX;
            match (is_short && is_json(text)).then(|| lay_out(text)).flatten() {
                Some(laid_out) => (visible(&laid_out, true), bytes.len()),
                None => {
                    let what =
                        if is_short && !is_json(text) { "It is not JSON" } else { "It is too long to be laid out" };
                    notes.push(format!("{what}, so it is shown as it came."));
                    visible_part(text)
                }
            }
        }
        (_, Ok(text)) => visible_part(text),
    };
    if shown < bytes.len() {
        notes.push(format!("The first {} of {} are shown.", size(shown), size(bytes.len())));
    }
    Shown::content(text, (!notes.is_empty()).then(|| notes.join(" ")))
}

/// What is visible of a text as far as that is not too long, and how many bytes of it these are: what is invisible
/// takes more room when it is shown.
fn visible_part(text: &str) -> (String, usize) {
    let (mut part, mut shown) = (String::new(), 0);
    while shown < text.len() && part.len() < FULL_BYTES_MAX {
        let end = text.floor_char_boundary(shown + (FULL_BYTES_MAX - part.len()).clamp(4, VISIBLE_STEP_BYTES));
        part.push_str(&visible(&text[shown..end], true));
        shown = end;
    }
    (part, shown)
}

fn size(bytes: usize) -> String {
    crate::format::bytes(bytes as u64)
}

/// Whether a whole text is one JSON value that is worth being laid out. It is read without being built.
pub(crate) fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Text in which everything can be seen: control characters by their names, characters without a shape or that turn the
/// direction by their numbers. Line ends and tabs stay in a text of several lines.
pub(crate) fn visible(text: &str, has_lines: bool) -> String {
    let mut visible = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\n' | '\t' if has_lines => visible.push(char),
            '\n' => visible.push('↵'),
            '\t' => visible.push(' '),
            '\0'..='\x1f' => {
                let _ = write!(visible, "«{}»", CONTROLS[char as usize]);
            }
            '\x7f' => visible.push_str("«DEL»"),
            // People join emoji with U+200D, and some scripts need it and U+200C.
            '\u{80}'..='\u{9f}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}' => {
                let _ = write!(visible, "«U+{:04X}»", u32::from(char));
            }
            char => visible.push(char),
        }
    }
    visible
}

/// Offset, bytes, and those of them that are ASCII, as `hexdump -C` has it.
fn hex_dump(bytes: &[u8]) -> String {
    let mut dump = String::with_capacity(bytes.len().div_ceil(HEX_BYTES_PER_LINE) * 78);
    for (line, bytes) in bytes.chunks(HEX_BYTES_PER_LINE).enumerate() {
        let _ = write!(dump, "{:08x} ", line * HEX_BYTES_PER_LINE);
        for at in 0..HEX_BYTES_PER_LINE {
            let gap = if at == HEX_BYTES_PER_LINE / 2 { "  " } else { " " };
            let _ = match bytes.get(at) {
                Some(byte) => write!(dump, "{gap}{byte:02x}"),
                None => write!(dump, "{gap}  "),
            };
        }
        dump.push_str("  ");
        dump.extend(bytes.iter().map(|byte| if matches!(byte, 0x20..0x7f) { char::from(*byte) } else { '.' }));
        dump.push('\n');
    }
    dump
}

/// JSON without the space between its parts.
fn compact(json: &str) -> String {
    let mut compact = String::with_capacity(json.len().min(4 * BEGINNING_CHARS));
    for part in parts(json) {
        compact.push_str(part);
        if part == "," || part == ":" {
            compact.push(' ');
        }
        // Enough for the beginning.
        if compact.len() > 8 * BEGINNING_CHARS {
            break;
        }
    }
    compact
}

/// JSON with a line for each part. Numbers, names and their order stay as they are, which a value that is read and
/// written again would not warrant. `None` where it would be too long.
fn lay_out(json: &str) -> Option<String> {
    let mut text = String::with_capacity(json.len() * 2);
    let mut depth = 0;
    let mut parts = parts(json).peekable();
    while let Some(part) = parts.next() {
        let is_open = |part: &str| part == "{" || part == "[";
        let is_close = |part: &str| part == "}" || part == "]";
        if is_close(part) {
            depth -= 1;
            line(&mut text, depth);
        }
        text.push_str(part);
        if is_open(part) {
            match parts.next_if(|next| is_close(next)) {
                Some(close) => text.push_str(close),
                None => {
                    depth += 1;
                    line(&mut text, depth);
                }
            }
        } else if part == "," {
            line(&mut text, depth);
        } else if part == ":" {
            text.push(' ');
        }
        if text.len() > LAID_OUT_BYTES_MAX {
            return None;
        }
    }
    Some(text)
}

fn line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}

/// The signs, strings, numbers and words of valid JSON.
fn parts(json: &str) -> impl Iterator<Item = &str> {
    let mut rest = json;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        let bytes = rest.as_bytes();
        let length = match bytes.first()? {
            b'"' => {
                let mut at = 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                (at + 1).min(bytes.len())
            }
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            _ => bytes.iter().position(|byte| b" \t\n\r,:]}".contains(byte)).unwrap_or(bytes.len()).max(1),
        };
        let (part, after) = rest.split_at(length);
        rest = after;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_automatic_needs_no_query() {
        assert_eq!((Show::Auto.query(), Show::MessagePack.query()), (String::new(), "?show=messagepack".to_owned()));
    }

    #[test]
    fn what_would_be_obeyed_is_shown() {
        assert_eq!(visible("a\0b\x1b[2J\r\n\t\x7f", false), "a«NUL»b«ESC»[2J«CR»↵ «DEL»");
        assert_eq!(visible("a\0\n\tb\r", true), "a«NUL»\n\tb«CR»");
        let turning = "user\u{202e}nimda\u{2066}\u{200f}\u{feff}\u{85}";
        assert_eq!(visible(turning, true), "user«U+202E»nimda«U+2066»«U+200F»«U+FEFF»«U+0085»");
        assert_eq!(visible("grüße 👩‍💻 שלום", false), "grüße 👩‍💻 שלום");
    }

    #[test]
    fn beginnings_are_one_short_line() {
        let text = |bytes: &[u8]| beginning(Some(bytes), Show::Text).text;
        assert_eq!(beginning(None, Show::Text), Shown::word("null"));
        assert_eq!(beginning(Some(b""), Show::Hex), Shown::word("empty"));
        assert_eq!(text("ü".repeat(200).as_bytes()), "ü".repeat(200));
        assert_eq!(text("ü".repeat(201).as_bytes()), format!("{}…", "ü".repeat(200)));
        let hex = beginning(Some(&[0xff, 0x00]), Show::Json);
        assert_eq!((hex.text.as_str(), hex.note.as_deref()), ("ff 00", Some("not UTF-8")));
        assert_eq!(beginning(Some(&[7; 49]), Show::Hex).text, format!("{} …", ["07"; 48].join(" ")));
        assert_eq!(beginning(Some(b"{ \"a\" :\n [1,2] }"), Show::Json).text, "{\"a\": [1, 2]}");
        assert_eq!(beginning(Some(b"{ a"), Show::Json).text, "{ a");
    }

    #[test]
    fn json_keeps_what_it_says() {
        let json = r#"{"b":1e400,"a":[],"b":{"x y\"}":123456789012345678901234567890,"":[1,[{}]]}}"#;
        let laid_out = "{\n  \"b\": 1e400,\n  \"a\": [],\n  \"b\": {\n    \"x y\\\"}\": 123456789012345678901234567890,\n    \
                        \"\": [\n      1,\n      [\n        {}\n      ]\n    ]\n  }\n}";
        assert_eq!(full(Some(json.as_bytes()), Show::Json), Shown::content(laid_out.to_owned(), None));
        for other in ["{", "[1,]", "plain", "", "\"text\""] {
            assert!(!is_json(other), "{other}");
        }
    }

    #[test]
    fn json_that_grows_is_shown_as_it_came() {
        let deep = format!("{}{}{}", "[".repeat(100), vec!["[]"; 100_000].join(","), "]".repeat(100));
        assert!(is_json(&deep));
        let shown = full(Some(deep.as_bytes()), Show::Json);
        assert_eq!(shown.text, deep);
        assert_eq!(shown.note.as_deref(), Some("It is too long to be laid out, so it is shown as it came."));
        assert!(!is_json(&"[".repeat(100_000)));
    }

    #[test]
    fn fields_are_shown_in_full_up_to_a_bound() {
        let long = "ü".repeat(FULL_BYTES_MAX);
        let shown = full(Some(long.as_bytes()), Show::Text);
        assert_eq!(shown.text.len(), FULL_BYTES_MAX);
        assert_eq!(shown.note.as_deref(), Some("The first 1.00 MiB of 2.00 MiB are shown."));
        let shown = full(Some(b"abc\xff"), Show::Text);
        assert_eq!(shown.text, "00000000  61 62 63 ff                                       abc.\n");
        assert_eq!(shown.note.as_deref(), Some("It is not UTF-8 (from byte 3 on), so it is shown as hexadecimal."));
        let nothing = full(Some(&[0; FULL_BYTES_MAX]), Show::Text);
        assert!(nothing.text.len() < FULL_BYTES_MAX + 9 * VISIBLE_STEP_BYTES);
        assert_eq!(nothing.note.as_deref(), Some("The first 160 KiB of 1.00 MiB are shown."));
        let line = "00000000  30 31 32 33 34 35 36 37  38 39 3a 3b 3c 3d 3e 3f  0123456789:;<=>?\n";
        assert_eq!(full(Some(b"0123456789:;<=>?"), Show::Hex).text, line);
    }
}
