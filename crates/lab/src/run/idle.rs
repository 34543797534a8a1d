//! Connections that stay open and send nothing, as most of a large cluster's do at most times.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use client::{Connection, ConnectionConfig, ConnectionError};
use tokio::task::JoinSet;

/// How many are opened at the same time: brokers accept no more at once.
const OPENING_MAX: usize = 64;

/// They end when this is dropped.
pub(super) struct IdleConnections {
    open: Vec<Connection>,
}

impl IdleConnections {
    /// Opens so many to these addresses in turn, as ready for requests as any other; less of them when `stop` is set.
    pub(super) async fn open(
        addresses: &[String],
        config: &ConnectionConfig,
        count: usize,
        stop: &AtomicBool,
    ) -> Result<Self, ConnectionError> {
        let (config, mut left) = (Arc::new(config.clone()), addresses.iter().cycle().take(count));
        let (mut open, mut opening) = (Vec::with_capacity(count), JoinSet::new());
        loop {
            while opening.len() < OPENING_MAX
                && !stop.load(Ordering::Relaxed)
                && let Some(address) = left.next()
            {
                let (address, config) = (address.clone(), Arc::clone(&config));
                opening.spawn(async move { Connection::connect(&address, &config).await });
            }
            match opening.join_next().await {
                Some(opened) => open.push(opened.expect("connecting does not panic")?),
                None => return Ok(Self { open }),
            }
        }
    }

    /// How many a broker has closed since.
    pub(super) fn closed(&self) -> usize {
        self.open.iter().filter(|connection| !connection.is_open()).count()
    }
}
