//! Somebody's look at a page: which cluster, and what stands around every page.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRef, FromRequestParts, MatchedPath, RawPathParams, Request};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{Redirect, Response};
use client::Client;
use tokio::time::{Instant, sleep};

use crate::Console;
use crate::cluster::Cluster;
use crate::connect::{Connect, FRESH_PATIENCE};
use crate::decoding::Decoder;
use crate::failure::Failure;
use crate::format::{duration, escape, group_of_part};
use crate::health_findings::AGE_MAX;
use crate::layout::{Layout, Section};
use crate::schema_registry::SchemaRegistry;
use crate::snapshot::Snapshot;
use crate::text::Show;
use crate::user_session::UserSession;
use crate::visibility::Visibility;

/// How long a page waits for what it does not find, and how often it looks meanwhile.
const NEWS_PATIENCE: Duration = Duration::from_secs(1);
const NEWS_INTERVAL: Duration = Duration::from_millis(100);

/// What a page may say after something was done. It comes back in the query, so nobody else's words can.
const NOTICES: [(&str, &str); 36] = [
    ("topic-created", "The topic has been created."),
    ("topic-deleted", "The topic has been deleted."),
    ("partitions-added", "The partitions have been added."),
    ("records-deleted", "The records have been deleted."),
    ("config-set", "The setting has been changed."),
    ("config-reset", "The setting is back at its default."),
    ("record-produced", "The record has been written."),
    ("offsets-reset", "The offsets have been moved."),
    ("offsets-deleted", "The offsets have been deleted."),
    ("group-deleted", "The group has been deleted."),
    ("transaction-terminated", "Its transaction has been aborted, if one was open, and its producer is fenced off."),
    ("transaction-aborted", "The transaction has been aborted in this partition."),
    ("leaders-elected", "Leaders have been elected."),
    ("reassignment-started", "The reassignment has begun."),
    ("reassignment-cancelled", "The reassignment has been cancelled."),
    ("reassignments-cancelled", "The reassignments have been cancelled."),
    ("throttle-set", "The throttle has been set."),
    ("throttle-removed", "The throttles have been removed."),
    ("connector-created", "The connector has been created."),
    ("connector-deleted", "The connector has been deleted."),
    ("connector-paused", "The connector is being paused."),
    ("connector-resumed", "The connector is being resumed."),
    ("connector-stopped", "The connector is being stopped."),
    ("connector-restarted", "The connector is being restarted."),
    ("task-restarted", "The task is being restarted."),
    ("connector-configs-set", "The configs have been changed."),
    ("scenario-kept", "The scenario has been kept."),
    ("scenario-deleted", "The scenario has been deleted."),
    ("user-created", "The user has been created."),
    ("password-set", "The password has been set."),
    ("password-deleted", "The password has been deleted."),
    ("user-deleted", "The user has been deleted."),
    ("acls-added", "The access control list entries have been added."),
    ("acl-removed", "The access control list entry has been removed."),
    ("quotas-set", "The quotas have been set."),
    ("quotas-removed", "The quotas have been removed."),
];

/// A cluster of the console, by the name in the path.
pub(crate) struct RequestContext {
    pub console: Arc<Console>,
    pub cluster: Arc<Cluster>,
    /// Of whoever looks: a user of the cluster, if it has users, and else the console itself.
    pub client: Client,
    user: Option<Seer>,
    /// `/clusters/NAME`.
    pub base: String,
    params: Vec<(String, String)>,
    notice: Option<&'static str>,
}

/// A user of the cluster, and what it may see.
struct Seer {
    session: Arc<UserSession>,
    visibility: Arc<Visibility>,
}

/// Pages that say something of all topics or groups.
const OF_EVERYTHING: [&str; 2] = ["/alerts", "/aborted-transactions"];
/// Pages about servers that know the console, and not the user; and what belongs to the console itself.
const OF_THE_CONSOLE: [&str; 4] = ["/connect", "/schemas", "/lab", "/remove"];

impl<S: Send + Sync> FromRequestParts<S> for RequestContext
where
    Arc<Console>: FromRef<S>,
{
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let Navigation(mut context) = Navigation::from_request_parts(parts, state).await?;
        context.check_visible(parts.extensions.get().map_or("", MatchedPath::as_str)).await?;
        Ok(context)
    }
}

/// What stands around a page, whatever comes of the page itself.
pub(crate) struct Navigation(RequestContext);

impl<S: Send + Sync> FromRequestParts<S> for Navigation
where
    Arc<Console>: FromRef<S>,
{
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let console = Arc::<Console>::from_ref(state);
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| Failure::wrong("the address is not UTF-8"))?;
        let params: Vec<_> = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let name = params.iter().find(|(name, _)| name == "cluster").map_or("", |(_, value)| value);
        let cluster = console.clusters().into_iter().find(|cluster| cluster.name == name);
        let cluster = cluster.ok_or_else(|| match console.is_starting() {
            true => Failure::unavailable("the broker is starting: try again in a moment"),
            false => Failure::not_found(format!("there is no cluster {name:?} here")),
        })?;
        let query = parts.uri.query().unwrap_or_default();
        let done = query.split('&').find_map(|pair| pair.strip_prefix("done="));
        let notice = NOTICES.iter().find(|(key, _)| done == Some(*key)).map(|(_, text)| *text);
        let base = format!("/clusters/{}", escape(name));
        let (client, user) = match (cluster.own_client(), parts.extensions.get::<Arc<UserSession>>()) {
            (Some(client), _) => (client, None),
            (None, Some(session)) if session.cluster == cluster.name => {
                let visibility = session.visibility(false).await?;
                (session.client(), Some(Seer { session: Arc::clone(session), visibility }))
            }
            (None, _) => return Err(Failure::forbidden("log in as a user of this cluster first")),
        };
        Ok(Self(RequestContext { console, cluster, client, user, base, params, notice }))
    }
}

impl RequestContext {
    /// That the user may see what the path is about. What is hidden is answered as what is not there.
    async fn check_visible(&mut self, path: &str) -> Result<(), Failure> {
        let Some(user) = &self.user else { return Ok(()) };
        let below = path.split_once("/clusters/{cluster}").map(|(_, below)| below);
        let below = below.ok_or_else(|| Failure::forbidden("this page is not known to be for users of a cluster"))?;
        let is_below = |pages: &[&str]| pages.iter().any(|page| below.starts_with(page));
        if is_below(&OF_THE_CONSOLE) && !user.visibility.is_administrator() {
            return Err(Failure::forbidden(format!(
                "{} may not do that: it takes ALTER on the cluster",
                user.session.user
            )));
        }
        if is_below(&OF_EVERYTHING) {
            let snapshot = self.cluster.snapshot().await.map_err(Failure::unavailable)?;
            if !user.visibility.has_all(&snapshot) {
                let reason = "it names topics and groups of all kinds, and some of them are hidden";
                return Err(Failure::forbidden(format!("{} does not see this: {reason}", user.session.user)));
            }
        }
        let hidden = self.hidden(&user.visibility);
        if hidden.is_none() {
            return Ok(());
        }
        // It may have been made a moment ago.
        let visibility = user.session.visibility(true).await?;
        match self.hidden(&visibility) {
            Some(hidden) => Err(Failure::not_found(hidden)),
            None => {
                self.user = self.user.take().map(|user| Seer { visibility, ..user });
                Ok(())
            }
        }
    }

    /// What is said of what the path is about, where that is hidden.
    fn hidden(&self, visibility: &Visibility) -> Option<String> {
        let is_named = |param: &str| self.params.iter().any(|(name, _)| name == param);
        let topic = self.param("topic");
        if is_named("topic") && !visibility.has_topic(topic) {
            return Some(format!("there is no topic {topic:?}"));
        }
        if is_named("group") && !visibility.has_group(self.group()) {
            return Some(format!("there is no group {:?}", self.group()));
        }
        let id = self.transactional_id();
        let is_hidden = is_named("transactional_id") && !visibility.has_transactional_id(id);
        is_hidden.then(|| format!("there is no transactional id {id:?}"))
    }

    /// Whether pages of servers that know the console, and not the user, are shown.
    pub(crate) fn is_administrator(&self) -> bool {
        self.user.as_ref().is_none_or(|user| user.visibility.is_administrator())
    }

    /// The user of the cluster who looks, if it has users.
    pub(crate) fn user(&self) -> Option<&Arc<UserSession>> {
        self.user.as_ref().map(|user| &user.session)
    }

    /// A part of the path.
    pub(crate) fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(param, _)| param == name).map_or("", |(_, value)| value)
    }

    /// A part of the path that is a number.
    pub(crate) fn number(&self, name: &str) -> Result<i32, Failure> {
        self.param(name).parse().map_err(|_| Failure::not_found(format!("{:?} is no number", self.param(name))))
    }

    /// The group of the path, which may have any id.
    pub(crate) fn group(&self) -> &str {
        group_of_part(self.param("group"))
    }

    /// The transactional id of the path, which may be any.
    pub(crate) fn transactional_id(&self) -> &str {
        group_of_part(self.param("transactional_id"))
    }

    /// The user of the path, who may have any name.
    pub(crate) fn user_param(&self) -> &str {
        group_of_part(self.param("user"))
    }

    /// The Connect cluster of the path.
    pub(crate) fn connect(&self) -> Result<&Arc<Connect>, Failure> {
        let name = self.param("connect");
        let found = self.cluster.connects.iter().find(|connect| connect.name == name);
        found.ok_or_else(|| Failure::not_found(format!("there is no Connect cluster {name:?} here")))
    }

    /// The schema registry of the cluster, if it has one.
    pub(crate) fn registry(&self) -> Result<&SchemaRegistry, Failure> {
        let none =
            || Failure::not_found("no schema registry is known here: name one with --schema-registry http://HOST:8081");
        self.cluster.registry.as_deref().ok_or_else(none)
    }

    /// Decodes keys and values of the cluster's records.
    pub(crate) fn decoder(&self, show: Show) -> Decoder {
        Decoder::new(self.cluster.schemas.clone(), show)
    }

    /// The connector of the path, which may have any name.
    pub(crate) fn connector(&self) -> &str {
        group_of_part(self.param("connector"))
    }

    pub(crate) fn layout(&self, section: impl Into<Option<Section>>) -> Layout {
        Layout {
            cluster: Some(self.cluster.name.clone()),
            base: self.base.clone(),
            section: section.into(),
            has_metrics: self.cluster.local.is_some() && self.is_administrator(),
            has_connects: !self.cluster.connects.is_empty() && self.is_administrator(),
            has_schemas: self.cluster.registry.is_some() && self.is_administrator(),
            has_lab: self.is_administrator(),
            has_login: self.user.is_some() || self.console.options.password.is_some(),
            user: self.user().map(|session| session.user.clone()),
            notice: self.notice,
            age: self.cluster.age().filter(|age| *age > AGE_MAX).map(|age| duration(age.as_secs_f64())),
            ..Layout::outside(&self.console)
        }
    }

    /// Where the page hears that there is news.
    pub(crate) fn events(&self) -> String {
        format!("{}/events", self.base)
    }

    pub(crate) async fn snapshot(&self) -> Result<Arc<Snapshot>, Failure> {
        let snapshot = self.cluster.snapshot().await.map_err(Failure::unavailable)?;
        Ok(self.user.as_ref().map_or_else(|| Arc::clone(&snapshot), |user| user.visibility.of(&snapshot)))
    }

    /// The cluster with something in it that may be younger than the newest snapshot, and than what the broker knows
    /// that is asked: another one may have made it a moment ago.
    pub(crate) async fn snapshot_with(&self, has: impl Fn(&Snapshot) -> bool) -> Result<Arc<Snapshot>, Failure> {
        let mut snapshot = self.snapshot().await?;
        let since = Instant::now();
        while !has(&snapshot) {
            snapshot = self.fresh().await?;
            if since.elapsed() >= NEWS_PATIENCE {
                break;
            }
            sleep(NEWS_INTERVAL).await;
        }
        Ok(snapshot)
    }

    /// For pages that name what will be lost.
    pub(crate) async fn fresh(&self) -> Result<Arc<Snapshot>, Failure> {
        let snapshot = self.cluster.fresh().await.map_err(Failure::unavailable)?;
        match &self.user {
            Some(user) => Ok(user.session.visibility(true).await?.of(&snapshot)),
            None => Ok(snapshot),
        }
    }

    pub(crate) fn can_change(&self) -> bool {
        !self.console.options.is_read_only
    }

    /// After something was done: back to a page of the cluster, which says so and shows it.
    pub(crate) async fn done(&self, path: &str, notice: &'static str) -> Redirect {
        // What goes wrong here is said by the page.
        let _ = self.fresh().await;
        self.redirect(path, notice)
    }

    /// The same after something was done to a Connect cluster.
    pub(crate) async fn done_to(&self, connect: &Connect, path: &str, notice: &'static str) -> Redirect {
        connect.refresh(FRESH_PATIENCE).await;
        self.redirect(path, notice)
    }

    /// Some broker that answers.
    pub(crate) async fn any_broker(&self) -> Result<i32, Failure> {
        let snapshot = self.snapshot().await?;
        let alive = snapshot.brokers.values().find(|broker| broker.is_alive).map(|broker| broker.id);
        alive.ok_or_else(|| Failure::unavailable("no broker answers"))
    }

    /// The same after something was done that no sample has.
    pub(crate) fn moved(&self, path: &str, notice: &'static str) -> Redirect {
        self.redirect(path, notice)
    }

    fn redirect(&self, path: &str, notice: &'static str) -> Redirect {
        debug_assert!(NOTICES.iter().any(|(key, _)| *key == notice), "{notice}");
        let mark = if path.contains('?') { '&' } else { '?' };
        Redirect::to(&format!("{}{path}{mark}done={notice}", self.base))
    }
}

/// Has the pages of failures within a cluster keep its navigation.
pub(crate) async fn with_navigation(navigation: Result<Navigation, Failure>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    match (navigation, response.extensions().get::<Failure>()) {
        (Ok(Navigation(context)), Some(failure)) => failure.page(context.layout(None)),
        _ => response,
    }
}

/// A [`RequestContext`] where something is to be changed.
pub(crate) struct Change(pub RequestContext);

impl<S: Send + Sync> FromRequestParts<S> for Change
where
    Arc<Console>: FromRef<S>,
{
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let context = RequestContext::from_request_parts(parts, state).await?;
        match context.can_change() {
            true => Ok(Self(context)),
            false => Err(Failure::forbidden("this console was started read-only")),
        }
    }
}

/// That the name of what will be gone was typed.
pub(crate) fn confirmed(typed: &str, name: &str) -> Result<(), Failure> {
    match typed == name {
        true => Ok(()),
        false => Err(Failure::wrong(format!("type {name:?} to confirm; nothing was changed"))),
    }
}
