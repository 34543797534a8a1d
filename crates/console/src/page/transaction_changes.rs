//! Ending a transaction that its producer does not end.

use axum::extract::Form;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::group_changes::typed_or;
use super::topic_changes::{ConfirmPage, Confirmation};
use super::transaction::{describe, quoted};
use super::transactions::href;
use crate::failure::{Failure, render};
use crate::format::{counted, group_part};
use crate::layout::Section;
use crate::request_context::{Change, RequestContext, confirmed};

/// What has to be typed to confirm something about the transactional id.
fn typed(context: &RequestContext) -> &str {
    typed_or(context.transactional_id(), "this transactional id")
}

pub(crate) async fn terminate_form(Change(context): Change) -> Result<Response, Failure> {
    let described = describe(&context).await?;
    let id = context.transactional_id();
    let open = match described.partitions.len() {
        0 => "no records, as no transaction is open there now: one that is open by then is aborted".to_owned(),
        partitions => format!(
            "what its open transaction has written in {}: consumers of committed records never see it",
            counted(partitions, "partition")
        ),
    };
    let page = ConfirmPage {
        layout: context.layout(Section::Transactions),
        title: format!("Terminate the transaction of {}", quoted(id)),
        losses: vec![
            open,
            format!(
                "the session of producer {} with epoch {}: it is fenced off, gets an error, and has to begin anew",
                described.producer_id, described.producer_epoch
            ),
        ],
        name: typed(&context).to_owned(),
        action: "Terminate it",
        back: href(&context, id),
    };
    Ok(render(StatusCode::OK, &page))
}

pub(crate) async fn terminate(Change(context): Change, Form(form): Form<Confirmation>) -> Result<Response, Failure> {
    confirmed(&form.confirm, typed(&context))?;
    // Where there is no such id, neither it nor the topic of its coordinator is to be made.
    describe(&context).await?;
    let id = context.transactional_id();
    context.cluster.client.terminate_transaction(id).await?;
    let path = format!("/transactions/{}", group_part(id));
    Ok(context.done(&path, "transaction-terminated").await.into_response())
}
