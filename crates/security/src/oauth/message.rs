//! What a client and a server of OAUTHBEARER say to each other (RFC 7628, `OAuthBearerClientInitialResponse`).
//!
//! Behaviour:
//! - The client's message is `n,[a=NAME],\x01auth=Bearer TOKEN\x01[KEY=VALUE\x01]...\x01`. Keys are letters, values are
//!   printable, with spaces, tabs and line ends. Extensions beside `auth` mean nothing; `auth` is there once.
//! - Channel binding (`y`, `p=`) is refused: the server offers none.
//! - A token that is no good is answered by [`FAILURE`], upon which the client says [`ACKNOWLEDGEMENT`] and is refused.

use crate::{Secret, sasl_name};

pub const MESSAGE_BYTES_MAX: usize = 32 * 1024;
/// What a client is told of a token that is no good, whatever the reason (`OAuthBearerSaslServer`).
pub const FAILURE: &str = r#"{"status":"invalid_token"}"#;
/// What a client says to that.
pub const ACKNOWLEDGEMENT: &[u8] = &[SEPARATOR as u8];

const SEPARATOR: char = '\x01';
const AUTH: &str = "auth";
const SCHEME: &str = "bearer";

/// Why a message is refused, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    #[error("the message is larger than {MESSAGE_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the message is none of OAUTHBEARER")]
    Malformed,
    #[error("the message has no bearer token")]
    NoToken,
}

type Result<T> = std::result::Result<T, MessageError>;

/// The client's message.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientFirst {
    /// Whom the client wants to act as, where it says so.
    pub authorization_id: Option<String>,
    pub token: Secret,
}

impl ClientFirst {
    pub fn read(message: &[u8]) -> Result<Self> {
        let message = text(message)?;
        let rest = message.strip_prefix("n,").ok_or(MessageError::Malformed)?;
        let (authorization_id, rest) = rest.split_once(',').ok_or(MessageError::Malformed)?;
        let authorization_id = match authorization_id {
            "" => None,
            name => {
                let name = name.strip_prefix("a=").and_then(sasl_name::unescape);
                Some(name.ok_or(MessageError::Malformed)?)
            }
        };
        let pairs = rest.strip_prefix(SEPARATOR).and_then(|rest| rest.strip_suffix(SEPARATOR));
        let mut pairs = pairs.ok_or(MessageError::Malformed)?;
        let mut token = None;
        while !pairs.is_empty() {
            let (pair, rest) = pairs.split_once(SEPARATOR).ok_or(MessageError::Malformed)?;
            let (key, value) = pair.split_once('=').filter(is_pair).ok_or(MessageError::Malformed)?;
            if key == AUTH && token.replace(bearer_token(value)?).is_some() {
                return Err(MessageError::Malformed);
            }
            pairs = rest;
        }
        Ok(Self { authorization_id, token: token.ok_or(MessageError::NoToken)? })
    }
}

/// The message of a client with this token.
pub fn client_first(token: &Secret) -> String {
    format!("n,,{SEPARATOR}{AUTH}=Bearer {}{SEPARATOR}{SEPARATOR}", token.expose())
}

/// All that messages have is ASCII without NUL.
fn text(message: &[u8]) -> Result<&str> {
    if message.len() > MESSAGE_BYTES_MAX {
        return Err(MessageError::TooLarge);
    }
    let is_text = message.is_ascii() && !message.contains(&0);
    str::from_utf8(message).ok().filter(|_| is_text).ok_or(MessageError::Malformed)
}

fn is_pair((key, value): &(&str, &str)) -> bool {
    let is_of_value = |byte: u8| byte.is_ascii_graphic() || b" \t\r\n".contains(&byte);
    !key.is_empty()
        && key.bytes().all(|byte| byte.is_ascii_alphabetic())
        && !value.is_empty()
        && value.bytes().all(is_of_value)
}

fn bearer_token(value: &str) -> Result<Secret> {
    let (scheme, token) = value.split_once(' ').ok_or(MessageError::NoToken)?;
    let token = token.trim_start_matches(' ');
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if scheme.eq_ignore_ascii_case(SCHEME) && !token.is_empty() && token.bytes().all(is_token) {
        Ok(Secret::new(token.to_owned()))
    } else {
        Err(MessageError::NoToken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &str) -> Result<(Option<String>, String)> {
        let first = ClientFirst::read(message.as_bytes())?;
        Ok((first.authorization_id, first.token.expose().clone()))
    }

    #[test]
    fn a_token_comes_with_or_without_more() {
        let token = |authorization_id: Option<&str>| Ok((authorization_id.map(str::to_owned), "a.b-_9.c".to_owned()));
        assert_eq!(read("n,,\x01auth=Bearer a.b-_9.c\x01\x01"), token(None));
        assert_eq!(read("n,a=al=2Cice,\x01auth=bEARER   a.b-_9.c\x01\x01"), token(Some("al,ice")));
        assert_eq!(read("n,,\x01host=x y=\tz\x01auth=Bearer a.b-_9.c\x01port=1\x01\x01"), token(None));
    }

    #[test]
    fn what_a_client_writes_a_server_reads() {
        let token = Secret::new("a.b-_9.c".to_owned());
        let first = ClientFirst::read(client_first(&token).as_bytes()).unwrap();
        assert_eq!((first.token, first.authorization_id), (token, None));
    }

    #[test]
    fn all_else_is_refused() {
        use MessageError::*;
        for (message, reason) in [
            ("", Malformed),
            ("\x01", Malformed),
            ("n", Malformed),
            ("n,", Malformed),
            ("n,,", Malformed),
            ("n,,\x01", Malformed),
            ("n,,\x01\x01", NoToken),
            ("y,,\x01auth=Bearer a\x01\x01", Malformed),
            ("p=tls-unique,,\x01auth=Bearer a\x01\x01", Malformed),
            ("n,alice,\x01auth=Bearer a\x01\x01", Malformed),
            ("n,a=,\x01auth=Bearer a\x01\x01", Malformed),
            ("n,a=x=2D,\x01auth=Bearer a\x01\x01", Malformed),
            ("n,,\x01auth=Bearer a\x01", Malformed),
            ("n,,auth=Bearer a\x01\x01", Malformed),
            ("n,,\x01auth=Bearer a\x01\x01\x01", Malformed),
            ("n,,\x01auth=Bearer a\x01\x01x", Malformed),
            ("n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01", Malformed),
            ("n,,\x01auth=Bearer a\x01k1=v\x01\x01", Malformed),
            ("n,,\x01auth=Bearer a\x01k=\x01\x01", Malformed),
            ("n,,\x01auth=Bearer a\x01k\x01\x01", Malformed),
            ("n,,\x01auth=Bearer \u{e9}\x01\x01", Malformed),
            ("n,,\x01auth=Bearer a\0\x01\x01", Malformed),
            ("n,,\x01auth=Basic a\x01\x01", NoToken),
            ("n,,\x01auth=Bearer\x01\x01", NoToken),
            ("n,,\x01auth=Bearer \x01\x01", NoToken),
            ("n,,\x01auth=Bearer a b\x01\x01", NoToken),
            ("n,,\x01auth=Bearer a+b\x01\x01", NoToken),
            ("n,,\x01k=v\x01\x01", NoToken),
        ] {
            assert_eq!(read(message), Err(reason), "{message:?}");
        }
        let long = format!("n,,\x01auth=Bearer {}\x01\x01", "a".repeat(MESSAGE_BYTES_MAX));
        assert_eq!(read(&long), Err(TooLarge));
    }

    #[test]
    fn a_token_is_not_shown() {
        let first = ClientFirst::read(b"n,,\x01auth=Bearer secret\x01\x01").unwrap();
        assert!(!format!("{first:?}").contains("secret"));
    }
}
