//! The words callers speak: operations, bodies, request rules, usage, event framing, our own replies.
//!
//! Pure: no I/O, no clock, no provider. A provider's own words live with the provider.

pub mod body;
pub mod operation;

/// Whose error bodies and stream events the caller expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    #[default]
    OpenAi,
    Anthropic,
}
