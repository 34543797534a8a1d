//! What the network to a broker can do: round trips of small requests, and how fast large ones arrive.
//!
//! The large requests are Produce requests for a topic that does not exist: a broker has to receive them whole, and
//! stores nothing.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use client::{Broker, ClientError, Connection, ConnectionConfig};
use tokio::time::Instant;
use wire::Records;
use wire::api::api_versions::ApiVersionsRequest;
use wire::api::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};

use crate::produce::PRODUCE_BY_TOPIC_ID;
use crate::stats::Tally;

/// Well below what a broker takes at once (`socket.request.max.bytes`).
const REQUEST_BYTES: usize = 512 * 1024;
const IN_FLIGHT: usize = 4;

#[derive(Clone, Copy, Debug)]
pub struct NetProbe {
    pub round_trips: u64,
    pub upload: Duration,
}

/// The results for one broker.
#[derive(Clone)]
pub struct NetResult {
    pub connect: Duration,
    pub round_trip: Tally,
    pub upload_bytes_per_s: f64,
}

/// Measures the way to one broker, on a connection of its own.
pub async fn probe_net(broker: &Broker, config: &ConnectionConfig, probe: NetProbe) -> Result<NetResult, ClientError> {
    let started = Instant::now();
    let connection = Connection::connect(&broker.address(), config).await?;
    let connect = started.elapsed();
    let mut round_trip = Tally::default();
    let version = connection.version::<ApiVersionsRequest>()?;
    let request = ApiVersionsRequest {
        client_software_name: "parshall".to_owned(),
        client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    for _ in 0..probe.round_trips {
        let before = Instant::now();
        connection.start_as(&request, version, config.request_timeout)?.await?;
        round_trip.record(before.elapsed().as_micros() as u64, 0);
    }
    let upload_bytes_per_s = upload(&connection, config, probe.upload).await?;
    Ok(NetResult { connect, round_trip, upload_bytes_per_s })
}

async fn upload(connection: &Connection, config: &ConnectionConfig, duration: Duration) -> Result<f64, ClientError> {
    let version = connection.version::<ProduceRequest>()?.min(PRODUCE_BY_TOPIC_ID - 1);
    let data = PartitionProduceData { index: 0, records: Some(Records::Inline(Bytes::from(vec![0; REQUEST_BYTES]))) };
    let name = format!("parshall-net-probe-{}", std::process::id());
    let topic = TopicProduceData { name, partition_data: vec![data], ..Default::default() };
    let request = ProduceRequest { acks: 1, timeout_ms: 1000, topic_data: vec![topic], ..Default::default() };
    let mut pending = VecDeque::new();
    let started = Instant::now();
    let mut bytes = 0;
    while started.elapsed() < duration {
        while pending.len() < IN_FLIGHT {
            pending.push_back(connection.start_as(&request, version, config.request_timeout)?);
        }
        if let Some(first) = pending.pop_front() {
            first.await?;
            bytes += REQUEST_BYTES;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    for left in pending {
        left.await?;
    }
    Ok(if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 })
}
