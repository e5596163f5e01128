//! The process's own log, on stderr: events of the process, not of requests (those have access lines).

use super::log_queue::{LineWriter, LogQueue};
use super::summing_logger::SummingLogger;
use env_logger::Target;
use env_logger::fmt::Formatter;
use log::{LevelFilter, Record};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use words::settings::{Log, LogFormat};

/// Libraries that handle headers and bodies, including keys. Below the warning level they print whole requests, so
/// they never log below it, whatever level is set.
const CONTENT_LOGGING_LIBRARIES: [&str; 11] = [
    "pingora",
    "pingora_core",
    "pingora_proxy",
    "pingora_pool",
    "pingora_http",
    "rustls",
    "h2",
    "hyper",
    "tower",
    "tokio_postgres",
    "refinery_core",
];
/// Libraries that log every failed connection as an error. The access line has what matters of it. Of Pingora's listener,
/// `summing_logger` passes on what matters.
const NOISY_LIBRARIES: [&str; 5] =
    ["pingora_proxy", "pingora_core::connectors", "pingora_core::apps", "hickory_resolver", "hickory_proto"];

/// One log line in JSON.
#[derive(Serialize)]
struct LogLine<'a> {
    ts: String,
    level: &'a str,
    target: &'a str,
    message: String,
}

/// The log of this process: its queue, and what decides which lines are in it.
#[derive(Clone)]
pub struct ProcessLog {
    pub queue: Arc<LogQueue>,
    logger: Arc<SummingLogger>,
}

impl ProcessLog {
    /// Takes over changed settings.
    pub fn reload(&self, log: &Log) {
        self.logger.replace(logger(log, &self.queue));
        log::set_max_level(self.logger.level());
    }
}

/// Starts logging into a queue, whose writer must be started. A second call has no effect on what is logged.
pub fn start(log: &Log) -> ProcessLog {
    let queue = Arc::<LogQueue>::default();
    let logger = Arc::new(SummingLogger::new(logger(log, &queue)));
    if log::set_boxed_logger(Box::new(Arc::clone(&logger))).is_ok() {
        log::set_max_level(logger.level());
    }
    ProcessLog { queue, logger }
}

fn logger(log: &Log, queue: &Arc<LogQueue>) -> env_logger::Logger {
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
    match format(log, io::stderr().is_terminal()) {
        LogFormat::Json => builder.format(json),
        LogFormat::Text => builder.format(text),
    };
    builder.target(Target::Pipe(Box::new(LineWriter(Arc::clone(queue)))));
    builder.build()
}

/// What the settings say, or else what its reader can read.
fn format(log: &Log, is_terminal: bool) -> LogFormat {
    let default = if is_terminal { LogFormat::Text } else { LogFormat::Json };
    log.format.unwrap_or(default)
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

/// Prints to stderr why the process cannot continue.
#[expect(clippy::print_stderr, reason = "for errors at start, also before the log runs")]
pub fn fatal(why: &str) -> ExitCode {
    eprintln!("turnpike: {}", why.trim_end());
    ExitCode::FAILURE
}

/// Prints a hint to stderr, for commands that people use.
#[expect(clippy::print_stderr, reason = "for people at a terminal")]
pub fn note(text: &str) {
    eprintln!("turnpike: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_text_unless_the_settings_have_a_format() {
        let of = |format| Log { format, ..Log::default() };
        assert_eq!(format(&of(None), true), LogFormat::Text);
        assert_eq!(format(&of(None), false), LogFormat::Json);
        for is_terminal in [true, false] {
            assert_eq!(format(&of(Some(LogFormat::Json)), is_terminal), LogFormat::Json);
            assert_eq!(format(&of(Some(LogFormat::Text)), is_terminal), LogFormat::Text);
        }
    }
}
