//! The handshake of a websocket (RFC 6455, section 4.2), and what its requests take from it: address, path and headers.
//!
//! Not who the client is: each request is authenticated by itself, so that a key counts only as long as it is good.

use http::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, ORIGIN, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use memory::auth::KEY_PROTOCOL;
use motion::engine::header_edit::{HeaderCase, edit_response_headers};
use motion::engine::request_context::RequestContext;
use motion::engine::response_headers;
use pingora::http::{RequestHeader, ResponseHeader};
use std::net::IpAddr;
use std::sync::Arc;
use tungstenite::handshake::derive_accept_key;
use words::api::trace::TraceParent;
use words::error::Error;

/// Headers of the handshake that a request on the websocket has not.
const OF_THE_HANDSHAKE: [HeaderName; 9] = [
    CONNECTION,
    UPGRADE,
    SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION,
    SEC_WEBSOCKET_EXTENSIONS,
    CONTENT_LENGTH,
    CONTENT_ENCODING,
    TRANSFER_ENCODING,
    EXPECT,
];
/// Names the transport: `responses_websockets=2026-02-06`.
const BETA: HeaderName = HeaderName::from_static("openai-beta");
const BETA_OF_WEBSOCKETS: &str = "responses_websockets=";
/// Flags of OpenAI's that clients in browsers can only send as subprotocols.
const BETA_PROTOCOL: &str = "openai-beta.";

/// What the requests on a websocket have in common.
pub(super) struct Handshake {
    pub address: Option<IpAddr>,
    /// Path and query.
    pub target: Vec<u8>,
    pub headers: HeaderMap,
    pub trace_id: Arc<str>,
    pub parent: Option<TraceParent>,
    key: HeaderValue,
    /// The subprotocol that the client is told.
    protocol: Option<HeaderValue>,
}

impl Handshake {
    /// # Errors
    /// 400 for what is no handshake of a websocket.
    pub fn read(
        request: &RequestHeader,
        address: Option<IpAddr>,
        ctx: &RequestContext,
        is_upgrade: bool,
    ) -> Result<Self, Error> {
        let headers = &request.headers;
        let is = |name: &HeaderName, wanted: &str| {
            has_entry(headers, name, |entry| entry.eq_ignore_ascii_case(wanted))
        };
        let refused = |header: &str| {
            let message = "This path takes a POST, or the handshake of a websocket over HTTP/1.1: GET with `Upgrade: websocket`, \
                           `Connection: Upgrade`, `Sec-WebSocket-Version: 13` and a key.";
            Err(Error::invalid_request(header, message))
        };
        if !is_upgrade || !is(&UPGRADE, "websocket") {
            return refused("upgrade");
        }
        if !is(&CONNECTION, "upgrade") {
            return refused("connection");
        }
        if !is(&SEC_WEBSOCKET_VERSION, "13") {
            return refused("sec-websocket-version");
        }
        let Some(key) = headers.get(SEC_WEBSOCKET_KEY) else { return refused("sec-websocket-key") };
        let target = request.uri.path_and_query().map_or(&b"/"[..], |target| target.as_str().as_bytes());
        Ok(Self {
            address,
            target: target.to_vec(),
            headers: of_requests(headers),
            trace_id: Arc::clone(&ctx.span.trace_id),
            parent: ctx.span.parent,
            key: key.clone(),
            protocol: protocol(headers),
        })
    }

    /// The header of the response that accepts the websocket.
    ///
    /// # Errors
    /// None that a client could cause.
    pub fn response(&self, ctx: &RequestContext) -> Result<ResponseHeader, Error> {
        let mut response = response_headers::new_header(StatusCode::SWITCHING_PROTOCOLS)?;
        let accept = HeaderValue::from_str(&derive_accept_key(self.key.as_bytes()));
        let accept = accept.map_err(|error| Error::internal(error.to_string()))?;
        edit_response_headers(&mut response, HeaderCase::Lower, |headers| {
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
            if let Some(protocol) = &self.protocol {
                headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol.clone());
            }
            response_headers::add_basic_headers(headers, ctx);
        });
        Ok(response)
    }

    /// The header of a request whose body has so many bytes.
    ///
    /// # Errors
    /// None that a client could cause: its own header was accepted.
    pub fn request(&self, length: usize) -> Result<RequestHeader, Error> {
        let internal = |error: Box<pingora_core::Error>| Error::internal(error.to_string());
        let mut header =
            RequestHeader::build("POST", &self.target, Some(self.headers.len() + 2)).map_err(internal)?;
        for (name, value) in &self.headers {
            header.append_header(name, value).map_err(internal)?;
        }
        header.insert_header(CONTENT_TYPE, "application/json").map_err(internal)?;
        header.insert_header(CONTENT_LENGTH, length).map_err(internal)?;
        Ok(header)
    }
}

/// The headers that a request on the websocket has.
fn of_requests(handshake: &HeaderMap) -> HeaderMap {
    let mut headers = handshake.clone();
    OF_THE_HANDSHAKE.iter().for_each(|name| drop(headers.remove(name)));
    // The page was judged with the handshake, which a browser sends with it.
    headers.remove(ORIGIN);
    keep_entries(&mut headers, &BETA, |entry| !entry.starts_with(BETA_OF_WEBSOCKETS));
    // Only the entry that is a key is read of a POST.
    keep_entries(&mut headers, &SEC_WEBSOCKET_PROTOCOL, |entry| entry.starts_with(KEY_PROTOCOL));
    headers
}

/// The subprotocol that is accepted: the first one offered that is neither a key nor a flag. Browsers close a websocket whose handshake
/// names none of those they offered.
fn protocol(headers: &HeaderMap) -> Option<HeaderValue> {
    let is_name = |entry: &&str| !entry.starts_with(KEY_PROTOCOL) && !entry.starts_with(BETA_PROTOCOL);
    entries(headers, &SEC_WEBSOCKET_PROTOCOL)
        .find(is_name)
        .and_then(|entry| HeaderValue::from_str(entry).ok())
}

fn entries<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|entry| !entry.is_empty())
}

fn has_entry(headers: &HeaderMap, name: &HeaderName, is_wanted: impl FnMut(&str) -> bool) -> bool {
    entries(headers, name).any(is_wanted)
}

fn keep_entries(headers: &mut HeaderMap, name: &HeaderName, is_kept: impl Fn(&str) -> bool) {
    let kept: Vec<&str> = entries(headers, name).filter(|entry| is_kept(entry)).collect();
    let kept = Some(kept.join(", ")).filter(|kept| !kept.is_empty());
    match kept.and_then(|kept| HeaderValue::from_str(&kept).ok()) {
        Some(kept) => drop(headers.insert(name, kept)),
        None => drop(headers.remove(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_headers_of_the_handshake_without_its_own() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("host", "a"),
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-key", "k"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-extensions", "permessage-deflate"),
            ("sec-websocket-protocol", "openai-insecure-api-key.s, realtime, openai-beta.x"),
            ("openai-beta", "responses_websockets=2026-02-06, other=1"),
            ("x-gateway-provider", "@a"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        assert_eq!(protocol(&headers).unwrap(), "realtime");
        let kept = of_requests(&headers);
        let kept: Vec<(&str, &str)> =
            kept.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        for wanted in [
            ("host", "a"),
            ("sec-websocket-protocol", "openai-insecure-api-key.s"),
            ("openai-beta", "other=1"),
            ("x-gateway-provider", "@a"),
        ] {
            assert!(kept.contains(&wanted), "{wanted:?} in {kept:?}");
        }
        assert_eq!(kept.len(), 4, "{kept:?}");
    }
}
