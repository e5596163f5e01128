//! `usage`: how the gateway learns what requests used where providers do not say it by themselves.
//!
//! Not here: what usage costs (`prices`), and who may use how much.

use crate::config::members::{Choice, FLAG, MemberTable};

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

const ON_DISCONNECT: Choice<bool> = Choice(&[("stop", false), ("drain", true)]);

impl UsageSettings {
    pub(super) const DOC: &str = "How the gateway learns what requests used (docs/usage.md).";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let default = Self::default();
        let stream_usage = "Whether providers are requested to report the usage of streams whose client did not request it. The event \
                            that they add is not passed on. While a limit counts tokens or costs, they are in any case. Default: true.";
        let tokenizer = "Whether tokens are counted with a tokenizer where a provider reports none; it takes 6 MiB of memory once it \
                         is used. Otherwise they are estimated by a rule. Default: true.";
        let on_disconnect = "A stream whose client has left: stop closes the connection to the provider and charges what was sent, \
                             drain reads it to its end, for providers that charge all of it. Default: stop.";
        Some(Self {
            stream_usage: table.get("stream_usage", FLAG, stream_usage).unwrap_or(default.stream_usage),
            tokenizer: table.get("tokenizer", FLAG, tokenizer).unwrap_or(default.tokenizer),
            drain: table.get("on_disconnect", ON_DISCONNECT, on_disconnect).unwrap_or(default.drain),
        })
    }
}
