//! What a broker is started with: flags over environment over file.
//!
//! Nothing is read from the machine here; the command line hands over what it found.

use super::{BrokerConfig, ConfigError, ConfigMap};

/// Environment variables of this beginning are settings: `PARSHALL_LOG_RETENTION_HOURS` is `log.retention.hours`.
pub const ENVIRONMENT_PREFIX: &str = "PARSHALL_";

/// Where settings may come from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Names and values of the command line.
    pub flags: Vec<(String, String)>,
    /// The environment, or any part of it.
    pub environment: Vec<(String, String)>,
    pub file: Option<ConfigFile>,
}

#[derive(Clone, Debug)]
pub enum ConfigFile {
    /// Its name, for messages, and its text.
    Toml { name: String, text: String },
    /// What a properties file says, as Kafka's `server.properties`. The later of two values counts, as there.
    Properties(Vec<(String, String)>),
}

/// What the sources make together.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub config: BrokerConfig,
    /// Lines that the operator should see: settings that change nothing here.
    pub notices: Vec<String>,
}

/// Puts the sources together. All errors are found at once.
pub fn load(sources: Sources) -> Result<Loaded, Vec<ConfigError>> {
    let mut errors = Vec::new();
    let mut values = match sources.file {
        Some(ConfigFile::Toml { name, text }) => toml_settings(&name, &text).map_err(|error| vec![error])?,
        Some(ConfigFile::Properties(settings)) => settings.into_iter().collect(),
        None => ConfigMap::new(),
    };
    values.extend(sources.environment.into_iter().filter_map(|(name, value)| Some((setting_name(&name)?, value))));
    values.extend(sources.flags);
    let mut notices = Vec::new();
    for (name, text) in &values {
        match super::Scope::Broker.expect(name) {
            Ok(setting) => {
                errors.extend(setting.check_as(name, text).err());
                notices.extend(setting.ignored.map(|reason| format!("{name} has no effect: {reason}")));
            }
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let config = BrokerConfig::new(values).map_err(|error| vec![error])?;
    Ok(Loaded { config, notices })
}

/// The setting that an environment variable stands for. What Kubernetes puts there for a service that is called
/// "parshall" is none.
fn setting_name(variable: &str) -> Option<String> {
    let name = variable.strip_prefix(ENVIRONMENT_PREFIX)?;
    let kubernetes = name == "PORT" || name.starts_with("PORT_") || name.starts_with("SERVICE_");
    (!kubernetes).then(|| name.to_ascii_lowercase().replace('_', "."))
}

/// Settings of a TOML file: dotted keys, quoted names and nested tables all mean the same; an array is a list.
fn toml_settings(file: &str, text: &str) -> Result<ConfigMap, ConfigError> {
    let wrong = |reason: String| ConfigError::File { file: file.to_owned(), reason };
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let place = line.map_or_else(String::new, |line| format!("line {line}: "));
        wrong(format!("{place}{}", error.message().replace('\n', " ")))
    })?;
    let mut settings = ConfigMap::new();
    flatten("", &table, &mut settings).map_err(wrong)?;
    Ok(settings)
}

fn flatten(prefix: &str, table: &toml::Table, settings: &mut ConfigMap) -> Result<(), String> {
    for (key, value) in table {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        if let toml::Value::Table(table) = value {
            flatten(&name, table, settings)?;
            continue;
        }
        let text = match value {
            toml::Value::Array(elements) => {
                elements.iter().map(|element| scalar(&name, element)).collect::<Result<Vec<_>, _>>()?.join(",")
            }
            value => scalar(&name, value)?,
        };
        if settings.insert(name.clone(), text).is_some() {
            return Err(format!("{name} is set twice"));
        }
    }
    Ok(())
}

fn scalar(name: &str, value: &toml::Value) -> Result<String, String> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Float(number) => Ok(number.to_string()),
        toml::Value::Boolean(boolean) => Ok(boolean.to_string()),
        other => Err(format!("{name} cannot be a {}", other.type_str())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn toml(text: &str) -> Option<ConfigFile> {
        Some(ConfigFile::Toml { name: "server.toml".to_owned(), text: text.to_owned() })
    }

    fn lines(sources: Sources) -> Vec<String> {
        load(sources).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn flags_over_environment_over_file() {
        let file = "num.partitions = 2\nlog.retention.hours = 2\nfetch.max.bytes = 2222\n";
        let loaded = load(Sources {
            flags: pairs(&[("num.partitions", "4")]),
            environment: pairs(&[
                ("PARSHALL_NUM_PARTITIONS", "3"),
                ("PARSHALL_LOG_RETENTION_HOURS", "3"),
                ("PARSHALL_SERVICE_HOST", "10.0.0.1"),
                ("PARSHALL_PORT_9092_TCP", "tcp://10.0.0.1:9092"),
                ("HOME", "/root"),
            ]),
            file: toml(file),
        })
        .unwrap();
        let config = loaded.config;
        assert_eq!((config.num_partitions, config.log_retention_hours, config.fetch_max_bytes), (4, 3, 2222));
    }

    #[test]
    fn toml_in_all_its_forms() {
        let text = r#"
            "num.partitions" = 3
            listeners = ["PLAINTEXT://a:1", "PLAINTEXT2://a:2"]
            "listener.security.protocol.map" = "PLAINTEXT:PLAINTEXT,PLAINTEXT2:PLAINTEXT"
            auto.create.topics.enable = false
            [log]
            dirs = "/data"
            retention.ms = 1000
            [log.cleaner]
            min.cleanable.ratio = 0.25
        "#;
        let config = load(Sources { file: toml(text), ..Sources::default() }).unwrap().config;
        assert_eq!((config.num_partitions, config.auto_create_topics_enable), (3, false));
        assert_eq!((config.log_retention_ms, config.log_cleaner_min_cleanable_ratio), (Some(1000), 0.25));
        assert_eq!((config.data_dirs().to_vec(), config.listeners.len()), (vec!["/data".to_owned()], 2));
    }

    #[test]
    fn every_error_is_found_at_once() {
        let text = "num.partitions = 0\nlog.retentoin.ms = 1\nnum.io.threads = 8\n";
        assert_eq!(
            lines(Sources { file: toml(text), ..Sources::default() }),
            [
                "Unknown broker config name: log.retentoin.ms (did you mean log.retention.ms?)",
                "Invalid value 0 for configuration num.partitions: Value must be at least 1",
            ]
        );
        let environment = pairs(&[("PARSHALL_NUM_PARTITION", "1")]);
        assert_eq!(
            lines(Sources { environment, ..Sources::default() }),
            ["Unknown broker config name: num.partition (did you mean num.partitions?)"]
        );
    }

    #[test]
    fn a_file_that_is_not_toml_is_one_line() {
        for (text, line) in [
            ("a = 1\nb = = 2", "server.toml: line 2: "),
            ("\"log.dirs\" = \"a\"\nlog.dirs = \"b\"", "server.toml: log.dirs is set twice"),
            ("num.partitions = 1979-05-27", "server.toml: num.partitions cannot be a datetime"),
        ] {
            let lines = lines(Sources { file: toml(text), ..Sources::default() });
            assert!(lines.len() == 1 && lines[0].starts_with(line) && !lines[0].contains('\n'), "{lines:?}");
        }
    }

    #[test]
    fn what_changes_nothing_is_said() {
        let loaded = load(Sources { flags: pairs(&[("num.network.threads", "3")]), ..Sources::default() }).unwrap();
        assert_eq!(loaded.notices, ["num.network.threads has no effect: work is not bound to pools of threads"]);
    }
}
