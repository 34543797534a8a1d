//! The lab: puts load on any Kafka and measures it.
//!
//! [`ProduceLoad`] is the load of a producer, [`Engine`] what puts it, [`Payload`] what is sent, [`Stats`] the results;
//! [`consume`] and [`ConsumeStats`] are their counterparts, and [`end_to_end`] measures single records from producer to
//! consumer. Settings have the names and the meaning that Kafka's own clients
//! give them ([`ProducerSettings`], [`ConsumerSettings`]), so that figures can be compared with its tools.
//! [`DiskProbe`], [`probe_net`] and [`probe_download`] say what the machine could do at all.

mod batches;
mod bottleneck;
mod broker_size;
mod byte_size;
mod capacity;
mod compare;
mod consume;
mod criterion;
mod delay_proxy;
mod disk_probe;
mod end_to_end;
mod engine;
mod hdr_log;
mod history;
mod metrics;
mod metrics_endpoint;
mod net_download;
mod net_probe;
mod payload;
mod proc_probe;
mod produce;
mod rate;
mod raw;
mod report;
mod result;
mod run;
mod scenario;
mod settings;
mod split;
mod stats;
mod suites;
mod target;
mod text;
mod text_enum;
mod timer;
mod transaction;

pub use bottleneck::{Limit, Verdict};
pub use broker_size::BrokerSize;
pub use byte_size::ByteSize;
pub use capacity::{capacity, steps_max};
pub use compare::{ComparedCase, ComparedFigure, ComparedSide, Conclusion, Ratio, Side, Spread, compare};
pub use consume::{Clock, ConsumeLoad, ConsumeStats, Consumed, consume};
pub use criterion::{Criterion, CriterionError};
pub use disk_probe::{DiskProbe, WriteRates};
pub use end_to_end::{EndToEndError, EndToEndLoad, end_to_end};
pub use engine::{Engine, EngineError};
pub use hdr_log::HdrLog;
pub use history::{
    CaseHistory, Finding, History, HistoryFigure, HistoryPoint, HistoryRun, LeftOut, PastRun, Step, Trend,
};
pub use metrics::{ProducerMetrics, Sum};
pub use net_download::probe_download;
pub use net_probe::{NetProbe, NetResult, probe_net};
pub use payload::{KeyDistribution, Payload, PayloadError, Sizes};
pub use proc_probe::{HostFacts, host_facts};
pub use produce::ProduceLoad;
pub use rate::{Pace, Schedule, share};
pub use report::{history_charts, history_html, number};
pub use result::{
    Capacity, CapacityStep, CaseResult, Chart, Flow, Measure, Measured, Outcome, Published, RunFacts, Second,
};
pub use run::{Event, Extent, FilesError, Plan, Results, RunError, Turn, report, run, warm_up_s};
pub use scenario::{Case, KEYS, Load, Scenario, ScenarioError};
pub use settings::{ConsumerSettings, ProducerSettings, SettingError};
pub use stats::{Requests, Stats, Tally};
pub use suites::{Suite, suite, suites};
pub use target::{LocalBroker, LocalCluster, LocalSecurity, LocalSpec, Ports, TargetError, TargetSpec};
