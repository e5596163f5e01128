//! The names that Portkey has for operations: what conditions of policies and guardrails compare.
//!
//! Not the labels of metrics and access lines, which are the paths' own.

use super::{Operation, TABLE};

/// Before the name of an operation: its streams only.
const STREAMED: &str = "stream-";

/// The operations that have streams. Source: `endpointStrings` of Portkey's gateway has the first three; the others are ours.
const WITH_STREAMS: &[&str] =
    &["complete", "chatComplete", "messages", "createModelResponse", "promptComplete"];

/// Whether it is a name of a kind of request: `chatComplete`, or `stream-chatComplete` for its streams only.
pub fn is_reference_name(name: &str) -> bool {
    match name.strip_prefix(STREAMED) {
        Some(streamed) => WITH_STREAMS.contains(&streamed),
        None => TABLE.iter().any(|row| row.operation.reference_name() == name),
    }
}

impl Operation {
    /// Whether a name of [`is_reference_name`] means such a request.
    pub fn is_named(self, name: &str, streamed: bool) -> bool {
        match name.strip_prefix(STREAMED) {
            Some(name) => streamed && name == self.reference_name(),
            None => name == self.reference_name(),
        }
    }

    /// Portkey's name, `chatComplete` and the like.
    pub fn reference_name(self) -> &'static str {
        match self {
            Self::ChatCompletions
            | Self::GenerateContent
            | Self::StreamGenerateContent
            | Self::ListGenerateContent => "chatComplete",
            Self::PromptCompletions => "promptComplete",
            Self::Completions => "complete",
            Self::Embeddings | Self::EmbedContent | Self::BatchEmbedContents => "embed",
            Self::Messages => "messages",
            Self::CountTokens | Self::GeminiCountTokens | Self::ResponsesInputTokens => "messagesCountTokens",
            // Compacting is a response of a model: what is allowed and judged for the one holds for the other.
            Self::Responses | Self::ResponsesCompact => "createModelResponse",
            Self::ResponsesGet => "getModelResponse",
            Self::ResponsesDelete => "deleteModelResponse",
            Self::ResponsesCancel => "cancelModelResponse",
            Self::ResponsesInputItems => "listResponseInputItems",
            Self::Images => "imageGenerate",
            Self::ImageEdits => "imageEdit",
            Self::ImageVariations => "imageVariation",
            Self::Speech => "createSpeech",
            Self::Transcriptions => "createTranscription",
            Self::Translations => "createTranslation",
            Self::Moderations => "moderate",
            Self::Rerank => "rerank",
            Self::FilesUpload => "uploadFile",
            Self::FilesList => "listFiles",
            Self::FilesGet => "retrieveFile",
            Self::FilesContent => "retrieveFileContent",
            Self::FilesDelete => "deleteFile",
            Self::BatchesCreate => "createBatch",
            Self::BatchesList => "listBatches",
            Self::BatchesGet => "retrieveBatch",
            Self::BatchesCancel => "cancelBatch",
            Self::BatchesOutput => "getBatchOutput",
            Self::FineTuningCreate => "createFinetune",
            Self::FineTuningList => "listFinetunes",
            Self::FineTuningGet => "retrieveFinetune",
            Self::FineTuningCancel => "cancelFinetune",
            Self::FineTuningEvents => "listFinetuneEvents",
            Self::FineTuningCheckpoints => "listFinetuneCheckpoints",
            Self::Models | Self::GeminiModels => "listModels",
            Self::ModelsGet | Self::GeminiModelsGet => "retrieveModel",
            Self::Realtime => "realtime",
            Self::Mcp => "mcp",
            Self::McpCall => "mcpCall",
            Self::Passthrough => "proxy",
        }
    }
}
