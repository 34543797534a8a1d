//! How the pages of the lab ask the laboratory, and where its runs are.

use tokio::task::spawn_blocking;

use crate::benchmark_runner::{Laboratory, Order, Work};
use crate::failure::Failure;
use crate::format::escape;
use crate::request_context::RequestContext;

/// What the laboratory says, which has to look into its files for it.
pub(super) async fn ask<T: Send + 'static>(
    context: &RequestContext,
    question: impl FnOnce(&dyn Laboratory) -> T + Send + 'static,
) -> Result<T, Failure> {
    let laboratory = context.console.laboratory.clone();
    let laboratory = laboratory.ok_or_else(|| Failure::not_found("this console runs no suites"))?;
    let answer = spawn_blocking(move || question(&*laboratory)).await;
    answer.map_err(|error| Failure::unavailable(format!("the lab has failed: {error}")))
}

/// Something to be run against the cluster.
pub(super) fn order(context: &RequestContext, work: Work) -> Order {
    Order {
        work,
        name: context.cluster.name.clone(),
        bootstrap_servers: context.cluster.config().bootstrap_servers.clone(),
    }
}

pub(super) fn run_path(context: &RequestContext, id: &str) -> String {
    format!("{}/lab/runs/{}", context.base, escape(id))
}
