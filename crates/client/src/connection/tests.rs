//! A connection against a scripted broker at the other end of a pipe in memory.

use tokio::io::{DuplexStream, duplex};
use wire::api::api_versions::ApiVersion;
use wire::api::metadata::{MetadataRequest, MetadataResponse};
use wire::frame::{RequestHeader, write_response};

use super::*;

/// The broker's end of a connection: reads whole frames, writes what the test says.
struct Peer(DuplexStream);

impl Peer {
    async fn request(&mut self) -> (RequestHeader, Bytes) {
        let length = self.0.read_i32().await.unwrap();
        let mut frame = vec![0; length as usize];
        self.0.read_exact(&mut frame).await.unwrap();
        let frame = Bytes::from(frame);
        let header = RequestHeader::read(&mut Reader::new(&frame, 0, false)).unwrap();
        (header, frame)
    }

    async fn answer<R: Request>(&mut self, header: &RequestHeader, version: i16, response: &R::Response) {
        let mut out = BytesMut::new();
        write_response(&mut out, &R::API, version, header.correlation_id, response).expect("the response is small");
        self.0.write_all(&out).await.unwrap();
    }

    /// Says that it speaks Metadata up to version 5, and ApiVersions.
    async fn greet(&mut self) {
        let (header, _) = self.request().await;
        self.answer::<ApiVersionsRequest>(&header, header.api_version, &versions(ErrorCode::NONE, 3)).await;
    }
}

fn versions(error_code: ErrorCode, api_versions: i16) -> ApiVersionsResponse {
    let api = |api_key, max_version| ApiVersion { api_key, min_version: 0, max_version };
    // Key 99 is one that the table does not know, and may not disturb.
    let api_keys = vec![api(3, 5), api(18, api_versions), api(99, 1), api(-5, 1)];
    ApiVersionsResponse { error_code, api_keys, ..Default::default() }
}

fn config() -> ConnectionConfig {
    ConnectionConfig { in_flight_max: 3, response_bytes_max: 1000, ..Default::default() }
}

async fn connected() -> (Connection, Peer) {
    let (ours, theirs) = duplex(64 * 1024);
    let mut peer = Peer(theirs);
    let config = config();
    let (connection, ()) = tokio::join!(Connection::over(ours, "broker:9092", &config), peer.greet());
    (connection.unwrap(), peer)
}

fn response(controller_id: i32) -> MetadataResponse {
    MetadataResponse { controller_id, ..Default::default() }
}

#[tokio::test]
async fn agrees_on_the_highest_common_version() {
    let (connection, _peer) = connected().await;
    assert_eq!(connection.version::<MetadataRequest>(), Ok(5));
    let missing = connection.version::<wire::api::fetch::FetchRequest>();
    assert_eq!(missing, Err(ConnectionError::Unsupported { address: "broker:9092".to_owned(), api: "Fetch" }));
}

#[tokio::test]
async fn an_old_broker_is_asked_again_in_its_own_version() {
    let (ours, theirs) = duplex(64 * 1024);
    let mut peer = Peer(theirs);
    let old = async {
        let (header, _) = peer.request().await;
        assert_eq!(header.api_version, 4);
        peer.answer::<ApiVersionsRequest>(&header, 0, &versions(ErrorCode::UNSUPPORTED_VERSION, 2)).await;
        let (header, _) = peer.request().await;
        assert_eq!(header.api_version, 2);
        peer.answer::<ApiVersionsRequest>(&header, 2, &versions(ErrorCode::NONE, 2)).await;
    };
    let config = config();
    let (connection, ()) = tokio::join!(Connection::over(ours, "broker:9092", &config), old);
    assert_eq!(connection.unwrap().version::<MetadataRequest>(), Ok(5));
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let (connection, mut peer) = connected().await;
    let pending: Vec<_> = (0..3).map(|_| connection.start(&MetadataRequest::default()).unwrap()).collect();
    assert!(matches!(connection.start(&MetadataRequest::default()), Err(ConnectionError::Busy { .. })));
    let mut headers = Vec::new();
    for _ in 0..3 {
        headers.push(peer.request().await.0);
    }
    for (i, header) in headers.iter().enumerate() {
        peer.answer::<MetadataRequest>(header, 5, &response(i as i32)).await;
    }
    for (i, pending) in pending.into_iter().enumerate() {
        assert_eq!(pending.await.unwrap().controller_id, i as i32);
    }
}

#[tokio::test]
async fn an_encoded_frame_gets_its_own_correlation_id() {
    let (connection, mut peer) = connected().await;
    let mut frame = BytesMut::new();
    frame::write_request(&mut frame, 5, 12345, "encoded", &MetadataRequest::default());
    let first = connection.start_frame(&frame, Duration::from_secs(5)).unwrap();
    let second = connection.start_frame(&frame, Duration::from_secs(5)).unwrap();
    for (i, pending) in [first, second].into_iter().enumerate() {
        let (header, _) = peer.request().await;
        assert_ne!(header.correlation_id, 12345);
        peer.answer::<MetadataRequest>(&header, 5, &response(i as i32)).await;
        let (id, response) = frame::read_response::<MetadataRequest>(&pending.await.unwrap(), 5).unwrap();
        assert_eq!((id, response.controller_id), (header.correlation_id, i as i32));
    }
}

#[tokio::test]
async fn a_request_without_an_answer_does_not_disturb_the_order() {
    let (connection, mut peer) = connected().await;
    connection.post(&MetadataRequest::default(), 5).unwrap();
    let pending = connection.start(&MetadataRequest::default()).unwrap();
    peer.request().await;
    let (header, _) = peer.request().await;
    peer.answer::<MetadataRequest>(&header, 5, &response(7)).await;
    assert_eq!(pending.await.unwrap().controller_id, 7);
}

#[tokio::test]
async fn a_wrong_correlation_id_ends_the_connection() {
    let (connection, mut peer) = connected().await;
    let first = connection.start(&MetadataRequest::default()).unwrap();
    let second = connection.start(&MetadataRequest::default()).unwrap();
    peer.request().await;
    let (header, _) = peer.request().await;
    peer.answer::<MetadataRequest>(&header, 5, &response(1)).await;
    for pending in [first, second] {
        assert!(matches!(pending.await, Err(ConnectionError::OutOfOrder { .. })));
    }
    assert!(!connection.is_open());
    assert!(matches!(connection.send(&MetadataRequest::default()).await, Err(ConnectionError::OutOfOrder { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_silent_broker_costs_the_timeout_and_no_more() {
    let (connection, _peer) = connected().await;
    let start = Instant::now();
    let slow = connection.start_as(&MetadataRequest::default(), 5, Duration::from_secs(60)).unwrap();
    let quick = connection.start_as(&MetadataRequest::default(), 5, Duration::from_secs(2)).unwrap();
    assert_eq!(quick.await, Err(ConnectionError::Timeout { address: "broker:9092".to_owned() }));
    assert_eq!(slow.await, Err(ConnectionError::Timeout { address: "broker:9092".to_owned() }));
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_time_stops_the_clock() {
    let (connection, mut peer) = connected().await;
    for round in 0..3 {
        let pending = connection.start_as(&MetadataRequest::default(), 5, Duration::from_secs(10)).unwrap();
        let (header, _) = peer.request().await;
        tokio::time::sleep(Duration::from_secs(9)).await;
        peer.answer::<MetadataRequest>(&header, 5, &response(round)).await;
        assert_eq!(pending.await.unwrap().controller_id, round);
    }
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(connection.is_open());
}

#[tokio::test]
async fn what_is_no_kafka_frame_ends_the_connection() {
    for claimed in [-1, 0, 3, 1001, i32::from_be_bytes(*b"HTTP")] {
        let (connection, mut peer) = connected().await;
        let pending = connection.start(&MetadataRequest::default()).unwrap();
        peer.0.write_i32(claimed).await.unwrap();
        assert_eq!(pending.await, Err(ConnectionError::NotKafka { address: "broker:9092".to_owned(), claimed }));
    }
}

#[tokio::test]
async fn a_broker_that_goes_away_fails_what_waits() {
    let (connection, peer) = connected().await;
    let pending = connection.start(&MetadataRequest::default()).unwrap();
    drop(peer);
    assert_eq!(pending.await, Err(ConnectionError::Closed { address: "broker:9092".to_owned() }));
}

#[tokio::test]
async fn who_abandons_a_connection_has_the_others_wait_no_longer() {
    let (connection, mut peer) = connected().await;
    let pending = connection.start(&MetadataRequest::default()).unwrap();
    connection.abandon();
    assert_eq!(pending.await, Err(ConnectionError::Timeout { address: "broker:9092".to_owned() }));
    assert!(!connection.is_open());
    // The socket is closed although there is a handle.
    assert!(peer.0.read_to_end(&mut Vec::new()).await.is_ok());
}

#[tokio::test]
async fn the_last_handle_closes_after_the_last_answer() {
    let (connection, mut peer) = connected().await;
    let pending = connection.start(&MetadataRequest::default()).unwrap();
    drop(connection);
    let (header, _) = peer.request().await;
    peer.answer::<MetadataRequest>(&header, 5, &response(3)).await;
    assert_eq!(pending.await.unwrap().controller_id, 3);
    assert_eq!(peer.0.read(&mut [0]).await.unwrap(), 0);
}
