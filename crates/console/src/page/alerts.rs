//! `/clusters/NAME/alerts`: the rules for Prometheus, and whether each would fire now.

use askama::Template;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::alerts::{Alert, AlertState, Rule, prometheus_rules};
use crate::failure::{Failure, render};
use crate::format::{duration, moment};
use crate::layout::{Layout, Section};
use crate::request_context::RequestContext;

/// Of each rule.
const ALERTS_SHOWN: usize = 20;

#[derive(Template)]
#[template(path = "alerts.html")]
struct Page {
    layout: Layout,
    base: String,
    events: String,
    /// Since when the rules are looked at, if there are metrics.
    began: Option<String>,
    tiles: Vec<(&'static str, usize)>,
    rows: Vec<Row>,
}

struct Row {
    name: &'static str,
    severity: &'static str,
    state: AlertState,
    condition: String,
    hold: Option<String>,
    promql: String,
    alerts: Vec<(String, String)>,
    left_out: usize,
}

impl Row {
    fn class(&self) -> &'static str {
        match (self.state, self.severity) {
            (AlertState::Inactive, _) => "good",
            (AlertState::Firing, "critical") => "bad",
            _ => "warn",
        }
    }
}

pub(crate) async fn show(context: RequestContext) -> Result<Response, Failure> {
    context.snapshot().await?;
    let (began_ms, rules) = {
        let alerts = context.cluster.alerts();
        (alerts.began_ms(), alerts.rules())
    };
    let in_state = |wanted| rules.iter().filter(|(_, state, _)| *state == wanted).count();
    let states = [("Firing", AlertState::Firing), ("Pending", AlertState::Pending), ("Inactive", AlertState::Inactive)];
    let tiles = states.map(|(name, state)| (name, in_state(state))).into();
    let page = Page {
        layout: context.layout(Section::Alerts),
        base: context.base.clone(),
        events: context.events(),
        began: began_ms.map(moment),
        tiles,
        rows: rules.iter().map(|(rule, state, alerts)| row(rule, *state, alerts)).collect(),
    };
    Ok(render(StatusCode::OK, &page))
}

fn row(rule: &Rule, state: AlertState, alerts: &[Alert]) -> Row {
    let since = |alert: &Alert| {
        let (active, left) = (alert.active.as_secs_f64(), rule.hold.saturating_sub(alert.active).as_secs_f64());
        let next = match alert.state {
            AlertState::Pending => format!("; it fires in {}", duration(left)),
            _ => String::new(),
        };
        format!("{} since {} UTC, for {}{next}", alert.state.name(), moment(alert.since_ms), duration(active))
    };
    Row {
        name: rule.name,
        severity: rule.severity(),
        state,
        condition: rule.condition.words(),
        hold: (!rule.hold.is_zero()).then(|| duration(rule.hold.as_secs_f64())),
        promql: rule.condition.promql(),
        alerts: alerts.iter().take(ALERTS_SHOWN).map(|alert| (alert.summary.clone(), since(alert))).collect(),
        left_out: alerts.len().saturating_sub(ALERTS_SHOWN),
    }
}

pub(crate) async fn download(_: RequestContext) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/yaml; charset=utf-8"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"alerts.yml\""),
    ];
    (headers, prometheus_rules()).into_response()
}
