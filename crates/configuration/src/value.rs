//! Settings' texts and their types: parsing, bounds, and the messages of Kafka's `ConfigDef` for what is wrong.

use std::net::IpAddr;

use super::{Bounds, ConfigError, Kind, Setting};

/// What stands where a secret would.
const HIDDEN: &str = "[hidden]";

/// A type that a setting's field may have. Bounds have been checked before `parse` is asked.
pub trait Value: Sized {
    const KIND: Kind;
    /// `None` is null.
    fn parse(text: Option<&str>) -> Option<Self>;
}

macro_rules! values {
    ($($type:ty => $kind:ident;)*) => {$(
        impl Value for $type {
            const KIND: Kind = Kind::$kind;
            fn parse(text: Option<&str>) -> Option<Self> {
                text?.trim().parse().ok()
            }
        }
    )*};
}

values! {
    i16 => Short;
    i32 => Int;
    i64 => Long;
    f64 => Double;
    AckDurability => String;
    ClientAuth => String;
    CompressionType => String;
    DiskCapacityPolicy => String;
    MigrationPolicy => String;
    TimestampType => String;
}

impl Value for bool {
    const KIND: Kind = Kind::Boolean;
    fn parse(text: Option<&str>) -> Option<Self> {
        text?.trim().to_ascii_lowercase().parse().ok()
    }
}

impl Value for String {
    const KIND: Kind = Kind::String;
    fn parse(text: Option<&str>) -> Option<Self> {
        Some(text?.trim().to_owned())
    }
}

/// A text that nobody is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl Value for Password {
    const KIND: Kind = Kind::Password;
    fn parse(text: Option<&str>) -> Option<Self> {
        text.map(Self::new)
    }
}

impl Value for Vec<String> {
    const KIND: Kind = Kind::List;
    fn parse(text: Option<&str>) -> Option<Self> {
        Some(elements(text?).map(str::to_owned).collect())
    }
}

/// Numbers of connections, by address: `address:count`, where an IPv6 address may stand in brackets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressCounts(Vec<(IpAddr, i32)>);

impl AddressCounts {
    /// Of an address; the last that was said counts.
    pub fn count(&self, address: IpAddr) -> Option<i32> {
        self.0.iter().rev().find(|(known, _)| *known == address).map(|(_, count)| *count)
    }
}

fn address_count(element: &str) -> Option<(IpAddr, i32)> {
    let (address, count) = element.rsplit_once(':')?;
    let address = address.strip_prefix('[').and_then(|address| address.strip_suffix(']')).unwrap_or(address);
    let address: IpAddr = address.parse().ok()?;
    Some((address.to_canonical(), count.parse().ok().filter(|count| *count >= 0)?))
}

impl Value for AddressCounts {
    const KIND: Kind = Kind::List;
    fn parse(text: Option<&str>) -> Option<Self> {
        elements(text?).map(address_count).collect::<Option<_>>().map(Self)
    }
}

/// Principals, as `User:alice`, with `;` between them: a distinguished name has commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Principals(Vec<String>);

impl Principals {
    /// Whether a principal is among them, letter for letter.
    pub fn contains(&self, principal: &str) -> bool {
        self.0.iter().any(|known| known == principal)
    }
}

fn principals(text: &str) -> impl Iterator<Item = &str> {
    text.split(';').map(str::trim).filter(|principal| !principal.is_empty())
}

impl Value for Principals {
    const KIND: Kind = Kind::String;
    fn parse(text: Option<&str>) -> Option<Self> {
        Some(Self(principals(text?).map(str::to_owned).collect()))
    }
}

impl<T: Value> Value for Option<T> {
    const KIND: Kind = T::KIND;
    fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None => Some(None),
            text => T::parse(text).map(Some),
        }
    }
}

macro_rules! choices {
    ($($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_meta])* $variant,)* }

        impl $name {
            pub const NAMES: &[&str] = &[$($text,)*];
        }

        impl std::str::FromStr for $name {
            type Err = ();
            fn from_str(text: &str) -> Result<Self, ()> {
                match text {
                    $($text => Ok(Self::$variant),)*
                    _ => Err(()),
                }
            }
        }
    )*};
}

choices! {
    /// When `acks=all` counts a record as written by a replica.
    AckDurability {
        /// Once it is on disk: a loss of power does not lose it.
        Disk = "disk",
        /// Once it is in the operating system's page cache, as Kafka has it.
        Os = "os",
    }

    /// Whether a listener with TLS asks clients for certificates (`SslClientAuth`).
    ClientAuth {
        None = "none",
        /// Who shows none is let in.
        Requested = "requested",
        Required = "required",
    }

    /// How batches are stored.
    CompressionType {
        Uncompressed = "uncompressed",
        Zstd = "zstd",
        Lz4 = "lz4",
        Snappy = "snappy",
        Gzip = "gzip",
        /// As the producer sent them.
        Producer = "producer",
    }

    /// What becomes of a topic's records when the disk fills up.
    DiskCapacityPolicy {
        /// Nothing, until only the reserve is left.
        None = "none",
        /// The oldest go.
        DeleteOldest = "delete-oldest",
        /// None come.
        StopProduce = "stop-produce",
    }

    /// Whether groups may change their protocol while they have members (`ConsumerGroupMigrationPolicy`).
    MigrationPolicy {
        /// From either protocol to the other.
        Bidirectional = "bidirectional",
        /// From the classic protocol to that of consumer groups.
        Upgrade = "upgrade",
        /// From the protocol of consumer groups to the classic one.
        Downgrade = "downgrade",
        Disabled = "disabled",
    }

    /// Whose clock a record's timestamp is.
    TimestampType {
        CreateTime = "CreateTime",
        LogAppendTime = "LogAppendTime",
    }
}

impl MigrationPolicy {
    pub fn allows_upgrade(self) -> bool {
        matches!(self, Self::Bidirectional | Self::Upgrade)
    }

    pub fn allows_downgrade(self) -> bool {
        matches!(self, Self::Bidirectional | Self::Downgrade)
    }
}

/// Types the value of the next row: fields and rows stand in the same order.
pub fn next<T: Value>(
    rows: &mut std::slice::Iter<'static, Setting>,
    look: impl Fn(&'static Setting) -> Option<String>,
) -> Result<T, ConfigError> {
    let setting = rows.next().expect("there is a row for every field");
    let text = look(setting);
    if let Some(text) = &text {
        setting.check(text)?;
    }
    T::parse(text.as_deref())
        .ok_or_else(|| ConfigError::invalid(setting.name, text.as_deref().unwrap_or("null"), "A value is required"))
}

/// The elements of a list's text.
pub fn elements(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|element| !element.is_empty())
}

impl Setting {
    /// Whether the text is a value of the setting's type within its bounds.
    pub fn check(&self, text: &str) -> Result<(), ConfigError> {
        self.check_as(self.name, text)
    }

    /// The same, where the setting is of one listener and has a longer name.
    pub fn check_as(&self, name: &str, text: &str) -> Result<(), ConfigError> {
        self.check_text(text).map_err(|reason| {
            let shown = if self.is_sensitive() { HIDDEN } else { text };
            ConfigError::invalid(name, shown, reason)
        })
    }

    fn check_text(&self, text: &str) -> Result<(), String> {
        let trimmed = text.trim();
        let number = match self.kind {
            Kind::Boolean => {
                return bool::parse(Some(text))
                    .map(|_| ())
                    .ok_or_else(|| "Expected value to be either true or false".to_owned());
            }
            Kind::Double => {
                let number: f64 = trimmed.parse().map_err(|_| "Not a number of type DOUBLE")?;
                return match self.bounds {
                    Bounds::Ratio if number.is_nan() || number < 0.0 => Err("Value must be at least 0".to_owned()),
                    Bounds::Ratio if number > 1.0 => Err("Value must be no more than 1".to_owned()),
                    Bounds::Positive if number <= 0.0 => Err("Value must be greater than 0".to_owned()),
                    _ if number.is_finite() => Ok(()),
                    _ => Err("Not a number of type DOUBLE".to_owned()),
                };
            }
            Kind::Int => trimmed.parse::<i32>().map(i64::from).map_err(|_| "Not a number of type INT")?,
            Kind::Short => trimmed.parse::<i16>().map(i64::from).map_err(|_| "Not a number of type SHORT")?,
            Kind::Long => trimmed.parse::<i64>().map_err(|_| "Not a number of type LONG")?,
            Kind::String | Kind::Class | Kind::Password => {
                return match self.bounds {
                    Bounds::OneOf(names) if !names.contains(&trimmed) => Err(one_of(names)),
                    Bounds::Principals if principals(trimmed).any(|principal| !principal.contains(':')) => {
                        Err("Value must be a list of principals such as User:alice, with ; between them".to_owned())
                    }
                    _ => Ok(()),
                };
            }
            Kind::List => return self.check_list(trimmed),
        };
        let (least, most) = match self.bounds {
            Bounds::AtLeast(least) => (least, i64::MAX),
            Bounds::Between(least, most) => (least, most),
            Bounds::GzipLevel if number != -1 && !(1..=9).contains(&number) => {
                return Err("Value must be between 1 and 9 or equal to -1".to_owned());
            }
            _ => return Ok(()),
        };
        match number {
            n if n < least => Err(format!("Value must be at least {least}")),
            n if n > most => Err(format!("Value must be no more than {most}")),
            _ => Ok(()),
        }
    }

    fn check_list(&self, text: &str) -> Result<(), String> {
        match self.bounds {
            Bounds::EachOf(names) => {
                let mut seen = Vec::new();
                for element in elements(text) {
                    if !names.contains(&element) {
                        return Err(one_of(names));
                    }
                    if seen.contains(&element) {
                        return Err("Values must not be repeated".to_owned());
                    }
                    seen.push(element);
                }
                Ok(())
            }
            Bounds::ThrottledReplicas if text != "*" => {
                let is_number = |part: &str| part.parse::<u32>().is_ok();
                let is_pair = |e: &str| e.split_once(':').is_some_and(|(p, b)| is_number(p) && is_number(b));
                match elements(text).all(is_pair) {
                    true => Ok(()),
                    false => Err("Value must be the literal '*' or a list of partitionId:brokerId pairs".to_owned()),
                }
            }
            Bounds::PerAddress if elements(text).any(|element| address_count(element).is_none()) => {
                Err("Value must be a list of address:count pairs; names of hosts are not looked up".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// The text as Kafka shows it: trimmed, booleans in small letters, doubles with a fraction.
    pub fn normal(&self, text: &str) -> String {
        let trimmed = text.trim();
        match self.kind {
            Kind::Boolean => trimmed.to_ascii_lowercase(),
            Kind::Double => match trimmed.parse::<f64>() {
                Ok(number) if Some(trimmed) != self.default => format!("{number:?}"),
                _ => trimmed.to_owned(),
            },
            Kind::List => elements(trimmed).collect::<Vec<_>>().join(","),
            _ => trimmed.to_owned(),
        }
    }
}

fn one_of(names: &[&str]) -> String {
    format!("String must be one of: {}", names.join(", "))
}
