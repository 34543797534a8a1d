//! `/clusters/NAME/lab/new-scenario` and `/lab/scenarios/SCENARIO`: scenarios that are kept here, checked before they
//! are. What was typed stays in the form, with the mistake and its line beside it.

use askama::Template;
use axum::extract::{Form, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::lab_access::ask;
use super::topic_changes::{ConfirmPage, Confirmation};
use crate::benchmark_runner::ScenarioMistake;
use crate::failure::{Failure, render};
use crate::format::name_shown;
use crate::layout::{Layout, Section};
use crate::request_context::{Change, RequestContext, confirmed};

/// What a new one begins as where no suite is named.
const TEMPLATE: &str = "quick";
/// Its name until it has another.
const NEW_NAME: &str = "mine";
pub(crate) const SCENARIO_BYTES_MAX: usize = 64 << 10;

#[derive(Template)]
#[template(path = "lab_scenario.html")]
struct Page {
    layout: Layout,
    base: String,
    title: String,
    toml: String,
    size_max: usize,
    mistake: Option<MistakeView>,
}

struct MistakeView {
    line: Option<usize>,
    reason: String,
    /// What stands in the line.
    text: Option<String>,
}

impl MistakeView {
    fn new(mistake: ScenarioMistake, toml: &str) -> Self {
        let at = |line: usize| toml.lines().nth(line.saturating_sub(1));
        let text = mistake.line.and_then(at).map(str::trim).filter(|text| !text.is_empty());
        Self { line: mistake.line, text: text.map(name_shown), reason: mistake.reason }
    }
}

fn page(context: &RequestContext, toml: String, mistake: Option<ScenarioMistake>) -> Page {
    let title = match context.param("scenario") {
        "" => "New scenario".to_owned(),
        name => format!("Scenario {name}"),
    };
    Page {
        layout: context.layout(Section::Lab),
        base: context.base.clone(),
        title,
        mistake: mistake.map(|mistake| MistakeView::new(mistake, &toml)),
        toml,
        size_max: SCENARIO_BYTES_MAX,
    }
}

async fn toml_of(context: &RequestContext, name: &str) -> Result<String, Failure> {
    let wanted = name.to_owned();
    let toml = ask(context, move |laboratory| laboratory.scenario(&wanted)).await?;
    toml.ok_or_else(|| Failure::not_found(format!("there is no scenario {name:?}")))
}

#[derive(Deserialize)]
pub(crate) struct From {
    #[serde(default)]
    from: String,
}

pub(crate) async fn new_form(Change(context): Change, Query(query): Query<From>) -> Result<Response, Failure> {
    let from = if query.from.is_empty() { TEMPLATE } else { &query.from };
    let toml = renamed(&toml_of(&context, from).await?);
    Ok(render(StatusCode::OK, &page(&context, toml, None)))
}

/// A suite's text under a name that is nobody's.
fn renamed(toml: &str) -> String {
    let is_name = |line: &str| line.split_once('=').is_some_and(|(key, _)| key.trim() == "name");
    let mut was_named = false;
    let mut text = String::new();
    for line in toml.lines() {
        match is_name(line) && !std::mem::replace(&mut was_named, true) {
            true => text.push_str(&format!("name = \"{NEW_NAME}\"")),
            false => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

pub(crate) async fn edit_form(Change(context): Change) -> Result<Response, Failure> {
    let toml = toml_of(&context, context.param("scenario")).await?;
    Ok(render(StatusCode::OK, &page(&context, toml, None)))
}

#[derive(Deserialize)]
pub(crate) struct Scenario {
    toml: String,
}

/// A new one, or in place of the one that the path names.
pub(crate) async fn keep(Change(context): Change, Form(form): Form<Scenario>) -> Result<Response, Failure> {
    // As browsers send lines.
    let toml = form.toml.replace("\r\n", "\n");
    let (typed, replaced) = (toml.clone(), context.param("scenario").to_owned());
    let keep = move |laboratory: &dyn crate::Laboratory| {
        laboratory.keep_scenario(&typed, Some(replaced.as_str()).filter(|name| !name.is_empty()))
    };
    Ok(match ask(&context, keep).await? {
        Ok(name) => {
            tracing::info!(cluster = context.cluster.name, scenario = name, "a scenario was kept");
            context.done("/lab", "scenario-kept").await.into_response()
        }
        Err(mistake) => render(StatusCode::UNPROCESSABLE_ENTITY, &page(&context, toml, Some(mistake))),
    })
}

pub(crate) async fn delete_form(Change(context): Change) -> Result<Response, Failure> {
    let name = context.param("scenario").to_owned();
    toml_of(&context, &name).await?;
    let page = ConfirmPage {
        layout: context.layout(Section::Lab),
        title: format!("Delete scenario {name}"),
        losses: vec!["the scenario itself; what its runs have measured stays".to_owned()],
        name,
        action: "Delete the scenario",
        back: format!("{}/lab", context.base),
    };
    Ok(render(StatusCode::OK, &page))
}

pub(crate) async fn delete(Change(context): Change, Form(form): Form<Confirmation>) -> Result<Response, Failure> {
    let name = context.param("scenario").to_owned();
    confirmed(&form.confirm, &name)?;
    ask(&context, move |laboratory| laboratory.delete_scenario(&name)).await?.map_err(Failure::wrong)?;
    Ok(context.done("/lab", "scenario-deleted").await.into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_is_a_template_under_another_name() {
        let toml = "# name = x\nname = \"quick\"\ntitle = \"t\"\n[[case]]\nname = 5\n";
        assert_eq!(renamed(toml), "# name = x\nname = \"mine\"\ntitle = \"t\"\n[[case]]\nname = 5\n");
    }

    #[test]
    fn a_mistake_shows_its_line() {
        let mistake = |line| ScenarioMistake { line, reason: "r".to_owned() };
        let text = |line| MistakeView::new(mistake(line), "a = 1\n  b = 2\n\n").text;
        assert_eq!(text(Some(2)).as_deref(), Some("b = 2"));
        assert_eq!([text(Some(3)), text(Some(9)), text(None)], [None, None, None]);
    }
}
