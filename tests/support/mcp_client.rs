//! A client of the gateway's MCP endpoint, of either era, in raw HTTP; and MCP servers saved in the gateway's store.

use super::Gateway;
use super::client::client;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

/// The servers of the tests are on loopback, where nothing of the store may go by default.
pub(crate) const SETTINGS: &str = "custom_hosts: {allow: [127.0.0.1]}\n";
pub(crate) const ALL: fn() -> Value = || json!({"tools": {"allow": ["*"]}});
pub(crate) const NEW: &str = "2026-07-28";

pub(crate) async fn save(gateway: &Gateway, slug: &str, url: &str, access: &Value) {
    let mut object = json!({"name": slug, "slug": slug, "url": url});
    if !access.is_null() {
        object["access"] = access.clone();
    }
    gateway.create("/v1/mcp-servers", &object).await;
}

/// Has results, or texts of calls, denied that have the word `leaked`, in the first workspace. `list`: the member of its defaults.
pub(crate) async fn deny_leaks(gateway: &Gateway, list: &str) {
    let workspace = gateway.read("/v1/admin/workspaces").await["data"][0]["id"].clone();
    let checks = json!([{"id": "default.contains", "parameters": {"words": ["leaked"], "operator": "none"}}]);
    let guardrail = json!({"name": "leaks", "slug": "leaks", "workspace_id": workspace, "checks": checks, "actions": {"deny": true}});
    gateway.create("/v1/guardrails", &guardrail).await;
    let path = format!("/v1/admin/workspaces/{}", workspace.as_str().unwrap());
    let defaults = json!({"defaults": {list: ["leaks"]}});
    let set = gateway.control(reqwest::Method::PUT, &path).json(&defaults).send().await.unwrap();
    assert_eq!(set.status(), 200);
}

/// A response of the gateway.
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Got {
    pub(crate) fn result(&self) -> &Value {
        assert_eq!((self.status, &self.body["error"]), (200, &Value::Null), "{}", self.body);
        &self.body["result"]
    }

    pub(crate) fn code(&self) -> i64 {
        self.body["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {}", self.body))
    }

    pub(crate) fn names(&self, list: &str) -> Vec<String> {
        let items = self.result()[list].as_array().unwrap_or_else(|| panic!("{}", self.body));
        items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    }
}

pub(crate) async fn post(gateway: &Gateway, path: &str, headers: &[(&str, &str)], text: String) -> Got {
    let mut call = client().post(format!("{}{path}", gateway.data_url()));
    call = call
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        call = call.header(*name, *value);
    }
    let response = call.body(text).send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.unwrap();
    Got { status, headers, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
}

/// A request as clients up to 2025-11-25 send it.
pub(crate) async fn old(gateway: &Gateway, path: &str, method: &str, params: Value) -> Got {
    let text = json!({"jsonrpc": "2.0", "id": "c-1", "method": method, "params": params}).to_string();
    post(gateway, path, &[("mcp-protocol-version", "2025-06-18")], text).await
}

/// A request as clients from 2026-07-28 on send it.
pub(crate) async fn new(gateway: &Gateway, path: &str, method: &str, mut params: Value) -> Got {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": NEW, "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let named = params["name"].as_str().or(params["uri"].as_str()).map(str::to_owned);
    let text = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string();
    let mut headers = vec![("mcp-protocol-version", NEW), ("mcp-method", method)];
    headers.extend(named.as_deref().map(|name| ("mcp-name", name)));
    post(gateway, path, &headers, text).await
}

pub(crate) fn call(name: &str, arguments: Value) -> Value {
    json!({"name": name, "arguments": arguments})
}
