//! How many partitions a client may create and delete (`controller_mutation_rate`, KIP-599).
//!
//! The broker that the client asks counts, before the controller decides: it knows the client, and what the request
//! would change. What the controller refuses for another reason has been counted, but for what can be seen here: topics
//! that are there already or not there, and those that are named twice.

use std::collections::HashMap;
use std::hash::Hash;

use metadata::changes::RECORDS_MAX;
use metadata::{MetadataImage, QuotaKey};
use wire::api::create_topics::CreatableTopic;

use super::RequestContext;
use crate::Broker;
use crate::quotas::{ClientLimit, ClientName, Quotas};

/// What a topic is answered that would change too much.
pub(super) const EXCEEDED: &str = "The throttling quota has been exceeded.";

pub(super) struct MutationQuota<'a> {
    limit: Option<ClientLimit<'a>>,
    now_ms: i64,
    /// Clients of older versions would not know the error: they get what they ask for, and are throttled.
    is_strict: bool,
    throttle_time_ms: i32,
}

impl<'a> MutationQuota<'a> {
    pub(super) fn of(broker: &'a Broker, context: &RequestContext, strict_since: i16) -> Self {
        let image = broker.metadata.load();
        let now_ms = broker.env.clock.now().monotonic_ms;
        let limit = (Quotas::are_any(&image) && !context.is_inter_broker).then(|| {
            let client_id = context.client_id.as_deref().unwrap_or_default();
            let client = ClientName { user: context.principal.name(), client_id };
            broker.quotas.of_client(&image, QuotaKey::ControllerMutationRate, client, now_ms)
        });
        let is_strict = context.api_version >= strict_since;
        Self { limit: limit.flatten(), now_ms, is_strict, throttle_time_ms: 0 }
    }

    /// Counts how many partitions of each topic a request changes, and takes the topics out of it for which nothing is
    /// left.
    pub(super) fn take_exceeding<T, N: Eq + Hash>(
        &mut self,
        topics: &mut Vec<T>,
        name: impl Fn(&T) -> N,
        partitions: impl Fn(&T) -> usize,
    ) -> Vec<T> {
        if self.limit.is_none() {
            return Vec::new();
        }
        let mut named = HashMap::new();
        topics.iter().for_each(|topic| *named.entry(name(topic)).or_insert(0) += 1);
        let is_named_once = |topic: &T| named.get(&name(topic)) == Some(&1);
        topics.extract_if(.., |topic| is_named_once(topic) && !self.admit(partitions(topic))).collect()
    }

    /// The same of topics that are to be created.
    pub(super) fn take_exceeding_new(
        &mut self,
        broker: &Broker,
        topics: &mut Vec<CreatableTopic>,
    ) -> Vec<CreatableTopic> {
        let (image, default) = (broker.metadata.load_full(), broker.config().num_partitions);
        let partitions = |topic: &CreatableTopic| new_partitions(topic, &image, default);
        self.take_exceeding(topics, |topic| topic.name.clone(), partitions)
    }

    fn admit(&mut self, partitions: usize) -> bool {
        let Some(limit) = &self.limit else { return true };
        // No request changes more.
        if partitions == 0 || partitions > RECORDS_MAX {
            return true;
        }
        let (is_admitted, throttle_time_ms) = if self.is_strict {
            let tried = limit.try_record(partitions as f64, self.now_ms);
            (tried.is_ok(), tried.unwrap_or_else(|throttle_time_ms| throttle_time_ms))
        } else {
            (true, limit.record(partitions as f64, self.now_ms))
        };
        self.throttle_time_ms = self.throttle_time_ms.max(throttle_time_ms);
        is_admitted
    }

    /// For how long the client is throttled.
    pub(super) fn throttle_time_ms(&self) -> i32 {
        self.throttle_time_ms
    }
}

/// How many partitions there will be more.
fn new_partitions(topic: &CreatableTopic, image: &MetadataImage, default: i32) -> usize {
    if image.topic(&topic.name).is_some() {
        return 0;
    }
    match topic.num_partitions {
        _ if !topic.assignments.is_empty() => topic.assignments.len(),
        -1 => default.unsigned_abs() as usize,
        count => usize::try_from(count).unwrap_or(0),
    }
}
