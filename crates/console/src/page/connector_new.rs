//! Creating a connector from JSON, when Connect has found nothing wrong with its configs.

use askama::Template;
use axum::extract::Form;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::connectors::connector_path;
use crate::connect::{Config, ConfigErrors, Connect, RestError, without_secrets};
use crate::failure::{Failure, render};
use crate::http_source::shortened;
use crate::layout::{Layout, Section};
use crate::request_context::{Change, RequestContext};

#[derive(Template)]
#[template(path = "connector_new.html")]
struct Page {
    layout: Layout,
    base: String,
    connects: Vec<String>,
    form: NewConnector,
    /// By config, what is wrong with it.
    errors: Vec<(String, String)>,
    error: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NewConnector {
    connect: String,
    json: String,
}

pub(crate) async fn form(Change(context): Change) -> Result<Response, Failure> {
    Ok(render(StatusCode::OK, &page(&context, NewConnector::default(), Vec::new(), None)))
}

fn page(context: &RequestContext, form: NewConnector, errors: Vec<(String, String)>, error: Option<String>) -> Page {
    Page {
        layout: context.layout(Section::Connect),
        base: context.base.clone(),
        connects: context.cluster.connects.iter().map(|connect| connect.name.clone()).collect(),
        form,
        errors,
        error,
    }
}

pub(crate) async fn create(Change(context): Change, Form(form): Form<NewConnector>) -> Result<Response, Failure> {
    let connect = context.cluster.connects.iter().find(|connect| connect.name == form.connect);
    let connect = connect.ok_or_else(|| Failure::wrong(format!("there is no Connect cluster {:?}", form.connect)))?;
    let refused = |errors, error| {
        Ok(render(StatusCode::UNPROCESSABLE_ENTITY, &page(&context, form.clone(), errors, Some(error))))
    };
    let (name, config) = match read(&form.json) {
        Ok(read) => read,
        Err(error) => return refused(Vec::new(), error),
    };
    match checked_and_created(connect, &name, &config).await {
        Ok(errors) if errors.is_empty() => {
            let path = connector_path(&connect.name, &name);
            Ok(context.done_to(connect, &path, "connector-created").await.into_response())
        }
        Ok(errors) => {
            let errors = errors
                .into_iter()
                .flat_map(|(name, errors)| errors.into_iter().map(move |error| (name.clone(), error)));
            let errors = errors.map(|(name, error)| (name, shortened(&without_secrets(&error, &config))));
            refused(errors.collect(), "Its configs are wrong; nothing was created.".to_owned())
        }
        Err(error @ RestError::Refused { .. }) => refused(Vec::new(), without_secrets(&error.to_string(), &config)),
        Err(error) => Err(error.into()),
    }
}

/// What is wrong with the configs; if nothing is, there is a connector.
async fn checked_and_created(connect: &Connect, name: &str, config: &Config) -> Result<ConfigErrors, RestError> {
    let errors = connect.rest.validate(config).await?;
    if errors.is_empty() {
        connect.rest.create(name, config).await?;
    }
    Ok(errors)
}

/// `{"name": …, "config": {…}}`, as Connect's REST takes it, or the configs alone, as its standalone worker does.
fn read(json: &str) -> Result<(String, Config), String> {
    let mut fields: Map<String, Value> =
        serde_json::from_str(json).map_err(|error| format!("it is no JSON object: {error}"))?;
    let own = fields.get("name").and_then(Value::as_str).map(str::to_owned);
    let configs = match fields.remove("config") {
        Some(Value::Object(configs)) => configs,
        Some(_) => return Err("config has to be an object: {\"name\": …, \"config\": {…}}".to_owned()),
        None => fields,
    };
    let mut config = Config::new();
    for (name, value) in configs {
        let value = match value {
            Value::Null => None,
            Value::String(text) => Some(text),
            Value::Array(_) | Value::Object(_) => return Err(format!("the value of {name} has to be a text")),
            plain => Some(plain.to_string()),
        };
        config.insert(name, value);
    }
    let name = own.or_else(|| config.get("name").cloned().flatten()).filter(|name| !name.trim().is_empty());
    let name = name.ok_or("it has no name: {\"name\": \"orders-to-file\", \"config\": {…}}")?;
    if config.get("connector.class").is_none_or(Option::is_none) {
        return Err("it has no connector.class among its configs".to_owned());
    }
    // Connect looks for it among the configs that it checks.
    config.insert("name".to_owned(), Some(name.clone()));
    Ok((name, config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connectors_are_read_as_connect_takes_them() {
        let value = |text: &str| Some(text.to_owned());
        let expected: Config = [
            ("name".to_owned(), value("n")),
            ("connector.class".to_owned(), value("C")),
            ("tasks.max".to_owned(), value("2")),
            ("x".to_owned(), None),
        ]
        .into();
        let nested = r#"{"name": "n", "config": {"connector.class": "C", "tasks.max": 2, "x": null}}"#;
        let flat = r#"{"name": "n", "connector.class": "C", "tasks.max": "2", "x": null}"#;
        assert_eq!(read(nested), Ok(("n".to_owned(), expected.clone())));
        assert_eq!(read(flat), Ok(("n".to_owned(), expected)));
        let reason = |json| read(json).unwrap_err();
        assert!(reason("[]").contains("no JSON object"));
        assert!(reason(r#"{"connector.class": "C"}"#).contains("no name"));
        assert!(reason(r#"{"name": "n"}"#).contains("no connector.class"));
        assert!(reason(r#"{"name": "n", "config": []}"#).contains("has to be an object"));
        assert!(reason(r#"{"name": "n", "config": {"a": []}}"#).contains("has to be a text"));
    }
}
