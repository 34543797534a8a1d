//! The scenarios that are built in: published benchmarks with their figures, and a quick look. Files in `suites/`.

/// A scenario by its name.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    pub name: &'static str,
    /// What `Scenario::parse` reads.
    pub text: &'static str,
}

macro_rules! suites {
    ($($name:literal),+ $(,)?) => {
        &[$(Suite { name: $name, text: include_str!(concat!("../suites/", $name, ".toml")) },)+]
    };
}

const SUITES: &[Suite] = suites![
    "quick",
    "huawei-dms",
    "cern-openstack",
    "design-analysis",
    "google-managed",
    "single-node",
    "exactly-once",
    "linkedin-2m",
    "growth",
];

/// All of them, the shortest first.
pub fn suites() -> &'static [Suite] {
    SUITES
}

pub fn suite(name: &str) -> Option<&'static Suite> {
    SUITES.iter().find(|suite| suite.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::bottleneck::{Limit, Observation};
    use crate::result::Published;
    use crate::scenario::{Case, Loop, Scenario};

    fn scenario(suite: &Suite) -> Scenario {
        Scenario::parse(suite.text).unwrap_or_else(|error| panic!("{}: {error}", suite.name))
    }

    fn cases() -> impl Iterator<Item = Case> {
        suites().iter().flat_map(|suite| scenario(suite).cases)
    }

    /// The cases that have published figures, with them.
    fn published() -> impl Iterator<Item = (Case, Published)> {
        cases().filter_map(|case| case.published.clone().map(|published| (case, published)))
    }

    fn record_bytes(case: &Case) -> f64 {
        case.load.record_size_bytes.to_string().parse().unwrap()
    }

    #[test]
    fn every_suite_parses_under_its_own_name() {
        for one in suites() {
            let scenario = scenario(one);
            assert_eq!(scenario.name, one.name);
            assert_eq!(suite(one.name).unwrap().text, one.text);
            assert!(!scenario.title.is_empty() && !scenario.description.is_empty(), "{}", one.name);
            assert!(!scenario.charts.is_empty(), "{}", one.name);
        }
        assert!(suite("slow").is_none());
    }

    #[test]
    fn a_suite_is_plain_text_and_takes_ten_minutes_at_most() {
        // The overhead of topics, connections and the like, for each case.
        const OVERHEAD_S: f64 = 1.5;
        for suite in suites() {
            for (number, line) in suite.text.lines().enumerate() {
                let is_plain = line.chars().all(|c| c == ' ' || c.is_ascii_graphic()) && !line.ends_with(' ');
                assert!(is_plain && line.len() <= 120, "{} line {}", suite.name, number + 1);
            }
            let takes = |case: &Case| case.load.warm_up_s + case.load.duration_s + OVERHEAD_S;
            let seconds: f64 = scenario(suite).cases.iter().map(takes).sum();
            let limit = if suite.name == "quick" { 60.0 } else { 600.0 };
            assert!(seconds <= limit, "{} takes {seconds} s", suite.name);
        }
    }

    #[test]
    fn every_case_can_be_scaled_and_finds_its_brokers() {
        for Case { id, load, .. } in cases() {
            assert!(load.records > 0, "{id}");
            // A matrix of replicas leaves out what the cluster cannot have.
            let is_matrix = ["C3", "D4"].iter().any(|group| id.starts_with(group));
            assert!(is_matrix || load.brokers_needed.max(load.brokers_used) >= load.replicas, "{id}");
            let is_idempotent = load.producer_settings().unwrap().is_idempotent().unwrap();
            let may_be = ['Y', 'Q', 'X'].iter().any(|suite| id.starts_with(*suite));
            assert!(may_be || !is_idempotent, "{id}: not a default of its Kafka");
        }
    }

    #[test]
    fn the_reports_cases_are_all_there() {
        let groups: BTreeSet<_> = cases().map(|case| case.group).collect();
        let expected = [
            "H1 H2 H3 H4 H5",
            "C1 C2 C3 C4-200 C4-500 C4-1000 C5 C6-1 C6-3",
            "D1 D2 D3 D4 D5 D6",
            "G1 G2 G3-3vcpu G3-12vcpu G4-produce G4-consume",
            "Y1 Y2 Y3",
        ];
        for id in expected.iter().flat_map(|ids| ids.split(' ')) {
            assert!(groups.contains(id), "{id}");
        }
        let of = |group: &str| cases().filter(|case| case.group == group).count();
        assert_eq!(["C1", "D1", "D2", "D3", "D4", "D5", "G1", "G2"].map(of), [3, 3, 14, 9, 3, 3, 4, 6]);
    }

    #[test]
    fn every_published_figure_belongs_to_a_point() {
        for suite in suites() {
            let table: toml::Table = suite.text.parse().unwrap();
            let scenario = scenario(suite);
            for case in table["case"].as_array().unwrap() {
                let id = case["id"].as_str().unwrap();
                let written = case.get("published").and_then(toml::Value::as_array).map_or(0, Vec::len);
                let mut used: Vec<&Published> = Vec::new();
                for published in scenario.cases.iter().filter(|case| case.group == id).map(|case| &case.published) {
                    used.extend(published.iter().filter(|published| !used.contains(published)).collect::<Vec<_>>());
                }
                assert_eq!(used.len(), written, "{}: {id}", suite.name);
            }
        }
    }

    #[test]
    fn published_rates_and_sizes_agree() {
        // C6-3 and one of G2 do not quite; their notes say so.
        const MAY_DIFFER: f64 = 0.04;
        let mut checked = 0;
        for (case, published) in published() {
            for (records_per_s, mib_per_s) in [
                (published.records_per_s, published.mib_per_s),
                (published.consumed_records_per_s, published.consumed_mib_per_s),
            ] {
                let (Some(records_per_s), Some(mib_per_s)) = (records_per_s, mib_per_s) else { continue };
                let expected = records_per_s * record_bytes(&case) / 1_048_576.0;
                assert!((mib_per_s / expected - 1.0).abs() < MAY_DIFFER, "{}: {expected} MiB/s", case.id);
                checked += 1;
            }
        }
        assert_eq!(checked, 27);
    }

    #[test]
    fn the_rules_say_what_limited_the_reports() {
        let expected = [
            ("H1", Limit::InFlightWindow),
            ("H2", Limit::TargetRate),
            ("H3", Limit::InFlightWindow),
            ("H4", Limit::BrokerCpu),
            ("H5", Limit::InFlightWindow),
            // Its buffer was as full as in the other three, but a batch holds one record, as in H1.
            ("G1/producer.batch.size=1000,producer.linger.ms=10", Limit::InFlightWindow),
            ("G1/producer.batch.size=10000,producer.linger.ms=10", Limit::ClientBuffer),
            ("G1/producer.batch.size=100000,producer.linger.ms=10", Limit::ClientBuffer),
            ("G1/producer.batch.size=100000,producer.linger.ms=100", Limit::ClientBuffer),
            ("Y1", Limit::ClientBuffer),
            ("Y2", Limit::Unknown),
            ("Y3", Limit::Unknown),
        ];
        let judged: Vec<_> = published().filter_map(|(case, published)| judge(&case, &published)).collect();
        let judged: Vec<_> = judged.iter().map(|(id, limit)| (id.as_str(), *limit)).collect();
        assert_eq!(judged, expected);
    }

    fn judge(case: &Case, published: &Published) -> Option<(String, Limit)> {
        let load = &case.load;
        let settings = load.producer_settings().unwrap();
        let busiest = published.broker_cpu_percent.iter().copied().reduce(f64::max);
        let (records_per_s, mean_latency_ms) = (published.records_per_s?, published.latency_mean_ms?);
        // Kafka's tool ran all of them.
        assert!(load.rate().is_none() || load.rate_loop == Loop::Closed, "{}", case.id);
        let observation = Observation {
            target_records_per_s: load.rate(),
            records_per_s,
            record_bytes: record_bytes(case),
            mean_latency_s: Some(mean_latency_ms / 1000.0),
            producers: load.producers,
            buffer_bytes: settings.buffer_bytes as f64,
            batch_bytes: settings.batch_bytes as f64,
            linger_s: settings.linger.as_secs_f64(),
            in_flight_slots: (settings.in_flight_max as u32 * published.brokers.unwrap_or(1)).into(),
            broker_cpu: busiest.map(|percent| percent / 100.0),
            ..Observation::default()
        };
        Some((case.id.clone(), observation.verdict().limit))
    }
}
