//! `/metrics`: the page that Prometheus and others read.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::Console;

/// A page that was made. Whoever asked before it was begun, and had to wait, takes it too: however many ask, one page
/// is made after the other.
pub(crate) struct Scrape {
    began: Instant,
    text: Bytes,
}

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) async fn show(State(console): State<Arc<Console>>) -> Response {
    let Some(local) = console.local.clone() else {
        let reason = "there is no broker in this process: ask the brokers themselves\n";
        return (StatusCode::NOT_FOUND, reason).into_response();
    };
    let asked = Instant::now();
    let mut last = console.scrape.lock().await;
    let page = match &*last {
        Some(scrape) if scrape.began >= asked => Ok(scrape.text.clone()),
        _ => {
            let began = Instant::now();
            let made = spawn_blocking(move || Bytes::from(local.metrics())).await;
            made.inspect(|text| *last = Some(Scrape { began, text: text.clone() }))
        }
    };
    drop(last);
    match page {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "the metrics could not be made");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
