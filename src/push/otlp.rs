//! OTLP over HTTP: a page as one ExportMetricsServiceRequest in protobuf.

use std::time::Duration;

use prost::Message;

use super::Source;
use super::otlp_messages::{
    AnyValue, Data, ExportMetricsServiceRequest, Gauge, Histogram, HistogramDataPoint, InstrumentationScope, KeyValue,
    Metric, NumberDataPoint, Resource, ResourceMetrics, ScopeMetrics, Sum,
};
use openmetrics::{Family, Kind, Labels, Sample};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const NANOS_PER_MS: u64 = 1_000_000;
/// `AggregationTemporality`: since the start of the process.
const CUMULATIVE: i32 = 2;

/// From when to when counters have counted.
#[derive(Clone, Copy)]
struct Span {
    start_nanos: u64,
    now_nanos: u64,
}

fn request(families: &[Family], source: &Source, now_ms: i64) -> ExportMetricsServiceRequest {
    let uptime = families.iter().find(|family| family.name == "parshall_uptime_seconds");
    let uptime_s = uptime.and_then(|family| family.samples.first()).map_or(0.0, |sample| sample.value);
    let now_nanos = now_ms.unsigned_abs() * NANOS_PER_MS;
    let span = Span { start_nanos: now_nanos.saturating_sub((uptime_s * 1e9) as u64), now_nanos };
    let who = [("service.name", "parshall"), ("service.version", VERSION)];
    let mut attributes: Vec<_> = who.iter().map(|(name, value)| attribute(name, value)).collect();
    attributes.push(attribute("service.instance.id", &source.node_id.to_string()));
    let scope = InstrumentationScope { name: "parshall".into(), version: VERSION.into() };
    let metrics = families.iter().map(|family| metric(family, source, span)).collect();
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource { attributes }),
            scope_metrics: vec![ScopeMetrics { scope: Some(scope), metrics }],
        }],
    }
}

fn metric(family: &Family, source: &Source, span: Span) -> Metric {
    let points = || family.samples.iter().map(|sample| point(sample, span)).collect();
    let aggregation_temporality = CUMULATIVE;
    let data = match family.kind {
        Kind::Gauge => Data::Gauge(Gauge { data_points: points() }),
        Kind::Counter => Data::Sum(Sum { data_points: points(), aggregation_temporality, is_monotonic: true }),
        Kind::Histogram => {
            Data::Histogram(Histogram { data_points: histograms(&family.samples, span), aggregation_temporality })
        }
    };
    let unit = match family.name.rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        _ => "",
    };
    Metric {
        name: format!("{}{}", source.prefix(), family.name),
        description: family.help.clone(),
        unit: unit.to_owned(),
        data: Some(data),
    }
}

fn point(sample: &Sample, span: Span) -> NumberDataPoint {
    NumberDataPoint {
        attributes: attributes(&sample.labels),
        start_time_unix_nano: span.start_nanos,
        time_unix_nano: span.now_nanos,
        as_double: Some(sample.value),
    }
}

/// The page has the samples of a histogram one behind the other, and its buckets add up.
fn histograms(samples: &[Sample], span: Span) -> Vec<HistogramDataPoint> {
    let is_bound = |(name, _): &&(String, String)| name == "le";
    let mut points: Vec<(Labels, HistogramDataPoint, u64)> = Vec::new();
    for sample in samples {
        let labels: Labels = sample.labels.iter().filter(|label| !is_bound(label)).cloned().collect();
        if points.last().is_none_or(|(last, ..)| *last != labels) {
            let point = HistogramDataPoint {
                attributes: attributes(&labels),
                start_time_unix_nano: span.start_nanos,
                time_unix_nano: span.now_nanos,
                ..Default::default()
            };
            points.push((labels, point, 0));
        }
        let Some((_, point, below)) = points.last_mut() else { continue };
        match sample.suffix.as_str() {
            "_sum" => point.sum = Some(sample.value),
            "_count" => point.count = sample.value as u64,
            _ => {
                let bound = sample.labels.iter().find(is_bound).and_then(|(_, bound)| bound.parse::<f64>().ok());
                point.explicit_bounds.extend(bound.filter(|bound| bound.is_finite()));
                point.bucket_counts.push((sample.value as u64).saturating_sub(*below));
                *below = sample.value as u64;
            }
        }
    }
    points.into_iter().map(|(_, point, _)| point).collect()
}

fn attributes(labels: &Labels) -> Vec<KeyValue> {
    labels.iter().map(|(name, value)| attribute(name, value)).collect()
}

fn attribute(name: &str, value: &str) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { string_value: Some(value.to_owned()) }) }
}

/// Sends a page. It holds up the thread until it is taken.
pub(super) fn push(
    url: &str,
    families: &[Family],
    source: &Source,
    now_ms: i64,
    timeout: Duration,
) -> Result<(), ureq::Error> {
    let agent = ureq::Agent::config_builder().timeout_global(Some(timeout)).build().new_agent();
    let body = request(families, source, now_ms).encode_to_vec();
    agent.post(url).header("Content-Type", "application/x-protobuf").send(&body[..]).map(|_| ())
}
