//! `access_log`: where the access line of each request is written.
//!
//! Not here: the content of the line, and reopening the file.

use crate::config::members::{FILE, MemberTable, OneOf};
use serde_json::json;
use std::path::PathBuf;

/// The destination of the access log, or none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AccessLog {
    #[default]
    Stdout,
    File(PathBuf),
    Journald,
    Off,
}

const OUTPUTS: OneOf = OneOf(&["stdout", "file", "journald", "off"]);

impl AccessLog {
    pub(super) const DOC: &str = "One JSON line per request (docs/access-log.md).";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let output = table.or("output", OUTPUTS, "stdout", "Where the lines are written.");
        let path = table.get("path", FILE, "With output: file. SIGUSR1 reopens it, for logrotate.");
        table.keyword("if", || json!({"properties": {"output": {"const": "file"}}, "required": ["output"]}));
        table.keyword("then", || json!({"required": ["path"]}));
        let is_wrong = table.at("output").is_some_and(|at| at.node.as_text() != Some(output));
        if output == "file" && table.at("path").is_none() {
            table.missing("path", "is required");
        } else if output != "file" && !is_wrong {
            table.problem("path", "is only used with output: file");
        }
        Some(match (output, path) {
            ("file", Some(path)) => Self::File(path),
            ("journald", _) => Self::Journald,
            ("off", _) => Self::Off,
            _ => Self::Stdout,
        })
    }
}
