//! What a check must see of a request. Most checks read its text. Those that do not need it also run on operations without a text.

use super::check::CheckKind;
use words::api::operation::{BodyKind, Operation};

/// What a check must see, or what is available of a request. Each value includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needs {
    /// The operation, metadata and headers.
    Nothing,
    /// The model that the request names.
    Model,
    /// The members of a JSON body.
    Body,
    /// The texts in it.
    Text,
}

/// The checks that need no text.
const WITHOUT_TEXT: [(&str, Needs); 7] = [
    ("default.allowedRequestTypes", Needs::Nothing),
    ("default.requiredMetadataKeys", Needs::Nothing),
    ("default.requiredMetadataKeyValuePairs", Needs::Nothing),
    ("default.jwt", Needs::Nothing),
    ("default.modelWhitelist", Needs::Model),
    ("default.modelRules", Needs::Model),
    ("default.requestParametersCheck", Needs::Body),
];

impl Needs {
    /// What a check of this kind must see.
    pub(crate) fn of_check(kind: &CheckKind) -> Self {
        let found = WITHOUT_TEXT.iter().find(|(id, _)| *id == kind.id);
        found.map_or(Self::Text, |(_, needs)| *needs)
    }

    /// What a request of an operation has, where all of it is read.
    pub fn met_by(operation: Operation) -> Self {
        match operation {
            Operation::ChatCompletions
            | Operation::Completions
            | Operation::Messages
            | Operation::Responses
            | Operation::ResponsesCompact
            | Operation::PromptCompletions
            | Operation::GenerateContent
            | Operation::StreamGenerateContent
            | Operation::ListGenerateContent
            | Operation::Embeddings
            | Operation::EmbedContent
            | Operation::BatchEmbedContents
            | Operation::CountTokens
            | Operation::GeminiCountTokens
            | Operation::ResponsesInputTokens
            // What is drawn, said, judged and ranked.
            | Operation::Images
            | Operation::Speech
            | Operation::Moderations
            | Operation::Rerank
            // The arguments of a tool.
            | Operation::McpCall
            // The generic endpoint: where its body is read.
            | Operation::Passthrough => Self::Text,
            // Which model a batch is for is in the file that it names.
            Operation::BatchesCreate | Operation::FilesUpload => Self::Nothing,
            Operation::Realtime => Self::Model,
            operation => match operation.body_kind() {
                BodyKind::Json => Self::Body,
                // Parts of a form, the model among them.
                BodyKind::Opaque => Self::Model,
                BodyKind::Empty | BodyKind::Upgrade => Self::Nothing,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::check_kind;

    #[test]
    fn the_checks_that_need_no_text_are_checks() {
        for (id, needs) in WITHOUT_TEXT {
            let kind = check_kind(id).unwrap_or_else(|| panic!("{id}"));
            assert_eq!(Needs::of_check(kind), needs);
        }
        assert_eq!(Needs::of_check(check_kind("default.contains").unwrap()), Needs::Text);
    }

    #[test]
    fn an_operation_has_what_its_body_has() {
        for (operation, wanted) in [
            (Operation::Responses, Needs::Text),
            (Operation::CountTokens, Needs::Text),
            (Operation::Images, Needs::Text),
            (Operation::Rerank, Needs::Text),
            (Operation::FineTuningCreate, Needs::Body),
            (Operation::Transcriptions, Needs::Model),
            (Operation::FilesUpload, Needs::Nothing),
            (Operation::FilesGet, Needs::Nothing),
        ] {
            assert_eq!(Needs::met_by(operation), wanted, "{operation:?}");
        }
    }
}
