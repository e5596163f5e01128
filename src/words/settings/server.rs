//! `server`, `tls` and `log`: the process itself.
//!
//! Not here: listeners, and anything about requests.

use super::values::{count, file};
use crate::config::read::ObjectReader;
use std::path::PathBuf;
use std::time::Duration;

/// `server`: threads, process files, draining.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Threads per service; `None` leaves it to `main` (the number of CPUs).
    pub threads: Option<usize>,
    /// Idle threads take work from busy ones.
    pub work_stealing: bool,
    /// Socket on which an old process hands its listeners to a new one.
    pub upgrade_sock: Option<PathBuf>,
    pub pid_file: Option<PathBuf>,
    /// How long open streams may drain after a stop was requested.
    pub grace_period: Duration,
    /// Idle upstream connections kept per thread in each of the two pools: that of attempts and that of
    /// direct requests.
    pub upstream_pool_size: usize,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            threads: None,
            work_stealing: true,
            upgrade_sock: None,
            pid_file: None,
            grace_period: Duration::from_secs(30),
            upstream_pool_size: 128,
        }
    }
}

impl Server {
    pub(super) fn read(mut fields: ObjectReader<'_>) -> Self {
        let defaults = Self::default();
        let grace = fields.get(&["grace_period_seconds"]).and_then(|at| at.integer_within(0, 86_400));
        let server = Self {
            threads: count(&mut fields, "threads", 1, 1024),
            work_stealing: fields.flag(&["work_stealing"]).unwrap_or(defaults.work_stealing),
            upgrade_sock: file(&mut fields, "upgrade_sock"),
            pid_file: file(&mut fields, "pid_file"),
            grace_period: grace
                .and_then(|seconds| u64::try_from(seconds).ok())
                .map_or(defaults.grace_period, Duration::from_secs),
            upstream_pool_size: count(&mut fields, "upstream_pool_size", 0, 65_536)
                .unwrap_or(defaults.upstream_pool_size),
        };
        fields.reject_unknown(&[
            "threads",
            "work_stealing",
            "upgrade_sock",
            "pid_file",
            "grace_period_seconds",
            "upstream_pool_size",
        ]);
        server
    }
}

/// `tls`: how providers' certificates are verified.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// PEM file of the certificate authorities to trust in place of the built-in ones.
    pub ca_file: Option<PathBuf>,
}

impl UpstreamTls {
    pub(super) fn read(mut fields: ObjectReader<'_>) -> Self {
        let tls = Self { ca_file: file(&mut fields, "ca_file") };
        fields.reject_unknown(&["ca_file"]);
        tls
    }
}

/// `log`: the process's own log (not the access line).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    pub level: log::LevelFilter,
    pub format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Json,
    Text,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: log::LevelFilter::Info, format: LogFormat::Json }
    }
}

impl Log {
    pub(super) fn read(mut fields: ObjectReader<'_>) -> Self {
        const LEVELS: [(&str, log::LevelFilter); 5] = [
            ("error", log::LevelFilter::Error),
            ("warn", log::LevelFilter::Warn),
            ("info", log::LevelFilter::Info),
            ("debug", log::LevelFilter::Debug),
            ("trace", log::LevelFilter::Trace),
        ];
        const FORMATS: [(&str, LogFormat); 2] = [("json", LogFormat::Json), ("text", LogFormat::Text)];
        let defaults = Self::default();
        let log = Self {
            level: fields.get(&["level"]).and_then(|at| at.one_of(&LEVELS)).unwrap_or(defaults.level),
            format: fields.get(&["format"]).and_then(|at| at.one_of(&FORMATS)).unwrap_or(defaults.format),
        };
        fields.reject_unknown(&["level", "format"]);
        log
    }
}
