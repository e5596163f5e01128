//! One request while it lasts: counted in flight, and in the log when it is tagged.
//!
//! Travels with the answer's body. Dropped before anyone called [`Watch::end`], it says that the caller left.

use super::intake::Intake;
use super::state::State;
use super::wire::Line;
use http::request::Parts;
use serde::Serialize;
use std::sync::Arc;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ended {
    /// The last byte was handed to the connection.
    Complete,
    /// The caller closed first.
    CallerLeft,
    /// A script broke the connection.
    Fault,
}

/// See the file's doc.
pub(super) struct Watch {
    state: Arc<State>,
    line: Arc<Line>,
    /// Number of the log entry.
    entry: Option<u64>,
    ended: Ended,
}

impl Watch {
    pub(super) fn new(state: Arc<State>, line: Arc<Line>) -> Self {
        state.stats.started();
        Self { state, line, entry: None, ended: Ended::CallerLeft }
    }

    pub(super) fn state(&self) -> &Arc<State> {
        &self.state
    }

    pub(super) fn line(&self) -> &Line {
        &self.line
    }

    pub(super) fn logged(&self) -> bool {
        self.entry.is_some()
    }

    /// Begins a log entry.
    pub(super) fn log(&mut self, tag: Option<&str>, head: &Parts) {
        if self.entry.is_none() {
            self.entry = Some(self.state.journal.open(tag, head, &self.line));
        }
    }

    /// Adds what the request's body was.
    pub(super) fn log_body(&self, intake: &mut Intake) {
        if let Some(entry) = self.entry {
            let (text, bytes, sha256) = intake.seen();
            self.state.journal.body(entry, text, bytes, sha256);
        }
    }

    /// The answer is over.
    pub(super) fn end(mut self, ended: Ended) {
        self.ended = ended;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.line.next();
        self.state.stats.ended();
        if let Some(entry) = self.entry {
            self.state.journal.close(entry, self.ended);
        }
    }
}
