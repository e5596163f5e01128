//! The ways in which vendors deviate from OpenAI's chat completions, as values of an [`OpenAiChat`](super::OpenAiChat).
//!
//! Not here: which vendor deviates how (`quirks`), and what is done about it (`edits`, `write`).

/// The name of the limit on output tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxTokensParam {
    /// `max_completion_tokens`; some models refuse the older name.
    MaxCompletionTokens,
    /// Both names are accepted, or it is undocumented: a client's name is kept; the translation writes
    /// `max_tokens`.
    Both,
    /// `max_tokens`; the newer name is refused or ignored.
    MaxTokens,
}

/// Where an assistant's earlier thinking is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningField {
    /// Nowhere: it is left out.
    Nowhere,
    /// In this member of the message.
    Member(&'static str),
    /// OpenRouter: `reasoning_details`, with signatures.
    Details,
    /// Mistral: in parts of the content.
    Parts,
}

/// How thinking is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningParam {
    /// `reasoning_effort`.
    Effort,
    /// `thinking: {"type"}`, and `reasoning_effort` besides.
    Thinking,
    /// `thinking: {"type"}` only.
    Switch,
    /// OpenRouter: `reasoning: {"effort" | "max_tokens" | "enabled"}`.
    Reasoning,
    /// Alibaba: `enable_thinking` and `thinking_budget`.
    Enable,
}

/// How documents are sent in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Documents {
    /// OpenAI's `file` parts: base64 or a file id.
    Files,
    /// The same, where `file_data` may be a URL (OpenRouter).
    FilesOrUrls,
    /// Mistral's `document_url` parts; audio is bare base64 there.
    DocumentUrls,
}

/// How a member of the request is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Renamed.
    Name(&'static str),
    /// These values are replaced by others, which mean the same.
    Values(&'static [(&'static str, &'static str)]),
    /// These values are replaced by the nearest, with a warning.
    Nearest(&'static [(&'static str, &'static str)]),
    /// Dropped: it is refused there and harmless to leave out.
    Drop,
    /// Dropped if it has this value, which is the default but refused.
    DropValue(&'static str),
    /// Anthropic's `thinking`, which is ignored there: sent as `reasoning_effort` instead.
    Effort,
}

impl Rule {
    /// The value to send for a text; whether it is only near. `None`: the text itself.
    pub(super) fn replacement(self, text: &str) -> Option<(&'static str, bool)> {
        let (values, is_near) = match self {
            Self::Values(values) => (values, false),
            Self::Nearest(values) => (values, true),
            _ => return None,
        };
        values.iter().find(|(from, _)| *from == text).map(|(_, to)| (*to, is_near))
    }
}
