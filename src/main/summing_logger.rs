//! The process's logger: sums up repeated lines (`repeats`) and hands the rest to `env_logger`.
//!
//! Not the format or the levels (`logging`), and not the queue behind it (`log_queue`).

use super::repeats::{Repeats, Summary};
use log::{Level, Log, Metadata, Record};
use parking_lot::Mutex;
use std::time::Instant;

/// Pingora's listener logs every failed handshake. Of its lines, only this one is about the gateway: no connection can be
/// accepted, for example because there are no file descriptors left.
const LISTENER: &str = "pingora_core::services::listening";
const ACCEPT_FAILED: &str = "Accept() failed";

/// Logs each line once a second.
pub struct SummingLogger {
    inner: env_logger::Logger,
    repeats: Mutex<Repeats>,
}

impl SummingLogger {
    pub fn new(inner: env_logger::Logger) -> Self {
        Self { inner, repeats: Mutex::default() }
    }

    fn write(&self, level: Level, target: &str, text: &str) {
        let mut record = Record::builder();
        self.inner.log(&record.level(level).target(target).args(format_args!("{text}")).build());
    }
}

impl Log for SummingLogger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.inner.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if !self.inner.matches(record) {
            return;
        }
        // Whoever turned these on wants every line.
        if record.level() > Level::Info {
            return self.inner.log(record);
        }
        let text = record.args().to_string();
        if record.target() == LISTENER && !text.starts_with(ACCEPT_FAILED) {
            return;
        }
        let admitted = self.repeats.lock().admit(record.level(), record.target(), &text, Instant::now());
        match admitted {
            Some(None) => self.inner.log(record),
            Some(Some(text)) => self.write(record.level(), record.target(), &text),
            None => {}
        }
    }

    /// Logs what was counted so far.
    fn flush(&self) {
        let summaries = self.repeats.lock().take(Instant::now());
        for Summary { level, target, text } in summaries {
            self.write(level, &target, &text);
        }
    }
}
