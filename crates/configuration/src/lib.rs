//! Broker, topic and group settings under Kafka's own names.
//!
//! Every setting is declared once, in the tables of [`broker`], [`topic`] and [`group`]: its name, type, default,
//! bounds, how it may be changed and what it means. Everything else is derived from the tables: the typed structs
//! [`BrokerConfig`], [`TopicConfig`] and [`GroupConfig`], the start-up sources ([`load`]), the answers to
//! DescribeConfigs ([`describe`]) and the validation of alterations ([`alter`]).
//!
//! Values are layered, each layer over the next: a topic's (or group's) own, the broker's dynamic ones, the cluster's
//! dynamic ones, what the broker was started with (flags, environment, file), the defaults.

pub mod alter;
pub mod broker;
pub mod describe;
pub mod group;
mod ignored;
pub mod load;
pub mod topic;
mod value;

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

pub use broker::listener_settings::{self, ListenerConfig};
pub use broker::listeners::{Endpoint, SecurityProtocol};
pub use broker::membership::{Membership, VoterAddress, address};
pub use broker::{BrokerConfig, STANDARD_AUTHORIZER};
pub use group::GroupConfig;
pub use load::{Loaded, Sources};
pub use topic::TopicConfig;
pub use value::{
    AckDurability, AddressCounts, ClientAuth, CompressionType, DiskCapacityPolicy, MigrationPolicy, Password,
    Principals, TimestampType,
};

/// Names and values as somebody gave them, before they are typed.
pub type ConfigMap = BTreeMap<String, String>;

/// A setting that cannot be what it is said to be. Its text is one line for the person who set it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("Unknown {scope} config name: {name}{}", suggestion(*.scope, .name))]
    Unknown { scope: Scope, name: String },
    #[error("Invalid value {value} for configuration {name}: {reason}")]
    Invalid { name: String, value: String, reason: String },
    #[error("Configuration {name} is not supported: {reason}")]
    Unsupported { name: String, reason: &'static str },
    #[error("{0}")]
    Conflict(String),
    #[error("{file}: {reason}")]
    File { file: String, reason: String },
}

impl ConfigError {
    pub fn invalid(name: &str, value: &str, reason: impl Into<String>) -> Self {
        Self::Invalid { name: name.to_owned(), value: value.to_owned(), reason: reason.into() }
    }
}

/// What a setting belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Broker,
    Topic,
    Group,
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Broker => "broker",
            Self::Topic => "topic",
            Self::Group => "group",
        })
    }
}

impl Scope {
    /// All settings of the scope, in no particular order.
    pub fn settings(self) -> impl Iterator<Item = &'static Setting> {
        let (honoured, ignored, internal): (&[Setting], &[Setting], &[Setting]) = match self {
            Self::Broker => (broker::SETTINGS, ignored::SETTINGS, ignored::INTERNAL),
            Self::Topic => (topic::SETTINGS, &[], &[]),
            Self::Group => (group::SETTINGS, &[], &[]),
        };
        let of_listeners = if self == Self::Broker { listener_settings::SETTINGS } else { &[] };
        honoured.iter().chain(of_listeners).chain(ignored).chain(internal)
    }

    /// The setting of that name. That of one listener is the one of all listeners.
    pub fn find(self, name: &str) -> Option<&'static Setting> {
        type ByName = HashMap<&'static str, &'static Setting>;
        fn by_name(scope: Scope) -> ByName {
            scope.settings().map(|setting| (setting.name, setting)).collect()
        }
        static BROKER: LazyLock<ByName> = LazyLock::new(|| by_name(Scope::Broker));
        static TOPIC: LazyLock<ByName> = LazyLock::new(|| by_name(Scope::Topic));
        static GROUP: LazyLock<ByName> = LazyLock::new(|| by_name(Scope::Group));
        let names = match self {
            Self::Broker => &BROKER,
            Self::Topic => &TOPIC,
            Self::Group => &GROUP,
        };
        let of_listener = || listener_settings::find(name).filter(|_| self == Self::Broker);
        names.get(name).copied().or_else(of_listener)
    }

    /// The setting of that name, or the error that says why there is none.
    pub fn expect(self, name: &str) -> Result<&'static Setting, ConfigError> {
        if let Some(setting) = self.find(name) {
            return Ok(setting);
        }
        match ignored::refused(name) {
            Some(reason) if self == Self::Broker => Err(ConfigError::Unsupported { name: name.to_owned(), reason }),
            _ => Err(ConfigError::Unknown { scope: self, name: name.to_owned() }),
        }
    }
}

/// A setting's type, as DescribeConfigs numbers it (`DescribeConfigsResponse.ConfigType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Boolean = 1,
    String = 2,
    Int = 3,
    Short = 4,
    Long = 5,
    Double = 6,
    List = 7,
    Class = 8,
    Password = 9,
}

/// Which values of its type a setting takes.
#[derive(Clone, Copy, Debug)]
pub enum Bounds {
    Any,
    AtLeast(i64),
    Between(i64, i64),
    /// A part of a whole: 0 to 1.
    Ratio,
    /// A number with a fraction, above 0.
    Positive,
    OneOf(&'static [&'static str]),
    /// A list whose elements are among these.
    EachOf(&'static [&'static str]),
    /// -1 or 1 to 9.
    GzipLevel,
    /// `*`, or a list of partition:broker pairs.
    ThrottledReplicas,
    /// A list of address:count pairs.
    PerAddress,
    /// Principals, with `;` between them.
    Principals,
}

/// How a setting may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Only by starting the broker anew.
    ReadOnly,
    /// While it runs, for one broker at a time.
    PerBroker,
    /// While it runs, for one broker or for all.
    ClusterWide,
}

/// Where a topic setting's default comes from: a broker setting, and how many of the topic's units one of its own is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synonym {
    pub name: &'static str,
    pub factor: i64,
}

/// One row of a table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub name: &'static str,
    pub kind: Kind,
    /// `None` is null: the setting has no value until it is given one.
    pub default: Option<&'static str>,
    pub bounds: Bounds,
    pub update: Update,
    /// Broker settings that stand behind it, the first that has a value wins.
    pub synonyms: &'static [Synonym],
    pub documentation: &'static str,
    /// Why it is accepted but changes nothing here; `None` for a setting that is honoured.
    pub ignored: Option<&'static str>,
}

impl Setting {
    /// Whether the broker takes a new value while it runs.
    pub fn is_dynamic(&self) -> bool {
        self.update != Update::ReadOnly
    }

    pub fn is_sensitive(&self) -> bool {
        self.kind == Kind::Password
    }

    /// The text to show for documentation.
    pub fn description(&self) -> String {
        match self.ignored {
            Some(reason) => format!("Accepted without effect: {reason}"),
            None => self.documentation.to_owned(),
        }
    }
}

/// The known name that was probably meant, as the end of an error line.
fn suggestion(scope: Scope, name: &str) -> String {
    scope
        .settings()
        .map(|setting| (edit_distance(name, setting.name), setting.name))
        .min()
        .filter(|(distance, known)| *distance <= known.len() / 4 + 1)
        .map_or_else(String::new, |(_, known)| format!(" (did you mean {known}?)"))
}

/// Levenshtein's distance. Names longer than any setting's are not compared.
fn edit_distance(a: &str, b: &str) -> usize {
    const LENGTH_MAX: usize = 80;
    if a.len() > LENGTH_MAX || b.len() > LENGTH_MAX {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Declares a table of settings together with the struct that holds their values.
///
/// A row is `"kafka.name" => field: Type = default, bounds, update, "What it does.";` where a default is a literal or
/// `null`, and a topic's row may go on with `, from [synonyms]`. One whose values are checked, but change nothing here,
/// ends in `, ignored "why"`. A field is called as its setting, with underscores.
macro_rules! settings {
    (
        $(#[$meta:meta])*
        pub struct $struct:ident { $($(#[$extra_meta:meta])* $extra:ident : $extra_type:ty,)* }
        $($name:literal => $field:ident : $type:ty = $default:tt, $bounds:expr, $update:ident, $doc:literal
            $(, from $synonyms:expr)? $(, ignored $reason:literal)?;)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $struct {
            $(#[doc = concat!("`", $name, "`: ", $doc)] pub $field: $type,)*
            $($(#[$extra_meta])* $extra: $extra_type,)*
        }

        pub const SETTINGS: &[$crate::Setting] = &[$(
            $crate::Setting {
                name: $name,
                kind: <$type as $crate::value::Value>::KIND,
                default: settings!(@default $default),
                bounds: { #[allow(unused_imports)] use $crate::Bounds::*; $bounds },
                update: $crate::Update::$update,
                synonyms: settings!(@synonyms $($synonyms)?),
                documentation: $doc,
                ignored: settings!(@ignored $($reason)?),
            },
        )*];

        impl $struct {
            /// Types every value that `look` finds; `look` answers a setting's effective text.
            fn typed(
                $($extra: $extra_type,)*
                look: impl Fn(&'static $crate::Setting) -> Option<String>,
            ) -> Result<Self, $crate::ConfigError> {
                let mut rows = SETTINGS.iter();
                Ok(Self {
                    $($field: $crate::value::next(&mut rows, &look)?,)*
                    $($extra,)*
                })
            }
        }
    };
    (@synonyms) => { &[] };
    (@synonyms $synonyms:expr) => { &$synonyms };
    (@ignored) => { None };
    (@ignored $reason:literal) => { Some($reason) };
    (@default null) => { None };
    (@default $default:literal) => { Some($default) };
}
pub(crate) use settings;
