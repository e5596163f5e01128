//! `GET /v1/logs/tail` on the running binary: who sees what, when it ends, and how many may follow.
//!
//! Filters against rows, full queues and what is counted are tested beside the code (`src/memory/ledger`).

use crate::support::client::{client, hello, new_trace, status};
use crate::support::settings::{LISTEN, OPERATOR_KEY};
use crate::support::sse::{Event, events};
use crate::support::{Gateway, wait};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use std::time::Duration;

const ONE: &str = "tp-one-0123456789";
const TWO: &str = "tp-two-0123456789";
const PATIENCE: Duration = Duration::from_secs(30);

fn settings() -> String {
    format!(
        "{LISTEN}
auth:
  keys:
    - {{name: operator, key: {OPERATOR_KEY}}}
    - {{name: one, key: {ONE}, workspace: one}}
    - {{name: two, key: {TWO}, workspace: two}}
custom_hosts: {{allow: [127.0.0.1]}}
providers:
  emulator: {{provider: openai, api_key: k, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}}
"
    )
}

/// An open tail, and what has come of it.
pub(crate) struct Tail {
    response: Response,
    text: String,
}

impl Tail {
    async fn begin(gateway: &Gateway, key: &str, query: &str) -> Self {
        Self::of(follow(gateway, key, query).await).await
    }

    pub(crate) async fn of(response: Response) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut tail = Self { response, text: String::new() };
        tail.until(|event| event.name == "begin").await;
        tail
    }

    /// Reads on until an event of this kind is there; `None`: the stream has ended before.
    async fn next(&mut self, is_wanted: impl Fn(&Event) -> bool) -> Option<Event> {
        loop {
            if let Some(event) = events(&self.text).into_iter().find(&is_wanted) {
                return Some(event);
            }
            let piece = tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("a piece in time");
            self.text.push_str(str::from_utf8(&piece.unwrap()?).unwrap());
        }
    }

    async fn until(&mut self, is_wanted: impl Fn(&Event) -> bool) -> Event {
        self.next(is_wanted).await.expect("the stream went on")
    }

    pub(crate) async fn log(&mut self, trace: &str) -> Value {
        let event = self.until(|event| event.name == "log" && event.data.contains(trace)).await;
        serde_json::from_str(&event.data).unwrap()
    }

    /// Why it ended.
    pub(crate) async fn end(mut self) -> Value {
        let event = self.until(|event| event.name == "end").await;
        assert!(self.next(|event| event.name == "none").await.is_none(), "it is the last event");
        serde_json::from_str::<Value>(&event.data).unwrap()["reason"].take()
    }
}

async fn follow(gateway: &Gateway, key: &str, query: &str) -> Response {
    let call = client().get(format!("{}/v1/logs/tail?{query}", gateway.control_url()));
    call.header("x-gateway-api-key", key).send().await.unwrap()
}

async fn chat(gateway: &Gateway, key: &str, trace: &str, team: &str) {
    let call = client().post(format!("{}/chat/completions", gateway.base_url())).json(&hello(false));
    let call = call.header("x-gateway-api-key", key).header("x-gateway-provider", "@emulator");
    let call = call.header("x-gateway-metadata", json!({"team": team}).to_string());
    assert_eq!(status(call.header("x-gateway-trace-id", trace)).await, 200);
}

async fn with_workspaces() -> Gateway {
    let gateway = Gateway::start(&settings());
    for slug in ["one", "two"] {
        gateway.create("/v1/admin/workspaces", &json!({"name": slug, "slug": slug})).await;
    }
    gateway
}

#[tokio::test]
async fn each_key_follows_what_it_may_see_under_the_filters_of_a_list() {
    let gateway = with_workspaces().await;
    let mut all = Tail::begin(&gateway, OPERATOR_KEY, "").await;
    let mut of_one = Tail::begin(&gateway, ONE, "").await;
    let mut of_team = Tail::begin(&gateway, OPERATOR_KEY, "metadata=%7B%22team%22:%22b%22%7D").await;
    let traces: Vec<String> = (0..3).map(|_| new_trace()).collect();
    chat(&gateway, TWO, &traces[0], "a").await;
    chat(&gateway, ONE, &traces[1], "b").await;
    chat(&gateway, ONE, &traces[2], "b").await;
    for trace in &traces {
        all.log(trace).await;
    }
    let log = of_one.log(&traces[2]).await;
    of_team.log(&traces[2]).await;
    for tail in [&of_one, &of_team] {
        assert!(!tail.text.contains(&traces[0]) && tail.text.contains(&traces[1]), "{}", tail.text);
    }
    // The same as the list says of it, and by the same id.
    let listed = wait::until("the log", async || {
        let found = gateway.read(&format!("/v1/logs?trace_id={}", traces[2])).await;
        found["data"].get(0).cloned()
    })
    .await;
    assert_eq!(log, listed);
    assert_eq!(gateway.metric("turnpike_ledger_tail_readers").await, Some(3.0));
    // Its reader has left, and the next look finds that out.
    drop((all, of_one, of_team));
    wait::until("no readers", async || {
        (gateway.metric("turnpike_ledger_tail_readers").await == Some(0.0)).then_some(())
    })
    .await;
    assert_eq!(gateway.metric("turnpike_ledger_tail_dropped_total").await, Some(0.0));
}

#[tokio::test]
async fn it_ends_with_its_key_and_with_the_process() {
    let gateway = with_workspaces().await;
    let made =
        json!({"name": "watcher", "workspace_id": "one", "scopes": ["logs.list", "completions.write"]});
    let made = gateway.create("/v1/api-keys/workspace/service", &made).await;
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    let mut tail = Tail::begin(&gateway, key, "").await;
    let trace = new_trace();
    chat(&gateway, key, &trace, "a").await;
    tail.log(&trace).await;
    let operators = Tail::begin(&gateway, OPERATOR_KEY, "").await;
    let scopes = json!({"scopes": ["completions.write"]});
    let changed = gateway.control(Method::PUT, &format!("/v1/api-keys/{id}")).json(&scopes);
    assert_eq!(status(changed).await, 200);
    assert_eq!(tail.end().await, "key");
    assert_eq!(follow(&gateway, key, "").await.status(), 403);
    gateway.terminate();
    assert_eq!(operators.end().await, "shutdown");
    assert!(gateway.ended().await.success());
}

/// A key of a workspace that may follow the log: its id and its text.
async fn watcher(gateway: &Gateway, more: Value) -> (String, String) {
    let mut body = json!({"name": "watcher", "workspace_id": "one", "scopes": ["logs.list"]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let made = gateway.create("/v1/api-keys/workspace/service", &body).await;
    (made["id"].as_str().unwrap().to_owned(), made["key"].as_str().unwrap().to_owned())
}

/// Whoever has the old text of a key does not read on.
#[tokio::test]
async fn it_ends_with_the_text_of_its_key() {
    let gateway = with_workspaces().await;
    let (rotated, old) = watcher(&gateway, json!({})).await;
    let (deleted, of_deleted) = watcher(&gateway, json!({})).await;
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3);
    let (_, of_expired) = watcher(&gateway, json!({"expires_at": soon.to_string()})).await;
    let tails = [
        Tail::begin(&gateway, &old, "").await,
        Tail::begin(&gateway, &of_deleted, "").await,
        Tail::begin(&gateway, &of_expired, "").await,
    ];
    let rotate = gateway.control(Method::POST, &format!("/v1/api-keys/{rotated}/rotate"));
    let rotate = rotate.json(&json!({"key_transition_period_ms": 0})).send().await.unwrap();
    assert_eq!(rotate.status(), 200);
    let new = rotate.json::<Value>().await.unwrap()["key"].as_str().unwrap().to_owned();
    let delete = gateway.control(Method::DELETE, &format!("/v1/api-keys/{deleted}"));
    assert_eq!(status(delete).await, 200);
    for tail in tails {
        assert_eq!(tail.end().await, "key");
    }
    let mut goes_on = Tail::begin(&gateway, &new, "").await;
    // Another key of the settings takes the name.
    let of_settings = Tail::begin(&gateway, ONE, "").await;
    gateway.reload(&settings().replace(ONE, "tp-other-0123456789"));
    assert_eq!(of_settings.end().await, "key");
    let trace = new_trace();
    chat(&gateway, "tp-other-0123456789", &trace, "a").await;
    goes_on.log(&trace).await;
}

#[tokio::test]
async fn a_workspace_has_half_of_the_places_and_what_no_row_has_is_refused() {
    let gateway = with_workspaces().await;
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(Tail::begin(&gateway, ONE, "").await);
    }
    let refused = follow(&gateway, ONE, "").await;
    assert_eq!(refused.status(), 503);
    assert!(refused.text().await.unwrap().contains("follow the log"));
    Tail::begin(&gateway, TWO, "status_code=200").await;
    for query in ["weighted_feedback_min=1", "status=200", "status_code=nine", "workspace_slug=none"] {
        assert_eq!(follow(&gateway, OPERATOR_KEY, query).await.status(), 400, "{query}");
    }
    assert_eq!(follow(&gateway, ONE, "workspace_slug=two").await.status(), 403);
    let many: Vec<String> = (0..201).map(|number| format!("model-{number}")).collect();
    let refused = follow(&gateway, OPERATOR_KEY, &format!("ai_model={}", many.join(","))).await;
    assert_eq!(refused.status(), 400);
    assert!(refused.text().await.unwrap().contains("at most 200 values"));
}
