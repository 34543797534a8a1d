//! New records of a topic as they come, as server-sent events, for the page of its messages.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Query;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::time::{MissedTickBehavior, interval};

use super::messages::{MessagesQuery, path, row, watched};
use crate::failure::Failure;
use crate::reading::{Round, Tail, bounds};
use crate::request_context::RequestContext;
use crate::text::Show;

const INTERVAL: Duration = Duration::from_millis(500);

pub(crate) async fn show(
    context: RequestContext,
    Query(asked): Query<MessagesQuery>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Failure> {
    let watched = watched(&context).await?;
    let plan = asked.plan(watched.partitions.len()).map_err(Failure::wrong)?;
    let too_many = |_| Failure::unavailable("too many pages follow new records: close some of them");
    let permit = Arc::clone(&context.console.followers).try_acquire_owned().map_err(too_many)?;
    let partitions = plan.partition.map_or(watched.partitions, |partition| vec![partition]);
    let (client, topic) = (context.cluster.client.clone(), context.param("topic").to_owned());
    let spans = bounds(&client, &topic, &partitions).await.spans;
    let tail = Tail::new(client, topic, plan.filter, &spans);
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (path, show) = (path(&context), plan.show);
    let stream = unfold((tail, ticks, permit), move |(mut tail, mut ticks, permit)| {
        let path = path.clone();
        async move {
            ticks.tick().await;
            let round = tail.round().await;
            Some((Ok(event(&path, &round, show)), (tail, ticks, permit)))
        }
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()))
}

fn event(path: &str, round: &Round, show: Show) -> Event {
    let rows: Vec<_> = round.messages.iter().map(|message| row(path, message, show)).collect();
    let data = serde_json::json!({ "rows": rows, "left_out": round.left_out, "problem": round.problem });
    Event::default().event("records").data(data.to_string())
}
