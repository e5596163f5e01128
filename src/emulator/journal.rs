//! The log of tagged requests, which tests read: what was received, and how each request ended.
//!
//! Not the gateway's access log. Holds the last 1,000 entries and notifies waiters of every change.

use super::bill::Charge;
use super::request_guard::Ended;
use super::socket::ConnectionHandle;
use http::request::Parts;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

const MAX_ENTRIES: usize = 1000;

/// One request.
#[derive(Debug, Serialize)]
struct Entry {
    id: u64,
    tag: Option<String>,
    /// Milliseconds since the emulator started.
    at_ms: u64,
    /// Number of the connection it arrived on: requests with the same number shared a connection.
    connection: u64,
    method: String,
    path: String,
    query: Option<String>,
    /// In their original order and spelling if known, else in lower case.
    headers: Vec<(String, String)>,
    /// The first 64 KiB.
    body: Option<String>,
    body_bytes: u64,
    body_sha256: Option<String>,
    closed: Option<Ended>,
    closed_ms: Option<u64>,
    /// What the client pays for the response, in tokens.
    charged: Option<Charge>,
}

/// The ring buffer of entries.
#[derive(Debug)]
pub(super) struct Journal {
    started: Instant,
    entries: Mutex<VecDeque<Entry>>,
    next: AtomicU64,
    changed: Notify,
}

impl Journal {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            entries: Mutex::default(),
            next: AtomicU64::new(1),
            changed: Notify::new(),
        }
    }

    /// Adds an entry and returns its number.
    pub(super) fn open(&self, tag: Option<&str>, parts: &Parts, connection: &ConnectionHandle) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let lower = || {
            let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
            parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
        };
        let entry = Entry {
            id,
            tag: tag.map(str::to_owned),
            at_ms: self.now_ms(),
            connection: connection.number,
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().map(str::to_owned),
            headers: connection.headers(parts.method.as_str()).unwrap_or_else(lower),
            body: None,
            body_bytes: 0,
            body_sha256: None,
            closed: None,
            closed_ms: None,
            charged: None,
        };
        let mut entries = self.entries.lock();
        if entries.len() == MAX_ENTRIES {
            entries.pop_front();
        }
        entries.push_back(entry);
        drop(entries);
        self.changed.notify_waiters();
        id
    }

    pub(super) fn body(&self, id: u64, text: Option<String>, bytes: u64, sha256: Option<String>) {
        self.edit(id, |entry| {
            entry.body = text;
            entry.body_bytes = bytes;
            entry.body_sha256 = sha256;
        });
    }

    pub(super) fn close(&self, id: u64, ended: Ended, charged: Option<Charge>) {
        let now = self.now_ms();
        self.edit(id, |entry| {
            entry.closed = Some(ended);
            entry.closed_ms = Some(now);
            entry.charged = charged;
        });
    }

    /// Entries with this tag, oldest first; all entries if `tag` is `None`.
    pub(super) fn json(&self, tag: Option<&str>) -> Value {
        let entries = self.entries.lock();
        let wanted = entries.iter().filter(|entry| tag.is_none() || entry.tag.as_deref() == tag);
        Value::Array(wanted.filter_map(|entry| serde_json::to_value(entry).ok()).collect())
    }

    /// Removes entries with this tag; all entries if `tag` is `None`.
    pub(super) fn clear(&self, tag: Option<&str>) {
        self.entries.lock().retain(|entry| tag.is_some() && entry.tag.as_deref() != tag);
    }

    /// Waits until such entries exist and all of them have ended, for at most `limit`.
    pub(super) async fn settled(&self, tag: Option<&str>, limit: Duration) {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                // Subscribe before checking: a change in between would be missed.
                changed.as_mut().enable();
                if self.is_settled(tag) {
                    return;
                }
                changed.await;
            }
        };
        // A timeout is no error: the caller gets the entries that are still open.
        let _ = tokio::time::timeout(limit, wait).await;
    }

    fn is_settled(&self, tag: Option<&str>) -> bool {
        let entries = self.entries.lock();
        let mut wanted =
            entries.iter().filter(|entry| tag.is_none() || entry.tag.as_deref() == tag).peekable();
        wanted.peek().is_some() && wanted.all(|entry| entry.closed.is_some())
    }

    fn edit(&self, id: u64, change: impl FnOnce(&mut Entry)) {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.iter_mut().rev().find(|entry| entry.id == id) {
            change(entry);
        }
        drop(entries);
        self.changed.notify_waiters();
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }
}
