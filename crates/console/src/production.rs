//! Many records that are made from templates and produced one after the other, while a page shows how far it is.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Acks, Client, ClientConfig, ClientError, Delivered, Delivery, Producer, ProducerConfig, ProducerRecord};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use wire::compress::Codec;

use crate::format::now_ms;
use crate::record_template::Template;

/// Under way at a time, of all clusters.
const RUNNING_MAX: usize = 4;
/// That are remembered.
const PRODUCTIONS_MAX: usize = 50;
/// How long a batch is tried.
const DEADLINE: Duration = Duration::from_secs(10);

/// What each record is made of.
#[derive(Clone, Debug)]
pub(crate) struct RecordTemplate {
    pub partition: Option<i32>,
    pub key: Option<Template>,
    pub value: Option<Template>,
    pub headers: Vec<(Bytes, Template)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub record: RecordTemplate,
    pub compression: Codec,
    pub count: u32,
    /// Records per second; as fast as it goes without.
    pub rate: Option<u32>,
}

/// What became of the records so far.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub began: Instant,
    pub ended: Option<Instant>,
    /// By partition: how many are written, and the first and the last offset, where the broker told them.
    pub written: BTreeMap<i32, Written>,
    pub failed: u32,
    /// Why the first of them has failed, or it could not begin.
    pub error: Option<String>,
    pub is_stopped: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub records: u32,
    pub offsets: Option<(i64, i64)>,
}

pub(crate) struct Production {
    pub id: u64,
    pub cluster: String,
    pub topic: String,
    pub order: Order,
    progress: Mutex<Progress>,
    stop: Notify,
}

/// Those that the console knows of.
#[derive(Default)]
pub(crate) struct Productions {
    known: Mutex<VecDeque<Arc<Production>>>,
}

impl Productions {
    /// Begins one. `None` if too many are under way.
    pub(crate) fn start(&self, client: &Client, cluster: &str, topic: &str, order: Order) -> Option<Arc<Production>> {
        let mut known = self.known.lock();
        if known.iter().filter(|production| production.is_running()).count() >= RUNNING_MAX {
            return None;
        }
        if known.len() >= PRODUCTIONS_MAX
            && let Some(oldest) = known.iter().position(|production| !production.is_running())
        {
            known.remove(oldest);
        }
        let production = Arc::new(Production {
            id: known.back().map_or(1, |last| last.id + 1),
            cluster: cluster.to_owned(),
            topic: topic.to_owned(),
            order,
            progress: Mutex::new(Progress {
                began: Instant::now(),
                ended: None,
                written: BTreeMap::new(),
                failed: 0,
                error: None,
                is_stopped: false,
            }),
            stop: Notify::new(),
        });
        known.push_back(Arc::clone(&production));
        let client = Client::new(ClientConfig { deadline: DEADLINE, ..client.config().clone() });
        tokio::spawn(Arc::clone(&production).run(client));
        Some(production)
    }

    pub(crate) fn find(&self, cluster: &str, topic: &str, id: u64) -> Option<Arc<Production>> {
        let known = self.known.lock();
        let is_it = |of: &&Arc<Production>| of.id == id && of.cluster == cluster && of.topic == topic;
        known.iter().find(is_it).cloned()
    }

    /// Of a topic, the newest first.
    pub(crate) fn of_topic(&self, cluster: &str, topic: &str) -> Vec<Arc<Production>> {
        let known = self.known.lock();
        known.iter().rev().filter(|of| of.cluster == cluster && of.topic == topic).cloned().collect()
    }
}

impl Production {
    fn progress_mut(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress_mut().clone()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.progress_mut().ended.is_none()
    }

    /// What was sent is waited for, and no more is.
    pub(crate) fn stop(&self) {
        let mut progress = self.progress_mut();
        progress.is_stopped |= progress.ended.is_none();
        drop(progress);
        self.stop.notify_one();
    }

    async fn run(self: Arc<Self>, client: Client) {
        if let Err(error) = self.produce(client).await {
            self.progress_mut().error.get_or_insert(error.to_string());
        }
        self.progress_mut().ended = Some(Instant::now());
    }

    async fn produce(&self, client: Client) -> Result<(), ClientError> {
        let Order { record, compression, count, rate } = &self.order;
        let config = ProducerConfig { acks: Acks::All, compression: *compression, ..ProducerConfig::default() };
        let producer = Producer::start(client, &self.topic, config).await?;
        let mut deliveries = FuturesUnordered::<Delivery>::new();
        let began = Instant::now();
        for number in 1..=*count {
            let due = began + rate.map_or(Duration::ZERO, |rate| Duration::from_secs(1) * (number - 1) / rate);
            loop {
                tokio::select! {
                    biased;
                    Some(delivered) = deliveries.next() => self.note(delivered),
                    () = self.stop.notified() => break,
                    () = sleep_until(due) => break,
                }
            }
            // What fails once fails again.
            let is_over = {
                let progress = self.progress_mut();
                progress.is_stopped || progress.failed > 0
            };
            if is_over {
                break;
            }
            deliveries.push(producer.send(record.fill_in(number)).await?);
        }
        producer.close().await;
        while let Some(delivered) = deliveries.next().await {
            self.note(delivered);
        }
        Ok(())
    }

    fn note(&self, delivered: Result<Delivered, ClientError>) {
        let mut progress = self.progress_mut();
        match delivered {
            Ok(Delivered { partition, offset }) => {
                let written = progress.written.entry(partition).or_default();
                written.records += 1;
                if offset >= 0 {
                    let (first, last) = written.offsets.unwrap_or((offset, offset));
                    written.offsets = Some((first.min(offset), last.max(offset)));
                }
            }
            Err(error) => {
                progress.failed += 1;
                progress.error.get_or_insert(error.to_string());
            }
        }
    }
}

impl RecordTemplate {
    fn fill_in(&self, number: u32) -> ProducerRecord {
        let now_ms = now_ms();
        let filled_in = |template: &Template| Bytes::from(template.fill_in(number, now_ms));
        ProducerRecord {
            partition: self.partition,
            timestamp: now_ms,
            key: self.key.as_ref().map(filled_in),
            value: self.value.as_ref().map(filled_in),
            headers: self.headers.iter().map(|(name, value)| (name.clone(), Some(filled_in(value)))).collect(),
        }
    }
}

impl Progress {
    pub(crate) fn records(&self) -> u32 {
        self.written.values().map(|written| written.records).sum()
    }

    pub(crate) fn took(&self) -> Duration {
        self.ended.unwrap_or_else(Instant::now) - self.began
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        let value = Some(Template::parse("{{i}}").unwrap());
        let record = RecordTemplate { partition: None, key: None, value, headers: Vec::new() };
        Order { record, compression: Codec::None, count: 3, rate: None }
    }

    /// Of a cluster that nobody listens for.
    fn client() -> Client {
        Client::new(ClientConfig::new(vec!["127.0.0.1:1".to_owned()]))
    }

    #[test]
    fn records_are_counted_by_partition() {
        let productions = Productions::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let production = runtime.block_on(async { productions.start(&client(), "c", "t", order()).unwrap() });
        for (partition, offset) in [(0, 7), (1, 0), (0, 9), (1, -1)] {
            production.note(Ok(Delivered { partition, offset }));
        }
        production.note(Err(ClientError::ProducerClosed));
        let progress = production.progress();
        assert_eq!(progress.written[&0], Written { records: 2, offsets: Some((7, 9)) });
        assert_eq!(progress.written[&1], Written { records: 2, offsets: Some((0, 0)) });
        assert_eq!((progress.records(), progress.failed), (4, 1));
        assert_eq!(progress.error.as_deref(), Some("the producer has been closed"));
    }

    #[tokio::test]
    async fn few_are_under_way_and_some_are_remembered() {
        let productions = Productions::default();
        let start = || productions.start(&client(), "c", "t", order());
        let running: Vec<_> = (0..RUNNING_MAX).map(|_| start().unwrap()).collect();
        assert!(start().is_none());
        let end = |production: &Production| production.progress_mut().ended = Some(Instant::now());
        running.iter().for_each(|production| end(production));
        for _ in 0..PRODUCTIONS_MAX {
            end(&start().unwrap());
        }
        let known = productions.of_topic("c", "t");
        assert_eq!((known.len(), known[0].id), (PRODUCTIONS_MAX, (RUNNING_MAX + PRODUCTIONS_MAX) as u64));
        assert!(productions.find("c", "t", 1).is_none() && productions.find("c", "t", known[0].id).is_some());
        assert!(productions.find("other", "t", known[0].id).is_none());
    }
}
