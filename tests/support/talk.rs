//! A conversation in either dialect, sent so that it takes one of the gateway's ways to a provider.
//!
//! Not the judge of an answer, but for the one thing every failure must get right: `failed`.

use super::client::client;
use super::gateway::Gateway;
use super::settings::KEY;
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

/// Whose words are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speech {
    OpenAi,
    Anthropic,
}

/// How the gateway takes a request upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Small and whole.
    Plain,
    /// Small, whole and with a time limit.
    Timed,
    /// Larger than what Pingora replays.
    Big,
    Streamed,
    /// By `/v1/proxy`, small and whole: Pingora proxies it, the others are attempts of the gateway.
    Passed,
}

pub(crate) const SPEECHES: [Speech; 2] = [Speech::OpenAi, Speech::Anthropic];
pub(crate) const WAYS: [Way; 5] = [Way::Plain, Way::Timed, Way::Big, Way::Streamed, Way::Passed];

impl Speech {
    fn path(self) -> &'static str {
        match self {
            Speech::OpenAi => "/chat/completions",
            Speech::Anthropic => "/messages",
        }
    }

    /// The stored provider of the standard settings that speaks so.
    pub(crate) fn slug(self) -> &'static str {
        match self {
            Speech::OpenAi => "@emulator",
            Speech::Anthropic => "@anthropic-emulator",
        }
    }
}

/// A conversation for the emulator, which does as `script` says.
pub(crate) fn body(speech: Speech, way: Way, script: &str) -> Value {
    let text = match way {
        Way::Big => "long ".repeat(20_000),
        _ => "Say hello.".to_owned(),
    };
    let mut body = json!({
        "model": format!("gpt-4o-mini?{script}"),
        "messages": [{"role": "user", "content": text}],
        "stream": way == Way::Streamed,
    });
    if speech == Speech::Anthropic {
        body["max_tokens"] = 64.into();
    }
    body
}

/// The request, ready to be sent, through a client of its own.
pub(crate) fn ask(gateway: &Gateway, speech: Speech, way: Way, script: &str) -> RequestBuilder {
    let below = if way == Way::Passed { "/proxy" } else { "" };
    let url = format!("{}{below}{}", gateway.base_url(), speech.path());
    let call = client().post(url).header("x-gateway-api-key", KEY);
    let call = match way {
        Way::Timed => call.header("x-gateway-request-timeout", "20000"),
        _ => call,
    };
    call.json(&body(speech, way, script))
}

/// Checks that this is a failure the gateway tells of, in the right words, and gives its message.
pub(crate) async fn failed(answer: Response, speech: Speech, trace: &str, status: u16, code: &str) -> String {
    let what = format!("{speech:?} {trace}");
    assert_eq!(answer.status(), status, "{what}");
    assert_eq!(answer.headers()["x-gateway-trace-id"], trace, "{what}");
    assert_eq!(answer.headers()["content-type"], "application/json", "{what}");
    let body: Value = answer.json().await.unwrap();
    let error = &body["error"];
    match speech {
        Speech::OpenAi => {
            assert_eq!(error["code"], code, "{what} {body}");
            assert!(error["type"].is_string() && error.get("param").is_some(), "{what} {body}");
        }
        Speech::Anthropic => {
            assert_eq!((&body["type"], &body["request_id"]), (&json!("error"), &json!(trace)), "{what}");
            assert!(error["type"].is_string() && error.get("code").is_none(), "{what} {body}");
        }
    }
    let message = error["message"].as_str().unwrap_or_default().to_owned();
    assert!(!message.is_empty(), "{what} {body}");
    message
}
