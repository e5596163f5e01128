//! The process's own log, to stderr: what happens to the process, not to requests (they have access lines).

use env_logger::fmt::Formatter;
use log::{LevelFilter, Record};
use serde::Serialize;
use std::io::{self, Write};
use std::process::ExitCode;
use turnpike::settings::{Log, LogFormat};

/// Libraries that see heads and bodies, keys among them: below warnings they print whole requests, so that is as
/// far as they go, whatever level is asked for.
const CONTENT_LOGGING_LIBRARIES: [&str; 9] = [
    "pingora",
    "pingora_core",
    "pingora_proxy",
    "pingora_pool",
    "pingora_http",
    "rustls",
    "h2",
    "hyper",
    "tower",
];
/// Libraries that tell each hiccup of a connection as an error; what matters of it is in the access line.
const NOISY_LIBRARIES: [&str; 6] = [
    "pingora_proxy",
    "pingora_core::connectors",
    "pingora_core::apps",
    "pingora_core::services::listening",
    "hickory_resolver",
    "hickory_proto",
];

/// One line in JSON.
#[derive(Serialize)]
struct LogLine<'a> {
    ts: String,
    level: &'a str,
    target: &'a str,
    message: String,
}

/// Starts logging. A second call does nothing.
pub fn start(log: &Log) {
    let mut builder = env_logger::Builder::new();
    builder.filter_level(log.level);
    for library in CONTENT_LOGGING_LIBRARIES {
        builder.filter_module(library, log.level.min(LevelFilter::Warn));
    }
    if log.level < LevelFilter::Debug {
        for library in NOISY_LIBRARIES {
            builder.filter_module(library, LevelFilter::Off);
        }
    }
    match log.format {
        LogFormat::Json => builder.format(json),
        LogFormat::Text => builder.format(text),
    };
    let _ = builder.try_init();
}

fn json(out: &mut Formatter, record: &Record<'_>) -> io::Result<()> {
    let line = LogLine {
        ts: now(),
        level: record.level().as_str(),
        target: record.target(),
        message: record.args().to_string(),
    };
    serde_json::to_writer(&mut *out, &line)?;
    writeln!(out)
}

fn text(out: &mut Formatter, record: &Record<'_>) -> io::Result<()> {
    writeln!(out, "{} {:5} {} {}", now(), record.level(), record.target(), record.args())
}

fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

/// Says why the process cannot go on, readable by whoever started it.
#[expect(clippy::print_stderr, reason = "the last word of a process that ends, also before the log runs")]
pub fn fatal(why: &str) -> ExitCode {
    eprintln!("turnpike: {}", why.trim_end());
    ExitCode::FAILURE
}
