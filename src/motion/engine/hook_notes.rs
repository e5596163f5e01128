//! What the hooks of a request decided, for its access line.
//!
//! Not their results, which the client gets (`guard`), and not what hooks find that nothing waits for.

use judgment::guard::HookResult;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// The most hooks that one line lists.
const MAX_NOTES: usize = 16;

/// What hooks looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookSide {
    Request,
    Response,
}

/// What one hook decided.
#[derive(Debug)]
pub struct HookNote {
    pub id: Arc<str>,
    pub side: HookSide,
    pub is_passed: bool,
    /// It refused the request or the response.
    pub is_denied: bool,
    /// It changed text.
    pub is_changed: bool,
    /// Checks that could not decide.
    pub errors: usize,
    pub time: Duration,
}

/// Shared with hooks that run beside the call.
#[derive(Debug, Default)]
pub struct HookNotes(Mutex<Vec<HookNote>>);

impl HookNotes {
    pub(super) fn add(&self, side: HookSide, results: &[HookResult]) {
        let mut notes = self.0.lock();
        let room = MAX_NOTES.saturating_sub(notes.len());
        notes.extend(results.iter().take(room).map(|result| HookNote {
            id: Arc::clone(&result.id),
            side,
            is_passed: result.verdict,
            is_denied: result.deny,
            is_changed: result.transformed,
            errors: result.checks.iter().filter(|check| check.error.is_some()).count(),
            time: result.execution_time,
        }));
    }

    /// What was decided until now.
    pub fn take(&self) -> Vec<HookNote> {
        std::mem::take(&mut self.0.lock())
    }
}
