//! Kafka's settings of a producer under the names that librdkafka has for them, and with the meaning of Kafka's.
//!
//! Two things are set that Kafka's producer does not ask for: keys go to the partitions that Kafka's producer chooses,
//! and only `batch.size` and `buffer.memory` bound a batch and the buffer, not a number of records.

use client::{Acks, ClientConfig};
use rdkafka::config::ClientConfig as LibraryConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::producer::BaseProducer;
use wire::compress::Codec;

use super::EngineError;
use crate::settings::ProducerSettings;

/// librdkafka has its statistics no more often.
const STATISTICS_INTERVAL_MS: &str = "1000";

/// Settings that are always the same.
const FIXED: [(&str, &str); 6] = [
    ("batch.num.messages", "1000000"),
    ("enable.metrics.push", "false"),
    ("log.connection.close", "false"),
    ("partitioner", "murmur2_random"),
    ("queue.buffering.max.messages", "0"),
    ("statistics.interval.ms", STATISTICS_INTERVAL_MS),
];

/// A setting: Kafka's name, librdkafka's, and its value there.
type Mapped = (&'static str, &'static str, String);

fn mapped(settings: &ProducerSettings) -> Vec<Mapped> {
    let acks = match settings.acks {
        Acks::All => "all",
        Acks::Leader => "1",
        Acks::None => "0",
    };
    let request_timeout_ms = settings.request_timeout.as_millis().to_string();
    let backoff_ms = settings.retry_backoff.as_millis();
    let mut mapped = vec![
        ("acks", "acks", acks.to_owned()),
        // 0 means the same to Kafka's: one record in a batch.
        ("batch.size", "batch.size", settings.batch_bytes.max(1).to_string()),
        ("linger.ms", "linger.ms", settings.linger.as_millis().to_string()),
        ("buffer.memory", "queue.buffering.max.kbytes", (settings.buffer_bytes / 1024).to_string()),
        (
            "max.in.flight.requests.per.connection",
            "max.in.flight.requests.per.connection",
            settings.in_flight_max.to_string(),
        ),
        ("max.request.size", "message.max.bytes", settings.request_bytes_max.to_string()),
        ("compression.type", "compression.type", settings.compression.name().to_owned()),
        ("enable.idempotence", "enable.idempotence", settings.is_idempotent().unwrap_or(false).to_string()),
        ("retries", "message.send.max.retries", settings.retries_max.to_string()),
        ("retry.backoff.ms", "retry.backoff.ms", backoff_ms.to_string()),
        ("retry.backoff.ms", "retry.backoff.max.ms", backoff_ms.max(1000).to_string()),
        // How long the broker may take, and how long the client waits.
        ("request.timeout.ms", "request.timeout.ms", request_timeout_ms.clone()),
        ("request.timeout.ms", "socket.timeout.ms", request_timeout_ms),
        // 0 would be without end.
        ("delivery.timeout.ms", "message.timeout.ms", settings.delivery_timeout.as_millis().max(1).to_string()),
    ];
    if let (Codec::Lz4, Some(level)) = (settings.compression, settings.compression_level) {
        mapped.push(("compression.lz4.level", "compression.level", level.to_string()));
    }
    mapped
}

fn of(mapped: &[Mapped]) -> LibraryConfig {
    let mut config = LibraryConfig::new();
    let fixed = FIXED.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    config.extend(fixed.chain(mapped.iter().map(|(_, name, value)| ((*name).to_owned(), value.clone()))));
    config.set_log_level(RDKafkaLogLevel::Warning);
    config
}

/// For a producer that connects where and as `client` does.
pub(super) fn with_servers(settings: &ProducerSettings, client: &ClientConfig) -> LibraryConfig {
    let mut config = of(&mapped(settings));
    config.set("bootstrap.servers", client.bootstrap_servers.join(","));
    config.set("client.id", &client.connection.client_id);
    config
}

/// What librdkafka takes only it knows: a producer is made of the settings, which connects to nothing.
pub(super) fn check(settings: &ProducerSettings) -> Result<(), EngineError> {
    let mapped = mapped(settings);
    let Err(error) = of(&mapped).create::<BaseProducer>() else { return Ok(()) };
    let (settings, reason) = match error {
        KafkaError::ClientConfig(_, reason, key, _) => {
            let name = mapped.iter().find(|(_, name, _)| *name == key).map(|(name, ..)| *name);
            (name.unwrap_or(&key).to_owned(), reason)
        }
        KafkaError::ClientCreation(reason) => {
            let quoted = |name: &str| format!("`{name}`");
            let say = |reason: String, (name, key, _): &Mapped| reason.replace(&quoted(key), &quoted(name));
            ("these settings".to_owned(), mapped.iter().fold(reason, say))
        }
        error => return Err(EngineError::Library(error.to_string())),
    };
    Err(EngineError::Settings { settings, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> ProducerSettings {
        let mut settings = ProducerSettings::default();
        pairs.iter().for_each(|(name, value)| settings.set(name, value).unwrap());
        settings
    }

    #[test]
    fn kafkas_settings_have_librdkafkas_names() {
        let settings = settings(&[
            ("acks", "all"),
            ("batch.size", "0"),
            ("buffer.memory", "67108864"),
            ("compression.type", "lz4"),
            ("compression.lz4.level", "3"),
            ("delivery.timeout.ms", "9000"),
            ("linger.ms", "7"),
            ("max.in.flight.requests.per.connection", "2"),
            ("max.request.size", "2000000"),
            ("request.timeout.ms", "8000"),
            ("retries", "4"),
        ]);
        check(&settings).unwrap();
        let client = ClientConfig::new(vec!["a:1".to_owned(), "b:2".to_owned()]);
        let config = with_servers(&settings, &client);
        for (name, value) in [
            ("acks", "all"),
            ("batch.size", "1"),
            ("bootstrap.servers", "a:1,b:2"),
            ("compression.level", "3"),
            ("compression.type", "lz4"),
            ("enable.idempotence", "true"),
            ("linger.ms", "7"),
            ("max.in.flight.requests.per.connection", "2"),
            ("message.max.bytes", "2000000"),
            ("message.send.max.retries", "4"),
            ("message.timeout.ms", "9000"),
            ("queue.buffering.max.kbytes", "65536"),
            ("request.timeout.ms", "8000"),
        ] {
            assert_eq!(config.get(name), Some(value), "{name}");
        }
    }

    #[test]
    fn a_setting_that_librdkafka_does_not_take_is_named_as_kafka_does() {
        for (pairs, expected) in [
            (&[("buffer.memory", "1000")][..], "engine librdkafka does not take buffer.memory: "),
            (&[("max.request.size", "100")], "engine librdkafka does not take max.request.size: "),
            (&[("compression.type", "gzip")], "engine librdkafka does not take compression.type: "),
            (&[("compression.type", "zstd")], "engine librdkafka does not take compression.type: "),
            (
                &[("compression.type", "lz4"), ("compression.lz4.level", "17")],
                "engine librdkafka does not take compression.lz4.level: ",
            ),
            (
                &[("linger.ms", "9000"), ("delivery.timeout.ms", "100")],
                "engine librdkafka does not take these settings: `delivery.timeout.ms` must be greater than `linger.ms`",
            ),
        ] {
            let error = check(&settings(pairs)).unwrap_err().to_string();
            assert!(error.contains(expected) && error.lines().count() == 1, "{error}");
        }
    }
}
