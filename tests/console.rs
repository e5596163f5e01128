//! The console: its files, its sessions and the attacks on them, the chat of its playground, and the page itself in a browser.
//!
//! Not what the control routes do that it calls. Its sources are in `console/`, with tests of their own that are run here.

use crate::log_tail::Tail;
use crate::support::client::{client, hello, new_trace};
use crate::support::packages::{self, ready};
use crate::support::settings::{KEY, OPERATOR_KEY, STANDARD};
use crate::support::upstream::{Connection, Upstream};
use crate::support::wait::until;
use crate::support::{Gateway, gateway, report};
use flate2::read::GzDecoder;
use reqwest::{Method, RequestBuilder, Response, Url};
use serde_json::{Value, json};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use uuid::Uuid;

const COOKIE: &str = "__Host-turnpike-console";

/// A call as the page makes it.
pub(crate) fn of_page(gateway: &Gateway, method: Method, path: &str, cookie: &str) -> RequestBuilder {
    let call = client().request(method, format!("{}{path}", gateway.control_url()));
    call.header("x-turnpike-console", "1")
        .header("sec-fetch-site", "same-origin")
        .header("origin", gateway.control_url())
        .header("cookie", format!("{COOKIE}={cookie}"))
}

/// Signs in, and returns the value of the cookie.
pub(crate) async fn sign_in(gateway: &Gateway, key: &str) -> String {
    let call = client().post(format!("{}/console/session", gateway.control_url()));
    let response = call.bearer_auth(key).send().await.unwrap();
    assert_eq!(response.status(), 200);
    value(&response)
}

fn value(response: &Response) -> String {
    let header = response.headers()["set-cookie"].to_str().unwrap();
    for attribute in ["; Path=/;", "; Secure;", "; HttpOnly;", "; SameSite=Strict"] {
        assert!(header.contains(attribute), "{header}");
    }
    let text = header.strip_prefix(&format!("{COOKIE}=")).unwrap();
    text.split(';').next().unwrap().to_owned()
}

pub(crate) async fn status(call: RequestBuilder) -> u16 {
    call.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn the_page_is_small_and_lets_no_other_script_in() {
    let gateway = gateway();
    let fetch = async |path: &str| {
        client()
            .get(format!("{}{path}", gateway.control_url()))
            .header("accept-encoding", "gzip")
            .send()
            .await
            .unwrap()
    };
    let index = fetch("/console/requests/any?status=200").await;
    assert_eq!(index.headers()["cache-control"], "no-store");
    let page = index.text().await.unwrap();
    assert!(!page.contains("<script>") && !page.contains(" style=") && !page.contains(" onload="), "{page}");
    let names: Vec<&str> = page.split('"').filter(|text| text.starts_with("/console/app-")).collect();
    assert_eq!(names.len(), 2, "three requests in all: {page}");
    let mut size = page.len();
    for name in names.iter().copied().chain(["/console/"]) {
        let response = fetch(name).await;
        let headers = response.headers();
        let policy = headers["content-security-policy"].to_str().unwrap();
        for part in
            ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'self'"]
        {
            assert!(policy.contains(part), "{name}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{name}");
        assert_eq!(headers["referrer-policy"], "no-referrer", "{name}");
        if name != "/console/" {
            assert!(headers["cache-control"].to_str().unwrap().contains("immutable"), "{name}");
            assert_eq!(headers["content-encoding"], "gzip", "{name}");
            let packed = response.bytes().await.unwrap();
            size += packed.len();
            let mut text = String::new();
            GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
            let plain = client().get(format!("{}{name}", gateway.control_url()));
            let plain = plain.header("accept-encoding", "identity").send().await.unwrap();
            assert_eq!(plain.text().await.unwrap(), text, "{name} for a client that reads no gzip");
        }
    }
    assert!(size <= 60 << 10, "{size} bytes");
    assert_eq!(fetch("/console/app-0000000000000000.js").await.status(), 404, "of another version");
    let bare = client().get(format!("{}/console", gateway.control_url())).send().await.unwrap();
    assert_eq!((bare.status().as_u16(), bare.headers()["location"].to_str().unwrap()), (308, "/console/"));
    // The data port has none of it, and no provider gets its paths.
    for path in ["/console/", "/console/session", "/console/app-0.js"] {
        let call = client().get(format!("{}{path}", gateway.data_url())).header("x-gateway-api-key", KEY);
        assert_eq!(status(call).await, 404, "{path}");
    }
}

#[tokio::test]
async fn a_setting_removes_it() {
    let gateway = Gateway::start(&format!("{STANDARD}console: {{enabled: false}}\n"));
    for path in ["/console", "/console/", "/console/requests"] {
        assert_eq!(status(gateway.control(Method::GET, path)).await, 404, "{path}");
    }
    let session = client().post(format!("{}/console/session", gateway.control_url()));
    let session = session.bearer_auth(OPERATOR_KEY).send().await.unwrap();
    assert_eq!((session.status().as_u16(), session.headers().get("set-cookie")), (404, None));
}

#[tokio::test]
async fn a_session_counts_for_the_page_alone() {
    let gateway = gateway();
    let refused = client().post(format!("{}/console/session", gateway.control_url()));
    let refused = refused.bearer_auth("tp-none-0123456789").send().await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers().get("set-cookie")), (401, None));
    let cookie = sign_in(&gateway, OPERATOR_KEY).await;
    assert!(!cookie.contains(OPERATOR_KEY));
    let read = |cookie: &str| of_page(&gateway, Method::GET, "/v1/api-keys/self", cookie);
    let own: Value = read(&cookie).send().await.unwrap().json().await.unwrap();
    assert_eq!(own["name"], "operator");

    // Pages of other origins, forms, images, links; tools that have only the cookie.
    let bare = |method: Method, pairs: &[(&'static str, &str)]| {
        let path = if method == Method::GET { "/v1/api-keys/self" } else { "/v1/configs" };
        let call = client().request(method, format!("{}{path}", gateway.control_url()));
        let call = call.header("cookie", format!("{COOKIE}={cookie}")).body("{}");
        pairs.iter().fold(call, |call, (name, value)| call.header(*name, *value))
    };
    let own = gateway.control_url();
    for pairs in [
        &[][..],
        &[("x-turnpike-console", "1")],
        &[("sec-fetch-site", "same-origin")],
        &[("x-turnpike-console", "1"), ("sec-fetch-site", "same-site")],
        &[("x-turnpike-console", "1"), ("sec-fetch-site", "cross-site")],
        &[("x-turnpike-console", "1"), ("sec-fetch-site", "none")],
        &[("x-turnpike-console", "1"), ("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")],
    ] {
        assert_eq!(status(bare(Method::GET, pairs)).await, 401, "{pairs:?}");
        assert_eq!(status(bare(Method::POST, pairs)).await, 401, "{pairs:?}");
    }
    let page = [("x-turnpike-console", "1"), ("sec-fetch-site", "same-origin")];
    assert_eq!(status(bare(Method::POST, &page)).await, 401, "a change without an Origin");
    let foreign = [page[0], page[1], ("origin", "http://localhost:1")];
    assert_eq!(status(bare(Method::POST, &foreign)).await, 403);
    let rebound = [page[0], page[1], ("origin", own.as_str()), ("host", "evil.example")];
    assert_eq!(status(bare(Method::GET, &rebound)).await, 403);
    // The page's own change reaches the route, which finds the body wrong.
    assert_eq!(status(bare(Method::POST, &[page[0], page[1], ("origin", own.as_str())])).await, 400);

    // A cookie that was changed, cut, or made up is none.
    for wrong in
        ["", "A", &cookie[1..], &cookie[..cookie.len() - 2], &format!("{cookie}A"), &"A".repeat(cookie.len())]
    {
        assert_eq!(status(read(wrong)).await, 401, "{wrong}");
    }
    // The data port takes no cookie for a key.
    let data = client().get(format!("{}/v1/api-keys/self", gateway.data_url()));
    let data = data.header("cookie", format!("{COOKIE}={cookie}")).header("x-turnpike-console", "1");
    assert_eq!(status(data.header("sec-fetch-site", "same-origin")).await, 401);
}

/// The key is looked for as at every other control route.
#[tokio::test]
async fn a_session_has_the_key_by_which_its_client_was_identified() {
    let gateway = gateway();
    let begin = async |pairs: &[(&'static str, &str)]| {
        let call = client().post(format!("{}/console/session", gateway.control_url()));
        pairs.iter().fold(call, |call, (name, value)| call.header(*name, *value)).send().await.unwrap()
    };
    let name = async |call: RequestBuilder| {
        let own: Value = call.send().await.unwrap().json().await.unwrap();
        own["name"].as_str().map(str::to_owned)
    };
    let own = |cookie: &str| of_page(&gateway, Method::GET, "/v1/api-keys/self", cookie);
    let lower = format!("bearer {OPERATOR_KEY}");
    for pairs in [
        &[("authorization", lower.as_str())][..],
        &[("authorization", OPERATOR_KEY)],
        &[("x-api-key", OPERATOR_KEY)],
        &[("authorization", "Basic dXNlcjpwYXNz"), ("x-api-key", OPERATOR_KEY)],
        &[("authorization", "Bearer sk-of-a-provider"), ("x-api-key", OPERATOR_KEY)],
        &[("x-gateway-api-key", OPERATOR_KEY), ("authorization", "Bearer sk-of-a-provider")],
    ] {
        let begun = begin(pairs).await;
        assert_eq!(begun.status(), 200, "{pairs:?}");
        assert_eq!(name(own(&value(&begun))).await.as_deref(), Some("operator"), "{pairs:?}");
    }
    for pairs in [&[][..], &[("authorization", "Basic dXNlcjpwYXNz")], &[("x-api-key", "wrong")]] {
        let refused = begin(pairs).await;
        assert_eq!(
            (refused.status().as_u16(), refused.headers().get("set-cookie")),
            (401, None),
            "{pairs:?}"
        );
    }
    let cookie = sign_in(&gateway, OPERATOR_KEY).await;
    // A proxy in front with a password of its own; a call with a key of its own.
    let behind = own(&cookie).header("authorization", "Basic dXNlcjpwYXNz");
    assert_eq!(name(behind).await.as_deref(), Some("operator"));
    assert_eq!(name(own(&cookie).header("x-api-key", KEY)).await.as_deref(), Some("tests"));
    // A session begins with a key, not with another session.
    assert_eq!(status(of_page(&gateway, Method::POST, "/console/session", &cookie)).await, 401);
}

#[tokio::test]
async fn a_session_ends_with_its_key_and_at_sign_out() {
    let gateway = gateway();
    let cookie = sign_in(&gateway, OPERATOR_KEY).await;
    let call = |method, path| of_page(&gateway, method, path, &cookie);
    assert_eq!(status(call(Method::GET, "/v1/configs")).await, 200);
    let out = call(Method::DELETE, "/console/session").send().await.unwrap();
    assert_eq!(out.status(), 200);
    assert!(out.headers()["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    // Also a copy of the cookie that somebody has kept.
    assert_eq!(status(call(Method::GET, "/v1/configs")).await, 401);

    let operator = sign_in(&gateway, OPERATOR_KEY).await;
    let body = json!({"name": "reader of the console", "scopes": ["logs.list"]});
    let made = of_page(&gateway, Method::POST, "/v1/api-keys/organisation/service", &operator);
    let made: Value = made.json(&body).send().await.unwrap().json().await.unwrap();
    let reader = sign_in(&gateway, made["key"].as_str().unwrap()).await;
    let read = |path| of_page(&gateway, Method::GET, path, &reader);
    assert_eq!(status(read("/v1/logs")).await, 200);
    assert_eq!(status(read("/v1/configs")).await, 403, "what the key may not do");
    let path = format!("/v1/api-keys/{}", made["id"].as_str().unwrap());
    assert_eq!(status(of_page(&gateway, Method::DELETE, &path, &operator)).await, 200);
    assert_eq!(status(read("/v1/logs")).await, 401);

    let log = gateway.control(Method::GET, "/v1/audit-logs?resource_type=console-sessions");
    let log: Value = log.send().await.unwrap().json().await.unwrap();
    let text = log.to_string();
    assert!(text.contains("\"create\"") && text.contains("\"delete\""), "{text}");
    assert!(!text.contains(OPERATOR_KEY) && !text.contains(&cookie), "{text}");
}

/// A response that goes on does not outlive the session it was opened in.
#[tokio::test]
async fn a_live_tail_ends_with_its_session() {
    let gateway = gateway();
    let [ended, other] = [sign_in(&gateway, OPERATOR_KEY).await, sign_in(&gateway, OPERATOR_KEY).await];
    let follow = async |cookie: &str| {
        Tail::of(of_page(&gateway, Method::GET, "/v1/logs/tail", cookie).send().await.unwrap()).await
    };
    let (of_ended, mut of_other) = (follow(&ended).await, follow(&other).await);
    assert_eq!(status(of_page(&gateway, Method::DELETE, "/console/session", &ended)).await, 200);
    assert_eq!(of_ended.end().await, "session");
    let trace = new_trace();
    let call = client().post(format!("{}/chat/completions", gateway.base_url())).json(&hello(false));
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator");
    assert_eq!(status(call.header("x-gateway-trace-id", &trace)).await, 200);
    of_other.log(&trace).await;
}

#[tokio::test]
async fn the_playground_sends_what_the_data_port_would() {
    let gateway = gateway();
    let send = |key: &'static str, query: &str, body: Value| {
        let url = format!("{}/console/chat/completions{query}", gateway.control_url());
        client().post(url).header("x-gateway-api-key", key).json(&body)
    };
    let chat = json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hello"}]});
    assert_eq!(status(send(OPERATOR_KEY, "", chat.clone())).await, 403, "no completions.write");
    let whole = send(KEY, "?provider=@emulator", chat.clone()).send().await.unwrap();
    assert_eq!(whole.headers()["content-type"], "application/json");
    assert!(whole.text().await.unwrap().contains("quick brown fox"));

    let trace = Uuid::now_v7().to_string();
    let mut streamed = chat.clone();
    streamed["stream"] = true.into();
    let response =
        send(KEY, &format!("?provider=@emulator&trace_id={trace}"), streamed).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"));
    assert!(response.text().await.unwrap().trim_end().ends_with("data: [DONE]"));
    let line = gateway.access_line(&trace).await;
    assert_eq!((&line["status"], &line["key"]), (&200.into(), &"tests".into()), "{line}");

    assert_eq!(status(send(KEY, "?trace_id=no-uuid", chat.clone())).await, 400);
    let unknown = send(KEY, "?config=none-such", chat.clone()).send().await.unwrap();
    assert_eq!(unknown.status(), 400);
    let mut wrong = chat;
    wrong["temperature"] = "hot".into();
    let wrong = send(KEY, "?provider=@emulator", wrong).send().await.unwrap();
    assert_eq!(wrong.status(), 400);
    let error: Value = wrong.json().await.unwrap();
    assert!(error["error"]["message"].as_str().unwrap().contains("temperature"), "{error}");
}

/// A call of the playground, with a config.
fn chat(gateway: &Gateway, trace: &str, config: &Value, body: &Value) -> RequestBuilder {
    let url = format!("{}/console/chat/completions?trace_id={trace}", gateway.control_url());
    let url = Url::parse_with_params(&url, [("config", config.to_string())]).unwrap();
    client().post(url).header("x-gateway-api-key", KEY).json(body)
}

#[tokio::test]
async fn the_playground_shows_status_headers_and_content_type_of_the_data_port() {
    let gateway = gateway();
    let upstream = Upstream::start(|mut connection: Connection| async move {
        while connection.request().await.is_some() {
            // JSON that begins with white space.
            connection
                .send_json(
                    "\n {\"id\":\"c\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"gpt-4o-mini\",\"choices\":[{\"index\":0,\
                     \"message\":{\"role\":\"assistant\",\"content\":\"Hello\"},\"finish_reason\":\"stop\"}]}",
                )
                .await;
        }
    })
    .await;
    let body = json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hidden"}]});
    for (deny, wanted) in [(None, 200), (Some(false), 246), (Some(true), 446)] {
        let mut config = json!({"provider": "openai", "api_key": "k", "custom_host": upstream.url()});
        if let Some(deny) = deny {
            config["input_guardrails"] =
                json!([{"default.contains": {"operator": "none", "words": ["hidden"]}, "deny": deny}]);
        }
        let trace = Uuid::now_v7().to_string();
        let response = chat(&gateway, &trace, &config, &body).send().await.unwrap();
        assert_eq!(response.status(), wanted, "{deny:?}");
        let headers = response.headers().clone();
        assert!(headers["content-type"].to_str().unwrap().starts_with("application/json"), "{headers:?}");
        assert_eq!(headers["x-gateway-trace-id"], trace.as_str(), "{headers:?}");
        let text = response.text().await.unwrap();
        assert_eq!(text.contains("Hello"), wanted != 446, "{text}");
        assert_eq!(headers.contains_key("x-gateway-cache-status"), wanted != 446, "{headers:?}");
        assert_eq!(gateway.access_line(&trace).await["status"], wanted);
    }
}

/// Also before the first byte. What is held of its body is counted as long as it runs.
#[tokio::test]
async fn a_client_that_leaves_the_playground_ends_its_request() {
    const SIZE: usize = 1 << 20;
    let gateway = gateway();
    let arrived = Arc::new(Notify::new());
    let gone = Arc::new(Notify::new());
    let notify = (Arc::clone(&arrived), Arc::clone(&gone));
    let upstream = Upstream::start(move |mut connection: Connection| {
        let (arrived, gone) = notify.clone();
        async move {
            let Some(request) = connection.request().await else { return };
            if request.contains("\"stream\":true") {
                let event = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-4o-mini\",\
                             \"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":null}]}\n\n";
                let head =
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
                connection.write(&format!("{head}{:x}\r\n{event}\r\n", event.len())).await;
            }
            arrived.notify_one();
            // It never ends; the gateway closes.
            assert_eq!(connection.request().await, None);
            gone.notify_one();
        }
    })
    .await;
    let config = json!({"provider": "openai", "api_key": "k", "custom_host": upstream.url()});
    let held = async || gateway.metric("turnpike_held_bytes").await.unwrap();
    for stream in [false, true] {
        let trace = Uuid::now_v7().to_string();
        let content = "a".repeat(SIZE);
        let body = json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": content}], "stream": stream});
        let call = chat(&gateway, &trace, &config, &body);
        if stream {
            let mut response = call.send().await.unwrap();
            assert!(response.chunk().await.unwrap().is_some());
            arrived.notified().await;
            assert!(held().await >= SIZE as f64);
            drop(response);
        } else {
            let call = tokio::spawn(call.send());
            arrived.notified().await;
            assert!(held().await >= SIZE as f64);
            call.abort();
            assert!(call.await.unwrap_err().is_cancelled());
        }
        tokio::time::timeout(Duration::from_secs(20), gone.notified()).await.unwrap();
        let line = gateway.access_line(&trace).await;
        // Of a stream that was begun: the status that was sent.
        assert_eq!(line["status"], if stream { 200 } else { 499 }, "{line}");
        assert_eq!(line["error_code"], "caller_left", "{line}");
        until("the body is given back", async || (held().await < SIZE as f64).then_some(())).await;
    }
}

#[tokio::test]
async fn the_playground_takes_bodies_of_more_than_other_routes() {
    let gateway = gateway();
    let content = "a".repeat(3 << 20);
    let body = json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": content}]});
    let trace = Uuid::now_v7().to_string();
    assert_eq!(status(chat(&gateway, &trace, &json!({"provider": "@emulator"}), &body)).await, 200);
}

#[test]
fn the_sources_make_the_committed_files() {
    let Some(console) = packages::console() else { return };
    for script in [
        &["run", "--silent", "check"][..],
        &["run", "--silent", "test"],
        &["run", "--silent", "build", "--", "--check"],
    ] {
        let output = Command::new("npm").args(script).current_dir(&console).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "npm {}: {printed}", script.join(" "));
    }
}

#[tokio::test]
async fn every_page_works_in_a_browser() {
    let Some(console) = packages::console() else { return };
    let Some(browser) = ready("console in a browser", browser()) else { return };
    let gateway = Gateway::start(&format!("{STANDARD}logs: {{payloads: all}}\n"));
    let long = "x".repeat(500);
    let models = [
        "gpt-4o-mini",
        "<script>window.hacked=1</script>",
        "gpt://a//b",
        "\u{202e}\u{5d0}\u{5d1} <b>",
        &long,
    ];
    for model in models {
        let metadata = json!({"_user": "<img src=x onerror=window.hacked=1>", "team": "a"}).to_string();
        let body = json!({"model": model, "messages": [{"role": "user", "content": "<script>window.hacked=1</script>"}]});
        let call = client().post(format!("{}/v1/chat/completions", gateway.data_url()));
        let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator");
        assert_eq!(status(call.header("x-gateway-metadata", metadata).json(&body)).await, 200);
    }
    let written = async || {
        let logs = gateway.control(Method::GET, "/v1/logs").send().await.unwrap();
        let logs: Value = logs.json().await.unwrap();
        (logs["total"].as_u64() >= Some(5)).then_some(())
    };
    until("five rows", written).await;
    let mut smoke = Command::new("node");
    smoke.arg("smoke/smoke.mjs").current_dir(&console).env("CHROMIUM", browser);
    smoke.env("CONSOLE_URL", gateway.control_url()).env("CONSOLE_KEY", OPERATOR_KEY);
    if std::env::var_os("TEST_ALL").is_some() {
        smoke.env("FULL", "1");
    }
    let output = tokio::task::spawn_blocking(move || smoke.output()).await.unwrap().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    report(&printed);
    assert!(output.status.success(), "{printed}");
}

/// Chromium, where it is installed.
pub(crate) fn browser() -> Result<PathBuf, String> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let paths = std::env::var("PATH").unwrap_or_default();
    let found = paths.split(':').flat_map(|folder| names.map(|name| Path::new(folder).join(name)));
    found.into_iter().find(|path| path.is_file()).ok_or_else(|| "Chromium is not installed".to_owned())
}
