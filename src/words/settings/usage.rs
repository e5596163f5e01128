//! `usage`: how the gateway learns what requests used where providers do not say it by themselves.
//!
//! Not here: what usage costs (`prices`), and who may use how much.

use crate::config::read::ObjectReader;

/// `usage`; all of it may be absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageSettings {
    /// Providers are requested to report the usage of streams whose client did not request it.
    pub stream_usage: bool,
    /// Tokens are counted with a tokenizer where a provider reports none; otherwise by a rule.
    pub tokenizer: bool,
    /// A stream whose client has left is read to its end, for providers that charge all of it anyway.
    pub drain: bool,
}

impl Default for UsageSettings {
    fn default() -> Self {
        Self { stream_usage: true, tokenizer: true, drain: false }
    }
}

impl UsageSettings {
    pub(super) fn read(mut fields: ObjectReader<'_>) -> Self {
        let default = Self::default();
        let stream_usage = fields.flag(&["stream_usage"]);
        let tokenizer = fields.flag(&["tokenizer"]);
        let drain =
            fields.get(&["on_disconnect"]).and_then(|at| at.one_of(&[("stop", false), ("drain", true)]));
        fields.reject_unknown(&["stream_usage", "tokenizer", "on_disconnect"]);
        Self {
            stream_usage: stream_usage.unwrap_or(default.stream_usage),
            tokenizer: tokenizer.unwrap_or(default.tokenizer),
            drain: drain.unwrap_or(default.drain),
        }
    }
}
