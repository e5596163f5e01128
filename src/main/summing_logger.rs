//! The process's logger: sums up repeated lines (`repeats`) and hands the rest to `env_logger`.
//!
//! Not the format or the levels (`logging`), and not the queue behind it (`log_queue`).

use super::repeats::{Repeats, Summary};
use arc_swap::ArcSwap;
use log::{Level, LevelFilter, Log, Metadata, Record};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;

/// Pingora's listener logs every failed handshake. Of its lines, only this one is about the gateway: no connection can be
/// accepted, for example because there are no file descriptors left.
const LISTENER: &str = "pingora_core::services::listening";
const ACCEPT_FAILED: &str = "Accept() failed";

/// Logs each line once a second.
pub struct SummingLogger {
    inner: ArcSwap<env_logger::Logger>,
    repeats: Mutex<Repeats>,
}

impl SummingLogger {
    pub fn new(inner: env_logger::Logger) -> Self {
        Self { inner: ArcSwap::from_pointee(inner), repeats: Mutex::default() }
    }

    /// Has another format or other levels from now on.
    pub fn replace(&self, inner: env_logger::Logger) {
        self.inner.store(Arc::new(inner));
    }

    /// The least level of which any line may be logged.
    pub fn level(&self) -> LevelFilter {
        self.inner.load().filter()
    }

    fn write(&self, level: Level, target: &str, text: &str) {
        let mut record = Record::builder();
        self.inner.load().log(&record.level(level).target(target).args(format_args!("{text}")).build());
    }
}

impl Log for SummingLogger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.inner.load().enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        let inner = self.inner.load();
        if !inner.matches(record) {
            return;
        }
        // Whoever turned these on wants every line.
        if record.level() > Level::Info {
            return inner.log(record);
        }
        let text = record.args().to_string();
        if record.target() == LISTENER && !text.starts_with(ACCEPT_FAILED) {
            return;
        }
        let admitted = self.repeats.lock().admit(record.level(), record.target(), &text, Instant::now());
        match admitted {
            Some(None) => inner.log(record),
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
