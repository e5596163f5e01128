//! Chat requests in each dialect and in each kind that the gateway handles differently.
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
    Gemini,
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

/// The dialects whose requests are a path and a body.
pub(crate) const DIALECTS: [Dialect; 2] = [Dialect::OpenAi, Dialect::Anthropic];
/// Those, and Gemini's, whose model is in the path.
pub(crate) const ALL_DIALECTS: [Dialect; 3] = [Dialect::OpenAi, Dialect::Anthropic, Dialect::Gemini];
pub(crate) const REQUEST_KINDS: [RequestKind; 5] =
    [RequestKind::Plain, RequestKind::Timed, RequestKind::Big, RequestKind::Streamed, RequestKind::Proxied];

impl Dialect {
    /// The URL of a request of this kind. Gemini's has the model in it, with the emulator's script.
    fn url(self, gateway: &Gateway, kind: RequestKind, script: &str) -> String {
        let base = gateway.base_url();
        let prefix = if kind == RequestKind::Proxied { "/proxy" } else { "" };
        match self {
            Dialect::OpenAi => format!("{base}{prefix}/chat/completions"),
            Dialect::Anthropic => format!("{base}{prefix}/messages"),
            // Below `/v1/proxy` the path is not read.
            Dialect::Gemini => {
                let method = match kind {
                    RequestKind::Streamed => "streamGenerateContent?alt=sse",
                    _ => "generateContent",
                };
                let root = base.trim_end_matches("/v1");
                let script = script.replace('=', "%3D").replace('&', "%26");
                format!("{root}/v1beta/models/gemini-2.5-flash%3F{script}:{method}")
            }
        }
    }

    /// The stored provider of the standard settings that has this dialect.
    pub(crate) fn slug(self) -> &'static str {
        match self {
            Dialect::OpenAi => "@emulator",
            Dialect::Anthropic => "@anthropic-emulator",
            Dialect::Gemini => "@google-emulator",
        }
    }
}

/// A chat body for the emulator, which follows `script`.
pub(crate) fn body(dialect: Dialect, kind: RequestKind, script: &str) -> Value {
    let text = match kind {
        RequestKind::Big => "long ".repeat(20_000),
        _ => "Say hello.".to_owned(),
    };
    if dialect == Dialect::Gemini {
        return json!({"contents": [{"role": "user", "parts": [{"text": text}]}]});
    }
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
    let call = client().post(dialect.url(gateway, kind, script)).header("x-gateway-api-key", KEY);
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
        Dialect::Gemini => {
            assert_eq!(error["code"], status, "{what} {body}");
            assert!(error["status"].is_string(), "{what} {body}");
            let info = &error["details"][0];
            assert_eq!(info["reason"], code.to_ascii_uppercase(), "{what} {body}");
            assert_eq!(info["metadata"]["request_id"], trace, "{what} {body}");
        }
    }
    let message = error["message"].as_str().unwrap_or_default().to_owned();
    assert!(!message.is_empty(), "{what} {body}");
    message
}
