//! `hedge`: a second attempt beside a slow first one (a key of our own).
//!
//! Not here: starting it (`route` decides, `engine` carries it out).

use super::read::Cursor;
use super::values::{at_least, timeout_ms};

/// `hedge`: a second attempt, at another target, while the first has sent no token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hedge {
    /// Milliseconds without a first token before the second attempt starts, at least 1.
    pub after_ms: u64,
    /// Extra attempts per request, 0 to 1, measured over all requests of the process.
    pub max_extra_ratio: f64,
}

impl Hedge {
    pub fn read(at: &Cursor<'_>) -> Option<Self> {
        let mut fields = at.fields()?;
        let after = fields.required(&["after_ms"]).and_then(|at| timeout_ms(&at));
        let ratio = fields.get(&["max_extra_ratio"]).map(|at| {
            let ratio = at_least(&at, 0.0)?;
            if ratio > 1.0 {
                at.problem("must be at most 1");
                return None;
            }
            Some(ratio)
        });
        fields.reject_unknown(&["after_ms", "max_extra_ratio"]);
        Some(Self { after_ms: after?, max_extra_ratio: ratio.unwrap_or(Some(0.1))? })
    }
}
