//! Changes are made for our own pages only, and no page is more than it seems.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// No script or style but our own, nothing from elsewhere, in nobody's layout.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                                       connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// A stricter policy for referrers would have browsers send `Origin: null` with our own forms.
const HEADERS: [(HeaderName, &str); 4] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
];

/// Refuses what would change something and was sent by another origin's page: a browser says whose it is.
pub(crate) async fn check(request: Request, next: Next) -> Response {
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD);
    if is_safe || is_same_origin(&request) {
        return next.run(request).await;
    }
    let reason = "this was sent by a page of another origin: changes are made from the console's own pages only\n";
    (StatusCode::FORBIDDEN, reason).into_response()
}

fn is_same_origin(request: &Request) -> bool {
    let header = |name| request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    match (header(header::ORIGIN), header(header::HOST)) {
        (Some(origin), Some(host)) => origin.parse::<Uri>().is_ok_and(|origin| {
            origin.authority().is_some_and(|authority| authority.as_str().eq_ignore_ascii_case(host))
        }),
        // Browsers name the origin of all that is not GET or HEAD. What has none is no browser, and acts for itself.
        (None, _) => header(HeaderName::from_static("sec-fetch-site")).is_none_or(|site| site == "same-origin"),
        (Some(_), None) => false,
    }
}

/// Says with each answer what a browser may do with it. Answers that say it themselves are left alone.
pub(crate) async fn protect(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn a_change_comes_from_an_own_page_or_from_no_browser() {
        let is_own = |headers: &[(&str, &str)]| {
            let mut request = Request::post("/");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            is_same_origin(&request.body(Body::empty()).unwrap())
        };
        let host = ("host", "localhost:9644");
        assert!(is_own(&[host]));
        assert!(is_own(&[host, ("origin", "http://localhost:9644")]));
        assert!(is_own(&[host, ("sec-fetch-site", "same-origin")]));
        for foreign in
            ["http://localhost:8080", "http://evil.example", "null", "", "http://localhost:9644.evil.example"]
        {
            assert!(!is_own(&[host, ("origin", foreign)]), "{foreign}");
        }
        assert!(!is_own(&[host, ("sec-fetch-site", "cross-site")]));
        assert!(!is_own(&[host, ("sec-fetch-site", "same-site")]));
    }
}
