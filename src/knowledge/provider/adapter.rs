//! How a provider serves a call: passed through, translated as a chat, or translated as one JSON body.
//!
//! One trait for each kind of translation; each provider's own file maps its calls to them. Pure: bodies in,
//! bodies out.

use super::Call;
use super::call_ids::IdRule;
use super::tool_names::NameRule;
use super::translation_notes::TranslationNotes;
use super::turn_order::TurnOrder;
use std::fmt::Debug;
use words::api::body::Body;
use words::api::chat::{ChatRequest, Decoder, ProviderError};
use words::api::operation::{Operation, ResponseKind};
use words::config::account::Account;
use words::error::Error;

/// How one call is served by a provider.
#[derive(Debug, Clone, Copy)]
pub enum Adapter {
    /// In the client's own shape. Small differences are handled by request edits
    /// ([`super::Provider::edits`]) and by a response patch.
    Passthrough(Option<&'static dyn ResponsePatch>),
    /// As a chat in the provider's format, for chat completions, completions, messages and responses.
    Chat(&'static dyn ChatAdapter),
    /// As one whole JSON body translated into another: embeddings, rerank, images, models.
    Json(&'static dyn JsonAdapter),
}

/// What a translation needs to know besides the request body.
#[derive(Debug, Clone, Copy)]
pub struct CallTarget<'a> {
    pub call: &'a Call<'a>,
    pub account: &'a Account,
    /// The requested model; empty when the call names none.
    pub model: &'a str,
    /// The client's `anthropic-beta` header, for hosts that take betas in the body.
    pub client_betas: Option<&'a str>,
}

/// Translates chats for a provider whose chat format is not the client's.
pub trait ChatAdapter: Sync + Debug {
    /// Writes the request body in the provider's format. What the provider cannot do is refused, or dropped
    /// and recorded in `notes` where dropping it is harmless.
    ///
    /// # Errors
    /// 400 that names the `param`.
    fn write(
        &self,
        request: ChatRequest<'_>,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Vec<u8>, Error>;

    /// Which names of tools the provider takes. The request passed to [`write`](Self::write) has no others.
    fn tool_names(&self) -> NameRule {
        NameRule::COMMON
    }

    /// Which ids of tool calls it takes. The request passed to [`write`](Self::write) has no others.
    fn call_ids(&self) -> IdRule {
        IdRule::Any
    }

    /// Where it takes the system's words. The request passed to [`write`](Self::write) has none elsewhere.
    fn turn_order(&self, _model: &str) -> TurnOrder {
        TurnOrder::SystemField
    }

    /// Whether it takes tools that are deferred, and references to them in results.
    fn defers_tools(&self) -> bool {
        false
    }

    /// Which of its operations the chat is: chat completions, or responses.
    fn operation(&self) -> Operation {
        Operation::ChatCompletions
    }

    /// A decoder for one response. `streamed` follows the response's content type, not what was requested.
    fn decoder(&self, streamed: bool) -> Box<dyn Decoder>;
}

/// Translates an operation that the provider offers in another shape than the client's.
pub trait JsonAdapter: Sync + Debug {
    /// Writes the request body in the provider's format; `None` sends no body (a GET), which is the default.
    ///
    /// # Errors
    /// 400 that names the `param`.
    fn write(
        &self,
        _body: Option<&Body>,
        _target: &CallTarget<'_>,
        _notes: &mut TranslationNotes,
    ) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    /// Translates the provider's response into OpenAI's (or the client's) format. `request` is the client's
    /// body.
    ///
    /// # Errors
    /// The provider error that the response contains, or that the response cannot be read.
    fn read(&self, response: &[u8], request: Option<&Body>, model: &str) -> Result<Vec<u8>, ProviderError>;

    /// [`read`](Self::read) with all there is, for responses that must carry what the provider does not send: the time, or
    /// what the client's path and query name.
    ///
    /// # Errors
    /// As `read`.
    fn read_in(&self, response: &[u8], context: &ResponseContext<'_>) -> Result<Vec<u8>, ProviderError> {
        self.read(response, context.request, context.model)
    }
}

/// What a whole JSON response is read with.
#[derive(Debug, Clone, Copy)]
pub struct ResponseContext<'a> {
    /// The client's body.
    pub request: Option<&'a Body>,
    pub model: &'a str,
    /// `None` for a model's output.
    pub place: Option<&'a CallPlace>,
    /// Unix seconds.
    pub now: u64,
}

/// What a client called, for operations that are no model's output: lists, jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallPlace {
    pub operation: Operation,
    /// As [`Call::path`].
    pub path: String,
    /// As [`Call::query`].
    pub query: Option<String>,
}

impl CallPlace {
    /// `None` for a model's output.
    pub fn of(call: &Call<'_>) -> Option<Box<Self>> {
        if call.operation.response_kind() != ResponseKind::Other {
            return None;
        }
        let path = call.path.to_owned();
        let query = call.query.map(str::to_owned);
        Some(Box::new(Self { operation: call.operation, path, query }))
    }
}

/// Corrects responses of a provider that speaks the client's dialect with small deviations.
pub trait ResponsePatch: Sync + Debug {
    /// Corrects one whole response, or the `data` of one stream event. `None` leaves it unchanged, byte for
    /// byte, which is the common case.
    fn patch(&self, data: &[u8], streamed: bool) -> Option<Vec<u8>>;

    /// Whether it is for chats, whose streams have tool calls that may be numbered otherwise than OpenAI does.
    fn corrects_calls(&self) -> bool {
        false
    }
}
