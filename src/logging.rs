//! The log: lines on stderr, in the form and at the levels that the environment says.

use std::env::{self, VarError};
use std::io::{IsTerminal, stderr};
use std::sync::Arc;

use anyhow::Result;
use platform::loggers::{Levels, Loggers};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry, reload};

use crate::cmd::failure::Usage;

/// Which lines there are: a level, or several by logger.
pub(crate) const LEVELS: &str = "PARSHALL_LOG";
/// `text`, or `json` for an object on each line.
pub(crate) const FORMAT: &str = "PARSHALL_LOG_FORMAT";

/// Begins the log. What the loggers are set to afterwards works from then on.
pub(crate) fn start(default: LevelFilter) -> Result<Arc<Loggers>> {
    let levels = match env::var(LEVELS) {
        Ok(text) => Levels::parse(&text, default).map_err(|error| Usage(format!("{LEVELS} is {text:?}: {error}")))?,
        Err(_) => Levels::new(default),
    };
    let (filter, handle) = reload::Layer::new(targets(&levels));
    let lines = match env::var(FORMAT).as_deref() {
        Ok("json") => fmt::layer().with_writer(stderr).json().flatten_event(true).boxed(),
        Ok("text") | Err(VarError::NotPresent) => {
            fmt::layer().with_writer(stderr).with_ansi(stderr().is_terminal()).boxed()
        }
        Ok(_) | Err(VarError::NotUnicode(_)) => return Err(Usage(format!("{FORMAT} takes text or json")).into()),
    };
    registry().with(filter).with(lines).init();
    // There is a log as long as there is the process.
    Ok(Arc::new(Loggers::new(levels, move |levels| _ = handle.reload(targets(levels)))))
}

fn targets(levels: &Levels) -> Targets {
    Targets::new().with_default(levels.root()).with_targets(levels.own())
}
