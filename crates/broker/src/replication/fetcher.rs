//! The loop that fetches from one leader: one connection, one request at a time, over all partitions that this node
//! follows from there.
//!
//! What the leader wants synced by an answer is on disk before the next request says so; the syncs of all its
//! partitions run at the same time. Small answers are appended by this task itself, as connections append what
//! producers send: handing them to another thread costs more than the write. Large ones, answers that truncate logs,
//! and all that come while too many threads write, go to the blocking pool.
//!
//! A request that is parked at the leader would keep partitions waiting that are to be followed from now on, so it is
//! given up for them, not too often, by connecting anew.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use client::{Connection, ConnectionError};
use configuration::BrokerConfig;
use metadata::MetadataCache;
use parking_lot::Mutex;
use platform::Env;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use wire::ErrorCode;
use wire::api::Request;
use wire::api::fetch::{FetchRequest, FetchResponse};

use super::Key;
use super::follow::{AnswerError, BACKOFF_MAX_MS, BACKOFF_MIN_MS, Follow, Limits};
use crate::partition::{InlineAppends, Partition, ProduceCompletion, Quota};
use crate::stream::Dialer;
use crate::threads::spawn_blocking;

/// How long the leader may take for an answer, besides what it may wait for records.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Answers with fewer bytes of records are appended by the fetcher's own task.
const INLINE_BYTES_MAX: usize = 128 * 1024;
/// A parked request is given up for new partitions at most this often.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(100);

/// The partitions of a fetcher, as the metadata changes them.
pub(super) struct Assigned {
    partitions: Mutex<BTreeMap<Key, Arc<Partition>>>,
    added: watch::Sender<()>,
}

impl Default for Assigned {
    fn default() -> Self {
        Self { partitions: Mutex::default(), added: watch::Sender::new(()) }
    }
}

impl Assigned {
    pub(super) fn insert(&self, key: Key, partition: Arc<Partition>) {
        let before = self.partitions.lock().insert(key, partition);
        // That a known one has another epoch is the leader's to notice, who answers what is parked.
        if before.is_none() {
            self.added.send_replace(());
        }
    }

    pub(super) fn remove(&self, key: &Key) {
        self.partitions.lock().remove(key);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.partitions.lock().is_empty()
    }
}

pub(super) struct Fetcher {
    leader: i32,
    env: Env,
    dialer: Dialer,
    config: Arc<ArcSwap<BrokerConfig>>,
    metadata: Arc<MetadataCache>,
    quota: Arc<Quota>,
    inline_appends: Arc<InlineAppends>,
    assigned: Arc<Assigned>,
    added: watch::Receiver<()>,
    interrupted: Option<Instant>,
}

/// Why a connection is not used any more.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("{0}")]
    Connection(#[from] ConnectionError),
    #[error("{0}")]
    Answer(AnswerError),
    #[error("the leader is not registered, or not with an address for brokers")]
    NoAddress,
    #[error("a task that appended what was fetched ended")]
    Panicked,
    /// Other partitions are to be fetched too.
    #[error("given up for new partitions")]
    Interrupted,
}

impl Fetcher {
    pub(super) fn new(
        (leader, dialer): (i32, Dialer),
        env: Env,
        config: Arc<ArcSwap<BrokerConfig>>,
        metadata: Arc<MetadataCache>,
        quota: Arc<Quota>,
        inline_appends: Arc<InlineAppends>,
        assigned: Arc<Assigned>,
    ) -> Self {
        let added = assigned.added.subscribe();
        Self { leader, env, dialer, config, metadata, quota, inline_appends, assigned, added, interrupted: None }
    }

    /// Fetches until the task is aborted.
    pub(super) async fn run(mut self) {
        let (node_id, limits) = {
            let config = self.config.load();
            (config.node_id, Limits::new(&config))
        };
        let quota = Arc::clone(&self.quota);
        let begin = || Follow::new(node_id, limits).throttled_by(Arc::clone(&quota));
        let mut follow = Some(begin());
        let mut backoff_ms = 0;
        loop {
            let mut works = false;
            let ended = self.fetch_over_one_connection(&mut follow, limits, &mut works).await;
            if let Ended::Interrupted = ended {
                continue;
            }
            backoff_ms = if works { BACKOFF_MIN_MS } else { (2 * backoff_ms).clamp(BACKOFF_MIN_MS, BACKOFF_MAX_MS) };
            tracing::debug!(leader = self.leader, backoff_ms, error = %ended, "cannot fetch from a leader for now");
            sleep(Duration::from_millis(backoff_ms as u64)).await;
            // What a task that ended took with it is assigned anew.
            follow.get_or_insert_with(begin);
        }
    }

    async fn fetch_over_one_connection(
        &mut self,
        follow: &mut Option<Follow>,
        limits: Limits,
        works: &mut bool,
    ) -> Ended {
        let connection = match self.connect().await {
            Ok(connection) => connection,
            Err(ended) => return ended,
        };
        if let Some(follow) = follow {
            follow.begin_session();
        }
        loop {
            let Some(mut state) = follow.take() else { return Ended::Panicked };
            self.added.mark_unchanged();
            state.assign(&self.assigned.partitions.lock());
            let Some(request) = state.request(&self.metadata.load(), self.now_ms()) else {
                self.wait_for_work(&state).await;
                *follow = Some(state);
                continue;
            };
            let answer = self.ask(&connection, &request, limits).await;
            let (state, applied) = match answer {
                Ok(response) => match self.apply(state, response).await {
                    Some(applied) => applied,
                    None => return Ended::Panicked,
                },
                Err(ended) => {
                    *follow = Some(state);
                    return ended;
                }
            };
            *follow = Some(state);
            match applied {
                Ok(to_sync) => {
                    *works = true;
                    sync(&to_sync).await;
                }
                Err(AnswerError::SessionLost) => {}
                Err(error) => return Ended::Answer(error),
            }
        }
    }

    async fn connect(&self) -> Result<Connection, Ended> {
        let address = {
            let (image, listener) = (self.metadata.load(), self.config.load().inter_broker_listener());
            let endpoint = image.broker(self.leader).and_then(|broker| broker.endpoint(&listener));
            let endpoint = endpoint.ok_or(Ended::NoAddress)?;
            configuration::address(&endpoint.host, endpoint.port)
        };
        let client_id = format!("broker-{}-follows-{}", self.config.load().node_id, self.leader);
        Ok(self.dialer.named(client_id).connect(&address, CONNECT_TIMEOUT, ANSWER_TIMEOUT).await?)
    }

    /// Sends a request and waits for its answer, or for partitions that it does not ask for.
    async fn ask(
        &mut self,
        connection: &Connection,
        request: &FetchRequest,
        limits: Limits,
    ) -> Result<FetchResponse, Ended> {
        let timeout = ANSWER_TIMEOUT + Duration::from_millis(limits.wait_max_ms.unsigned_abs().into());
        let answer = connection.start_as(request, *FetchRequest::API.versions.end(), timeout)?;
        let may_interrupt = self.interrupted.map_or_else(Instant::now, |last| last + INTERRUPT_INTERVAL);
        let interrupted = async {
            // Its sender is this fetcher's own.
            _ = self.added.changed().await;
            sleep_until(may_interrupt).await;
        };
        tokio::select! {
            biased;
            answer = answer => Ok(answer?),
            () = interrupted => {
                self.interrupted = Some(Instant::now());
                Err(Ended::Interrupted)
            }
        }
    }

    /// Appends what has arrived. The state comes back unless the thread that had it has ended.
    async fn apply(
        &self,
        mut state: Follow,
        response: FetchResponse,
    ) -> Option<(Follow, Result<Vec<Arc<Partition>>, AnswerError>)> {
        let now_ms = self.now_ms();
        if is_light(&response)
            && let Some(_permit) = self.inline_appends.begin()
        {
            let applied = state.apply(response, now_ms);
            return Some((state, applied));
        }
        let applied = spawn_blocking(move || {
            let applied = state.apply(response, now_ms);
            (state, applied)
        });
        applied.await.inspect_err(|error| tracing::error!(%error, "appending what was fetched failed")).ok()
    }

    /// Until there are other partitions, or a partition in backoff may be fetched again.
    async fn wait_for_work(&mut self, state: &Follow) {
        let now_ms = self.now_ms();
        let wait_ms = match state.next_retry_ms() {
            Some(retry_ms) => (retry_ms - now_ms).clamp(1, BACKOFF_MAX_MS),
            None if state.is_empty() => i64::MAX,
            // Roles change before this fetcher gets the change.
            None => BACKOFF_MIN_MS,
        };
        tokio::select! {
            biased;
            _ = self.added.changed() => {}
            () = sleep(Duration::from_millis(wait_ms.unsigned_abs())) => {}
        }
    }

    fn now_ms(&self) -> i64 {
        self.env.clock.now().monotonic_ms
    }
}

/// Whether an answer only appends, and little.
fn is_light(response: &FetchResponse) -> bool {
    let mut bytes = 0;
    for data in response.responses.iter().flat_map(|topic| &topic.partitions) {
        if data.error_code == ErrorCode::OFFSET_OUT_OF_RANGE || data.diverging_epoch.end_offset >= 0 {
            return false;
        }
        bytes += data.records.as_ref().map_or(0, wire::Records::len);
    }
    bytes <= INLINE_BYTES_MAX
}

/// Waits until all are on disk, or have failed.
async fn sync(partitions: &[Arc<Partition>]) {
    if partitions.is_empty() {
        return;
    }
    let completion = Arc::new(ProduceCompletion::new(partitions.len()));
    for (slot, partition) in partitions.iter().enumerate() {
        partition.sync_for_leader(&completion, slot);
    }
    poll_fn(|cx| completion.poll(cx)).await;
}
