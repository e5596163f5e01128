//! One cell of the matrix (a fault, the primary's dialect, streamed or whole) and how its request is sent.
//!
//! The expected results are in `scenarios`.

use super::observed::ObservedResponse;
use super::rows::{Fault, Form, Served};
use crate::support::Gateway;
use crate::support::client::{client, fresh_client};
use crate::support::settings::{KEY, STANDARD};
use reqwest::Client;
use serde_json::{Value, json};
use std::fmt;
use std::time::{Duration, Instant};

/// Tokens of every response.
pub(crate) const TOKENS: u64 = 60;

/// The dialect of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrimaryDialect {
    OpenAi,
    Anthropic,
    Gemini,
    Bedrock,
}

pub(crate) const PRIMARY_DIALECTS: [PrimaryDialect; 4] =
    [PrimaryDialect::OpenAi, PrimaryDialect::Anthropic, PrimaryDialect::Gemini, PrimaryDialect::Bedrock];

impl PrimaryDialect {
    /// The stored provider of the standard settings.
    pub(crate) fn slug(self) -> &'static str {
        match self {
            PrimaryDialect::OpenAi => "@emulator",
            PrimaryDialect::Anthropic => "@anthropic-emulator",
            PrimaryDialect::Gemini => "@google-emulator",
            PrimaryDialect::Bedrock => "@bedrock-emulator",
        }
    }

    /// The provider's id.
    pub(crate) fn id(self) -> &'static str {
        match self {
            PrimaryDialect::OpenAi => "openai",
            PrimaryDialect::Anthropic => "anthropic",
            PrimaryDialect::Gemini => "google",
            PrimaryDialect::Bedrock => "bedrock",
        }
    }

    /// A model of this provider; `role` makes its name unique.
    pub(crate) fn model(self, role: &str) -> String {
        match self {
            PrimaryDialect::OpenAi => format!("gpt-4o-mini-{role}"),
            PrimaryDialect::Anthropic => format!("claude-3-5-haiku-20241022-{role}"),
            PrimaryDialect::Gemini => format!("gemini-2.0-flash-{role}"),
            PrimaryDialect::Bedrock => format!("anthropic.claude-3-haiku-20240307-{role}"),
        }
    }

    /// A target of this dialect whose model's name carries a script.
    pub(crate) fn target(self, role: &str, script: &str) -> Value {
        json!({"provider": self.slug(), "override_params": {"model": format!("{}?{script}", self.model(role))}})
    }
}

/// The gateways the cases run on, and the client for them.
pub(super) struct Bed {
    pub(super) gateway: Gateway,
    /// Only for cases that check counters.
    pub(super) counted: Gateway,
    pub(super) client: Client,
}

impl Bed {
    pub(super) fn start() -> Self {
        Self { gateway: Gateway::start(STANDARD), counted: super::own_gateway(), client: fresh_client() }
    }
}

/// One cell of the matrix.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) fault: &'static Fault,
    pub(super) dialect: PrimaryDialect,
    pub(super) form: Form,
    /// Sent to `/v1/messages`.
    pub(super) messages: bool,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.messages { "/messages" } else { "/chat/completions" };
        write!(f, "{}: {:?} {:?} {path}", self.fault.name, self.dialect, self.form)
    }
}

impl Case {
    pub(super) fn is_streamed(&self) -> bool {
        self.form == Form::Streamed
    }

    /// Which target's response the client gets.
    pub(super) fn served(&self) -> Served {
        let at_openai = self.fault.served_at_openai.filter(|_| self.dialect == PrimaryDialect::OpenAi);
        at_openai.unwrap_or(self.fault.served)
    }

    /// The fallback's dialect: the same as the client's.
    pub(super) fn fallback(&self) -> PrimaryDialect {
        if self.messages { PrimaryDialect::Anthropic } else { PrimaryDialect::OpenAi }
    }

    /// The primary's script, with what every response needs.
    pub(super) fn script(&self, trace: &str) -> String {
        let [streamed, whole] = self.fault.scripts;
        let script = if self.is_streamed() { streamed } else { whole };
        let counted = script.contains("times=") || script.contains("flap=");
        let key = if counted { format!("&key={trace}") } else { String::new() };
        format!("{script}{key}&tokens={TOKENS}&tag={trace}-p")
    }

    /// The plain config: these targets, two retries, a timeout of half a minute.
    pub(super) fn config(&self, targets: &[Value]) -> Value {
        // Here `request_timeout` is what ends the attempt: half a minute is too long for a test.
        let needs_short_timeout = self.fault.name == "silence" && !self.is_streamed();
        let timeout = if needs_short_timeout { 3_000 } else { 30_000 };
        json!({
            "strategy": {"mode": "fallback"},
            "retry": {"attempts": 2},
            "request_timeout": timeout,
            "targets": targets,
        })
    }

    /// Primary and fallback.
    pub(super) fn targets(&self, trace: &str) -> [Value; 2] {
        let primary = self.dialect.target("primary", &self.script(trace));
        [primary, self.fallback().target("fallback", &format!("tokens={TOKENS}&tag={trace}-f"))]
    }

    /// Sends a request with this config and reads its response to the end.
    pub(super) async fn send(
        &self,
        gateway: &Gateway,
        client: &Client,
        trace: &str,
        config: &Value,
    ) -> ObservedResponse {
        send(gateway, client, trace, config, &body(self.messages, self.is_streamed()), self.messages).await
    }
}

/// The client's request body.
pub(crate) fn body(messages: bool, streamed: bool) -> Value {
    let mut body = json!({
        "model": "asked-for", "stream": streamed, "messages": [{"role": "user", "content": "Tell me a story."}],
    });
    if messages {
        body["max_tokens"] = 1000.into();
    } else if streamed {
        body["stream_options"] = json!({"include_usage": true});
    }
    body
}

/// Sends this body with this config and reads the response to the end.
pub(crate) async fn send(
    gateway: &Gateway,
    client: &Client,
    trace: &str,
    config: &Value,
    body: &Value,
    messages: bool,
) -> ObservedResponse {
    let path = if messages { "messages" } else { "chat/completions" };
    let started = Instant::now();
    let call = client.post(format!("{}/{path}", gateway.base_url())).header("x-gateway-api-key", KEY);
    let call = call.header("x-gateway-trace-id", trace).header("x-gateway-config", config.to_string());
    match call.timeout(Duration::from_secs(60)).json(body).send().await {
        Ok(response) => ObservedResponse::read(response, started, messages).await,
        Err(error) => ObservedResponse {
            broken: Some(format!("{error:?}")),
            elapsed: started.elapsed(),
            ..ObservedResponse::default()
        },
    }
}

/// The requests the emulator received with this tag, oldest first, once all of them have ended.
pub(crate) async fn emulator_requests(gateway: &Gateway, tag: &str) -> Vec<Value> {
    let url = format!("{}/_emulator/requests?tag={tag}", gateway.emulator_url());
    let client = client();
    crate::support::wait::until(&format!("all requests tagged {tag} to end"), async || {
        let requests: Vec<Value> = client.get(&url).send().await.unwrap().json().await.unwrap();
        requests.iter().all(|request| request["closed"].is_string()).then_some(requests)
    })
    .await
}

/// The emulator's text of this many tokens.
pub(crate) fn sample_text(tokens: u64) -> String {
    let tokens_of_sentence =
        [" The", " quick", " brown", " fox", " jumps", " over", " the", " lazy", " dog", "."];
    tokens_of_sentence
        .iter()
        .cycle()
        .take(tokens as usize)
        .copied()
        .collect::<String>()
        .trim_start()
        .to_owned()
}
