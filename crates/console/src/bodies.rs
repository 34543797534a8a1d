//! Bodies of requests: they come in time, and take no more memory than there is for all of them together.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use crate::Console;
use crate::reassignment::PLAN_BYTES_MAX;

/// Of forms with a plan of moves, which are the largest: a plan is larger there than by itself.
pub(crate) const BODY_BYTES_MAX: usize = 4 * PLAN_BYTES_MAX;
/// Of the form of the login, which everybody may send.
const LOGIN_BYTES_MAX: usize = 4 << 10;
/// Bodies up to this size need no place: there are not more of them than connections.
const SMALL_BYTES_MAX: usize = 16 << 10;
/// Larger bodies in memory at a time.
pub(crate) const LARGE_MAX: usize = 8;
/// Until a body has come, a wait for a place included.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Reads the body of a request before anybody answers it.
pub(crate) async fn read(State(console): State<Arc<Console>>, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let bytes_max = if request.uri().path() == "/login" { LOGIN_BYTES_MAX } else { BODY_BYTES_MAX };
    let claimed = request.body().size_hint().upper();
    let is_small = claimed.unwrap_or(u64::MAX).min(bytes_max as u64) <= SMALL_BYTES_MAX as u64;
    let (parts, body) = request.into_parts();
    let reading = async {
        let place = match is_small {
            true => None,
            false => Some(Arc::clone(&console.large_bodies).acquire_owned().await),
        };
        (place, to_bytes(body, bytes_max).await)
    };
    match timeout(TIMEOUT, reading).await {
        Ok((_place, Ok(bytes))) => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        Ok((_, Err(_))) => {
            (StatusCode::PAYLOAD_TOO_LARGE, "the request is too large, or was cut off\n").into_response()
        }
        Err(_) => (StatusCode::REQUEST_TIMEOUT, "the request did not come in time\n").into_response(),
    }
}
