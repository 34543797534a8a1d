//! Pausing, resuming, stopping, restarting and deleting a connector.

use axum::extract::Form;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::connector::find;
use super::connectors::connector_path;
use super::topic_changes::{ConfirmPage, Confirmation};
use crate::connect::Action;
use crate::failure::{Failure, render};
use crate::format::{counted, name_shown};
use crate::layout::Section;
use crate::request_context::{Change, RequestContext, confirmed};

#[derive(Deserialize)]
pub(crate) struct Wanted {
    /// `pause`, `resume`, `stop` or `restart`.
    action: String,
    /// Of a restart: whether it is one of the tasks, too, and of what has failed only.
    tasks: Option<String>,
    failed: Option<String>,
}

impl Wanted {
    fn action(&self) -> Result<(Action, &'static str), Failure> {
        Ok(match self.action.as_str() {
            "pause" => (Action::Pause, "connector-paused"),
            "resume" => (Action::Resume, "connector-resumed"),
            "stop" => (Action::Stop, "connector-stopped"),
            "restart" => {
                let (includes_tasks, only_failed) = (self.tasks.is_some(), self.failed.is_some());
                (Action::Restart { includes_tasks, only_failed }, "connector-restarted")
            }
            other => return Err(Failure::wrong(format!("a connector cannot be told to {other:?}"))),
        })
    }
}

fn path(context: &RequestContext) -> String {
    connector_path(context.param("connect"), context.connector())
}

async fn done(context: &RequestContext, action: Action, notice: &'static str) -> Result<Response, Failure> {
    let connect = context.connect()?;
    connect.rest.act(context.connector(), action).await?;
    Ok(context.done_to(connect, &path(context), notice).await.into_response())
}

pub(crate) async fn act(Change(context): Change, Form(wanted): Form<Wanted>) -> Result<Response, Failure> {
    let (action, notice) = wanted.action()?;
    done(&context, action, notice).await
}

pub(crate) async fn restart_task(Change(context): Change) -> Result<Response, Failure> {
    done(&context, Action::RestartTask(context.number("task")?), "task-restarted").await
}

pub(crate) async fn delete_form(Change(context): Change) -> Result<Response, Failure> {
    let (known, connector) = find(&context).await?;
    let name = context.connector();
    let page = ConfirmPage {
        layout: context.layout(Section::Connect),
        title: format!("Delete connector {}", name_shown(name)),
        losses: vec![
            format!("the connector on {}, with {}", known.name, counted(connector.tasks.len(), "task")),
            format!("its {}", counted(connector.config.len(), "config")),
        ],
        back: format!("{}{}", context.base, path(&context)),
        name: name.to_owned(),
        action: "Delete the connector",
    };
    Ok(render(StatusCode::OK, &page))
}

pub(crate) async fn delete(Change(context): Change, Form(form): Form<Confirmation>) -> Result<Response, Failure> {
    let connect = context.connect()?;
    confirmed(&form.confirm, context.connector())?;
    connect.rest.delete(context.connector()).await?;
    Ok(context.done_to(connect, "/connect", "connector-deleted").await.into_response())
}
