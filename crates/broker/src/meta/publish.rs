//! From committed records to what readers see.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use parking_lot::Mutex;
use wire::state::metadata::MetadataRecord;

use super::apply::MetadataDelta;
use super::image::{ConfigResource, MetadataImage};
use crate::config::BrokerConfig;
use crate::quorum::{Position, StateMachine, StateMachineError};

/// Who does something when metadata changes: opens and deletes logs, say.
pub trait Applied: Send + Sync + 'static {
    /// Called on the quorum's thread for each image in turn, before readers can load it and before the request that led
    /// to it is answered. Errors are the listener's own: it cannot refuse what is committed.
    fn apply(&self, image: &Arc<MetadataImage>, delta: &MetadataDelta);
}

/// The newest image, for readers.
#[derive(Default)]
pub struct MetadataCache {
    image: ArcSwap<MetadataImage>,
    /// Locked while an image is being published.
    listeners: Mutex<Vec<Arc<dyn Applied>>>,
}

impl MetadataCache {
    /// The newest image, for as long as one answer takes.
    pub fn load(&self) -> Guard<Arc<MetadataImage>> {
        self.image.load()
    }

    /// The newest image, to keep.
    pub fn load_full(&self) -> Arc<MetadataImage> {
        self.image.load_full()
    }

    /// Adds a listener, which is told of every image after the one that is returned. Not to be called by a listener.
    pub fn subscribe(&self, listener: Arc<dyn Applied>) -> Arc<MetadataImage> {
        let mut listeners = self.listeners.lock();
        listeners.push(listener);
        self.image.load_full()
    }

    /// Lets go of all listeners, which hold on to what has to end when the broker stops.
    pub fn unsubscribe_all(&self) {
        self.listeners.lock().clear();
    }
}

/// Applies what the quorum commits, keeps the broker's dynamic settings, tells the listeners, publishes the image.
pub struct Publisher {
    cache: Arc<MetadataCache>,
    config: Arc<ArcSwap<BrokerConfig>>,
}

impl Publisher {
    pub fn new(cache: Arc<MetadataCache>, config: Arc<ArcSwap<BrokerConfig>>) -> Self {
        Self { cache, config }
    }

    fn publish(&self, image: MetadataImage, delta: &MetadataDelta) {
        let listeners = self.cache.listeners.lock();
        let node_id = self.config.load().node_id;
        let own = [ConfigResource::all_brokers(), ConfigResource::broker(node_id)];
        if own.iter().any(|resource| delta.configs.contains(resource)) {
            let (config, errors) = with_dynamic(&self.config.load(), &image);
            for error in errors {
                tracing::warn!(%error, "a setting is left out");
            }
            self.config.store(Arc::new(config));
        }
        let image = Arc::new(image);
        for listener in listeners.iter() {
            listener.apply(&image, delta);
        }
        self.cache.image.store(image);
    }
}

/// A broker's settings with those that the image has for it.
pub(super) fn with_dynamic(
    config: &BrokerConfig,
    image: &MetadataImage,
) -> (BrokerConfig, Vec<crate::config::ConfigError>) {
    let own = ConfigResource::broker(config.node_id);
    config.with_dynamic(image.config(&ConfigResource::all_brokers()), image.config(&own))
}

fn decode(values: &[Bytes]) -> Result<Vec<MetadataRecord>, StateMachineError> {
    values.iter().map(|value| MetadataRecord::read(value).map_err(StateMachineError::new)).collect()
}

impl StateMachine for Publisher {
    fn apply(&mut self, values: &[Bytes], at: Position) -> Result<(), StateMachineError> {
        let before = self.cache.load_full();
        let (image, delta) = before.apply(&decode(values)?, at.offset, at.epoch).map_err(StateMachineError::new)?;
        self.publish(image, &delta);
        Ok(())
    }

    fn restore(&mut self, values: &[Bytes], at: Position) -> Result<(), StateMachineError> {
        let before = self.cache.load_full();
        let (mut image, mut delta) =
            MetadataImage::default().apply(&decode(values)?, at.offset, at.epoch).map_err(StateMachineError::new)?;
        image.continue_after(&before, &mut delta);
        self.publish(image, &delta);
        Ok(())
    }

    fn snapshot(&self) -> Vec<Bytes> {
        self.cache.load().to_records().iter().map(MetadataRecord::write).collect()
    }
}
