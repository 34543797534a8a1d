//! What goes in and out of the partitions of a topic on this node.
//!
//! Records that go out are not counted: a fetch names a range of a file, which is not parsed.

use platform::Count;

#[derive(Debug, Default)]
pub struct Traffic {
    /// Of producers.
    pub records_in: Count,
    pub bytes_in: Count,
    /// To consumers.
    pub bytes_out: Count,
    /// From leaders, and to followers.
    pub replication_bytes_in: Count,
    pub replication_bytes_out: Count,
}
