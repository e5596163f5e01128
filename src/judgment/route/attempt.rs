//! One attempt at a target, with everything the engine needs to send it.
//!
//! Does not send the attempt (`engine` does) and does not choose the target (`plan` does).

use super::admission::{Endpoint, PathForm};
use super::body_edits::edited_body;
use super::compiled::CompiledConfig;
use super::model_names::UsedName;
use super::prompt_call::PromptCall;
use super::provider_ref::split_slug;
use super::request_mode::RequestMode;
use super::target::Target;
use super::vendor_headers::VendorHeaders;
use bytes::Bytes;
use http::header::UPGRADE;
use http::{HeaderMap, Method, Uri};
use knowledge::provider::compaction;
use knowledge::provider::credential_mask::CredentialMask;
use knowledge::provider::responses_only;
use knowledge::provider::token_exchange::{Credentials, TokenExchange};
use knowledge::provider::translation::{self, LocalCount, PrepareOptions, PreparedRequest, Translation};
use knowledge::provider::translation_notes::TranslationNotes;
use knowledge::provider::{Call, Provider};
use memory::net::outbound::origin::Origin;
use memory::state::learned_forms::WorkspaceForms;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use words::api::body::{Body, Edit};
use words::api::operation::Operation;
use words::api::output_bounds;
use words::api::rules;
use words::api::service_tier;
use words::api::trace::TraceParent;
use words::api::{Dialect, gemini};
use words::error::Error;
use words::settings::AllowedNames;

/// What agents call their session in: Claude Code (its documentation of gateways) and Codex (`session_id`, later `session-id`; before,
/// `conversation_id`).
const SESSION_HEADERS: [&str; 4] =
    ["x-claude-code-session-id", "session_id", "session-id", "conversation_id"];

/// The parts of the client's request that an attempt is made from.
#[derive(Debug, Clone)]
pub struct Request {
    pub operation: Operation,
    /// In passthrough mode the content is neither checked nor translated; the provider judges it.
    pub mode: RequestMode,
    /// Of the upstream request: GET where an operation is requested with HEAD, because few providers know that.
    pub method: Method,
    /// The URI as the client sent it, without keys.
    pub uri: Uri,
    /// Whose paths the URI follows.
    pub form: PathForm,
    /// Byte offset in the URI's path at which the part below the version segment begins.
    pub path_offset: usize,
    /// The body, if it was read; `None` when it streams through unread.
    pub body: Option<Body>,
    /// The model the client names, without a leading `@slug/`.
    pub model: Option<String>,
    /// The slug of a leading `@slug/` in the model, or in what its name stands for.
    pub slug: Option<String>,
    /// The name of `models` that the client used; `model` and `slug` are what it stands for.
    pub used_name: Option<Arc<UsedName>>,
    /// Where the model stands in a form.
    pub form_model: Option<Range<usize>>,
    /// The models that the client's key may use; `None`: all.
    pub allowed_models: Option<AllowedNames>,
    /// The config is one that stands in for none: `default_config`, or that of the client's key.
    pub uses_default_config: bool,
    /// It asks for another protocol, as the handshake of a websocket does: what follows is not read.
    pub switches_protocols: bool,
    /// The session of the agent that sends it, by a header of the agent's.
    pub session: Option<Box<str>>,
    /// What it was rendered from, if it was sent to a prompt.
    pub prompt: Option<Arc<PromptCall>>,
    /// What of the client's request is not used.
    pub warnings: Vec<String>,
    /// The client's `anthropic-beta` header: some providers take it in the body.
    pub betas: Option<String>,
    /// Providers are requested to report the usage of a stream, whether the client requests it or not.
    pub stream_usage: bool,
    /// The gateway makes it, for a request of the client. A client's own calls below `/v1/proxy/` reach the provider's main host only: at
    /// others the provider key may open what is not the client's, such as a bucket.
    pub is_own: bool,
    /// What the output was bounded to, in tokens of all choices together: `override_params` cannot exceed it.
    pub output_bound: Option<u64>,
    /// The body is what a target made of it, as hooks have changed it since: defaults and paths to leave out count no more.
    pub is_edited: bool,
    /// What providers' refusals say of their models; `None` for what is not sent at once, such as the lines of a vendor's batch job.
    pub learned: Option<WorkspaceForms>,
    /// Between two turns of its conversation lay more than five minutes (`prompt_cache.ttl: auto`).
    pub pauses: bool,
}

/// The slug of a model written as `@slug/model`, and the model without it.
fn slug_and_model(full_model: Option<String>) -> (Option<String>, Option<String>) {
    match full_model.as_deref().and_then(split_slug) {
        Some((slug, model)) => (Some(slug.to_owned()), Some(model.to_owned())),
        None => (None, full_model),
    }
}

fn unbounded() -> Error {
    Error::invalid_request(
        "max_tokens",
        "A limit bounds the output of this request, and the config's drop_params leave out what would bound it.",
    )
}

impl Request {
    /// Makes the request; `body` is `None` when it streams through unread.
    pub fn new(endpoint: Endpoint, method: Method, uri: Uri, body: Option<Body>) -> Self {
        let Endpoint { operation, mode, form, path_offset, .. } = endpoint;
        let method = if method == Method::HEAD && mode == RequestMode::Api { Method::GET } else { method };
        let path_model = endpoint.model(uri.path()).map(Cow::into_owned);
        let body = match (body, &path_model) {
            (Some(body), Some(model)) if form == PathForm::Azure => Some(with_model(body, model)),
            (body, _) => body,
        };
        let full_model =
            path_model.or_else(|| body.as_ref().and_then(|body| body.text("model")).map(Cow::into_owned));
        let (slug, model) = slug_and_model(full_model);
        Self {
            operation,
            mode,
            method,
            uri,
            form,
            path_offset,
            body,
            model,
            slug,
            used_name: None,
            form_model: None,
            allowed_models: None,
            uses_default_config: false,
            switches_protocols: false,
            session: None,
            prompt: None,
            warnings: Vec::new(),
            stream_usage: true,
            betas: None,
            output_bound: None,
            is_edited: false,
            is_own: false,
            learned: None,
            pauses: false,
        }
    }

    /// Takes a model, which may be written with a slug.
    pub(super) fn name_model(&mut self, full_model: Option<String>) {
        (self.slug, self.model) = slug_and_model(full_model);
    }

    /// Takes from the client's headers what may go into a body.
    pub fn read_headers(&mut self, headers: &HeaderMap) {
        let values = headers.get_all("anthropic-beta").iter().filter_map(|value| value.to_str().ok());
        self.betas = values.map(str::to_owned).reduce(|all, value| format!("{all},{value}"));
        self.switches_protocols = headers.contains_key(UPGRADE);
        let session = SESSION_HEADERS.iter().find_map(|name| headers.get(*name)?.to_str().ok());
        self.session = session.filter(|session| !session.is_empty()).map(Box::from);
    }

    /// Checks the request against the rules of its operation. In passthrough mode nothing is checked.
    ///
    /// # Errors
    /// 400 that names the first invalid field.
    pub fn check(&self, config: &CompiledConfig) -> Result<(), Error> {
        if self.mode == RequestMode::Passthrough {
            return Ok(());
        }
        if let Some(body) = &self.body {
            rules::check(self.operation, body, &|name| config.all_set(name, body.raw(name).is_some()))?;
            if self.operation == Operation::BatchesCreate {
                let is_sent = body.raw("completion_window").is_some();
                rules::check_window(body, config.all_set("completion_window", is_sent))?;
            }
        }
        rules::check_query(self.operation, self.uri.query())
    }

    /// Whether the client requests a streamed response.
    pub fn is_streamed(&self) -> bool {
        let by_path = self.operation.streams_by_path();
        by_path.unwrap_or_else(|| self.body.as_ref().is_some_and(|body| body.is_true("stream")))
    }

    /// How many outputs it asks for: choices, candidates, and those of each prompt of a completion. At least 1.
    pub fn outputs(&self) -> u64 {
        self.body.as_ref().map_or(1, |body| output_bounds::outputs(self.operation, body))
    }

    /// Lowers the bound of its output to what a limit has left, for all choices together (`fit`), and says so.
    pub fn bound_output(&mut self, tokens: u64) {
        let bounded =
            self.body.as_ref().and_then(|body| self.bounded(body, tokens, &|_| false).ok().flatten());
        let Some(body) = bounded else { return };
        self.warnings
            .push(format!("the output was bounded to {tokens} tokens, which is what a limit has left"));
        self.body = Some(body);
        self.output_bound = Some(tokens);
    }

    /// Whether [`Self::as_edited_for`] may be another request than this one.
    pub fn may_be_edited_for(&self, target: &Target) -> bool {
        target.policies.edits_body() || (self.prompt.is_some() && target.prompt.is_some())
    }

    /// The request with what a target makes of it: its prompt, `default_params`, `override_params` and `drop_params`.
    ///
    /// # Errors
    /// The prompt's, for a request that it cannot be rendered for.
    pub fn as_edited_for(&self, target: &Target) -> Result<Cow<'_, Self>, Error> {
        let request = self.for_target(target)?;
        if !target.policies.edits_body() {
            return Ok(request);
        }
        Ok(match edited_body(target, &request)? {
            Some(body) => Cow::Owned(Self { body: Some(body), ..request.into_owned() }),
            None => request,
        })
    }

    /// A body with its output bounded to at most so much; `None` where it is no object. `is_dropped`: the target gets no member of this name.
    ///
    /// # Errors
    /// 400 where the target gets none that bounds the output.
    pub(super) fn bounded(
        &self,
        body: &Body,
        tokens: u64,
        is_dropped: &dyn Fn(&str) -> bool,
    ) -> Result<Option<Body>, Error> {
        let each = (tokens / output_bounds::outputs(self.operation, body)).max(1);
        let at_most = |bound: Option<u64>| bound.map_or(each, |bound| bound.min(each)).to_string();
        let of_google = at_most(output_bounds::bound(self.operation, body));
        let edits: Vec<Edit<'_>> = match self.operation.dialect() {
            Dialect::Google => {
                let names = ["max_tokens", "max_completion_tokens"];
                if names.into_iter().any(is_dropped) {
                    return Err(unbounded());
                }
                gemini::override_edits(body, std::iter::once(("max_completion_tokens", of_google.as_str())))
            }
            _ => {
                let (default, others) = match self.operation {
                    Operation::Messages | Operation::Completions => ("max_tokens", &[][..]),
                    Operation::Responses | Operation::ResponsesCompact => ("max_output_tokens", &[][..]),
                    _ => ("max_completion_tokens", &["max_tokens"][..]),
                };
                let possible = || others.iter().copied().chain([default]).filter(|name| !is_dropped(name));
                let mut names: Vec<&'static str> =
                    possible().filter(|name| body.raw(name).is_some()).collect();
                if names.is_empty() {
                    names.push(possible().last().ok_or_else(unbounded)?);
                }
                let edit = |name| Edit::Set(name, at_most(body.read(name)).into());
                names.into_iter().map(edit).collect()
            }
        };
        Ok(Body::parse(body.edit(&edits)).ok())
    }

    /// The body that conditions read: with the model and the stream, where the client's has them in its path.
    pub fn body_for_facts(&self) -> Option<Body> {
        let body = self.body.as_ref()?;
        let Some(streams) = self.operation.streams_by_path() else { return Some(body.clone()) };
        let model = self.requested_model().unwrap_or_default();
        let model = serde_json::Value::from(&*model).to_string();
        let edits = [Edit::Set("model", model.into()), Edit::Set("stream", streams.to_string().into())];
        Body::parse(body.edit(&edits)).ok()
    }

    /// The path below the version segment, without a leading slash.
    pub fn path(&self) -> &str {
        self.uri.path().get(self.path_offset..).unwrap_or_default()
    }

    /// The query for a provider. Azure's version of an API means nothing at other vendors, and its deployment is their
    /// model.
    fn query_for(&self, provider: &dyn Provider, model: Option<&str>) -> Option<Cow<'_, str>> {
        let query = self.uri.query()?;
        match self.form {
            PathForm::Plain | PathForm::Google => return Some(Cow::Borrowed(query)),
            PathForm::Azure if provider.takes_api_version() => return Some(Cow::Borrowed(query)),
            PathForm::Azure => {}
            PathForm::Gemini if !provider.has_gemini(self.operation, model) => return None,
            PathForm::Gemini => {
                let pairs = query.split('&').filter(|pair| !pair.starts_with("key="));
                let query = pairs.collect::<Vec<_>>().join("&");
                return (!query.is_empty()).then_some(Cow::Owned(query));
            }
        }
        let pairs = query.split('&').filter(|pair| !pair.starts_with("api-version="));
        let pairs = pairs.map(|pair| match pair.strip_prefix("deployment=") {
            Some(model) => Cow::Owned(format!("model={model}")),
            None => Cow::Borrowed(pair),
        });
        let query = pairs.collect::<Vec<_>>().join("&");
        (!query.is_empty()).then_some(Cow::Owned(query))
    }

    /// The call as a provider sees it.
    pub(super) fn call<'a>(&'a self, model: Option<&'a str>, query: Option<&'a str>) -> Call<'a> {
        Call {
            operation: self.operation,
            method: &self.method,
            path: self.path(),
            query,
            model,
            streamed: self.is_streamed(),
        }
    }

    /// Whether the slug before the model is this target's own, or names its config. Only then does it name the provider;
    /// otherwise it is part of the model's name.
    pub(super) fn slug_is(&self, target: &Target) -> bool {
        self.slug.is_some() && (self.slug == target.slug || self.slug == target.model_config)
    }

    pub(super) fn model_for(&self, target: &Target) -> Option<String> {
        match &self.slug {
            Some(slug) if !self.slug_is(target) => {
                Some(format!("@{slug}/{}", self.model.as_deref().unwrap_or_default()))
            }
            _ => self.model.clone(),
        }
    }
}

/// One attempt: its target and what is sent there.
#[derive(Debug)]
pub struct Attempt {
    pub target: Arc<Target>,
    /// The client's.
    pub operation: Operation,
    /// The one that the provider gets.
    pub sent_operation: Operation,
    pub mode: RequestMode,
    pub method: Method,
    /// Where it is sent, if that is not the target's own host.
    pub other_origin: Option<Arc<Origin>>,
    /// Path and query of the upstream request.
    pub path: String,
    /// The body to send; `None` when the client's body streams through unchanged.
    pub body: Option<Bytes>,
    /// Whether `body` differs from the body the client sent.
    pub body_changed: bool,
    /// The most output that it asks for, of all choices together; `None`: as much as the model likes.
    pub most_output: Option<u64>,
    /// The service tier that the request names, where it is served at no dearer one than that or the standard.
    pub tier_bound: Option<&'static str>,
    /// The requested model. Shared, because the record of the attempt keeps it.
    pub model: Option<Arc<str>>,
    /// The provider's auth headers for this call.
    pub auth: Arc<HeaderMap>,
    /// The token or temporary credentials it is sent with, once they are fetched. Boxed because few attempts have them.
    pub fetched: Option<Box<Credentials>>,
    /// The token exchange that must be done before the attempt is sent.
    pub token_exchange: Option<Arc<dyn TokenExchange>>,
    /// Vendor headers to send in addition to the client's own.
    pub vendor_headers: VendorHeaders,
    /// What was left out or changed when the request was translated for the provider, and what has no effect in the config.
    pub warnings: Vec<String>,
    /// How the response is translated for the client; `None` when it passes through unchanged.
    pub translation: Option<Translation>,
    /// What is counted, when the gateway responds itself and calls no upstream.
    pub local_count: Option<LocalCount>,
    /// The usage of the stream was requested although the client did not: the event with it is not for the client.
    pub hides_usage: bool,
    /// Its span, which the provider is told in place of the client's; `None`: the client's header is passed on.
    pub trace_parent: Option<TraceParent>,
}

impl Attempt {
    /// Makes the attempt for one target.
    ///
    /// # Errors
    /// The provider's 400 or 401 for an incomplete account or call, and 400 for what it does not support.
    pub fn new(target: Arc<Target>, request: &Request) -> Result<Self, Error> {
        let request = request.for_target(&target)?;
        let has_own_prompt = matches!(request, Cow::Owned(_));
        let request = &*request;
        let model = target.model().map(str::to_owned).or_else(|| request.model_for(&target));
        target.check_model(model.as_deref())?;
        request.check_allowed(&target, model.as_deref())?;
        let query = request.query_for(target.provider, model.as_deref());
        let call = request.call(model.as_deref(), query.as_deref());
        let edited = edited_body(&target, request)?;
        let body = edited.as_ref().or(request.body.as_ref());
        let most_output = body.and_then(|body| output_bounds::bound_of_all(request.operation, body));
        let tier_bound = body.and_then(service_tier::bound_of);
        let mut notes = TranslationNotes::default();
        notes.warnings.extend_from_slice(&target.config_warnings);
        notes.warnings.extend_from_slice(&request.warnings);
        notes.warnings.extend(replaced_model(&target, request));
        let ready = prepare(&target, &call, request, body, &mut notes)?;
        let upstream_call = Call { operation: ready.operation, ..call };
        let other_origin = if request.mode == RequestMode::Api || request.is_own {
            other_origin(&target, &upstream_call)?
        } else {
            None
        };
        let base_path = &other_origin.as_deref().unwrap_or(&target.origin).base_path;
        let path = match target.provider.base_path(&upstream_call, &target.account, base_path) {
            "" => ready.path,
            base => [base, &ready.path].concat(),
        };
        let auth = target.auth(&upstream_call)?;
        let token_exchange = target.token_exchange()?;
        let body_changed = has_own_prompt || edited.is_some() || ready.body.is_some();
        let body = ready.body.map(Bytes::from).or_else(|| body.map(|body| body.bytes().clone()));
        let TranslationNotes { headers, warnings, .. } = notes;
        let vendor_headers = VendorHeaders::new(headers, &target.account)?;
        let attempt = Self {
            target,
            operation: request.operation,
            sent_operation: ready.operation,
            mode: request.mode,
            method: request.method.clone(),
            other_origin,
            path,
            body,
            body_changed,
            most_output,
            tier_bound,
            model: model.map(Arc::from),
            auth,
            fetched: None,
            token_exchange,
            vendor_headers,
            warnings,
            translation: ready.translation,
            local_count: ready.local_count,
            hides_usage: ready.hides_usage,
            trace_parent: None,
        };
        attempt.into_api_call(request.body.as_ref())
    }

    /// Where it is sent.
    pub fn origin(&self) -> &Origin {
        self.other_origin.as_deref().unwrap_or(&self.target.origin)
    }

    /// Whether an attempt's body is translated, and not only edited in places.
    pub fn is_translated(target: &Target, request: &Request) -> bool {
        let model = target.model().map(str::to_owned).or_else(|| request.model_for(target));
        let call = request.call(model.as_deref(), request.uri.query());
        let learned = request.learned_of(target, call.model);
        let body = request.body.as_ref();
        request.mode == RequestMode::Api
            && responses_only::is_translated(target.provider, &call, &target.account, body, learned)
    }

    /// Whether Pingora may proxy it natively: no translation, no local response, no body held in memory and no
    /// credentials to get first. An upgrade may have a body or need credentials, because there is no other way
    /// to send it.
    pub fn goes_native(&self, is_upgrade: bool) -> bool {
        let is_plain = self.translation.is_none() && self.local_count.is_none();
        is_plain && (is_upgrade || (self.body.is_none() && !self.needs_credentials()))
    }

    /// Has the response read, so that its text can be filtered; one in the client's dialect is encoded again, or keeps its shape.
    /// `is_local`: the response is the gateway's own, in the client's dialect whatever the provider's is.
    ///
    /// # Errors
    /// 501 where the operation is no chat.
    pub fn decode_response(&mut self, request: &Request, is_local: bool) -> Result<(), Error> {
        if !is_local && self.translation.as_ref().is_some_and(Translation::is_chat) {
            return Ok(());
        }
        let provider = self.target.provider.id();
        // A body in the client's dialect is the one that is sent, edits included.
        let sent = self.body.as_ref().filter(|_| !is_local && self.body_changed);
        let sent = sent.and_then(|bytes| Body::parse(bytes.clone()).ok());
        let body = sent.as_ref().or(request.body.as_ref());
        let model = self.model.as_deref().unwrap_or_default();
        let own =
            Translation::own_dialect(self.operation, provider, model, self.target.policies.is_strict(), body);
        let translation = own.ok_or_else(|| {
            let operation = self.operation.label();
            let message = format!(
                "The config filters the text of responses, and responses of the operation {operation} have no text that \
                 could be filtered. Use a chat, or a target without such a filter."
            );
            Error::not_implemented(message).with_provider(provider)
        })?;
        self.translation = Some(self.own_dialect(translation));
        Ok(())
    }

    /// How the client's own response, a stream, is read again. `None` where the operation has no text.
    pub fn client_reader(&self, request: &Request) -> Option<Translation> {
        let provider = self.target.provider.id();
        let model = self.model.as_deref().unwrap_or_default();
        let strict = self.target.policies.is_strict();
        Translation::own_dialect(self.operation, provider, model, strict, request.body.as_ref())
    }

    /// What masks its credentials in what the provider sends back.
    pub fn credential_mask(&self) -> CredentialMask {
        CredentialMask::new(&self.target.account, &self.auth, self.fetched.as_deref())
    }

    /// How a response that is a stream where a document was requested, or the other way round, is converted; `None` where
    /// that is no chat, or the response is read anyway. `is_stream`: what it is.
    pub fn conversion(&self, is_stream: bool) -> Option<Translation> {
        if self.translation.as_ref().is_some_and(|translation| !translation.is_patch()) {
            return None;
        }
        let provider = self.target.provider.id();
        let model = self.model.as_deref().unwrap_or_default();
        // A response that would pass unchanged is one to a body in the client's dialect.
        let body = Body::parse(self.body.clone()?).ok()?;
        let strict = self.target.policies.is_strict();
        let translation = Translation::own_dialect(self.operation, provider, model, strict, Some(&body));
        let translation = translation.filter(|translation| translation.streams() != is_stream);
        translation.map(|translation| self.own_dialect(translation))
    }

    /// A translation that was made from the body that is sent, for what the client requested.
    fn own_dialect(&self, translation: Translation) -> Translation {
        let mut translation = translation.with_names_of(self.translation.as_ref());
        if self.hides_usage {
            translation.hide_usage();
        }
        translation
    }

    /// Whether a token must be fetched for it, or it must be signed, before it is sent.
    pub fn needs_credentials(&self) -> bool {
        self.token_exchange.is_some() || self.target.provider.signs(&self.target.account)
    }
}

/// The host of a call that the provider has elsewhere. An account with a host of its own has all calls there.
fn other_origin(target: &Target, call: &Call<'_>) -> Result<Option<Arc<Origin>>, Error> {
    if target.account.custom_host.is_some() {
        return Ok(None);
    }
    let Some(url) = target.provider.other_base_url(call, &target.account)? else { return Ok(None) };
    let origin = Origin::parse(&url, true).map_err(|why| Error::internal(format!("{url} {why}")))?;
    Ok(Some(Arc::new(origin)))
}

/// Prepares the upstream request. In passthrough mode nothing is translated.
fn prepare(
    target: &Target,
    call: &Call<'_>,
    request: &Request,
    body: Option<&Body>,
    notes: &mut TranslationNotes,
) -> Result<PreparedRequest, Error> {
    if request.mode == RequestMode::Passthrough {
        compaction::check(target.provider, call, &target.account)?;
        let path = target.provider.path(call, &target.account)?;
        return Ok(PreparedRequest {
            path,
            body: None,
            translation: None,
            operation: call.operation,
            local_count: None,
            hides_usage: false,
        });
    }
    let options = PrepareOptions {
        strict: target.policies.is_strict(),
        stream_usage: request.stream_usage,
        client_betas: request.betas.as_deref(),
        learned: request.learned_of(target, call.model),
        prompt_cache: target.policies.auto_marks().map(|rule| rule.of_turn(request.pauses)),
    };
    translation::prepare(target.provider, call, &target.account, body, options, notes)
}

/// The body with the model that the path names, which counts before the body's own.
fn with_model(body: Body, model: &str) -> Body {
    if body.text("model").is_some_and(|named| named == model) {
        return body;
    }
    let bytes = body.edit(&[Edit::Set("model", serde_json::Value::from(model).to_string().into())]);
    Body::parse(bytes).unwrap_or(body)
}

/// What is said where a default config has put another model in the place of the requested one.
fn replaced_model(target: &Target, request: &Request) -> Option<String> {
    let requested = request.requested_model().filter(|_| request.uses_default_config)?;
    let model = target.model().filter(|model| *model != requested)?;
    Some(format!("the default config has replaced the model {requested:?} by {model:?}"))
}
