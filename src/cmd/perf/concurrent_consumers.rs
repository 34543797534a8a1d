//! Consumers beside the producers of `parshall perf produce`: they read what is written, and see how old it is by then.
//!
//! They begin where the topics end before the first record is sent: at once, and then they are there before it is, or
//! later, and then they have to catch up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use client::{Client, ClientError, LATEST, TopicPartition};
use lab::{Clock, ConsumeLoad, ConsumeStats, Consumed, ConsumerSettings, Tally, consume};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::figures::{self, Part};
use super::metrics::Metrics;
use super::{lines, properties};
use crate::cmd::args::{self, Connection};

const CLIENT_ID: &str = "perf-consumer-client";
const CONSUMERS_MAX: u64 = 10_000;
const GROUPS_MAX: u64 = 1_000;
/// How long consumers may take to find what to read.
const ASSIGN_MAX: Duration = Duration::from_secs(60);
/// How long they may read on when the producers have ended.
const DRAIN_MAX: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Consumers beside the producers")]
pub(super) struct ConsumerFlags {
    /// How many consumers each group has; they read what the producers write. 0 for none
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=CONSUMERS_MAX))]
    consumers: u64,
    /// How many groups there are, each of which reads everything; 0 for none: each consumer reads everything
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=GROUPS_MAX))]
    #[arg(requires = "consumers")]
    consumer_groups: u64,
    /// Let them start so long after the producers, from where those started: they have to catch up
    #[arg(long, value_name = "TIME", value_parser = args::duration, requires = "consumers")]
    consumers_start_after: Option<Duration>,
    /// Settings of the consumers by Kafka's names: fetch.min.bytes=100000 fetch.max.wait.ms=500 ...
    #[arg(long, value_name = "NAME=VALUE", num_args = 1.., value_parser = args::pair, requires = "consumers")]
    consumer_property: Vec<(String, String)>,
}

/// The consumers of a run.
pub(super) struct Along {
    tasks: JoinSet<Result<(), ClientError>>,
    client_id: String,
    stats: Arc<ConsumeStats>,
    stop: Arc<AtomicBool>,
    producers_are_over: watch::Sender<bool>,
    /// In how many copies each record is read.
    readers: u64,
    consumers: u64,
    start_after: Duration,
    created: Instant,
    /// From when on reading counts, since they were created.
    counts_from: Duration,
    /// What was reported of intervals already.
    shown: Consumed,
    end_to_end: Tally,
    backlog: u64,
    unread: u64,
}

impl Along {
    /// Starts the consumers, and waits until each has found what to read, unless they are to come later. `None` if
    /// there are none.
    pub(super) async fn start(
        flags: &ConsumerFlags,
        topics: &[String],
        connection: &Connection,
        clock: Clock,
    ) -> Result<Option<Self>> {
        if flags.consumers == 0 {
            return Ok(None);
        }
        let mut settings = ConsumerSettings::default();
        _ = properties::apply(&flags.consumer_property, |name, value| settings.set(name, value))?;
        let client_id = settings.client_id.clone().unwrap_or_else(|| CLIENT_ID.to_owned());
        let starts = ends(&connection.named(&client_id)?, topics).await?;
        let group = settings.group_id.clone().unwrap_or_else(|| "perf-consumer".to_owned());
        let unique = format!("{}-{}", std::process::id(), clock.now_ms());
        let (producers_are_over, over) = watch::channel(false);
        let mut along = Self {
            tasks: JoinSet::new(),
            client_id: client_id.clone(),
            stats: Arc::new(ConsumeStats::start()),
            stop: Arc::new(AtomicBool::new(false)),
            producers_are_over,
            readers: if flags.consumer_groups == 0 { flags.consumers } else { flags.consumer_groups },
            consumers: flags.consumers * flags.consumer_groups.max(1),
            start_after: flags.consumers_start_after.unwrap_or_default(),
            created: Instant::now(),
            counts_from: Duration::ZERO,
            shown: Consumed::default(),
            end_to_end: Tally::default(),
            backlog: 0,
            unread: 0,
        };
        for n in 0..along.consumers {
            let load = ConsumeLoad {
                topics: topics.to_vec(),
                group_id: (flags.consumer_groups > 0).then(|| format!("{group}-{unique}-{}", n / flags.consumers)),
                records: None,
                duration: None,
                idle_max: Duration::MAX,
                starts: starts.clone(),
                rewinds: false,
                clock: Some(clock),
                settings: settings.clone(),
            };
            let (reader, heart) = (connection.named(&client_id)?, connection.named(&client_id)?);
            let (stats, stop) = (Arc::clone(&along.stats), Arc::clone(&along.stop));
            let (start_after, mut over) = (along.start_after, over.clone());
            along.tasks.spawn(async move {
                // Those that come after the producers have ended come at once.
                _ = timeout(start_after, over.wait_for(|over| *over)).await;
                consume(reader, heart, load, &stats, &stop).await
            });
        }
        if along.start_after.is_zero() {
            along.wait_for_assignments().await?;
        }
        along.counts_from = along.created.elapsed() + along.start_after;
        Ok(Some(along))
    }

    async fn wait_for_assignments(&mut self) -> Result<()> {
        let all = async {
            while self.stats.assigned() < self.consumers {
                self.look()?;
                sleep(LOOK_INTERVAL).await;
            }
            Ok(())
        };
        let Ok(assigned) = timeout(ASSIGN_MAX, all).await else {
            bail!("the consumers have not found what to read within {} s", ASSIGN_MAX.as_secs());
        };
        assigned
    }

    /// Whether one of them has failed.
    fn look(&mut self) -> Result<()> {
        match self.tasks.try_join_next() {
            Some(done) => Ok(done.context("a consumer failed")??),
            None => Ok(()),
        }
    }

    /// A line for what has come since the last call.
    pub(super) fn csv_window(&mut self, elapsed: Duration) -> String {
        let now = self.stats.consumed();
        let new = now.since(std::mem::replace(&mut self.shown, now));
        let latency = self.stats.take_end_to_end();
        self.end_to_end.add(&latency);
        figures::csv(&Part::read("consumed window", new, elapsed, Some(&latency)))
    }

    /// Lets them read what is left of so many records, for some time unless the run was interrupted, and ends them.
    pub(super) async fn finish(&mut self, produced: u64, mut is_interrupted: bool) -> Result<()> {
        let over = Instant::now();
        self.counts_from = self.counts_from.min(self.created.elapsed());
        _ = self.producers_are_over.send(true);
        let wanted = produced * self.readers;
        let unread = |stats: &ConsumeStats| wanted.saturating_sub(stats.consumed().records);
        self.backlog = unread(&self.stats);
        while unread(&self.stats) > 0 && over.elapsed() < DRAIN_MAX && !is_interrupted {
            self.look()?;
            is_interrupted = timeout(LOOK_INTERVAL, tokio::signal::ctrl_c()).await.is_ok();
        }
        self.unread = unread(&self.stats);
        self.stop.store(true, Ordering::Relaxed);
        while let Some(done) = self.tasks.join_next().await {
            done.context("a consumer failed")??;
        }
        let latency = self.stats.take_end_to_end();
        self.end_to_end.add(&latency);
        Ok(())
    }

    /// How many records nobody has read in time.
    pub(super) fn unread(&self) -> u64 {
        self.unread
    }

    fn total(&self) -> (Consumed, Duration) {
        let mut consumed = self.stats.consumed();
        if self.start_after.is_zero() {
            // They had agreed before the clock started.
            consumed.joining = Duration::ZERO;
        }
        (consumed, self.stats.elapsed().saturating_sub(self.counts_from))
    }

    /// Of all that was fetched, also before the producers started.
    pub(super) fn add_metrics(&self, metrics: &mut Metrics) {
        let (consumed, elapsed) = self.total();
        metrics.add_consumers(&self.client_id, self.stats.fetches(), consumed, elapsed);
    }

    pub(super) fn part(&self) -> Part<'_> {
        let (consumed, elapsed) = self.total();
        Part::read("consumed", consumed, elapsed, Some(&self.end_to_end))
    }

    /// What Kafka's consumer tool prints.
    pub(super) fn lines(&self, started_wall_ms: i64) -> String {
        let (consumed, elapsed) = self.total();
        let started_ms = started_wall_ms + self.start_after.as_millis() as i64;
        lines::consumer_header(false).to_owned() + &lines::consumer_total(started_ms, consumed, elapsed)
    }

    pub(super) fn json(&self) -> Value {
        let mut object = figures::json(&self.part().without_latency());
        let quantile = |quantile| lines::ms(self.end_to_end.quantile_us(quantile));
        object["end_to_end_latency_ms"] = json!({
            "mean": self.end_to_end.mean_us() / 1000.0,
            "p50": quantile(0.5),
            "p95": quantile(0.95),
            "p99": quantile(0.99),
            "p99_9": quantile(0.999),
            "max": lines::ms(self.end_to_end.max_us()),
        });
        object["consumers"] = self.consumers.into();
        object["readers_of_each_record"] = self.readers.into();
        object["backlog_records"] = self.backlog.into();
        object["unread_records"] = self.unread.into();
        object
    }
}

/// Where all partitions of these topics end. The broker may create the topics, as for producers.
async fn ends(client: &Client, topics: &[String]) -> Result<BTreeMap<TopicPartition, i64>, ClientError> {
    let mut wanted = BTreeMap::new();
    for topic in topics {
        let metadata = client.existing_or_created(&[topic]).await?;
        let partitions = metadata.topic(topic)?.partitions.iter();
        wanted.extend(partitions.map(|partition| (TopicPartition::new(topic.clone(), partition.index), LATEST)));
    }
    let listed = client.list_offsets(&wanted).await?;
    Ok(listed.into_iter().map(|(partition, listed)| (partition, listed.offset)).collect())
}
