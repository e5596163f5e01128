//! Chat requests in either dialect and in each kind that the gateway handles differently.
//!
//! Responses are checked by the tests, except for what every gateway error must have: `assert_gateway_error`.

use super::client::client;
use super::gateway::Gateway;
use super::settings::KEY;
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

/// The API dialect of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    OpenAi,
    Anthropic,
}

/// The kinds of request that take different paths through the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// Small and not streamed.
    Plain,
    /// Small, not streamed and with a timeout.
    Timed,
    /// Larger than what Pingora can replay.
    Big,
    Streamed,
    /// Through `/v1/proxy`, small and not streamed: Pingora proxies it; the other kinds are attempts of the
    /// gateway.
    Proxied,
}

pub(crate) const DIALECTS: [Dialect; 2] = [Dialect::OpenAi, Dialect::Anthropic];
pub(crate) const REQUEST_KINDS: [RequestKind; 5] =
    [RequestKind::Plain, RequestKind::Timed, RequestKind::Big, RequestKind::Streamed, RequestKind::Proxied];

impl Dialect {
    fn path(self) -> &'static str {
        match self {
            Dialect::OpenAi => "/chat/completions",
            Dialect::Anthropic => "/messages",
        }
    }

    /// The stored provider of the standard settings that has this dialect.
    pub(crate) fn slug(self) -> &'static str {
        match self {
            Dialect::OpenAi => "@emulator",
            Dialect::Anthropic => "@anthropic-emulator",
        }
    }
}

/// A chat body for the emulator, which follows `script`.
pub(crate) fn body(dialect: Dialect, kind: RequestKind, script: &str) -> Value {
    let text = match kind {
        RequestKind::Big => "long ".repeat(20_000),
        _ => "Say hello.".to_owned(),
    };
    let mut body = json!({
        "model": format!("gpt-4o-mini?{script}"),
        "messages": [{"role": "user", "content": text}],
        "stream": kind == RequestKind::Streamed,
    });
    if dialect == Dialect::Anthropic {
        body["max_tokens"] = 64.into();
    }
    body
}

/// The request, ready to be sent, through a client of its own.
pub(crate) fn chat_request(
    gateway: &Gateway,
    dialect: Dialect,
    kind: RequestKind,
    script: &str,
) -> RequestBuilder {
    let prefix = if kind == RequestKind::Proxied { "/proxy" } else { "" };
    let url = format!("{}{prefix}{}", gateway.base_url(), dialect.path());
    let call = client().post(url).header("x-gateway-api-key", KEY);
    let call = match kind {
        RequestKind::Timed => call.header("x-gateway-request-timeout", "20000"),
        _ => call,
    };
    call.json(&body(dialect, kind, script))
}

/// Asserts that this is an error of the gateway in the client's dialect; returns its message.
pub(crate) async fn assert_gateway_error(
    response: Response,
    dialect: Dialect,
    trace: &str,
    status: u16,
    code: &str,
) -> String {
    let what = format!("{dialect:?} {trace}");
    assert_eq!(response.status(), status, "{what}");
    assert_eq!(response.headers()["x-gateway-trace-id"], trace, "{what}");
    assert_eq!(response.headers()["content-type"], "application/json", "{what}");
    let body: Value = response.json().await.unwrap();
    let error = &body["error"];
    match dialect {
        Dialect::OpenAi => {
            assert_eq!(error["code"], code, "{what} {body}");
            assert!(error["type"].is_string() && error.get("param").is_some(), "{what} {body}");
        }
        Dialect::Anthropic => {
            assert_eq!((&body["type"], &body["request_id"]), (&json!("error"), &json!(trace)), "{what}");
            assert!(error["type"].is_string() && error.get("code").is_none(), "{what} {body}");
        }
    }
    let message = error["message"].as_str().unwrap_or_default().to_owned();
    assert!(!message.is_empty(), "{what} {body}");
    message
}
