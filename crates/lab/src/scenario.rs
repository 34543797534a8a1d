//! Scenarios: what a run is to do, as a TOML file says it. docs/lab.md describes the format.
//!
//! A scenario has defaults, cases and charts. A case whose keys hold lists is run for every combination of their
//! values. Mistakes are reported with their line and what is allowed there, before anything runs.

mod load;

use std::collections::{BTreeMap, BTreeSet};

use load::{CaseToml, Point};
pub use load::{KEYS, Load, Loop, Stop};
use serde::Deserialize;
use toml::Spanned;

use crate::broker_size::BrokerSize;
use crate::byte_size::ByteSize;
use crate::engine::EngineError;
use crate::result::{Chart, Measure, Published};
use crate::settings::{ConsumerSettings, ProducerSettings, SettingError};
use crate::text::Text;

/// More cases than a user would wait for; a matrix of many lists is soon larger than was meant.
const CASES_MAX: usize = 10_000;
const COUNT_MAX: u32 = 100_000;
/// Less is no machine that a broker could run on.
const BROKER_CPUS_MIN: f64 = 0.1;
const BROKER_MEMORY_MIN: ByteSize = ByteSize(64 << 20);

#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: String,
    pub title: String,
    pub description: String,
    pub cases: Vec<Case>,
    pub charts: Vec<Chart>,
    /// How long each case is measured, where that is not its own time.
    pub duration_s: Option<f64>,
    /// As it was read.
    pub text: String,
}

/// One load on one target.
#[derive(Clone, Debug)]
pub struct Case {
    /// Unique: the group, and the values of its axes where there are some.
    pub id: String,
    /// The id in the file.
    pub group: String,
    pub title: String,
    pub axes: BTreeMap<String, String>,
    pub load: Load,
    pub repeat: u32,
    pub stop: Stop,
    pub published: Option<Published>,
}

impl Case {
    /// A scenario that is made by the program, once.
    pub fn plain(id: &str, load: Load) -> Self {
        Self {
            id: id.to_owned(),
            group: id.to_owned(),
            title: id.to_owned(),
            axes: BTreeMap::new(),
            load,
            repeat: 1,
            stop: Stop::Never,
            published: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    #[error("line {line}: {reason}")]
    Toml { line: usize, reason: String },
    #[error("line {line}: case {id}: {reason}")]
    Case { line: usize, id: String, reason: String },
    #[error("{0}")]
    Whole(String),
}

impl ScenarioError {
    /// The line that it is about, from 1 on.
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::Toml { line, .. } | Self::Case { line, .. } => Some(*line),
            Self::Whole(_) => None,
        }
    }

    /// What is wrong there.
    pub fn reason(&self) -> &str {
        match self {
            Self::Toml { reason, .. } | Self::Case { reason, .. } | Self::Whole(reason) => reason,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioToml {
    name: String,
    title: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    defaults: CaseToml,
    #[serde(default, rename = "case")]
    cases: Vec<Spanned<CaseToml>>,
    #[serde(default, rename = "chart")]
    charts: Vec<Chart>,
}

impl Scenario {
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let line_at = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
        let parsed: ScenarioToml = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_at(span.start));
            ScenarioError::Toml { line, reason: error.message().replace('\n', " ") }
        })?;
        let (mut cases, mut seen) = (Vec::new(), BTreeSet::new());
        // Where each case begins in the file.
        let mut lines = BTreeMap::new();
        for (number, case) in parsed.cases.iter().enumerate() {
            let (line, case) = (line_at(case.span().start), case.get_ref());
            let id = case.id.clone().unwrap_or_else(|| format!("case-{}", number + 1));
            let wrong = |id: &str, reason| ScenarioError::Case { line, id: id.to_owned(), reason };
            let points = expand(&id, case.clone().or(&parsed.defaults)).map_err(|reason| wrong(&id, reason))?;
            if let Some(twice) = points.iter().find(|case| !seen.insert(case.id.clone())) {
                return Err(wrong(&twice.id, "the id is there twice".to_owned()));
            }
            lines.insert(id, line);
            cases.extend(points);
            if cases.len() > CASES_MAX {
                return Err(ScenarioError::Whole(format!(
                    "more than {CASES_MAX} cases; skip combinations, or list less"
                )));
            }
        }
        if cases.is_empty() {
            return Err(ScenarioError::Whole("there is no case: each begins with [[case]]".to_owned()));
        }
        let base = |case: &'_ Case| case.published.as_ref().and_then(|published| published.base_case.clone());
        let lacks = |id: &String| !cases.iter().any(|case| case.id == *id);
        if let Some((case, id)) = cases.iter().find_map(|case| Some((case, base(case).filter(lacks)?))) {
            let reason = format!("its base_case {id:?} is not there");
            let line = lines.get(&case.group).copied().unwrap_or(1);
            return Err(ScenarioError::Case { line, id: case.id.clone(), reason });
        }
        let known: BTreeSet<_> = cases.iter().map(|case| case.group.as_str()).collect();
        for chart in &parsed.charts {
            if let Some(unknown) = chart.cases.iter().find(|case| !known.contains(case.as_str())) {
                let reason = format!("chart {:?} wants case {unknown:?}, which is not there", chart.title);
                return Err(ScenarioError::Whole(reason));
            }
        }
        let charts = if parsed.charts.is_empty() { default_charts(&cases) } else { parsed.charts };
        let ScenarioToml { name, title, description, .. } = parsed;
        Ok(Self { name, title, description, cases, charts, duration_s: None, text: text.to_owned() })
    }

    /// Each case measured for so many seconds, whatever it says.
    pub fn lasting(mut self, duration_s: f64) -> Self {
        self.duration_s = Some(duration_s);
        self.cases.iter_mut().for_each(|case| case.load.duration_s = duration_s);
        self
    }

    /// Only the cases whose id, or group, is one of these.
    pub fn only(mut self, ids: &[String]) -> Result<Self, ScenarioError> {
        let is_wanted = |case: &Case, id: &String| *id == case.id || *id == case.group;
        if let Some(unknown) = ids.iter().find(|id| !self.cases.iter().any(|case| is_wanted(case, id))) {
            let mut groups: Vec<_> = self.cases.iter().map(|case| case.group.as_str()).collect();
            groups.dedup();
            let reason = format!("{} has no case {unknown:?}; it has {}", self.name, groups.join(", "));
            return Err(ScenarioError::Whole(reason));
        }
        self.cases.retain(|case| ids.is_empty() || ids.iter().any(|id| is_wanted(case, id)));
        let left: BTreeSet<_> = self.cases.iter().map(|case| case.group.clone()).collect();
        self.charts.retain(|chart| chart.cases.iter().any(|case| left.contains(case)));
        Ok(self)
    }
}

fn expand(id: &str, case: CaseToml) -> Result<Vec<Case>, String> {
    let points = case.points();
    let is_at = |values: &BTreeMap<String, Text>, point: &Point| {
        let parameters = point.load.parameters();
        values.iter().all(|(name, value)| parameters.get(name) == Some(&value.0))
    };
    let known = points.first().map(|point| point.load.parameters()).unwrap_or_default();
    let conditions = case.skip.iter().chain(case.published.iter().map(|published| &published.when));
    if let Some(name) = conditions.flat_map(BTreeMap::keys).find(|name| !known.contains_key(*name)) {
        return Err(format!("{name:?} is no key of the case that a condition could ask for"));
    }
    let mut cases = Vec::new();
    for point in points {
        if case.skip.iter().any(|skip| is_at(skip, &point)) {
            continue;
        }
        check(&point.load)?;
        let named = point.axes.iter().map(|(name, value)| format!("{name}={value}"));
        let suffix = named.collect::<Vec<_>>().join(",");
        let published = case.published.iter().find(|published| is_at(&published.when, &point));
        cases.push(Case {
            id: if suffix.is_empty() { id.to_owned() } else { format!("{id}/{suffix}") },
            group: id.to_owned(),
            title: case.title.clone().unwrap_or_else(|| id.to_owned()),
            axes: point.axes.into_iter().collect(),
            load: point.load,
            repeat: case.repeat.unwrap_or(1).max(1),
            stop: case.stop.unwrap_or(Stop::Never),
            published: published.cloned(),
        });
    }
    Ok(cases)
}

/// What no type can say.
fn check(load: &Load) -> Result<(), String> {
    let counts = [
        ("topics", load.topics, 1),
        ("partitions", load.partitions, 1),
        ("replicas", load.replicas, 1),
        ("producers", load.producers, 0),
        ("consumers", load.consumers, 0),
        ("consumer_groups", load.consumer_groups, 0),
        ("idle_connections", load.idle_connections, 0),
        ("brokers_used", load.brokers_used, 0),
    ];
    if load.brokers_used > 0 && load.brokers_used < load.replicas {
        return Err(format!("{} replicas do not fit on brokers_used = {}", load.replicas, load.brokers_used));
    }
    for (name, count, least) in counts {
        if !(least..=COUNT_MAX).contains(&count) {
            return Err(format!("{name} is {count}; it takes {least} to {COUNT_MAX}"));
        }
    }
    let times = [
        ("duration_s", load.duration_s),
        ("warm_up_s", load.warm_up_s),
        ("ramp_s", load.ramp_s),
        ("consumers_start_s", load.consumers_start_s),
        ("network_delay_ms", load.network_delay_ms),
        ("rate_records_per_s", load.rate_records_per_s),
    ];
    for (name, value) in times {
        if !(0.0..=1e9).contains(&value) {
            return Err(format!("{name} is {value}; it takes 0 to 1,000,000,000"));
        }
    }
    let BrokerSize { cpus, memory } = load.broker_size();
    if cpus != 0.0 && !(BROKER_CPUS_MIN..=f64::from(COUNT_MAX)).contains(&cpus) {
        return Err(format!("broker_cpus is {cpus}; it takes {BROKER_CPUS_MIN} and more, or 0 for all"));
    }
    if memory.0 != 0 && memory < BROKER_MEMORY_MIN {
        return Err(format!("broker_memory is {memory}; it takes {BROKER_MEMORY_MIN} and more, or 0 for all"));
    }
    if load.producers + load.consumers == 0 {
        return Err("there are neither producers nor consumers".to_owned());
    }
    if load.producers > 0 && load.duration_s == 0.0 && load.records == 0 {
        return Err("records or duration_s says when it ends".to_owned());
    }
    if !(0.0..=1.0).contains(&load.repeated_part) {
        return Err("repeated_part is a part from 0 to 1".to_owned());
    }
    if load.transaction_ms > 0 && load.producers == 0 {
        return Err("transaction_ms needs producers".to_owned());
    }
    let settings = load.producer_settings().map_err(|error| error.to_string())?;
    settings.is_idempotent().map_err(|error| error.to_string())?;
    if load.producers > 0 {
        load.engine.check(&settings, u64::from(load.producers)).map_err(|error| error.to_string())?;
        if load.network_delay_ms > 0.0 && !load.engine.takes_detours() {
            return Err(EngineError::NetworkDelay.to_string());
        }
    }
    load.consumer_settings().map_err(|error| error.to_string())?;
    Ok(())
}

impl Load {
    /// Brokers without which it cannot be run.
    pub fn brokers_min(&self) -> u32 {
        self.brokers_needed.max(self.brokers_used).max(self.replicas)
    }

    pub fn broker_size(&self) -> BrokerSize {
        BrokerSize { cpus: self.broker_cpus, memory: self.broker_memory }
    }

    pub fn producer_settings(&self) -> Result<ProducerSettings, SettingError> {
        let mut settings = ProducerSettings::default();
        apply(&self.producer, |name, value| settings.set(name, value))?;
        if self.transaction_ms > 0 {
            // The run makes it another one for each producer.
            settings.transactional_id.get_or_insert_with(|| "parshall-lab".to_owned());
        }
        Ok(settings)
    }

    pub fn consumer_settings(&self) -> Result<ConsumerSettings, SettingError> {
        let mut settings = ConsumerSettings::default();
        apply(&self.consumer, |name, value| settings.set(name, value))?;
        Ok(settings)
    }

    /// In how many copies each record is read.
    pub fn readers(&self) -> u64 {
        u64::from(if self.consumer_groups == 0 { self.consumers } else { self.consumer_groups }).max(1)
    }

    pub fn rate(&self) -> Option<f64> {
        (self.rate_records_per_s > 0.0 && self.producers > 0).then_some(self.rate_records_per_s)
    }
}

/// Settings without effect are let pass, as Kafka's clients do; unknown ones would be a mistake in the file.
fn apply(
    pairs: &BTreeMap<String, String>,
    mut set: impl FnMut(&str, &str) -> Result<(), SettingError>,
) -> Result<(), SettingError> {
    for (name, value) in pairs {
        match set(name, value) {
            Ok(()) | Err(SettingError::Ignored { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Where a scenario names none: a chart for each matrix, and one for what is left.
fn default_charts(cases: &[Case]) -> Vec<Chart> {
    let mut charts: Vec<Chart> = Vec::new();
    let mut plain = Vec::new();
    for case in cases {
        // Where the rate is given, the rest of a case tells how long records took.
        let y = match (case.load.producers, case.load.rate()) {
            (0, _) => Measure::ConsumedMibPerS,
            (_, None) => Measure::MibPerS,
            (_, Some(_)) => Measure::LatencyP99,
        };
        let numbers = |value: &&String| value.parse::<f64>().is_ok();
        let numeric = case.axes.iter().find(|(_, value)| numbers(value)).map(|(name, _)| name.clone());
        match numeric.or_else(|| case.axes.keys().next().cloned()) {
            Some(x) if !charts.iter().any(|chart| chart.cases[0] == case.group) => {
                let (title, cases) = (case.title.clone(), vec![case.group.clone()]);
                charts.push(Chart { title, cases, x: Some(x), y });
            }
            Some(_) => {}
            None => plain.push(case.group.clone()),
        }
    }
    if !plain.is_empty() {
        charts.insert(0, Chart { title: "Throughput".to_owned(), cases: plain, x: None, y: Measure::MibPerS });
    }
    charts
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "name = \"n\"\ntitle = \"t\"\n";

    fn parse(text: &str) -> Result<Scenario, String> {
        Scenario::parse(&format!("{HEAD}{text}")).map_err(|error| error.to_string())
    }

    #[test]
    fn every_list_is_iterated() {
        let text = r#"
            [defaults]
            partitions = [1, 3]
            producer.acks = "1"
            [[case]]
            id = "A"
            record_size_bytes = [100, "10-20"]
            producer.acks = ["1", "all"]
            skip = [{ partitions = 3, "producer.acks" = "all" }]
            published = [{ when = { partitions = 3 }, records_per_s = 5.5 }, { note = "n" }]
            [[case]]
            id = "B"
            partitions = 2
        "#;
        let scenario = parse(text).unwrap();
        let ids: Vec<_> = scenario.cases.iter().map(|case| case.id.as_str()).collect();
        assert_eq!(
            ids,
            [
                "A/partitions=1,record_size_bytes=100,producer.acks=1",
                "A/partitions=1,record_size_bytes=100,producer.acks=all",
                "A/partitions=1,record_size_bytes=10-20,producer.acks=1",
                "A/partitions=1,record_size_bytes=10-20,producer.acks=all",
                "A/partitions=3,record_size_bytes=100,producer.acks=1",
                "A/partitions=3,record_size_bytes=10-20,producer.acks=1",
                "B",
            ]
        );
        assert_eq!(scenario.cases[6].load.producer["acks"], "1");
        assert_eq!(scenario.cases[6].load.partitions, 2);
        let rate = |case: &Case| case.published.as_ref().unwrap().records_per_s;
        assert_eq!((rate(&scenario.cases[0]), rate(&scenario.cases[4])), (None, Some(5.5)));
        assert_eq!(scenario.charts.len(), 2);
        let only = scenario.only(&["B".to_owned()]).unwrap();
        assert_eq!((only.cases.len(), only.charts.len()), (1, 1));
        assert!(only.only(&["C".to_owned()]).unwrap_err().to_string().contains("it has B"));
    }

    #[test]
    fn the_size_of_brokers_is_iterated_too() {
        let text = "[[case]]\nid = \"A\"\nbroker_cpus = [1, 1.5]\nbroker_memory = [0, \"2GiB\", 1073741824]\n";
        let scenario = parse(text).unwrap();
        let ids: Vec<_> = scenario.cases.iter().map(|case| case.id.as_str()).collect();
        assert_eq!(
            ids[1..4],
            [
                "A/broker_cpus=1,broker_memory=2GiB",
                "A/broker_cpus=1,broker_memory=1GiB",
                "A/broker_cpus=1.5,broker_memory=0",
            ]
        );
        let size = scenario.cases[4].load.broker_size();
        assert_eq!((size.cpus, size.memory), (1.5, ByteSize(2 << 30)));
        assert!(!Load::default().broker_size().is_limited());
    }

    #[test]
    fn librdkafka_is_asked_for_where_it_is_there_and_without_a_delay() {
        let taken = parse("[[case]]\nengine = \"librdkafka\"\n").map(|_| ());
        let delayed = parse("[[case]]\nid = \"A\"\nengine = \"librdkafka\"\nnetwork_delay_ms = 1\n").unwrap_err();
        if cfg!(feature = "librdkafka") {
            assert_eq!(taken, Ok(()));
            assert!(delayed.starts_with("line 3: case A: network_delay_ms is not for engine librdkafka"), "{delayed}");
        } else {
            let error = taken.unwrap_err();
            assert!(
                error.starts_with("line 3: case case-1: engine librdkafka is not in this binary: build one"),
                "{error}"
            );
            assert!(error.contains("`cargo build --release --features librdkafka`"), "{error}");
        }
        assert!(parse("[[case]]\nengine = \"librdkafka\"\nproducers = 0\nconsumers = 1\n").is_ok());
        let error = parse("[[case]]\nengine = \"raw\"\nproducer.\"transactional.id\" = \"t\"\n").unwrap_err();
        assert!(error.starts_with("line 3: case case-1: engine raw has no transactions"), "{error}");
    }

    #[test]
    fn a_mistake_is_told_with_its_line_and_what_is_allowed() {
        let error = parse("[[case]]\nrecrods = 5\n").unwrap_err();
        assert!(error.starts_with("line 4: unknown field `recrods`") && error.contains("`records`"), "{error}");
        let error = parse("[[case]]\nid = \"A\"\npartitions = \"three\"\n").unwrap_err();
        assert!(error.starts_with("line 5: ") && error.contains("three"), "{error}");
        let error = parse("[[case]]\nengine = \"fast\"\n").unwrap_err();
        assert!(error.contains("`client`") && error.contains("`raw`"), "{error}");
        let error = parse("[[case]]\nproducer.ackz = 1\n").unwrap_err();
        assert_eq!(error, "line 3: case case-1: ackz is no setting of Kafka's client");
        let error = parse("[[case]]\nid = \"A\"\nproducers = 0\n").unwrap_err();
        assert_eq!(error, "line 3: case A: there are neither producers nor consumers");
        for (text, part) in [
            ("", "no case"),
            ("[[case]]\nid = \"A\"\n[[case]]\nid = \"A\"\n", "line 5: case A: the id is there twice"),
            ("[[case]]\nskip = [{ partition = 1 }]\n", "\"partition\""),
            ("[[case]]\npartitions = []\n", "one value at least"),
            ("[[case]]\npartitions = 0\n", "partitions is 0"),
            ("[[case]]\nbroker_cpus = 0.05\n", "broker_cpus is 0.05; it takes 0.1 and more"),
            ("[[case]]\nbroker_memory = \"4K\"\n", "broker_memory is 4KiB; it takes 64MiB and more"),
            ("[[case]]\nbroker_memory = \"2GB\"\n", "for example 2GiB"),
            ("[[case]]\nreplicas = [1, 3]\nbrokers_used = 2\n", "3 replicas do not fit on brokers_used = 2"),
            ("[[case]]\npublished = [{ base_case = \"B\" }]\n", "line 3: case case-1: its base_case \"B\""),
            ("[[case]]\npublished = [{ record_per_s = 1 }]\n", "record_per_s"),
            ("[[case]]\nid = \"A\"\n[[chart]]\ntitle = \"c\"\ncases = [\"B\"]\ny = \"mib_per_s\"\n", "\"B\""),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
