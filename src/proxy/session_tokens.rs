//! Tokens of realtime sessions: makes them for a client with a service key, and has them count when a session is opened.
//!
//! No provider is asked. What a token is, `auth::session_token`.

use super::Gateway;
use super::downstream::PingoraDownstream;
use super::native;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use jiff::Timestamp;
use judgment::route::admission::{Endpoint, TokenShape};
use memory::auth::{self, SessionGrant};
use memory::state::snapshot::SettingsSnapshot;
use motion::engine::downstream::Downstream;
use motion::engine::header_edit::{HeaderCase, edit_response_headers};
use motion::engine::request_context::RequestContext;
use motion::engine::request_span::new_trace_id;
use motion::engine::response_headers;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use pingora_core::Result;
use pingora_core::protocols::http::HttpTask;
use pingora_proxy::Session;
use serde_json::{Map, Value, json};
use words::api::body::Body;
use words::api::operation::Operation;
use words::config::headers::is_gateway_header;
use words::error::Error;

/// The gateway's headers that count for a session as they are when its token is made.
const GRANTED: [&str; 4] = ["provider", "config", "virtual-key", "metadata"];
/// Of these the session has its own.
const KEPT: [&str; 2] = ["api-key", "trace-id"];
/// How long a session may be opened where nothing else is asked for, and at most, seconds: those of OpenAI.
const SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 7200;
const MIN_SECONDS: i64 = 10;
/// The longest session that a token has, bytes: a token is sent in a header.
const MAX_SESSION: usize = 4096;

/// What is escaped in a query (RFC 3986, 2.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What a request for a token asks for.
struct TokenRequest {
    seconds: i64,
    session: Map<String, Value>,
}

/// Sends a token.
pub(super) async fn serve(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestContext,
    body: &Body,
    shape: TokenShape,
) -> Result<bool> {
    let made = make(&session.req_header().headers, ctx, body, shape).and_then(|body| parts(body, ctx));
    let parts = made.map_err(|error| native::fail_request(ctx, error))?;
    // A process that stops takes no sessions any more; another one may.
    if gateway.engine.shared.lifecycle.is_draining() {
        session.set_keepalive(None);
    }
    let sent = PingoraDownstream::new(session).send(parts).await;
    sent.map(|()| true).map_err(|error| native::fail_request(ctx, error))
}

/// # Errors
/// 400 for what no session can be set to; 403 for a client without a service key.
fn make(
    headers: &HeaderMap,
    ctx: &RequestContext,
    body: &Body,
    shape: TokenShape,
) -> std::result::Result<Vec<u8>, Error> {
    let TokenRequest { seconds, session } = read(body, shape)?;
    let now = Timestamp::now();
    let expires_at = now.as_second() + seconds;
    let model = session.get("model").and_then(Value::as_str).map(str::to_owned);
    let model = model.ok_or_else(|| {
        Error::invalid_request("session.model", "Name the model of the session: a token is for one.")
    })?;
    // What the model is called at its provider is found when the session is opened.
    let preset: Map<String, Value> = session
        .iter()
        .filter(|(name, _)| *name != "model")
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let is_set = preset.keys().any(|name| name != "type");
    if is_set && Value::Object(preset.clone()).to_string().len() > MAX_SESSION {
        return Err(Error::invalid_request(
            "session",
            format!(
                "A token holds at most {MAX_SESSION} bytes of a session. Send the rest with session.update."
            ),
        ));
    }
    let grant = SessionGrant {
        key: String::new(),
        is_stored: false,
        expires_at,
        model: Some(model),
        headers: granted(headers, &ctx.snapshot),
        session: if is_set { preset } else { Map::new() },
    };
    let keys = &ctx.snapshot.service_keys;
    let client = ctx.record.client.as_ref();
    let token = client.and_then(|client| keys.session_token(client, grant, now)).ok_or_else(|| {
        Error::forbidden(
            "Only a service key can make tokens of realtime sessions: a token ends with its key. Send one in x-gateway-api-key; \
             auth.keys[].sha256 is no key to sign them with.",
        )
    })?;
    let mut session = session;
    session.insert("id".to_owned(), format!("sess_{}", new_trace_id()).into());
    session.insert("object".to_owned(), "realtime.session".into());
    let secret = json!({"value": token, "expires_at": expires_at});
    let answer = match shape {
        TokenShape::ClientSecret => {
            json!({"value": token, "expires_at": expires_at, "session": session})
        }
        TokenShape::Session => {
            session.insert("client_secret".to_owned(), secret);
            Value::Object(session)
        }
    };
    Ok(answer.to_string().into_bytes())
}

fn read(body: &Body, shape: TokenShape) -> std::result::Result<TokenRequest, Error> {
    let whole: Map<String, Value> = serde_json::from_slice(body.bytes())
        .map_err(|why| Error::bad_request(format!("The request body must be a JSON object: {why}.")))?;
    let after = whole.get("expires_after").filter(|after| !after.is_null());
    let seconds = match after.map(|after| after.get("seconds")) {
        None => SECONDS,
        Some(seconds) => seconds
            .and_then(Value::as_i64)
            .filter(|seconds| (MIN_SECONDS..=MAX_SECONDS).contains(seconds))
            .ok_or_else(|| {
                let message = format!("A token may be good for {MIN_SECONDS} to {MAX_SECONDS} seconds.");
                Error::invalid_request("expires_after.seconds", message)
            })?,
    };
    let mut session = match shape {
        TokenShape::Session => whole,
        TokenShape::ClientSecret => match whole.get("session") {
            Some(Value::Object(session)) => session.clone(),
            None | Some(Value::Null) => Map::new(),
            Some(_) => return Err(Error::invalid_request("session", "The session must be a JSON object.")),
        },
    };
    session.remove("expires_after");
    if session.get("type").is_some_and(|kind| kind != "realtime") {
        let message =
            "Tokens are for sessions of type realtime: others have no turns that limits could hold.";
        return Err(Error::invalid_request("session.type", message));
    }
    if shape == TokenShape::ClientSecret {
        session.entry("type").or_insert_with(|| "realtime".into());
    }
    Ok(TokenRequest { seconds, session })
}

fn granted(headers: &HeaderMap, snapshot: &SettingsSnapshot) -> Vec<(String, String)> {
    let value = |name: &str| {
        let names = snapshot.settings.prefixed_headers(name);
        let found = names.iter().find_map(|name| headers.get(name))?;
        Some((name.to_owned(), found.to_str().ok()?.to_owned()))
    };
    GRANTED.into_iter().filter_map(value).collect()
}

fn parts(body: Vec<u8>, ctx: &mut RequestContext) -> std::result::Result<Vec<HttpTask>, Error> {
    let mut response = response_headers::new_header(StatusCode::OK)?;
    ctx.record.traffic.bytes_out = body.len() as u64;
    edit_response_headers(&mut response, HeaderCase::Lower, |headers| {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_LENGTH, body.len().into());
        response_headers::add_basic_headers(headers, ctx);
    });
    Ok(vec![HttpTask::Header(Box::new(response), false), HttpTask::Body(Some(Bytes::from(body)), true)])
}

/// Has the token of a request for a session count: what it grants takes the place of all headers of the gateway's own, and of the model.
/// Returns what the session is set to. A token that is not good is refused where keys are.
pub(super) fn apply(session: &mut Session, snapshot: &SettingsSnapshot) -> Option<Map<String, Value>> {
    let header = session.req_header();
    if Endpoint::find(&header.method, header.uri.path()).operation != Operation::Realtime {
        return None;
    }
    let keys = &snapshot.service_keys;
    let found = auth::authenticate_session(&header.headers, &header.uri, keys, Timestamp::now(), false);
    let grant = found.ok()?.1?;
    let prefixes = &snapshot.settings.header_prefixes;
    let is_kept = |name: &HeaderName| {
        prefixes.iter().any(|prefix| KEPT.iter().any(|kept| name.as_str() == format!("{prefix}{kept}")))
    };
    let is_removed = |name: &&HeaderName| is_gateway_header(name, prefixes) && !is_kept(name);
    let removed: Vec<HeaderName> = header.headers.keys().filter(is_removed).cloned().collect();
    let uri = with_model(&header.uri, grant.model.as_deref());
    let header = session.req_header_mut();
    for name in removed {
        header.remove_header(&name);
    }
    let prefix = prefixes.first().map_or("x-gateway-", String::as_str);
    for (name, value) in &grant.headers {
        // Both were a header's when the token was made.
        let _ = header.insert_header(format!("{prefix}{name}"), value.as_str());
    }
    if let Some(uri) = uri {
        header.set_uri(uri);
    }
    (!grant.session.is_empty()).then_some(grant.session)
}

/// The URI with this model, and no other.
fn with_model(uri: &Uri, model: Option<&str>) -> Option<Uri> {
    let model = utf8_percent_encode(model?, ESCAPED);
    let is_other = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default();
        let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy();
        !pair.is_empty() && !matches!(&*name, "model" | "deployment" | "intent" | "call_id")
    };
    let others = uri.query().unwrap_or_default().split('&').filter(is_other);
    let query: Vec<String> =
        std::iter::once(format!("model={model}")).chain(others.map(str::to_owned)).collect();
    Uri::try_from(format!("{}?{}", uri.path(), query.join("&"))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_of_a_token_takes_the_place_of_all_others() {
        for (uri, wanted) in [
            ("/v1/realtime", "/v1/realtime?model=%40a%2Fb"),
            ("/v1/realtime?model=x&a=1&mod%65l=y&intent=transcription", "/v1/realtime?model=%40a%2Fb&a=1"),
        ] {
            let uri = Uri::from_static(uri);
            assert_eq!(with_model(&uri, Some("@a/b")).unwrap().to_string(), wanted);
            assert_eq!(with_model(&uri, None), None);
        }
    }
}
