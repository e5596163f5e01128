//! Rewrites one response from the provider's format into the client's: bytes in, bytes out.
//!
//! Made per response, holds its state, knows no session. The rules that hold for every provider are applied
//! here, not in the decoders: a response with tool calls finishes with `tool_calls`, a call without arguments
//! gets `{}`, a call without an id gets one, and a response that stops without a finish is not complete.

mod error_response;
mod own_dialect;
mod response_state;
mod text_filters;

pub use error_response::ErrorResponseTranslation;
pub use own_dialect::OwnShape;
pub use text_filters::TextFilters;

use super::adapter::{CallPlace, JsonAdapter, ResponseContext, ResponsePatch};
use super::bounded_body::BoundedBody;
use super::mcp;
use super::patching::Patcher;
use super::rescue::{ResumeMode, Transcript};
use super::reshape::Reshaped;
use super::tool_names::ToolNames;
use error_response::MAX_ERROR_BODY;
use own_dialect::OwnDialect;
use response_state::State;
use std::sync::Arc;
use words::api::body::Body;
use words::api::chat::{Decoder, Encoder, ProviderError};
use words::api::openapi::answer::ApiHead;
use words::api::operation::Operation;
use words::api::tap::{ResponseSummary, Tap};
use words::error::Error;

/// The translation of one response.
#[derive(Debug)]
pub struct Rewriter {
    work: Work,
    state: State,
}

#[derive(Debug)]
enum Work {
    Chat {
        decoder: Box<dyn Decoder>,
        encoder: Box<dyn Encoder>,
    },
    Json {
        reader: JsonReader,
        held: BoundedBody,
        call: JsonCall,
    },
    Patch(Patcher),
    /// Boxed because few responses are filtered in their own shape.
    OwnDialect(Box<OwnDialect>),
    ErrorResponse {
        translation: ErrorResponseTranslation,
        held: Vec<u8>,
    },
}

/// Who reads a whole JSON response.
#[derive(Debug, Clone)]
pub enum JsonReader {
    Adapter(&'static dyn JsonAdapter),
    /// For an operation of Gemini's API.
    Reshaped(Reshaped),
    /// For a tool that is an operation of an API.
    Api(Arc<ApiHead>),
}

/// What a whole JSON response is read with.
#[derive(Debug)]
pub struct JsonCall {
    pub request: Option<Body>,
    pub model: String,
    pub place: Option<Box<CallPlace>>,
    /// Unix seconds, for responses that must carry a creation time.
    pub now: u64,
}

impl JsonCall {
    fn context(&self) -> ResponseContext<'_> {
        ResponseContext {
            request: self.request.as_ref(),
            model: &self.model,
            place: self.place.as_deref(),
            now: self.now,
        }
    }
}

impl Rewriter {
    /// `id` must be unique; it is used for the call ids of providers that have none.
    pub fn chat(decoder: Box<dyn Decoder>, encoder: Box<dyn Encoder>, id: &str) -> Self {
        Self { work: Work::Chat { decoder, encoder }, state: State::new(id) }
    }

    /// Gives the client its own names of tools back.
    #[must_use]
    pub(crate) fn with_tool_names(mut self, tool_names: Option<Arc<ToolNames>>) -> Self {
        self.state.tool_names = tool_names;
        self
    }

    /// `tool_names`: those of a chat that the client gets back.
    pub(crate) fn patch(
        patch: &'static dyn ResponsePatch,
        tool_names: Option<Arc<ToolNames>>,
        streamed: bool,
    ) -> Self {
        Self { work: Work::Patch(Patcher::new(patch, tool_names, streamed)), state: State::default() }
    }

    /// A response that keeps its provider's shape, and whose text is filtered. `streamed`: it is a stream of events;
    /// `wants_stream`: the client's must be one.
    pub fn own_dialect(shape: OwnShape, streamed: bool, wants_stream: bool) -> Self {
        let own = Box::new(OwnDialect::new(shape, streamed, wants_stream));
        Self { work: Work::OwnDialect(own), state: State::default() }
    }

    pub fn error_response(translation: ErrorResponseTranslation) -> Self {
        Self { work: Work::ErrorResponse { translation, held: Vec::new() }, state: State::default() }
    }

    pub fn json(reader: JsonReader, call: JsonCall) -> Self {
        let work = Work::Json { reader, held: BoundedBody::default(), call };
        Self { work, state: State::default() }
    }

    /// Takes the next bytes of the provider's response and appends what the client gets for them to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let state = &mut self.state;
        match &mut self.work {
            _ if state.is_done() => {}
            Work::Chat { decoder, encoder } => {
                decoder.push(bytes, &mut |event| state.take(event, encoder.as_mut(), out));
            }
            Work::Json { held, .. } => {
                if let Err(error) = held.push(bytes) {
                    state.note_error(&error);
                    state.closed = true;
                }
            }
            Work::Patch(patcher) => patcher.push(bytes, out),
            Work::OwnDialect(own) => {
                state.filter(|filters| own.push(bytes, filters, out));
                state.closed |= own.is_complete();
            }
            Work::ErrorResponse { held, .. } => {
                let room = MAX_ERROR_BODY.saturating_sub(held.len()).min(bytes.len());
                held.extend_from_slice(bytes.get(..room).unwrap_or_default());
            }
        }
    }

    /// Ends the input; output that was held back goes to `out`. An incomplete response is not ended here: see
    /// [`Rewriter::is_complete`] and [`Rewriter::fail`].
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let state = &mut self.state;
        match &mut self.work {
            _ if state.is_done() => {}
            Work::Chat { decoder, encoder } => {
                decoder.finish(&mut |event| state.take(event, encoder.as_mut(), out));
                // A stream that ends without a finish reason was cut off, unless the provider marked its end.
                if !state.is_done() && state.summary.finish.is_some() {
                    encoder.close(out);
                    state.closed = true;
                }
            }
            Work::Json { reader, held, call } => {
                state.closed = true;
                let response = held.take().unwrap_or_default();
                let context = call.context();
                let read = match reader {
                    JsonReader::Adapter(adapter) => adapter.read_in(&response, &context),
                    JsonReader::Reshaped(reshaped) => reshaped.read(&response, &context),
                    JsonReader::Api(head) => Ok(mcp::api_response(head, &response, context.request)),
                };
                match read {
                    Ok(body) => {
                        let mut tap = Tap::new(Operation::Passthrough, false, true, None);
                        tap.push(&body);
                        state.summary = ResponseSummary { ended: true, content: true, ..tap.into_summary() };
                        if let JsonReader::Api(head) = reader {
                            state.summary.error = mcp::api_error(head);
                        }
                        out.extend_from_slice(&body);
                    }
                    Err(error) => state.note_error(&error),
                }
            }
            Work::Patch(patcher) => {
                patcher.finish(out);
                state.closed = true;
            }
            Work::OwnDialect(own) => {
                state.filter(|filters| own.finish(filters, out));
                // What cannot be read is not complete.
                state.closed = !state.is_done();
            }
            Work::ErrorResponse { translation, held } => {
                let error = translation.write(held, out);
                state.note_error(&error);
                state.closed = true;
            }
        }
    }

    /// Ends a broken response in the client's dialect: an error event in a stream, or the body of an error
    /// response.
    pub fn fail(&mut self, error: &ProviderError, out: &mut Vec<u8>) {
        if self.state.closed {
            return;
        }
        self.state.closed = true;
        if let Work::Chat { encoder, .. } = &mut self.work {
            encoder.fail(error, out);
        }
    }

    /// Whether the response is complete, or ended with an error.
    pub fn is_complete(&self) -> bool {
        self.state.closed
    }

    /// The error that the provider sent inside its response. In a stream it was already written for the
    /// client, unless errors are [held](Rewriter::hold_errors).
    pub fn error(&self) -> Option<&ProviderError> {
        self.state.error.as_ref()
    }

    /// Records from now on what the client gets ([`Rewriter::transcript`]). Must be called before the first
    /// byte. Has no effect on responses that are not decoded as a chat.
    pub fn keep_transcript(&mut self) {
        if matches!(self.work, Work::Chat { .. }) {
            self.state.keep_transcript();
        }
    }

    /// What the client got so far, if it is recorded.
    pub fn transcript(&self) -> Option<&Transcript> {
        self.state.transcript()
    }

    /// From now on an error inside the response is recorded ([`Rewriter::error`]) but not written, and the
    /// response stays incomplete, so that another attempt may continue it. [`Rewriter::fail`] writes the
    /// error.
    pub fn hold_errors(&mut self) {
        self.state.holds_errors = true;
    }

    /// Filters the text of the response from now on. Has no effect on responses that are neither decoded as a chat nor read in
    /// their own dialect.
    pub fn set_filters(&mut self, mut filters: Option<Box<TextFilters>>) {
        if let Work::Chat { encoder, .. } = &self.work
            && !encoder.has_refusals()
            && let Some(filters) = &mut filters
        {
            filters.merge_refusals();
        }
        self.state.set_filters(filters);
    }

    /// Why a filter denied the response. Nothing more of it is written; [`Rewriter::fail`] writes the error.
    pub fn denial(&self) -> Option<&Error> {
        self.state.denial.as_deref()
    }

    /// Continues the stream with another response, decoded by `decoder`. Text that repeats what the client
    /// already got is left out (see `rescue`). The filters of the response before it are dropped. Errors are
    /// held from then on. May be called again when that response breaks as well. Has no effect once the
    /// response is complete.
    pub fn resume(&mut self, decoder: Box<dyn Decoder>, mode: ResumeMode) {
        if let Work::Chat { decoder: current, .. } = &mut self.work
            && !self.state.closed
        {
            *current = decoder;
            self.state.resume(mode);
        }
    }

    /// Whether the response that was to continue this stream does not match what the client already got.
    /// Nothing more of it is written.
    pub fn is_mismatch(&self) -> bool {
        self.state.mismatch
    }

    /// Whether the provider sent a finish reason: a response that breaks off after it still counts as whole.
    pub fn has_finish_reason(&self) -> bool {
        match &self.work {
            Work::Chat { decoder, .. } => self.state.summary.finish.is_some() || decoder.has_finish_reason(),
            _ => false,
        }
    }

    /// Replaces the encoder, for a response whose beginning was encoded elsewhere.
    pub(super) fn set_encoder(&mut self, other: Box<dyn Encoder>) {
        if let Work::Chat { encoder, .. } = &mut self.work {
            *encoder = other;
        }
    }

    /// The finished items that the client may refer to later: id and JSON.
    pub fn items(&self) -> Vec<(String, String)> {
        match &self.work {
            Work::Chat { encoder, .. } => encoder.items(),
            _ => Vec::new(),
        }
    }

    /// The summary of the response where the rewriter decodes it. `None` for bodies that are only patched: observe their
    /// output instead.
    pub fn summary(&self) -> Option<&ResponseSummary> {
        match self.work {
            Work::Chat { .. } | Work::ErrorResponse { .. } | Work::Json { .. } => Some(&self.state.summary),
            Work::Patch(_) | Work::OwnDialect(_) => None,
        }
    }

    /// As [`Rewriter::summary`], at the end.
    pub fn into_summary(self) -> Option<ResponseSummary> {
        match self.work {
            Work::Chat { .. } | Work::ErrorResponse { .. } | Work::Json { .. } => Some(self.state.summary),
            Work::Patch(_) | Work::OwnDialect(_) => None,
        }
    }
}
