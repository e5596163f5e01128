//! The request header a provider gets: the client's without the gateway's own and the hop-by-hop headers, with the
//! provider's path, host and auth headers.
//!
//! The one place where a provider's auth headers are written, for the engine's attempts and for requests that Pingora
//! proxies natively. Does not choose the peer (`peer_selection`).

use super::credentials;
use super::forwarded_headers::{HOP_BY_HOP, STRIPPED, each_forwarded, holds_key};
use super::header_edit::{HeaderCase, edit_request_headers};
use super::request_context::RequestContext;
use http::header;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use judgment::route::attempt::Attempt;
use judgment::route::request_mode::RequestMode;
use knowledge::provider::token_exchange::Credentials;
use memory::auth::{KEY_PROTOCOL, KeySearch};
use memory::state::snapshot::SettingsSnapshot;
use pingora::http::RequestHeader;
use words::api::connection_header;
use words::api::operation::BodyKind;
use words::api::trace::TRACEPARENT;
use words::config::headers::is_gateway_header;
use words::error::Error;

/// The version of Anthropic's API that a client speaks.
const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");

/// The betas of Anthropic's API that a client requests.
const ANTHROPIC_BETA: HeaderName = HeaderName::from_static("anthropic-beta");

/// An account with a version of its own is one of Anthropic's API, whatever its provider.
fn takes_anthropic_version(ctx: &RequestContext, attempt: &Attempt) -> bool {
    let target = &attempt.target;
    target.account.anthropic_version.is_some() || target.provider.takes_anthropic_version(ctx.api.operation)
}

/// How the end of a body is marked.
#[derive(Debug, Clone, Copy)]
enum Framing {
    Preserved,
    /// By `Content-Length`, bytes.
    Length(usize),
    Chunked,
}

/// Makes the provider's request header from the client's.
pub struct UpstreamHeaders<'a> {
    attempt: &'a Attempt,
    credentials: Option<&'a Credentials>,
    snapshot: &'a SettingsSnapshot,
    case: HeaderCase,
    framing: Framing,
    /// Whether tokens are counted in the response, which must then be uncompressed.
    counts_tokens: bool,
    /// The client's `anthropic-version` goes along.
    takes_anthropic_version: bool,
}

impl<'a> UpstreamHeaders<'a> {
    /// For an attempt of the engine. `streams_body`: the body is forwarded as it arrives from the client.
    pub fn new(
        ctx: &'a RequestContext,
        attempt: &'a Attempt,
        client: &RequestHeader,
        streams_body: bool,
    ) -> Self {
        let framing = match &attempt.body {
            Some(body) => Framing::Length(body.len()),
            None if streams_body && !client.headers.contains_key(header::CONTENT_LENGTH) => Framing::Chunked,
            None => Framing::Preserved,
        };
        let counts_tokens = ctx.api.operation.body_kind() == BodyKind::Json;
        let case = HeaderCase::for_request(ctx, &attempt.target, false);
        let takes_anthropic_version = takes_anthropic_version(ctx, attempt);
        Self {
            attempt,
            credentials: attempt.fetched.as_deref(),
            snapshot: &ctx.snapshot,
            case,
            framing,
            counts_tokens,
            takes_anthropic_version,
        }
    }

    /// For a request that Pingora proxies natively. The client's framing of the body is kept.
    pub fn native(
        ctx: &'a RequestContext,
        attempt: &'a Attempt,
        credentials: Option<&'a Credentials>,
        is_upgrade: bool,
    ) -> Self {
        let counts_tokens = ctx.api.operation.body_kind() == BodyKind::Json && !is_upgrade;
        let case = HeaderCase::for_request(ctx, &attempt.target, is_upgrade);
        Self {
            attempt,
            credentials,
            snapshot: &ctx.snapshot,
            case,
            framing: Framing::Preserved,
            counts_tokens,
            takes_anthropic_version: takes_anthropic_version(ctx, attempt),
        }
    }

    /// Builds an attempt's header from the client's. Headers that are forwarded are copied once.
    ///
    /// # Errors
    /// The path is not valid at the provider, or the provider refuses the account.
    pub fn build(&self, client: &RequestHeader) -> Result<RequestHeader, Error> {
        if self.case == HeaderCase::Preserved {
            let mut header = client.clone();
            remove_hop_by_hop(&mut header);
            self.apply(&mut header)?;
            return Ok(header);
        }
        let (mut parts, ()) = http::Request::new(()).into_parts();
        parts.uri = self.uri()?;
        parts.method = self.attempt.method.clone();
        parts.headers = self.passed_on(&client.headers, &client.uri);
        self.complete(&parts.method, &mut parts.headers)?;
        Ok(RequestHeader::from(parts))
    }

    /// Edits a copy of the client's header. The hop-by-hop headers must be removed already.
    ///
    /// # Errors
    /// As [`UpstreamHeaders::build`].
    pub fn apply(&self, request: &mut RequestHeader) -> Result<(), Error> {
        let client_uri = request.uri.clone();
        request.set_uri(self.uri()?);
        let method = self.attempt.method.clone();
        request.set_method(method.clone());
        let mut completed = Ok(());
        edit_request_headers(request, self.case, |headers| {
            strip(headers, &client_uri, self.attempt.target.policies.forward_headers(), self.snapshot);
            completed = self.complete(&method, headers);
        });
        completed
    }

    fn uri(&self) -> Result<Uri, Error> {
        let path = &self.attempt.path;
        Uri::try_from(path.as_str())
            .map_err(|_| Error::bad_request(format!("{path:?} is no valid path at the provider.")))
    }

    /// The client's headers that are forwarded.
    fn passed_on(&self, client: &HeaderMap, uri: &Uri) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(client.len() + 4);
        let named = self.attempt.target.policies.forward_headers();
        each_forwarded(client, uri, named, self.snapshot, |name, value| {
            headers.append(name.clone(), value.clone());
        });
        headers
    }

    /// Adds the provider's headers, which replace the client's.
    fn complete(&self, method: &Method, headers: &mut HeaderMap) -> Result<(), Error> {
        let attempt = self.attempt;
        headers.insert(header::HOST, attempt.origin().host_header().clone());
        if !self.takes_anthropic_version {
            headers.remove(ANTHROPIC_VERSION);
        }
        for (neutral, own) in attempt.target.provider.neutral_headers() {
            if let Some(value) = headers.remove(*neutral) {
                headers.entry(HeaderName::from_static(own)).or_insert(value);
            }
        }
        let model = attempt.model.as_deref().unwrap_or_default();
        let host = attempt.target.provider.beta_host(attempt.operation, model);
        if let Some(host) = host.filter(|_| attempt.mode == RequestMode::Api) {
            host.filter(headers);
        }
        // Merged before the provider's defaults are added: only what the client sent counts.
        let vendor_headers = attempt.vendor_headers.merge_over(headers);
        for (name, value) in attempt.auth.iter() {
            // A key is always the gateway's; a version that the client chose is kept.
            if value.is_sensitive() || !headers.contains_key(name) {
                headers.insert(name, value.clone());
            }
        }
        headers.extend(vendor_headers);
        if attempt.mode == RequestMode::Api && attempt.target.provider.takes_betas_in_body(attempt.operation)
        {
            headers.remove(ANTHROPIC_BETA);
        }
        match self.framing {
            Framing::Preserved => {}
            Framing::Length(length) => {
                headers.remove(header::TRANSFER_ENCODING);
                headers.insert(header::CONTENT_LENGTH, length.into());
            }
            Framing::Chunked => {
                headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
        }
        // A credential could not be found in a compressed error that echoes it.
        let uncompressed = self.counts_tokens
            || attempt.translation.is_some()
            || !attempt.target.hooks.is_empty()
            || !attempt.credential_mask().is_empty();
        if uncompressed && headers.contains_key(header::ACCEPT_ENCODING) {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        headers.remove(header::EXPECT);
        let own_span = attempt.trace_parent.and_then(|own| HeaderValue::try_from(own.header()).ok());
        if let Some(own_span) = own_span {
            headers.insert(TRACEPARENT.clone(), own_span);
        }
        credentials::sign(method, headers, attempt, self.credentials)
    }
}

/// Removes the hop-by-hop headers of a client (RFC 9110, 7.6.1): the standard ones, and those that its `Connection` names.
pub fn remove_hop_by_hop(header: &mut RequestHeader) {
    let headers = &header.headers;
    let hop_by_hop = headers.keys().filter(|name| HOP_BY_HOP.contains(&name.as_str())).cloned();
    let named = connection_header::names(headers).filter_map(|name| HeaderName::from_bytes(name).ok());
    let removed: Vec<HeaderName> = hop_by_hop.chain(named).collect();
    for name in removed {
        header.remove_header(&name);
    }
}

/// Removes the gateway's own headers and those that are not forwarded.
fn strip(headers: &mut HeaderMap, uri: &Uri, forwarded: &[HeaderName], snapshot: &SettingsSnapshot) {
    let search = KeySearch::new(headers, uri, &snapshot.service_keys);
    let is_removed = |name: &&HeaderName| {
        let is_credential = STRIPPED.contains(&name.as_str());
        is_gateway_header(name, &snapshot.settings.header_prefixes)
            || is_credential && !forwarded.contains(name)
            || headers.get_all(*name).iter().any(|value| holds_key(value, is_credential, &search))
    };
    let removed: Vec<HeaderName> = headers.keys().filter(is_removed).cloned().collect();
    let protocols = protocols_without_key(headers).filter(|protocols| !search.is_in(protocols));
    for name in removed {
        headers.remove(name);
    }
    match protocols {
        Some(protocols) => drop(headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocols)),
        None => drop(headers.remove(header::SEC_WEBSOCKET_PROTOCOL)),
    }
}

/// The websocket's subprotocols without the entry that is a key: the provider gets its key in its own header. `None` where
/// nothing is left.
fn protocols_without_key(headers: &HeaderMap) -> Option<HeaderValue> {
    let values = || headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let entries =
        values().flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    let kept: Vec<&[u8]> = entries.filter(|entry| !entry.starts_with(KEY_PROTOCOL.as_bytes())).collect();
    HeaderValue::from_bytes(&kept.join(&b", "[..])).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_named_by_connection_are_removed() {
        let mut request = RequestHeader::build(Method::GET, b"/", None).unwrap();
        for (name, value) in [
            ("x-kept", "1"),
            ("te", "trailers"),
            ("x-own", "1"),
            ("keep-alive", "5"),
            ("connection", "close, X-Own"),
            ("connection", "keep-alive"),
        ] {
            request.append_header(name, value).unwrap();
        }
        remove_hop_by_hop(&mut request);
        let left: Vec<&str> = request.headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["x-kept"]);
    }
}
