//! The gateway as an MCP server, on the running binary: clients of both eras before servers of each, what a client may use, and servers that
//! lie, hang, flood, redirect and lose their sessions.
//!
//! The servers are raw HTTP (`support::mcp_fake`); one test has the official Python SDK on both sides.

use crate::support::client::{client, new_trace};
use crate::support::mcp_client::{ALL, NEW, SETTINGS, call, new, old, post, save};
use crate::support::mcp_fake::{FakeEra, McpFake, body, http, result};
use crate::support::sdk_server::SdkServer;
use crate::support::{Gateway, packages, wait};
use serde_json::{Value, json};

#[tokio::test]
async fn clients_of_each_era_use_servers_of_each() {
    let gateway = Gateway::start(SETTINGS);
    let servers = [
        ("with-sessions", McpFake::start(FakeEra::Sessions).await),
        ("no-sessions", McpFake::start(FakeEra::Sessionless).await),
        ("stateless", McpFake::start(FakeEra::Stateless).await),
    ];
    for (slug, server) in &servers {
        save(&gateway, slug, &server.url(), &ALL()).await;
    }
    let wanted: Vec<String> = ["no-sessions", "stateless", "with-sessions"]
        .iter()
        .flat_map(|slug| ["echo", "write"].map(|tool| format!("{slug}__{tool}")))
        .collect();
    let begun =
        old(&gateway, "/mcp", "initialize", json!({"protocolVersion": "2025-06-18", "capabilities": {}}))
            .await;
    assert_eq!(begun.result()["protocolVersion"], "2025-06-18");
    assert!(
        begun.result()["capabilities"]["tools"].is_object() && begun.headers.get("mcp-session-id").is_none()
    );
    let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    let accepted = post(&gateway, "/mcp", &[], done).await;
    assert_eq!((accepted.status, accepted.body), (202, json!("")));
    assert_eq!(old(&gateway, "/mcp", "ping", json!({})).await.result(), &json!({}));
    let found = new(&gateway, "/mcp", "server/discover", json!({})).await;
    assert_eq!(found.result()["supportedVersions"][0], NEW, "{}", found.body);
    assert_eq!((&found.result()["resultType"], &found.body["id"]), (&json!("complete"), &json!(7)));

    let listed = old(&gateway, "/mcp", "tools/list", json!({})).await;
    assert_eq!(listed.names("tools"), wanted);
    assert_eq!((&listed.body["id"], &listed.result()["ttlMs"]), (&json!("c-1"), &Value::Null));
    assert_eq!(listed.result()["tools"][0]["x-unknown"], 1, "unknown members survive");
    let listed = new(&gateway, "/mcp", "tools/list", json!({})).await;
    assert_eq!(listed.names("tools"), wanted);
    assert_eq!(
        (&listed.result()["cacheScope"], &listed.result()["resultType"]),
        (&json!("private"), &json!("complete"))
    );
    assert!(listed.result()["ttlMs"].as_u64().unwrap() > 0);

    for (slug, server) in &servers {
        let name = format!("{slug}__echo");
        let called = old(&gateway, "/mcp", "tools/call", call(&name, json!({"a": 1.0, "b": "é"}))).await;
        assert_eq!(called.result()["content"][0]["text"], r#"{"a":1.0,"b":"é"}"#, "{slug}: {}", called.body);
        assert_eq!((&called.body["id"], &called.result()["x-unknown"]), (&json!("c-1"), &json!([1.5])));
        let called = new(&gateway, "/mcp", "tools/call", call(&name, json!({"a": 1}))).await;
        assert_eq!(called.result()["resultType"], "complete", "{slug}: {}", called.body);
        let alone = old(&gateway, &format!("/mcp/{slug}"), "tools/list", json!({})).await;
        assert_eq!(alone.names("tools"), ["echo", "write"], "{slug}");
        let params = json!({"name": "echo", "arguments": {}, "x-own": {"k": 1.50}});
        let called = new(&gateway, &format!("/mcp/{slug}"), "tools/call", params).await;
        assert_eq!(called.result()["content"][0]["text"], "{}", "{slug}: {}", called.body);
        let sent = server.received("tools/call").pop().unwrap();
        assert_eq!(
            (&body(&sent)["params"]["name"], &body(&sent)["params"]["x-own"]),
            (&json!("echo"), &json!({"k": 1.5}))
        );
        let first = if *slug == "stateless" { "server/discover" } else { "initialize" };
        assert_eq!(server.received(first).len(), 1, "{slug}: one session for all");
        assert_eq!(server.received("tools/list").len(), 2, "{slug}: each page once");
    }
}

#[tokio::test]
async fn what_is_not_allowed_is_unknown() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Sessions).await;
    save(&gateway, "closed", &server.url(), &Value::Null).await;
    save(&gateway, "reading", &server.url(), &json!({"tools": {"allow": ["*"], "read_only": true}})).await;
    save(&gateway, "some", &server.url(), &json!({"tools": {"allow": ["w*", "e*"], "deny": ["ec*"]},
        "prompts": {"allow": ["greet"]}, "resources": {"allow": ["file:///*", "item://*"], "deny": ["item://secret*"]}})).await;
    let listed = old(&gateway, "/mcp", "tools/list", json!({})).await;
    assert_eq!(listed.names("tools"), ["reading__echo", "some__write"]);
    for name in ["closed__echo", "reading__write", "some__echo", "some__none", "none__echo", "echo", ""] {
        let refused = old(&gateway, "/mcp", "tools/call", call(name, json!({}))).await;
        assert_eq!((refused.status, refused.code()), (200, -32602), "{name}");
        assert_eq!(refused.body["error"]["message"], format!("Unknown tool: {name}"));
    }
    assert!(server.received("tools/call").is_empty());
    let refused = old(&gateway, "/mcp/closed", "tools/list", json!({})).await;
    let none = old(&gateway, "/mcp/none", "tools/list", json!({})).await;
    assert_eq!((refused.status, none.status), (404, 404));

    let listed = old(&gateway, "/mcp", "prompts/list", json!({})).await;
    assert_eq!(listed.names("prompts"), ["some__greet"]);
    let got = new(&gateway, "/mcp", "prompts/get", json!({"name": "some__greet"})).await;
    assert_eq!(got.result()["description"], "greet");
    assert_eq!(old(&gateway, "/mcp", "prompts/get", json!({"name": "some__hidden"})).await.code(), -32602);
    assert_eq!(
        old(&gateway, "/mcp", "resources/list", json!({})).await.result()["resources"][0]["uri"],
        "file:///a"
    );
    for (uri, is_open) in
        [("file:///a", true), ("item://1", true), ("item://secret1", false), ("file:///b", false)]
    {
        let read = old(&gateway, "/mcp", "resources/read", json!({"uri": uri})).await;
        assert_eq!(read.body["result"]["contents"][0]["text"] == "read", is_open, "{uri}: {}", read.body);
    }
    assert_eq!(old(&gateway, "/mcp", "logging/setLevel", json!({"level": "info"})).await.code(), -32601);
    // Taken away, it is unknown with the next call.
    let path = "/v1/mcp-servers/some";
    let taken =
        gateway.control(reqwest::Method::PUT, path).json(&json!({"access": null})).send().await.unwrap();
    assert_eq!(taken.status(), 200);
    assert_eq!(old(&gateway, "/mcp", "tools/call", call("some__write", json!({}))).await.code(), -32602);
}

#[tokio::test]
async fn keys_scopes_and_origins_are_checked() {
    let keys = "auth:\n  keys:\n    - {name: operator, key: tp-operator-0123456789, scopes: [administration]}\n    \
        - {name: may, key: tp-may-0123456789, workspace: default}\n    \
        - {name: models, key: tp-models-0123456789, workspace: default, scopes: [completions.write]}\n    \
        - {name: spent, key: tp-spent-0123456789, workspace: default, usage_limits: [{credit_limit: 0, hard: true}]}\n    \
        - {name: rated, key: tp-rated-0123456789, workspace: default, rate_limits: [{unit: rpw, value: 2}]}\n";
    let gateway = Gateway::start(&format!("{SETTINGS}{keys}"));
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "tools", &server.url(), &ALL()).await;
    let text = || json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let none = post(&gateway, "/mcp", &[], text()).await;
    assert_eq!((none.status, none.headers["www-authenticate"].to_str().unwrap()), (401, "Bearer"));
    assert_eq!(none.body["jsonrpc"], "2.0", "{}", none.body);
    assert!(none.body["error"]["message"].is_string());
    let models = post(&gateway, "/mcp", &[("x-gateway-api-key", "tp-models-0123456789")], text()).await;
    assert_eq!((models.status, &models.body["jsonrpc"]), (403, &json!("2.0")), "{}", models.body);
    let may = post(&gateway, "/mcp", &[("authorization", "Bearer tp-may-0123456789")], text()).await;
    assert_eq!(may.names("tools"), ["tools__echo", "tools__write"]);
    let key = ("x-gateway-api-key", "tp-may-0123456789");
    let evil = post(&gateway, "/mcp", &[key, ("origin", "https://evil.example")], text()).await;
    assert_eq!((evil.status, &evil.body["jsonrpc"]), (403, &json!("2.0")));
    for method in [reqwest::Method::GET, reqwest::Method::DELETE, reqwest::Method::PUT] {
        let sent =
            client().request(method, format!("{}/mcp", gateway.data_url())).header(key.0, key.1).send();
        let refused = sent.await.unwrap();
        assert_eq!(
            (refused.status().as_u16(), refused.headers()["allow"].to_str().unwrap()),
            (405, "POST, OPTIONS")
        );
    }
    let called = || json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call("tools__echo", json!({}))});
    // It has no price.
    post(&gateway, "/mcp", &[("x-gateway-api-key", "tp-spent-0123456789")], called().to_string())
        .await
        .result();
    // Calls count in rates, and lists do not.
    let rated = ("x-gateway-api-key", "tp-rated-0123456789");
    let refused = wait::until("the rate to be used up", async || {
        assert_eq!(post(&gateway, "/mcp", &[rated], text()).await.status, 200);
        let got = post(&gateway, "/mcp", &[rated], called().to_string()).await;
        got.body["error"].is_object().then_some(got)
    })
    .await;
    assert_eq!(
        (refused.status, refused.code(), &refused.body["id"]),
        (200, -32000, &json!(1)),
        "{}",
        refused.body
    );
    assert!(refused.headers.contains_key("retry-after"), "{:?}", refused.headers);
}

#[tokio::test]
async fn messages_that_are_wrong_are_refused() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Sessions).await;
    save(&gateway, "tools", &server.url(), &ALL()).await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for text in [
        format!("[{ping}]"),
        "{".to_owned(),
        json!({"id": 1, "method": "ping"}).to_string(),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tools__echo","name":"tools__write"}}"#.to_owned(),
    ] {
        let refused = post(&gateway, "/mcp", &[], text.clone()).await;
        assert_eq!((refused.status, refused.code(), &refused.body["id"]), (400, -32600, &Value::Null), "{text}");
    }
    let version = post(&gateway, "/mcp", &[("mcp-protocol-version", "1999-01-01")], ping.to_string()).await;
    assert_eq!((version.status, version.code()), (400, -32022));
    assert_eq!(version.body["error"]["data"]["supported"][0], NEW);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": NEW});
    let text = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "tools__echo", "arguments": {}, "_meta": meta}});
    let version = ("mcp-protocol-version", NEW);
    let method = ("mcp-method", "tools/call");
    for headers in [
        &[][..],
        &[version],
        &[version, method],
        &[version, method, ("mcp-name", "tools__write")],
        &[version, ("mcp-method", "tools/list"), ("mcp-name", "tools__echo")],
        &[("mcp-protocol-version", "2025-11-25"), method, ("mcp-name", "tools__echo")],
    ] {
        let refused = post(&gateway, "/mcp", headers, text.to_string()).await;
        assert_eq!((refused.status, refused.code()), (400, -32020), "{headers:?}");
    }
    assert!(server.received("tools/call").is_empty());
    assert_eq!(new(&gateway, "/mcp", "initialize", json!({})).await.status, 404);
}

/// Clients of 2026-07-28 learn how long they may keep what they read, and that it is theirs alone.
#[tokio::test]
async fn stateless_clients_learn_how_long_lists_and_reads_may_be_kept() {
    let gateway = Gateway::start(SETTINGS);
    let all = json!({"allow": ["*"]});
    let access = json!({"tools": all, "prompts": all, "resources": all});
    let server = McpFake::start(FakeEra::Sessions).await;
    save(&gateway, "all", &server.url(), &access).await;
    let read = json!({"uri": "file:///a"});
    for (method, params, kept) in [
        ("server/discover", json!({}), Some(60_000)),
        ("tools/list", json!({}), Some(60_000)),
        ("prompts/list", json!({}), Some(60_000)),
        ("resources/list", json!({}), Some(60_000)),
        ("resources/templates/list", json!({}), Some(60_000)),
        ("resources/read", read.clone(), Some(0)),
        ("prompts/get", json!({"name": "all__greet"}), None),
    ] {
        let got = new(&gateway, "/mcp", method, params.clone()).await;
        let kept = kept.map_or((Value::Null, Value::Null), |kept| (json!(kept), json!("private")));
        let result = got.result();
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&kept.0, &kept.1), "{method}: {result}");
        assert_eq!(result["resultType"], "complete", "{method}");
        if method != "server/discover" {
            let result = old(&gateway, "/mcp", method, params).await.result().clone();
            let added = ["ttlMs", "cacheScope", "resultType"].map(|member| result[member].is_null());
            assert_eq!(added, [true; 3], "{method}: {result}");
        }
    }
}

#[tokio::test]
async fn a_stateless_request_without_its_meta_is_refused() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "tools", &server.url(), &ALL()).await;
    let headers = [("mcp-protocol-version", NEW), ("mcp-method", "tools/list")];
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    for (params, lacks) in [
        (json!({}), version),
        (json!({"_meta": {}}), version),
        (json!({"_meta": {capabilities: {}}}), version),
        (json!({"_meta": {version: NEW}}), capabilities),
        (json!({"_meta": {version: NEW, capabilities: "none"}}), capabilities),
    ] {
        let text = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": params});
        let refused = post(&gateway, "/mcp", &headers, text.to_string()).await;
        assert_eq!(
            (refused.status, refused.code(), &refused.body["id"]),
            (400, -32602, &json!(3)),
            "{params}"
        );
        assert!(refused.body["error"]["message"].as_str().unwrap().contains(lacks), "{}", refused.body);
    }
    assert!(server.provider.received().is_empty());
}

/// A page whose own name resolves to the gateway names itself in `Host` as well: without keys, that is no proof.
#[tokio::test]
async fn a_name_that_was_made_to_mean_the_gateway_is_refused_without_keys() {
    let gateway = Gateway::start(SETTINGS);
    let text = || json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let own = gateway.data_url().trim_start_matches("http://").to_owned();
    let port = own.rsplit_once(':').unwrap().1;
    for (name, is_own) in [("evil.example", false), ("127.0.0.1", true), ("localhost", true)] {
        let host = format!("{name}:{port}");
        let origin = format!("http://{host}");
        let got = post(&gateway, "/mcp", &[("host", &host), ("origin", &origin)], text()).await;
        let status = if is_own { 200 } else { 403 };
        assert_eq!((got.status, &got.body["jsonrpc"]), (status, &json!("2.0")), "{name}: {}", got.body);
    }
}

/// A result that needs more of its client is one for those who can be asked.
#[tokio::test]
async fn a_result_that_needs_input_is_an_error_to_clients_of_the_time_before() {
    let server = McpFake::with_answer(FakeEra::Stateless, |sent| {
        let needed =
            json!({"resultType": "input_required", "inputRequests": {"a": {"method": "roots/list"}}});
        Some(http("200 OK", "", "application/json", &result(&sent["id"], &needed)))
    })
    .await;
    let gateway = Gateway::start(SETTINGS);
    save(&gateway, "tools", &server.url(), &ALL()).await;
    let got = new(&gateway, "/mcp", "tools/call", call("tools__echo", json!({}))).await;
    assert_eq!(got.result()["inputRequests"]["a"]["method"], "roots/list", "{}", got.body);
    assert_eq!(
        (&got.result()["resultType"], &got.result()["ttlMs"]),
        (&json!("input_required"), &Value::Null)
    );
    let got = old(&gateway, "/mcp", "tools/call", call("tools__echo", json!({}))).await;
    assert_eq!((got.status, got.code(), &got.body["id"]), (200, -32603, &json!("c-1")), "{}", got.body);
    assert!(got.body["error"]["message"].as_str().unwrap().contains("needs input"), "{}", got.body);
}

#[tokio::test]
async fn a_lost_session_is_made_again_and_a_failing_server_spoils_no_list() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Sessions).await;
    let other = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "first", &server.url(), &ALL()).await;
    save(&gateway, "other", &other.url(), &ALL()).await;
    save(&gateway, "gone", "http://127.0.0.1:1/mcp", &ALL()).await;
    let listed = old(&gateway, "/mcp", "tools/list", json!({})).await;
    assert_eq!(listed.names("tools"), ["first__echo", "first__write", "other__echo", "other__write"]);
    let warning = listed.headers["x-gateway-warnings"].to_str().unwrap();
    assert_eq!(warning, "gone: not listed", "without the address");
    let lost = old(&gateway, "/mcp", "tools/call", call("gone__echo", json!({}))).await;
    assert_eq!((lost.status, lost.code(), &lost.body["id"]), (200, -32603, &json!("c-1")), "{}", lost.body);
    for _ in 0..2 {
        server.lose_sessions();
        let called = old(&gateway, "/mcp", "tools/call", call("first__echo", json!({"a": 1}))).await;
        assert_eq!(called.result()["content"][0]["text"], r#"{"a":1}"#);
    }
    assert_eq!(server.received("initialize").len(), 3);
    server.set_down(true);
    let failed = old(&gateway, "/mcp", "tools/call", call("first__echo", json!({}))).await;
    assert_eq!((failed.status, failed.code()), (200, -32603), "{}", failed.body);
    server.set_down(false);
    old(&gateway, "/mcp", "tools/call", call("first__echo", json!({}))).await.result();
}

#[tokio::test]
async fn servers_that_lie_are_refused() {
    const FLOOD: usize = 17 << 20;
    let server = McpFake::with_answer(FakeEra::Sessionless, |sent| {
        let json = |text: &str| http("200 OK", "", "application/json", text);
        let good = result(&sent["id"], &json!({"content": []}));
        Some(match sent["params"]["arguments"]["lie"].as_str()? {
            "id" => json(&result(&json!(424_242), &json!({"content": []}))),
            "events" => http("200 OK", "", "text/event-stream", &format!("data: {}\n\n", result(&json!(1), &json!({})))),
            "redirect" => http("307 Temporary Redirect", "location: http://127.0.0.1:1/\r\n", "text/plain", ""),
            "moved" => http("308 Permanent Redirect", "location: http://127.0.0.1:1/\r\n", "application/json", &good),
            "guarded" => http("401 Unauthorized", "www-authenticate: Bearer\r\n", "application/json", &good),
            "page" => http("200 OK", "", "text/html", "<html>"),
            "none" => json(""),
            "flood" => json(&result(&sent["id"], &json!({"content": [], "x": "y".repeat(FLOOD)}))),
            "broken" => b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 90\r\nconnection: close\r\n\r\n{".to_vec(),
            "cookie" => http("200 OK", "set-cookie: a=b\r\nmcp-session-id: theirs\r\n", "application/json", &good),
            other => panic!("{other}"),
        })
    })
    .await;
    let gateway = Gateway::start(&format!("{SETTINGS}limits: {{request_timeout_ms: 3000}}\n"));
    save(&gateway, "liar", &server.url(), &ALL()).await;
    for lie in ["id", "events", "page", "none", "flood", "redirect", "moved", "guarded"] {
        let got = old(&gateway, "/mcp", "tools/call", call("liar__echo", json!({"lie": lie}))).await;
        assert!(got.body["result"].is_null(), "{lie}: {} {}", got.status, got.body);
        assert!(got.body["error"]["code"].is_i64() && got.body["id"] == "c-1", "{lie}: {}", got.body);
        assert!(got.headers.get("location").or(got.headers.get("www-authenticate")).is_none(), "{lie}");
        assert_eq!((got.status, got.code()), (200, -32603), "{lie}: {}", got.body);
    }
    // The rest of it never comes.
    let got = old(&gateway, "/mcp", "tools/call", call("liar__echo", json!({"lie": "broken"}))).await;
    assert_eq!((got.status, &got.body["id"]), (200, &json!("c-1")), "{}", got.body);
    let got = old(&gateway, "/mcp", "tools/call", call("liar__echo", json!({"lie": "cookie"}))).await;
    assert_eq!(got.result(), &json!({"content": []}));
    assert!(got.headers.get("set-cookie").is_none() && got.headers.get("mcp-session-id").is_none());
}

/// A page of an origin that the settings list may read calls as it reads lists; of the server's headers it gets none.
#[tokio::test]
async fn a_listed_page_reads_lists_and_calls() {
    let server = McpFake::start(FakeEra::Sessionless).await;
    let gateway = Gateway::start(&format!("{SETTINGS}cors: {{origins: ['https://app.example']}}\n"));
    save(&gateway, "tools", &server.url(), &ALL()).await;
    for (method, params) in [("tools/list", json!({})), ("tools/call", call("tools__echo", json!({})))] {
        let text = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let got = post(&gateway, "/mcp", &[("origin", "https://app.example")], text).await;
        got.result();
        assert_eq!(got.headers["access-control-allow-origin"], "https://app.example", "{method}");
        assert!(got.headers.contains_key("x-gateway-trace-id"), "{method}: {:?}", got.headers);
    }
}

#[tokio::test]
async fn names_are_short_and_apart() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Stateless).await;
    let schema = json!({"type": "object"});
    let long = "t".repeat(200);
    let names = [long.clone(), format!("{long}u"), "größe".to_owned(), "a b".to_owned()];
    let tools: Vec<Value> = names.iter().map(|name| json!({"name": name, "inputSchema": schema})).collect();
    server.set_tools(json!(tools));
    // A pattern has no spaces.
    save(&gateway, "long", &server.url(), &json!({"tools": {"allow": ["t*", "gr*", "a*"]}})).await;
    let listed = old(&gateway, "/mcp", "tools/list", json!({})).await.names("tools");
    assert_eq!(listed.len(), 4, "{listed:?}");
    let mut called = Vec::new();
    for name in &listed {
        assert!(name.len() <= 64 && name.starts_with("long__"), "{name}");
        old(&gateway, "/mcp", "tools/call", call(name, json!({}))).await.result();
        let sent = server.received("tools/call").pop().unwrap();
        called.push(body(&sent)["params"]["name"].as_str().unwrap().to_owned());
    }
    called.sort_unstable();
    let mut names = names;
    names.sort_unstable();
    assert_eq!(called, names);
}

#[tokio::test]
async fn calls_are_logged_and_counted() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Sessions).await;
    save(&gateway, "tools", &server.url(), &ALL()).await;
    let send = async |trace: &str, arguments: Value| {
        let headers = [("x-gateway-trace-id", trace), ("x-gateway-metadata", r#"{"team":"a"}"#)];
        let text = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call("tools__echo", arguments)});
        post(&gateway, "/mcp", &headers, text.to_string()).await
    };
    let row = async |trace: &str| {
        let path = format!("/v1/logs?trace_id={trace}");
        wait::until("the row of a call", async || {
            gateway.read(&path).await["data"].as_array()?.first().cloned()
        })
        .await
    };
    let trace = new_trace();
    let called = send(&trace, json!({"a": 1})).await;
    called.result();
    assert_eq!(called.headers["x-gateway-trace-id"].to_str().unwrap(), trace);
    let line = gateway.access_line(&trace).await;
    assert_eq!(
        (&line["operation"], &line["status"], &line["slug"]),
        (&json!("mcp_call"), &json!(200), &json!("tools"))
    );
    let row_of_call = row(&trace).await;
    for (member, wanted) in [
        ("operation", json!("mcp_call")),
        ("ai_model", json!("tools__echo")),
        ("ai_org", json!("mcp")),
        ("is_success", json!(true)),
        ("metadata", json!({"team": "a"})),
    ] {
        assert_eq!(row_of_call[member], wanted, "{member}: {row_of_call}");
    }
    // A session that is lost is an attempt of the same call.
    server.lose_sessions();
    let trace = new_trace();
    send(&trace, json!({})).await.result();
    let line = gateway.access_line(&trace).await;
    let statuses: Vec<&Value> =
        line["attempts"].as_array().unwrap().iter().map(|attempt| &attempt["status"]).collect();
    assert_eq!(statuses, [&json!(404), &json!(200)], "{line}");

    // A tool that fails is a failure in the log, and a response like any other for the client.
    let trace = new_trace();
    assert_eq!(send(&trace, json!({"fail": true})).await.result()["isError"], true);
    let line = gateway.access_line(&trace).await;
    assert_eq!((&line["error_code"], &line["status"]), (&json!("tool_failed"), &json!(200)), "{line}");
    assert_eq!(row(&trace).await["error_code"], "tool_failed");
    gateway.idle().await;
    let metrics = gateway.metrics().await;
    for series in [r#"turnpike_errors_total{code="tool_failed"} 1"#, r#"operation="mcp_call",provider="mcp""#]
    {
        assert!(metrics.contains(series), "{series}: {metrics}");
    }
}

/// The workspace's default guardrails judge arguments before they are sent, and results before the client has them.
#[tokio::test]
async fn guardrails_judge_arguments_and_results() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Sessions).await;
    let made = gateway.create("/v1/admin/workspaces", &json!({"name": "own", "slug": "own"})).await;
    let id = &made["id"];
    for (slug, word) in [("arguments", "forbidden"), ("results", "leaked")] {
        let checks = json!([{"id": "default.contains", "parameters": {"words": [word], "operator": "none"}}]);
        let guardrail = json!({"name": slug, "slug": slug, "workspace_id": id, "checks": checks, "actions": {"deny": true}});
        gateway.create("/v1/guardrails", &guardrail).await;
    }
    let defaults = json!({"defaults": {"input_guardrails": ["arguments"], "output_guardrails": ["results"]}});
    let path = format!("/v1/admin/workspaces/{}", id.as_str().unwrap());
    let set = gateway.control(reqwest::Method::PUT, &path).json(&defaults).send().await.unwrap();
    assert_eq!(set.status(), 200, "{}", set.text().await.unwrap());
    let key = json!({"name": "own", "workspace_id": id, "scopes": ["mcp.invoke"]});
    let key = gateway.create("/v1/api-keys/workspace/service", &key).await;
    let saved =
        json!({"name": "t", "slug": "tools", "workspace_id": id, "url": server.url(), "access": ALL()});
    gateway.create("/v1/mcp-servers", &saved).await;
    let send = async |arguments: Value| {
        let text = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call("tools__echo", arguments)});
        post(&gateway, "/mcp", &[("x-gateway-api-key", key["key"].as_str().unwrap())], text.to_string()).await
    };
    let passed = send(json!({"a": "fine"})).await;
    assert_eq!(passed.result()["content"][0]["text"], r#"{"a":"fine"}"#);
    assert_eq!(passed.body.as_object().unwrap().len(), 3, "{}", passed.body);
    for (arguments, calls) in [(json!({"a": [{"b": "it is forbidden"}]}), 1), (json!({"a": "leaked"}), 2)] {
        let denied = send(arguments.clone()).await;
        assert_eq!(
            (denied.status, denied.code(), &denied.body["id"]),
            (200, -32000, &json!(1)),
            "{}",
            denied.body
        );
        assert!(
            denied.body["result"].is_null() && !denied.body.to_string().contains("leaked"),
            "{}",
            denied.body
        );
        assert_eq!(server.received("tools/call").len(), calls, "{arguments}");
    }
    // Clients of other workspaces do not see the server.
    let other = old(&gateway, "/mcp", "tools/list", json!({})).await;
    assert_eq!(other.names("tools"), Vec::<String>::new());
}

/// A client that leaves ends the call to the server.
#[tokio::test]
async fn a_client_that_leaves_ends_its_call() {
    let server = McpFake::with_answer(FakeEra::Sessions, |_| {
        // The rest never comes.
        Some(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{".to_vec())
    })
    .await;
    let gateway = Gateway::start(SETTINGS);
    save(&gateway, "slow", &server.url(), &ALL()).await;
    let trace = new_trace();
    let text =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call("slow__echo", json!({}))});
    let url = format!("{}/mcp", gateway.data_url());
    let sent = client().post(url).header("x-gateway-trace-id", &trace).json(&text).send();
    let sent = tokio::spawn(sent);
    wait::until("the call", async || (!server.received("tools/call").is_empty()).then_some(())).await;
    sent.abort();
    let line = gateway.access_line(&trace).await;
    assert_eq!((&line["status"], &line["operation"]), (&json!(499), &json!("mcp_call")), "{line}");
    let cancelled =
        wait::until("the cancellation", async || server.received("notifications/cancelled").pop()).await;
    let called = body(&server.received("tools/call").pop().unwrap());
    assert_eq!(body(&cancelled)["params"]["requestId"], called["id"]);
    gateway.idle().await;
}

/// The official SDK on both sides: clients that initialize and clients that discover, before servers with sessions and without.
#[tokio::test]
async fn the_official_sdk_works_on_both_sides() {
    let Some(server) = SdkServer::start() else { return };
    let gateway = Gateway::start(SETTINGS);
    let all = json!({"allow": ["*"]});
    for name in ["stateful", "stateless"] {
        save(&gateway, name, &server.url(name), &json!({"tools": all, "prompts": all, "resources": all}))
            .await;
    }
    let url = format!("{}/mcp", gateway.data_url());
    for (mode, version) in [("legacy", "2025-11-25"), ("auto", NEW), (NEW, NEW)] {
        for name in ["stateful", "stateless"] {
            let mut command = packages::python("mcp", "mcp_client.py").expect("its server has started");
            let ran = command.args([&url, name, mode]).output().unwrap();
            let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
            let found: Value =
                serde_json::from_str(&out).unwrap_or_else(|_| panic!("{mode} {name}: {out} {err}"));
            for (member, wanted) in [
                ("version", json!(version)),
                (
                    "tools",
                    json!(["stateful__add", "stateful__subtract", "stateless__add", "stateless__subtract"]),
                ),
                ("sum", json!("42")),
                ("structured", json!({"result": 42})),
                ("failed", json!(true)),
                ("prompt", json!("Greet Ann.")),
                ("resource", json!("{}")),
            ] {
                assert_eq!(found[member], wanted, "{mode} {name} {member}: {found}");
            }
            assert!(found["unknown"].as_str().unwrap().contains("Unknown tool"), "{found}");
        }
    }
}
