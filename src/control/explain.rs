//! `POST /v1/explain` and the question of `turnpike explain`: a request in JSON, and what would become of it.
//!
//! Reads the question as the data port would read the request; what it comes to is `route::explain`'s to say, what its limits would
//! decide `engine::limit_preview`'s, and what the cache would do `engine::caching`'s. Nobody is called, and nothing is remembered.

mod summary;

use super::call::Call;
use super::field::{Field, Type, not_null, optional};
use super::read_only_env::ReadOnlyEnv;
use super::reply::Reply;
use super::route::{self, Access, Route};
use super::routes::control_paths;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use jiff::Timestamp;
use judgment::route::admission::key_rules::KeyRules;
use judgment::route::admission::{
    Plane, RequestHead, batch_provider, creates_own, depends_on_provider, mcp_entries,
};
use judgment::route::attempt::Request;
use judgment::route::compile::{Sources, compile};
use judgment::route::explain::{Explanation, Rejection, explain};
use judgment::route::model_names::{ModelNamer, NearNames};
use judgment::route::prompt_prefix::PromptPrefix;
use judgment::route::request_mode::RequestMode;
use judgment::route::request_snapshot::RequestSnapshot;
use knowledge::price::RequestPrices;
use memory::auth::{self, ClientIdentity};
use memory::limits::CountersFailure;
use memory::state::drained_providers::DrainedProviders;
use memory::state::engine_loads::EngineLoads;
use memory::state::learned_forms::LearnedForms;
use memory::state::model_lists::ModelLists;
use memory::state::prefix_tables::PrefixTables;
use memory::state::slots::SlotRegistry;
use memory::state::snapshot::SettingsSnapshot;
use memory::state::sticky_sessions::StickySessions;
use memory::state::stored::mcp_servers::server_at;
use memory::state::targets::TargetRegistry;
use motion::engine::caching::{CacheHeaders, CacheView, preview};
use motion::engine::limit_preview::{self, LimitView, PreviewedRequest};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use words::api::body::Body;
use words::api::operation::Operation;
use words::api::tool_rounds::without_entries;
use words::config::headers::GatewayHeaders;
use words::error::Error;
use words::settings::scopes::Scope;

/// Who responds to requests for files and batches that are no provider's.
const OWN_FILES: &str = "the gateway, which keeps files and runs batches itself; explain a line of it";

/// What is asked: a request to the data port.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplainRequest {
    #[serde(default = "post")]
    method: String,
    #[serde(default = "chat")]
    path: String,
    #[serde(default)]
    headers: BTreeMap<String, Value>,
    body: Option<Box<RawValue>>,
}

fn post() -> String {
    "POST".to_owned()
}

fn chat() -> String {
    "/v1/chat/completions".to_owned()
}

/// What is answered.
#[derive(Debug, Serialize)]
pub struct ExplainResponse {
    /// The name of the service key shown.
    caller: Option<Arc<str>>,
    /// What was assumed to go on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    #[serde(flatten)]
    explained: Explanation,
    /// What its limits would decide now. Absent: they were not judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<Vec<LimitView>>,
    /// What the cache would do at the first target. Absent: its config caches nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: Option<CacheView>,
}

/// An explained request that would be sent.
struct Explained {
    client: Arc<ClientIdentity>,
    request: Request,
    /// The merged metadata.
    metadata: Option<Box<RawValue>>,
    headers: HeaderMap,
    cache_headers: Option<Box<CacheHeaders>>,
}

impl ExplainResponse {
    /// Whether the request would be refused.
    pub fn has_problems(&self) -> bool {
        !self.explained.problems.is_empty()
    }

    /// Five lines for people, and one for each problem, note and warning.
    pub fn summary(&self) -> String {
        summary::text(self)
    }
}

const REQUEST: &[Field] = &[
    not_null("method", Type::Text(16), "`POST` where absent."),
    not_null("path", Type::Text(8192), "`/v1/chat/completions` where absent; with a leading slash."),
    not_null(
        "headers",
        Type::Map(&Type::Any, 1000),
        "By name: a text, a list of texts, or an object (a config, metadata).",
    ),
    optional("body", Type::Any, "The body, as JSON."),
];

pub(super) const ROUTES: &[Route] = &[route::post(
    "/v1/explain",
    Access::Scope(&[Scope::ExplainRead]),
    "What would become of a request",
    |call| Box::pin(respond(call)),
)
.raw_body()
.of_members(REQUEST)
.computes()
.on_control_port_only()];

/// `POST /v1/explain`.
async fn respond(call: Call) -> Result<Reply, Error> {
    let context = ExplainContext {
        snapshot: &call.snapshot,
        targets: &call.shared.targets,
        learned: &call.shared.learned_forms,
        sticky: &call.shared.sticky_sessions,
        prefix_tables: &call.shared.prefix_tables,
        slots: &call.shared.slots,
        engine_loads: &call.shared.engine_loads,
        drained_providers: &call.shared.drained_providers,
        model_lists: &call.shared.model_lists,
        now: Instant::now(),
    };
    let (mut response, explained) = context.read(&call.bytes)?;
    if let Some(explained) = explained {
        judge(&call, &mut response, &explained).await;
    }
    serde_json::to_value(&response)
        .map(Reply::from)
        .map_err(|why| Error::internal(format!("an explanation: {why}")))
}

/// Adds what the cache would do, what the limits of the request would decide, and the refusal, where nothing else is wrong with it.
async fn judge(call: &Call, response: &mut ExplainResponse, explained: &Explained) {
    let Some((config, target)) = response.explained.chosen.take() else { return };
    let previewed = PreviewedRequest {
        snapshot: &call.snapshot,
        client: &explained.client,
        request: &explained.request,
        config: &config,
        target: &target,
        metadata: explained.metadata.as_deref(),
    };
    let wishes = explained.cache_headers.as_deref();
    response.cache = preview(&call.engine.caching, &previewed, &explained.headers, wishes);
    let prices = RequestPrices::new(call.shared.prices.load_full());
    match limit_preview::preview(&call.limits, &prices, &previewed, &call.identity).await {
        Ok(found) => {
            if let Some(refusal) = found.refusal.filter(|_| !response.has_problems()) {
                response.explained.problems = Rejection::from_error(&refusal);
            }
            response.limits = Some(found.decisions);
        }
        Err(CountersFailure(why)) => {
            log::warn!(target: "turnpike", "an explanation could not judge limits: {why}");
            response.notes.push("the counters of limits cannot be reached: no limit was judged".to_owned());
        }
    }
}

/// What an explanation may look at.
#[derive(Debug)]
pub struct ExplainContext<'a> {
    pub snapshot: &'a Arc<SettingsSnapshot>,
    pub targets: &'a TargetRegistry,
    pub sticky: &'a StickySessions,
    pub prefix_tables: &'a PrefixTables,
    pub slots: &'a SlotRegistry,
    pub engine_loads: &'a EngineLoads,
    pub drained_providers: &'a DrainedProviders,
    pub learned: &'a Arc<LearnedForms>,
    /// The models that providers have listed.
    pub model_lists: &'a ModelLists,
    pub now: Instant,
}

/// The question, read.
struct ParsedRequest {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Option<Bytes>,
    /// No content type was given with the body.
    assumes_json: bool,
}

impl ExplainContext<'_> {
    /// Explains the request that `text` describes, without its limits.
    ///
    /// # Errors
    /// 400 if `text` does not describe a request. Why the described request would be refused is in the response.
    pub fn explain(&self, text: &[u8]) -> Result<ExplainResponse, Error> {
        self.read(text).map(|(response, _)| response)
    }

    /// As [`Self::explain`], with the request, if its config was read.
    fn read(&self, text: &[u8]) -> Result<(ExplainResponse, Option<Explained>), Error> {
        let parsed = ParsedRequest::read(text)?;
        let ParsedRequest { method, uri, headers, .. } = &parsed;
        let control_paths = control_paths();
        let head = RequestHead::new(method, uri, headers, self.snapshot, &control_paths);
        let mut notes = Vec::new();
        let client = head.client(Timestamp::now()).unwrap_or_else(|error| {
            notes.push(format!("the data port would answer {}: {}", error.status(), error.message));
            self.snapshot.service_keys.anonymous()
        });
        if parsed.assumes_json && head.endpoint.mode == RequestMode::Passthrough {
            notes.push("content-type: application/json was assumed, since no other is given".to_owned());
        }
        let (explained, request) = match self.explained(&head, &parsed, &client, false, &mut notes) {
            Ok((explained, request)) => (explained, Some(request)),
            Err(error) => {
                let problems = Rejection::from_error(&error);
                (Explanation { problems, ..Explanation::empty(head.endpoint.operation) }, None)
            }
        };
        Ok((
            ExplainResponse { caller: client.name.clone(), notes, explained, limits: None, cache: None },
            request,
        ))
    }

    /// Puts in place what the client's key and the model of the request name.
    fn take_names<'h>(
        &self,
        rules: &KeyRules<'h>,
        client: &ClientIdentity,
        headers: &mut GatewayHeaders<'h>,
        request: &mut Request,
    ) -> Result<(), Error> {
        let directory = self.snapshot.directory(client.workspace);
        let has_key_default = rules.apply(headers, |name| directory.config(name).is_some())?;
        request.take_names(&ModelNamer { snapshot: self.snapshot, client, headers, has_key_default })
    }

    /// The body of the first round, where the gateway calls tools for the request: without them, since nobody is called for their list.
    /// `has_all`: also of servers that the request names for its provider.
    ///
    /// # Errors
    /// 400: a server is not there. 403: the client may call no tools.
    fn first_round(
        &self,
        head: &RequestHead<'_>,
        body: Option<Body>,
        client: &ClientIdentity,
        has_all: bool,
        notes: &mut Vec<String>,
    ) -> Result<Option<Body>, Error> {
        let entries = mcp_entries(&head.endpoint, body.as_ref(), client, has_all)?.own;
        let Some(body) = body else { return Ok(None) };
        if entries.is_empty() {
            return Ok(Some(body));
        }
        let stored = &self.snapshot.stored;
        let servers = stored.mcp_servers(client.workspace);
        for entry in &entries {
            let is_there = match &entry.url {
                Some(url) => server_at(&servers, url).is_some(),
                None => {
                    servers.iter().any(|server| server.slug == entry.label)
                        || stored.mcp_bundle(client.workspace, &entry.label).is_some()
                }
            };
            if !is_there {
                let member = if entry.url.is_some() { "server_url" } else { "server_label" };
                let at = format!("tools[{}].{member}", entry.place);
                let message = format!("There is no MCP server {:?} here.", entry.label);
                return Err(Error::invalid_request(at, message));
            }
        }
        let labels: Vec<&str> = entries.iter().map(|entry| &*entry.label).collect();
        notes.push(format!(
            "the gateway calls the tools of {} for the model, in rounds: explained is the first one, without these tools",
            labels.join(", ")
        ));
        let places: Vec<usize> = entries.iter().map(|entry| entry.place).collect();
        let is_nested = head.endpoint.operation == Operation::ChatCompletions;
        let bytes = without_entries(&body, &places, is_nested)?;
        Body::parse(bytes).map(Some).map_err(|why| Error::internal(why.to_string()))
    }

    /// `Err`: the request would be refused before its config is read.
    fn explained(
        &self,
        head: &RequestHead<'_>,
        parsed: &ParsedRequest,
        client: &Arc<ClientIdentity>,
        has_all: bool,
        notes: &mut Vec<String>,
    ) -> Result<(Explanation, Explained), Error> {
        head.check_origin()?;
        let body = read_body(head, parsed, client)?;
        let notes_before = notes.len();
        let body = self.first_round(head, body, client, has_all, notes)?;
        let keys = &self.snapshot.service_keys;
        let uri = auth::clean_uri(&parsed.headers, &parsed.uri, keys);
        let mut request = Request::new(head.endpoint, parsed.method.clone(), uri, body);
        request.stream_usage = self.snapshot.settings.usage.stream_usage;
        request.read_headers(&parsed.headers);
        let mut request = request.rendered(self.snapshot.stored.prompts(client.workspace))?;
        request.learned = Some(self.learned.of(client.workspace));
        let settings = &self.snapshot.settings;
        let mut gateway_headers = GatewayHeaders::read(&parsed.headers, &settings.header_prefixes)?;
        let rules = KeyRules::new(client, self.snapshot);
        self.take_names(&rules, client, &mut gateway_headers, &mut request)?;
        let provider_key = auth::provider_key(&parsed.headers, &parsed.uri, keys)?;
        let key = provider_key.as_deref();
        let sources = Sources::new(self.snapshot, &gateway_headers, key, &request, client.workspace)
            .with_near(NearNames { snapshot: self.snapshot, client, lists: self.model_lists });
        let metadata = rules.metadata(&gateway_headers).map(Cow::into_owned);
        let request_snapshot = RequestSnapshot {
            headers: parsed.headers.clone(),
            metadata: metadata.clone(),
            pathname: parsed.uri.path().to_owned(),
            body: request.body_for_facts(),
            snapshot: Arc::clone(self.snapshot),
        };
        let env = ReadOnlyEnv {
            targets: self.targets,
            sticky: self.sticky,
            prefix_tables: self.prefix_tables,
            slots: self.slots,
            engine_loads: self.engine_loads,
            drained_providers: self.drained_providers,
            request: request_snapshot,
            prefix: PromptPrefix::of(&request),
            client: Arc::clone(client),
            // A provider that warms up counts as one that takes the request.
            turn: 0.0,
            now: self.now,
        };
        refuse_own(head, &sources)?;
        let others = mcp_entries(&head.endpoint, request.body.as_ref(), client, false);
        if others.is_ok_and(|entries| entries.has_others)
            && compile(&sources).is_ok_and(|config| config.calls_all_mcp_servers())
        {
            notes.truncate(notes_before);
            return self.explained(head, parsed, client, true, notes);
        }
        let explained = explain(&sources, &request, &env);
        let metadata = metadata.and_then(|text| RawValue::from_string(text).ok());
        let cache_headers = CacheHeaders::of(&gateway_headers);
        let headers = parsed.headers.clone();
        Ok((explained, Explained { client: Arc::clone(client), request, metadata, headers, cache_headers }))
    }
}

/// The body of a request that goes to a provider.
///
/// # Errors
/// It would be refused, or goes to none.
fn read_body(
    head: &RequestHead<'_>,
    parsed: &ParsedRequest,
    client: &ClientIdentity,
) -> Result<Option<Body>, Error> {
    let plane = head.plane(client)?;
    head.check_scope(&plane, client)?;
    let reading = match plane {
        Plane::Data { body } => body,
        plane => {
            let who = answered_by(&plane);
            return Err(Error::not_found(format!("{} is answered by {who}.", head.uri.path())));
        }
    };
    let bytes = parsed.body.clone().unwrap_or_default();
    let body = reading.map(|reading| reading.parse(bytes)).transpose()?;
    if creates_own(&head.endpoint, body.as_ref()) {
        return Err(Error::not_found(format!("{} is answered by {OWN_FILES}.", head.uri.path())));
    }
    Ok(body)
}

/// Who answers what goes to no provider, or not as one request.
const fn answered_by(plane: &Plane) -> &'static str {
    match plane {
        Plane::Models(_) => "the gateway, with its own list of models; no config is used",
        Plane::Mcp { .. } => {
            "the gateway itself, as an MCP server; the message decides which server is called"
        }
        Plane::Options => "the gateway itself; no provider is asked",
        Plane::Files => OWN_FILES,
        Plane::ResponsesSocket => "the gateway itself; each event on it is a POST to the same path",
        Plane::SessionToken { .. } => {
            "the gateway itself, with a token of a realtime session; no provider is asked"
        }
        _ => "the control plane; no provider is asked",
    }
}

/// # Errors
/// 404 where the provider of the request has its files and batches at the gateway, which responds itself.
fn refuse_own(head: &RequestHead<'_>, sources: &Sources<'_>) -> Result<(), Error> {
    if depends_on_provider(&head.endpoint, head.headers, head.uri.query())
        && let Ok(config) = compile(sources)
        && batch_provider(&config, &head.endpoint, head.uri.query())?.is_some()
    {
        return Err(Error::not_found(format!("{} is answered by {OWN_FILES}.", head.uri.path())));
    }
    Ok(())
}

impl ParsedRequest {
    fn read(text: &[u8]) -> Result<Self, Error> {
        let explain_request: ExplainRequest =
            serde_json::from_slice(text).map_err(|why| parse_error(&why))?;
        let wrong = |param: &str, what: &str| Error::invalid_request(param, format!("{param} {what}"));
        let method = Method::from_bytes(explain_request.method.as_bytes());
        let method = method.map_err(|_| wrong("method", "must be an HTTP method, such as POST."))?;
        let uri = Some(explain_request.path).filter(|path| path.starts_with('/'));
        let uri = uri.and_then(|path| Uri::try_from(path).ok()).ok_or_else(|| {
            wrong("path", "must be a path with a leading slash, such as /v1/chat/completions.")
        })?;
        let mut headers = HeaderMap::new();
        for (name, value) in explain_request.headers {
            let param = format!("headers.{name}");
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| wrong(&param, "is no name of a header."))?;
            for line in lines(value).ok_or_else(|| wrong(&param, HEADER_VALUE_RULE))? {
                let value = HeaderValue::from_bytes(line.as_bytes());
                headers.append(&name, value.map_err(|_| wrong(&param, "cannot stand in a header."))?);
            }
        }
        let body = explain_request.body.filter(|body| body.get() != "null");
        let body = body.map(|body| Bytes::from(body.get().to_owned()));
        let assumes_json = body.is_some() && !headers.contains_key(CONTENT_TYPE);
        if assumes_json {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        // As a client would frame it.
        if let Some(body) = body.as_ref().filter(|_| !headers.contains_key(TRANSFER_ENCODING)) {
            headers.insert(CONTENT_LENGTH, body.len().into());
        }
        Ok(Self { method, uri, headers, body, assumes_json })
    }
}

/// The text is no question. What serde says of a value of the wrong type quotes the value, which may be a key.
fn parse_error(why: &serde_json::Error) -> Error {
    let detail = why.to_string();
    let detail = if detail.starts_with("invalid ") {
        format!("a value of the wrong type at line {} column {}", why.line(), why.column())
    } else {
        detail
    };
    Error::bad_request(format!(
        "The body must be a JSON object with `method`, `path`, `headers` and `body`, all optional: {detail}"
    ))
}

const HEADER_VALUE_RULE: &str =
    "must be a text, a list of texts (a line each), or an object (a config, metadata).";

/// The lines of one header.
fn lines(value: Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text]),
        Value::Array(items) => {
            items.into_iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<_>>()
        }
        // What is JSON in a header may be written as JSON.
        Value::Object(_) | Value::Number(_) | Value::Bool(_) => Some(vec![value.to_string()]),
        Value::Null => None,
    }
}
