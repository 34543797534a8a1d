//! `/health/live` and `/health/ready`, for whoever starts brokers and sends clients to them.

use axum::extract;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::State;

/// The process answers. There is nothing that a restart would mend and that it does not end by itself for.
pub(crate) async fn live() -> &'static str {
    "live\n"
}

pub(crate) async fn ready(extract::State(state): extract::State<State>) -> Response {
    match state.local.check_ready() {
        Ok(()) => "ready\n".into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")).into_response(),
    }
}
