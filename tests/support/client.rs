//! An HTTP client for tests, and the requests most tests send.
//!
//! Not an SDK: those are in tests/sdk. Use `raw` to send what no HTTP client would.

use super::gateway::Gateway;
use super::settings::KEY;
use reqwest::{Client, ClientBuilder, RequestBuilder};
use serde_json::{Value, json};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A new client. Its connections live on the runtime of the test that created it, so tests cannot share one.
pub(crate) fn client() -> Client {
    install_ring();
    let client = plain_http().redirect(reqwest::redirect::Policy::none());
    client.timeout(Duration::from_secs(60)).build().unwrap()
}

/// A client that uses every connection once: the gateway closes a connection whose stream ended in an error,
/// and a request just being sent on it would be lost.
pub(crate) fn fresh_client() -> Client {
    install_ring();
    let client = plain_http().pool_max_idle_per_host(0);
    client.timeout(Duration::from_secs(90)).build().unwrap()
}

/// For `http://` only: reading the system's certificates costs 10 ms of CPU time a client.
fn plain_http() -> ClientBuilder {
    Client::builder().no_proxy().tls_certs_only([])
}

/// Installs the process's TLS provider, which reqwest and tungstenite need.
pub(crate) fn install_ring() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| rustls::crypto::ring::default_provider().install_default().unwrap());
}

/// A trace id that no other test uses.
pub(crate) fn new_trace() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// `POST {base_url}/chat/completions` with the service key, to `@emulator`; the calling test adds the rest.
pub(crate) fn chat(gateway: &Gateway, trace: &str, body: &Value) -> RequestBuilder {
    let call = client().post(format!("{}/chat/completions", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator");
    call.header("x-gateway-trace-id", trace).json(body)
}

/// Sends it and returns its status.
pub(crate) async fn status(call: RequestBuilder) -> u16 {
    let response = call.send().await.unwrap();
    let status = response.status().as_u16();
    response.bytes().await.unwrap();
    status
}

/// The smallest chat body.
pub(crate) fn hello(stream: bool) -> Value {
    json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Say hello."}], "stream": stream})
}

/// `POST {base_url}/chat/completions` with a provider's name, the client's own key and a custom host, none of
/// them stored.
pub(crate) fn chat_at(gateway: &Gateway, trace: &str, host: &str, body: &Value) -> RequestBuilder {
    let call =
        client().post(format!("{}/chat/completions", gateway.base_url())).bearer_auth("sk-callers-own-0123");
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "openai");
    call.header("x-gateway-custom-host", host).header("x-gateway-trace-id", trace).json(body)
}
