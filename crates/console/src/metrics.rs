//! `/metrics`: the page that Prometheus and others read.

use std::sync::Arc;

use axum::extract;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::task::spawn_blocking;

use crate::State;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) async fn show(extract::State(state): extract::State<State>) -> Response {
    let _one = state.scrape.lock().await;
    let local = Arc::clone(&state.local);
    match spawn_blocking(move || local.metrics()).await {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "the metrics could not be made");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
