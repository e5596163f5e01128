//! The ledger on the running binary: rows of requests and attempts, their bodies, feedback, logs of others, and a log store that is away.
//!
//! What the writer, the spool and the databases do alone is tested beside the code (`src/memory/ledger/tests`).

use crate::support::client::{chat, client, hello, new_trace, status};
use crate::support::settings::{KEY, OTHER_KEY, PROVIDER_KEY, STANDARD};
use crate::support::{Gateway, postgres_server, wait};
use reqwest::Method;
use serde_json::{Value, json};

/// The standard settings on SQLite, and on PostgreSQL where there is one.
fn gateways(more: &str) -> Vec<Gateway> {
    let mut all = vec![Gateway::start(&format!("{STANDARD}{more}"))];
    if let Some(server) = postgres_server::shared() {
        let store =
            format!("store: {{url: '{}', encryption_key: '{}'}}\n", server.new_database(), "5a".repeat(32));
        all.push(Gateway::start(&format!("{STANDARD}{more}{store}")));
    }
    all
}

async fn call(gateway: &Gateway, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let response = gateway.control(method, path).json(body).send().await.unwrap();
    let status = response.status().as_u16();
    (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or_default())
}

async fn get(gateway: &Gateway, path: &str) -> Value {
    let (status, body) = call(gateway, Method::GET, path, &Value::Null).await;
    assert_eq!(status, 200, "{path}: {body}");
    body
}

/// The logs that a query finds, once they are as many as wanted.
async fn logs(gateway: &Gateway, query: &str, count: usize) -> Vec<Value> {
    wait::until("the logs", async || {
        let found = get(gateway, &format!("/v1/logs?{query}")).await;
        let data = found["data"].as_array().unwrap().clone();
        (data.len() == count).then_some(data)
    })
    .await
}

/// A failure with retries is one row with three attempts, which are found as well.
async fn attempts_are_found(gateway: &Gateway, failing: &str) {
    let config = r#"{"provider":"@emulator","retry":{"attempts":2,"on_status_codes":[503]}}"#;
    let request = chat(gateway, failing, &hello(false)).header("x-gateway-config", config);
    assert_eq!(status(request.header("x-emulator-script", "status=503")).await, 503);
    let log = logs(gateway, &format!("trace_id={failing}&status_code=503"), 1).await.remove(0);
    let one = get(gateway, &format!("/v1/logs/{}", log["id"].as_str().unwrap())).await;
    assert_eq!(one["attempts"].as_array().unwrap().len(), 3, "{one}");
    assert_eq!(one["attempts"][2]["response_status_code"], 503);
    // An attempt is kept in the row of its request, and found by its own id as well.
    let attempt = &one["attempts"][1];
    let found = get(gateway, &format!("/v1/logs/{}", attempt["id"].as_str().unwrap())).await;
    for name in ["id", "trace_id", "created_at", "ai_model", "response_time", "error_code"] {
        assert_eq!(found["metrics"][name], attempt[name], "{name}: {found}");
    }
    assert_eq!(get(gateway, &format!("/v1/logs/{failing}")).await["_id"], log["id"]);
    assert_eq!(one["request"]["body"], Value::Null, "bodies are off");
}

#[tokio::test]
async fn the_user_of_a_row_is_that_of_the_metadata_or_of_the_key() {
    let gateway = Gateway::start(STANDARD);
    let made = async |path: &str, body: Value| {
        let (status, body) = call(&gateway, Method::POST, path, &body).await;
        assert!(status < 300, "{path}: {status} {body}");
        body
    };
    let workspaces = json!([{"id": "default", "role": "member"}]);
    let invite = json!({"email": "ann@example.com", "role": "member", "workspaces": workspaces});
    let invited = made("/v1/admin/users/invites", invite).await;
    let accept = format!("/v1/admin/users/invites/{}/accept", invited["id"].as_str().unwrap());
    let user = made(&accept, json!({})).await["id"].as_str().unwrap().to_owned();
    let key =
        json!({"name": "own", "user_id": user, "workspace_id": "default", "scopes": ["completions.write"]});
    let key = made("/v1/api-keys/workspace/user", key).await["key"].as_str().unwrap().to_owned();
    for (metadata, expected) in
        [("{}", user.as_str()), (r#"{"_user":"bob"}"#, "bob"), (r#"{"team":"a"}"#, user.as_str())]
    {
        let trace = new_trace();
        let url = format!("{}/chat/completions", gateway.base_url());
        let request = client().post(url).header("x-gateway-api-key", &key).json(&hello(false));
        let request = request.header("x-gateway-metadata", metadata).header("x-gateway-trace-id", &trace);
        assert_eq!(status(request.header("x-gateway-config", r#"{"provider":"@emulator"}"#)).await, 200);
        let log = logs(&gateway, &format!("trace_id={trace}"), 1).await.remove(0);
        assert_eq!(log["user"], expected, "{metadata}: {log}");
    }
}

#[tokio::test]
async fn each_request_has_a_row_with_its_attempts() {
    for gateway in gateways("") {
        let trace = new_trace();
        let call_with = |body: &Value| {
            chat(&gateway, &trace, body)
                .header("x-gateway-span-id", "s1")
                .header("x-gateway-parent-span-id", "root")
                .header("x-gateway-span-name", "first step")
                .header("x-gateway-metadata", r#"{"_user":"ann","team":"a\u0000b"}"#)
        };
        assert_eq!(status(call_with(&hello(false))).await, 200);
        let log = logs(&gateway, &format!("trace_id={trace}"), 1).await.remove(0);
        let wanted = json!({
            "trace_id": trace, "span_id": "s1", "parent_span_id": "root", "span_name": "first step", "user": "ann",
            "api_key_id": "tests", "virtual_key": "emulator", "ai_org": "openai", "ai_model": "gpt-4o-mini",
            "response_status_code": 200, "is_success": true, "request_url": "/v1/chat/completions",
            "operation": "chat", "object": "log",
        });
        for (name, value) in wanted.as_object().unwrap() {
            assert_eq!(&log[name], value, "{name}: {log}");
        }
        assert!(log["total_units"].as_u64() > Some(1) && log["response_time"].as_f64() > Some(0.0), "{log}");
        let failing = new_trace();
        attempts_are_found(&gateway, &failing).await;
        // Filters and paging, the newest first.
        let all = logs(&gateway, "page_size=10", 2).await;
        assert_eq!(all[0]["trace_id"], failing.as_str());
        assert_eq!(logs(&gateway, "page_size=1&current_page=1", 1).await[0]["trace_id"], trace.as_str());
        for (query, count) in [
            ("metadata=%7B%22_user%22:%22ann%22%7D", 1),
            ("virtual_keys=emulator&api_key_ids=tests", 2),
            ("ai_org_model=openai__gpt-4o-mini&status_code=200", 1),
            ("ai_model=other", 0),
            ("time_of_generation_max=2020-01-01T00:00:00Z", 0),
            ("prompt_token_min=100000", 0),
        ] {
            logs(&gateway, query, count).await;
        }
        let (status_of_bad, bad) =
            call(&gateway, Method::GET, "/v1/logs?status_code=x&ai_org_model=y", &Value::Null).await;
        assert_eq!(
            (status_of_bad, bad["error"]["details"].as_array().map(Vec::len)),
            (400, Some(2)),
            "{bad}"
        );
        let unknown = format!("/v1/logs/{}", new_trace());
        assert_eq!(call(&gateway, Method::GET, &unknown, &Value::Null).await.0, 404);
        // A request that is not to be logged.
        let ignored = new_trace();
        let request = chat(&gateway, &ignored, &hello(false)).header("x-gateway-ignore-service-log", "true");
        let response = request.send().await.unwrap();
        assert_eq!((response.status().as_u16(), response.headers().get("x-gateway-warnings")), (200, None));
        assert_eq!(status(chat(&gateway, &trace, &hello(true))).await, 200);
        logs(&gateway, &format!("trace_id={trace}"), 2).await;
        logs(&gateway, &format!("trace_id={ignored}"), 0).await;
    }
}

#[tokio::test]
async fn clients_cannot_leave_the_log_where_the_settings_forbid_it() {
    let gateway = Gateway::start(&format!("{STANDARD}logs: {{allow_ignore: false}}\n"));
    let trace = new_trace();
    let request = chat(&gateway, &trace, &hello(false)).header("x-gateway-ignore-service-log", "true");
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    let warning = "ignore-service-log has no effect: logs.allow_ignore is false";
    assert_eq!(response.headers()["x-gateway-warnings"], warning);
    logs(&gateway, &format!("trace_id={trace}"), 1).await;
    assert_eq!(gateway.access_line(&trace).await["warnings"], warning);
}

#[tokio::test]
async fn a_refused_request_has_the_model_that_it_named() {
    for gateway in gateways("") {
        let policy = |key: &str, value: &str| {
            json!({
                "conditions": [{"key": key, "value": value}], "group_by": [{"key": key}], "type": "tokens", "credit_limit": 0,
            })
        };
        // One is for requests as a whole, one for their target.
        for policy in [policy("metadata._user", "ann"), policy("virtual_key", "together-emulator")] {
            let (status, made) = call(&gateway, Method::POST, "/v1/policies/usage-limits", &policy).await;
            assert_eq!(status, 200, "{made}");
        }
        let mut body = hello(false);
        let refused = async |body: &Value, header: (&str, &str), code: u16| {
            let trace = new_trace();
            let request = chat(&gateway, &trace, body).header(header.0, header.1);
            assert_eq!(status(request).await, code, "{header:?}");
            let log = logs(&gateway, &format!("trace_id={trace}"), 1).await.remove(0);
            assert_eq!(
                (&log["ai_model"], &log["response_status_code"]),
                (&json!("gpt-4o-mini"), &json!(code))
            );
        };
        refused(&body, ("x-gateway-metadata", r#"{"_user":"ann"}"#), 412).await;
        refused(&body, ("x-gateway-config", r#"{"provider":"@together-emulator"}"#), 412).await;
        refused(&body, ("x-gateway-config", r#"{"provider":"@gone"}"#), 400).await;
        body["temperature"] = json!("hot");
        refused(&body, ("x-gateway-debug", "true"), 400).await;
        body["model"] = json!("@together-emulator/gpt-4o-mini");
        refused(&body, ("x-gateway-debug", "true"), 400).await;
    }
}

#[tokio::test]
async fn bodies_are_kept_where_the_operator_wants_them() {
    for gateway in gateways("logs: {payloads: all, max_payload_bytes: 65536}\n") {
        let whole = new_trace();
        let streamed = new_trace();
        let none = new_trace();
        assert_eq!(status(chat(&gateway, &whole, &hello(false))).await, 200);
        assert_eq!(status(chat(&gateway, &streamed, &hello(true))).await, 200);
        assert_eq!(
            status(chat(&gateway, &none, &hello(false)).header("x-gateway-debug", "false")).await,
            200
        );
        logs(&gateway, "", 3).await;
        let log = get(&gateway, &format!("/v1/logs/{whole}")).await;
        assert_eq!(log["request"]["body"], hello(false), "{log}");
        assert_eq!(log["response"]["body"]["object"], "chat.completion", "{log}");
        let log = get(&gateway, &format!("/v1/logs/{streamed}")).await;
        let events = log["response"]["body"].as_str().unwrap_or_default();
        assert!(events.starts_with("data: ") && events.contains("[DONE]"), "{log}");
        let log = get(&gateway, &format!("/v1/logs/{none}")).await;
        assert_eq!((&log["request"]["body"], &log["response"]["body"]), (&Value::Null, &Value::Null));
        assert_eq!(log["originalResponse"], Value::Null, "nothing was made of it: {log}");
        // What a provider of another kind sent: whole, as a stream, as an error.
        for (body, script, marks) in [
            (hello(false), "", ["\"type\":\"message\"", "\"object\":\"chat.completion\""]),
            (hello(true), "", ["message_start", "chat.completion.chunk"]),
            (hello(false), "status=400", ["\"type\":\"error\"", "\"code\""]),
        ] {
            let trace = new_trace();
            let mut body = body;
            body["model"] = "claude-sonnet-4-5".into();
            let call = chat(&gateway, &trace, &body)
                .header("x-gateway-config", r#"{"provider":"@anthropic-emulator"}"#);
            status(call.header("x-emulator-script", script)).await;
            logs(&gateway, &format!("trace_id={trace}"), 1).await;
            let log = get(&gateway, &format!("/v1/logs/{trace}")).await;
            let original = log["originalResponse"].to_string();
            let sent = log["response"]["body"].to_string();
            let original = original.replace("\\\"", "\"");
            let sent = sent.replace("\\\"", "\"");
            assert!(original.contains(marks[0]) && !sent.contains(marks[0]), "{script}: {log}");
            assert!(sent.contains(marks[1]) && !original.contains(marks[1]), "{script}: {log}");
            assert!(!log["transformedRequest"].is_null(), "{log}");
        }
        // A long one is cut.
        let long = new_trace();
        let mut body = hello(false);
        body["messages"][0]["content"] = "long ".repeat(20_000).into();
        assert_eq!(status(chat(&gateway, &long, &body)).await, 200);
        logs(&gateway, "", 7).await;
        let log = get(&gateway, &format!("/v1/logs/{long}")).await;
        assert_eq!(log["request"]["body"]["cut"], true, "{log}");
        assert!(log["request"]["body"]["bytes"].as_u64() > Some(100_000));
    }
}

/// A chat with this text, by this key.
async fn sent(gateway: &Gateway, key: &str, text: &str, script: &str) -> String {
    let trace = new_trace();
    let mut body = hello(false);
    body["messages"][0]["content"] = text.into();
    let call = client().post(format!("{}/chat/completions", gateway.base_url())).json(&body);
    let call = call.header("x-gateway-api-key", key).header("x-gateway-provider", "@emulator");
    let call = call.header("x-gateway-trace-id", &trace).header("x-emulator-script", script);
    status(call).await;
    logs(gateway, &format!("trace_id={trace}"), 1).await;
    trace
}

#[tokio::test]
async fn a_key_decides_whose_bodies_are_kept_and_keys_of_providers_are_masked() {
    let of_others = format!("key: {OTHER_KEY}");
    let settings = STANDARD.replace(&of_others, &format!("{of_others}, log_payloads: all"));
    assert_ne!(settings, STANDARD);
    let gateway = Gateway::start(&settings);
    let key = json!({"name": "k", "scopes": ["completions.write"], "defaults": {"log_payloads": "errors"}});
    let (_, made) = call(&gateway, Method::POST, "/v1/api-keys/workspace/service", &key).await;
    let stored = made["key"].as_str().unwrap();
    let text = format!("my key is {PROVIDER_KEY}, canary");
    for (key, script, is_kept) in [
        (KEY, "", false),
        (OTHER_KEY, "", true),
        (OTHER_KEY, "status=500", true),
        (stored, "", false),
        (stored, "status=500", true),
    ] {
        let trace = sent(&gateway, key, &text, script).await;
        let log = get(&gateway, &format!("/v1/logs/{trace}")).await;
        let body = log["request"]["body"].to_string();
        assert_eq!(body.contains("canary"), is_kept, "{script}: {log}");
        assert_eq!(log["response"]["body"].is_null(), !is_kept, "{script}: {log}");
        assert!(!log.to_string().contains(PROVIDER_KEY) && !log.to_string().contains(key), "{log}");
    }
    let wrong = json!({"name": "k", "scopes": ["completions.write"], "defaults": {"log_payloads": "some"}});
    let (status, refused) = call(&gateway, Method::POST, "/v1/api-keys/workspace/service", &wrong).await;
    let path = &refused["error"]["details"][0]["path"];
    assert_eq!((status, path), (400, &json!("defaults.log_payloads")), "{refused}");
}

#[tokio::test]
async fn feedback_and_logs_of_others_are_kept_or_refused_as_a_whole() {
    for gateway in gateways("") {
        let both = json!([{"trace_id": "t1", "value": 5}, {"trace_id": "t1", "value": 11}]);
        let (status, refused) = call(&gateway, Method::POST, "/v1/feedback", &both).await;
        assert_eq!(
            (status, &refused["error"]["details"][0]["path"]),
            (400, &json!("[1].value")),
            "{refused}"
        );
        let both = json!([{"trace_id": "t1", "value": 5}, {"trace_id": "t1", "value": -3, "weight": 0.5}]);
        let (status, kept) = call(&gateway, Method::POST, "/v1/feedback", &both).await;
        assert_eq!((status, kept["feedback_ids"].as_array().map(Vec::len)), (200, Some(2)), "{kept}");
        let path = format!("/v1/feedback/{}", kept["feedback_ids"][1].as_str().unwrap());
        assert_eq!(call(&gateway, Method::PUT, &path, &json!({"value": 9})).await.0, 200);
        assert_eq!(call(&gateway, Method::PUT, "/v1/feedback/x", &json!({"value": 9})).await.0, 404);
        let log = json!({
            "request": {"url": "https://api.example.com/v1/chat?key=canary", "provider": "openai", "body": {"model": "m"},
                        "headers": {"authorization": "Bearer canary"}},
            "response": {"status": 200, "body": {"usage": {"prompt_tokens": 3, "completion_tokens": 4}}, "response_time": 250},
            "metadata": {"trace_id": "t1", "span_name": "theirs", "_user": "bob"},
        });
        let (status, kept) = post_logs(&gateway, &json!([log, log])).await;
        assert_eq!((status, kept["ids"].as_array().map(Vec::len)), (200, Some(2)), "{kept}");
        let (status, refused) = post_logs(&gateway, &json!([log, {"request": {}}])).await;
        assert_eq!(
            (status, refused["error"]["details"].as_array().map(Vec::len)),
            (400, Some(3)),
            "{refused}"
        );
        // (5 + 9 × 0.5) / 2 = 4.75.
        assert_eq!(
            logs(&gateway, "trace_id=t1&weighted_feedback_min=4.7&weighted_feedback_max=4.8", 2).await.len(),
            2
        );
        let one = get(&gateway, &format!("/v1/logs/{}", kept["ids"][0].as_str().unwrap())).await;
        assert_eq!(
            (&one["metrics"]["total_units"], &one["metrics"]["user"]),
            (&json!(7), &json!("bob")),
            "{one}"
        );
        assert_eq!(one["log_format"], "custom");
        assert!(!one.to_string().contains("canary"), "{one}");
    }
}

/// Sends logs with a key that may call.
async fn post_logs(gateway: &Gateway, body: &Value) -> (u16, Value) {
    let call =
        client().post(format!("{}/logs", gateway.base_url())).header("x-gateway-api-key", KEY).json(body);
    let response = call.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// `/readyz` and metrics while the log store is away, and when it is back.
async fn ledger_of(gateway: &Gateway) -> Value {
    let ready = client().get(format!("{}/readyz", gateway.control_url())).send().await.unwrap();
    assert_eq!(ready.status().as_u16(), 200);
    ready.json::<Value>().await.unwrap()["ledger"].clone()
}

#[tokio::test]
async fn requests_go_on_without_postgresql_and_their_rows_arrive_once() {
    // Its own: it is stopped.
    let Some(server) = postgres_server::Server::start() else { return };
    let gateway = Gateway::start(&format!("{STANDARD}logs: {{url: '{}'}}\n", server.new_database()));
    let trace = new_trace();
    assert_eq!(status(chat(&gateway, &trace, &hello(false))).await, 200);
    logs(&gateway, &format!("trace_id={trace}"), 1).await;
    server.kill();
    for _ in 0..30 {
        assert_eq!(status(chat(&gateway, &trace, &hello(false))).await, 200);
    }
    wait::until("the rows in the spool", async || {
        // More where the answer to a write of the first request's rows was lost.
        (gateway.metric("turnpike_ledger_rows_spooled_total").await >= Some(30.0)).then_some(())
    })
    .await;
    let ledger = ledger_of(&gateway).await;
    assert!(ledger["available"] == false && ledger["spool_bytes"].as_u64() > Some(10_000), "{ledger}");
    assert_eq!(gateway.metric("turnpike_ledger_available").await, Some(0.0));
    let (refused, _) = call(&gateway, Method::GET, "/v1/logs", &Value::Null).await;
    assert_eq!(refused, 503);
    // What is in the spool outlives the process.
    let gateway = gateway.killed_and_started_again();
    server.run();
    let query = format!("trace_id={trace}&page_size=100");
    assert_eq!(logs(&gateway, &query, 31).await.len(), 31);
    wait::until("an empty spool", async || (ledger_of(&gateway).await["spool_bytes"] == 0).then_some(()))
        .await;
    assert_eq!(logs(&gateway, &query, 31).await.len(), 31);
    assert_eq!(ledger_of(&gateway).await["rows_dropped"], 0);
}

#[tokio::test]
async fn a_path_that_fails_stops_no_request() {
    let folder = tempfile::tempdir().unwrap();
    let blocker = folder.path().join("blocked");
    std::fs::write(&blocker, "").unwrap();
    let url = format!("sqlite://{}/logs.db", blocker.display());
    let gateway = Gateway::start(&format!("{STANDARD}logs: {{url: '{url}'}}\n"));
    let trace = new_trace();
    for _ in 0..10 {
        assert_eq!(status(chat(&gateway, &trace, &hello(false))).await, 200);
    }
    wait::until("the rows in the spool", async || {
        (ledger_of(&gateway).await["spool_bytes"].as_u64() > Some(1000)).then_some(())
    })
    .await;
    std::fs::remove_file(&blocker).unwrap();
    logs(&gateway, &format!("trace_id={trace}"), 10).await;
    // What waits at a stop is written.
    assert_eq!(status(chat(&gateway, &trace, &hello(false))).await, 200);
    gateway.terminate();
    gateway.ended().await;
    let rows = rusqlite::Connection::open(blocker.join("logs.db")).unwrap();
    let tables =
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'rows%' ORDER BY name DESC";
    let table: String = rows.query_row(tables, [], |row| row.get(0)).unwrap();
    let count = format!("SELECT count(*) FROM {table} WHERE kind = 0");
    assert_eq!(rows.query_row(&count, [], |row| row.get::<_, i64>(0)).unwrap(), 11);
}

/// Numbers that no sum has room for, of a tenant or of a provider that it names, stop nobody's rows.
#[tokio::test]
async fn absurd_usage_stops_no_row() {
    for gateway in gateways("") {
        let log = |tokens: f64| {
            json!({
                "request": {"url": "https://example.com/v1/chat/completions", "provider": "openai", "body": {"model": "gpt-4o"}},
                "response": {"body": {"usage": {"prompt_tokens": tokens, "completion_tokens": tokens}}},
            })
        };
        for _ in 0..2 {
            let logs = json!([log(9e18), log(9e18), log(9e18), log(1e300)]);
            assert_eq!(post_logs(&gateway, &logs).await.0, 200);
        }
        assert_eq!(post_logs(&gateway, &log(7.0)).await.0, 200);
        let found = logs(&gateway, "total_units_max=14", 1).await;
        assert_eq!(found[0]["total_units"], 14, "{found:?}");
        logs(&gateway, "", 9).await;
        assert_eq!(ledger_of(&gateway).await["available"], true);
    }
}

/// What others have used costs what it costs here, and is unknown where it is.
#[tokio::test]
async fn logs_of_others_are_priced() {
    let gateway = Gateway::start(STANDARD);
    let log = |provider: Value, model: &str| {
        json!({
            "request": {"url": "https://example.com/", "provider": provider, "body": {"model": model}},
            "response": {"body": {"usage": {"prompt_tokens": 1_000_000, "completion_tokens": 0}}},
        })
    };
    for (provider, model, status) in [
        (json!("openai"), "gpt-4o", "priced"),
        (json!("openai"), "no-such-model", "unknown"),
        (json!("nobody"), "gpt-4o", "unknown"),
    ] {
        let (_, kept) = post_logs(&gateway, &log(provider, model)).await;
        let id = kept["ids"][0].as_str().unwrap();
        let one = wait::until("the log", async || {
            let (status, body) = call(&gateway, Method::GET, &format!("/v1/logs/{id}"), &Value::Null).await;
            (status == 200).then_some(body)
        })
        .await;
        assert_eq!(one["metrics"]["cost_status"], status, "{one}");
        assert_eq!(one["metrics"]["cost"].is_null(), status == "unknown", "{one}");
    }
}

#[tokio::test]
async fn what_no_log_can_have_is_refused_by_every_store() {
    for gateway in gateways("") {
        for path in
            ["/v1/logs?trace_id=a%00b", "/v1/logs/a%00b", "/v1/logs?metadata=%7B%22a%22%3A%22%5Cu0000%22%7D"]
        {
            let (status, body) = call(&gateway, Method::GET, path, &Value::Null).await;
            assert_eq!(status, 400, "{path}: {body}");
        }
        let feedback = json!({"trace_id": "a\u{0}b", "value": 1});
        assert_eq!(call(&gateway, Method::POST, "/v1/feedback", &feedback).await.0, 200);
    }
}
