//! The values in a page of metrics, by their names.

/// A page in the text format of Prometheus or OpenMetrics.
pub(super) struct Page(String);

impl Page {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// All series of a name together, whatever their labels; `None` if there are none.
    pub(super) fn sum(&self, name: &str) -> Option<f64> {
        self.values(name).reduce(|sum, value| sum + value)
    }

    /// The greatest of a name.
    pub(super) fn max(&self, name: &str) -> Option<f64> {
        self.values(name).reduce(f64::max)
    }

    fn values(&self, name: &str) -> impl Iterator<Item = f64> {
        let samples = self.0.lines().filter_map(move |line| line.strip_prefix(name));
        samples.filter_map(|rest| {
            // A label may have anything but a line break in it; behind the last brace is the value.
            let value = match rest.strip_prefix('{') {
                Some(labelled) => labelled.rsplit_once("} ")?.1,
                None => rest.strip_prefix(' ')?,
            };
            value.split(' ').next()?.parse().ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_one_name_are_found() {
        let text =
            "# TYPE a counter\na_total{x=\"1\"} 2\na_total{x=\"} 7 {\"} 3.5\na_total_other 9\nb 4\nc +Inf\n# EOF\n";
        let page = Page::new(text.to_owned());
        assert_eq!((page.sum("a_total"), page.max("a_total")), (Some(5.5), Some(3.5)));
        assert_eq!((page.sum("b"), page.sum("c"), page.sum("d")), (Some(4.0), Some(f64::INFINITY), None));
    }
}
