//! `server`, `tls` and `log`: the process itself.
//!
//! Not here: listeners, and anything about requests.

use super::values::{NODE_NAME, URL};
use crate::config::members::{Choice, FILE, FLAG, MemberTable, seconds, whole};
use std::path::PathBuf;
use std::time::Duration;

/// `server`: threads, process files, draining.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The name of this gateway among those of its store; `None`: that of the host.
    pub node: Option<String>,
    /// Where clients reach the data port, without a slash at its end.
    pub public_url: Option<String>,
    /// Threads per service; `None` leaves it to `main` (the number of CPUs).
    pub threads: Option<usize>,
    /// Idle threads take work from busy ones.
    pub work_stealing: bool,
    /// Without effect: a hand-over needs no socket any more.
    pub upgrade_sock: Option<PathBuf>,
    pub pid_file: Option<PathBuf>,
    /// What outlives the process is there. `None`: `$STATE_DIRECTORY`, and what follows from where the settings file is.
    pub state_dir: Option<PathBuf>,
    /// How long connections are accepted after readiness has failed at a stop.
    pub drain_delay: Duration,
    /// How long open streams may drain after a stop was requested.
    pub grace_period: Duration,
    /// How long they may drain after a hand-over; `None`: as after a stop.
    pub drain: Option<Duration>,
    /// Idle upstream connections kept per thread in each of the two pools: that of attempts and that of
    /// direct requests.
    pub upstream_pool_size: usize,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            node: None,
            public_url: None,
            threads: None,
            work_stealing: true,
            upgrade_sock: None,
            pid_file: None,
            state_dir: None,
            drain_delay: Duration::ZERO,
            grace_period: Duration::from_secs(30),
            drain: None,
            upstream_pool_size: 128,
        }
    }
}

impl Server {
    /// How long open streams may drain after a hand-over.
    pub fn drain(&self) -> Duration {
        self.drain.unwrap_or(self.grace_period)
    }

    pub(super) const DOC: &str = "The process.";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let default = Self::default();
        let state_dir = "Directory of what outlives the process: databases, master key, files of batches. Default: \
                         $STATE_DIRECTORY, else /var/lib/turnpike for settings below /etc/turnpike, else data/ beside this file.";
        let drain_delay = "Seconds between the failing of /readyz and the closing of the listeners at a stop, for balancers to notice; the grace \
                           period follows. At least half a second passes in any case.";
        let grace_period = "Seconds that requests in flight may continue after a stop was requested and drain_delay_seconds are over. Under systemd, TimeoutStopSec must be longer than both together.";
        let drain = "Seconds that requests and websockets of the process before may continue after an upgrade. Default: grace_period_seconds.";
        let public_url = "Where clients reach the data port, such as https://gateway.example.com: MCP clients are told so (RFC 9728). \
                          Default: unset, and they are told nothing.";
        let node = "Name of this gateway among those of its store, in `turnpike nodes`. Default: the name of the host.";
        Some(Self {
            node: table.get("node", NODE_NAME, node),
            public_url: table
                .get("public_url", URL, public_url)
                .map(|url| url.trim_end_matches('/').to_owned()),
            threads: table.get(
                "threads",
                whole(1, 1024),
                "Threads per service. Default: the number of CPUs.",
            ),
            work_stealing: table.or(
                "work_stealing",
                FLAG,
                default.work_stealing,
                "Whether idle threads take work from busy ones.",
            ),
            upgrade_sock: table.get(
                "upgrade_sock",
                FILE,
                "Without effect: `turnpike upgrade` needs no socket.",
            ),
            pid_file: table.get("pid_file", FILE, "File for the process's id."),
            state_dir: table.get("state_dir", FILE, state_dir),
            drain_delay: table.or("drain_delay_seconds", seconds(0, 3_600), default.drain_delay, drain_delay),
            grace_period: table.or(
                "grace_period_seconds",
                seconds(0, 86_400),
                default.grace_period,
                grace_period,
            ),
            drain: table.get("drain_seconds", seconds(0, 604_800), drain),
            upstream_pool_size: table.or(
                "upstream_pool_size",
                whole(0, 65_536),
                default.upstream_pool_size,
                "Maximum number of idle connections to providers, per thread and pool.",
            ),
        })
    }
}

/// `tls`: how providers' certificates are verified.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// PEM file of the certificate authorities to trust in place of the built-in ones.
    pub ca_file: Option<PathBuf>,
}

impl UpstreamTls {
    pub(super) const DOC: &str = "How the certificates of providers are verified.";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let ca_file =
            table.get("ca_file", FILE, "PEM file of the authorities to trust instead of the system's.");
        Some(Self { ca_file })
    }
}

/// `log`: the process's own log (not the access line).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    pub level: log::LevelFilter,
    /// `None`: text at a terminal, else JSON.
    pub format: Option<LogFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Json,
    Text,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: log::LevelFilter::Info, format: None }
    }
}

impl Log {
    pub(super) const DOC: &str = "The log of the process itself, on standard error.";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        const LEVELS: Choice<log::LevelFilter> = Choice(&[
            ("error", log::LevelFilter::Error),
            ("warn", log::LevelFilter::Warn),
            ("info", log::LevelFilter::Info),
            ("debug", log::LevelFilter::Debug),
            ("trace", log::LevelFilter::Trace),
        ]);
        const FORMATS: Choice<LogFormat> = Choice(&[("json", LogFormat::Json), ("text", LogFormat::Text)]);
        let default = Self::default();
        let format = "A line in JSON, or text. Default: text where standard error is a terminal, else json.";
        Some(Self {
            level: table.or("level", LEVELS, default.level, "The least level."),
            format: table.get("format", FORMATS, format),
        })
    }
}
