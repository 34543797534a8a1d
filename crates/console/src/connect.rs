//! Clusters of Kafka Connect that belong to a cluster: their connectors as they were last seen, and how old that is.
//!
//! Each is looked at by a task of its own, so that one that does not answer keeps neither a page nor another waiting.

mod rest;
mod secrets;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use crate::http_source::{HttpSource, HttpUrl};

pub(crate) use rest::{Action, ConfigErrors, Offset, Rest, RestError};
pub(crate) use secrets::{HIDDEN, is_secret, without_secrets};

/// Who has changed something waits so long to see it.
pub(crate) const FRESH_PATIENCE: Duration = Duration::from_secs(5);

/// Configs of a connector, by their names.
pub(crate) type Config = BTreeMap<String, Option<String>>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Connector {
    /// `source` or `sink`.
    pub kind: String,
    pub state: String,
    /// Where it runs.
    pub worker: String,
    /// Why it has failed.
    pub trace: String,
    pub tasks: Vec<Task>,
    pub config: Config,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Task {
    pub id: i32,
    pub state: String,
    pub worker: String,
    pub trace: String,
}

impl Task {
    pub(crate) fn has_failed(&self) -> bool {
        self.state == FAILED
    }
}

const FAILED: &str = "FAILED";

impl Connector {
    /// One that no worker has taken yet.
    pub(crate) fn unassigned(config: Config) -> Self {
        Self { state: "UNASSIGNED".to_owned(), config, ..Self::default() }
    }

    /// Whether it has failed itself, whatever its tasks do.
    pub(crate) fn has_failed(&self) -> bool {
        self.state == FAILED
    }

    pub(crate) fn tasks_failed(&self) -> usize {
        self.tasks.iter().filter(|task| task.has_failed()).count()
    }

    pub(crate) fn tasks_running(&self) -> usize {
        self.tasks.iter().filter(|task| task.state == "RUNNING").count()
    }

    /// Its class without the package.
    pub(crate) fn class(&self) -> &str {
        let class = self.config.get("connector.class").and_then(Option::as_deref).unwrap_or_default();
        class.rsplit('.').next().unwrap_or_default()
    }

    /// Which topics it is configured for.
    pub(crate) fn topics(&self) -> &str {
        let names = ["topics", "topics.regex", "topic", "topic.prefix"];
        names.iter().find_map(|name| self.config.get(*name)?.as_deref()).unwrap_or_default()
    }
}

/// A Connect cluster as far as it is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connectors {
    /// Of the Connect cluster.
    pub name: String,
    /// Of the worker that is asked.
    pub version: String,
    /// When the newest answer was asked for.
    pub at: Option<Instant>,
    pub connectors: Arc<BTreeMap<String, Connector>>,
    /// Since when it has not answered, and why.
    pub trouble: Option<(Instant, String)>,
}

#[derive(Default)]
struct Seen {
    /// When the last look that has ended began.
    last: Option<Instant>,
    known: Connectors,
}

pub(crate) struct Connect {
    pub name: String,
    pub rest: Rest,
    seen: watch::Sender<Seen>,
    /// Wakes who looks at it.
    wanted: Notify,
}

impl Connect {
    pub(crate) fn new(url: HttpUrl) -> Arc<Self> {
        let name = url.to_string();
        let known = Connectors { name: name.clone(), ..Connectors::default() };
        Arc::new(Self {
            rest: Rest::new(HttpSource::new(url)),
            name,
            seen: watch::Sender::new(Seen { last: None, known }),
            wanted: Notify::new(),
        })
    }

    pub(crate) fn known(&self) -> Connectors {
        self.seen.borrow().known.clone()
    }

    /// Has it looked at soon.
    pub(crate) fn want(&self) {
        self.wanted.notify_one();
    }

    /// Whether a page shows more if it waits: it was not asked yet, or long ago, and answered then.
    pub(crate) fn is_waited_for(&self, is_watched: bool) -> bool {
        let seen = self.seen.borrow();
        seen.last.is_none() || !is_watched && seen.known.trouble.is_none()
    }

    /// Has it looked at now, unless that takes too long: the page says how old it is then.
    pub(crate) async fn refresh(&self, patience: Duration) {
        let (mut seen, since) = (self.seen.subscribe(), Instant::now());
        self.want();
        let is_new = |seen: &Seen| seen.last.is_some_and(|at| at >= since);
        let _ = timeout(patience, seen.wait_for(is_new)).await;
    }

    /// Until it is to be looked at again: after this time at the latest.
    pub(crate) async fn wait(&self, interval: Duration) {
        let _ = timeout(interval, self.wanted.notified()).await;
    }

    pub(crate) async fn look(&self) {
        let began = Instant::now();
        let answer = tokio::try_join!(self.rest.worker(), self.rest.connectors());
        self.seen.send_modify(|seen| {
            seen.last = Some(began);
            let known = &mut seen.known;
            match answer {
                Ok((worker, connectors)) => {
                    known.version = worker.version;
                    known.at = Some(began);
                    known.connectors = Arc::new(connectors);
                    known.trouble = None;
                }
                Err(error) => {
                    let since = known.trouble.take().map_or(began, |(since, _)| since);
                    known.trouble = Some((since, error.to_string()));
                }
            }
        });
    }
}

#[cfg(test)]
mod tests;
