//! Server-sent events: that there is news of a cluster, for pages that then ask for themselves again.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::time::sleep;

use crate::failure::Failure;
use crate::visit::Place;

/// A browser asks again after this time when it was cut off.
const RETRY: Duration = Duration::from_secs(1);
/// While it listens, somebody looks.
const ATTENTION_INTERVAL: Duration = Duration::from_secs(5);

pub(crate) async fn show(place: Place) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Failure> {
    let mut news = place.cluster.news();
    news.mark_unchanged();
    let stream = unfold((place.cluster, news), |(cluster, mut news)| async move {
        loop {
            cluster.attend();
            tokio::select! {
                changed = news.changed() => {
                    changed.ok()?;
                    // A browser does not hand on an event without data.
                    let event = Event::default().event("news").data("new").retry(RETRY);
                    return Some((Ok(event), (cluster, news)));
                }
                () = sleep(ATTENTION_INTERVAL) => {}
            }
        }
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()))
}
