//! `access_log`: where the access line of each request is written.
//!
//! Not here: the content of the line, and reopening the file.

use super::values::non_empty;
use crate::config::read::ObjectReader;
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

impl AccessLog {
    pub(super) fn read(mut fields: ObjectReader<'_>) -> Self {
        const OUTPUTS: [(&str, &str); 4] =
            [("stdout", "stdout"), ("file", "file"), ("journald", "journald"), ("off", "off")];
        let output = fields.get(&["output"]).map_or(Some("stdout"), |at| at.one_of(&OUTPUTS));
        let path = match output {
            Some("file") => fields.required(&["path"]),
            _ => fields.get(&["path"]),
        };
        if let (Some(at), Some("stdout" | "journald" | "off")) = (&path, output) {
            at.problem("is only used with output: file");
        }
        let path = path.and_then(|at| non_empty(&at).map(PathBuf::from));
        fields.reject_unknown(&["output", "path"]);
        match (output, path) {
            (Some("file"), Some(path)) => Self::File(path),
            (Some("journald"), _) => Self::Journald,
            (Some("off"), _) => Self::Off,
            _ => Self::Stdout,
        }
    }
}
