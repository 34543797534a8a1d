//! Topic names: what may be one (`org.apache.kafka.common.internals.Topic`).

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The longest name: with a partition's number it still is a file name.
pub const LENGTH_MAX: usize = 249;

/// The topic of committed offsets.
pub const CONSUMER_OFFSETS: &str = "__consumer_offsets";
/// The topic of transactions.
pub const TRANSACTION_STATE: &str = "__transaction_state";
/// The metadata log, which is no topic for clients.
pub const CLUSTER_METADATA: &str = "__cluster_metadata";

const INTERNAL: [&str; 3] = [CONSUMER_OFFSETS, TRANSACTION_STATE, "__share_group_state"];

/// Whether the broker keeps its own state in the topic.
pub fn is_internal(name: &str) -> bool {
    INTERNAL.contains(&name)
}

/// Why a text is no topic name, in Kafka's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Topic name is invalid: {0}")]
pub struct InvalidTopicName(String);

/// Whether a text can be a topic's name: 1 to 249 of `a-z A-Z 0-9 . _ -`, and neither `.` nor `..`.
pub fn validate_name(name: &str) -> Result<(), InvalidTopicName> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    Err(InvalidTopicName(match name {
        "" => "the empty string is not allowed".to_owned(),
        "." | ".." => format!("'{name}' is not allowed"),
        _ if name.len() > LENGTH_MAX => {
            // The name is as long as a client likes, the answer is not.
            let shown = name.char_indices().nth(LENGTH_MAX).map_or(name, |(end, _)| &name[..end]);
            format!("the length of '{shown}' is longer than the max allowed length {LENGTH_MAX}")
        }
        _ if !name.bytes().all(is_legal) => {
            format!("'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'")
        }
        _ => return Ok(()),
    }))
}

/// A valid topic name. Only such a name gets into the metadata and onto the disk.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName(Arc<str>);

impl TopicName {
    pub fn new(name: &str) -> Result<Self, InvalidTopicName> {
        validate_name(name)?;
        Ok(Self(name.into()))
    }

    /// The name as metrics may show it: two names that differ only in `.` and `_` collide.
    pub(super) fn unified(&self) -> String {
        self.0.replace('.', "_")
    }

    /// Whether another name could collide with it.
    pub(super) fn has_collision_chars(&self) -> bool {
        self.0.contains(['.', '_'])
    }

    pub fn as_arc(&self) -> &Arc<str> {
        &self.0
    }
}

impl Deref for TopicName {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for TopicName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_table() {
        let longest = "a".repeat(249);
        for name in ["a", "...", ".a", "A-b_c.0", "__consumer_offsets", &longest] {
            assert_eq!(TopicName::new(name).as_deref(), Ok(name));
        }
        let too_long = "ab".repeat(150);
        let illegal = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'";
        for (name, reason) in [
            ("", "the empty string is not allowed"),
            (".", "'.' is not allowed"),
            ("..", "'..' is not allowed"),
            ("../x", illegal),
            ("a/b", illegal),
            ("a\0", illegal),
            ("<script>", illegal),
            ("\u{e4}", illegal),
            ("a b", illegal),
            (&too_long, "is longer than the max allowed length 249"),
        ] {
            let message = TopicName::new(name).unwrap_err().to_string();
            assert!(message.starts_with("Topic name is invalid: ") && message.ends_with(reason), "{message}");
        }
        assert!(validate_name(&"\u{20ac}".repeat(20000)).unwrap_err().to_string().len() < 1000);
    }
}
