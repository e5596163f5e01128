//! The table of operations: one row each, with everything that depends only on which operation a request is.
//!
//! Facts about single vendors do not belong here, they stay with the provider. A new operation is a variant of
//! [`Operation`], a row at the same place of this table, and, where its body is checked, a table in `api::rules`.

use super::{
    Billing, BodyKind, ChatTranslator, Completion, HookSupport, Operation, ResponseKind, StreamShape,
    SummaryShape, Terminator,
};
use crate::api::rules::{self, QueryRule};
use crate::api::{Dialect, chat_completions, completions, gemini, messages, responses};
use http::Method;

/// One row. The methods of [`Operation`] document the columns.
pub(super) struct Row {
    pub operation: Operation,
    pub method: &'static Method,
    /// Relative to the version segment. `*` stands for exactly one non-empty segment.
    pub path: &'static str,
    pub label: &'static str,
    pub dialect: Dialect,
    pub body: BodyKind,
    pub response: ResponseKind,
    pub terminator: Terminator,
    pub completion: Completion,
    pub summary: SummaryShape,
    pub stream: Option<StreamShape>,
    pub translator: Option<ChatTranslator>,
    /// What the fields of the body are checked against.
    pub rules: Option<&'static rules::Table>,
    /// What the parameters of the query are checked against.
    pub query: &'static [QueryRule],
    pub hooks: HookSupport,
    pub cacheable: bool,
    pub hedgeable: bool,
    pub fine_tuning: bool,
    pub stored_response: bool,
    pub billing: Billing,
}

const GET: &Method = &Method::GET;
const POST: &Method = &Method::POST;
const DELETE: &Method = &Method::DELETE;

/// A row with the most common value in every column.
const fn row(
    operation: Operation,
    method: &'static Method,
    path: &'static str,
    label: &'static str,
    body: BodyKind,
) -> Row {
    Row {
        operation,
        method,
        path,
        label,
        dialect: Dialect::OpenAi,
        body,
        response: ResponseKind::Other,
        terminator: Terminator::None,
        completion: Completion::Either,
        summary: SummaryShape::General,
        stream: None,
        translator: None,
        rules: None,
        query: &[],
        hooks: HookSupport::None,
        cacheable: false,
        hedgeable: true,
        fine_tuning: false,
        stored_response: false,
        billing: Billing::None,
    }
}

/// A POST whose body is a JSON object.
const fn json(operation: Operation, path: &'static str, label: &'static str) -> Row {
    row(operation, POST, path, label, BodyKind::Json)
}

/// A POST whose body streams through unread.
const fn upload(operation: Operation, path: &'static str, label: &'static str) -> Row {
    row(operation, POST, path, label, BodyKind::Opaque)
}

/// A request without a body.
const fn bodyless(
    operation: Operation,
    method: &'static Method,
    path: &'static str,
    label: &'static str,
) -> Row {
    row(operation, method, path, label, BodyKind::Empty)
}

/// A row of the fine-tuning API.
const fn tuning(row: Row) -> Row {
    Row { fine_tuning: true, ..row }
}

/// A chat of Gemini's API. The model, and whether the response is a stream, are in its path.
const fn gemini_chat(operation: Operation, path: &'static str, label: &'static str) -> Row {
    Row {
        dialect: Dialect::Google,
        response: ResponseKind::Model,
        billing: Billing::Tokens,
        terminator: Terminator::EndOfBody,
        completion: Completion::FinishReason,
        stream: Some(StreamShape::Gemini),
        translator: Some(ChatTranslator { read: gemini::read, encoder: gemini::encoder }),
        hooks: HookSupport::BeforeAndAfter,
        cacheable: true,
        ..json(operation, path, label)
    }
}

const fn gemini_embeddings(operation: Operation, path: &'static str, label: &'static str) -> Row {
    Row {
        dialect: Dialect::Google,
        response: ResponseKind::Model,
        billing: Billing::Tokens,
        hooks: HookSupport::BeforeOnly,
        cacheable: true,
        ..json(operation, path, label)
    }
}

/// Every operation, in the order of the enum. `docs/operations.md` lists them.
pub(super) const TABLE: &[Row] = &[
    Row {
        response: ResponseKind::Model,
        billing: Billing::Tokens,
        terminator: Terminator::Done,
        completion: Completion::ReasonOrMarker,
        summary: SummaryShape::Common,
        stream: Some(StreamShape::Chat),
        translator: Some(ChatTranslator { read: chat_completions::read, encoder: chat_completions::encoder }),
        rules: Some(&rules::CHAT),
        hooks: HookSupport::BeforeAndAfter,
        cacheable: true,
        ..json(Operation::ChatCompletions, "chat/completions", "chat")
    },
    Row {
        response: ResponseKind::Model,
        billing: Billing::Tokens,
        terminator: Terminator::Done,
        completion: Completion::ReasonOrMarker,
        summary: SummaryShape::Common,
        stream: Some(StreamShape::Completions),
        translator: Some(ChatTranslator { read: completions::read, encoder: completions::encoder }),
        rules: Some(&rules::COMPLETIONS),
        hooks: HookSupport::BeforeAndAfter,
        cacheable: true,
        ..json(Operation::Completions, "completions", "text_completion")
    },
    Row {
        response: ResponseKind::Model,
        billing: Billing::Tokens,
        summary: SummaryShape::Common,
        rules: Some(&rules::EMBEDDINGS),
        hooks: HookSupport::BeforeOnly,
        cacheable: true,
        ..json(Operation::Embeddings, "embeddings", "embeddings")
    },
    Row {
        dialect: Dialect::Anthropic,
        response: ResponseKind::Model,
        billing: Billing::Tokens,
        terminator: Terminator::MessageStop,
        completion: Completion::FinishReason,
        stream: Some(StreamShape::Messages),
        translator: Some(ChatTranslator { read: messages::read, encoder: messages::encoder }),
        rules: Some(&rules::MESSAGES),
        hooks: HookSupport::BeforeAndAfter,
        cacheable: true,
        ..json(Operation::Messages, "messages", "messages")
    },
    Row {
        dialect: Dialect::Anthropic,
        rules: Some(&rules::COUNT_TOKENS),
        hedgeable: false,
        ..json(Operation::CountTokens, "messages/count_tokens", "count_tokens")
    },
    Row {
        dialect: Dialect::Responses,
        response: ResponseKind::Model,
        billing: Billing::Tokens,
        terminator: Terminator::FinalEvent,
        summary: SummaryShape::ResponseObject,
        stream: Some(StreamShape::Responses),
        translator: Some(ChatTranslator { read: responses::read, encoder: responses::encoder }),
        rules: Some(&rules::RESPONSES),
        hooks: HookSupport::BeforeAndAfter,
        cacheable: true,
        ..json(Operation::Responses, "responses", "responses")
    },
    Row {
        dialect: Dialect::Responses,
        summary: SummaryShape::ResponseObject,
        query: &[QueryRule::Include],
        stored_response: true,
        ..bodyless(Operation::ResponsesGet, GET, "responses/*", "responses_get")
    },
    Row {
        stored_response: true,
        ..bodyless(Operation::ResponsesDelete, DELETE, "responses/*", "responses_delete")
    },
    Row {
        stored_response: true,
        ..bodyless(Operation::ResponsesCancel, POST, "responses/*/cancel", "responses_cancel")
    },
    Row {
        stored_response: true,
        ..bodyless(Operation::ResponsesInputItems, GET, "responses/*/input_items", "responses_input_items")
    },
    Row {
        dialect: Dialect::Responses,
        rules: Some(&rules::INPUT_TOKENS),
        hedgeable: false,
        ..json(Operation::ResponsesInputTokens, "responses/input_tokens", "responses_input_tokens")
    },
    Row {
        dialect: Dialect::Responses,
        response: ResponseKind::Model,
        billing: Billing::Tokens,
        terminator: Terminator::FinalEvent,
        stream: Some(StreamShape::Responses),
        translator: Some(ChatTranslator {
            read: responses::read_compaction,
            encoder: responses::compaction_encoder,
        }),
        rules: Some(&rules::RESPONSES),
        hooks: HookSupport::BeforeAndAfter,
        ..json(Operation::ResponsesCompact, "responses/compact", "responses_compact")
    },
    Row {
        billing: Billing::Other,
        rules: Some(&rules::IMAGES),
        cacheable: true,
        ..json(Operation::Images, "images/generations", "images")
    },
    Row { billing: Billing::Other, ..upload(Operation::ImageEdits, "images/edits", "image_edits") },
    Row {
        billing: Billing::Other,
        ..upload(Operation::ImageVariations, "images/variations", "image_variations")
    },
    Row {
        billing: Billing::Other,
        rules: Some(&rules::SPEECH),
        ..json(Operation::Speech, "audio/speech", "speech")
    },
    Row {
        billing: Billing::Other,
        ..upload(Operation::Transcriptions, "audio/transcriptions", "transcriptions")
    },
    Row { billing: Billing::Other, ..upload(Operation::Translations, "audio/translations", "translations") },
    Row {
        response: ResponseKind::Model,
        billing: Billing::Other,
        rules: Some(&rules::MODERATIONS),
        ..json(Operation::Moderations, "moderations", "moderations")
    },
    Row {
        billing: Billing::Other,
        rules: Some(&rules::RERANK),
        cacheable: true,
        ..json(Operation::Rerank, "rerank", "rerank")
    },
    upload(Operation::FilesUpload, "files", "files_upload"),
    bodyless(Operation::FilesList, GET, "files", "files_list"),
    bodyless(Operation::FilesGet, GET, "files/*", "files_get"),
    bodyless(Operation::FilesContent, GET, "files/*/content", "files_content"),
    bodyless(Operation::FilesDelete, DELETE, "files/*", "files_delete"),
    Row {
        billing: Billing::Later,
        rules: Some(&rules::BATCHES),
        ..json(Operation::BatchesCreate, "batches", "batches_create")
    },
    Row {
        query: &[QueryRule::Limit { min: 1, max: 100 }],
        ..bodyless(Operation::BatchesList, GET, "batches", "batches_list")
    },
    bodyless(Operation::BatchesGet, GET, "batches/*", "batches_get"),
    bodyless(Operation::BatchesCancel, POST, "batches/*/cancel", "batches_cancel"),
    bodyless(Operation::BatchesOutput, GET, "batches/*/output", "batches_output"),
    tuning(Row {
        billing: Billing::Later,
        rules: Some(&rules::FINE_TUNING),
        ..json(Operation::FineTuningCreate, "fine_tuning/jobs", "fine_tuning_create")
    }),
    tuning(bodyless(Operation::FineTuningList, GET, "fine_tuning/jobs", "fine_tuning_list")),
    tuning(bodyless(Operation::FineTuningGet, GET, "fine_tuning/jobs/*", "fine_tuning_get")),
    tuning(bodyless(Operation::FineTuningCancel, POST, "fine_tuning/jobs/*/cancel", "fine_tuning_cancel")),
    tuning(bodyless(Operation::FineTuningEvents, GET, "fine_tuning/jobs/*/events", "fine_tuning_events")),
    tuning(Row {
        query: &[QueryRule::Limit { min: 1, max: i64::MAX }],
        ..bodyless(
            Operation::FineTuningCheckpoints,
            GET,
            "fine_tuning/jobs/*/checkpoints",
            "fine_tuning_checkpoints",
        )
    }),
    bodyless(Operation::Models, GET, "models", "models"),
    bodyless(Operation::ModelsGet, GET, "models/*", "models_get"),
    Row {
        body: BodyKind::Upgrade,
        response: ResponseKind::Socket,
        billing: Billing::Other,
        ..bodyless(Operation::Realtime, GET, "realtime", "realtime")
    },
    gemini_chat(Operation::GenerateContent, "models/*:generateContent", "generate_content"),
    gemini_chat(
        Operation::StreamGenerateContent,
        "models/*:streamGenerateContent",
        "stream_generate_content",
    ),
    // The path of the row above; the query tells them apart.
    gemini_chat(Operation::ListGenerateContent, "models/*:streamGenerateContent", "list_generate_content"),
    Row {
        dialect: Dialect::Google,
        hedgeable: false,
        ..json(Operation::GeminiCountTokens, "models/*:countTokens", "gemini_count_tokens")
    },
    gemini_embeddings(Operation::EmbedContent, "models/*:embedContent", "embed_content"),
    gemini_embeddings(Operation::BatchEmbedContents, "models/*:batchEmbedContents", "batch_embed_contents"),
    Row { dialect: Dialect::Google, ..bodyless(Operation::GeminiModels, GET, "models", "gemini_models") },
    Row {
        dialect: Dialect::Google,
        ..bodyless(Operation::GeminiModelsGet, GET, "models/**", "gemini_models_get")
    },
    Row {
        response: ResponseKind::Model,
        billing: Billing::Tokens,
        ..json(Operation::PromptCompletions, "prompts/*/completions", "prompt_completions")
    },
    // Both at both paths; the method of the message tells them apart.
    Row { dialect: Dialect::Mcp, ..json(Operation::Mcp, "mcp", "mcp") },
    Row {
        dialect: Dialect::Mcp,
        hedgeable: false,
        billing: Billing::Calls,
        ..json(Operation::McpCall, "mcp/*", "mcp_call")
    },
    PASSTHROUGH,
];

/// Any other path. It has no path of its own: it is what remains when no other row matches.
pub(super) const PASSTHROUGH: Row = Row {
    response: ResponseKind::Unchecked,
    billing: Billing::IfReported,
    // It may be a provider's own spelling of the Responses API.
    summary: SummaryShape::ResponseObject,
    ..row(Operation::Passthrough, GET, "", "proxy", BodyKind::Opaque)
};
