//! Stands where librdkafka would be in a binary that is built without it: refuses every load.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use client::Client;

use super::EngineError;
use crate::produce::ProduceLoad;
use crate::settings::ProducerSettings;
use crate::stats::Stats;

pub(super) fn check(_: &ProducerSettings) -> Result<(), EngineError> {
    Err(EngineError::NotBuilt)
}

pub(super) async fn produce(_: Client, _: ProduceLoad, _: Arc<Stats>, _: Arc<AtomicBool>) -> Result<(), EngineError> {
    Err(EngineError::NotBuilt)
}
