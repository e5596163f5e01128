//! One session with an MCP server over streamable HTTP, by `rmcp`: `initialize`, the lists that the server's capabilities
//! name, and the end of the session.
//!
//! Bounded in bytes and pages; the time limit is the caller's. Which addresses may be called is [`super`]'s.

use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue};
use rmcp::model::{
    ClientCapabilities, ErrorData, Implementation, InitializeRequestParams, PaginatedRequestParams,
    ServerCapabilities, ServerPeerInfo,
};
use rmcp::service::{ClientInitializeError, RunningService, ServiceError, serve_client};
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};
use rmcp::{Peer, RoleClient};
use serde_json::{Map, Value};
use std::error::Error as StdError;
use std::time::Duration;

/// The largest message of a server, bytes: a page of tools with their schemas.
const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// How much of an error page is read, bytes.
const MAX_ERROR_BYTES: usize = 4 << 10;
/// The most pages of a list.
const MAX_PAGES: usize = 20;
/// The most names of a list that are kept.
const MAX_NAMES: usize = 1000;
const MAX_NAME_CHARS: usize = 128;
const MAX_TEXT_CHARS: usize = 2000;
const MAX_ICONS: usize = 8;
/// The longest address of an icon, characters: also of one that is a picture in itself (`data:`).
const MAX_ICON_CHARS: usize = 4096;
const MAX_FAILURE_CHARS: usize = 500;
/// How long the server has for the end of the session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What an MCP server says of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct McpDescription {
    pub server_name: String,
    pub server_version: String,
    pub protocol_version: String,
    pub title: Option<String>,
    pub description: Option<String>,
    /// `{src, mime_type, sizes}`.
    pub icons: Vec<Value>,
    /// Which capabilities it has, by name.
    pub capability_flags: Map<String, Value>,
    /// Names; empty where it has no such capability or they were not requested.
    pub tools: Vec<String>,
    pub prompts: Vec<String>,
    pub resources: Vec<String>,
}

/// Why a session failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpFailure {
    /// For people; contains no header that was sent, and no URL.
    pub message: String,
    /// The HTTP status that the server refused with.
    pub status: Option<u16>,
}

impl McpFailure {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: None }
    }
}

/// Initializes a session with the server at `url` through `client`, and closes it. `lists`: whether its tools, prompts and
/// resources are listed too.
///
/// # Errors
/// [`McpFailure`].
pub async fn describe(
    client: reqwest::Client,
    url: &str,
    headers: &[(HeaderName, HeaderValue)],
    lists: bool,
) -> Result<McpDescription, McpFailure> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    config.reinit_on_expired_session = false;
    config.max_json_response_size = MAX_MESSAGE_BYTES;
    config.max_sse_event_size = MAX_MESSAGE_BYTES;
    config.max_error_response_size = MAX_ERROR_BYTES;
    config.custom_headers = headers.iter().cloned().collect();
    let transport = StreamableHttpClientTransport::with_client(client, config);
    let this = Implementation::new("turnpike", env!("CARGO_PKG_VERSION"));
    let service = InitializeRequestParams::new(ClientCapabilities::default(), this);
    let described = match serve_client(service, transport).await {
        Ok(session) => described(session, lists).await,
        Err(error) => Err(initialize_failure(&error)),
    };
    described.map_err(|failure| McpFailure { message: without_secrets(&failure.message, headers), ..failure })
}

async fn described(
    mut session: RunningService<RoleClient, InitializeRequestParams>,
    lists: bool,
) -> Result<McpDescription, McpFailure> {
    let Some(info) = session.peer_info() else {
        return Err(McpFailure::new("the server did not say what it is"));
    };
    let mut description = description(&info);
    let listed =
        if lists { list(session.peer(), &info.capabilities, &mut description).await } else { Ok(()) };
    // What the server makes of the end is of no interest.
    let _ = session.close_with_timeout(CLOSE_TIMEOUT).await;
    listed.map(|()| description)
}

fn description(info: &ServerPeerInfo) -> McpDescription {
    let mut description = McpDescription {
        protocol_version: clipped(info.protocol_version.as_str(), MAX_NAME_CHARS),
        capability_flags: flags(&info.capabilities),
        ..McpDescription::default()
    };
    let Some(server) = &info.server_info else { return description };
    let text = |text: &Option<String>| text.as_deref().map(|text| clipped(text, MAX_TEXT_CHARS));
    description.server_name = clipped(&server.name, MAX_NAME_CHARS);
    description.server_version = clipped(&server.version, MAX_NAME_CHARS);
    description.title = text(&server.title);
    description.description = text(&server.description);
    let icons = server.icons.iter().flatten().filter(|icon| is_picture(&icon.src)).take(MAX_ICONS);
    let shown = icons.map(|icon| {
        serde_json::json!({
            "src": icon.src,
            "mime_type": icon.mime_type.as_deref().map(|text| clipped(text, MAX_NAME_CHARS)),
            "sizes": icon.sizes.as_ref().map(|sizes| {
                sizes.iter().take(MAX_ICONS).map(|size| clipped(size, MAX_NAME_CHARS)).collect::<Vec<_>>()
            }),
        })
    });
    description.icons = shown.collect();
    description
}

/// Whether a page may show this address as a picture: a `javascript:` address must never get there.
fn is_picture(src: &str) -> bool {
    let is_scheme = ["https://", "http://", "data:image/"]
        .iter()
        .any(|scheme| src.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    is_scheme && src.len() <= MAX_ICON_CHARS
}

/// The capabilities as flags: those of the protocol always, extensions by their names.
fn flags(capabilities: &ServerCapabilities) -> Map<String, Value> {
    let tools = &capabilities.tools;
    let prompts = &capabilities.prompts;
    let resources = &capabilities.resources;
    let is = |flag: Option<bool>| Value::Bool(flag == Some(true));
    let mut flags = Map::new();
    for (name, value) in [
        ("tools", tools.is_some().into()),
        ("tools_list_changed", is(tools.as_ref().and_then(|tools| tools.list_changed))),
        ("prompts", prompts.is_some().into()),
        ("prompts_list_changed", is(prompts.as_ref().and_then(|prompts| prompts.list_changed))),
        ("resources", resources.is_some().into()),
        ("resources_list_changed", is(resources.as_ref().and_then(|resources| resources.list_changed))),
        ("resources_subscribe", is(resources.as_ref().and_then(|resources| resources.subscribe))),
        ("logging", capabilities.logging.is_some().into()),
        ("completions", capabilities.completions.is_some().into()),
    ] {
        flags.insert(name.to_owned(), value);
    }
    flags
}

/// Lists what the server has the capability for.
async fn list(
    peer: &Peer<RoleClient>,
    capabilities: &ServerCapabilities,
    description: &mut McpDescription,
) -> Result<(), McpFailure> {
    if capabilities.tools.is_some() {
        let page = |peer: Peer<RoleClient>, params| -> PageFuture {
            Box::pin(async move {
                let page = peer.list_tools(params).await?;
                Ok((page.tools.into_iter().map(|tool| tool.name.into_owned()).collect(), page.next_cursor))
            })
        };
        description.tools = names("tools/list", peer, page).await?;
    }
    if capabilities.prompts.is_some() {
        let page = |peer: Peer<RoleClient>, params| -> PageFuture {
            Box::pin(async move {
                let page = peer.list_prompts(params).await?;
                Ok((page.prompts.into_iter().map(|prompt| prompt.name).collect(), page.next_cursor))
            })
        };
        description.prompts = names("prompts/list", peer, page).await?;
    }
    if capabilities.resources.is_some() {
        let page = |peer: Peer<RoleClient>, params| -> PageFuture {
            Box::pin(async move {
                let page = peer.list_resources(params).await?;
                Ok((page.resources.into_iter().map(|resource| resource.name).collect(), page.next_cursor))
            })
        };
        description.resources = names("resources/list", peer, page).await?;
    }
    Ok(())
}

/// A page of names, and where the next one begins.
type PageFuture = BoxFuture<'static, Result<(Vec<String>, Option<String>), ServiceError>>;

/// All names of a list, page by page.
async fn names(
    what: &'static str,
    peer: &Peer<RoleClient>,
    page: fn(Peer<RoleClient>, Option<PaginatedRequestParams>) -> PageFuture,
) -> Result<Vec<String>, McpFailure> {
    let mut all = Vec::new();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let params = cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let (names, next) = page(peer.clone(), params).await.map_err(|error| list_failure(what, &error))?;
        let left = MAX_NAMES.saturating_sub(all.len());
        all.extend(names.iter().take(left).map(|name| clipped(name, MAX_NAME_CHARS)));
        cursor = next;
        if cursor.is_none() || all.len() >= MAX_NAMES {
            break;
        }
    }
    Ok(all)
}

fn list_failure(what: &str, error: &ServiceError) -> McpFailure {
    match error {
        ServiceError::McpError(error) => reported(what, error),
        ServiceError::TransportSend(error) => transport_failure(what, error),
        other => McpFailure::new(format!("{what}: {other}")),
    }
}

fn initialize_failure(error: &ClientInitializeError) -> McpFailure {
    match error {
        ClientInitializeError::JsonRpcError(error) => reported("initialize", error),
        ClientInitializeError::TransportError { error, .. } => transport_failure("initialize", error),
        // Their own texts are the whole response, or the library's inner life.
        ClientInitializeError::ExpectedInitResponse(_)
        | ClientInitializeError::ExpectedInitResult(_)
        | ClientInitializeError::ConnectionClosed(_) => {
            McpFailure::new("initialize: the response is not one of an MCP server")
        }
        other => McpFailure::new(format!("initialize: {other}")),
    }
}

fn reported(what: &str, error: &ErrorData) -> McpFailure {
    McpFailure::new(format!("{what}: the server reports error {}: {}", error.code.0, error.message))
}

fn transport_failure(what: &str, error: &DynamicTransportError) -> McpFailure {
    match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(error) => {
            let failure = http_failure(error);
            McpFailure { message: format!("{what}: {}", failure.message), ..failure }
        }
        None => McpFailure::new(format!("{what}: the request failed")),
    }
}

/// The text in one line of bounded length, without the values of headers that were sent: a server may repeat them.
fn without_secrets(text: &str, headers: &[(HeaderName, HeaderValue)]) -> String {
    let mut text = text.to_owned();
    for value in headers.iter().filter_map(|(_, value)| value.to_str().ok()) {
        // `Bearer X` is a secret in its last part.
        for secret in value.split(' ').chain([value]).filter(|part| part.len() >= 4) {
            text = text.replace(secret, "*****");
        }
    }
    let plain: String = text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    clipped(&plain, MAX_FAILURE_CHARS)
}

fn clipped(text: &str, max_chars: usize) -> String {
    text.chars().take(max_chars).collect()
}

fn http_failure(error: &StreamableHttpError<reqwest::Error>) -> McpFailure {
    let refused = |status: u16| McpFailure {
        message: format!("the server refuses with HTTP {status}"),
        status: Some(status),
    };
    match error {
        StreamableHttpError::Client(error) => {
            McpFailure { message: causes(error), status: error.status().map(|status| status.as_u16()) }
        }
        StreamableHttpError::HttpStatus(error) => refused(error.status),
        StreamableHttpError::AuthRequired(_) => refused(401),
        StreamableHttpError::InsufficientScope(_) => refused(403),
        StreamableHttpError::SessionExpired => refused(404),
        StreamableHttpError::UnexpectedServerResponse(text) => {
            // `HTTP 404 Not Found: …`
            let status = text.strip_prefix("HTTP ").and_then(|rest| rest.get(..3)?.parse().ok());
            McpFailure { message: text.trim_end_matches([':', ' ']).to_owned(), status }
        }
        other => McpFailure::new(other.to_string()),
    }
}

/// The error's causes without the error itself, whose text has the URL.
fn causes(error: &reqwest::Error) -> String {
    let what = match error {
        error if error.is_timeout() => "no answer in time",
        error if error.is_connect() => "the server cannot be reached",
        _ => "the request failed",
    };
    let mut text = what.to_owned();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
