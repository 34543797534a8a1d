//! The metrics of this broker, sent to others each interval: StatsD, Graphite, OTLP (the settings `metrics.push.*`).
//!
//! Each receiver has a task of its own, which reads the page that scrapers read. One that is away is told of once, and
//! misses what was to be sent meanwhile: nothing is queued.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use broker::Metrics;
use configuration::BrokerConfig;
use openmetrics::Exposition;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::cmd::failure::Usage;
use crate::cmd::time;

mod graphite;
mod otlp;
mod otlp_messages;
mod statsd;

/// How long a receiver may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who sends, and what stands in front of the names.
#[derive(Clone, Debug)]
struct Source {
    node_id: i32,
    prefix: String,
}

impl Source {
    fn prefix(&self) -> String {
        if self.prefix.is_empty() { String::new() } else { format!("{}.", self.prefix) }
    }
}

/// Where metrics go.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Receiver {
    Statsd(String),
    Graphite(String),
    Otlp(String),
}

/// What is to be sent, and to whom.
pub(crate) struct Push {
    source: Source,
    interval: Duration,
    receivers: Vec<Receiver>,
}

impl Push {
    pub(crate) fn new(config: &BrokerConfig) -> Result<Self> {
        let mut receivers = Vec::new();
        if let Some(address) = &config.metrics_push_statsd {
            receivers.push(Receiver::Statsd(host_and_port("metrics.push.statsd", address)?));
        }
        if let Some(address) = &config.metrics_push_graphite {
            receivers.push(Receiver::Graphite(host_and_port("metrics.push.graphite", address)?));
        }
        if let Some(url) = &config.metrics_push_otlp {
            if !url.starts_with("http://") {
                bail!(Usage(format!("metrics.push.otlp is {url:?}; it takes http://HOST:4318/v1/metrics")));
            }
            receivers.push(Receiver::Otlp(url.clone()));
        }
        Ok(Self {
            source: Source { node_id: config.node_id, prefix: config.metrics_push_prefix.clone() },
            interval: Duration::from_millis(config.metrics_push_interval_ms.unsigned_abs()),
            receivers,
        })
    }

    /// Sends until the process ends, or the broker that `metrics` is about has stopped.
    pub(crate) fn start(self, metrics: Metrics) {
        let metrics = Arc::new(metrics);
        for receiver in self.receivers {
            let line = Line { receiver, source: self.source.clone(), sent: statsd::Sent::default() };
            tokio::spawn(line.run(Arc::clone(&metrics), self.interval));
        }
    }
}

fn host_and_port(name: &str, address: &str) -> Result<String> {
    let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(_)) => Ok(address.to_owned()),
        _ => bail!(Usage(format!("{name} is {address:?}; it takes HOST:PORT"))),
    }
}

/// The way to one receiver.
struct Line {
    receiver: Receiver,
    source: Source,
    sent: statsd::Sent,
}

impl Line {
    async fn run(mut self, metrics: Arc<Metrics>, every: Duration) {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut failed = 0u64;
        loop {
            ticks.tick().await;
            let outcome = match timeout(PATIENCE, self.push(&metrics)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(anyhow::anyhow!("it took longer than {} s", PATIENCE.as_secs())),
            };
            match outcome {
                Ok(()) if failed > 0 => {
                    tracing::info!(receiver = %self.receiver, missed = failed, "metrics are sent again");
                    failed = 0;
                }
                Ok(()) => {}
                Err(error) => {
                    if failed == 0 {
                        let error = format!("{error:#}");
                        tracing::warn!(receiver = %self.receiver, error, "metrics cannot be sent for now");
                    }
                    failed += 1;
                }
            }
        }
    }

    async fn push(&mut self, metrics: &Arc<Metrics>) -> Result<()> {
        let asked = Arc::clone(metrics);
        let families =
            spawn_blocking(move || Exposition::new(asked.text()).families()).await.context("the page was not made")?;
        let now_ms = time::now_ms();
        match &self.receiver {
            Receiver::Statsd(address) => Ok(self.sent.push(address, &families, &self.source).await?),
            Receiver::Graphite(address) => Ok(graphite::push(address, &families, &self.source, now_ms).await?),
            Receiver::Otlp(url) => {
                let (url, source) = (url.clone(), self.source.clone());
                let sent = spawn_blocking(move || otlp::push(&url, &families, &source, now_ms, PATIENCE));
                Ok(sent.await.context("the request was not made")??)
            }
        }
    }
}

impl Display for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Statsd(address) => write!(f, "StatsD at {address}"),
            Self::Graphite(address) => write!(f, "Graphite at {address}"),
            Self::Otlp(url) => write!(f, "OTLP at {url}"),
        }
    }
}
