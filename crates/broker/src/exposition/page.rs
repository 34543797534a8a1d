//! Writes families of metrics in the OpenMetrics text format.

use std::fmt;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::stats::Histogram;

/// A page that is being written. Names end in their unit, where they have one; those of counters come without the
/// `_total` that the format puts behind them.
pub struct Page<'a>(DescriptorEncoder<'a>);

impl<'a> Page<'a> {
    pub fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Self(encoder)
    }

    pub fn gauge(&mut self, name: &str, help: &str, value: impl EncodeGaugeValue) -> fmt::Result {
        self.begin(name, help, MetricType::Gauge, |family| family.encode_gauge(&value))
    }

    pub fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        self.begin(name, help, MetricType::Gauge, |family| {
            series.into_iter().try_for_each(|(labels, value)| family.encode_family(&labels)?.encode_gauge(&value))
        })
    }

    pub fn counter(&mut self, name: &str, help: &str, value: impl EncodeCounterValue) -> fmt::Result {
        self.begin(name, help, MetricType::Counter, |family| encode_counter(family, &value))
    }

    pub fn counters<L: EncodeLabelSet, V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        self.begin(name, help, MetricType::Counter, |family| {
            let mut series = series.into_iter();
            series.try_for_each(|(labels, value)| encode_counter(&mut family.encode_family(&labels)?, &value))
        })
    }

    pub fn histogram(&mut self, name: &str, help: &str, value: &Histogram) -> fmt::Result {
        self.begin(name, help, MetricType::Histogram, |family| encode_histogram(family, value))
    }

    pub fn histograms<'h, L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (L, &'h Histogram)>,
    ) -> fmt::Result {
        self.begin(name, help, MetricType::Histogram, |family| {
            let mut series = series.into_iter();
            series.try_for_each(|(labels, value)| encode_histogram(&mut family.encode_family(&labels)?, value))
        })
    }

    fn begin(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        write: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let units = [("_seconds", Unit::Seconds), ("_bytes", Unit::Bytes)];
        let found = units.into_iter().find_map(|(suffix, unit)| Some((name.strip_suffix(suffix)?, Some(unit))));
        let (name, unit) = found.unwrap_or((name, None));
        write(&mut self.0.encode_descriptor(name, help, unit.as_ref(), kind)?)
    }
}

fn encode_counter(family: &mut MetricEncoder<'_>, value: &impl EncodeCounterValue) -> fmt::Result {
    family.encode_counter::<NoLabelSet, _, f64>(value, None)
}

fn encode_histogram(family: &mut MetricEncoder<'_>, value: &Histogram) -> fmt::Result {
    let snapshot = value.snapshot();
    family.encode_histogram::<NoLabelSet>(snapshot.sum_seconds, snapshot.count, &snapshot.buckets, None)
}
