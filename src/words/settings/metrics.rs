//! `metrics`: by whom requests, tokens and costs are counted.
//!
//! Not here: the families (`state::metrics`), and who may read them (`listen.metrics`).

use crate::config::members::{MemberTable, OneOf, list, whole};

/// `metrics`; all of it may be absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsSettings {
    /// Of [`ClientLabel`], each once; none: nothing is counted by client.
    pub labels: Vec<ClientLabel>,
    /// The most combinations of their values; what comes later is counted as `other`.
    pub max_clients: usize,
}

/// A label that says who made a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientLabel {
    Key,
    Workspace,
    User,
}

impl ClientLabel {
    const ALL: [(&'static str, Self); 3] =
        [("key", Self::Key), ("workspace", Self::Workspace), ("user", Self::User)];
    const NAMES: [&'static str; 3] = ["key", "workspace", "user"];

    /// The name of the label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Workspace => "workspace",
            Self::User => "user",
        }
    }
}

impl Default for MetricsSettings {
    fn default() -> Self {
        Self { labels: Vec::new(), max_clients: 1000 }
    }
}

impl MetricsSettings {
    pub(super) const DOC: &str = "What /metrics counts by client (docs/metrics.md).";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let names = table.get(
            "labels",
            list(OneOf(&ClientLabel::NAMES), "A label."),
            "By what requests, tokens and costs of clients are counted: key, workspace, user. None by default.",
        );
        let max_clients = table.or(
            "max_clients",
            whole(1, 100_000),
            Self::default().max_clients,
            "The most combinations of values of these labels; what comes later is counted as other.",
        );
        let names = names.unwrap_or_default();
        let chosen = ClientLabel::ALL.into_iter().filter(|(name, _)| names.contains(name));
        Some(Self { labels: chosen.map(|(_, label)| label).collect(), max_clients })
    }
}
