//! What a page says when there is nothing else to show.

use askama::Template;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use client::{ClientError, ConnectionError};
use wire::ErrorCode;

use crate::connect::RestError;
use crate::layout::Layout;
use crate::schema_registry::RegistryError;

/// A page that could not be made, and why.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    what: String,
}

impl Failure {
    pub(crate) fn not_found(what: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, what: what.into() }
    }

    /// What was asked for makes no sense.
    pub(crate) fn wrong(what: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, what: what.into() }
    }

    pub(crate) fn forbidden(what: impl Into<String>) -> Self {
        Self { status: StatusCode::FORBIDDEN, what: what.into() }
    }

    pub(crate) fn unavailable(what: impl Into<String>) -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, what: what.into() }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn what(&self) -> &str {
        &self.what
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let status = match &error {
            ClientError::UnknownTopic { .. } => StatusCode::NOT_FOUND,
            ClientError::Refused {
                code: ErrorCode::GROUP_ID_NOT_FOUND | ErrorCode::TRANSACTIONAL_ID_NOT_FOUND,
                ..
            } => StatusCode::NOT_FOUND,
            ClientError::Refused { code, .. } if is_of_acls(*code) => StatusCode::FORBIDDEN,
            ClientError::Connection(ConnectionError::Authentication { .. })
            | ClientError::Unreachable { reason: ConnectionError::Authentication { .. } } => StatusCode::FORBIDDEN,
            ClientError::Refused { .. } | ClientError::GroupInUse { .. } => StatusCode::CONFLICT,
            _ => StatusCode::BAD_GATEWAY,
        };
        Self { status, what: told(&error) }
    }
}

/// Whether an ACL is what would make it succeed.
fn is_of_acls(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::TOPIC_AUTHORIZATION_FAILED
            | ErrorCode::GROUP_AUTHORIZATION_FAILED
            | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
            | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            | ErrorCode::DELEGATION_TOKEN_AUTHORIZATION_FAILED
    )
}

/// An error in a line, with what to do about it where it is a right that is missing.
pub(crate) fn told(error: &ClientError) -> String {
    match error.code() {
        Some(code) if is_of_acls(code) => format!("{error}: an access control list has to allow it"),
        _ => error.to_string(),
    }
}

impl From<RestError> for Failure {
    fn from(error: RestError) -> Self {
        let status = match &error {
            RestError::Refused { status: StatusCode::NOT_FOUND, .. } => StatusCode::NOT_FOUND,
            RestError::Refused { .. } => StatusCode::CONFLICT,
            RestError::Http { .. } | RestError::NotConnect { .. } => StatusCode::BAD_GATEWAY,
        };
        Self { status, what: error.to_string() }
    }
}

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Self {
        let status = match &error {
            RegistryError::Refused { status: StatusCode::NOT_FOUND, .. } => StatusCode::NOT_FOUND,
            _ => StatusCode::BAD_GATEWAY,
        };
        Self { status, what: error.to_string() }
    }
}

#[derive(Template)]
#[template(path = "failure.html")]
struct Page<'a> {
    layout: Layout,
    status: u16,
    title: &'static str,
    what: &'a str,
}

impl Failure {
    pub(crate) fn page(&self, layout: Layout) -> Response {
        let title = match self.status {
            StatusCode::NOT_FOUND => "There is no such thing here",
            StatusCode::BAD_REQUEST => "That cannot be asked for",
            StatusCode::FORBIDDEN => "That is not allowed",
            StatusCode::CONFLICT => "The cluster has refused it",
            StatusCode::SERVICE_UNAVAILABLE => "Not yet",
            _ => "The cluster did not answer",
        };
        let page = Page { layout, status: self.status.as_u16(), title, what: &self.what };
        render(self.status, &page)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = self.page(Layout::default());
        response.extensions_mut().insert(self);
        response
    }
}

/// A page as an answer.
pub(crate) fn render(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(html) => (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], html).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page could not be made");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

pub(crate) async fn no_page() -> Failure {
    Failure::not_found("there is no page at this address")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_that_is_missing_is_said_to_be_one() {
        let refused = |code| ClientError::Refused { subject: "topic t".to_owned(), code, message: None };
        let denied = Failure::from(refused(ErrorCode::TOPIC_AUTHORIZATION_FAILED));
        assert_eq!(denied.status(), StatusCode::FORBIDDEN);
        assert_eq!(denied.what(), "topic t: TOPIC_AUTHORIZATION_FAILED: an access control list has to allow it");
        assert_eq!(Failure::from(refused(ErrorCode::POLICY_VIOLATION)).status(), StatusCode::CONFLICT);
        let (address, user, reason) = ("a:1".to_owned(), "alice".to_owned(), "no".to_owned());
        let reason = ConnectionError::Authentication { address, user, mechanism: "PLAIN", reason };
        assert_eq!(Failure::from(ClientError::Unreachable { reason }).status(), StatusCode::FORBIDDEN);
    }
}
