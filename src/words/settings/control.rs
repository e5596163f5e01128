//! `control`: what the control API of this gateway may do.
//!
//! Not here: where it listens (`listen.control`), and who may call it (`auth`).

use crate::config::members::{Choice, MemberTable};

/// `control`; all of it may be absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ControlSettings {
    pub role: NodeRole,
}

/// What a gateway is among those that use one store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NodeRole {
    /// It reads and writes the store.
    #[default]
    Primary,
    /// It only reads the store.
    Edge,
}

/// What is wrong with an edge node whose store no other gateway writes.
pub(super) const EDGE_NEEDS_POSTGRES: &str = "edge only reads its store, so it needs one in PostgreSQL (store.url), which a primary writes; \
     this one is SQLite";

impl NodeRole {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Edge => "edge",
        }
    }

    pub const fn is_edge(self) -> bool {
        matches!(self, Self::Edge)
    }
}

impl ControlSettings {
    pub(super) const DOC: &str = "What the control API of this gateway may do (docs/cluster.md).";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        const ROLES: Choice<NodeRole> = Choice(&[("primary", NodeRole::Primary), ("edge", NodeRole::Edge)]);
        let role = "primary reads and writes the store; edge only reads it: its control API refuses what changes something, and it \
                    makes no tables.";
        Some(Self { role: table.or("role", ROLES, NodeRole::Primary, role) })
    }
}
