//! The keys of a case: each declared once, with its type, default and meaning. A list is iterated, wherever it stands.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::byte_size::ByteSize;
use crate::engine::Engine;
use crate::payload::{KeyDistribution, Sizes};
use crate::result::Published;
use crate::text::Text;
use crate::text_enum::words;

/// One value, or several that are run in turn.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis<T>(Vec<T>);

struct AxisVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for AxisVisitor<T> {
    type Value = Axis<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a list of values")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Axis<T>, E> {
        T::deserialize(value.into_deserializer()).map(|value| Axis(vec![value]))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Axis<T>, E> {
        T::deserialize(value.into_deserializer()).map(|value| Axis(vec![value]))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Axis<T>, E> {
        T::deserialize(value.into_deserializer()).map(|value| Axis(vec![value]))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Axis<T>, E> {
        T::deserialize(value.into_deserializer()).map(|value| Axis(vec![value]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Axis<T>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        if values.is_empty() { Err(A::Error::custom("a list has one value at least")) } else { Ok(Axis(values)) }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Axis<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AxisVisitor(PhantomData))
    }
}

words! {
    /// From when latency counts where there is a rate.
    Loop { Open = "open", Closed = "closed" }
}
words! {
    /// What ends the rest of a matrix that asks for ever higher rates.
    Stop { Never = "never", Saturated = "saturated" }
}

/// Sizes as they were written.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordSize {
    text: String,
    pub sizes: Sizes,
}

impl RecordSize {
    pub fn fixed(bytes: usize) -> Self {
        Self { text: bytes.to_string(), sizes: Sizes::Fixed(bytes) }
    }
}

impl fmt::Display for RecordSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for RecordSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        let sizes = text.parse().map_err(D::Error::custom)?;
        Ok(Self { text, sizes })
    }
}

/// Settings of clients or topics by Kafka's names.
type AxisMap = BTreeMap<String, Axis<Text>>;

/// One point of a matrix.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// The keys that had several values, with this point's.
    pub(super) axes: Vec<(String, String)>,
    pub(super) load: Load,
}

fn product<T: Clone + fmt::Display>(
    points: Vec<Point>,
    name: &str,
    axis: Option<&Axis<T>>,
    set: impl Fn(&mut Load, T),
) -> Vec<Point> {
    let Some(Axis(values)) = axis else { return points };
    let with = |point: Point| {
        values.iter().map({
            let set = &set;
            move |value| {
                let mut point = point.clone();
                set(&mut point.load, value.clone());
                if values.len() > 1 {
                    point.axes.push((name.to_owned(), value.to_string()));
                }
                point
            }
        })
    };
    points.into_iter().flat_map(with).collect()
}

macro_rules! load_keys {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $default:expr;)+) => {
        /// What one case does. A time is in seconds, a size in bytes.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Load {
            $($(#[doc = $doc])+ pub $name: $type,)+
            /// Settings of producers by Kafka's names.
            pub producer: BTreeMap<String, String>,
            /// Settings of consumers.
            pub consumer: BTreeMap<String, String>,
            /// Settings of the topics.
            pub topic_settings: BTreeMap<String, String>,
        }

        impl Default for Load {
            fn default() -> Self {
                let maps = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
                Self { $($name: $default,)+ producer: maps.0, consumer: maps.1, topic_settings: maps.2 }
            }
        }

        impl Load {
            /// All of it, by the scenario's keys.
            pub fn parameters(&self) -> BTreeMap<String, String> {
                let mut all = BTreeMap::new();
                $(all.insert(stringify!($name).to_owned(), self.$name.to_string());)+
                let maps = [("producer", &self.producer), ("consumer", &self.consumer), ("topic_settings", &self.topic_settings)];
                for (prefix, map) in maps {
                    all.extend(map.iter().map(|(name, value)| (format!("{prefix}.{name}"), value.clone())));
                }
                all
            }
        }

        /// The keys and their meaning. [`Load::parameters`] of the default has their defaults.
        pub const KEYS: &[(&str, &str)] = &[$((stringify!($name), concat!($($doc),+)),)+];

        /// A case as it is written.
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct CaseToml {
            pub(super) id: Option<String>,
            pub(super) title: Option<String>,
            pub(super) repeat: Option<u32>,
            pub(super) stop: Option<Stop>,
            pub(super) skip: Vec<BTreeMap<String, Text>>,
            pub(super) published: Vec<Published>,
            $(pub(super) $name: Option<Axis<$type>>,)+
            pub(super) producer: AxisMap,
            pub(super) consumer: AxisMap,
            pub(super) topic_settings: AxisMap,
        }

        impl CaseToml {
            /// What this case does not say is as in `defaults`.
            pub(super) fn or(mut self, defaults: &Self) -> Self {
                $(self.$name = self.$name.or_else(|| defaults.$name.clone());)+
                self.repeat = self.repeat.or(defaults.repeat);
                self.stop = self.stop.or(defaults.stop);
                for (own, theirs) in [
                    (&mut self.producer, &defaults.producer),
                    (&mut self.consumer, &defaults.consumer),
                    (&mut self.topic_settings, &defaults.topic_settings),
                ] {
                    for (name, axis) in theirs {
                        own.entry(name.clone()).or_insert_with(|| axis.clone());
                    }
                }
                self
            }

            /// Every combination of values, the last key varying fastest.
            pub(super) fn points(&self) -> Vec<Point> {
                let mut points = vec![Point { axes: Vec::new(), load: Load::default() }];
                $(points = product(points, stringify!($name), self.$name.as_ref(), |load, value| load.$name = value);)+
                for (name, axis) in &self.producer {
                    points = product(points, &format!("producer.{name}"), Some(axis), |load, value| {
                        load.producer.insert(name.clone(), value.0);
                    });
                }
                for (name, axis) in &self.consumer {
                    points = product(points, &format!("consumer.{name}"), Some(axis), |load, value| {
                        load.consumer.insert(name.clone(), value.0);
                    });
                }
                for (name, axis) in &self.topic_settings {
                    points = product(points, &format!("topic_settings.{name}"), Some(axis), |load, value| {
                        load.topic_settings.insert(name.clone(), value.0);
                    });
                }
                points
            }
        }
    };
}

load_keys! {
    /// Brokers without which the case means nothing.
    brokers_needed: u32 = 1;
    /// Topics are on so many of the target's brokers, those of the lowest ids, and the others idle; 0: on all.
    brokers_used: u32 = 0;
    /// CPUs of each broker that is started, for example 1.5; 0: all of the machine's.
    broker_cpus: f64 = 0.0;
    /// Memory of each of them, the page cache included: "2GiB"; 0: all of the machine's.
    broker_memory: ByteSize = ByteSize(0);
    /// Name of a topic to use, which is made where it is missing and kept; otherwise topics are made and deleted.
    topic: String = String::new();
    /// How many topics; producers take them in turns.
    topics: u32 = 1;
    /// Of each topic.
    partitions: u32 = 1;
    /// Of each partition.
    replicas: u32 = 1;
    /// Producers at work at the same time; without any, consumers read what was put there before.
    producers: u32 = 1;
    /// Consumers of each group.
    consumers: u32 = 0;
    /// Groups, each of which reads everything; 0: no groups, and each consumer reads everything.
    consumer_groups: u32 = 1;
    /// Connections that are open beside those of producers and consumers, and send nothing.
    idle_connections: u32 = 0;
    /// Consumers start so long after producers, and have to catch up.
    consumers_start_s: f64 = 0.0;
    /// "client" batches as Kafka's producer does, "raw" sends requests that were encoded before, "librdkafka" is its
    /// producer, in a program that is built with it.
    engine: Engine = Engine::Client;
    /// Records per second of all producers together; 0: as many as are taken.
    rate_records_per_s: f64 = 0.0;
    /// "open": latency counts from when a record was due; "closed": from when it was sent, as in Kafka's tool.
    rate_loop: Loop = Loop::Open;
    /// The rate grows in a straight line for so long.
    ramp_s: f64 = 0.0;
    /// Producers send in transactions, each of which is committed when it is so old; 0: without.
    transaction_ms: u64 = 0;
    /// How many records the report sent, or read, all together; what --scale takes a part of.
    records: u64 = 0;
    /// How long the case runs where no --scale is given, the warm-up left out.
    duration_s: f64 = 15.0;
    /// Left out of all figures.
    warm_up_s: f64 = 3.0;
    /// 1024, "100-2000" for sizes in between, "100:9,2000:1" for sizes with weights.
    record_size_bytes: RecordSize = RecordSize::fixed(1024);
    /// The part of each value, from 0 to 1, that is the same in all and compresses to nothing.
    repeated_part: f64 = 0.0;
    /// "none", "range", "random" or "skewed".
    keys: KeyDistribution = KeyDistribution::None;
    /// How many different keys.
    key_range: u64 = 1_000_000;
    /// Added to each round trip between clients and brokers, as a network across zones does.
    network_delay_ms: f64 = 0.0;
}
