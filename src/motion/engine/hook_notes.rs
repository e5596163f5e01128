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
        for result in results {
            if notes.len() >= MAX_NOTES {
                if !result.deny {
                    continue;
                }
                // What was denied decides what logs keep: the last denial always has a note, in place of another.
                let other = notes.iter().rposition(|note| !note.is_denied).unwrap_or(MAX_NOTES - 1);
                notes.remove(other);
            }
            notes.push(HookNote {
                id: Arc::clone(&result.id),
                side,
                is_passed: result.verdict,
                is_denied: result.deny,
                is_changed: result.transformed,
                errors: result.checks.iter().filter(|check| check.error.is_some()).count(),
                time: result.execution_time,
            });
        }
    }

    /// What was decided until now.
    pub fn take(&self) -> Vec<HookNote> {
        std::mem::take(&mut self.0.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn result(id: &str, deny: bool) -> HookResult {
        HookResult {
            verdict: !deny,
            id: Arc::from(id),
            transformed: false,
            checks: Vec::new(),
            feedback: None,
            execution_time: Duration::ZERO,
            asynchronous: false,
            kind: "guardrail",
            created_at: Timestamp::UNIX_EPOCH,
            deny,
            judged: None,
        }
    }

    #[test]
    fn the_last_denial_always_has_a_note() {
        for denies_before in [false, true] {
            let notes = HookNotes::default();
            let before: Vec<_> = (0..40).map(|place| result(&place.to_string(), denies_before)).collect();
            notes.add(HookSide::Request, &before);
            notes.add(HookSide::Response, &[result("passes", false), result("denies", true)]);
            let notes = notes.take();
            assert_eq!(notes.len(), MAX_NOTES, "{denies_before}");
            let last = notes.last().unwrap();
            assert!(&*last.id == "denies" && last.is_denied && last.side == HookSide::Response, "{last:?}");
            assert_eq!(&*notes[0].id, "0", "{denies_before}");
        }
    }
}
