//! What stands around an MCP server that acts for persons: an identity provider that exchanges tokens (RFC 8693), and a server that takes the
//! tokens it issues, and keeps a session and a list for each person.

use super::Gateway;
use super::mcp_client::{ALL, Got, call, post};
use super::mcp_fake::{body, http, result};
use super::message::Message;
use super::provider::Provider;
use super::settings::LISTEN;
use super::signing_key::{SigningKey, claims};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a token endpoint makes of a request: the bytes of the response, by how many it has had and the subject of the token.
type Issue = dyn Fn(usize, &str) -> Vec<u8> + Send + Sync;

/// An identity provider: `/jwks` has its key, `/token` exchanges.
pub(crate) struct Issuer {
    pub(crate) key: SigningKey,
    provider: Provider,
    issue: Arc<Mutex<Arc<Issue>>>,
}

impl Issuer {
    /// Issues `x-SUBJECT-NUMBER`, good for an hour.
    pub(crate) async fn start() -> Self {
        let key = SigningKey::new("key");
        let jwks = json!({"keys": [key.public()]}).to_string();
        let issue: Arc<Mutex<Arc<Issue>>> =
            Arc::new(Mutex::new(Arc::new(|number, subject| good(number, subject, 3600))));
        let (current, count) = (Arc::clone(&issue), Mutex::new(0));
        let provider = Provider::start(move |message| {
            if message.start.starts_with("GET ") {
                return http("200 OK", "", "application/json", &jwks);
            }
            let number = {
                let mut count = count.lock();
                *count += 1;
                *count
            };
            let subject =
                claims(&field(message, "subject_token"))["sub"].as_str().unwrap_or_default().to_owned();
            let issue = Arc::clone(&current.lock());
            issue(number, &subject)
        })
        .await;
        Self { key, provider, issue }
    }

    pub(crate) fn set(&self, issue: impl Fn(usize, &str) -> Vec<u8> + Send + Sync + 'static) {
        *self.issue.lock() = Arc::new(issue);
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/token", self.provider.port)
    }

    /// The requests to the token endpoint.
    pub(crate) fn exchanges(&self) -> Vec<Message> {
        self.provider.received().into_iter().filter(|message| message.start.starts_with("POST ")).collect()
    }

    /// A token of this person for the gateway, that may do what a test does.
    pub(crate) fn token(&self, subject: &str, more: &Value) -> String {
        let mut all = json!({"sub": subject, "scope": "mcp.invoke completions.write mcp_servers.list mcp_servers.read"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.key.token(&all)
    }

    pub(crate) fn port(&self) -> u16 {
        self.provider.port
    }

    /// A gateway with these settings.
    pub(crate) fn gateway(&self, more: &str) -> Gateway {
        Gateway::start(&self.settings(more))
    }

    /// Settings that take its tokens, a service key `plain`, and the operator's. `more`: lines of `auth.jwt`.
    pub(crate) fn settings(&self, more: &str) -> String {
        format!(
            "{LISTEN}custom_hosts: {{allow: [127.0.0.1]}}\nauth:\n  keys:\n    \
             - {{name: operator, key: tp-operator-0123456789, scopes: [administration]}}\n    \
             - {{name: plain, key: {PLAIN}, workspace: default}}\n  \
             jwt:\n    jwks_url: http://127.0.0.1:{}/jwks\n    issuer: https://id.test\n    audience: turnpike\n{more}",
            self.provider.port
        )
    }
}

/// A service key that may call.
pub(crate) const PLAIN: &str = "tp-plain-0123456789";

/// The answer of a good exchange.
pub(crate) fn good(number: usize, subject: &str, seconds: u64) -> Vec<u8> {
    let issued = json!({"access_token": format!("x-{subject}-{number}"), "token_type": "Bearer", "expires_in": seconds,
        "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"});
    http("200 OK", "cache-control: no-store\r\n", "application/json", &issued.to_string())
}

/// All fields of a form, in their order.
pub(crate) fn fields(message: &Message) -> Vec<(String, String)> {
    url::form_urlencoded::parse(&message.body).into_owned().collect()
}

pub(crate) fn field(message: &Message, name: &str) -> String {
    fields(message).into_iter().find(|(found, _)| found == name).map(|(_, value)| value).unwrap_or_default()
}

/// An MCP server with sessions that takes issued tokens alone.
pub(crate) struct PersonServer {
    pub(crate) provider: Provider,
    refused: Arc<Mutex<BTreeSet<String>>>,
}

impl PersonServer {
    /// Each person has the tools `echo` and `only_PERSON`.
    pub(crate) async fn start() -> Self {
        let refused = Arc::<Mutex<BTreeSet<String>>>::default();
        let gone = Arc::clone(&refused);
        let provider = Provider::start(move |message| respond(message, &gone.lock())).await;
        Self { provider, refused }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.provider.port)
    }

    /// Refuses this token from now on.
    pub(crate) fn revoke(&self, token: &str) {
        self.refused.lock().insert(token.to_owned());
    }

    /// The messages of a method that it received, with the person whose token came with each.
    pub(crate) fn received(&self, method: &str) -> Vec<(String, Message)> {
        let all = self.provider.received().into_iter();
        let of = all.filter(|message| body(message)["method"] == method);
        of.map(|message| (person(&message).unwrap_or_default(), message)).collect()
    }

    /// How many sessions each person has opened.
    pub(crate) fn sessions(&self) -> Vec<String> {
        let mut all: Vec<String> =
            self.received("initialize").into_iter().map(|(person, _)| person).collect();
        all.sort();
        all
    }
}

/// The person of the issued token in a message.
fn person(message: &Message) -> Option<String> {
    let token = message.header("authorization")?.strip_prefix("Bearer x-")?;
    Some(token.rsplit_once('-')?.0.to_owned())
}

fn respond(message: &Message, refused: &BTreeSet<String>) -> Vec<u8> {
    let sent = body(message);
    let token =
        message.header("authorization").and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    let Some(person) = person(message).filter(|_| !refused.contains(token)) else {
        return http("401 Unauthorized", "", "text/plain", "who are you?");
    };
    let session = format!("s-{person}");
    let method = sent["method"].as_str().unwrap_or_default();
    if method == "server/discover" {
        return http("400 Bad Request", "", "text/plain", "no");
    }
    if method != "initialize" && message.header("mcp-session-id") != Some(&session) {
        return http("403 Forbidden", "", "text/plain", "the session of another person");
    }
    if sent["id"].is_null() {
        return http("202 Accepted", "", "application/json", "");
    }
    let tool = |name: &str| json!({"name": name, "description": format!("for {person}"), "inputSchema": {"type": "object"}});
    let found = match method {
        "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": format!("of {person}"), "version": "1"}}),
        "tools/list" => json!({"tools": [tool("echo"), tool(&format!("only_{person}"))]}),
        _ => {
            json!({"content": [{"type": "text", "text": format!("{person} called {}", sent["params"]["name"].as_str().unwrap_or_default())}]})
        }
    };
    http(
        "200 OK",
        &format!("mcp-session-id: {session}\r\n"),
        "application/json",
        &result(&sent["id"], &found),
    )
}

/// Saves the server `crm`. `more`: members of its `token_exchange`.
pub(crate) async fn save(gateway: &Gateway, issuer: &Issuer, server: &PersonServer, more: &Value) {
    let mut exchange =
        json!({"token_url": issuer.url(), "client_id": "gw", "client_secret": "very-secret-1"});
    exchange.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let object = json!({"name": "crm", "slug": "crm", "url": server.url(), "access": ALL(), "auth_type": "token_exchange",
        "configurations": {"token_exchange": exchange}});
    gateway.create("/v1/mcp-servers", &object).await;
}

/// A request of a client with this key or token.
pub(crate) async fn by(gateway: &Gateway, key: &str, path: &str, method: &str, params: Value) -> Got {
    let text = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let bearer = format!("Bearer {key}");
    post(gateway, path, &[("authorization", &bearer), ("mcp-protocol-version", "2025-06-18")], text).await
}

/// What a tool's call says.
pub(crate) async fn called(gateway: &Gateway, token: &str, tool: &str) -> String {
    let got = by(gateway, token, "/mcp", "tools/call", call(tool, json!({}))).await;
    got.result()["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{}", got.body)).to_owned()
}

/// The message of the error of a call.
pub(crate) async fn refused(gateway: &Gateway, token: &str) -> String {
    let got = by(gateway, token, "/mcp", "tools/call", call("crm__echo", json!({}))).await;
    got.body["error"]["message"].as_str().unwrap_or_else(|| panic!("no error: {}", got.body)).to_owned()
}
