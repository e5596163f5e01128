//! `logs` in the schema.

use super::super::logs::{EXPORT_FIELDS, Logs, Payloads};
use crate::json::schema::{flag, integer, list, non_empty, object, one_of, or, pattern};
use serde_json::{Value, json};

pub(super) fn section() -> Value {
    let defaults = Logs::default();
    let url = "sqlite:///PATH, or postgres://USER:PASSWORD@HOST/DATABASE. Default: the store's where that is PostgreSQL, else logs.db in \
               $STATE_DIRECTORY or in data/ beside this file.";
    let examples = ["sqlite:///var/lib/turnpike/logs.db", "postgres://turnpike@db.internal/turnpike"];
    let number = |description: &str, min: i64, max: i64, default: usize| {
        or(integer(description, min, Some(max)), default)
    };
    let spool = usize::try_from(defaults.spool_max_bytes).unwrap_or(usize::MAX);
    let payloads = payloads("Whose bodies are kept: of no request, of failed ones, of all.");
    object(
        "What is kept of requests for logs, analytics and bills (docs/logs.md). Read at the start.",
        &[],
        vec![
            ("enabled", or(flag("Whether rows are written at all."), true)),
            ("url", pattern(url, "^sqlite:.|^postgres(ql)?://.", &examples)),
            ("payloads", or(payloads, "off")),
            (
                "max_payload_bytes",
                number("Of each body; what is longer is cut.", 1024, 16 << 20, defaults.max_payload_bytes),
            ),
            (
                "queue_max_bytes",
                number(
                    "What may wait in memory for the log store.",
                    1 << 20,
                    1 << 40,
                    defaults.queue_max_bytes,
                ),
            ),
            (
                "spool_max_bytes",
                number("What may wait on disk while the log store is away.", 0, 1 << 50, spool),
            ),
            ("spool_dir", non_empty("Default: spool in $STATE_DIRECTORY or in data/ beside this file.")),
            ("retention", retention()),
            (
                "export_denied_fields",
                list("Members of a log that no export may have.", one_of("A member.", EXPORT_FIELDS)),
            ),
        ],
    )
}

/// A member that says whose bodies are kept.
pub(super) fn payloads(description: &str) -> Value {
    one_of(description, Payloads::NAMES)
}

fn retention() -> Value {
    let age = |description: &str, default: &str| {
        let age = pattern(description, "^[1-9][0-9]*[hdw]$|^forever$", &["36h", "30d", "4w", "forever"]);
        or(age, default)
    };
    let at = pattern("When what has expired is deleted, UTC.", "^([01][0-9]|2[0-3]):[0-5][0-9]$", &["03:00"]);
    let mut section = object(
        "How long things are kept: hours (36h), days (30d), weeks (4w) or forever. Deletion is by whole days.",
        &[],
        vec![
            ("payloads", age("Bodies.", "30d")),
            ("rows", age("Rows of requests and attempts, and feedback.", "90d")),
            ("metrics", age("Sums by the hour, which analytics reads.", "365d")),
            ("audit", age("The audit log, in the store.", "365d")),
            ("at", or(at, "03:00")),
        ],
    );
    if let Value::Object(members) = &mut section {
        members.insert("examples".to_owned(), json!([{"payloads": "7d", "rows": "90d", "metrics": "365d"}]));
    }
    section
}
