//! What a broker shows over HTTP: its metrics, and whether it is well.
//!
//! It listens on loopback by default and has no login, so it answers only those who ask for this machine by an address
//! or a name that it goes by: a page in a browser that reaches it under a name of its own (DNS rebinding) is refused.
//! No answer allows other origins to read it.
//!
//! The binary calls it, with what the broker in the same process tells as [`Local`].

mod address;
mod connections;
mod health;
mod host;
mod metrics;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

pub use address::{Address, AddressError};
pub use host::Hosts;

use self::connections::Connections;

/// What the console knows of the process that it is part of.
pub trait Local: Send + Sync + 'static {
    /// In the OpenMetrics text format. It may take its time.
    fn metrics(&self) -> String;

    /// Whether clients may be sent here, and else why not.
    fn check_ready(&self) -> Result<(), String>;
}

#[derive(Clone)]
struct State {
    local: Arc<dyn Local>,
    /// Held while the page of metrics is made: one at a time is enough.
    scrape: Arc<Mutex<()>>,
}

/// Answers until it is dropped.
pub async fn serve(listener: TcpListener, hosts: Hosts, local: Arc<dyn Local>) {
    let state = State { local, scrape: Arc::default() };
    let routes = Router::new()
        .route("/metrics", get(metrics::show))
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .with_state(state)
        .layer(from_fn_with_state(Arc::new(hosts), host::check));
    // It never ends with an error: a failed accept is tried again.
    if let Err(error) = axum::serve(Connections::new(listener), routes).await {
        tracing::error!(%error, "the console has ended");
    }
}
