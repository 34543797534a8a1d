//! A batch of decisions of the controller: requests in turn, each on the image that the ones before it will lead to,
//! and the records of all as one entry.
//!
//! Nothing here waits or writes. [`Controller`](super::Controller) begins a round where this node leads the quorum, has
//! the quorum commit the entry, and answers when it is applied.

use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use configuration::BrokerConfig;
use metadata::acl::{Authorizer, Requester};
use metadata::changes::{self, Context, Decision, RECORDS_MAX};
use metadata::{Decided, MetadataCache, MetadataImage, ResourceKind};
use platform::Random;
use wire::state::metadata::MetadataRecord;

use super::ControllerError;
use super::publish::with_dynamic;
use crate::security::Client;

pub struct Round {
    /// Of the quorum: the entry is written in it or not at all.
    epoch: i32,
    after: i64,
    image: MetadataImage,
    config: Arc<BrokerConfig>,
    random: Arc<dyn Random>,
    records: Vec<MetadataRecord>,
}

impl Round {
    /// Begins on what is committed. `config` is what the [`Publisher`](super::Publisher) keeps up to date.
    pub fn begin(epoch: i32, cache: &MetadataCache, config: &ArcSwap<BrokerConfig>, random: Arc<dyn Random>) -> Self {
        let image = MetadataImage::clone(&cache.committed());
        let mut config = config.load_full();
        if image.generation() != cache.load().generation() {
            config = Arc::new(with_dynamic(&config, &image).0);
        }
        Self { epoch, after: image.offset(), image, config, random, records: Vec::new() }
    }

    pub fn epoch(&self) -> i32 {
        self.epoch
    }

    /// The offset of the state that the entry follows.
    pub fn after(&self) -> i64 {
        self.after
    }

    /// Whether the entry is full: it has reached the size of one operation, with the rest of the operation that went
    /// beyond.
    pub fn is_full(&self) -> bool {
        self.records.len() >= RECORDS_MAX
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The entry.
    pub fn values(&self) -> Vec<Bytes> {
        self.records.iter().map(MetadataRecord::write).collect()
    }

    /// Whether a client may have a request decided, by the ACLs that the requests before it lead to.
    pub fn allows<R: Decided>(&self, authorizer: &Authorizer, client: &Client, request: &R) -> bool {
        let requester = Requester { principal: client.principal.as_str(), address: client.address };
        request.is_allowed(&self.image, &|operation, resource_type, name| {
            authorizer.authorize(Some(self.image.acls()), requester, operation, resource_type, name).is_allowed()
        })
    }

    /// Decides a request. `is_alive` says of a broker whether it is known to run.
    pub fn request<R: Decided>(
        &mut self,
        request: R,
        is_alive: &dyn Fn(i32) -> bool,
    ) -> Result<R::Response, ControllerError> {
        self.decide(|context| request.decide(context, is_alive))
    }

    /// Fences brokers whose session is over, by id and epoch.
    pub fn fence(&mut self, brokers: &[(i32, i64)]) -> Result<(), ControllerError> {
        self.decide(|context| Decision { records: changes::heartbeats::fence(context, brokers), answer: () })
    }

    /// Gives up to `max` partitions back to their preferred leaders, if that is switched on. The answer is whether
    /// there may be more of them.
    pub fn balance_leaders(&mut self, max: usize) -> Result<bool, ControllerError> {
        self.decide(|context| changes::elections::balance(context, max))
    }

    /// Elects any replica in up to `max` partitions without a leader, where that is allowed. The answer is whether
    /// there may be more of them.
    pub fn elect_unclean_leaders(&mut self, max: usize) -> Result<bool, ControllerError> {
        self.decide(|context| changes::elections::elect_unclean(context, max))
    }

    fn decide<T>(&mut self, decide: impl FnOnce(&Context<'_>) -> Decision<T>) -> Result<T, ControllerError> {
        let decision = decide(&Context { image: &self.image, config: &self.config, random: &*self.random });
        if decision.records.is_empty() {
            return Ok(decision.answer);
        }
        let offset = self.image.offset() + decision.records.len() as i64;
        match self.image.apply(&decision.records, offset, self.epoch) {
            Ok((image, _)) => self.image = image,
            Err(error) => {
                tracing::error!(%error, "a decision does not fit the metadata");
                return Err(ControllerError::Internal(error.to_string().into()));
            }
        }
        if decision.records.iter().any(is_broker_setting) {
            self.config = Arc::new(with_dynamic(&self.config, &self.image).0);
        }
        self.records.extend(decision.records);
        Ok(decision.answer)
    }
}

fn is_broker_setting(record: &MetadataRecord) -> bool {
    matches!(record, MetadataRecord::Config(record) if record.resource_type == ResourceKind::Broker as i8)
}
