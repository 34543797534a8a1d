//! What stands around every page: the navigation, and whom the page belongs to.

use crate::Console;

/// The parts of a cluster that the navigation leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Overview,
    Topics,
    Groups,
    Transactions,
    Partitions,
    Quorum,
    Alerts,
    Connect,
    Schemas,
    Access,
    Lab,
}

impl Section {
    const ALL: [(Self, &'static str, &'static str); 11] = [
        (Self::Overview, "Overview", ""),
        (Self::Topics, "Topics", "/topics"),
        (Self::Groups, "Groups", "/groups"),
        (Self::Transactions, "Transactions", "/transactions"),
        (Self::Partitions, "Partitions", "/partitions"),
        (Self::Quorum, "Quorum", "/quorum"),
        (Self::Alerts, "Alerts", "/alerts"),
        (Self::Connect, "Connect", "/connect"),
        (Self::Schemas, "Schemas", "/schemas"),
        (Self::Access, "Access", "/users"),
        (Self::Lab, "Lab", "/lab"),
    ];
}

/// What stands around every page.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub cluster: Option<String>,
    pub base: String,
    pub section: Option<Section>,
    /// Whether there are others, or may be.
    pub has_clusters: bool,
    /// Whether its brokers tell this console their metrics.
    pub has_metrics: bool,
    /// Whether Connect clusters belong to it.
    pub has_connects: bool,
    /// Whether a schema registry does.
    pub has_schemas: bool,
    /// Whether the lab may be asked to run something against it.
    pub has_lab: bool,
    pub has_login: bool,
    /// The user of the cluster who looks.
    pub user: Option<String>,
    pub is_read_only: bool,
    pub is_insecure: bool,
    pub notice: Option<&'static str>,
    /// How long ago the cluster was seen, if that is long.
    pub age: Option<String>,
}

pub(crate) struct Entry {
    pub name: &'static str,
    pub href: String,
    pub is_current: bool,
}

impl Layout {
    /// Of a page that is about no cluster.
    pub(crate) fn outside(console: &Console) -> Self {
        Self {
            has_clusters: console.clusters().len() > 1 || console.options.saved_clusters.is_some(),
            has_login: console.options.password.is_some(),
            is_read_only: console.options.is_read_only,
            is_insecure: console.options.is_insecure,
            ..Self::default()
        }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        let is_shown = move |section| match section {
            Section::Alerts => self.has_metrics,
            Section::Connect => self.has_connects,
            Section::Schemas => self.has_schemas,
            Section::Lab => self.has_lab,
            _ => true,
        };
        let shown = Section::ALL.into_iter().filter(move |(section, ..)| is_shown(*section));
        shown.map(|(section, name, path)| Entry {
            name,
            href: format!("{}{path}", self.base),
            is_current: self.section == Some(section),
        })
    }
}
