//! The settings of producers and consumers, by the names and with the meaning that Kafka's own clients give them
//! (`ProducerConfig`, `ConsumerConfig`).

use std::time::Duration;

use client::{Acks, Client, ClientError, ConsumerConfig, GroupConfig, ResetOffset, Transactions};
use wire::compress::Codec;

/// Settings of Kafka's clients that mean nothing to a load generator, or that only a JVM can follow.
const IGNORED: &[&str] = &[
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "auto.include.jmx.reporter",
    "check.crcs",
    "client.dns.lookup",
    "connections.max.idle.ms",
    "enable.auto.commit",
    "enable.metrics.push",
    "group.protocol",
    "interceptor.classes",
    "key.deserializer",
    "key.serializer",
    "max.poll.interval.ms",
    "max.poll.records",
    "metadata.max.age.ms",
    "metadata.max.idle.ms",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "partition.assignment.strategy",
    "partitioner.class",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "send.buffer.bytes",
    "value.deserializer",
    "value.serializer",
];
/// With more requests in flight an idempotent producer could not keep its order.
const IDEMPOTENT_IN_FLIGHT_MAX: usize = 5;

/// How a producer gathers and sends. The defaults are those of Kafka 4.
#[derive(Clone, Debug, PartialEq)]
pub struct ProducerSettings {
    pub acks: Acks,
    /// `batch.size`: a batch is sent when the next record would make it larger.
    pub batch_bytes: usize,
    /// `linger.ms`: how long a batch that is not full waits for more.
    pub linger: Duration,
    /// `buffer.memory`: batches that are gathered or under way; a record beyond waits.
    pub buffer_bytes: usize,
    /// `max.in.flight.requests.per.connection`.
    pub in_flight_max: usize,
    /// `max.request.size`: what one request may carry, and the largest record.
    pub request_bytes_max: usize,
    pub compression: Codec,
    /// `compression.<type>.level`, by codec.
    pub compression_level: Option<i32>,
    /// `enable.idempotence`; where it is not set, as far as acks and the requests in flight allow.
    pub idempotence: Option<bool>,
    /// `retries`.
    pub retries_max: u32,
    /// `retry.backoff.ms`.
    pub retry_backoff: Duration,
    /// `request.timeout.ms`.
    pub request_timeout: Duration,
    /// `delivery.timeout.ms`: from when a batch was begun until it has failed.
    pub delivery_timeout: Duration,
    /// `max.block.ms`: how long the first look for the topic may take.
    pub block_max: Duration,
    /// `transactional.id`: records are sent in transactions.
    pub transactional_id: Option<String>,
    /// `transaction.timeout.ms`: the coordinator aborts a transaction that is open for so long.
    pub transaction_timeout: Duration,
    pub client_id: Option<String>,
}

impl Default for ProducerSettings {
    fn default() -> Self {
        Self {
            acks: Acks::All,
            batch_bytes: 16_384,
            linger: Duration::from_millis(5),
            buffer_bytes: 32 * 1024 * 1024,
            in_flight_max: 5,
            request_bytes_max: 1024 * 1024,
            compression: Codec::None,
            compression_level: None,
            idempotence: None,
            retries_max: i32::MAX as u32,
            retry_backoff: Duration::from_millis(100),
            request_timeout: Duration::from_secs(30),
            delivery_timeout: Duration::from_secs(120),
            block_max: Duration::from_secs(60),
            transactional_id: None,
            transaction_timeout: Duration::from_secs(60),
            client_id: None,
        }
    }
}

/// Why a setting was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    #[error("{name} is {value:?}; it takes {takes}")]
    Value { name: String, value: String, takes: &'static str },
    #[error("{name} means nothing to a load generator and is left out")]
    Ignored { name: String },
    #[error("{name} is no setting of Kafka's client")]
    Unknown { name: String },
    #[error("enable.idempotence needs acks=all and at most 5 requests in flight")]
    Idempotence,
    #[error("transactional.id needs idempotence: acks=all and at most 5 requests in flight")]
    Transaction,
}

impl SettingError {
    /// Whether Kafka's client would go on, with a warning in its log at most.
    pub fn is_harmless(&self) -> bool {
        matches!(self, Self::Ignored { .. } | Self::Unknown { .. })
    }
}

impl ProducerSettings {
    /// Sets what Kafka's producer calls `name`.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let text = Text { name, value: value.trim() };
        let Text { value, .. } = text;
        match name {
            "acks" => {
                self.acks = match value {
                    "all" | "-1" => Acks::All,
                    "1" => Acks::Leader,
                    "0" => Acks::None,
                    _ => return Err(text.wrong("all, 1 or 0")),
                };
            }
            "batch.size" => self.batch_bytes = text.bytes(0)?,
            "linger.ms" => self.linger = text.millis()?,
            "buffer.memory" => self.buffer_bytes = text.bytes(0)?,
            "max.in.flight.requests.per.connection" => {
                self.in_flight_max = text.number(1, "a number from 1 on")? as usize;
            }
            "max.request.size" => self.request_bytes_max = text.bytes(1)?,
            "compression.type" => {
                self.compression = value.parse().map_err(|_| text.wrong("none, gzip, snappy, lz4 or zstd"))?;
            }
            "compression.gzip.level" | "compression.lz4.level" | "compression.zstd.level" => {
                self.compression_level = Some(value.parse().map_err(|_| text.wrong("a number"))?);
            }
            "enable.idempotence" => {
                self.idempotence = Some(value.parse().map_err(|_| text.wrong("true or false"))?);
            }
            "retries" => self.retries_max = text.number(0, "a number")?.min(i32::MAX as u64) as u32,
            "retry.backoff.ms" | "retry.backoff.max.ms" => {
                let backoff = text.millis()?;
                if name == "retry.backoff.ms" {
                    self.retry_backoff = backoff;
                }
            }
            "request.timeout.ms" => self.request_timeout = text.millis()?,
            "delivery.timeout.ms" => self.delivery_timeout = text.millis()?,
            "max.block.ms" => self.block_max = text.millis()?,
            "transactional.id" => self.transactional_id = Some(value.to_owned()),
            "transaction.timeout.ms" => self.transaction_timeout = text.millis()?,
            "client.id" => self.client_id = Some(value.to_owned()),
            _ => return Err(text.unused()),
        }
        Ok(())
    }

    /// Announces the producer to the transaction coordinator if it has a `transactional.id`.
    pub async fn transactions(&self, client: &Client) -> Result<Option<Transactions>, ClientError> {
        let Some(id) = &self.transactional_id else { return Ok(None) };
        Transactions::init(client.clone(), id, self.transaction_timeout).await.map(Some)
    }

    /// Whether batches carry a producer id. Unless it is asked for, idempotence gives way to settings that exclude it
    /// (`ProducerConfig.maybeOverrideEnableIdempotence`).
    pub fn is_idempotent(&self) -> Result<bool, SettingError> {
        let is_possible =
            self.acks == Acks::All && self.in_flight_max <= IDEMPOTENT_IN_FLIGHT_MAX && self.retries_max > 0;
        match self.idempotence {
            _ if self.transactional_id.is_some() && (!is_possible || self.idempotence == Some(false)) => {
                Err(SettingError::Transaction)
            }
            Some(true) if !is_possible => Err(SettingError::Idempotence),
            Some(wanted) => Ok(wanted),
            None => Ok(is_possible),
        }
    }
}

/// How a consumer fetches. The defaults are those of Kafka 4.
#[derive(Clone, Debug)]
pub struct ConsumerSettings {
    /// `fetch.min.bytes`, `fetch.max.bytes`, `fetch.max.wait.ms`, `max.partition.fetch.bytes`, `isolation.level`,
    /// `auto.offset.reset`.
    pub fetch: ConsumerConfig,
    /// `session.timeout.ms`, `heartbeat.interval.ms`.
    pub group: GroupConfig,
    /// `group.id`.
    pub group_id: Option<String>,
    pub client_id: Option<String>,
    /// `request.timeout.ms`.
    pub request_timeout: Duration,
}

impl Default for ConsumerSettings {
    fn default() -> Self {
        let fetch = ConsumerConfig {
            fetch_max_bytes: 50 * 1024 * 1024,
            reset: ResetOffset::Earliest,
            ..ConsumerConfig::default()
        };
        let request_timeout = Duration::from_secs(30);
        Self { fetch, group: GroupConfig::default(), group_id: None, client_id: None, request_timeout }
    }
}

impl ConsumerSettings {
    /// Sets what Kafka's consumer calls `name`.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let text = Text { name, value: value.trim() };
        match name {
            "fetch.min.bytes" => self.fetch.fetch_min_bytes = text.int(0)?,
            "fetch.max.bytes" => self.fetch.fetch_max_bytes = text.int(0)?,
            "fetch.max.wait.ms" => self.fetch.fetch_max_wait = text.millis()?,
            "max.partition.fetch.bytes" => self.fetch.partition_max_bytes = text.int(0)?,
            "isolation.level" => {
                let level = text.value.parse();
                self.fetch.isolation = level.map_err(|_| text.wrong("read_uncommitted or read_committed"))?;
            }
            "auto.offset.reset" => {
                self.fetch.reset = match text.value {
                    "earliest" => ResetOffset::Earliest,
                    "latest" => ResetOffset::Latest,
                    "none" => ResetOffset::Fail,
                    _ => return Err(text.wrong("earliest, latest or none")),
                };
            }
            "session.timeout.ms" => self.group.session_timeout = text.millis()?,
            "heartbeat.interval.ms" => self.group.heartbeat_interval = text.millis()?,
            "group.id" => self.group_id = Some(text.value.to_owned()),
            "client.id" => self.client_id = Some(text.value.to_owned()),
            "request.timeout.ms" => self.request_timeout = text.millis()?,
            _ => return Err(text.unused()),
        }
        Ok(())
    }
}

/// A setting as it was written.
#[derive(Clone, Copy)]
struct Text<'a> {
    name: &'a str,
    value: &'a str,
}

impl Text<'_> {
    fn wrong(self, takes: &'static str) -> SettingError {
        SettingError::Value { name: self.name.to_owned(), value: self.value.to_owned(), takes }
    }

    fn number(self, least: u64, takes: &'static str) -> Result<u64, SettingError> {
        let number = self.value.parse::<u64>().ok();
        number.filter(|&n| n >= least && n <= i64::MAX as u64).ok_or_else(|| self.wrong(takes))
    }

    fn bytes(self, least: u64) -> Result<usize, SettingError> {
        self.number(least, "a number of bytes").map(|bytes| bytes as usize)
    }

    /// What the protocol carries in 32 bits.
    fn int(self, least: u64) -> Result<i32, SettingError> {
        let takes = "a number of bytes up to 2147483647";
        i32::try_from(self.number(least, takes)?).map_err(|_| self.wrong(takes))
    }

    fn millis(self) -> Result<Duration, SettingError> {
        self.number(0, "a number of milliseconds").map(Duration::from_millis)
    }

    fn unused(self) -> SettingError {
        let name = self.name.to_owned();
        if IGNORED.contains(&self.name) { SettingError::Ignored { name } } else { SettingError::Unknown { name } }
    }
}

#[cfg(test)]
mod tests {
    use client::IsolationLevel;

    use super::*;

    #[test]
    fn kafkas_names_are_understood() {
        let mut settings = ProducerSettings::default();
        let pairs = [("acks", "1"), ("batch.size", "1024"), ("linger.ms", "0"), ("compression.type", "lz4")];
        for (name, value) in pairs {
            settings.set(name, value).unwrap();
        }
        let expected = ProducerSettings {
            acks: Acks::Leader,
            batch_bytes: 1024,
            linger: Duration::ZERO,
            compression: Codec::Lz4,
            ..ProducerSettings::default()
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn a_consumer_has_kafkas_names_too() {
        let mut settings = ConsumerSettings::default();
        for (name, value) in [
            ("max.partition.fetch.bytes", "10000"),
            ("auto.offset.reset", "latest"),
            ("group.id", "g"),
            ("isolation.level", "read_committed"),
        ] {
            settings.set(name, value).unwrap();
        }
        assert_eq!((settings.fetch.partition_max_bytes, settings.fetch.reset), (10_000, ResetOffset::Latest));
        assert_eq!(
            (settings.group_id.as_deref(), settings.fetch.isolation),
            (Some("g"), IsolationLevel::ReadCommitted)
        );
        assert!(!settings.set("fetch.max.bytes", "3000000000").unwrap_err().is_harmless());
        assert!(!settings.set("isolation.level", "serializable").unwrap_err().is_harmless());
        assert!(settings.set("batch.size", "1").unwrap_err().is_harmless());
    }

    #[test]
    fn a_wrong_value_is_said_with_what_is_right() {
        let mut settings = ProducerSettings::default();
        let error = settings.set("acks", "2").unwrap_err();
        assert_eq!(error.to_string(), "acks is \"2\"; it takes all, 1 or 0");
        for (name, value) in [("batch.size", "-1"), ("linger.ms", "x"), ("compression.type", "rar")] {
            assert!(!settings.set(name, value).unwrap_err().is_harmless(), "{name}");
        }
        assert!(settings.set("key.serializer", "x").unwrap_err().is_harmless());
        assert!(settings.set("no.such.thing", "x").unwrap_err().is_harmless());
        assert_eq!(settings, ProducerSettings::default());
    }

    #[test]
    fn idempotence_gives_way_unless_it_is_asked_for() {
        let mut settings = ProducerSettings::default();
        assert_eq!(settings.is_idempotent(), Ok(true));
        settings.set("acks", "1").unwrap();
        assert_eq!(settings.is_idempotent(), Ok(false));
        settings.set("enable.idempotence", "true").unwrap();
        assert_eq!(settings.is_idempotent(), Err(SettingError::Idempotence));
        settings.set("transactional.id", "t").unwrap();
        assert_eq!(settings.is_idempotent(), Err(SettingError::Transaction));
    }
}
