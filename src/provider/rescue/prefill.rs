//! Which models go on from a text that is given to them, and how they want it. What in a request speaks against it is
//! `request`'s.

use crate::provider::anthropic::generation::Generation;

/// How a model is made to go on from a text that is given to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefill {
    /// It refuses one, answers it as if somebody had said it, or nobody knows.
    No,
    /// An assistant's message at the end is gone on with.
    Plain,
    /// The same, where this member of the message is `true`.
    Flag(&'static str),
}

/// <https://docs.mistral.ai/api>, `prefix` of an assistant's message: the last one must have it. Models that think first
/// are left out. DeepSeek has the same member under `/beta` only, where its chats do not go
/// (<https://api-docs.deepseek.com/guides/chat_prefix_completion>).
pub fn mistral(model: &str) -> Prefill {
    if model.contains("magistral") { Prefill::No } else { Prefill::Flag("prefix") }
}

/// "Assistant Prefill" at <https://openrouter.ai/docs/api-reference/overview>, for models whose makers know one.
pub fn openrouter(model: &str) -> Prefill {
    match model.split_once('/') {
        Some(("anthropic", name)) => Generation::from_model(name).prefill(),
        Some(("mistralai", name)) if !name.starts_with("magistral") => Prefill::Plain,
        _ => Prefill::No,
    }
}
