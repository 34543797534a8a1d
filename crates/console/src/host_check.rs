//! Under which names the console is asked for.
//!
//! A page from elsewhere that a browser shows may point its own name at this machine and then read what is here as if
//! it were its own (DNS rebinding). It cannot hide that name, which stands in the request. An address is no such name.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::Console;

/// The names that are answered, besides addresses and localhost.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Vec<String>);

impl Hosts {
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().collect())
    }

    /// Whether the `Host` of a request is one of ours. A port may stand behind it.
    fn contains(&self, host: &str) -> bool {
        let name = without_port(host);
        let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
        address.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.0.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !name.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            // An IPv6 address without brackets has colons of its own, and no port.
            if name.contains(':') && !name.ends_with(']') { host } else { name }
        }
        _ => host,
    }
}

pub(crate) async fn check(State(console): State<Arc<Console>>, request: Request, next: Next) -> Response {
    // HTTP/1.1 has exactly one; the target of a request may name another, which counts for nobody here.
    let mut named = request.headers().get_all(header::HOST).iter();
    let is_ours = match (named.next(), named.next()) {
        (Some(host), None) => host.to_str().is_ok_and(|host| console.options.hosts.contains(host)),
        _ => false,
    };
    if is_ours {
        return next.run(request).await;
    }
    let reason = "this host name is not known here: ask by address, or name it in --console\n";
    (StatusCode::MISDIRECTED_REQUEST, reason).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_own_names_are_answered() {
        let hosts = Hosts::new(["Broker1.example.com".to_owned()]);
        for ours in [
            "127.0.0.1:9644",
            "127.0.0.1",
            "10.1.2.3:80",
            "[::1]:9644",
            "[::1]",
            "localhost:9644",
            "LOCALHOST",
            "broker1.example.com:9644",
            "broker1.EXAMPLE.com",
        ] {
            assert!(hosts.contains(ours), "{ours}");
        }
        for foreign in [
            "",
            ":9644",
            "evil.example",
            "localhost.evil.example:9644",
            "127.0.0.1.evil.example",
            "example.com",
            "local",
        ] {
            assert!(!hosts.contains(foreign), "{foreign}");
        }
    }
}
