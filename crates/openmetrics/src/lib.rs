//! Reading pages of metrics in the text format of Prometheus and OpenMetrics.
//!
//! Lines that are no samples are skipped: other exporters write what they like. Timestamps and exemplars are ignored.

mod process;

use std::borrow::Cow;

pub use process::PROCESS_CPU_SECONDS;

/// A page, read anew for each question.
#[derive(Clone, Debug)]
pub struct Exposition(String);

impl Exposition {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The value of the first sample of a name, whatever its labels.
    pub fn first(&self, name: &str) -> Option<f64> {
        self.samples(name).next().map(|sample| sample.value)
    }

    /// The sum over all samples of a name; `None` if there are none.
    pub fn sum(&self, name: &str) -> Option<f64> {
        self.samples(name).map(|sample| sample.value).reduce(|sum, value| sum + value)
    }

    /// The greatest value of a name.
    pub fn max(&self, name: &str) -> Option<f64> {
        self.samples(name).map(|sample| sample.value).reduce(f64::max)
    }

    /// The samples of a name with the values of these labels, in this order. A label that a sample lacks is "".
    pub fn labelled<const N: usize>(&self, name: &str, labels: [&str; N]) -> impl Iterator<Item = ([String; N], f64)> {
        self.samples(name).map(move |sample| {
            let mut found = [const { String::new() }; N];
            for (label, value) in sample.labels() {
                if let Some(index) = labels.iter().position(|wanted| *wanted == label) {
                    found[index] = value.into_owned();
                }
            }
            (found, sample.value)
        })
    }

    /// All samples, for names that are not known letter by letter.
    pub fn lines(&self) -> impl Iterator<Item = SampleLine<'_>> {
        self.0.lines().filter_map(SampleLine::parse)
    }

    fn samples(&self, name: &str) -> impl Iterator<Item = SampleLine<'_>> {
        let lines = self.0.lines().filter(move |line| line.starts_with(name));
        lines.filter_map(SampleLine::parse).filter(move |sample| sample.name == name)
    }

    /// The families of a page with HELP and TYPE lines. A sample before the first of these is skipped.
    pub fn families(&self) -> Vec<Family> {
        let mut families: Vec<Family> = Vec::new();
        for line in self.0.lines() {
            match line.strip_prefix("# ").map(|rest| rest.splitn(3, ' ').collect::<Vec<_>>()).as_deref() {
                Some(["HELP", name, help]) => family(&mut families, name).help = (*help).to_owned(),
                Some(["TYPE", name, "counter"]) => family(&mut families, name).kind = Kind::Counter,
                Some(["TYPE", name, "histogram"]) => family(&mut families, name).kind = Kind::Histogram,
                Some(["TYPE", name, _]) => family(&mut families, name).kind = Kind::Gauge,
                Some(_) => {}
                None => {
                    if let Some(family) = families.last_mut() {
                        family.samples.extend(Sample::parse(line, &family.name));
                    }
                }
            }
        }
        families
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    pub name: String,
    pub help: String,
    pub kind: Kind,
    pub samples: Vec<Sample>,
}

pub type Labels = Vec<(String, String)>;

#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What follows the family's name: `_total`, `_bucket`, `_sum`, `_count`, or nothing.
    pub suffix: String,
    pub labels: Labels,
    pub value: f64,
}

impl Sample {
    fn parse(line: &str, family: &str) -> Option<Self> {
        let sample = SampleLine::parse(line)?;
        let suffix = sample.name.strip_prefix(family)?.to_owned();
        let labels = sample.labels().map(|(name, value)| (name.to_owned(), value.into_owned())).collect();
        Some(Self { suffix, labels, value: sample.value })
    }
}

/// The family with this name: the last one, or a new one.
fn family<'a>(families: &'a mut Vec<Family>, name: &str) -> &'a mut Family {
    if families.last().is_none_or(|family| family.name != name) {
        let name = name.to_owned();
        families.push(Family { name, help: String::new(), kind: Kind::Gauge, samples: Vec::new() });
    }
    families.last_mut().expect("one was just pushed")
}

/// `name{label="value",...} 12.5 1700000000`
pub struct SampleLine<'a> {
    pub name: &'a str,
    /// Between the braces.
    labels: &'a str,
    pub value: f64,
}

impl<'a> SampleLine<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (name, rest) = line.split_at(line.find(['{', ' '])?);
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => split_at_unquoted(rest, '}')?,
            None => ("", rest),
        };
        let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
        Some(Self { name, labels, value })
    }

    pub fn label(&self, name: &str) -> Option<Cow<'a, str>> {
        self.labels().find(|(label, _)| *label == name).map(|(_, value)| value)
    }

    /// Names and values, with the escapes undone.
    fn labels(&self) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> + use<'a> {
        let mut rest = self.labels;
        std::iter::from_fn(move || {
            let (name, quoted) = rest.split_once("=\"")?;
            let (value, behind) = split_at_quote(quoted)?;
            rest = behind.trim_start_matches([',', ' ']);
            Some((name, unescaped(value)))
        })
    }
}

/// What is before and behind the first `end` that is not within quotes.
fn split_at_unquoted(text: &str, end: char) -> Option<(&str, &str)> {
    let mut start = 0;
    loop {
        let at = start + text[start..].find(['"', end])?;
        if text[at..].starts_with(end) {
            return Some((&text[..at], &text[at + end.len_utf8()..]));
        }
        let (value, _) = split_at_quote(&text[at + 1..])?;
        start = at + 1 + value.len() + 1;
    }
}

/// What is before and behind the first quote that is not escaped.
fn split_at_quote(text: &str) -> Option<(&str, &str)> {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })?;
    Some((&text[..end], &text[end + 1..]))
}

fn unescaped(value: &str) -> Cow<'_, str> {
    if !value.contains('\\') {
        return Cow::Borrowed(value);
    }
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(letter) = chars.next() {
        match letter {
            '\\' => plain.extend(chars.next().map(|escaped| if escaped == 'n' { '\n' } else { escaped })),
            _ => plain.push(letter),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Exposition {
        Exposition::new(text.to_owned())
    }

    #[test]
    fn samples_of_a_name_are_found() {
        let page = page(
            "# TYPE a counter\na_total{x=\"1\"} 2\na_total{x=\"} 7 {\"} 3.5\na_total_other 9\nb 4 1700000000\nc +Inf\n\
             broken{x=\"1\nbroken x\nd_bucket{le=\"1\"} 6 # {trace=\"} 8\"} 0.5\n# EOF\n",
        );
        assert_eq!(
            (page.first("a_total"), page.sum("a_total"), page.max("a_total")),
            (Some(2.0), Some(5.5), Some(3.5))
        );
        assert_eq!((page.sum("b"), page.sum("c"), page.sum("d")), (Some(4.0), Some(f64::INFINITY), None));
        assert_eq!((page.sum("d_bucket"), page.sum("broken"), page.first("a")), (Some(6.0), None, None));
    }

    #[test]
    fn labels_are_read_whatever_is_in_them() {
        let page = page(
            r#"lag{group="a\"}=\\b",topic="t",partition="0"} 5
lag{topic="u", group="x\ny",} 6
"#,
        );
        let found: Vec<_> = page.labelled("lag", ["topic", "group"]).collect();
        let expected = [(["t".to_owned(), "a\"}=\\b".to_owned()], 5.0), (["u".to_owned(), "x\ny".to_owned()], 6.0)];
        assert_eq!(found, expected);
    }

    #[test]
    fn families_have_their_samples() {
        let text = "# HELP a_seconds How long.\n# TYPE a_seconds gauge\n# UNIT a_seconds seconds\na_seconds 1.5\n\
                    # HELP b Many.\n# TYPE b counter\nb_total{x=\"1\",y=\"} \\\\ \\\" 7\\n{\"} 2\nb_total{} 3\nodd\n\
                    # HELP h H.\n# TYPE h histogram\nh_sum 2.5\nh_count 3\nh_bucket{le=\"+Inf\"} 3\n# EOF\n";
        let families = page(text).families();
        let [a, b, h] = &families[..] else { panic!("{families:?}") };
        assert_eq!((a.name.as_str(), a.help.as_str(), a.kind), ("a_seconds", "How long.", Kind::Gauge));
        assert_eq!((b.kind, h.kind), (Kind::Counter, Kind::Histogram));
        let sample = |suffix: &str, labels: &[(&str, &str)], value: f64| {
            let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Sample { suffix: suffix.to_owned(), labels, value }
        };
        assert_eq!(a.samples, [sample("", &[], 1.5)]);
        assert_eq!(
            b.samples,
            [sample("_total", &[("x", "1"), ("y", "} \\ \" 7\n{")], 2.0), sample("_total", &[], 3.0)]
        );
        let of_h = [sample("_sum", &[], 2.5), sample("_count", &[], 3.0), sample("_bucket", &[("le", "+Inf")], 3.0)];
        assert_eq!(h.samples, of_h);
    }
}
