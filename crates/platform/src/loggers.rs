//! The levels of the log, by logger. They can be changed while the broker runs (KIP-412), and are not kept.
//!
//! A logger is a crate or a module of one. Its name has dots where Rust has colons, which Kafka's tools do not take.
//! The level of a logger applies to loggers below it too, unless they have their own; without any the level of `root`
//! applies.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use tracing::level_filters::LevelFilter;

pub const ROOT: &str = "root";

/// The loggers of this program below `root`: `tests/tidy.rs` checks that every line has one.
pub const NAMES: &[&str] = &[
    "broker",
    "broker.api",
    "broker.cluster",
    "broker.controller",
    "broker.coordination",
    "broker.lifecycle",
    "broker.maintenance",
    "broker.net",
    "broker.partition",
    "broker.replication",
    "broker.security",
    "broker.server",
    "client",
    "console",
    "coordinator",
    "metadata",
    "parshall",
    "platform",
    "quorum",
    "raft",
    "storage",
];

/// Kafka's names of levels. There are no lines that are fatal, so the first of them is silence.
const LEVELS: [(&str, LevelFilter); 6] = [
    ("FATAL", LevelFilter::OFF),
    ("ERROR", LevelFilter::ERROR),
    ("WARN", LevelFilter::WARN),
    ("INFO", LevelFilter::INFO),
    ("DEBUG", LevelFilter::DEBUG),
    ("TRACE", LevelFilter::TRACE),
];

/// Kafka's name of a level.
pub fn level_name(level: LevelFilter) -> &'static str {
    LEVELS.iter().find(|(_, known)| *known == level).map_or("FATAL", |(name, _)| name)
}

/// The level that Kafka calls so.
pub fn level_from_name(name: &str) -> Option<LevelFilter> {
    LEVELS.iter().find(|(known, _)| *known == name).map(|(_, level)| *level)
}

/// The levels that were set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    root: LevelFilter,
    own: BTreeMap<String, LevelFilter>,
}

/// A part of a text that is neither a level nor a logger with one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not off, error, warn, info, debug or trace, nor a logger with such a level, as in coordinator=debug")]
pub struct LevelsError(pub String);

impl Levels {
    pub fn new(root: LevelFilter) -> Self {
        Self { root, own: BTreeMap::new() }
    }

    /// Reads `warn`, or `info,coordinator=debug`, or `broker::net=debug` under the given level.
    pub fn parse(text: &str, root: LevelFilter) -> Result<Self, LevelsError> {
        let mut levels = Self::new(root);
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, level) = part.split_once('=').map_or((ROOT, part), |(name, level)| (name.trim(), level.trim()));
            let level = level.parse().ok().filter(|_| !name.is_empty() && !level.is_empty());
            levels.set(name, level.ok_or_else(|| LevelsError(part.to_owned()))?);
        }
        Ok(levels)
    }

    pub fn root(&self) -> LevelFilter {
        self.root
    }

    /// The loggers below `root` with a level of their own, as Rust writes them.
    pub fn own(&self) -> impl Iterator<Item = (String, LevelFilter)> {
        self.own.iter().map(|(name, level)| (name.replace('.', "::"), *level))
    }

    pub fn exists(&self, name: &str) -> bool {
        let name = dotted(name);
        name == ROOT || NAMES.contains(&name.as_str()) || self.own.contains_key(&name)
    }

    /// All loggers, with the effective level of each.
    pub fn all(&self) -> Vec<(&str, LevelFilter)> {
        let names: BTreeSet<_> =
            NAMES.iter().copied().chain([ROOT]).chain(self.own.keys().map(String::as_str)).collect();
        names.into_iter().map(|name| (name, self.of(name))).collect()
    }

    fn of(&self, name: &str) -> LevelFilter {
        let above = |end: &usize| name.get(..*end);
        let ends = std::iter::once(name.len()).chain(name.rmatch_indices('.').map(|(at, _)| at)).collect::<Vec<_>>();
        ends.iter().filter_map(above).find_map(|logger| self.own.get(logger)).copied().unwrap_or(self.root)
    }

    pub fn set(&mut self, name: &str, level: LevelFilter) {
        match dotted(name) {
            name if name == ROOT => self.root = level,
            name => _ = self.own.insert(name, level),
        }
    }

    /// From now on the logger has the level of what is above it.
    pub fn unset(&mut self, name: &str) {
        self.own.remove(&dotted(name));
    }
}

fn dotted(name: &str) -> String {
    name.replace("::", ".")
}

/// The loggers of this process.
pub struct Loggers {
    levels: Mutex<Levels>,
    apply: Box<dyn Fn(&Levels) + Send + Sync>,
}

impl Default for Loggers {
    /// The loggers of a process that does not configure its own log.
    fn default() -> Self {
        Self::new(Levels::new(LevelFilter::INFO), |_| {})
    }
}

impl Loggers {
    /// `levels` are in force already; `apply` puts others in force.
    pub fn new(levels: Levels, apply: impl Fn(&Levels) + Send + Sync + 'static) -> Self {
        Self { levels: Mutex::new(levels), apply: Box::new(apply) }
    }

    pub fn levels(&self) -> Levels {
        self.levels.lock().clone()
    }

    /// Changes levels, which are then in force.
    pub fn change(&self, change: impl FnOnce(&mut Levels)) {
        let mut levels = self.levels.lock();
        change(&mut levels);
        (self.apply)(&levels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logger_has_the_level_of_the_nearest_above_it() {
        let mut levels = Levels::parse("warn, broker=info,broker::api=debug,hyper=off", LevelFilter::TRACE).unwrap();
        let of = |levels: &Levels, name: &str| level_name(levels.all().iter().find(|l| l.0 == name).unwrap().1);
        let all =
            |levels: &Levels| ["root", "storage", "broker", "broker.net", "broker.api", "hyper"].map(|n| of(levels, n));
        assert_eq!(all(&levels), ["WARN", "WARN", "INFO", "INFO", "DEBUG", "FATAL"]);
        assert_eq!(levels.all().len(), NAMES.len() + 2);
        levels.unset("broker.api");
        levels.set("broker::net", LevelFilter::ERROR);
        levels.set(ROOT, LevelFilter::TRACE);
        levels.unset("hyper");
        assert!(!levels.exists("hyper") && levels.exists("broker::net") && levels.exists(ROOT));
        let own: Vec<_> = levels.own().collect();
        assert_eq!(own, [("broker".to_owned(), LevelFilter::INFO), ("broker::net".to_owned(), LevelFilter::ERROR)]);
        assert_eq!(levels.root(), LevelFilter::TRACE);
    }

    #[test]
    fn what_is_no_level_is_told() {
        assert_eq!(Levels::parse("", LevelFilter::WARN), Ok(Levels::new(LevelFilter::WARN)));
        for (text, part) in
            [("loud", "loud"), ("info,broker=", "broker="), ("=info", "=info"), ("a=b=info", "a=b=info")]
        {
            assert_eq!(Levels::parse(text, LevelFilter::INFO), Err(LevelsError(part.to_owned())));
        }
    }

    #[test]
    fn names_of_levels_are_kafkas() {
        for (name, level) in LEVELS {
            assert_eq!((level_from_name(name), level_name(level)), (Some(level), name));
        }
        assert_eq!((level_from_name("debug"), level_from_name("OFF")), (None, None));
    }
}
