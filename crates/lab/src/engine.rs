//! Engines: what sends the load of a producer.
//!
//! All take the same [`ProduceLoad`] and count into the same [`Stats`]. [`Engine::check`] says before anything runs
//! whether an engine takes a load; librdkafka is in this binary only with the feature of that name.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use client::{Client, ClientError, Security};

use crate::produce::{ProduceLoad, produce};
use crate::raw::produce_raw;
use crate::settings::ProducerSettings;
use crate::stats::Stats;
use crate::text_enum::words;

#[cfg(feature = "librdkafka")]
mod librdkafka;
#[cfg(not(feature = "librdkafka"))]
#[path = "engine/not_built.rs"]
mod librdkafka;

/// Each of librdkafka's producers has several threads.
const LIBRDKAFKA_PRODUCERS_MAX: u64 = 256;

words! {
    /// What sends: our producer, requests that were encoded before, or librdkafka's producer.
    Engine { Client = "client", Raw = "raw", Librdkafka = "librdkafka" }
}

/// Why an engine does not take a load, or has given it up.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(
        "engine librdkafka is not in this binary: build one with `cargo build --release --features librdkafka`, or use \
         engine client"
    )]
    NotBuilt,
    #[error("engine {0} has no transactions: leave out transactional.id, or use engine client")]
    Transactions(Engine),
    #[error("{producers} producers are too many for engine librdkafka: it takes {LIBRDKAFKA_PRODUCERS_MAX}")]
    Producers { producers: u64 },
    #[error("engine librdkafka connects with security.protocol=PLAINTEXT only: use engine client or raw")]
    Security,
    #[error(
        "network_delay_ms is not for engine librdkafka, which connects to the addresses that brokers advertise: use \
         engine client or raw"
    )]
    NetworkDelay,
    #[error("engine librdkafka does not take {settings}: {reason}")]
    Settings { settings: String, reason: String },
    #[error("librdkafka: {0}")]
    Library(String),
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl Engine {
    /// Whether it is there and takes such producers, so many of them.
    pub fn check(self, settings: &ProducerSettings, producers: u64) -> Result<(), EngineError> {
        if self == Self::Librdkafka {
            librdkafka::check(settings)?;
            if producers > LIBRDKAFKA_PRODUCERS_MAX {
                return Err(EngineError::Producers { producers });
            }
        }
        match settings.transactional_id {
            Some(_) if self != Self::Client => Err(EngineError::Transactions(self)),
            _ => Ok(()),
        }
    }

    /// Whether it can connect that way.
    pub fn check_security(self, security: &Security) -> Result<(), EngineError> {
        match self {
            Self::Librdkafka if *security != Security::default() => Err(EngineError::Security),
            _ => Ok(()),
        }
    }

    /// Whether its connections can be led through the proxies that delay them.
    pub(crate) fn takes_detours(self) -> bool {
        self != Self::Librdkafka
    }

    /// Produces until the load is done or `stop` is set, and all that was sent is answered. Records that could not be
    /// delivered are counted by [`Stats`]; the error is why the load could not start or go on.
    pub async fn produce(
        self,
        client: Client,
        load: ProduceLoad,
        stats: Arc<Stats>,
        stop: Arc<AtomicBool>,
    ) -> Result<(), EngineError> {
        match self {
            Self::Client => Ok(produce(client, load, stats, stop).await?),
            Self::Raw => Ok(produce_raw(client, load, stats, stop).await?),
            Self::Librdkafka => librdkafka::produce(client, load, stats, stop).await,
        }
    }
}
