//! Server-sent events: that there is news of a cluster, for pages that then ask for themselves again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{iter, unfold};
use futures_util::{Stream, StreamExt};
use tokio::time::sleep;

use crate::failure::Failure;
use crate::request_context::RequestContext;

/// A browser asks again after this time when it was cut off.
const RETRY: Duration = Duration::from_secs(1);
/// While it listens, somebody looks.
const ATTENTION_INTERVAL: Duration = Duration::from_secs(5);

/// One that finds no context to listen asks itself now and then whether there is news.
const RETRY_WITHOUT_PLACE: Duration = Duration::from_secs(15);

pub(crate) async fn show(
    context: RequestContext,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Failure> {
    let permit = Arc::clone(&context.console.listeners).try_acquire_owned();
    let mut news = context.cluster.news();
    news.mark_unchanged();
    let first = match &permit {
        Ok(_) => None,
        Err(_) => Some(Ok(event(RETRY_WITHOUT_PLACE))),
    };
    let stream = unfold((context.cluster, news, permit), |(cluster, mut news, permit)| async move {
        let permit = Ok(permit.ok()?);
        loop {
            cluster.attend();
            tokio::select! {
                changed = news.changed() => {
                    changed.ok()?;
                    return Some((Ok(event(RETRY)), (cluster, news, permit)));
                }
                () = sleep(ATTENTION_INTERVAL) => {}
            }
        }
    });
    Ok(Sse::new(iter(first).chain(stream)).keep_alive(KeepAlive::default()))
}

/// That there is news, and after what time to listen again when the connection is gone.
fn event(retry: Duration) -> Event {
    // A browser does not hand on an event without data.
    Event::default().event("news").data("new").retry(retry)
}
