//! What one request carries through Pingora's phases.
//!
//! Its attempts know no session; what happens to them is noted in [`Marks`].

use super::record::Record;
use crate::api::operation::Operation;
use crate::api::tap::{ResponseSummary, Tap};
use crate::error::Error;
use crate::provider::grant::Credentials;
use crate::provider::rewriter::Rewriter;
use crate::route::attempt::Attempt;
use crate::state::live::Live;
use crate::state::phase::UnderWay;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use uuid::Uuid;

/// State of one Pingora session.
pub struct Ctx {
    pub started: Instant,
    /// Echoed to the caller; empty until the request was admitted.
    pub trace_id: String,
    pub operation: Operation,
    /// The settings this request goes by, to its end.
    pub live: Option<Arc<Live>>,
    /// What is or was taken upstream: the direct way, or by an attempt.
    pub errand: Option<Errand>,
    /// The caller speaks HTTP/1.0: chunks mean nothing to it, an answer ends with its connection.
    pub is_http10: bool,
    /// The service key came as the bearer, which must not travel on.
    pub bearer_is_ours: bool,
    /// It came by `/v1/proxy/`: nothing of it is translated, errors included.
    pub is_proxied: bool,
    /// Watches an answer that passes.
    pub tap: Option<Tap>,
    /// Puts an answer right, or has translated it.
    pub rewriter: Option<Rewriter>,
    pub record: Record,
    /// The failure the caller is or was told.
    pub failure: Option<Error>,
    pub under_way: Option<UnderWay>,
}

/// An attempt on its way.
#[derive(Debug, Clone)]
pub struct Errand {
    pub attempt: Arc<Attempt>,
    pub marks: Arc<Marks>,
}

/// Moments and findings of an attempt, noted where they happen and read by the record.
#[derive(Debug, Default)]
pub struct Marks(Mutex<Noted>);

/// See [`Marks`].
#[derive(Debug, Default, Clone)]
pub struct Noted {
    /// The gateway turned to the provider.
    pub begun: Option<Instant>,
    /// The answer's head was there.
    pub head: Option<Instant>,
    /// The answer's last byte was there.
    pub ended: Option<Instant>,
    pub status: Option<u16>,
    /// Checked addresses, in the order to try them, and how many were.
    pub addresses: Vec<SocketAddr>,
    pub tried: usize,
    /// A dead connection was met: what follows goes out on a new one.
    pub fresh: bool,
    /// What was fetched to authorize it.
    pub granted: Option<Credentials>,
    /// What a hook found wrong; says more than Pingora's error.
    pub failure: Option<Error>,
}

impl Marks {
    pub fn note(&self, change: impl FnOnce(&mut Noted)) {
        change(&mut self.0.lock());
    }

    /// The next checked address to try; starts over at the end.
    pub fn take_address(&self) -> Option<SocketAddr> {
        let mut noted = self.0.lock();
        let tried = noted.tried;
        noted.tried += 1;
        noted.addresses.get(tried % noted.addresses.len().max(1)).copied()
    }

    /// The address tried last.
    pub fn last_address(&self) -> Option<SocketAddr> {
        let noted = self.0.lock();
        let last = noted.tried.checked_sub(1)?;
        noted.addresses.get(last % noted.addresses.len().max(1)).copied()
    }

    pub fn read<T>(&self, look: impl FnOnce(&Noted) -> T) -> T {
        look(&self.0.lock())
    }
}

impl Errand {
    pub fn new(attempt: Arc<Attempt>) -> Self {
        Self { attempt, marks: Arc::default() }
    }
}

impl Ctx {
    pub fn new() -> Self {
        let started = Instant::now();
        Self {
            started,
            trace_id: String::new(),
            operation: Operation::Passthrough,
            live: None,
            errand: None,
            is_http10: false,
            bearer_is_ours: false,
            is_proxied: false,
            tap: None,
            rewriter: None,
            record: Record::default(),
            failure: None,
            under_way: None,
        }
    }
}

impl Ctx {
    /// Whether the request is for a path we know nothing of, or came by `/v1/proxy/`: it passes as it is, names of
    /// headers included.
    pub fn passes_all(&self) -> bool {
        self.is_proxied || self.operation == Operation::Passthrough
    }

    /// What the answer told.
    pub fn learned(&self) -> Option<&ResponseSummary> {
        let rewritten = self.rewriter.as_ref().and_then(Rewriter::summary);
        rewritten.or_else(|| self.tap.as_ref().map(Tap::summary))
    }
}

/// A trace id for requests that bring none: time-ordered, unique.
pub fn new_trace_id() -> String {
    Uuid::now_v7().to_string()
}
