//! What a run tells while it goes on: lines and the state in the terminal, and the file for the console.

use std::path::Path;

use lab::Event;
use tokio::time::Instant;

use super::display::Display;
use super::progress::Progress;
use super::progress_file::ProgressFile;

pub(super) struct Live {
    progress: Progress,
    pub(super) display: Display,
    file: ProgressFile,
}

impl Live {
    pub(super) fn new(progress: Progress, display: Display, directory: &Path) -> Self {
        Self { progress, display, file: ProgressFile::start(directory) }
    }

    pub(super) fn show(&mut self, event: &Event<'_>) {
        let now = Instant::now();
        self.progress.take(event, now);
        let (position, left_s) = (self.progress.position(now), self.progress.left_s());
        self.display.show(event, position.as_ref(), left_s);
        self.file.show(event, position.as_ref(), left_s);
    }

    /// Of a run that has ended.
    pub(super) async fn end(self) {
        self.display.clear();
        self.file.remove().await;
    }
}
