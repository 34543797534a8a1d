//! Whether the other nodes have the metadata, before one of them sets its own aside.
//!
//! They have if most voters follow a leader while this node is down. When two of three set their metadata aside at
//! once, the third has no majority.

use std::collections::BTreeSet;
use std::time::Duration;

use configuration::address;
use metadata::properties::MetaProperties;
use tokio::time::{Instant, sleep};
use wire::api::quorum_hello::QuorumHelloRequest;

use super::RecoverError;
use crate::cluster::first_start::hello_all;
use crate::security::NodeSecurity;
use crate::stream::Dialer;

/// How long the other voters are asked: an election may be under way.
const PATIENCE: Duration = Duration::from_secs(6);
const ASK_INTERVAL: Duration = Duration::from_millis(200);

/// The id of a leader that most voters confirm, at one of these addresses or one that a node there names.
pub(super) async fn find_leader(
    own: &MetaProperties,
    mut known: BTreeSet<String>,
    security: NodeSecurity,
) -> Result<i32, RecoverError> {
    if known.is_empty() {
        return Err(RecoverError::UnknownOthers);
    }
    let request = QuorumHelloRequest {
        node_id: own.node_id,
        directory_id: own.directory_id,
        cluster_id: own.cluster_id.clone(),
        wants_confirmation: true,
    };
    let dialer = Dialer::new(own.node_id, security);
    let give_up = Instant::now() + PATIENCE;
    loop {
        let answers = hello_all(&dialer, known.iter().cloned(), &request).await;
        for answer in answers.into_iter().flatten().filter(|answer| answer.cluster_id == own.cluster_id) {
            if answer.own_epoch >= 0 {
                return Ok(answer.node_id);
            }
            let others = answer.voters.iter().filter(|voter| voter.node_id != own.node_id);
            known.extend(others.map(|voter| address(&voter.host, voter.port)));
        }
        if Instant::now() >= give_up {
            let asked: Vec<String> = known.into_iter().collect();
            return Err(RecoverError::NoQuorum { asked: asked.join(", ") });
        }
        sleep(ASK_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use client::Security;
    use tokio::net::TcpListener;
    use wire::Uuid;

    use super::*;

    fn own() -> MetaProperties {
        MetaProperties { cluster_id: Some("c".to_owned()), node_id: 1, directory_id: Uuid([1; 16]) }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_who_answers_is_no_leader() {
        let error = find_leader(&own(), BTreeSet::new(), Security::default().into()).await.unwrap_err();
        assert!(matches!(error, RecoverError::UnknownOthers), "{error}");
        let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
        let error =
            find_leader(&own(), BTreeSet::from([address.clone()]), Security::default().into()).await.unwrap_err();
        assert!(matches!(&error, RecoverError::NoQuorum { asked } if *asked == address), "{error}");
    }
}
