//! In place of the console where the program is built without it.

use std::net::SocketAddr;

use anyhow::Result;
use broker::Server;

#[derive(Clone, Debug, clap::Args)]
pub(super) struct ConsoleArgs {}

pub(super) struct EmbeddedConsole;

impl EmbeddedConsole {
    pub(super) async fn start(_: &ConsoleArgs, _: bool) -> Result<Self> {
        Ok(Self)
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        None
    }

    pub(super) fn show(&self, _: &Server) {}
}
