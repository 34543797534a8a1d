//! The newest image, for readers, and listeners for its changes.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::apply::MetadataDelta;
use super::image::MetadataImage;
use super::partition_history::PartitionHistory;

/// A listener for changes of the metadata, which for example opens and deletes logs.
pub trait Applied: Send + Sync + 'static {
    /// Called on the publishing thread for each image in turn, before readers can load it and before the request that
    /// led to it is answered. Errors are the listener's own: it cannot refuse what is committed.
    fn apply(&self, image: &Arc<MetadataImage>, delta: &MetadataDelta);
}

/// The newest image, for readers.
pub struct MetadataCache {
    image: ArcSwap<MetadataImage>,
    /// What the quorum has committed. It is published soon.
    committed: ArcSwap<MetadataImage>,
    /// Of what is committed.
    pub partition_history: PartitionHistory,
    /// The offset of the published image.
    published: watch::Sender<i64>,
    /// Locked while an image is being published.
    listeners: Mutex<Vec<Arc<dyn Applied>>>,
}

impl Default for MetadataCache {
    fn default() -> Self {
        let image = Arc::new(MetadataImage::default());
        Self {
            published: watch::Sender::new(image.offset()),
            image: ArcSwap::new(Arc::clone(&image)),
            committed: ArcSwap::new(image),
            partition_history: PartitionHistory::default(),
            listeners: Mutex::default(),
        }
    }
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

    /// The image that the next records will be applied to, and that decisions are made on.
    pub fn committed(&self) -> Arc<MetadataImage> {
        self.committed.load_full()
    }

    /// Waits until an image is published that has the record of this offset, which must be committed or about to be.
    pub async fn wait_for(&self, offset: i64) {
        // The sender is this cache's own, so it exists as long as there are waiters.
        _ = self.published.subscribe().wait_for(|published| *published >= offset).await;
    }

    /// Sets what the quorum has committed.
    pub fn commit(&self, image: Arc<MetadataImage>) {
        self.committed.store(image);
    }

    /// Calls listeners with a new image, after `prepare`, and publishes it to readers.
    pub fn publish(&self, image: Arc<MetadataImage>, delta: &MetadataDelta, prepare: impl FnOnce(&MetadataImage)) {
        let listeners = self.listeners.lock();
        prepare(&image);
        for listener in listeners.iter() {
            listener.apply(&image, delta);
        }
        let offset = image.offset();
        self.image.store(image);
        self.published.send_replace(offset);
    }

    /// Adds a listener, which gets every image after the one that is returned. Not to be called by a listener.
    pub fn subscribe(&self, listener: Arc<dyn Applied>) -> Arc<MetadataImage> {
        self.subscribe_after(listener, |_| ())
    }

    /// Adds a listener that begins with the newest image, and holds up the next ones for as long as that takes.
    pub fn subscribe_after(
        &self,
        listener: Arc<dyn Applied>,
        begin: impl FnOnce(&Arc<MetadataImage>),
    ) -> Arc<MetadataImage> {
        let mut listeners = self.listeners.lock();
        let image = self.image.load_full();
        begin(&image);
        listeners.push(listener);
        image
    }

    /// Drops all listeners, which keep alive what has to end when the broker stops.
    pub fn unsubscribe_all(&self) {
        self.listeners.lock().clear();
    }
}
