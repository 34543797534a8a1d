//! `parshall cluster remove-node`: a node that has left for good is no voter and no broker any more.

use std::process::ExitCode;

use anyhow::{Result, bail};
use client::ClientError;
use serde_json::json;
use wire::Uuid;

use crate::cmd::args::Connection;
use crate::cmd::output;

/// Remove a node that has left for good: its vote in the quorum, and its registration.
///
/// The node has to be stopped; one that runs would register anew. Its replicas are moved to other nodes before, with
/// `parshall partition reassign` or in the console (Partitions, Reassign). With --leave-replicas they stay assigned to
/// it, and their partitions under-replicated.
///
/// Most voters have to run, the removed one counted, as for any change of the metadata.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall cluster remove-node 4
  parshall cluster remove-node 4 --bootstrap-server kafka-1:9092,kafka-2:9092
  parshall cluster remove-node 4 --leave-replicas")]
pub(super) struct Args {
    /// Number of the node (`node.id`)
    node_id: i32,
    /// Remove it although it has replicas
    #[arg(long)]
    leave_replicas: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: Args) -> Result<ExitCode> {
    let node_id = args.node_id;
    let client = args.connection.client_for_changes("cluster").await?;
    let brokers = client.describe_cluster().await?.brokers;
    let broker = brokers.into_iter().find(|broker| broker.broker.id == node_id);
    if broker.as_ref().is_some_and(|broker| broker.is_fenced != Some(true)) {
        bail!("node {node_id} runs, or is not fenced yet: stop it first");
    }
    let votes = votes(&args.connection, node_id).await?;
    if broker.is_none() && votes.is_empty() {
        bail!("there is no node {node_id} in this cluster; 'parshall cluster status' lists its nodes");
    }
    let metadata = client.cluster().await?;
    let partitions = metadata.topics.values().flat_map(|topic| &topic.partitions);
    let replicas = partitions.filter(|partition| partition.replicas.contains(&node_id)).count();
    if replicas > 0 && !args.leave_replicas {
        let s = if replicas == 1 { "" } else { "s" };
        bail!("node {node_id} has {replicas} replica{s}: move them to other nodes first, or name --leave-replicas");
    }
    for directory_id in &votes {
        client.remove_voter(node_id, *directory_id).await?;
    }
    if broker.is_some() {
        client.unregister_broker(node_id).await?;
    }
    if args.json {
        output::print_json(&json!({
            "node_id": node_id, "removed_votes": votes.len(), "is_unregistered": broker.is_some(), "replicas": replicas,
        }))?;
    } else {
        let votes = if votes.is_empty() { "it had no vote" } else { "its vote is removed" };
        let registration = if broker.is_some() { "its registration is removed" } else { "it was not registered" };
        output::print(&format!("node {node_id}: {votes}, {registration}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The data directories of the node that have a vote: two where its disk was replaced and the old one had to stay.
async fn votes(connection: &Connection, node_id: i32) -> Result<Vec<Uuid>> {
    // On connections of its own: without a leader of the quorum nothing behind it is answered.
    let quorum = match connection.unconnected("cluster")?.describe_quorum().await {
        Ok(quorum) => quorum,
        Err(ClientError::NoQuorum { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let own = quorum.voters.iter().filter(|voter| voter.replica_id == node_id);
    Ok(own.map(|voter| voter.directory_id).collect())
}
