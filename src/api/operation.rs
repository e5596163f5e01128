//! Which call this is: method and path to [`Operation`], by one table.
//!
//! Not a router: nothing is dispatched here. A path the table does not know is [`Operation::Proxy`].

use super::Dialect;
use http::Method;

/// How the request body of an operation travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// A JSON object we read (bounded), because `model` may choose the target.
    Json,
    /// Bytes that stream through unread: uploads, anything multipart.
    Opaque,
    /// No body is expected; one that comes all the same streams through.
    Empty,
}

/// One of the calls of the spec's endpoint list, or [`Operation::Proxy`] for any other provider path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    ChatCompletions,
    Completions,
    Embeddings,
    Messages,
    CountTokens,
    Responses,
    ResponsesGet,
    ResponsesDelete,
    ResponsesCancel,
    ResponsesInputItems,
    Images,
    ImageEdits,
    ImageVariations,
    Speech,
    Transcriptions,
    Translations,
    Moderations,
    Rerank,
    FilesUpload,
    FilesList,
    FilesGet,
    FilesContent,
    FilesDelete,
    BatchesCreate,
    BatchesList,
    BatchesGet,
    BatchesCancel,
    BatchesOutput,
    FineTuningCreate,
    FineTuningList,
    FineTuningGet,
    FineTuningCancel,
    FineTuningEvents,
    FineTuningCheckpoints,
    Models,
    ModelsGet,
    Realtime,
    Passthrough,
}

/// One line of the table. `*` in a path stands for exactly one non-empty segment.
struct Row {
    operation: Operation,
    method: Method,
    path: &'static str,
    label: &'static str,
    body: BodyKind,
}

const fn row(
    operation: Operation,
    method: Method,
    path: &'static str,
    label: &'static str,
    body: BodyKind,
) -> Row {
    Row { operation, method, path, label, body }
}

const GET: Method = Method::GET;
const POST: Method = Method::POST;
const DELETE: Method = Method::DELETE;

/// Paths are relative to the version segment; sources: spec "Endpoints", reference 1.1 and 1.2.
const TABLE: &[Row] = &[
    row(Operation::ChatCompletions, POST, "chat/completions", "chat", BodyKind::Json),
    row(Operation::Completions, POST, "completions", "text_completion", BodyKind::Json),
    row(Operation::Embeddings, POST, "embeddings", "embeddings", BodyKind::Json),
    row(Operation::Messages, POST, "messages", "messages", BodyKind::Json),
    row(Operation::CountTokens, POST, "messages/count_tokens", "count_tokens", BodyKind::Json),
    row(Operation::Responses, POST, "responses", "responses", BodyKind::Json),
    row(Operation::ResponsesGet, GET, "responses/*", "responses_get", BodyKind::Empty),
    row(Operation::ResponsesDelete, DELETE, "responses/*", "responses_delete", BodyKind::Empty),
    row(Operation::ResponsesCancel, POST, "responses/*/cancel", "responses_cancel", BodyKind::Empty),
    row(
        Operation::ResponsesInputItems,
        GET,
        "responses/*/input_items",
        "responses_input_items",
        BodyKind::Empty,
    ),
    row(Operation::Images, POST, "images/generations", "images", BodyKind::Json),
    row(Operation::ImageEdits, POST, "images/edits", "image_edits", BodyKind::Opaque),
    row(Operation::ImageVariations, POST, "images/variations", "image_variations", BodyKind::Opaque),
    row(Operation::Speech, POST, "audio/speech", "speech", BodyKind::Json),
    row(Operation::Transcriptions, POST, "audio/transcriptions", "transcriptions", BodyKind::Opaque),
    row(Operation::Translations, POST, "audio/translations", "translations", BodyKind::Opaque),
    row(Operation::Moderations, POST, "moderations", "moderations", BodyKind::Json),
    row(Operation::Rerank, POST, "rerank", "rerank", BodyKind::Json),
    row(Operation::FilesUpload, POST, "files", "files_upload", BodyKind::Opaque),
    row(Operation::FilesList, GET, "files", "files_list", BodyKind::Empty),
    row(Operation::FilesGet, GET, "files/*", "files_get", BodyKind::Empty),
    row(Operation::FilesContent, GET, "files/*/content", "files_content", BodyKind::Empty),
    row(Operation::FilesDelete, DELETE, "files/*", "files_delete", BodyKind::Empty),
    row(Operation::BatchesCreate, POST, "batches", "batches_create", BodyKind::Json),
    row(Operation::BatchesList, GET, "batches", "batches_list", BodyKind::Empty),
    row(Operation::BatchesGet, GET, "batches/*", "batches_get", BodyKind::Empty),
    row(Operation::BatchesCancel, POST, "batches/*/cancel", "batches_cancel", BodyKind::Empty),
    row(Operation::BatchesOutput, GET, "batches/*/output", "batches_output", BodyKind::Empty),
    row(Operation::FineTuningCreate, POST, "fine_tuning/jobs", "fine_tuning_create", BodyKind::Json),
    row(Operation::FineTuningList, GET, "fine_tuning/jobs", "fine_tuning_list", BodyKind::Empty),
    row(Operation::FineTuningGet, GET, "fine_tuning/jobs/*", "fine_tuning_get", BodyKind::Empty),
    row(
        Operation::FineTuningCancel,
        POST,
        "fine_tuning/jobs/*/cancel",
        "fine_tuning_cancel",
        BodyKind::Empty,
    ),
    row(Operation::FineTuningEvents, GET, "fine_tuning/jobs/*/events", "fine_tuning_events", BodyKind::Empty),
    row(
        Operation::FineTuningCheckpoints,
        GET,
        "fine_tuning/jobs/*/checkpoints",
        "fine_tuning_checkpoints",
        BodyKind::Empty,
    ),
    row(Operation::Models, GET, "models", "models", BodyKind::Empty),
    row(Operation::ModelsGet, GET, "models/*", "models_get", BodyKind::Empty),
    row(Operation::Realtime, GET, "realtime", "realtime", BodyKind::Empty),
];

impl Operation {
    /// Finds the operation of a request. `path` is relative to the version segment, without a leading
    /// slash: `chat/completions`.
    pub fn find(method: &Method, path: &str) -> Self {
        TABLE
            .iter()
            .find(|row| row.method == *method && path_matches(row.path, path))
            .map_or(Operation::Passthrough, |row| row.operation)
    }

    fn row(self) -> Option<&'static Row> {
        TABLE.iter().find(|row| row.operation == self)
    }

    /// The name used in the access line and as a metric label.
    pub fn label(self) -> &'static str {
        self.row().map_or("proxy", |row| row.label)
    }

    /// How the request body travels. A proxied body is read when it is JSON, so that `@slug/model` and
    /// `override_params` work there too; the caller decides by content type.
    pub fn body_kind(self) -> BodyKind {
        self.row().map_or(BodyKind::Opaque, |row| row.body)
    }

    /// Whether this is a call of the spec's list, which the gateway knows the shape of, and not one that is
    /// only passed on.
    pub fn is_unified(self) -> bool {
        self != Operation::Passthrough
    }

    /// Whose error bodies the caller of this operation expects.
    pub fn dialect(self) -> Dialect {
        match self {
            Operation::Messages | Operation::CountTokens => Dialect::Anthropic,
            Operation::Responses | Operation::ResponsesGet => Dialect::Responses,
            _ => Dialect::OpenAi,
        }
    }
}

fn path_matches(pattern: &str, path: &str) -> bool {
    let mut wanted = pattern.split('/');
    let mut given = path.split('/');
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some("*"), Some(segment)) if !segment.is_empty() => {}
            (Some(want), Some(segment)) if want == segment => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_its_own_path() {
        for row in TABLE {
            let path = row.path.replace('*', "abc-1");
            assert_eq!(Operation::find(&row.method, &path), row.operation, "{path}");
        }
    }

    #[test]
    fn unlisted_paths_are_passed_through() {
        for (method, path) in [
            (Method::PUT, "chat/completions"),
            (Method::POST, "chat/completions/x"),
            (Method::GET, "files/"),
            (Method::POST, "rerank/v2"),
            (Method::GET, ""),
        ] {
            assert_eq!(Operation::find(&method, path), Operation::Passthrough, "{method} {path}");
        }
    }

    #[test]
    fn checkpoints_are_not_mistaken_for_a_job() {
        let found = Operation::find(&Method::GET, "fine_tuning/jobs/ft-1/checkpoints");
        assert_eq!(found, Operation::FineTuningCheckpoints);
    }
}
