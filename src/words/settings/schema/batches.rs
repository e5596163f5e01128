//! The schema of `batches`.

use super::{integer, non_empty, object, or, pattern};
use crate::settings::BatchSettings;
use serde_json::Value;

pub(super) fn section() -> Value {
    let default = BatchSettings::default();
    object(
        "Files that clients upload to the gateway, and the batches that it runs itself (docs/batches.md).",
        &[],
        vec![
            (
                "directory",
                non_empty(
                    "Where files are kept. Default: blobs in the state directory. Gateways that share a store need one that all of \
                     them have, or s3.",
                ),
            ),
            ("s3", s3()),
            (
                "concurrency",
                or(
                    integer("Lines of batches in flight in this process.", 1, Some(4096)),
                    default.concurrency,
                ),
            ),
            ("max_lines", or(integer("Lines of one batch.", 1, Some(1_000_000)), default.max_lines)),
            (
                "max_line_bytes",
                or(integer("The longest line, bytes.", 1024, Some(64 << 20)), default.max_line_bytes),
            ),
            (
                "max_file_bytes",
                or(integer("The largest file, bytes.", 1024, Some(1 << 40)), default.max_file_bytes),
            ),
            (
                "max_workspace_bytes",
                or(
                    integer("All files of a workspace, bytes.", 1024, Some(1 << 50)),
                    default.max_workspace_bytes,
                ),
            ),
            (
                "retention_days",
                or(
                    integer(
                        "How long finished batches and the files that they made are kept.",
                        1,
                        Some(3650),
                    ),
                    default.retention.as_secs() / 86_400,
                ),
            ),
        ],
    )
}

fn s3() -> Value {
    object(
        "A bucket of Amazon S3, or of what speaks its API, in place of a directory.",
        &["bucket"],
        vec![
            ("bucket", non_empty("The bucket.")),
            ("prefix", non_empty("What the names of all objects begin with.")),
            ("region", non_empty("The bucket's region.")),
            ("endpoint", pattern("Of another vendor.", "^https?://.", &["https://s3.example.com"])),
            (
                "credentials",
                object(
                    "Default: from the machine's environment.",
                    &["access_key_id", "secret_access_key"],
                    vec![
                        ("access_key_id", non_empty("The id of an access key.")),
                        ("secret_access_key", non_empty("Its secret.")),
                    ],
                ),
            ),
        ],
    )
}
