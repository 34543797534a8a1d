//! The answers to DescribeConfigs, from the tables (`kafka.server.ConfigHelper`).

use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use wire::api::describe_configs::{DescribeConfigsResourceResult, DescribeConfigsSynonym};

use super::{BrokerConfig, ConfigMap, Scope, Setting, Synonym, ignored, listener_settings, topic};

/// Where a value comes from, as DescribeConfigs numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Topic = 1,
    Broker = 2,
    Cluster = 3,
    StartedWith = 4,
    Default = 5,
    Group = 8,
}

/// What the client asked for beside the values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Include {
    pub synonyms: bool,
    pub documentation: bool,
}

/// Which settings the client asked for: null and an empty list are all of them.
fn asked<'a>(scope: Scope, keys: Option<&'a [String]>) -> impl Iterator<Item = &'static Setting> + use<'a> {
    let keys = keys.filter(|keys| !keys.is_empty());
    let keys: Option<HashSet<&str>> = keys.map(|keys| keys.iter().map(String::as_str).collect());
    scope.settings().filter(move |setting| keys.as_ref().is_none_or(|keys| keys.contains(setting.name)))
}

/// Whether a setting is listed only where it has a value: Kafka's internal ones, and those that are no settings of a
/// broker there, but may be set for one (`DynamicConfig.Broker`).
fn is_unlisted(setting: &Setting) -> bool {
    const OF_QUOTAS: [&str; 3] = [
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    ];
    let is_internal = || ignored::INTERNAL.iter().any(|internal| internal.name == setting.name);
    OF_QUOTAS.contains(&setting.name) || setting.name == "internal.segment.bytes" || is_internal()
}

/// A topic's settings.
pub fn topic(
    broker: &BrokerConfig,
    overrides: &ConfigMap,
    keys: Option<&[String]>,
    include: Include,
) -> Vec<DescribeConfigsResourceResult> {
    asked(Scope::Topic, keys)
        .filter(|setting| !is_unlisted(setting) || overrides.contains_key(setting.name))
        .map(|setting| owned(setting, broker, overrides, Source::Topic, include))
        .collect()
}

/// A group's settings.
pub fn group(
    broker: &BrokerConfig,
    overrides: &ConfigMap,
    keys: Option<&[String]>,
    include: Include,
) -> Vec<DescribeConfigsResourceResult> {
    asked(Scope::Group, keys).map(|setting| owned(setting, broker, overrides, Source::Group, include)).collect()
}

/// A setting of something that may have its own value over the broker's.
fn owned(
    setting: &'static Setting,
    broker: &BrokerConfig,
    overrides: &ConfigMap,
    source: Source,
    include: Include,
) -> DescribeConfigsResourceResult {
    let mut synonyms = Vec::new();
    let own = overrides.get(setting.name).map(|text| setting.normal(text));
    if let Some(text) = &own {
        synonyms.push(synonym(setting.name, Some(text.clone()), source));
    }
    if let Some(first) = setting.synonyms.first() {
        // Kafka gives only what carries the first synonym's name or stands behind it, so that `log.retention.hours`
        // alone does not show.
        let all = layers(broker, setting.synonyms);
        synonyms.extend(all.into_iter().skip_while(|synonym| synonym.name != first.name));
    }
    let value = own.or_else(|| topic::from_broker(setting, broker).map(|text| setting.normal(&text)));
    result(setting, value, synonyms, false, include)
}

/// The settings of this broker.
pub fn broker(broker: &BrokerConfig, keys: Option<&[String]>, include: Include) -> Vec<DescribeConfigsResourceResult> {
    let settings = asked(Scope::Broker, keys)
        .filter(|setting| !is_unlisted(setting) || broker.said(setting.name).is_some())
        .map(|setting| {
            let all = layers(broker, broker_synonyms(setting.name));
            let synonyms = all.into_iter().skip_while(|synonym| synonym.name != setting.name).collect();
            let value = broker.text(setting).map(|text| setting.normal(text));
            result(setting, value, synonyms, !setting.is_dynamic(), include)
        });
    settings.chain(of_listeners(broker, keys, include)).collect()
}

/// What was set for single listeners.
fn of_listeners(
    broker: &BrokerConfig,
    keys: Option<&[String]>,
    include: Include,
) -> impl Iterator<Item = DescribeConfigsResourceResult> {
    let keys = keys.filter(|keys| !keys.is_empty());
    let asked = move |name: &String| keys.is_none_or(|keys| keys.contains(name));
    let said = broker.layers().started_with.iter().filter(move |(name, _)| asked(name));
    said.filter_map(move |(name, text)| {
        let setting = listener_settings::find(name)?;
        let value = Some(setting.normal(text));
        let synonyms = vec![synonym(name, value.clone(), Source::StartedWith)];
        let described = result(setting, value, synonyms, !setting.is_dynamic(), include);
        Some(DescribeConfigsResourceResult { name: name.clone(), ..described })
    })
}

/// What was set for all brokers while they run.
pub fn cluster(cluster: &ConfigMap, keys: Option<&[String]>, include: Include) -> Vec<DescribeConfigsResourceResult> {
    asked(Scope::Broker, keys)
        .filter_map(|setting| {
            let value = Some(setting.normal(cluster.get(setting.name)?));
            let synonyms = vec![synonym(setting.name, value.clone(), Source::Cluster)];
            Some(result(setting, value, synonyms, !setting.is_dynamic(), include))
        })
        .collect()
}

fn result(
    setting: &Setting,
    value: Option<String>,
    mut synonyms: Vec<DescribeConfigsSynonym>,
    read_only: bool,
    include: Include,
) -> DescribeConfigsResourceResult {
    if setting.is_sensitive() {
        synonyms.iter_mut().for_each(|synonym| synonym.value = None);
    }
    DescribeConfigsResourceResult {
        name: setting.name.to_owned(),
        value: value.filter(|_| !setting.is_sensitive()),
        read_only,
        config_source: synonyms.first().map_or(Source::Default as i8, |first| first.source),
        is_sensitive: setting.is_sensitive(),
        synonyms: if include.synonyms { synonyms } else { Vec::new() },
        config_type: setting.kind as i8,
        documentation: include.documentation.then(|| setting.description()),
    }
}

fn synonym(name: &str, value: Option<String>, source: Source) -> DescribeConfigsSynonym {
    DescribeConfigsSynonym { name: name.to_owned(), value, source: source as i8 }
}

/// Every value that any of the names has in any layer, the one that wins first.
fn layers(broker: &BrokerConfig, names: &[Synonym]) -> Vec<DescribeConfigsSynonym> {
    let layers = broker.layers();
    let settings: Vec<&Setting> = names.iter().filter_map(|synonym| Scope::Broker.find(synonym.name)).collect();
    let mut found = Vec::new();
    for (layer, source) in [
        (&layers.broker, Source::Broker),
        (&layers.cluster, Source::Cluster),
        (&layers.started_with, Source::StartedWith),
    ] {
        found.extend(
            settings.iter().filter_map(|setting| {
                Some(synonym(setting.name, Some(setting.normal(layer.get(setting.name)?)), source))
            }),
        );
    }
    let defaults = settings.iter().filter(|setting| setting.default.is_some());
    found.extend(defaults.map(|setting| synonym(setting.name, setting.default.map(str::to_owned), Source::Default)));
    found
}

/// A broker setting and the coarser ones behind it (`DynamicBrokerConfig.brokerConfigSynonyms`).
fn broker_synonyms(name: &'static str) -> &'static [Synonym] {
    topic::SETTINGS
        .iter()
        .map(|setting| setting.synonyms)
        .find(|synonyms| synonyms.first().is_some_and(|first| first.name == name))
        .unwrap_or_else(|| single(name))
}

/// A setting that has no other name.
fn single(name: &'static str) -> &'static [Synonym] {
    // Settings are static: each gets its slice once.
    static SINGLES: LazyLock<BTreeMap<&str, [Synonym; 1]>> = LazyLock::new(|| {
        let single = |setting: &'static Setting| (setting.name, [Synonym { name: setting.name, factor: 1 }]);
        Scope::Broker.settings().map(single).collect()
    });
    SINGLES.get(name).map_or(&[], |single| &single[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> ConfigMap {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    const ALL: Include = Include { synonyms: true, documentation: true };

    fn shown(result: &DescribeConfigsResourceResult) -> String {
        let synonyms: Vec<String> = result
            .synonyms
            .iter()
            .map(|s| format!("{}:{}={}", s.source, s.name, s.value.as_deref().unwrap_or("null")))
            .collect();
        format!("{} {} {{{}}}", result.value.as_deref().unwrap_or("null"), result.config_source, synonyms.join(", "))
    }

    fn one(results: &[DescribeConfigsResourceResult], name: &str) -> String {
        shown(results.iter().find(|result| result.name == name).unwrap())
    }

    #[test]
    fn settings_of_single_listeners_are_shown_without_secrets() {
        let name = |end: &str| format!("listener.name.ssl.{end}");
        let said = [
            ("listeners".to_owned(), "SSL://127.0.0.1:9093"),
            (name("ssl.keystore.location"), "a.pem"),
            (name("ssl.key.password"), "hush"),
        ];
        let map = said.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        let broker = BrokerConfig::new(map).unwrap();
        let all = super::broker(&broker, None, ALL);
        let shown = |end: &str| all.iter().find(|result| result.name == name(end)).expect("it is shown");
        assert_eq!(shown("ssl.keystore.location").value.as_deref(), Some("a.pem"));
        let secret = shown("ssl.key.password");
        assert_eq!((secret.value.as_deref(), secret.is_sensitive, &secret.synonyms[0].value), (None, true, &None));
        let keys = [name("ssl.keystore.location")];
        assert_eq!(super::broker(&broker, Some(&keys), ALL).len(), 1);
    }

    #[test]
    fn what_is_internal_or_a_quota_is_listed_where_it_is_set() {
        let names = ["leader.replication.throttled.rate", "log.initial.task.delay.ms"];
        let listed = |broker: &BrokerConfig| {
            let all = super::broker(broker, None, ALL).into_iter().map(|result| result.name);
            all.filter(|name| names.contains(&name.as_str())).count()
        };
        assert_eq!(listed(&BrokerConfig::new(ConfigMap::new()).unwrap()), 0);
        assert_eq!(listed(&BrokerConfig::new(map(&names.map(|name| (name, "7")))).unwrap()), 2);
        let broker = BrokerConfig::new(ConfigMap::new()).unwrap();
        let of_topic = |pairs| topic(&broker, &map(pairs), Some(&["internal.segment.bytes".to_owned()]), ALL).len();
        assert_eq!((of_topic(&[]), of_topic(&[("internal.segment.bytes", "1000")])), (0, 1));
    }

    /// `kafka-configs --describe --all` for a topic of Kafka 4.3.1 with the server.properties it ships with.
    #[test]
    fn a_topic_looks_as_it_does_in_kafka() {
        let broker =
            BrokerConfig::new(map(&[("log.segment.bytes", "1073741824"), ("log.retention.hours", "168")])).unwrap();
        let (broker, _) = broker.with_dynamic(&map(&[("min.insync.replicas", "1")]), &ConfigMap::new());
        let results = topic(&broker, &map(&[("flush.messages", "1")]), None, ALL);
        for (name, expected) in [
            ("cleanup.policy", "delete 5 {5:log.cleanup.policy=delete}"),
            ("flush.ms", "9223372036854775807 5 {}"),
            ("retention.ms", "604800000 5 {}"),
            ("segment.ms", "604800000 5 {}"),
            ("leader.replication.throttled.replicas", " 5 {}"),
            ("min.cleanable.dirty.ratio", "0.5 5 {5:log.cleaner.min.cleanable.ratio=0.5}"),
            ("min.insync.replicas", "1 3 {3:min.insync.replicas=1, 5:min.insync.replicas=1}"),
            ("segment.bytes", "1073741824 4 {4:log.segment.bytes=1073741824, 5:log.segment.bytes=1073741824}"),
            ("flush.messages", "1 1 {1:flush.messages=1, 5:log.flush.interval.messages=9223372036854775807}"),
        ] {
            assert_eq!(one(&results, name), expected, "{name}");
        }
        assert!(results.iter().all(|result| result.documentation.as_deref().is_some_and(|text| !text.is_empty())));
    }

    /// Names, types (by number) and defaults of Kafka 4.3.1's LogConfig, and ours.
    #[test]
    fn topic_settings_are_kafkas() {
        let kafka = "\
            cleanup.policy 7 delete|compression.gzip.level 3 -1|compression.lz4.level 3 9|compression.type 2 producer|\
            compression.zstd.level 3 3|delete.retention.ms 5 86400000|file.delete.delay.ms 5 60000|\
            flush.messages 5 9223372036854775807|flush.ms 5 9223372036854775807|\
            follower.replication.throttled.replicas 7 |index.interval.bytes 3 4096|\
            leader.replication.throttled.replicas 7 |local.retention.bytes 5 -2|local.retention.ms 5 -2|\
            max.compaction.lag.ms 5 9223372036854775807|max.message.bytes 3 1048588|\
            message.timestamp.after.max.ms 5 3600000|message.timestamp.before.max.ms 5 9223372036854775807|\
            message.timestamp.type 2 CreateTime|min.cleanable.dirty.ratio 6 0.5|min.compaction.lag.ms 5 0|\
            min.insync.replicas 3 1|preallocate 1 false|remote.log.copy.disable 1 false|\
            remote.log.delete.on.disable 1 false|remote.storage.enable 1 false|retention.bytes 5 -1|\
            retention.ms 5 604800000|segment.bytes 3 1073741824|segment.index.bytes 3 10485760|segment.jitter.ms 5 0|\
            segment.ms 5 604800000|unclean.leader.election.enable 1 false";
        let broker = BrokerConfig::new(ConfigMap::new()).unwrap();
        let ours: Vec<String> = topic(&broker, &ConfigMap::new(), None, ALL)
            .iter()
            .filter(|result| !["ack.durability", "disk.capacity.policy"].contains(&result.name.as_str()))
            .map(|result| format!("{} {} {}", result.name, result.config_type, result.value.as_deref().unwrap()))
            .collect();
        assert_eq!(ours.join("|"), kafka);
    }

    #[test]
    fn a_broker_shows_its_layers_and_what_can_be_changed() {
        let broker_config = BrokerConfig::new(map(&[("log.retention.minutes", "5"), ("num.partitions", "3")])).unwrap();
        let (broker_config, _) =
            broker_config.with_dynamic(&map(&[("log.retention.ms", "7")]), &map(&[("log.retention.ms", "8")]));
        let results = broker(&broker_config, None, ALL);
        assert_eq!(
            one(&results, "log.retention.ms"),
            "8 2 {2:log.retention.ms=8, 3:log.retention.ms=7, 4:log.retention.minutes=5, 5:log.retention.hours=168}"
        );
        assert_eq!(one(&results, "num.partitions"), "3 4 {4:num.partitions=3, 5:num.partitions=1}");
        let read_only = |name: &str| results.iter().find(|result| result.name == name).unwrap().read_only;
        assert!(read_only("num.partitions") && !read_only("log.retention.ms"));
        let threads = results.iter().find(|result| result.name == "num.io.threads").unwrap();
        assert!(threads.documentation.as_deref().unwrap().starts_with("Accepted without effect: "));
        let some = broker(&broker_config, Some(&["node.id".to_owned()]), Include::default());
        assert_eq!((some.len(), some[0].synonyms.len(), some[0].documentation.is_none()), (1, 0, true));
        assert_eq!(broker(&broker_config, Some(&[]), ALL).len(), results.len());
    }

    #[test]
    fn all_brokers_show_only_what_was_set_for_all() {
        let results = cluster(&map(&[("min.insync.replicas", "2")]), None, ALL);
        assert_eq!(results.iter().map(shown).collect::<Vec<_>>(), ["2 3 {3:min.insync.replicas=2}"]);
    }
}
