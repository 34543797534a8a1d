//! In place of the console where the program is built without it.

use anyhow::Result;
use broker::Server;
use configuration::BrokerConfig;

#[derive(Clone, Debug, clap::Args)]
pub(super) struct ConsoleArgs {}

pub(super) struct EmbeddedConsole;

impl EmbeddedConsole {
    pub(super) async fn start(_: &ConsoleArgs, _: &BrokerConfig, _: bool) -> Result<Self> {
        Ok(Self)
    }

    pub(super) fn url(&self) -> Option<&str> {
        None
    }

    pub(super) fn show(&self, _: &Server) {}
}
