//! Which models continue a prefill (the start of their own response), and in which form. Which requests rule a prefill
//! out is decided in `request`.

use crate::provider::anthropic::generation::Generation;

/// How a model is made to continue a given text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefill {
    /// It rejects a prefill, responds to it instead of continuing it, or its behaviour is unknown.
    No,
    /// It continues an assistant message at the end of the request.
    Plain,
    /// It does so if this member of the message is `true`.
    Flag(&'static str),
}

/// <https://docs.mistral.ai/api>: the last message needs `prefix`. Reasoning models are left out. DeepSeek has the same
/// member, but only under `/beta`, where the gateway does not send chats
/// (<https://api-docs.deepseek.com/guides/chat_prefix_completion>).
pub fn mistral(model: &str) -> Prefill {
    if model.contains("magistral") { Prefill::No } else { Prefill::Flag("prefix") }
}

/// "Assistant Prefill" at <https://openrouter.ai/docs/api-reference/overview>, for models whose vendors support it.
pub fn openrouter(model: &str) -> Prefill {
    match model.split_once('/') {
        Some(("anthropic", name)) => Generation::from_model(name).prefill(),
        Some(("mistralai", name)) if !name.starts_with("magistral") => Prefill::Plain,
        _ => Prefill::No,
    }
}
