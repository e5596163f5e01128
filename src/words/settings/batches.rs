//! `batches`: where files are kept that clients upload to the gateway, and how batches of the gateway run.
//!
//! Not here: batches of providers, which the gateway passes on.

use crate::config::members::{FILE, Form, MemberTable, NON_EMPTY, Time, form, non_empty, object, whole};
use crate::config::read::Cursor;
use crate::config::secret::Secret;
use crate::json::schema::{self, pattern};
use std::path::PathBuf;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const DAY: Duration = Duration::from_secs(86_400);

/// `batches`; all of it may be absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchSettings {
    /// `None`: `blobs` in the state directory.
    pub directory: Option<PathBuf>,
    /// In place of a directory, for gateways that share their store.
    pub s3: Option<S3Settings>,
    /// Lines in flight in this process.
    pub concurrency: usize,
    pub max_lines: usize,
    pub max_line_bytes: usize,
    pub max_file_bytes: u64,
    /// Of all files of a workspace.
    pub max_workspace_bytes: u64,
    /// How long finished batches and their files are kept.
    pub retention: Duration,
}

/// `batches.s3`: a bucket of Amazon S3 or of what speaks its API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Settings {
    pub bucket: String,
    /// What the names of all objects begin with.
    pub prefix: String,
    pub region: Option<String>,
    /// Of another vendor: a URL.
    pub endpoint: Option<String>,
    /// `None`: from the machine's environment.
    pub credentials: Option<S3Credentials>,
}

/// `batches.s3.credentials`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Credentials {
    pub access_key_id: String,
    pub secret_access_key: Secret,
}

impl Default for BatchSettings {
    fn default() -> Self {
        Self {
            directory: None,
            s3: None,
            concurrency: 64,
            max_lines: 50_000,
            max_line_bytes: 16 << 20,
            max_file_bytes: 1024 * MIB,
            max_workspace_bytes: 10 * 1024 * MIB,
            retention: DAY * 30,
        }
    }
}

const ENDPOINT: Form<String> = form(endpoint, |doc| pattern(doc, "^https?://.", &["https://s3.example.com"]));

const SECRET_KEY: Form<Secret> = form(|at| non_empty(at).map(Secret::new), schema::non_empty);

impl BatchSettings {
    pub(super) const DOC: &str =
        "Files that clients upload to the gateway, and the batches that it runs itself (docs/batches.md).";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let default = Self::default();
        let directory = "Where files are kept. Default: blobs in the state directory. Gateways that share a store need one that all of \
                         them have, or s3.";
        let s3 = "A bucket of Amazon S3, or of what speaks its API, in place of a directory.";
        let settings = Self {
            directory: table.get("directory", FILE, directory),
            s3: table.get("s3", object(S3Settings::members), s3),
            concurrency: table.or(
                "concurrency",
                whole(1, 4096),
                default.concurrency,
                "Lines of batches in flight in this process.",
            ),
            max_lines: table.or("max_lines", whole(1, 1_000_000), default.max_lines, "Lines of one batch."),
            max_line_bytes: table.or(
                "max_line_bytes",
                whole(1024, 64 << 20),
                default.max_line_bytes,
                "The longest line, bytes.",
            ),
            max_file_bytes: table.or(
                "max_file_bytes",
                whole(1024, 1 << 40),
                default.max_file_bytes,
                "The largest file, bytes.",
            ),
            max_workspace_bytes: table.or(
                "max_workspace_bytes",
                whole(1024, 1 << 50),
                default.max_workspace_bytes,
                "All files of a workspace, bytes.",
            ),
            retention: table.or(
                "retention_days",
                Time::new(86_400_000, 1, 3650),
                default.retention,
                "How long finished batches and the files that they made are kept.",
            ),
        };
        if settings.s3.is_some() {
            table.problem("directory", "cannot be set with s3: files are in one of them");
        }
        Some(settings)
    }
}

impl S3Settings {
    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let bucket = table.needed("bucket", NON_EMPTY, "The bucket.");
        let prefix = table.get("prefix", NON_EMPTY, "What the names of all objects begin with.");
        let region = table.get("region", NON_EMPTY, "The bucket's region.");
        let endpoint = table.get("endpoint", ENDPOINT, "Of another vendor.");
        let credentials = object(S3Credentials::members);
        let credentials = table.get("credentials", credentials, "Default: from the machine's environment.");
        Some(Self { bucket: bucket?, prefix: prefix.unwrap_or_default(), region, endpoint, credentials })
    }
}

impl S3Credentials {
    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let access_key_id = table.needed("access_key_id", NON_EMPTY, "The id of an access key.");
        let secret_access_key = table.needed("secret_access_key", SECRET_KEY, "Its secret.");
        Some(Self { access_key_id: access_key_id?, secret_access_key: secret_access_key? })
    }
}

/// The URL of a store: with TLS, unless it is on this machine.
fn endpoint(at: &Cursor<'_>) -> Option<String> {
    let text = at.text()?;
    let is_loopback = |host: &str| matches!(host, "localhost" | "127.0.0.1" | "[::1]");
    let is_fit = url::Url::parse(text).is_ok_and(|url| match url.scheme() {
        "https" => url.has_host(),
        "http" => url.host_str().is_some_and(is_loopback),
        _ => false,
    });
    if !is_fit {
        at.problem("must be https://HOST; http:// only for the machine itself");
        return None;
    }
    Some(text.to_owned())
}
