//! New records of a topic as they come, as server-sent events, for the page of its messages.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Query;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::time::{MissedTickBehavior, interval};

use super::messages::{MessagesQuery, filter, not_evaluated, path, rows, watched};
use crate::decoding::Decoder;
use crate::failure::Failure;
use crate::reading::{Round, Tail, bounds};
use crate::request_context::RequestContext;

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
    let (client, topic) = (context.client.clone(), context.param("topic").to_owned());
    let spans = bounds(&client, &topic, &partitions).await.spans;
    let filter = filter(&context, &plan);
    let evaluation = filter.evaluation.clone();
    let tail = Tail::new(client, topic, filter, &spans);
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (path, decoder) = (path(&context), context.decoder(plan.show));
    // Who has logged out follows nothing any longer.
    let end = context.user().map(|user| user.end());
    let stream = unfold((tail, ticks, permit), move |(mut tail, mut ticks, permit)| {
        let (path, decoder, evaluation) = (path.clone(), decoder.clone(), evaluation.clone());
        let has_ended = end.as_ref().is_some_and(|end| end.has_changed().is_err());
        async move {
            if has_ended {
                return None;
            }
            ticks.tick().await;
            let mut round = tail.round().await;
            let unknown = evaluation.map(|evaluation| evaluation.take_unknown());
            round.problem = round.problem.or_else(|| not_evaluated(&unknown?));
            Some((Ok(event(&path, round, &decoder).await), (tail, ticks, permit)))
        }
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()))
}

async fn event(path: &str, round: Round, decoder: &Decoder) -> Event {
    let (rows, trouble) = match rows(path, round.messages, decoder).await {
        Ok(rows) => (rows, None),
        Err(failure) => (Vec::new(), Some(failure.what().to_owned())),
    };
    let data = serde_json::json!({ "rows": rows, "left_out": round.left_out, "problem": round.problem.or(trouble) });
    Event::default().event("records").data(data.to_string())
}
