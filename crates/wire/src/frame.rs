//! Frames: the length prefix, and the headers of requests and responses.

use bytes::{BufMut, Bytes, BytesMut};

use crate::api::{self, Api, Request};
use crate::codec::{Reader, Result, Splice, Wire, WireError, Writer};

/// The header of a request. The API key and version come first and decide the form of the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    pub api_key: i16,
    pub api_version: i16,
    /// Chosen by the client, returned with the response.
    pub correlation_id: i32,
    pub client_id: Option<String>,
}

impl RequestHeader {
    /// Reads the header and leaves the reader in the body's version, or fails with
    /// [`WireError::UnsupportedVersion`] when the table does not have the API or the version. A version of ApiVersions
    /// that is too new is not an error: its header is read as far as it is the same in every version, since the client
    /// is owed an answer (KIP-511).
    pub fn read(r: &mut Reader<'_>) -> Result<Self> {
        r.set_version(0, false);
        let key = i16::read(r)?;
        let version = i16::read(r)?;
        let api = api::find(key).ok_or(WireError::UnsupportedVersion { key, version })?;
        let correlation_id = i32::read(r)?;
        let supported = api.versions.contains(&version);
        if !supported && !is_api_versions(api) {
            return Err(WireError::UnsupportedVersion { key, version });
        }
        // The client id kept its old form when headers became flexible.
        let client_id = Option::read(r)?;
        r.set_version(version, api.flexible(version));
        if supported && r.flexible() {
            r.tagged_fields(|_, _| Ok(false))?;
        }
        Ok(Self { api_key: key, api_version: version, correlation_id, client_id })
    }
}

fn is_api_versions(api: &Api) -> bool {
    api.key == api::api_versions::ApiVersionsRequest::API.key
}

/// Appends a whole request frame, length prefix included.
pub fn write_request<R: Request>(out: &mut BytesMut, version: i16, correlation_id: i32, client_id: &str, request: &R) {
    framed(out, |out| {
        let mut w = Writer::new(out, 0, false);
        R::API.key.write(&mut w);
        version.write(&mut w);
        correlation_id.write(&mut w);
        Some(client_id.to_owned()).write(&mut w);
        if R::API.flexible(version) {
            w.unsigned_varint(0);
        }
        w.set_version(version, R::API.flexible(version));
        request.write(&mut w);
        w.into_splices()
    });
}

/// Appends a whole response frame, length prefix included. The length counts the bytes of the returned splices, which
/// the caller sends at their places.
pub fn write_response<R: Wire>(
    out: &mut BytesMut,
    api: &Api,
    version: i16,
    correlation_id: i32,
    body: &R,
) -> Vec<Splice> {
    framed(out, |out| {
        let mut w = Writer::new(out, version, api.flexible(version));
        correlation_id.write(&mut w);
        if api.flexible_response_header(version) {
            w.unsigned_varint(0);
        }
        body.write(&mut w);
        w.into_splices()
    })
}

fn framed(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> Vec<Splice>) -> Vec<Splice> {
    let start = out.len();
    out.put_i32(0);
    let splices = write(out);
    let elsewhere: usize = splices.iter().map(|splice| splice.length as usize).sum();
    let length = out.len() - start - 4 + elsewhere;
    let length = i32::try_from(length).expect("a frame is shorter than 2 GiB");
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    splices
}

/// Reads the body of a message whose header has been read. Bytes that follow it are ignored: Kafka serves clients that
/// send some.
pub fn read_body<T: Wire>(r: &mut Reader<'_>) -> Result<T> {
    T::read(r)
}

/// Reads a response frame without its length prefix: the correlation id and the body.
pub fn read_response<R: Request>(frame: &Bytes, version: i16) -> Result<(i32, R::Response)> {
    let mut r = Reader::new(frame, version, R::API.flexible(version));
    let correlation_id = i32::read(&mut r)?;
    if R::API.flexible_response_header(version) {
        r.tagged_fields(|_, _| Ok(false))?;
    }
    Ok((correlation_id, read_body(&mut r)?))
}
