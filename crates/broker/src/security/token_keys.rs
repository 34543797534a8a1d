//! The keys that sign the tokens of a listener's clients, and what its tokens have to be.
//!
//! One task fetches them: when the listener begins, then each `sasl.oauthbearer.jwks.endpoint.refresh.ms`, sooner after
//! a fetch that failed, and when a token names a key that is not known; never more often than
//! [`FETCH_INTERVAL_MIN`], whatever tokens name. A fetch that fails leaves the keys as they are. Nobody waits for more
//! than one fetch, and no thread of the runtime does.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use security::oauth::{Expected, KeySet, Token, TokenError};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use super::token_source::{FetchError, TokenSource};
use crate::threads::spawn_blocking;

const FETCH_INTERVAL_MIN: Duration = Duration::from_secs(10);

/// Until the keys have been fetched, or could not be.
pub type KeysWait = Pin<Box<dyn Future<Output = ()> + Send>>;

pub struct TokenKeys {
    listener: String,
    source: TokenSource,
    expected: Expected,
    refresh_interval: Duration,
    known: ArcSwap<KeySet>,
    /// When the last fetch has ended.
    fetched: watch::Sender<Option<Instant>>,
    wanted: Notify,
}

impl TokenKeys {
    pub fn new(listener: String, source: TokenSource, expected: Expected, refresh_interval: Duration) -> Self {
        Self {
            listener,
            source,
            expected,
            refresh_interval,
            known: ArcSwap::default(),
            fetched: watch::Sender::new(None),
            wanted: Notify::new(),
        }
    }

    /// Whether a token is good, by the keys that are known.
    pub fn validate(&self, token: &str, now_ms: i64) -> Result<Token, TokenError> {
        self.expected.validate(token, &self.known.load(), now_ms)
    }

    /// Has the keys fetched for a token whose key is not known. `None` if they have been just now.
    pub fn fetch_again(&self) -> Option<KeysWait> {
        let mut fetched = self.fetched.subscribe();
        let last = *fetched.borrow_and_update();
        if last.is_some_and(|ended| ended.elapsed() < FETCH_INTERVAL_MIN) {
            return None;
        }
        // Before the first has ended it is under way.
        if last.is_some() {
            self.wanted.notify_one();
        }
        Some(Box::pin(async move {
            // Without a fetcher the broker stops.
            _ = fetched.changed().await;
        }))
    }

    /// Fetches the keys until it is dropped.
    pub async fn run(self: Arc<Self>) {
        let mut is_failing = true;
        loop {
            let keys = Arc::clone(&self);
            is_failing = match spawn_blocking(move || keys.source.fetch()).await {
                Ok(Ok(keys)) => {
                    self.take(keys, is_failing);
                    false
                }
                Ok(Err(error)) => {
                    self.keep(&error, is_failing && self.fetched.borrow().is_some());
                    true
                }
                // It has panicked, which has been said.
                Err(_) => true,
            };
            self.fetched.send_replace(Some(Instant::now()));
            let interval = if is_failing { FETCH_INTERVAL_MIN } else { self.refresh_interval };
            let wanted = async {
                sleep(FETCH_INTERVAL_MIN).await;
                self.wanted.notified().await;
            };
            tokio::select! {
                () = sleep(interval) => {}
                () = wanted => {}
            }
        }
    }

    fn take(&self, keys: KeySet, is_news: bool) {
        let (listener, url, count, left_out) = (&self.listener, self.source.url(), keys.len(), keys.left_out());
        if is_news {
            tracing::info!(listener, url, keys = count, left_out, "the keys that sign tokens are known");
        }
        self.known.store(Arc::new(keys));
    }

    fn keep(&self, error: &FetchError, is_known: bool) {
        let (listener, url, known) = (&self.listener, self.source.url(), self.known.load().len());
        if is_known {
            tracing::debug!(%error, listener, url, known, "the keys that sign tokens still cannot be fetched");
        } else {
            tracing::warn!(%error, listener, url, known, "cannot fetch the keys that sign tokens; those known stay");
        }
    }
}

#[cfg(test)]
mod tests {
    use client::DocumentSource;

    use super::*;

    fn expected() -> Expected {
        Expected {
            issuer: "i".to_owned(),
            audiences: vec!["a".to_owned()],
            subject_claim: "sub".to_owned(),
            scope_claim: "scope".to_owned(),
            clock_skew_seconds: 30,
        }
    }

    /// Keys with the ids from 0, which can verify nothing.
    fn some_keys(count: usize) -> String {
        let key =
            |id| format!("{{\"kty\":\"OKP\",\"kid\":\"{id}\",\"crv\":\"Ed25519\",\"x\":\"{}A\"}}", "A".repeat(42));
        format!("{{\"keys\":[{}]}}", (0..count).map(key).collect::<Vec<_>>().join(","))
    }

    #[tokio::test(start_paused = true)]
    async fn keys_are_looked_for_when_one_is_missing_and_stay_when_there_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys.json");
        let source = TokenSource(DocumentSource::new(&format!("file://{}", path.display()), None).unwrap());
        let keys = Arc::new(TokenKeys::new("L".to_owned(), source, expected(), Duration::from_secs(3600)));
        let fetching = tokio::spawn(Arc::clone(&keys).run());
        keys.fetch_again().expect("the first is waited for").await;
        assert!(keys.known.load().is_empty() && keys.fetch_again().is_none());

        write(&path, &some_keys(2));
        sleep(FETCH_INTERVAL_MIN + Duration::from_secs(1)).await;
        assert_eq!(keys.known.load().len(), 2, "it has been tried again");

        write(&path, &some_keys(3));
        sleep(FETCH_INTERVAL_MIN).await;
        let (first, second) = (keys.fetch_again().expect("it is time"), keys.fetch_again().expect("it is time"));
        tokio::join!(first, second);
        assert_eq!(keys.known.load().len(), 3);
        assert!(keys.fetch_again().is_none(), "not so soon again");

        write(&path, "{}");
        sleep(FETCH_INTERVAL_MIN).await;
        keys.fetch_again().expect("it is time").await;
        assert_eq!(keys.known.load().len(), 3, "the last good ones stay");
        fetching.abort();
    }

    #[expect(clippy::disallowed_methods, reason = "a file of the test's own")]
    fn write(path: &std::path::Path, text: &str) {
        std::fs::write(path, text).unwrap();
    }
}
