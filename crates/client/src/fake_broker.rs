//! A broker for tests of security: says which versions it speaks, lets users in or not, and knows an empty cluster.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use ring::{hmac, pbkdf2};
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
const SALT: &[u8] = b"salt";

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
                    let token = str::from_utf8(&token).unwrap();
                    let response = self.authenticate(token, &mut scram);
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

    fn authenticate(&self, token: &str, scram: &mut Option<String>) -> SaslAuthenticateResponse {
        let accepted = |auth_bytes: String| SaslAuthenticateResponse {
            auth_bytes: auth_bytes.into(),
            session_lifetime_ms: self.session_lifetime_ms,
            ..Default::default()
        };
        if let Some(first) = token.strip_prefix("n,,") {
            let (_, nonce) = first.split_once(",r=").unwrap();
            let challenge = format!("r={nonce}+mine,s={},i=4096", STANDARD.encode(SALT));
            *scram = Some(format!("{first},{challenge}"));
            return accepted(challenge);
        }
        if let Some(begun) = scram {
            let (without_proof, _) = token.rsplit_once(",p=").unwrap();
            return accepted(format!("v={}", self.signature(&format!("{begun},{without_proof}"))));
        }
        match token == format!("\0{USER}\0{PASSWORD}") {
            true => accepted(String::new()),
            false => SaslAuthenticateResponse {
                error_code: ErrorCode::SASL_AUTHENTICATION_FAILED,
                error_message: Some("Authentication failed: Invalid username or password".to_owned()),
                ..Default::default()
            },
        }
    }

    /// What proves to a client that the broker knows the password.
    fn signature(&self, signed: &str) -> String {
        let password = if self.is_impostor { "a guess" } else { PASSWORD };
        let mut salted = [0; 32];
        let iterations = 4096.try_into().unwrap();
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, SALT, password.as_bytes(), &mut salted);
        let sign = |key: &[u8], data: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data);
        let key = sign(&salted, b"Server Key");
        STANDARD.encode(sign(key.as_ref(), signed.as_bytes()))
    }
}

fn answer<R: Request>(out: &mut BytesMut, header: &RequestHeader, response: &R::Response) {
    write_response(out, &R::API, header.api_version, header.correlation_id, response).expect("the response is small");
}
