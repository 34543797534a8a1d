//! `/health/live` and `/health/ready`, for whoever starts brokers and sends clients to them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::Console;

/// The process answers. There is nothing that a restart would mend and that it does not end by itself for.
pub(crate) async fn live() -> &'static str {
    "live\n"
}

pub(crate) async fn ready(State(console): State<Arc<Console>>) -> Response {
    // A console without a broker has nothing to wait for.
    match console.local.as_ref().map_or(Ok(()), |local| local.check_ready()) {
        Ok(()) => "ready\n".into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")).into_response(),
    }
}
