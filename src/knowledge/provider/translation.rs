//! How one call is translated: decided when its attempt is prepared, applied to its response.
//!
//! The only place that combines a client's dialect with a provider's adapter. The rewriting itself is in
//! [`Rewriter`].

use super::adapter::{Adapter, CallPlace, CallTarget, ChatAdapter, JsonAdapter, ResponsePatch};
use super::anthropic::beta_host;
use super::claude_code;
use super::compaction;
use super::fitting;
use super::output_bound;
use super::patching;
use super::prompt_marks::Marks;
use super::rescue;
use super::reshape::{Inner, Reshape, Reshaped};
use super::responses_only;
use super::rewriter::{JsonCall, JsonReader, OwnShape, Rewriter};
use super::stream_usage;
use super::tool_names::ToolNames;
use super::translation_notes::TranslationNotes;
use super::{Call, Provider};
use std::sync::Arc;
use words::api::body::{Body, MAX_VALUES};
use words::api::chat::{ChatRequest, Decoder, EncodeContext};
use words::api::openapi::answer::ApiHead;
use words::api::operation::{ChatTranslator, Operation, StreamShape};
use words::api::token_estimate::{self, CountText};
use words::api::{gemini, messages, responses};
use words::config::account::{Account, ResponsesWhen};
use words::config::policies::MarkTtl;
use words::error::Error;
use words::json::values;

/// The memory that working on a body takes beside it, bytes: its size for each copy of its texts, and what is made of its values.
/// Measured in `working_memory` for many shapes of bodies: none of them takes more.
pub fn working_memory(body: &[u8]) -> usize {
    /// How often the texts are copied: the result, which grows by doubling.
    const COPIES: usize = 3;
    /// For each value.
    const VALUE: usize = 130;
    /// For the lists of the one object that is being read.
    const MEMBERS: usize = 1 << 20;
    // A chat with more values is not read.
    body.len() * COPIES + values::count(body, MAX_VALUES) * VALUE + MEMBERS
}

/// How the response must be translated.
#[derive(Debug, Clone)]
pub struct Translation {
    work: Work,
    operation: Operation,
    provider: &'static str,
    model: String,
    strict: bool,
    /// The provider's dialect is the client's.
    is_own_dialect: bool,
    /// The client requested a stream of events.
    streamed: bool,
    include_usage: bool,
    request: Option<Body>,
    /// What was called, where the response is read with it.
    place: Option<Box<CallPlace>>,
    /// The tools whose names were changed for the provider.
    tool_names: Option<Arc<ToolNames>>,
    /// The head of the response of an API that is called as a tool.
    api: Option<Arc<ApiHead>>,
}

#[derive(Debug, Clone, Copy)]
enum Work {
    Chat(&'static dyn ChatAdapter, ChatTranslator),
    Json(&'static dyn JsonAdapter),
    Patch(&'static dyn ResponsePatch),
    OwnDialect(OwnShape),
    Reshaped(Reshaped),
}

/// How a call is prepared.
#[derive(Debug, Clone, Copy)]
pub struct PrepareOptions<'a> {
    /// `strict_std_compliance` of its target.
    pub strict: bool,
    /// The usage of a stream is requested where the client does not request it.
    pub stream_usage: bool,
    /// As [`CallTarget::client_betas`].
    pub client_betas: Option<&'a str>,
    /// Which chats the provider takes only at its Responses API, as far as its refusals say so.
    pub learned: Option<ResponsesWhen>,
    /// Marks of the provider's cache of prompts are set where the client has set none, for this time.
    pub prompt_cache: Option<MarkTtl>,
}

/// A call prepared for its provider.
#[derive(Debug)]
pub struct PreparedRequest {
    /// Path and query, as from [`Provider::path`].
    pub path: String,
    /// The body to send; `None` when there is none, or when the client's bytes are sent unchanged.
    pub body: Option<Vec<u8>>,
    /// `None`: the response passes through unchanged.
    pub translation: Option<Translation>,
    /// The operation that the provider gets; its auth headers may depend on it.
    pub operation: Operation,
    /// What is counted, where the gateway responds itself without a request.
    pub local_count: Option<LocalCount>,
    /// The usage of the stream was requested although the client did not: the event with it is not for the client.
    pub hides_usage: bool,
}

/// The tokens of a request that the gateway counts itself, because the provider cannot.
#[derive(Debug, Clone)]
pub struct LocalCount {
    /// Whose format the body has.
    operation: Operation,
    body: Body,
    /// Writes the response.
    response: fn(u64) -> Vec<u8>,
}

impl LocalCount {
    /// How many bytes are read to count it.
    pub fn bytes(&self) -> usize {
        self.body.bytes().len()
    }

    /// The body of the response, in the client's dialect.
    pub fn response(&self, count: &CountText<'_>) -> Vec<u8> {
        (self.response)(token_estimate::input(self.operation, &self.body, count))
    }
}

/// Prepares a call: chooses the adapter and writes the body in the provider's format. `body` is the client's,
/// with `override_params` merged in; the result contains a body only where something was changed.
///
/// # Errors
/// 400 that names what the provider cannot do.
pub fn prepare(
    provider: &'static dyn Provider,
    call: &Call<'_>,
    account: &Account,
    body: Option<&Body>,
    options: PrepareOptions<'_>,
    notes: &mut TranslationNotes,
) -> Result<PreparedRequest, Error> {
    check_stored_responses(provider, call, account)?;
    let model = call.model.unwrap_or_default();
    let target = CallTarget { call, account, model, client_betas: options.client_betas };
    let preparation = Preparation { provider, target, options };
    beta_host::warn_of_header(provider, call, options.client_betas, notes);
    if let Some(reshape) = Reshape::find(call.operation)
        && !provider.has_gemini(call.operation, call.model)
    {
        return preparation.reshaped(reshape, body, notes);
    }
    if let (Operation::ResponsesInputTokens, false, Some(body)) =
        (call.operation, provider.counts_responses(), body)
    {
        return Ok(preparation.estimate(body, Operation::Responses, responses::count_response, notes));
    }
    let usual = compaction::adapter(provider, call, account, body)?;
    let judged =
        body.and_then(|body| responses_only::judge(provider, &target, body, options.learned, options.strict));
    let responses = judged.as_ref().and_then(|judged| judged.adapter);
    if responses.is_some() {
        notes.warn("model", responses_only::WARNING);
    }
    match (responses.map_or(usual, Adapter::Chat), body) {
        (Adapter::Chat(_), Some(body)) if call.operation == Operation::CountTokens => {
            Ok(preparation.estimate(body, Operation::Messages, messages::count_response, notes))
        }
        (Adapter::Chat(chat), Some(body)) => {
            preparation.chat(chat, body, judged.map(|judged| judged.request), notes)
        }
        (Adapter::Chat(_), None) => Err(Error::bad_request("The request body must be a JSON object.")),
        (Adapter::Json(adapter), body) => preparation.json(adapter, body, notes),
        (Adapter::Passthrough(patch), body) => preparation.passthrough(patch, body, notes),
    }
}

/// A call that is being prepared.
struct Preparation<'a> {
    provider: &'static dyn Provider,
    target: CallTarget<'a>,
    options: PrepareOptions<'a>,
}

impl Preparation<'_> {
    fn translation(&self, work: Work, request: Option<&Body>) -> Translation {
        Translation {
            work,
            operation: self.target.call.operation,
            provider: self.provider.id(),
            model: self.target.model.to_owned(),
            strict: self.options.strict,
            is_own_dialect: false,
            streamed: false,
            include_usage: false,
            request: request.cloned(),
            place: None,
            tool_names: None,
            api: None,
        }
    }

    /// What is set in the body where it is sent as this call.
    fn marks(&self) -> Option<Marks> {
        Marks::find(self.provider, &self.target, self.options.prompt_cache)
    }

    fn prepared(
        &self,
        body: Option<Vec<u8>>,
        translation: Option<Translation>,
    ) -> Result<PreparedRequest, Error> {
        let CallTarget { call, account, .. } = self.target;
        let path = self.provider.path(call, account)?;
        let operation = call.operation;
        Ok(PreparedRequest { path, body, translation, operation, local_count: None, hides_usage: false })
    }

    /// Prepares an operation of Gemini's API that the provider has in OpenAI's or Anthropic's shape.
    fn reshaped(
        &self,
        reshape: Reshape,
        body: Option<&Body>,
        notes: &mut TranslationNotes,
    ) -> Result<PreparedRequest, Error> {
        let CallTarget { call, account, model, .. } = self.target;
        let (operation, path) = reshape.inner(model);
        let inner_call = Call { operation, path: &path, query: None, streamed: false, ..*call };
        if let (Operation::GeminiCountTokens, Some(body)) = (call.operation, body) {
            body.check_values(self.provider.id())?;
        }
        let inner_body = reshape.request(self.provider, &inner_call, account, body, notes)?;
        let mut prepared = prepare(
            self.provider,
            &inner_call,
            account,
            inner_body.as_ref(),
            PrepareOptions { stream_usage: false, ..self.options },
            notes,
        )?;
        prepared.body = prepared.body.or_else(|| inner_body.map(|body| body.bytes().to_vec()));
        if let Some(count) = &mut prepared.local_count {
            count.response = gemini::count_response;
            return Ok(prepared);
        }
        let translation = prepared.translation.take();
        let inner = match translation.as_ref().map(|translation| translation.work) {
            Some(Work::Json(adapter)) => Inner::Json(adapter),
            Some(Work::Patch(patch)) => Inner::Patch(patch),
            _ => Inner::Same,
        };
        let request = translation.and_then(|translation| translation.request);
        let work = Work::Reshaped(Reshaped { reshape, inner });
        prepared.translation = Some(self.translation(work, request.as_ref()));
        Ok(prepared)
    }

    /// A local estimate of the token count, for a provider that cannot count tokens. `format`: whose request the body is.
    fn estimate(
        &self,
        body: &Body,
        format: Operation,
        response: fn(u64) -> Vec<u8>,
        notes: &mut TranslationNotes,
    ) -> PreparedRequest {
        notes.warn("input_tokens", format!("estimated, {} cannot count tokens", self.provider.id()));
        PreparedRequest {
            path: String::new(),
            body: None,
            translation: None,
            operation: self.target.call.operation,
            local_count: Some(LocalCount { operation: format, body: body.clone(), response }),
            hides_usage: false,
        }
    }

    /// `read`: what the body says, where that was read already.
    fn chat(
        &self,
        chat: &'static dyn ChatAdapter,
        body: &Body,
        read: Option<ChatRequest<'_>>,
        notes: &mut TranslationNotes,
    ) -> Result<PreparedRequest, Error> {
        let operation = self.target.call.operation;
        let read_now = || fitting::read(operation, body, self.provider.id(), self.options.strict);
        let read = read.map(Ok).or_else(read_now);
        let (Some(translator), Some(read)) = (operation.translator(), read) else {
            // A provider chooses this adapter for chats only.
            let message = format!("{} cannot serve {}.", self.provider.id(), operation.label());
            return Err(Error::not_implemented(message).with_provider(self.provider.id()));
        };
        let mut request = read?;
        notes.warnings.append(&mut request.warnings);
        request.stream = operation.streams_by_path().unwrap_or(request.stream);
        let mut translation = self.translation(Work::Chat(chat, translator), Some(body));
        translation.streamed = request.stream;
        translation.include_usage = request.include_usage;
        output_bound::keep(&mut request, operation, body, notes);
        translation.tool_names =
            fitting::fit(&mut request, operation, chat, self.target.model, notes)?.map(Arc::new);
        let operation = chat.operation();
        let path = if operation == Operation::Responses { "responses" } else { "chat/completions" };
        let call = Call { operation, path, ..*self.target.call };
        let chat_call = Preparation { target: CallTarget { call: &call, ..self.target }, ..*self };
        let marks = chat_call.marks();
        if marks.is_some() {
            Marks::sort_tools(&mut request);
        }
        let mut bytes = chat.write(request, &chat_call.target, notes)?;
        if let Some(marked) = marks.and_then(|marks| marks.placed(&bytes)) {
            bytes = marked;
        }
        chat_call.prepared(Some(bytes), Some(translation))
    }

    fn json(
        &self,
        adapter: &'static dyn JsonAdapter,
        body: Option<&Body>,
        notes: &mut TranslationNotes,
    ) -> Result<PreparedRequest, Error> {
        if let (Operation::CountTokens, Some(body)) = (self.target.call.operation, body) {
            body.check_values(self.provider.id())?;
        }
        let bytes = adapter.write(body, &self.target, notes)?;
        let place = CallPlace::of(self.target.call);
        let translation = Translation { place, ..self.translation(Work::Json(adapter), body) };
        self.prepared(bytes, Some(translation))
    }

    fn passthrough(
        &self,
        patch: Option<&'static dyn ResponsePatch>,
        body: Option<&Body>,
        notes: &mut TranslationNotes,
    ) -> Result<PreparedRequest, Error> {
        let mut edits = match body {
            Some(body) => {
                let mut edits = self.provider.edits(body, &self.target, notes)?;
                edits.extend(claude_code::edit(self.provider, self.target.call, body, notes));
                edits
            }
            None => Vec::new(),
        };
        let call = self.target.call;
        let wanted = self.options.stream_usage && self.provider.takes_stream_options(call);
        // A config may have taken the stream out of the body, or put it in.
        let body_streams = |body: &&Body| match call.operation.streams_by_path() {
            Some(streams) => streams,
            None => body.is_true("stream"),
        };
        let hides_usage =
            wanted && body.filter(body_streams).is_some_and(|body| stream_usage::request(body, &mut edits));
        edits.extend(body.and_then(|body| compaction::edit(call.operation, body)));
        let changed = body.filter(|_| !edits.is_empty()).map(|body| body.edit(&edits).to_vec());
        let marked = self.marks().and_then(|marks| {
            let body = body.filter(|body| body.is_object())?;
            marks.placed(changed.as_deref().unwrap_or(body.bytes()))
        });
        let changed = marked.or(changed);
        let tool_names = notes.tool_names.take().map(Arc::new);
        let patch = patching::choose(patch, &self.target, body, tool_names.is_some());
        let translation =
            patch.map(|patch| Translation { tool_names, ..self.translation(Work::Patch(patch), None) });
        Ok(PreparedRequest { hides_usage, ..self.prepared(changed, translation)? })
    }
}

/// Whether the provider has a Responses API of its own.
fn has_responses(provider: &dyn Provider, call: &Call<'_>, account: &Account) -> bool {
    let create = Call { operation: Operation::Responses, path: "responses", ..*call };
    matches!(provider.adapter(&create, account), Ok(Adapter::Passthrough(_)))
}

/// A provider that only chats stores no responses. Refused here, because the provider's own 404 would be
/// about something else.
fn check_stored_responses(provider: &dyn Provider, call: &Call<'_>, account: &Account) -> Result<(), Error> {
    if !call.operation.is_stored_response() || has_responses(provider, call, account) {
        return Ok(());
    }
    let id = provider.id();
    let message = format!(
        "{id} keeps no responses, so there is none to get, cancel or delete. Choose a provider with a Responses API of its \
         own (openai, azure-openai)."
    );
    Err(Error::bad_request(message).with_provider(id))
}

impl Translation {
    /// Reads a response in the client's own dialect, for text filters: it is decoded and encoded again, or keeps its shape
    /// (`own_dialect`). `body`: the request's. `None` for operations that are no chat.
    pub fn own_dialect(
        operation: Operation,
        provider: &'static str,
        model: &str,
        strict: bool,
        body: Option<&Body>,
    ) -> Option<Self> {
        #[derive(serde::Deserialize)]
        struct StreamOptions {
            #[serde(default)]
            include_usage: bool,
        }
        let work = match operation.stream_shape()? {
            StreamShape::Chat | StreamShape::Messages | StreamShape::Gemini => {
                Work::Chat(rescue::dialect_adapter(operation)?, operation.translator()?)
            }
            StreamShape::Completions => Work::OwnDialect(OwnShape::Completions),
            StreamShape::Responses => Work::OwnDialect(OwnShape::Responses),
        };
        let options = body.and_then(|body| body.read::<StreamOptions>("stream_options"));
        Some(Self {
            work,
            operation,
            provider,
            model: model.to_owned(),
            strict,
            is_own_dialect: true,
            streamed: operation
                .streams_by_path()
                .unwrap_or_else(|| body.is_some_and(|body| body.is_true("stream"))),
            include_usage: options.is_some_and(|options| options.include_usage),
            request: body.cloned(),
            place: None,
            tool_names: None,
            api: None,
        })
    }

    /// The client does not get the usage of its stream, whatever the request that was sent says.
    pub fn hide_usage(&mut self) {
        self.include_usage = false;
    }

    /// The client's names of tools are those of another translation of the same call.
    #[must_use]
    pub fn with_names_of(self, other: Option<&Self>) -> Self {
        Self { tool_names: other.and_then(|other| other.tool_names.clone()), ..self }
    }

    /// The client's request, where the one that is sent is in another format.
    pub fn request(&self) -> Option<&Body> {
        self.request.as_ref()
    }

    /// Whether responses are decoded as a chat, so that their text can be filtered.
    pub fn is_chat(&self) -> bool {
        matches!(self.work, Work::Chat(..))
    }

    /// Whether the client gets a stream of events, if the call succeeds.
    pub fn streams(&self) -> bool {
        self.streamed
    }

    /// Whether the response keeps the provider's shape and is only corrected in places.
    pub fn is_patch(&self) -> bool {
        matches!(self.work, Work::Patch(_) | Work::OwnDialect(_))
    }

    /// Whether what filters have as choices are the parts of one: of a response of the Responses API in its own dialect.
    pub fn has_one_choice(&self) -> bool {
        matches!(self.work, Work::OwnDialect(OwnShape::Responses))
    }

    /// Whether the response is read in the client's dialect and keeps its provider's shape, but for its kind: it becomes a
    /// stream of events where the client requested one, and a document where not.
    pub fn is_own_dialect(&self) -> bool {
        matches!(self.work, Work::OwnDialect(_))
    }

    /// A new decoder for a response that continues a stream started by another attempt
    /// ([`Rewriter::resume`]); `None` where responses are not decoded as a chat.
    pub fn decoder(&self, streamed: bool) -> Option<Box<dyn Decoder>> {
        match self.work {
            Work::Chat(chat, _) => Some(self.chat_decoder(chat, streamed)),
            // The client's own dialect: its decoder understands every deviation that is patched.
            Work::Patch(_) => rescue::decoder(self.operation, streamed),
            Work::Json(_) | Work::OwnDialect(_) | Work::Reshaped(_) => None,
        }
    }

    /// The rewriter of one response with a success status. `streamed`: the response is a stream of events;
    /// `id`: unique, for ids that the provider does not send; `created`: Unix seconds.
    pub fn rewriter(&self, streamed: bool, id: &str, created: u64) -> Rewriter {
        match self.work {
            Work::Chat(chat, translator) => {
                let context = EncodeContext {
                    id: id.to_owned(),
                    created,
                    model: self.model.clone(),
                    provider: self.provider,
                    strict: self.strict,
                    is_own_dialect: self.is_own_dialect,
                    include_usage: self.include_usage,
                    request: self.request.clone(),
                };
                let encoder = (translator.encoder)(self.streamed, context);
                Rewriter::chat(self.chat_decoder(chat, streamed), encoder, id)
                    .with_tool_names(self.tool_names.clone())
            }
            Work::Json(adapter) => {
                let api = self.api.clone().map(JsonReader::Api);
                Rewriter::json(api.unwrap_or(JsonReader::Adapter(adapter)), self.json_call(created))
            }
            Work::Reshaped(reshaped) => {
                Rewriter::json(JsonReader::Reshaped(reshaped), self.json_call(created))
            }
            Work::Patch(patch) => Rewriter::patch(patch, self.tool_names.clone(), streamed),
            Work::OwnDialect(shape) => Rewriter::own_dialect(shape, streamed, self.streamed),
        }
    }

    /// The same for a response with this head, which an API has sent that is called as a tool.
    #[must_use]
    pub fn of_api(&self, head: ApiHead) -> Self {
        Self { api: Some(Arc::new(head)), ..self.clone() }
    }

    fn chat_decoder(&self, chat: &dyn ChatAdapter, streamed: bool) -> Box<dyn Decoder> {
        let request = self.request.as_ref().filter(|_| !self.is_own_dialect);
        compaction::decoder(self.operation, request, chat.decoder(streamed))
    }

    fn json_call(&self, now: u64) -> JsonCall {
        JsonCall { request: self.request.clone(), model: self.model.clone(), place: self.place.clone(), now }
    }
}

#[cfg(test)]
mod tests;
