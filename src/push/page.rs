//! A page of metrics, taken apart: families, and their samples.

/// What is measured, by the names of the OpenMetrics text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Family {
    pub(super) name: String,
    pub(super) help: String,
    pub(super) kind: Kind,
    pub(super) samples: Vec<Sample>,
}

pub(super) type Labels = Vec<(String, String)>;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    /// What stands behind the family's name: `_total`, `_bucket`, `_sum`, `_count`, or nothing.
    pub(super) suffix: String,
    pub(super) labels: Labels,
    pub(super) value: f64,
}

/// Reads a page of this program's own. What does not belong there is left out.
pub(super) fn families(text: &str) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("# ").map(|rest| rest.splitn(3, ' ').collect::<Vec<_>>()).as_deref() {
            Some(["HELP", name, help]) => of_name(&mut families, name).help = (*help).to_owned(),
            Some(["TYPE", name, "counter"]) => of_name(&mut families, name).kind = Kind::Counter,
            Some(["TYPE", name, "histogram"]) => of_name(&mut families, name).kind = Kind::Histogram,
            Some(["TYPE", name, _]) => of_name(&mut families, name).kind = Kind::Gauge,
            Some(_) => {}
            None => {
                if let Some(family) = families.last_mut() {
                    family.samples.extend(sample(line, &family.name));
                }
            }
        }
    }
    families
}

/// The family that lines with a name belong to: the last one, or one that begins with them.
fn of_name<'a>(families: &'a mut Vec<Family>, name: &str) -> &'a mut Family {
    if families.last().is_none_or(|family| family.name != name) {
        let name = name.to_owned();
        families.push(Family { name, help: String::new(), kind: Kind::Gauge, samples: Vec::new() });
    }
    families.last_mut().expect("one was just put there")
}

fn sample(line: &str, family: &str) -> Option<Sample> {
    let rest = line.strip_prefix(family)?;
    let (suffix, rest) = rest.split_at(rest.find(['{', ' '])?);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.trim_start().split(' ').next()?.parse().ok()?;
    Some(Sample { suffix: suffix.to_owned(), labels, value })
}

/// The labels of a sample, and what stands behind their closing brace.
fn labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Vec::new();
    loop {
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((labels, behind));
        }
        let (name, quoted) = rest.trim_start_matches(',').split_once("=\"")?;
        let mut value = String::new();
        let mut chars = quoted.char_indices();
        let end = loop {
            match chars.next()? {
                (at, '"') => break at,
                (_, '\\') => value.push(match chars.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, other) => value.push(other),
            }
        };
        labels.push((name.to_owned(), value));
        rest = &quoted[end + 1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_taken_apart() {
        let text = "# HELP a_seconds How long.\n# TYPE a_seconds gauge\n# UNIT a_seconds seconds\na_seconds 1.5\n\
                    # HELP b Many.\n# TYPE b counter\nb_total{x=\"1\",y=\"} \\\\ \\\" 7\\n{\"} 2\nb_total{} 3\nodd\n\
                    # HELP h H.\n# TYPE h histogram\nh_sum 2.5\nh_count 3\nh_bucket{le=\"+Inf\"} 3\n# EOF\n";
        let families = families(text);
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
