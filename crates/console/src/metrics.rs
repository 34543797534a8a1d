//! `/metrics`: the page that Prometheus and others read.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::task::spawn_blocking;

use crate::Console;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) async fn show(State(console): State<Arc<Console>>) -> Response {
    let Some(local) = console.local.clone() else {
        let reason = "there is no broker in this process: ask the brokers themselves\n";
        return (StatusCode::NOT_FOUND, reason).into_response();
    };
    let _one = console.scrape.lock().await;
    match spawn_blocking(move || local.metrics()).await {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "the metrics could not be made");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
