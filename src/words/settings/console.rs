//! `console`: the page for operators at the control port.
//!
//! Not here: what it serves (`control`).

use crate::config::members::{FLAG, MemberTable};

/// `console`; all of it may be absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsoleSettings {
    /// Whether the control port has the routes below `/console/`.
    pub is_enabled: bool,
}

impl Default for ConsoleSettings {
    fn default() -> Self {
        Self { is_enabled: true }
    }
}

impl ConsoleSettings {
    pub(super) const DOC: &str = "The console, a page for operators at the control port (docs/console.md).";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let enabled = "Whether the control port serves it, below /console/. Read at the start.";
        Some(Self { is_enabled: table.or("enabled", FLAG, Self::default().is_enabled, enabled) })
    }
}
