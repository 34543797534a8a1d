//! A broker for tests of security: says which versions it speaks, lets users in or not, and knows an empty cluster.

use std::num::NonZeroU32;

use bytes::{Bytes, BytesMut};
use security::oauth;
use security::plain::Users;
use security::scram::server::{ClientFirst, Login, UnknownUsers};
use security::scram::{Credential, Hash};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use wire::api::Request;
use wire::api::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
use wire::api::metadata::{MetadataRequest, MetadataResponse};
use wire::api::sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use wire::api::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};
use wire::frame::{RequestHeader, read_body, write_response};
use wire::{ErrorCode, Reader};

pub(crate) const USER: &str = "alice";
pub(crate) const PASSWORD: &str = "alice's secret";
const GOOD_TOKEN: &str = "good";
const ITERATIONS: u32 = 4096;
/// A proof that proves nothing.
const FORGED: &str = "v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

#[derive(Clone, Debug, Default)]
pub(crate) struct FakeBroker {
    /// Without any it does not speak SASL.
    pub(crate) mechanisms: Vec<&'static str>,
    pub(crate) session_lifetime_ms: i64,
    /// Whether it knows the passwords of its users.
    pub(crate) is_impostor: bool,
}

impl FakeBroker {
    /// Until the other side closes the connection.
    pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(self, mut stream: S) {
        let mut scram = None;
        while let Ok(length) = stream.read_i32().await {
            let mut frame = vec![0; length as usize];
            stream.read_exact(&mut frame).await.unwrap();
            let frame = Bytes::from(frame);
            let mut reader = Reader::new(&frame, 0, false);
            let header = RequestHeader::read(&mut reader).unwrap();
            let mut out = BytesMut::new();
            match header.api_key {
                18 => answer::<ApiVersionsRequest>(&mut out, &header, &self.versions()),
                17 => {
                    let mechanism = read_body::<SaslHandshakeRequest>(&mut reader).unwrap().mechanism;
                    let is_there = self.mechanisms.iter().any(|known| *known == mechanism);
                    let code = if is_there { ErrorCode::NONE } else { ErrorCode::UNSUPPORTED_SASL_MECHANISM };
                    let mechanisms = self.mechanisms.iter().map(|&name| name.to_owned()).collect();
                    let response = SaslHandshakeResponse { error_code: code, mechanisms };
                    answer::<SaslHandshakeRequest>(&mut out, &header, &response);
                }
                36 => {
                    let token = read_body::<SaslAuthenticateRequest>(&mut reader).unwrap().auth_bytes;
                    let response = self.authenticate(&token, &mut scram);
                    answer::<SaslAuthenticateRequest>(&mut out, &header, &response);
                }
                _ => answer::<MetadataRequest>(&mut out, &header, &MetadataResponse::default()),
            }
            stream.write_all(&out).await.unwrap();
            stream.flush().await.unwrap();
        }
    }

    fn versions(&self) -> ApiVersionsResponse {
        let api = |api_key, max_version| ApiVersion { api_key, min_version: 0, max_version };
        let mut api_keys = vec![api(3, 5), api(18, 4)];
        if !self.mechanisms.is_empty() {
            api_keys.extend([api(17, 1), api(36, 2)]);
        }
        ApiVersionsResponse { api_keys, ..Default::default() }
    }

    fn authenticate(&self, token: &[u8], scram: &mut Option<Login>) -> SaslAuthenticateResponse {
        let accepted = |auth_bytes: String| SaslAuthenticateResponse {
            auth_bytes: auth_bytes.into(),
            session_lifetime_ms: self.session_lifetime_ms,
            ..Default::default()
        };
        let refused = |message: String| SaslAuthenticateResponse {
            error_code: ErrorCode::SASL_AUTHENTICATION_FAILED,
            error_message: Some(message),
            ..Default::default()
        };
        if let Some(login) = scram.take() {
            return match login.finish(token) {
                Ok(proof) => accepted(proof.message),
                Err(_) if self.is_impostor => accepted(FORGED.to_owned()),
                Err(reason) => refused(reason.to_string()),
            };
        }
        if let Ok(first) = oauth::ClientFirst::read(token) {
            let is_good = first.token.expose() == GOOD_TOKEN;
            return accepted(if is_good { String::new() } else { oauth::FAILURE.to_owned() });
        }
        if token == oauth::ACKNOWLEDGEMENT {
            return refused(oauth::FAILURE.to_owned());
        }
        if let Ok(first) = ClientFirst::read(token) {
            let password = if self.is_impostor { "a guess" } else { PASSWORD };
            let iterations = NonZeroU32::new(ITERATIONS).unwrap();
            let credential = Credential::from_password(Hash::Sha256, password, b"salt".to_vec(), iterations);
            let credential = (first.username() == USER).then_some(&credential);
            let unknown = UnknownUsers::new(b"secret", ITERATIONS);
            let (login, challenge) = first.challenge(Hash::Sha256, credential, &unknown, "+mine");
            *scram = Some(login);
            return accepted(challenge);
        }
        let users = format!("PlainLoginModule required user_{USER}=\"{PASSWORD}\";");
        match Users::from_jaas(&users).unwrap().authenticate(token) {
            Ok(_) => accepted(String::new()),
            Err(reason) => refused(reason.to_string()),
        }
    }
}

fn answer<R: Request>(out: &mut BytesMut, header: &RequestHeader, response: &R::Response) {
    write_response(out, &R::API, header.api_version, header.correlation_id, response).expect("the response is small");
}
