//! What becomes of an answer that is slow or breaks, as written: extensions of the spec's config object.
//!
//! Not what is done about it: `route` decides, `proxy` does it.

use super::policy::at_least;
use super::read::Cursor;

/// `stream_rescue`: what is done about a stream that breaks after its first token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamRescue {
    /// The caller is told with an error event.
    Off,
    /// Another attempt goes on where the stream broke off.
    Resume,
    /// The answer is held until it is whole, so that there is nothing to go on from.
    Buffer,
}

impl StreamRescue {
    pub const VARIANTS: [(&'static str, Self); 3] =
        [("off", Self::Off), ("resume", Self::Resume), ("buffer", Self::Buffer)];
}

/// `hedge`: a second attempt at another target while the first is still silent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hedge {
    /// Milliseconds without a first token, at least 1.
    pub after_ms: u64,
    /// Extra attempts per request of the whole process, 0 to 1.
    pub max_extra_ratio: f64,
}

impl Hedge {
    pub fn read(at: &Cursor<'_>) -> Option<Self> {
        let mut fields = at.fields()?;
        let after = fields.required(&["after_ms"]).and_then(|at| super::policy::timeout_ms(&at));
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
