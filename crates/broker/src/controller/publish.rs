//! From committed records to what readers see.
//!
//! The quorum's thread makes the images, which takes next to no time. Applying them, by opening logs for example, may
//! take long and is done by a thread of its own, in order, so that the quorum goes on meanwhile. An image is committed
//! first and published when every [`Applied`] listener has done its part.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use bytes::Bytes;
use configuration::{BrokerConfig, ConfigError};
use metadata::{ConfigResource, MetadataCache, MetadataDelta, MetadataImage};
use platform::panics;
use quorum::{Position, StateMachine, StateMachineError};
use wire::state::metadata::MetadataRecord;

/// Images that are committed and wait to be published. Beyond, the quorum waits.
const BACKLOG_MAX: usize = 1024;

type Committed = (Arc<MetadataImage>, MetadataDelta);

/// Applies what the quorum commits and has it published. Dropping it waits until all of it is published.
pub struct Publisher {
    cache: Arc<MetadataCache>,
    /// `None` once no more images follow.
    backlog: Option<SyncSender<Committed>>,
    /// The publishing thread, if there is one.
    thread: Option<JoinHandle<()>>,
}

impl Publisher {
    /// Gives the publishing a thread.
    pub fn start(cache: Arc<MetadataCache>, config: Arc<ArcSwap<BrokerConfig>>) -> std::io::Result<Self> {
        let (mut publisher, backlog) = Self::prepare(cache, config);
        publisher.thread = Some(panics::essential_thread("metadata".to_owned(), move || backlog.run())?);
        Ok(publisher)
    }

    /// As [`Self::start`], but the caller decides when to publish.
    pub fn prepare(cache: Arc<MetadataCache>, config: Arc<ArcSwap<BrokerConfig>>) -> (Self, Backlog) {
        let (sender, queue) = sync_channel(BACKLOG_MAX);
        let backlog = Backlog { queue, cache: Arc::clone(&cache), config };
        (Self { cache, backlog: Some(sender), thread: None }, backlog)
    }

    fn commit(&self, image: MetadataImage, delta: MetadataDelta) -> Result<(), StateMachineError> {
        let image = Arc::new(image);
        #[cfg(test)]
        crate::simulation::machine::commits(&image);
        self.cache.commit(Arc::clone(&image));
        let stopped = || StateMachineError::new("the thread that publishes it has ended");
        let backlog = self.backlog.as_ref().ok_or_else(stopped)?;
        backlog.send((image, delta)).map_err(|_| stopped())
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.backlog = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("metadata is committed that was not published");
        }
    }
}

/// Publishes committed images: updates the broker's dynamic configs and calls the listeners.
pub struct Backlog {
    queue: Receiver<Committed>,
    cache: Arc<MetadataCache>,
    config: Arc<ArcSwap<BrokerConfig>>,
}

impl Backlog {
    fn run(&self) {
        for (image, delta) in &self.queue {
            self.publish(image, &delta);
        }
    }

    /// Publishes the next image, if there is one by now.
    #[cfg(test)]
    pub fn publish_next(&self) -> Option<Arc<MetadataImage>> {
        let (image, delta) = self.queue.try_recv().ok()?;
        self.publish(Arc::clone(&image), &delta);
        Some(image)
    }

    fn publish(&self, image: Arc<MetadataImage>, delta: &MetadataDelta) {
        self.cache.publish(image, delta, |image| {
            if !concerns_broker(delta, self.config.load().node_id) {
                return;
            }
            let (config, errors) = with_dynamic(&self.config.load(), image);
            for error in errors {
                tracing::warn!(%error, "a setting is left out");
            }
            self.config.store(Arc::new(config));
        });
    }
}

/// Whether settings of this broker changed.
fn concerns_broker(delta: &MetadataDelta, node_id: i32) -> bool {
    let own = [ConfigResource::all_brokers(), ConfigResource::broker(node_id)];
    own.iter().any(|resource| delta.configs.contains(resource))
}

/// A broker's settings with those that the image has for it.
pub(super) fn with_dynamic(config: &BrokerConfig, image: &MetadataImage) -> (BrokerConfig, Vec<ConfigError>) {
    let own = ConfigResource::broker(config.node_id);
    config.with_dynamic(image.config(&ConfigResource::all_brokers()), image.config(&own))
}

fn decode(values: &[Bytes]) -> Result<Vec<MetadataRecord>, StateMachineError> {
    values.iter().map(|value| MetadataRecord::read(value).map_err(StateMachineError::new)).collect()
}

impl StateMachine for Publisher {
    fn apply(&mut self, values: &[Bytes], at: Position, timestamp_ms: i64) -> Result<(), StateMachineError> {
        let before = self.cache.committed();
        let (image, delta) = before.apply(&decode(values)?, at.offset, at.epoch).map_err(StateMachineError::new)?;
        self.cache.partition_history.note(&before, &image, &delta, timestamp_ms);
        self.commit(image, delta)
    }

    fn restore(&mut self, values: &[Bytes], at: Position) -> Result<(), StateMachineError> {
        let before = self.cache.committed();
        let (mut image, mut delta) =
            MetadataImage::default().apply(&decode(values)?, at.offset, at.epoch).map_err(StateMachineError::new)?;
        image.continue_after(&before, &mut delta);
        self.commit(image, delta)
    }

    fn check(&self, values: &[Bytes]) -> Result<(), StateMachineError> {
        decode(values).map(|_| ())
    }

    fn snapshot(&self) -> Vec<Bytes> {
        self.cache.committed().to_records().iter().map(MetadataRecord::write).collect()
    }
}
