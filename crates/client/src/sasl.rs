//! SASL: who uses a connection, and how it is proved (KIP-43). [`crate::connection`] speaks of it with the broker.

mod tokens;

use security::jaas::{self, Login};
use security::tls::StoreConfig;
use security::{Mechanism, Secret};

pub(crate) use self::tokens::{TokenError, TokenSource};
use crate::document::DocumentSource;
use crate::file::read_file;
use crate::security_error::SecurityError;

const TOKEN_URL: &str = "sasl.oauthbearer.token.endpoint.url";
const CLIENT_ID: &str = "sasl.oauthbearer.client.credentials.client.id";
const CLIENT_SECRET: &str = "sasl.oauthbearer.client.credentials.client.secret";
const SCOPE: &str = "sasl.oauthbearer.scope";

/// What is set for OAUTHBEARER beside the login module.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OAuthConfig {
    token_url: Option<String>,
    client_id: Option<Secret>,
    client_secret: Option<Secret>,
    scope: Option<Secret>,
}

impl OAuthConfig {
    /// Sets what Kafka calls `name`. Returns whether the name is one of these.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> bool {
        let secret = || Some(Secret::new(value.to_owned()));
        match name {
            TOKEN_URL => self.token_url = Some(value.to_owned()),
            CLIENT_ID => self.client_id = secret(),
            CLIENT_SECRET => self.client_secret = secret(),
            SCOPE => self.scope = secret(),
            _ => return false,
        }
        true
    }
}

/// Who we are.
#[derive(Debug, PartialEq)]
pub(crate) struct Credentials {
    pub(crate) mechanism: Mechanism,
    /// With tokens who gets them, and by which secret.
    pub(crate) username: String,
    pub(crate) password: Secret,
    /// With OAUTHBEARER.
    pub(crate) tokens: Option<TokenSource>,
}

fn wrong(reason: String) -> SecurityError {
    SecurityError::Jaas { reason }
}

impl Credentials {
    /// As a person types them.
    pub(crate) fn typed(mechanism: &str, username: &str, password: &str) -> Result<Self, SecurityError> {
        let unknown = || SecurityError::Mechanism { mechanism: mechanism.to_owned() };
        // Nobody types a token.
        let is_typed = |mechanism: &Mechanism| *mechanism != Mechanism::OAuthBearer;
        let mechanism = Mechanism::from_name(mechanism).filter(is_typed).ok_or_else(unknown)?;
        for (what, text) in [("user", username), ("password", password)] {
            if text.is_empty() || text.chars().any(char::is_control) {
                return Err(SecurityError::Login { what });
            }
        }
        let password = Secret::new(password.to_owned());
        Ok(Self { mechanism, username: username.to_owned(), password, tokens: None })
    }

    /// By `sasl.mechanism`, `sasl.jaas.config` and what there is for OAUTHBEARER.
    pub(crate) fn new(mechanism: &str, config: &str, oauth: &OAuthConfig) -> Result<Self, SecurityError> {
        let unknown = || SecurityError::Mechanism { mechanism: mechanism.to_owned() };
        let mechanism = Mechanism::from_name(mechanism).ok_or_else(unknown)?;
        let module = mechanism.login_module();
        let mut login = jaas::parse(config).map_err(|reason| wrong(reason.to_string()))?;
        if login.module_name() != module {
            return Err(wrong(format!("is for {}; {} needs {module}", login.module, mechanism.name())));
        }
        if mechanism == Mechanism::OAuthBearer {
            return Self::with_tokens(&login, oauth);
        }
        if login.options.get("tokenauth").is_some_and(|value| value.expose() == "true") {
            return Err(wrong("has tokenauth=true; delegation tokens are not there".to_owned()));
        }
        let mut take = |name: &str| {
            let value = login.options.remove(name).ok_or_else(|| wrong(format!("has no {name}")))?;
            match value.expose().chars().any(char::is_control) {
                true => Err(wrong(format!("has a control character in its {name}"))),
                false => Ok(value),
            }
        };
        let (username, password) = (take("username")?.expose().clone(), take("password")?);
        Ok(Self { mechanism, username, password, tokens: None })
    }

    /// The server of tokens is trusted by the truststore among the options, where there is one (`JaasOptionsUtils`).
    /// Who we are is a setting, or an option, as it was before KIP-1139.
    fn with_tokens(login: &Login, oauth: &OAuthConfig) -> Result<Self, SecurityError> {
        let missing = |name| SecurityError::Missing { name, because: "OAUTHBEARER" };
        let mut stores = StoreConfig::default();
        for (name, value) in &login.options {
            stores.set(name, value.expose());
        }
        let trusted = stores.trusted(&read_file)?.map(|trusted| trusted.certificates);
        let url = oauth.token_url.as_deref().ok_or(missing(TOKEN_URL))?;
        let document = DocumentSource::new(url, trusted);
        let document = document.map_err(|error| SecurityError::Url { name: TOKEN_URL, error })?;
        let said = |set: &Option<Secret>, option| set.clone().or_else(|| login.options.get(option).cloned());
        let scope = said(&oauth.scope, "scope").map(|scope| scope.expose().clone());
        let (username, password) = match document.is_file() {
            true => ("the owner of the token".to_owned(), Secret::new(String::new())),
            false => {
                let client_id = said(&oauth.client_id, "clientId").ok_or(missing(CLIENT_ID))?;
                let secret = said(&oauth.client_secret, "clientSecret").ok_or(missing(CLIENT_SECRET))?;
                (client_id.expose().clone(), secret)
            }
        };
        let tokens = Some(TokenSource::new(document, scope));
        Ok(Self { mechanism: Mechanism::OAuthBearer, username, password, tokens })
    }
}

#[cfg(test)]
mod tests;
