//! One MCP server, and the gateway's own requests to it: finding its era, opening a session, listing.
//!
//! Bounded in time, bytes and pages. The address is checked as a custom host is, before each connection; redirects are not followed.

use super::sign_in::SignIn;
use crate::engine::Engine;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use knowledge::provider::token_exchange::TokenExchange;
use memory::auth::ClientIdentity;
use memory::net::outbound::side_http::SideRequest;
use memory::state::mcp_sessions::{
    ChangedTools, ListPurpose, McpFetch, McpItem, McpItems, McpList, McpSession, McpUpstream,
};
use memory::state::snapshot::SettingsSnapshot;
use memory::state::stored::mcp_access::{AccessKind, GrantedRules, GrantedSets, Narrowing};
use memory::state::stored::mcp_servers::{Approval, StoredMcpServer};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use words::api::mcp::definition::canonical;
use words::api::mcp::envelope::{own_info, own_params, request};
use words::api::mcp::era::{
    METHOD_HEADER, McpEra, NAME_HEADER, SESSION_HEADER, STATELESS, VERSION_HEADER, WITH_SESSIONS, encoded,
};
use words::api::mcp::features::ClientFeatures;
use words::api::mcp::reply::{McpReply, member};
use words::error::Error;
use words::json::Json;

/// How long a server may take for one request of the gateway's own.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The largest response to one, and the most of a list, bytes: tools with their schemas. What comes after it is left out.
const MAX_RESPONSE: usize = 4 << 20;
const MAX_PAGES: usize = 20;
/// The most items of a list; what comes after them is left out.
const MAX_ITEMS: usize = 2000;
/// The most names of tools in one line of the log.
const MAX_NOTED: usize = 10;
/// An older version that a server may answer with: its requests are the same.
const OLDEST: &str = "2024-11-05";

/// Why a request of the gateway's own has no result.
#[derive(Debug)]
pub(super) enum ExchangeError {
    /// The HTTP status that the server refused with.
    Status(u16),
    /// The error of JSON-RPC.
    Reported(String),
    /// There is no response.
    Failed(String),
    /// There is one that cannot be used.
    Unusable(String),
}

impl ExchangeError {
    fn message(self) -> String {
        match self {
            Self::Status(status) => format!("the server refuses with HTTP {status}"),
            // Not its words: a server may repeat a header that it was sent.
            Self::Reported(error) => {
                let code = member(&error, "code").map(|code| code.get().to_owned()).unwrap_or_default();
                format!("the server reports the error {code}")
            }
            Self::Failed(why) | Self::Unusable(why) => why,
        }
    }
}

/// A server, and what is kept of it.
#[derive(Debug, Clone)]
pub struct McpPeer {
    pub server: Arc<StoredMcpServer>,
    pub(super) upstream: Arc<McpUpstream>,
    /// What of it the client may use.
    granted: GrantedSets,
    /// What of that is in the bundle that the client uses.
    within: Option<Arc<Narrowing>>,
    sign_in: SignIn,
}

impl McpPeer {
    /// `client`: for whom it is called.
    pub fn new(
        engine: &Engine,
        server: Arc<StoredMcpServer>,
        granted: GrantedSets,
        client: Option<&ClientIdentity>,
        snapshot: &SettingsSnapshot,
    ) -> Self {
        let sign_in = SignIn::of(&server, client, snapshot);
        let sessions = &engine.shared.mcp_sessions;
        let upstream = match &sign_in {
            SignIn::Person(person, _) => sessions.of_person(server.id, server.revision, person),
            _ => sessions.of(server.id, server.revision),
        };
        Self { server, upstream, granted, within: None, sign_in }
    }

    /// Why nothing of it can be used for the client, whatever `access` allows.
    pub fn refusal(&self) -> Option<Error> {
        self.sign_in.refusal(&self.server.slug)
    }

    /// What is said of it where several servers are listed, and it is not.
    pub(super) fn closed_warning(&self) -> String {
        let why = match self.sign_in {
            SignIn::NoToken => " without a token of the identity provider",
            _ => "",
        };
        format!("{}: not listed{why}", self.server.slug)
    }

    /// Why there is no token for the client, where it is one of the client's own that is missing.
    pub async fn unauthorized(&self, engine: &Engine, snapshot: &Arc<SettingsSnapshot>) -> Option<Error> {
        match &self.sign_in {
            SignIn::Headers | SignIn::Own(_) => None,
            // A failure is remembered for a moment, so that nothing is sent again.
            _ => self.token(engine, snapshot).await.err(),
        }
    }

    /// The error of a client whose server could not be listed, or opened. Where there is no token for the client, it says so; else why is for
    /// the log.
    pub(super) async fn unusable(
        &self,
        engine: &Engine,
        snapshot: &Arc<SettingsSnapshot>,
        why: String,
    ) -> Error {
        let unauthorized = self.unauthorized(engine, snapshot).await;
        unauthorized.unwrap_or_else(|| {
            Error::unreachable(format!("The MCP server {} cannot be used.", self.server.slug), why)
        })
    }

    /// The header with the token for its client, where one is sent.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn token(
        &self,
        engine: &Engine,
        snapshot: &Arc<SettingsSnapshot>,
    ) -> Result<Option<HeaderValue>, Error> {
        self.sign_in.header(engine, snapshot, &self.server.slug).await
    }

    /// What must be fetched before a call can be sent.
    pub(super) fn token_exchange(&self) -> Option<Arc<dyn TokenExchange>> {
        self.sign_in.exchange().cloned()
    }

    /// The same, of which only what is in a bundle may be used.
    #[must_use]
    pub(super) fn within(self, within: &Arc<Narrowing>) -> Self {
        Self { within: Some(Arc::clone(within)), ..self }
    }

    /// What of a kind the client may use.
    pub fn rules(&self, kind: AccessKind) -> GrantedRules<'_> {
        self.server.access.rules(self.granted, kind, self.within.as_deref())
    }

    /// Its session for such clients, which is opened where there is none; once for all who wait.
    ///
    /// # Errors
    /// Why there is none, without the values of headers.
    pub async fn session(
        &self,
        engine: &Engine,
        snapshot: &Arc<SettingsSnapshot>,
        features: ClientFeatures,
    ) -> Result<Arc<McpSession>, String> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal.message);
        }
        self.check_person(engine, snapshot).await?;
        let cell = self.upstream.session(features, Instant::now());
        let opening = cell.get_or_init(|| async {
            let began = Instant::now();
            let opened = self.open(engine, snapshot, features).await;
            McpFetch::new(began, Instant::now(), opened.map(Arc::new).map_err(ExchangeError::message))
        });
        opening.await.found.clone()
    }

    /// Its items of a list that is not older than `max_age`. `purpose`: whether others wait for this server with it.
    ///
    /// # Errors
    /// Why it has none.
    pub async fn items(
        &self,
        engine: &Engine,
        snapshot: &Arc<SettingsSnapshot>,
        list: McpList,
        max_age: Duration,
        purpose: ListPurpose,
    ) -> Result<McpItems, String> {
        self.check_person(engine, snapshot).await?;
        let cell = self.upstream.list(list, max_age, purpose, Instant::now());
        let is_kept = AtomicBool::new(true);
        let fetching = cell.get_or_init(|| async {
            let began = Instant::now();
            // A token endpoint has a time of its own, and how that ends is remembered: what is cut off would be tried again.
            let unauthorized = match &self.server.api {
                // Nothing is called for its list.
                Some(_) => None,
                None => self.unauthorized(engine, snapshot).await,
            };
            let fetched = match unauthorized {
                Some(error) => Err(self.note_unlisted(error.to_string())),
                None => {
                    let fetched = tokio::time::timeout(TIMEOUT, self.fetch(engine, snapshot, list)).await;
                    fetched.unwrap_or_else(|_| Err("it takes too long".to_owned()))
                }
            };
            if let (Ok(items), SignIn::Person(..)) = (&fetched, &self.sign_in) {
                is_kept.store(engine.shared.mcp_sessions.has_room_for(items), Ordering::Relaxed);
            }
            McpFetch::new(began, Instant::now(), fetched)
        });
        let found = fetching.await.found.clone();
        if !is_kept.load(Ordering::Relaxed) {
            self.upstream.forget_list(&cell);
        }
        found
    }

    /// Whether the token of this client can be exchanged. Apart from what is kept of the person: another token of theirs may be good, and this
    /// one must not have what was listed for that.
    ///
    /// # Errors
    /// Why there is none.
    async fn check_person(&self, engine: &Engine, snapshot: &Arc<SettingsSnapshot>) -> Result<(), String> {
        let needs_token = matches!(self.sign_in, SignIn::Person(..)) && self.server.api.is_none();
        if !needs_token {
            return Ok(());
        }
        let unauthorized = self.unauthorized(engine, snapshot).await;
        unauthorized.map_or(Ok(()), |error| Err(self.note_unlisted(error.to_string())))
    }

    async fn fetch(
        &self,
        engine: &Engine,
        snapshot: &Arc<SettingsSnapshot>,
        list: McpList,
    ) -> Result<McpItems, String> {
        if let Some(api) = &self.server.api {
            let items = if list == McpList::Tools { Arc::clone(&api.items) } else { Arc::default() };
            self.note_changed(engine, &items);
            return Ok(items);
        }
        let session = self.session(engine, snapshot, ClientFeatures::default()).await?;
        let found = match self.pages(engine, snapshot, &session, list).await {
            // The session is lost.
            Err(ExchangeError::Status(400 | 404)) => {
                self.upstream.forget(&session);
                let session = self.session(engine, snapshot, ClientFeatures::default()).await?;
                self.pages(engine, snapshot, &session, list).await
            }
            found => found,
        };
        if let Ok(items) = &found
            && list == McpList::Tools
        {
            self.note_changed(engine, items);
        }
        found.map_err(|error| self.note_unlisted(error.message()))
    }

    fn note_unlisted(&self, why: String) -> String {
        log::info!(target: "turnpike", "the MCP server {} cannot be listed: {why}", self.server.slug);
        why
    }

    /// Says which tools are not as they were approved.
    fn note_changed(&self, engine: &Engine, items: &[McpItem]) {
        if !self.server.needs_approval() {
            return;
        }
        let name = |item: &McpItem| member(&item.text, "name")?.text().map(Cow::into_owned);
        let is_changed =
            |item: &McpItem, name: &str| self.server.approval(name, || item.hash()) == Approval::Changed;
        let listed = items.iter().filter_map(|item| {
            let name = name(item)?;
            let is_changed = is_changed(item, &name);
            Some((name, is_changed))
        });
        let (total, changed): (usize, Vec<String>) = match &self.sign_in {
            // What this person's list lacks, another one's may have.
            SignIn::Person(..) => {
                let of_all = engine.shared.mcp_sessions.of(self.server.id, self.server.revision);
                let ChangedTools { count, new } = of_all.note_changed(listed);
                (count, new)
            }
            _ => {
                let changed: Vec<String> = listed.filter(|(_, is)| *is).map(|(name, _)| name).collect();
                (changed.len(), changed)
            }
        };
        let slug = &self.server.slug;
        engine.shared.metrics.set_changed_tools(slug, total);
        if !changed.is_empty() {
            let names: Vec<String> = changed.iter().take(MAX_NOTED).map(|name| format!("{name:?}")).collect();
            let names = names.join(", ");
            let count = changed.len();
            log::warn!(target: "turnpike", "{count} tools of the MCP server {slug} are not as they were approved, and clients do not get them: {names}");
        }
    }

    async fn pages(
        &self,
        engine: &Engine,
        snapshot: &Arc<SettingsSnapshot>,
        session: &McpSession,
        list: McpList,
    ) -> Result<McpItems, ExchangeError> {
        let ListNames { capability, method, items } = names_of(list);
        if member(&session.capabilities, capability).is_none() {
            return Ok(Arc::default());
        }
        let mut all: Vec<McpItem> = Vec::new();
        let mut cursor: Option<String> = None;
        let mut bytes = 0;
        for _ in 0..MAX_PAGES {
            let own = cursor.as_deref().map(|cursor| ("cursor", cursor));
            let params = own_params(session.era, own.as_slice());
            let result = self.exchange(engine, snapshot, session, method, &params).await?.0;
            let left = MAX_ITEMS.saturating_sub(all.len());
            let page = member(&result, items).and_then(|page| {
                let items = page.read::<Vec<Json<'_>>>()?;
                let fits = |item: &&Json<'_>| {
                    bytes += item.get().len();
                    bytes <= MAX_RESPONSE
                };
                let fitting = items.iter().take(left).take_while(fits);
                Some(fitting.filter_map(|item| self.item(list, item)).collect::<Vec<McpItem>>())
            });
            all.extend(
                page.ok_or_else(|| ExchangeError::Failed(format!("{method} has no list of {items}")))?,
            );
            cursor = member(&result, "nextCursor")
                .filter(|cursor| cursor.text().is_some())
                .map(|cursor| cursor.get().to_owned());
            if cursor.is_none() || all.len() >= MAX_ITEMS || bytes > MAX_RESPONSE {
                break;
            }
        }
        Ok(all.into())
    }

    /// An item of a list as it is kept. `None`: it has no spelling that can be approved.
    fn item(&self, list: McpList, item: &Json<'_>) -> Option<McpItem> {
        if list == McpList::Tools && self.server.needs_approval() {
            return canonical(item.get()).map(McpItem::new);
        }
        Some(McpItem::new(item.get()))
    }

    /// Finds its era, and opens a session where that has some.
    async fn open(
        &self,
        engine: &Engine,
        snapshot: &Arc<SettingsSnapshot>,
        features: ClientFeatures,
    ) -> Result<McpSession, ExchangeError> {
        if self.server.api.is_some() {
            return Ok(api_session());
        }
        let stateless = McpSession {
            era: McpEra::Stateless,
            version: STATELESS.to_owned(),
            id: None,
            capabilities: "{}".to_owned(),
            features,
        };
        let params = own_params(McpEra::Stateless, &[]);
        match self.exchange(engine, snapshot, &stateless, "server/discover", &params).await {
            Ok((found, _)) if speaks_stateless(&found) => {
                let capabilities = member(&found, "capabilities").map(|json| json.get().to_owned());
                Ok(McpSession { capabilities: capabilities.unwrap_or(stateless.capabilities), ..stateless })
            }
            // A server of the time before refuses it, each in its own way.
            Ok(_)
            | Err(ExchangeError::Status(_) | ExchangeError::Reported(_) | ExchangeError::Unusable(_)) => {
                self.initialize(engine, snapshot, features).await
            }
            Err(error) => Err(error),
        }
    }

    async fn initialize(
        &self,
        engine: &Engine,
        snapshot: &Arc<SettingsSnapshot>,
        features: ClientFeatures,
    ) -> Result<McpSession, ExchangeError> {
        let wanted = WITH_SESSIONS.first().copied().unwrap_or(OLDEST);
        let mut session = McpSession {
            era: McpEra::Sessions,
            version: String::new(),
            id: None,
            capabilities: "{}".to_owned(),
            features,
        };
        let own = features.capabilities();
        let version = format!("\"{wanted}\"");
        let members = [("protocolVersion", &*version), ("capabilities", &*own), ("clientInfo", own_info())];
        let params = own_params(session.era, &members);
        let (result, headers) = self.exchange(engine, snapshot, &session, "initialize", &params).await?;
        let version = member(&result, "protocolVersion").and_then(|version| version.text().map(String::from));
        let version = version.unwrap_or_default();
        if !WITH_SESSIONS.contains(&version.as_str()) && version != OLDEST {
            return Err(ExchangeError::Failed(
                "the server speaks no version of MCP that the gateway speaks".to_owned(),
            ));
        }
        session.version = version;
        session.id = headers.get(SESSION_HEADER).cloned();
        if let Some(capabilities) = member(&result, "capabilities").filter(Json::is_object) {
            session.capabilities = capabilities.get().to_owned();
        }
        let done = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_vec();
        self.post(engine, snapshot, &session, "notifications/initialized", done).await?;
        Ok(session)
    }

    /// Sends a request of the gateway's own. The JSON of its result, and the headers of the response.
    async fn exchange(
        &self,
        engine: &Engine,
        snapshot: &Arc<SettingsSnapshot>,
        session: &McpSession,
        method: &str,
        params: &str,
    ) -> Result<(String, HeaderMap), ExchangeError> {
        let id = engine.shared.mcp_sessions.next_id().to_string();
        let body = request(&id, method, params);
        let (headers, body) = self.post(engine, snapshot, session, method, body).await?;
        match McpReply::find(&body, &id) {
            Ok(McpReply::Result(result)) => Ok((result, headers)),
            Ok(McpReply::Error(error)) => Err(ExchangeError::Reported(error)),
            Err(why) => {
                Err(ExchangeError::Unusable(format!("the response to {method} cannot be used: {why}")))
            }
        }
    }

    /// Says to a server of the era with sessions that nobody waits for this request any more: closing its connection does not.
    pub(super) fn cancel(
        &self,
        engine: &Arc<Engine>,
        snapshot: &Arc<SettingsSnapshot>,
        session: &McpSession,
        id: &str,
    ) {
        if session.era != McpEra::Sessions || self.server.api.is_some() {
            return;
        }
        const METHOD: &str = "notifications/cancelled";
        let body = format!(r#"{{"jsonrpc":"2.0","method":"{METHOD}","params":{{"requestId":{id}}}}}"#);
        let peer = self.clone();
        let session = session.clone();
        let engine = Arc::clone(engine);
        let snapshot = Arc::clone(snapshot);
        tokio::spawn(async move {
            // Whether the server takes it changes nothing.
            let _ = peer.post(&engine, &snapshot, &session, METHOD, body.into_bytes()).await;
        });
    }

    pub(super) async fn post(
        &self,
        engine: &Engine,
        snapshot: &Arc<SettingsSnapshot>,
        session: &McpSession,
        method: &str,
        body: Vec<u8>,
    ) -> Result<(HeaderMap, Vec<u8>), ExchangeError> {
        let mut headers = session_headers(session, method, None);
        headers.extend(self.server.headers.clone());
        let token = self.token(engine, snapshot).await;
        if let Some(token) = token.map_err(|why| ExchangeError::Failed(why.to_string()))? {
            headers.insert(header::AUTHORIZATION, token);
        }
        let request = SideRequest {
            method: Method::POST,
            url: &self.server.url,
            headers,
            body,
            timeout: TIMEOUT,
            max_body: MAX_RESPONSE,
            trusted: false,
        };
        let sent = engine.outside.send(request, &engine.shared.dns, &snapshot.hosts).await;
        let response = sent.map_err(|why| ExchangeError::Failed(why.to_string()))?;
        match response.status {
            200..=299 => Ok((response.headers, response.body)),
            status => {
                if let Some(exchange) = self.sign_in.exchange().filter(|_| status == 401) {
                    engine.shared.credentials.invalidate(&**exchange, false, SystemTime::now());
                }
                Err(ExchangeError::Status(status))
            }
        }
    }
}

/// What a list is called.
struct ListNames {
    capability: &'static str,
    method: &'static str,
    items: &'static str,
}

const fn names_of(list: McpList) -> ListNames {
    match list {
        McpList::Tools => ListNames { capability: "tools", method: "tools/list", items: "tools" },
        McpList::Prompts => ListNames { capability: "prompts", method: "prompts/list", items: "prompts" },
        McpList::Resources => {
            ListNames { capability: "resources", method: "resources/list", items: "resources" }
        }
        McpList::Templates => ListNames {
            capability: "resources",
            method: "resources/templates/list",
            items: "resourceTemplates",
        },
    }
}

/// What stands for a session with an API, which has none.
fn api_session() -> McpSession {
    let capabilities = r#"{"tools":{}}"#.to_owned();
    let features = ClientFeatures::default();
    McpSession { era: McpEra::Sessions, version: String::new(), id: None, capabilities, features }
}

/// The headers of a request to an API, beside those that its operation and its server's record have.
pub(super) fn api_headers() -> HeaderMap {
    const AGENT: &str = concat!("turnpike/", env!("CARGO_PKG_VERSION"));
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/*;q=0.9, */*;q=0.5"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
    headers
}

/// The headers of a request within a session. `name`: what `Mcp-Name` repeats.
pub(super) fn session_headers(session: &McpSession, method: &str, name: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    let mut insert = |header: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(header), value);
        }
    };
    // Not before both sides have agreed on one.
    if !session.version.is_empty() {
        insert(VERSION_HEADER, &session.version);
    }
    if session.era == McpEra::Stateless {
        insert(METHOD_HEADER, method);
        if let Some(name) = name {
            insert(NAME_HEADER, &encoded(name));
        }
    }
    if let Some(id) = &session.id {
        headers.insert(HeaderName::from_static(SESSION_HEADER), id.clone());
    }
    headers
}

/// Whether what a server discovers has the version without sessions.
fn speaks_stateless(discovered: &str) -> bool {
    let versions = member(discovered, "supportedVersions").and_then(|list| list.read::<Vec<String>>());
    versions.is_some_and(|versions| versions.iter().any(|version| version == STATELESS))
}
