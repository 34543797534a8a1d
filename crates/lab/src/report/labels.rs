//! What a chart calls its cases: only what tells them apart. Whole ids stand in tables and tooltips.

use std::collections::{BTreeMap, BTreeSet};

use crate::result::CaseResult;

/// Of clients' and topics' settings; without it a name is Kafka's.
const PREFIXES: [&str; 3] = ["producer.", "consumer.", "topic_settings."];

pub(super) struct Labels<'a> {
    has_several_groups: bool,
    /// By group, the axes that differ among its cases.
    varied: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// Names that several axes would have in common without their prefixes.
    ambiguous: BTreeSet<&'a str>,
}

impl<'a> Labels<'a> {
    /// For these cases; what `x` says of them stands on an axis.
    pub(super) fn of(cases: impl Iterator<Item = &'a CaseResult>, x: Option<&str>) -> Self {
        let mut groups = BTreeMap::<&str, Vec<&CaseResult>>::new();
        for case in cases {
            groups.entry(case.group.as_str()).or_default().push(case);
        }
        let has_several_groups = groups.len() > 1;
        let varied: BTreeMap<_, _> = groups.into_iter().map(|(group, cases)| (group, varied(&cases, x))).collect();
        let mut seen = BTreeSet::new();
        let axes: BTreeSet<_> = varied.values().flatten().copied().collect();
        let ambiguous = axes.into_iter().map(bare).filter(|name| !seen.insert(*name)).collect();
        Self { has_several_groups, varied, ambiguous }
    }

    /// `D3, acks=all`; empty where nothing differs.
    pub(super) fn of_case(&self, case: &CaseResult) -> String {
        let axes = self.varied.get(case.group.as_str()).into_iter().flatten();
        let values = axes.filter_map(|axis| Some(format!("{}={}", self.name(axis), case.axes.get(*axis)?)));
        let group = self.has_several_groups.then(|| case.group.clone());
        group.into_iter().chain(values).collect::<Vec<_>>().join(", ")
    }

    /// For a chart that has to call it something.
    pub(super) fn or_group(&self, case: &CaseResult) -> String {
        let label = self.of_case(case);
        if label.is_empty() { case.group.clone() } else { label }
    }

    fn name<'b>(&self, axis: &'b str) -> &'b str {
        let name = bare(axis);
        if self.ambiguous.contains(name) { axis } else { name }
    }
}

fn varied<'a>(cases: &[&'a CaseResult], x: Option<&str>) -> BTreeSet<&'a str> {
    let axes = cases.iter().flat_map(|case| case.axes.keys()).map(String::as_str);
    let differs = |axis: &&str| cases.iter().any(|case| case.axes.get(*axis) != cases[0].axes.get(*axis));
    axes.filter(|axis| Some(*axis) != x).filter(differs).collect()
}

fn bare(axis: &str) -> &str {
    PREFIXES.iter().find_map(|prefix| axis.strip_prefix(prefix)).unwrap_or(axis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn case(group: &str, axes: &[(&str, &str)]) -> CaseResult {
        let axes = axes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        CaseResult { axes, ..sample::measured(group, "parshall", 1, 1000.0) }
    }

    fn labels(cases: &[CaseResult], x: Option<&str>) -> Vec<String> {
        let labels = Labels::of(cases.iter(), x);
        cases.iter().map(|case| labels.or_group(case)).collect()
    }

    #[test]
    fn labels_say_only_what_differs() {
        let swept =
            |acks, linger| case("G1", &[("producer.acks", acks), ("producer.linger.ms", linger), ("partitions", "3")]);
        assert_eq!(labels(&[swept("1", "0"), swept("all", "0")], None), ["acks=1", "acks=all"]);
        let both = [swept("1", "0"), swept("1", "5"), swept("all", "5")];
        assert_eq!(labels(&both, None), ["acks=1, linger.ms=0", "acks=1, linger.ms=5", "acks=all, linger.ms=5"]);
        assert_eq!(labels(&both, Some("producer.linger.ms")), ["acks=1", "acks=1", "acks=all"]);
        assert_eq!(labels(&both[..1], None), ["G1"], "nothing differs");
    }

    #[test]
    fn several_groups_are_named_and_each_has_its_own_axes() {
        let cases = [case("D1", &[("producers", "1")]), case("D1", &[("producers", "2")]), case("D6", &[])];
        assert_eq!(labels(&cases, None), ["D1, producers=1", "D1, producers=2", "D6"]);
    }

    #[test]
    fn a_name_that_two_clients_share_keeps_its_prefix() {
        let of = |value| case("A", &[("producer.client.id", value), ("consumer.client.id", value)]);
        let expected = ["consumer.client.id=a, producer.client.id=a", "consumer.client.id=b, producer.client.id=b"];
        assert_eq!(labels(&[of("a"), of("b")], None), expected);
    }
}
