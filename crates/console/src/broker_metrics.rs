//! Where brokers that are not ours tell of themselves, and which broker each page is of.
//!
//! Pages are read with each look at the cluster. An exporter may take seconds for a page, more than a look waits for:
//! then the look has what the page said before, and a later one has the answer.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use futures_util::future::join_all;
use openmetrics::Exposition;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::format::now_ms;
use crate::http_source::{Bounds, HttpError, HttpSource, HttpUrl, HttpUrlError};
use crate::kafka_metrics::{self, Missing};
use crate::node_metrics::Figures;

/// What a look waits for.
const PATIENCE: Duration = Duration::from_secs(2);
/// What a page may take, and for how long it is taken for what is.
const DEADLINE: Duration = Duration::from_secs(15);
/// Without rules an exporter tells a kilobyte and more of each partition.
const PAGE_BYTES_MAX: u64 = 16 << 20;

/// The page of a broker, `[ID@]http://[USER:PASSWORD@]HOST:PORT/PATH`. Without an ID it is of the broker at that host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsUrl {
    broker_id: Option<i32>,
    url: HttpUrl,
}

impl FromStr for MetricsUrl {
    type Err = HttpUrlError;

    fn from_str(text: &str) -> Result<Self, HttpUrlError> {
        let (broker_id, url) = match text.split_once('@') {
            Some((id, url)) if id.trim().parse::<i32>().is_ok() => (id.trim().parse().ok(), url),
            _ => (None, text),
        };
        Ok(Self { broker_id, url: url.parse()? })
    }
}

/// As it may be shown.
impl fmt::Display for MetricsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.broker_id {
            Some(id) => write!(f, "{id}@{}", self.url),
            None => self.url.fmt(f),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MetricsError {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("it was refused ({})", .0.as_u16())]
    Refused(StatusCode),
    #[error(transparent)]
    Missing(#[from] Missing),
    #[error("it cannot be read: {0}")]
    Unreadable(String),
}

/// Why a page is not known to be of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnknownBroker {
    #[error("there is no broker {0}")]
    Id(i32),
    #[error("no broker has this host: ID@URL names the broker")]
    Host,
    #[error("several brokers have this host: ID@URL names the broker")]
    Several,
}

/// A page that is read again and again.
#[derive(Debug)]
pub(crate) struct BrokerMetrics {
    pub url: MetricsUrl,
    source: Arc<HttpSource>,
    reading: Mutex<Reading>,
}

#[derive(Debug, Default)]
struct Reading {
    /// Under way since an earlier look.
    task: Option<JoinHandle<Result<Figures, MetricsError>>>,
    /// When the last answer came, and what it said.
    last: Option<(Instant, Figures)>,
}

impl BrokerMetrics {
    pub(crate) fn new(url: MetricsUrl) -> Self {
        Self { source: Arc::new(HttpSource::new(url.url.clone())), url, reading: Mutex::default() }
    }

    /// The ID of the broker whose page it is, of all that there are, with their hosts.
    pub(crate) fn find_broker<'a>(
        &self,
        mut brokers: impl Iterator<Item = (i32, &'a str)>,
    ) -> Result<i32, UnknownBroker> {
        if let Some(id) = self.url.broker_id {
            return brokers.any(|(broker, _)| broker == id).then_some(id).ok_or(UnknownBroker::Id(id));
        }
        let mut found = brokers.filter(|(_, host)| host.eq_ignore_ascii_case(self.url.url.host()));
        match (found.next(), found.next()) {
            (Some((id, _)), None) => Ok(id),
            (Some(_), Some(_)) => Err(UnknownBroker::Several),
            (None, _) => Err(UnknownBroker::Host),
        }
    }

    /// What it says now, or where that takes longer, what it said last.
    async fn look(&self) -> Result<Figures, MetricsError> {
        let mut reading = self.reading.lock().await;
        let begin = || tokio::spawn(read(Arc::clone(&self.source)));
        let mut task = reading.task.take().unwrap_or_else(begin);
        let Ok(answer) = timeout(PATIENCE, &mut task).await else {
            reading.task = Some(task);
            let last = reading.last.as_ref().filter(|(at, _)| at.elapsed() <= DEADLINE);
            return last.map(|(_, figures)| figures.clone()).ok_or(HttpError::Deadline(PATIENCE).into());
        };
        let answer = answer.unwrap_or_else(|error| Err(MetricsError::Unreadable(error.to_string())));
        reading.last = answer.as_ref().ok().map(|figures| (Instant::now(), figures.clone()));
        answer
    }
}

async fn read(source: Arc<HttpSource>) -> Result<Figures, MetricsError> {
    let bounds = Bounds { deadline: DEADLINE, size_bytes: PAGE_BYTES_MAX };
    let answer = source.call(Method::GET, "", None, bounds).await?;
    if !answer.status.is_success() {
        return Err(MetricsError::Refused(answer.status));
    }
    // A page of megabytes takes its time.
    let figures = tokio::task::spawn_blocking(move || {
        let page = Exposition::new(String::from_utf8_lossy(&answer.body).into_owned());
        kafka_metrics::figures(&page, now_ms())
    });
    Ok(figures.await.map_err(|error| MetricsError::Unreadable(error.to_string()))??)
}

/// What each page says, in their order.
pub(crate) async fn look_at_all(pages: &[BrokerMetrics]) -> Vec<Result<Figures, MetricsError>> {
    join_all(pages.iter().map(BrokerMetrics::look)).await
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    fn url(text: &str) -> MetricsUrl {
        text.parse().unwrap()
    }

    #[test]
    fn a_url_may_name_its_broker() {
        assert_eq!(url("3@http://me:sesame@k:7071/metrics").to_string(), "3@k:7071/metrics");
        assert_eq!((url("3@http://k:1").broker_id, url("http://3@k:1").broker_id), (Some(3), None));
        for text in ["3@k:1", "k:1", "3@", "x@http://k:1", "3@https://k:1"] {
            assert!(text.parse::<MetricsUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_page_is_of_the_broker_with_its_id_or_else_of_the_only_one_at_its_host() {
        let brokers = [(1, "a"), (2, "b"), (3, "b")];
        let find = |text: &str| BrokerMetrics::new(url(text)).find_broker(brokers.into_iter());
        assert_eq!([find("http://A:7071"), find("3@http://a:7071")], [Ok(1), Ok(3)]);
        let unknown = [UnknownBroker::Several, UnknownBroker::Host, UnknownBroker::Id(4)].map(Err);
        assert_eq!([find("http://b:7071"), find("http://c:7071"), find("4@http://a:7071")], unknown);
    }

    #[tokio::test]
    async fn a_page_that_takes_longer_than_a_look_is_had_by_the_next() {
        const PAGE: &str = include_str!("kafka_metrics/example_rules.txt");
        const LONG_ENOUGH: Duration = Duration::from_secs(60);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (answer, wanted) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 4096]);
                if wanted.recv().is_err() {
                    return;
                }
                let _ = stream.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{PAGE}").as_bytes());
            }
        });
        let page = BrokerMetrics::new(url(&format!("http://{address}/metrics")));
        assert_eq!(page.look().await.err(), Some(HttpError::Deadline(PATIENCE).into()));
        answer.send(()).unwrap();
        let first = timeout(LONG_ENOUGH, async {
            loop {
                if let Ok(figures) = page.look().await {
                    return figures.counters;
                }
            }
        });
        let first = first.await.unwrap();
        // Until the next answer it is what it was.
        assert!(page.look().await.is_ok_and(|figures| figures.counters.is_same_moment(&first)));
        answer.send(()).unwrap();
        let is_same = async || page.look().await.is_ok_and(|figures| figures.counters.is_same_moment(&first));
        timeout(LONG_ENOUGH, async { while is_same().await {} }).await.unwrap();
        assert!(page.reading.lock().await.last.as_ref().is_some_and(|(_, of)| !of.counters.is_same_moment(&first)));
    }
}
