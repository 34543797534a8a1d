//! `/clusters/NAME/users`: users with SCRAM credentials; making one, giving it a password, deleting it. A password is
//! in nothing but the form that is sent.

use std::num::NonZeroU32;

use askama::Template;
use axum::extract::{Form, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use client::{ClientError, ScramMechanism, UserCredentials};
use serde::Deserialize;

use super::group_changes::typed_or;
use super::topic_changes::{ConfirmPage, Confirmation};
use super::{Listing, Pages};
use crate::failure::{Failure, render, told};
use crate::format::{group_part, name_shown};
use crate::layout::{Layout, Section};
use crate::request_context::{Change, RequestContext, confirmed};

/// What brokers take (`ScramMechanism.minIterations`, `maxIterations`).
const ITERATIONS: std::ops::RangeInclusive<u32> = 4096..=16384;
/// A name that is longer is none that somebody types.
const USER_CHARS_MAX: usize = 255;
const MECHANISMS: [ScramMechanism; 2] = [ScramMechanism::Sha512, ScramMechanism::Sha256];

#[derive(Template)]
#[template(path = "users.html")]
struct Page {
    layout: Layout,
    base: String,
    listing: Listing,
    rows: Vec<Row>,
    pages: Pages,
    /// Why they are not known.
    error: Option<String>,
    can_change: bool,
}

struct Row {
    name: String,
    href: String,
    credentials: String,
}

#[derive(Template)]
#[template(path = "user_password.html")]
struct PasswordPage {
    layout: Layout,
    title: String,
    back: String,
    /// Whose password it is; `None` for a user who is to be made.
    of: Option<String>,
    form: NewPassword,
    /// Names, and whether they are chosen.
    mechanisms: Vec<(String, bool)>,
    error: Option<String>,
}

/// What the form has. The password is never sent back.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct NewPassword {
    user: String,
    mechanism: String,
    password: String,
    repeated: String,
    iterations: String,
}

impl NewPassword {
    /// What is wrong with it, in a sentence.
    fn parts(&self) -> Result<(ScramMechanism, NonZeroU32), String> {
        let mechanism = MECHANISMS.into_iter().find(|mechanism| mechanism.to_string() == self.mechanism);
        let mechanism = mechanism.ok_or("choose a mechanism")?;
        if self.password.is_empty() || self.password != self.repeated {
            return Err("type the same password twice".to_owned());
        }
        if self.password.contains(char::is_control) {
            return Err("a password has no line breaks or other control characters in it".to_owned());
        }
        let iterations = match self.iterations.trim() {
            "" => Some(*ITERATIONS.start()),
            text => text.parse().ok(),
        };
        let iterations = iterations.filter(|iterations| ITERATIONS.contains(iterations)).and_then(NonZeroU32::new);
        let (first, last) = (ITERATIONS.start(), ITERATIONS.end());
        Ok((mechanism, iterations.ok_or_else(|| format!("iterations are from {first} to {last}"))?))
    }
}

fn is_user(name: &str) -> bool {
    !name.is_empty() && !name.contains(char::is_control) && name.chars().count() <= USER_CHARS_MAX
}

pub(crate) async fn show(context: RequestContext, Query(listing): Query<Listing>) -> Result<Response, Failure> {
    let (users, error) = match context.client.list_users().await {
        Ok(users) => (users, None),
        Err(error @ ClientError::Refused { .. }) => (Default::default(), Some(told(&error))),
        Err(error) => return Err(error.into()),
    };
    let part = listing.q.trim().to_lowercase();
    let found = users.into_iter().filter(|(name, _)| name.to_lowercase().contains(&part)).collect();
    let (shown, pages) = listing.cut(found, "user");
    let rows = shown.into_iter().map(|(name, credentials)| Row {
        href: path_of(&name),
        name: name_shown(&name),
        credentials: credentials_text(&credentials),
    });
    let page = Page {
        layout: context.layout(Section::Access),
        base: context.base.clone(),
        rows: rows.collect(),
        listing,
        pages,
        error,
        can_change: context.can_change(),
    };
    Ok(render(StatusCode::OK, &page))
}

/// Below the pages of the cluster.
pub(super) fn path_of(user: &str) -> String {
    match user {
        // The names of other pages.
        "new" | "of" => format!("/users/~{user}"),
        user => format!("/users/{}", group_part(user)),
    }
}

pub(super) fn credentials_text(credentials: &UserCredentials) -> String {
    let texts = credentials.iter().map(|(mechanism, iterations)| format!("{mechanism}, {iterations} iterations"));
    texts.collect::<Vec<_>>().join("; ")
}

fn password_page(
    context: &RequestContext,
    status: StatusCode,
    mut form: NewPassword,
    error: Option<String>,
) -> Response {
    (form.password, form.repeated) = Default::default();
    let of = (!context.param("user").is_empty()).then(|| context.user_param().to_owned());
    let mechanisms = MECHANISMS.map(|mechanism| mechanism.to_string());
    let page = PasswordPage {
        layout: context.layout(Section::Access),
        title: match &of {
            Some(user) => format!("Set a password of {}", name_shown(user)),
            None => "Create a user".to_owned(),
        },
        back: match &of {
            Some(user) => format!("{}{}", context.base, path_of(user)),
            None => format!("{}/users", context.base),
        },
        of: of.map(|user| name_shown(&user)),
        mechanisms: mechanisms.into_iter().map(|name| (name.clone(), name == form.mechanism)).collect(),
        form,
        error,
    };
    render(status, &page)
}

pub(crate) async fn create_form(Change(context): Change) -> Response {
    password_page(&context, StatusCode::OK, NewPassword::default(), None)
}

pub(crate) async fn create(Change(context): Change, Form(form): Form<NewPassword>) -> Result<Response, Failure> {
    let user = form.user.trim().to_owned();
    if !is_user(&user) {
        let error = format!("a user has a name of at most {USER_CHARS_MAX} characters");
        return Ok(password_page(&context, StatusCode::UNPROCESSABLE_ENTITY, form, Some(error)));
    }
    let known = match context.client.describe_user(&user).await {
        Ok(known) => known,
        Err(error @ ClientError::Refused { .. }) => {
            return Ok(password_page(&context, StatusCode::FORBIDDEN, form, Some(told(&error))));
        }
        Err(error) => return Err(error.into()),
    };
    // Nobody loses a password for a name that was typed by mistake.
    if known.keys().any(|mechanism| mechanism.to_string() == form.mechanism) {
        let error = format!("{user} has a password with {} already: set it on the page of the user", form.mechanism);
        return Ok(password_page(&context, StatusCode::CONFLICT, form, Some(error)));
    }
    set(&context, &user, form, "user-created").await
}

pub(crate) async fn password_form(Change(context): Change) -> Response {
    password_page(&context, StatusCode::OK, NewPassword::default(), None)
}

pub(crate) async fn set_password(Change(context): Change, Form(form): Form<NewPassword>) -> Result<Response, Failure> {
    let user = context.user_param().to_owned();
    set(&context, &user, form, "password-set").await
}

async fn set(
    context: &RequestContext,
    user: &str,
    form: NewPassword,
    notice: &'static str,
) -> Result<Response, Failure> {
    let (mechanism, iterations) = match form.parts() {
        Ok(parts) => parts,
        Err(error) => return Ok(password_page(context, StatusCode::UNPROCESSABLE_ENTITY, form, Some(error))),
    };
    match context.client.set_user_password(user, mechanism, &form.password, iterations).await {
        Ok(()) => Ok(context.moved(&path_of(user), notice).into_response()),
        Err(error @ ClientError::Refused { .. }) => {
            Ok(password_page(context, StatusCode::CONFLICT, form, Some(told(&error))))
        }
        Err(error) => Err(error.into()),
    }
}

pub(crate) async fn delete_form(Change(context): Change) -> Result<Response, Failure> {
    let user = context.user_param();
    let credentials = existing(&context, user).await?;
    let page = ConfirmPage {
        layout: context.layout(Section::Access),
        title: format!("Delete user {}", name_shown(user)),
        losses: vec![
            format!("its passwords: {}", credentials_text(&credentials)),
            "its logins: clients cannot connect as this user any longer; open connections stay until they close"
                .to_owned(),
            "not its access control lists and quotas, which count again for a user of this name".to_owned(),
        ],
        name: typed_or(user, "this user").to_owned(),
        action: "Delete the user",
        back: format!("{}{}", context.base, path_of(user)),
    };
    Ok(render(StatusCode::OK, &page))
}

pub(crate) async fn delete(Change(context): Change, Form(form): Form<Confirmation>) -> Result<Response, Failure> {
    let user = context.user_param();
    confirmed(&form.confirm, typed_or(user, "this user"))?;
    for mechanism in existing(&context, user).await?.into_keys() {
        context.client.delete_user_password(user, mechanism).await?;
    }
    Ok(context.moved("/users", "user-deleted").into_response())
}

async fn existing(context: &RequestContext, user: &str) -> Result<UserCredentials, Failure> {
    let credentials = context.client.describe_user(user).await?;
    match credentials.is_empty() {
        true => Err(Failure::not_found(format!("{user:?} has no password here"))),
        false => Ok(credentials),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_typed_twice_and_iterations_are_what_brokers_take() {
        let form = |password: &str, repeated: &str, iterations: &str| NewPassword {
            mechanism: "SCRAM-SHA-256".to_owned(),
            password: password.to_owned(),
            repeated: repeated.to_owned(),
            iterations: iterations.to_owned(),
            ..NewPassword::default()
        };
        let parts = |iterations: u32| Ok((ScramMechanism::Sha256, NonZeroU32::new(iterations).unwrap()));
        assert_eq!([form("a", "a", "").parts(), form("a", "a", " 8000 ").parts()], [parts(4096), parts(8000)]);
        let wrong = [form("", "", ""), form("a", "b", ""), form("a\n", "a\n", ""), form("a", "a", "4095")];
        assert!(wrong.iter().chain([&form("a", "a", "16385"), &form("a", "a", "x")]).all(|form| form.parts().is_err()));
        assert!(NewPassword { mechanism: "PLAIN".to_owned(), ..form("a", "a", "") }.parts().is_err());
    }

    #[test]
    fn a_user_may_be_called_as_another_page_is() {
        for user in ["new", "of", "~new", "a/b", ".", ""] {
            let path = path_of(user);
            let part = crate::format::unescape(path.strip_prefix("/users/").unwrap()).unwrap();
            assert_eq!(crate::format::group_of_part(&part), user);
            assert!(!["new", "of"].contains(&part.as_str()), "{path}");
        }
    }

    #[test]
    fn a_user_has_a_name() {
        assert!(is_user("alice") && is_user("ä b") && !is_user("") && !is_user("a\nb") && !is_user(&"a".repeat(256)));
    }
}
