//! The values in a page of metrics, by their names.

/// A page in the text format of Prometheus or OpenMetrics.
#[derive(Clone, Debug)]
pub struct Exposition(String);

impl Exposition {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// All series of a name together, whatever their labels; `None` if there are none.
    pub fn sum(&self, name: &str) -> Option<f64> {
        self.values(name).reduce(|sum, value| sum + value)
    }

    /// The greatest of a name.
    pub fn max(&self, name: &str) -> Option<f64> {
        self.values(name).reduce(f64::max)
    }

    fn values(&self, name: &str) -> impl Iterator<Item = f64> {
        self.samples(name).map(|(_, value)| value)
    }

    /// The samples of a name: what stands between the braces, and the value.
    fn samples(&self, name: &str) -> impl Iterator<Item = (&str, f64)> {
        let samples = self.0.lines().filter_map(move |line| line.strip_prefix(name));
        samples.filter_map(|rest| {
            // A label may have anything but a line break in it; behind the last brace is the value.
            let (labels, value) = match rest.strip_prefix('{') {
                Some(labelled) => labelled.rsplit_once("} ")?,
                None => ("", rest.strip_prefix(' ')?),
            };
            Some((labels, value.split(' ').next()?.parse().ok()?))
        })
    }

    /// The samples of a name with the values of these labels, in this order. One without a label has "" there.
    pub fn labelled<const N: usize>(&self, name: &str, labels: [&str; N]) -> impl Iterator<Item = ([String; N], f64)> {
        self.samples(name).map(move |(pairs, value)| {
            let mut found = [const { String::new() }; N];
            for (label, value) in label_pairs(pairs) {
                if let Some(at) = labels.iter().position(|wanted| *wanted == label) {
                    found[at] = value;
                }
            }
            (found, value)
        })
    }
}

/// `a="x",b="y"` with its escapes undone.
fn label_pairs(mut text: &str) -> Vec<(&str, String)> {
    let mut pairs = Vec::new();
    while let Some((label, rest)) = text.split_once("=\"") {
        let mut value = String::new();
        let mut chars = rest.char_indices();
        let end = loop {
            match chars.next() {
                None => break rest.len(),
                Some((at, '"')) => break at + 1,
                Some((_, '\\')) => match chars.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, escaped)) => value.push(escaped),
                    None => {}
                },
                Some((_, plain)) => value.push(plain),
            }
        };
        pairs.push((label, value));
        text = rest[end..].trim_start_matches(',');
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_one_name_are_found() {
        let text =
            "# TYPE a counter\na_total{x=\"1\"} 2\na_total{x=\"} 7 {\"} 3.5\na_total_other 9\nb 4\nc +Inf\n# EOF\n";
        let page = Exposition::new(text.to_owned());
        assert_eq!((page.sum("a_total"), page.max("a_total")), (Some(5.5), Some(3.5)));
        assert_eq!((page.sum("b"), page.sum("c"), page.sum("d")), (Some(4.0), Some(f64::INFINITY), None));
    }

    #[test]
    fn labels_are_found_whatever_is_in_them() {
        let text = r#"lag{group="a\"}=\\b",topic="t",partition="0"} 5
lag{topic="u",group="x\ny"} 6
"#;
        let page = Exposition::new(text.to_owned());
        let found: Vec<_> = page.labelled("lag", ["topic", "group"]).collect();
        let expected = [(["t".to_owned(), "a\"}=\\b".to_owned()], 5.0), (["u".to_owned(), "x\ny".to_owned()], 6.0)];
        assert_eq!(found, expected);
    }
}
