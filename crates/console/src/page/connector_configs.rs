//! Editing the configs of a connector. Connect says what is wrong with them before they are set; secrets are not shown,
//! and stay as they are unless another value is typed.

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::Form;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};

use super::connector::configs_shown;
use super::connectors::connector_path;
use crate::connect::{Config, ConfigErrors, RestError, is_secret, without_secrets};
use crate::failure::{Failure, render};
use crate::format::name_shown;
use crate::http_source::shortened;
use crate::layout::{Layout, Section};
use crate::request_context::{Change, RequestContext};

/// What a field is called that has the value of a config, or says that a secret one is taken away.
const VALUE: &str = "config.";
const REMOVE: &str = "remove.";
/// Which says what the form has shown.
const SHOWN: &str = "shown";
/// Which has further configs, `name=value` in each line.
const MORE: &str = "more";

#[derive(Template)]
#[template(path = "connector_configs.html")]
struct Page {
    layout: Layout,
    here: String,
    name: String,
    shown: String,
    fields: Vec<Field>,
    more: String,
    error: Option<String>,
}

struct Field {
    name: String,
    value: String,
    is_secret: bool,
    is_set: bool,
    /// Whether it is to be taken away.
    is_removed: bool,
    /// Whether it has several lines.
    is_long: bool,
    errors: Vec<String>,
}

/// The fields of the form, in their order.
type Pairs = Vec<(String, String)>;

pub(crate) async fn form(Change(context): Change) -> Result<Response, Failure> {
    let config = context.connect()?.rest.config(context.connector()).await?;
    Ok(render(StatusCode::OK, &page(&context, &config, &config, "", ConfigErrors::new(), None)))
}

pub(crate) async fn change(Change(context): Change, Form(pairs): Form<Pairs>) -> Result<Response, Failure> {
    let connect = context.connect()?;
    let config = connect.rest.config(context.connector()).await?;
    let field = |name: &str| pairs.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value.as_str());
    let more = field(MORE);
    let refused = |wanted: &Config, more: &str, errors, error| {
        render(StatusCode::CONFLICT, &page(&context, &config, wanted, more, errors, error))
    };
    if field(SHOWN) != fingerprint(&config) {
        let error = "The configs have been changed meanwhile. This is how they are now; nothing was changed.";
        return Ok(refused(&config, more, ConfigErrors::new(), Some(error.to_owned())));
    }
    let wanted = match merged(&config, &pairs).and_then(|wanted| with_more(wanted, more)) {
        Ok(wanted) => wanted,
        Err(error) => return Ok(refused(&config, more, ConfigErrors::new(), Some(error))),
    };
    let set = match connect.rest.validate(&wanted).await {
        Ok(errors) if !errors.is_empty() => return Ok(refused(&wanted, "", errors, None)),
        Ok(_) => connect.rest.set_config(context.connector(), &wanted).await,
        Err(error) => Err(error),
    };
    match set {
        Ok(()) => {
            let path = connector_path(&connect.name, context.connector());
            Ok(context.done_to(connect, &path, "connector-configs-set").await.into_response())
        }
        Err(error @ RestError::Refused { .. }) => {
            Ok(refused(&wanted, "", ConfigErrors::new(), Some(without_secrets(&error.to_string(), &wanted))))
        }
        Err(error) => Err(error.into()),
    }
}

/// With `wanted` in its fields, and what is wrong with it.
fn page(
    context: &RequestContext,
    config: &Config,
    wanted: &Config,
    more: &str,
    errors: ConfigErrors,
    error: Option<String>,
) -> Page {
    let fields = fields(config, wanted, errors);
    let wrong = fields.iter().filter(|field| !field.errors.is_empty()).count();
    let error = error.or_else(|| match wrong {
        0 => None,
        1 => Some("A config is wrong; nothing was changed.".to_owned()),
        wrong => Some(format!("{wrong} configs are wrong; nothing was changed.")),
    });
    Page {
        layout: context.layout(Section::Connect),
        here: format!("{}{}", context.base, connector_path(context.param("connect"), context.connector())),
        name: name_shown(context.connector()),
        shown: fingerprint(config),
        fields,
        more: more.to_owned(),
        error,
    }
}

/// Of what there is, what is wanted, and what is missing.
fn fields(config: &Config, wanted: &Config, mut errors: ConfigErrors) -> Vec<Field> {
    let names: BTreeSet<_> = config.keys().chain(wanted.keys()).chain(errors.keys()).cloned().collect();
    let fields = names.into_iter().filter(|name| name != "name").map(|name| {
        let (is_secret, value) = (is_secret(&name), wanted.get(&name).cloned().flatten().unwrap_or_default());
        let errors = errors.remove(&name).unwrap_or_default();
        let told = |error: &String| shortened(&without_secrets(&without_secrets(error, wanted), config));
        Field {
            is_set: config.contains_key(&name),
            is_removed: config.contains_key(&name) && !wanted.contains_key(&name),
            is_secret,
            is_long: value.contains('\n'),
            value: if is_secret { String::new() } else { value },
            errors: errors.iter().map(told).collect(),
            name,
        }
    });
    fields.collect()
}

/// Of what is shown of configs, to know whether they are still the same.
fn fingerprint(config: &Config) -> String {
    let shown = serde_json::to_vec(&configs_shown(config)).expect("texts are JSON");
    URL_SAFE_NO_PAD.encode(digest(&SHA256, &shown))
}

/// As browsers send lines.
fn lines(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// The configs with what was typed. An empty field takes a config away, and leaves a secret as it is.
fn merged(config: &Config, pairs: &Pairs) -> Result<Config, String> {
    let mut merged = config.clone();
    for (field, value) in pairs {
        if let Some(name) = field.strip_prefix(REMOVE) {
            merged.remove(name);
            continue;
        }
        let Some(name) = field.strip_prefix(VALUE) else { continue };
        if name == "name" {
            return Err("a connector keeps its name: create another one in its place".to_owned());
        }
        let typed = lines(value);
        let is_kept = match config.get(name) {
            Some(_) if is_secret(name) => typed.is_empty(),
            Some(old) => lines(old.as_deref().unwrap_or_default()) == typed,
            None => typed.is_empty(),
        };
        match typed.is_empty() {
            _ if is_kept => None,
            true => merged.remove(name),
            false => merged.insert(name.to_owned(), Some(typed)),
        };
    }
    Ok(merged)
}

fn with_more(mut config: Config, more: &str) -> Result<Config, String> {
    for line in more.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line
            .split_once('=')
            .ok_or_else(|| format!("a config is name=value, for example tasks.max=2, and not {line:?}"))?;
        config.insert(name.trim().to_owned(), Some(value.trim().to_owned()));
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(pairs: &[(&str, &str)]) -> Config {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))).collect()
    }

    fn typed(pairs: &[(&str, &str)]) -> Pairs {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_was_not_touched_stays() {
        let now =
            config(&[("a.password", "sesame"), ("empty", ""), ("query", "a\nb"), ("topics", "x"), ("other", "1")]);
        let same =
            [("config.a.password", ""), ("config.empty", ""), ("config.query", "a\r\nb"), ("config.topics", "x")];
        assert_eq!(merged(&now, &typed(&same)).unwrap(), now);
        let changed = [
            ("config.a.password", "open"),
            ("config.query", "c\r\nd"),
            ("config.topics", ""),
            ("config.new", "2"),
            ("config.missing", ""),
        ];
        let expected =
            config(&[("a.password", "open"), ("empty", ""), ("query", "c\nd"), ("other", "1"), ("new", "2")]);
        assert_eq!(merged(&now, &typed(&changed)).unwrap(), expected);
        let removed = merged(&now, &typed(&[("config.a.password", ""), ("remove.a.password", "on")])).unwrap();
        assert!(!removed.contains_key("a.password"));
        assert!(merged(&now, &typed(&[("config.name", "x")])).unwrap_err().contains("keeps its name"));
    }

    #[test]
    fn further_configs_are_lines() {
        let now = config(&[("a", "1")]);
        assert_eq!(with_more(now.clone(), " b = 2=3 \n\n").unwrap(), config(&[("a", "1"), ("b", "2=3")]));
        assert!(with_more(now, "b").unwrap_err().contains("name=value"));
    }

    #[test]
    fn a_form_that_is_shown_again_means_the_same() {
        let now = config(&[("a.password", "sesame"), ("b.password", "x"), ("topics", "x"), ("name", "n")]);
        let wanted = config(&[("b.password", "open sesame"), ("regex", "x.*"), ("name", "n")]);
        let errors = [
            ("b.password".to_owned(), vec!["open sesame is too short".to_owned()]),
            ("file".to_owned(), vec!["missing".to_owned()]),
        ];
        let shown = fields(&now, &wanted, errors.into());
        let found = shown.iter().map(|of| (&*of.name, &*of.value, of.is_removed, of.errors.join(" ")));
        let expected = [
            ("a.password", "", true, String::new()),
            ("b.password", "", false, "(hidden) is too short".to_owned()),
            ("file", "", false, "missing".to_owned()),
            ("regex", "x.*", false, String::new()),
            ("topics", "", true, String::new()),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_fingerprint_is_of_what_is_shown() {
        let of = |pairs| fingerprint(&config(pairs));
        assert_eq!(of(&[("a.key", "1")]), of(&[("a.key", "2")]));
        assert_ne!(of(&[("a", "1")]), of(&[("a", "2")]));
    }
}
