//! The pages, one file each: what it shows, and which forms it takes. Their HTML is in `templates/`.

pub(crate) mod alerts;
pub(crate) mod broker;
pub(crate) mod cluster_new;
pub(crate) mod clusters;
pub(crate) mod configs;
pub(crate) mod connector;
pub(crate) mod connector_changes;
pub(crate) mod connector_configs;
pub(crate) mod connector_new;
pub(crate) mod connectors;
pub(crate) mod delete_records;
pub(crate) mod elections;
pub(crate) mod follow;
pub(crate) mod group;
pub(crate) mod group_changes;
pub(crate) mod group_reset;
pub(crate) mod groups;
pub(crate) mod lab;
mod listing;
pub(crate) mod message;
pub(crate) mod messages;
pub(crate) mod moves;
pub(crate) mod overview;
pub(crate) mod partition;
pub(crate) mod partitions;
pub(crate) mod produce;
pub(crate) mod produce_many;
pub(crate) mod quorum;
pub(crate) mod reassign;
pub(crate) mod replicas;
pub(crate) mod selected_topics;
pub(crate) mod topic;
pub(crate) mod topic_changes;
pub(crate) mod topics;

pub(crate) use listing::{Listing, Pages, ROWS};
