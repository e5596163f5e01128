//! Which operation a request is: method and path to [`Operation`], and what depends on that alone.
//!
//! All of it is in one table (`operation/table.rs`), a row for each operation. Not a router: nothing is dispatched
//! here. A path that is not in the table is [`Operation::Passthrough`].

mod reference_name;
mod table;

use super::Dialect;
use super::body::Body;
use super::chat::{ChatRequest, EncodeContext, Encoder};
use super::rules::{QueryRule, Table};
use crate::error::Error;
use http::Method;
pub use reference_name::is_reference_name;
use table::{PASSTHROUGH, Row, TABLE};

/// How the request body of an operation travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// A JSON object we read (bounded), because `model` may choose the target.
    Json,
    /// Bytes that stream through unread: uploads, anything multipart.
    Opaque,
    /// No body is expected; one that is sent anyway streams through.
    Empty,
    /// The request switches to another protocol: it has no body, and no response body either.
    Upgrade,
}

/// What a successful response of an operation is, and so how far it is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseKind {
    /// A model's output. An `error` in it is a failure of the request.
    Model,
    /// Anything else: a file, a list, a job. An `error` in it belongs to the job, not to the request.
    Other,
    /// A websocket.
    Socket,
    /// Unknown: passed on without being checked, whatever it contains.
    Unchecked,
}

/// What a provider charges for a response of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Billing {
    /// Nothing: it manages something, or reads what was paid when it was made.
    None,
    /// Tokens. They can be counted where the provider does not report them.
    Tokens,
    /// Something that cannot be counted here: images, seconds, searches. Only the provider's report says how much.
    Other,
    /// Unknown: what the response reports, and where it reports nothing, nobody says how much.
    IfReported,
    /// Each call, whatever is in its response: one price, where there is one.
    Calls,
    /// What is made later: a batch, a job of fine-tuning. No response says how much, and what one of them reports is the job's so far.
    Later,
}

/// How a finished event stream of an operation ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminator {
    /// `data: [DONE]`.
    Done,
    /// Anthropic's `message_stop` event.
    MessageStop,
    /// The last event of a response (`response.completed` and the like). Some providers send `[DONE]` after it.
    FinalEvent,
    /// The end of the body, after an event with the finish reason (Gemini).
    EndOfBody,
    /// No end marker, or none that the gateway could append.
    None,
}

impl Terminator {
    /// The event to append where the provider finished without sending its terminator.
    pub const fn event(self) -> Option<&'static [u8]> {
        match self {
            Terminator::Done => Some(b"data: [DONE]\n\n"),
            Terminator::MessageStop => Some(b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"),
            Terminator::FinalEvent | Terminator::EndOfBody | Terminator::None => None,
        }
    }

    /// Whether nothing can follow it, so that reading may stop there.
    pub const fn is_last(self) -> bool {
        !matches!(self, Terminator::FinalEvent)
    }
}

/// What proves that a response is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// A finish reason. A message that stops without one was cut off.
    FinishReason,
    /// A finish reason, or `[DONE]` behind content: some engines with OpenAI's API give no reason. A chat that stops without both,
    /// or sends only `[DONE]`, was cut off.
    ReasonOrMarker,
    /// A finish reason or the end marker.
    Either,
}

/// Which members of a JSON response the tap reads, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SummaryShape {
    /// `usage`, `model` and `finish_reason`, each once in most responses: a search for their names is enough.
    Common,
    /// The same members and other vendors' names for them, by a full scan.
    General,
    /// As `General`; also `status`, which is the finish reason if the body is a response object.
    ResponseObject,
}

/// The shape of an operation's responses in the client's own dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamShape {
    /// Chunks of OpenAI's chat completions.
    Chat,
    /// Events of Anthropic's messages.
    Messages,
    /// Chunks of OpenAI's legacy completions.
    Completions,
    /// Typed events of OpenAI's Responses API.
    Responses,
    /// Chunks of Gemini's `GenerateContentResponse`.
    Gemini,
}

/// Which hooks an operation supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookSupport {
    None,
    /// Hooks on the request only: the response is numbers.
    BeforeOnly,
    BeforeAndAfter,
}

/// Translates between an operation's dialect and the neutral chat: the request one way, the response the other.
#[derive(Debug, Clone, Copy)]
pub struct ChatTranslator {
    /// Reads the request.
    pub read: fn(&Body) -> Result<ChatRequest<'_>, Error>,
    /// Makes the encoder of one response; true where the client wants a stream.
    pub encoder: fn(bool, EncodeContext) -> Box<dyn Encoder>,
}

/// One of the operations of `docs/operations.md`, or [`Operation::Passthrough`] for any other provider path.
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
    ResponsesInputTokens,
    ResponsesCompact,
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
    GenerateContent,
    StreamGenerateContent,
    /// `streamGenerateContent` without `alt=sse`: the events of the stream are sent as elements of a JSON list
    /// (`api::gemini::ListFraming`).
    ListGenerateContent,
    GeminiCountTokens,
    EmbedContent,
    BatchEmbedContents,
    GeminiModels,
    GeminiModelsGet,
    /// A stored prompt's chat or completion. It becomes one of those before it is routed.
    PromptCompletions,
    /// A message of an MCP client that the gateway itself responds to.
    Mcp,
    /// A message of an MCP client that a server responds to: a call of a tool, or what is read of a resource or a prompt.
    McpCall,
    Passthrough,
}

impl Operation {
    /// Finds the operation of a request. `path` is relative to the version segment, without a leading
    /// slash: `chat/completions`. Not one of Gemini's, see [`Operation::find_gemini`].
    pub fn find(method: &Method, path: &str) -> Self {
        Self::first(method, path, |row| row.dialect != Dialect::Google)
    }

    /// As [`Operation::find`], among the operations of Gemini's API alone: its list of models has OpenAI's path.
    pub fn find_gemini(method: &Method, path: &str) -> Self {
        Self::first(method, path, |row| row.dialect == Dialect::Google)
    }

    fn first(method: &Method, path: &str, fits: impl Fn(&Row) -> bool) -> Self {
        TABLE
            .iter()
            .find(|row| *row.method == *method && path_matches(row.path, path) && fits(row))
            .map_or(Operation::Passthrough, |row| row.operation)
    }

    /// The methods of the operations at a path; none for a path that is in no row.
    pub fn methods(path: &str) -> impl Iterator<Item = &'static Method> {
        let listed = TABLE.iter().filter(|row| row.operation != Operation::Passthrough);
        listed.filter(move |row| path_matches(row.path, path)).map(|row| row.method)
    }

    /// The method and the path of each operation but the last; `*` stands for any segment.
    pub fn paths() -> impl Iterator<Item = (&'static Method, &'static str)> {
        let listed = TABLE.iter().filter(|row| row.operation != Operation::Passthrough);
        listed.map(|row| (row.method, row.path))
    }

    fn row(self) -> &'static Row {
        const LAST: &Row = &PASSTHROUGH;
        // The table is in the order of the enum; a test holds it to that.
        TABLE.get(self as usize).unwrap_or(LAST)
    }

    /// The name used in the access line and as a metric label.
    pub fn label(self) -> &'static str {
        self.row().label
    }

    /// The names of all operations.
    pub fn labels() -> impl Iterator<Item = &'static str> {
        TABLE.iter().map(|row| row.label)
    }

    /// How the request body travels. A proxied body is read when it is JSON, so that `@slug/model` and
    /// `override_params` work there too; whoever reads it decides by content type.
    pub fn body_kind(self) -> BodyKind {
        self.row().body
    }

    /// What a successful response is.
    pub fn response_kind(self) -> ResponseKind {
        self.row().response
    }

    /// What a provider charges for a response.
    pub fn billing(self) -> Billing {
        self.row().billing
    }

    /// How a finished stream ends.
    pub fn terminator(self) -> Terminator {
        self.row().terminator
    }

    /// What proves that a response is complete.
    pub fn completion(self) -> Completion {
        self.row().completion
    }

    /// Which members of a JSON response the tap reads.
    pub(super) fn summary_shape(self) -> SummaryShape {
        self.row().summary
    }

    /// The shape of its responses in the client's dialect; `None` where the operation is no chat.
    pub fn stream_shape(self) -> Option<StreamShape> {
        self.row().stream
    }

    /// How its dialect becomes a neutral chat and back; `None` where the operation is no chat.
    pub fn translator(self) -> Option<ChatTranslator> {
        self.row().translator
    }

    /// Whether it is a chat in one of the dialects: any provider with a chat can serve it.
    pub fn is_chat(self) -> bool {
        self.row().translator.is_some()
    }

    /// Whether its response is a stream of events, where its path says that and not its body.
    pub fn streams_by_path(self) -> Option<bool> {
        let streams = matches!(self, Operation::StreamGenerateContent | Operation::ListGenerateContent);
        (self.dialect() == Dialect::Google).then_some(streams)
    }

    /// Whether it is one of Gemini's chats.
    pub fn is_gemini_chat(self) -> bool {
        self.stream_shape() == Some(StreamShape::Gemini)
    }

    /// What the body is checked against; `None` where nothing is checked.
    pub(super) fn rules(self) -> Option<&'static Table> {
        self.row().rules
    }

    /// What the query is checked against.
    pub(super) fn query_rules(self) -> &'static [QueryRule] {
        self.row().query
    }

    /// Which hooks it supports.
    pub fn hooks(self) -> HookSupport {
        self.row().hooks
    }

    /// Whether its responses may be cached.
    pub fn is_cacheable(self) -> bool {
        self.row().cacheable
    }

    /// Whether a second attempt may be started while the first is slow. Counting tokens is not worth one.
    pub fn is_hedgeable(self) -> bool {
        self.row().hedgeable
    }

    /// Whether it is one of the operations of fine-tuning jobs.
    pub fn is_fine_tuning(self) -> bool {
        self.row().fine_tuning
    }

    /// Whether it refers to a stored response, which only the provider that made it has.
    pub fn is_stored_response(self) -> bool {
        self.row().stored_response
    }

    /// Whose error bodies and stream events the client expects.
    pub fn dialect(self) -> Dialect {
        self.row().dialect
    }
}

fn path_matches(pattern: &str, path: &str) -> bool {
    // Most paths are written out in the table.
    if pattern == path {
        return true;
    }
    if !pattern.as_bytes().contains(&b'*') {
        return false;
    }
    // Gemini's: the method of a model, whose name may have slashes, and such a name alone.
    if let Some((before, method)) = pattern.split_once("*:") {
        let rest = path.strip_prefix(before).and_then(|rest| rest.strip_suffix(method));
        return rest.and_then(|rest| rest.strip_suffix(':')).is_some_and(|model| !model.is_empty());
    }
    if let Some(before) = pattern.strip_suffix("**") {
        return path.strip_prefix(before).is_some_and(|model| !model.is_empty());
    }
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
    fn rows_stand_in_the_order_of_the_enum() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.operation as usize, index, "{}", row.label);
        }
        assert_eq!(Operation::Passthrough as usize + 1, TABLE.len());
    }

    #[test]
    fn every_row_is_found_by_its_own_path() {
        for row in TABLE {
            let path = row.path.replace('*', "abc-1");
            let found = match row.dialect {
                Dialect::Google => Operation::find_gemini(row.method, &path),
                _ => Operation::find(row.method, &path),
            };
            // One path has two operations, by its query.
            let operation = match row.operation {
                Operation::ListGenerateContent => Operation::StreamGenerateContent,
                operation => operation,
            };
            assert_eq!(found, operation, "{path}");
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
    fn columns_agree_with_each_other() {
        for row in TABLE {
            let name = row.label;
            // A body that is not read can be neither checked nor translated.
            let reads = row.body == BodyKind::Json;
            assert!(reads || (row.rules.is_none() && row.translator.is_none()), "{name}");
            assert!(reads || (row.hooks == HookSupport::None && !row.cacheable), "{name}");
            // A chat is a model's output, and hooks can read both its sides.
            let chat = row.translator.is_some();
            assert_eq!(chat, row.hooks == HookSupport::BeforeAndAfter, "{name}");
            assert!(!chat || row.response == ResponseKind::Model, "{name}");
            assert_eq!(chat, row.terminator != Terminator::None, "{name}");
            assert_eq!(row.stream.is_some(), chat, "{name}");
        }
    }

    #[test]
    fn checkpoints_are_not_mistaken_for_a_job() {
        let found = Operation::find(&Method::GET, "fine_tuning/jobs/ft-1/checkpoints");
        assert_eq!(found, Operation::FineTuningCheckpoints);
    }
}
