//! `batches`: where files are kept that clients upload to the gateway, and how batches of the gateway run.
//!
//! Not here: batches of providers, which the gateway passes on.

use super::values::{count, file, non_empty};
use crate::config::read::{Cursor, ObjectReader};
use crate::config::secret::Secret;
use std::path::PathBuf;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const DAY: u64 = 86_400;

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
            retention: Duration::from_secs(30 * DAY),
        }
    }
}

impl BatchSettings {
    pub(super) fn read(fields: ObjectReader<'_>) -> Self {
        let mut f = fields;
        let default = Self::default();
        let bytes = |found: Option<usize>, default: u64| found.map_or(default, |bytes| bytes as u64);
        let s3 = f.get(&["s3"]).and_then(|at| {
            let s3 = S3Settings::read(at.fields()?);
            if s3.is_some()
                && let Some(directory) = f.peek(&["directory"])
            {
                directory.problem("cannot be set with s3: files are in one of them");
            }
            s3
        });
        let settings = Self {
            directory: file(&mut f, "directory"),
            s3,
            concurrency: count(&mut f, "concurrency", 1, 4096).unwrap_or(default.concurrency),
            max_lines: count(&mut f, "max_lines", 1, 1_000_000).unwrap_or(default.max_lines),
            max_line_bytes: count(&mut f, "max_line_bytes", 1024, 64 << 20).unwrap_or(default.max_line_bytes),
            max_file_bytes: bytes(count(&mut f, "max_file_bytes", 1024, 1 << 40), default.max_file_bytes),
            max_workspace_bytes: bytes(
                count(&mut f, "max_workspace_bytes", 1024, 1 << 50),
                default.max_workspace_bytes,
            ),
            retention: count(&mut f, "retention_days", 1, 3650)
                .map_or(default.retention, |days| Duration::from_secs(days as u64 * DAY)),
        };
        f.reject_unknown(&[
            "directory",
            "s3",
            "concurrency",
            "max_lines",
            "max_line_bytes",
            "max_file_bytes",
            "max_workspace_bytes",
            "retention_days",
        ]);
        settings
    }
}

impl S3Settings {
    fn read(fields: ObjectReader<'_>) -> Option<Self> {
        let mut f = fields;
        let bucket = f.required(&["bucket"]).and_then(|at| non_empty(&at).map(str::to_owned));
        let endpoint = f.get(&["endpoint"]).and_then(|at| endpoint(&at));
        let mut text = |name: &str| f.get(&[name]).and_then(|at| non_empty(&at).map(str::to_owned));
        let (prefix, region) = (text("prefix"), text("region"));
        let settings = Self {
            prefix: prefix.unwrap_or_default(),
            region,
            endpoint,
            credentials: f.get(&["credentials"]).and_then(|at| S3Credentials::read(at.fields()?)),
            bucket: bucket.clone().unwrap_or_default(),
        };
        f.reject_unknown(&["bucket", "prefix", "region", "endpoint", "credentials"]);
        bucket.map(|_| settings)
    }
}

impl S3Credentials {
    fn read(mut fields: ObjectReader<'_>) -> Option<Self> {
        let f = &mut fields;
        let id = f.required(&["access_key_id"]).and_then(|at| non_empty(&at).map(str::to_owned));
        let secret = f.required(&["secret_access_key"]).and_then(|at| non_empty(&at).map(Secret::new));
        fields.reject_unknown(&["access_key_id", "secret_access_key"]);
        Some(Self { access_key_id: id?, secret_access_key: secret? })
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
