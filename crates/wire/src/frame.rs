//! Frames: the length prefix, and the headers of requests and responses.

use bytes::{BufMut, Bytes, BytesMut};

use crate::ErrorCode;
use crate::api::{self, Api, Request};
use crate::codec::{Reader, Result, Splice, ThrottleTime, Wire, WireError, Writer};

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
        r.limit_elements(api.elements_max);
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
    let framed = framed(out, |out| {
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
    framed.expect("a request of our own is shorter than 2 GiB");
}

/// The longest response, without what it has from elsewhere. The largest cluster's metadata is a tenth of it, and
/// librdkafka takes no more (`receive.message.max.bytes`).
pub const RESPONSE_BYTES_MAX: usize = 100_000_000;

/// A response is longer than [`RESPONSE_BYTES_MAX`], or than a frame can be. The connection has to be closed: there is
/// no other way to say so that every API has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a response of {0} has more than {RESPONSE_BYTES_MAX} bytes: ask for less at once")]
pub struct ResponseTooLarge(pub &'static str);

/// What a response has besides the bytes that were written.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The length of the frame counts their bytes, which the caller sends at their places.
    pub splices: Vec<Splice>,
    /// The errors that it tells of.
    pub errors: Vec<ErrorCode>,
    /// Where it says how long its client is throttled, if it has a field for that.
    pub throttle_time: Option<ThrottleTime>,
}

/// Appends a whole response frame, length prefix included. A frame that would be too large leaves the buffer as it was.
pub fn write_response<R: Wire>(
    out: &mut BytesMut,
    api: &Api,
    version: i16,
    correlation_id: i32,
    body: &R,
) -> std::result::Result<Written, ResponseTooLarge> {
    let start = out.len();
    let (mut errors, mut throttle_time) = (Vec::new(), None);
    let mut is_overflown = false;
    let framed = framed(out, |out| {
        let mut w = Writer::new(out, version, api.flexible(version));
        w.limit_bytes(RESPONSE_BYTES_MAX);
        correlation_id.write(&mut w);
        if api.flexible_response_header(version) {
            w.unsigned_varint(0);
        }
        body.write(&mut w);
        is_overflown = w.is_overflown();
        (errors, throttle_time) = (w.take_errors(), w.throttle_time());
        w.into_splices()
    });
    match framed {
        Some(splices) if !is_overflown => Ok(Written { splices, errors, throttle_time }),
        _ => {
            out.truncate(start);
            Err(ResponseTooLarge(api.name))
        }
    }
}

/// `None` if that is longer than a frame can be.
fn framed(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> Vec<Splice>) -> Option<Vec<Splice>> {
    let start = out.len();
    out.put_i32(0);
    let splices = write(out);
    let elsewhere: usize = splices.iter().map(|splice| splice.length as usize).sum();
    let length = i32::try_from(out.len() - start - 4 + elsewhere).ok()?;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Some(splices)
}

/// Reads the body of a request without a header of its own, such as a forwarded one.
pub fn read_request<R: Request>(body: &Bytes, version: i16) -> Result<R> {
    let mut r = Reader::new(body, version, R::API.flexible(version));
    r.limit_elements(R::API.elements_max);
    R::read(&mut r)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Records;
    use crate::api::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
    use crate::api::fetch::{FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData};
    use crate::api::metadata::{MetadataRequest, MetadataResponse};

    fn header(bytes: &[u8]) -> Result<RequestHeader> {
        RequestHeader::read(&mut Reader::new(&Bytes::copy_from_slice(bytes), 0, false))
    }

    #[test]
    fn requests_are_read_back_in_every_version() {
        for version in MetadataRequest::API.versions {
            let mut out = BytesMut::new();
            write_request(&mut out, version, 7, "me", &MetadataRequest::default());
            let frame = out.freeze();
            assert_eq!(frame[..4], i32::to_be_bytes(frame.len() as i32 - 4));
            let frame = frame.slice(4..);
            let mut r = Reader::new(&frame, 0, false);
            let expected =
                RequestHeader { api_key: 3, api_version: version, correlation_id: 7, client_id: Some("me".into()) };
            assert_eq!(RequestHeader::read(&mut r), Ok(expected));
            assert!(read_body::<MetadataRequest>(&mut r).is_ok());
            assert_eq!(r.finish(), Ok(()), "{version}");
        }
    }

    #[test]
    fn what_is_not_served_is_an_error() {
        assert_eq!(header(&[3, 231, 0, 0]), Err(WireError::UnsupportedVersion { key: 999, version: 0 }));
        assert_eq!(header(&[0xff, 0xff, 0, 0]), Err(WireError::UnsupportedVersion { key: -1, version: 0 }));
        let metadata = [0, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff];
        assert_eq!(header(&metadata), Err(WireError::UnsupportedVersion { key: 3, version: 99 }));
        assert_eq!(header(&metadata[..3]), Err(WireError::Truncated));
    }

    #[test]
    fn a_newer_api_versions_request_gets_a_header() {
        // In the flexible form: the tagged fields and the body are not looked at.
        let bytes = [0, 18, 0, 99, 0, 0, 0, 5, 0, 1, b'c', 0, 77, 77];
        let expected = RequestHeader { api_key: 18, api_version: 99, correlation_id: 5, client_id: Some("c".into()) };
        assert_eq!(header(&bytes), Ok(expected));
    }

    #[test]
    fn unknown_tagged_fields_of_a_header_are_skipped() {
        let mut bytes = vec![0, 18, 0, 3, 0, 0, 0, 5, 0xff, 0xff, 1, 9, 2, b'x', b'y'];
        let read = header(&bytes).unwrap();
        assert_eq!((read.client_id, read.api_version), (None, 3));
        bytes.truncate(13);
        assert_eq!(header(&bytes), Err(WireError::Truncated));
    }

    #[test]
    fn an_api_versions_response_has_the_old_header() {
        let mut out = BytesMut::new();
        write_response(&mut out, &ApiVersionsRequest::API, 3, 5, &ApiVersionsResponse::default()).unwrap();
        // Length, correlation id, error code, an empty compact array, throttle time, no tagged fields.
        assert_eq!(out[..], [0, 0, 0, 12, 0, 0, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0]);
        let frame = out.freeze().slice(4..);
        assert_eq!(read_response::<ApiVersionsRequest>(&frame, 3).map(|(id, _)| id), Ok(5));
    }

    #[test]
    fn a_response_tells_its_errors() {
        let partition = |error_code| PartitionData { error_code, ..Default::default() };
        let codes = [ErrorCode::NOT_LEADER_OR_FOLLOWER, ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION];
        let topic = FetchableTopicResponse { partitions: codes.map(partition).into(), ..Default::default() };
        let response = FetchResponse { responses: vec![topic], ..Default::default() };
        let written = write_response(&mut BytesMut::new(), &FetchRequest::API, 12, 1, &response).unwrap();
        assert_eq!(written.errors, [ErrorCode::NOT_LEADER_OR_FOLLOWER, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION]);
    }

    #[test]
    fn a_response_tells_where_its_throttle_time_is() {
        let response = |throttle_time_ms| FetchResponse { throttle_time_ms, ..Default::default() };
        for version in FetchRequest::API.versions {
            let write = |throttle_time_ms| {
                let mut out = BytesMut::from(&b"before"[..]);
                let written = write_response(&mut out, &FetchRequest::API, version, 1, &response(throttle_time_ms));
                (out, written.unwrap().throttle_time.unwrap())
            };
            let ((mut out, at), (expected, told)) = (write(0), write(1234));
            assert_eq!((at.ms, told.ms, at.position), (0, 1234, told.position));
            out[at.position..at.position + 4].copy_from_slice(&1234i32.to_be_bytes());
            assert_eq!(out, expected, "{version}");
        }
        // Metadata has no such field before version 3.
        let written = |version| {
            let response = MetadataResponse::default();
            write_response(&mut BytesMut::new(), &MetadataRequest::API, version, 1, &response).unwrap()
        };
        assert_eq!(written(2).throttle_time, None);
        assert!(written(3).throttle_time.is_some());
    }

    #[test]
    fn records_from_elsewhere_leave_a_gap() {
        let partition = |records| PartitionData { records: Some(records), ..Default::default() };
        let response = |partitions| FetchResponse {
            responses: vec![FetchableTopicResponse { topic: "t".into(), partitions, ..Default::default() }],
            ..Default::default()
        };
        let inline = Bytes::from_static(b"records");
        for version in FetchRequest::API.versions {
            let mut expected = BytesMut::from(&b"before"[..]);
            let whole =
                response(vec![partition(Records::Inline(inline.clone())), partition(Records::Inline(inline.clone()))]);
            let written = write_response(&mut expected, &FetchRequest::API, version, 1, &whole).unwrap();
            assert_eq!(written.splices, []);
            let mut out = BytesMut::from(&b"before"[..]);
            let gaps = response(vec![partition(Records::Elsewhere(7)), partition(Records::Elsewhere(7))]);
            let splices = write_response(&mut out, &FetchRequest::API, version, 1, &gaps).unwrap().splices;
            assert_eq!(splices.len(), 2);
            let mut filled = BytesMut::new();
            let mut from = 0;
            for splice in splices {
                filled.put_slice(&out[from..splice.position]);
                filled.put_slice(&inline[..splice.length as usize]);
                from = splice.position;
            }
            filled.put_slice(&out[from..]);
            assert_eq!(filled, expected, "{version}");
        }
    }

    #[test]
    fn a_response_that_is_too_large_is_an_error() {
        let response = |bytes: usize, elsewhere: u32| {
            let partition = |records| PartitionData { records: Some(records), ..Default::default() };
            let partitions =
                vec![partition(Records::Inline(vec![0; bytes].into())), partition(Records::Elsewhere(elsewhere))];
            let responses = vec![FetchableTopicResponse { partitions, ..Default::default() }];
            FetchResponse { responses, ..Default::default() }
        };
        let written = |response| {
            let mut out = BytesMut::from(&b"before"[..]);
            let written = write_response(&mut out, &FetchRequest::API, 12, 1, &response).map(|_| ());
            assert!(written.is_ok() || out[..] == b"before"[..]);
            written
        };
        assert_eq!(written(response(RESPONSE_BYTES_MAX - 1000, 1 << 30)), Ok(()));
        assert_eq!(written(response(RESPONSE_BYTES_MAX, 0)), Err(ResponseTooLarge("Fetch")));
        assert_eq!(written(response(0, i32::MAX as u32)), Err(ResponseTooLarge("Fetch")));
    }

    #[test]
    fn a_request_has_as_many_elements_as_its_api_allows() {
        let request = |count| MetadataRequest { topics: Some(vec![Default::default(); count]), ..Default::default() };
        let read = |count| {
            let mut out = BytesMut::new();
            write_request(&mut out, 12, 7, "me", &request(count));
            let frame = out.freeze().slice(4..);
            let mut r = Reader::new(&frame, 0, false);
            RequestHeader::read(&mut r)?;
            let read: MetadataRequest = read_body(&mut r)?;
            let mut body = BytesMut::new();
            read.write(&mut Writer::new(&mut body, 12, true));
            read_request::<MetadataRequest>(&body.freeze(), 12).map(|read| read.topics.unwrap().len())
        };
        let max = MetadataRequest::API.elements_max;
        assert_eq!(read(max), Ok(max));
        assert_eq!(read(max + 1), Err(WireError::TooManyElements));
    }
}
