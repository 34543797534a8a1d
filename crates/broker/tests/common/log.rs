//! The log of a process of tests.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Lines that were logged.
#[derive(Clone)]
pub struct Log {
    level: Level,
    target: &'static str,
    lines: Arc<Mutex<Vec<String>>>,
}

struct Line(String);

impl Log {
    /// From now on, the lines of a level or a graver one whose target ends so. Once in a process.
    pub fn capture(level: Level, target: &'static str) -> Self {
        let log = Self { level, target, lines: Arc::default() };
        tracing::subscriber::set_global_default(log.clone()).expect("nothing else captures the log");
        log
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("no test has panicked").clone()
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!("{field}={value:?} ");
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && metadata.target().ends_with(self.target)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.lines.lock().expect("no test has panicked").push(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
