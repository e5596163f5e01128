//! Marks that the gateway sets for a provider's cache of prompts (`prompt_cache: auto`), over a provider that caches as Anthropic does.
//!
//! Where they are set is unit-tested (`knowledge::provider::prompt_marks`).

use crate::support::client::client;
use crate::support::gateway::Gateway;
use crate::support::mcp_fake::http;
use crate::support::message::Message;
use crate::support::provider::Provider;
use crate::support::settings::KEY;
use crate::support::{report, wait};
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

const TURNS: usize = 100;
/// So many blocks before a mark are looked at, itself included.
const LOOK_BACK: usize = 20;
/// Prompts of fewer tokens are not cached.
const MINIMUM: u64 = 1024;
/// Seconds that an entry lives since its last use, and from one request to the next.
const TTL: u64 = 300;
const BETWEEN_REQUESTS: u64 = 20;

/// The cache of an account: entries at marks, with the time of their last use.
#[derive(Default)]
struct PromptCache {
    entries: HashMap<u64, u64>,
    now: u64,
    sums: Sums,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    requests: u64,
    read: u64,
    written: u64,
    /// What every request but the first could have read: all that the one before it had sent.
    attainable: u64,
    last: u64,
    marks: usize,
}

/// One block of a prompt, with all before it.
struct Block {
    prefix: u64,
    tokens: u64,
    is_marked: bool,
}

/// The blocks of a request: tools, system, messages. `Err`: Anthropic would refuse it.
fn blocks(body: &Value) -> Result<Vec<Block>, &'static str> {
    let list = |value: &Value| match value {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        value => value.as_array().cloned().unwrap_or_default(),
    };
    let of = |role: &str, value: &Value| {
        Vec::from_iter(list(value).into_iter().map(|block| (role.to_owned(), block)))
    };
    let mut all = of("tools", &body["tools"]);
    all.extend(of("system", &body["system"]));
    for message in body["messages"].as_array().unwrap() {
        all.extend(of(message["role"].as_str().unwrap(), &message["content"]));
    }
    let mut hasher = DefaultHasher::new();
    let mut tokens = 0;
    let mut blocks = Vec::new();
    for (role, mut block) in all {
        let is_marked = block.as_object_mut().unwrap().remove("cache_control").is_some();
        if is_marked && (block["type"] == "thinking" || block["text"] == "") {
            return Err("cache_control cannot be set for this block");
        }
        let text = block.to_string();
        (role, &text).hash(&mut hasher);
        tokens += text.len() as u64 / 4;
        blocks.push(Block { prefix: hasher.finish(), tokens, is_marked });
    }
    if blocks.iter().filter(|block| block.is_marked).count() > 4 {
        return Err("A maximum of 4 blocks with cache_control may be provided");
    }
    Ok(blocks)
}

impl PromptCache {
    /// Takes a request; its usage.
    fn take(&mut self, body: &Value) -> Result<Value, &'static str> {
        let blocks = blocks(body)?;
        self.now += BETWEEN_REQUESTS;
        let now = self.now;
        self.entries.retain(|_, used| now - *used <= TTL);
        let marked: Vec<usize> = (0..blocks.len()).filter(|index| blocks[*index].is_marked).collect();
        let found = marked.iter().filter_map(|mark| {
            let before = (0..=*mark).rev().take(LOOK_BACK);
            before.into_iter().find(|index| self.entries.contains_key(&blocks[*index].prefix))
        });
        let hit = found.max();
        let read = hit.map_or(0, |index| blocks[index].tokens);
        let cacheable = |index: &&usize| blocks[**index].tokens >= MINIMUM;
        let end = marked.iter().rfind(cacheable);
        let written = end.map_or(0, |index| blocks[*index].tokens.saturating_sub(read));
        for index in marked.iter().filter(cacheable).chain(&hit) {
            self.entries.insert(blocks[*index].prefix, now);
        }
        let total = blocks.last().map_or(0, |block| block.tokens);
        let sums = &mut self.sums;
        sums.requests += 1;
        sums.read += read;
        sums.written += written;
        sums.attainable += sums.last;
        sums.last = total;
        sums.marks += marked.len();
        Ok(json!({"input_tokens": total - read - written, "output_tokens": 9,
            "cache_read_input_tokens": read, "cache_creation_input_tokens": written}))
    }
}

/// A provider with such a cache.
async fn provider() -> (Provider, Arc<Mutex<PromptCache>>) {
    let cache = Arc::<Mutex<PromptCache>>::default();
    let shared = Arc::clone(&cache);
    let provider = Provider::start(move |request: &Message| {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        match shared.lock().take(&body) {
            Ok(usage) => {
                let answer = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
                    "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn", "stop_sequence": null, "usage": usage});
                http("200 OK", "", "application/json", &answer.to_string())
            }
            Err(why) => {
                let error = json!({"type": "error", "error": {"type": "invalid_request_error", "message": why}});
                http("400 Bad Request", "", "application/json", &error.to_string())
            }
        }
    })
    .await;
    (provider, cache)
}

fn rules() -> String {
    "You are an agent. Follow the rules of the house. ".repeat(150)
}

/// How many tools a model calls in a turn: mostly a few, now and then more than a look-back has room for.
fn calls(turn: usize) -> usize {
    if turn % 10 == 9 { 30 } else { turn % 4 }
}

fn result(turn: usize, call: usize) -> String {
    format!("line {turn} {call} ").repeat(6)
}

/// `/v1/chat/completions`, as an agent writes it. It lists its tools in another order with each request.
fn chat(turns: usize) -> Value {
    let mut list =
        vec![json!({"role": "system", "content": rules()}), json!({"role": "user", "content": "Begin."})];
    for turn in 0..turns {
        let call = |call| json!({"id": format!("c{turn}_{call}"), "type": "function", "function": {"name": "read", "arguments": "{\"a\":1}"}});
        let mut message = json!({"role": "assistant", "content": format!("I look, {turn}.")});
        if calls(turn) > 0 {
            message["tool_calls"] = (0..calls(turn)).map(call).collect();
        }
        list.push(message);
        list.extend((0..calls(turn)).map(|call| json!({"role": "tool", "tool_call_id": format!("c{turn}_{call}"), "content": result(turn, call)})));
        if calls(turn) == 0 {
            list.push(json!({"role": "user", "content": format!("Go on, {turn}.")}));
        }
    }
    let mut tools = ["read", "write", "run"].map(
        |name| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}),
    );
    tools.rotate_left(turns % 3);
    json!({"model": "claude-sonnet-4-5", "max_tokens": 64, "messages": list, "tools": tools})
}

/// `/v1/responses`.
fn response(turns: usize) -> Value {
    let message = |role: &str, kind: &str, text: String| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
    let mut list = vec![message("user", "input_text", "Begin.".into())];
    for turn in 0..turns {
        list.push(message("assistant", "output_text", format!("I look, {turn}.")));
        let id = |call| format!("c{turn}_{call}");
        list.extend((0..calls(turn)).map(
            |call| json!({"type": "function_call", "call_id": id(call), "name": "read", "arguments": "{}"}),
        ));
        list.extend((0..calls(turn)).map(
            |call| json!({"type": "function_call_output", "call_id": id(call), "output": result(turn, call)}),
        ));
        if calls(turn) == 0 {
            list.push(message("user", "input_text", format!("Go on, {turn}.")));
        }
    }
    json!({"model": "claude-sonnet-4-5", "max_output_tokens": 64, "instructions": rules(), "input": list, "store": false,
        "tools": [{"type": "function", "name": "read", "parameters": {"type": "object"}}]})
}

/// `/v1/messages`, with thinking in it, which may have no mark.
fn messages(turns: usize) -> Value {
    let mut list = vec![json!({"role": "user", "content": "Begin."})];
    for turn in 0..turns {
        let id = |call| format!("toolu_{turn}_{call}");
        let mut of_model = vec![
            json!({"type": "thinking", "thinking": "t", "signature": "s"}),
            json!({"type": "text", "text": format!("I look, {turn}.")}),
        ];
        of_model.extend(
            (0..calls(turn)).map(
                |call| json!({"type": "tool_use", "id": id(call), "name": "read", "input": {"a": call}}),
            ),
        );
        list.push(json!({"role": "assistant", "content": of_model}));
        let of_user: Vec<Value> = (0..calls(turn))
            .map(
                |call| json!({"type": "tool_result", "tool_use_id": id(call), "content": result(turn, call)}),
            )
            .collect();
        let content = if of_user.is_empty() { json!(format!("Go on, {turn}.")) } else { json!(of_user) };
        list.push(json!({"role": "user", "content": content}));
    }
    json!({"model": "claude-sonnet-4-5", "max_tokens": 64, "system": rules(), "messages": list,
        "tools": [{"name": "read", "input_schema": {"type": "object"}}]})
}

type Session = (&'static str, fn(usize) -> Value);
const SESSIONS: [Session; 3] = [("chat/completions", chat), ("responses", response), ("messages", messages)];

fn settings() -> Gateway {
    Gateway::start("custom_hosts: {allow: [127.0.0.1]}\n")
}

async fn send(
    gateway: &Gateway,
    provider: &Provider,
    path: &str,
    marks: Option<Value>,
    body: &Value,
) -> Value {
    let mut config = json!({"provider": "anthropic", "api_key": "k", "custom_host": provider.base_url()});
    if let Some(marks) = marks {
        config["prompt_cache"] = marks;
    }
    let call = client().post(format!("{}/{path}", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-config", config.to_string());
    let response = call.json(body).send().await.unwrap();
    let status = response.status();
    let response: Value = response.json().await.unwrap();
    assert_eq!(status, 200, "{path} {response}");
    response
}

/// What a session of an agent reads and writes.
async fn session(gateway: &Gateway, (path, body): Session, marks: Option<Value>) -> Sums {
    let (provider, cache) = provider().await;
    for turn in 0..TURNS {
        send(gateway, &provider, path, marks.clone(), &body(turn)).await;
    }
    cache.lock().sums
}

#[tokio::test]
async fn an_agent_reads_what_it_has_sent_before_in_every_dialect() {
    let gateway = settings();
    for dialect in SESSIONS {
        let with = session(&gateway, dialect, Some(json!("auto"))).await;
        let share = with.read as f64 / with.attainable as f64;
        assert!(share >= 0.95, "{} {share} {with:?}", dialect.0);
        // Nothing is written twice: all that is written is the last prompt.
        assert!(with.written <= with.last, "{} {with:?}", dialect.0);
        report(&format!(
            "{}: {:.1} % of the attainable tokens read from the cache",
            dialect.0,
            100.0 * share
        ));
    }
    let without = session(&gateway, SESSIONS[0], None).await;
    assert_eq!((without.read, without.written, without.marks), (0, 0, 0), "{without:?}");
}

#[tokio::test]
async fn without_the_key_and_with_marks_of_the_client_bodies_are_as_before() {
    let gateway = settings();
    let (provider, _) = provider().await;
    let last = || provider.received().pop().unwrap().body;
    for (path, body) in SESSIONS {
        let body = body(3);
        send(&gateway, &provider, path, None, &body).await;
        let plain = last();
        for off in [json!("off"), json!({"mode": "off", "ttl": "1h"})] {
            send(&gateway, &provider, path, Some(off), &body).await;
            assert_eq!(last(), plain, "{path}");
        }
        assert!(path != "messages" || plain == body.to_string().into_bytes(), "a client's own bytes");
    }
    let mut marked = messages(3);
    marked["system"] = json!([{"type": "text", "text": rules(), "cache_control": {"type": "ephemeral"}}]);
    send(&gateway, &provider, "messages", Some(json!("auto")), &marked).await;
    assert_eq!(last(), marked.to_string().into_bytes());
}

#[tokio::test]
async fn a_header_requests_marks_and_an_explanation_lists_them() {
    let gateway = settings();
    let (provider, cache) = provider().await;
    let config = json!({"provider": "anthropic", "api_key": "k", "custom_host": provider.base_url()});
    let call = |mode: &'static str| {
        let call = client().post(format!("{}/messages", gateway.base_url())).header("x-gateway-api-key", KEY);
        call.header("x-gateway-config", config.to_string())
            .header("x-gateway-prompt-cache", mode)
            .json(&messages(2))
    };
    assert_eq!(call("auto").send().await.unwrap().status(), 200);
    assert_eq!(cache.lock().sums.marks, 4);
    let wrong = call("always").send().await.unwrap();
    assert_eq!(wrong.status(), 400);
    let error: Value = wrong.json().await.unwrap();
    assert!(error["error"]["message"].as_str().unwrap().contains("x-gateway-prompt-cache"), "{error}");

    let question = json!({"method": "POST", "path": "/v1/messages", "body": messages(2),
        "headers": {"x-gateway-api-key": KEY, "x-gateway-config": config.to_string(), "x-gateway-prompt-cache": "auto"}});
    let explained = gateway.control(Method::POST, "/v1/explain").json(&question).send().await.unwrap();
    let explained: Value = explained.json().await.unwrap();
    assert_eq!(explained["tree"]["prompt_cache"], json!({"mode": "auto", "ttl": "5m"}), "{explained}");
    let wanted =
        json!(["system[0]", "messages[0].content[0]", "messages[2].content[0]", "messages[4].content[0]"]);
    assert_eq!(explained["request"]["cache_marks"], wanted, "{explained}");
}

/// The value of a counter by its cause.
async fn missed(gateway: &Gateway, cause: &str) -> u64 {
    let text = gateway.control(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    let line = format!("turnpike_prompt_cache_misses_total{{cause=\"{cause}\"}} ");
    let found = text.lines().find_map(|found| found.strip_prefix(&line));
    found.unwrap_or_else(|| panic!("{cause} in {text}")).parse().unwrap()
}

#[tokio::test]
async fn metrics_show_why_nothing_was_read() {
    let gateway = settings();
    let (one, _) = provider().await;
    let (other, _) = provider().await;
    let all = async || {
        let mut all = Vec::new();
        for cause in ["first", "changed", "other_target", "unknown"] {
            all.push(missed(&gateway, cause).await);
        }
        all
    };
    let auto = || Some(json!("auto"));
    let path = "messages";
    send(&gateway, &one, path, None, &messages(1)).await;
    assert_eq!(all().await, [0, 0, 0, 0], "without the key nothing is counted");
    send(&gateway, &one, path, auto(), &messages(1)).await;
    wait::until("the first one", async || (all().await == [1, 0, 0, 0]).then_some(())).await;
    send(&gateway, &one, path, auto(), &messages(2)).await;
    send(&gateway, &other, path, auto(), &messages(3)).await;
    wait::until("the other provider", async || (all().await == [1, 0, 1, 0]).then_some(())).await;
    let mut changed = messages(4);
    changed["system"] = json!(format!("It is noon. {}", rules()));
    send(&gateway, &one, path, auto(), &changed).await;
    wait::until("the changed one", async || (all().await == [1, 1, 1, 0]).then_some(())).await;

    // The log has the cause, and sums can be asked for by it.
    let total = async |query: &str| gateway.read(&format!("/v1/logs?{query}")).await;
    let written = async || (total("page_size=5").await["total"] == 5).then_some(());
    wait::until("five rows", written).await;
    for (cause, count) in
        [("first", 1), ("changed", 1), ("other_target", 1), ("time", 0), ("changed,first", 2)]
    {
        let found = total(&format!("prompt_cache_miss={cause}")).await;
        assert_eq!(found["total"], count, "{cause}: {found}");
        let one = &found["data"][0]["prompt_cache_miss"];
        assert!(
            one.as_str().is_none_or(|one| cause.contains(one)) && one.is_null() == (count == 0),
            "{found}"
        );
    }
    let groups = gateway.read("/v1/analytics/groups/ai_service?prompt_cache_miss=first,changed").await;
    assert_eq!(
        (&groups["data"][0]["ai_service"], &groups["data"][0]["requests"]),
        (&json!("anthropic"), &json!(2))
    );
    let wrong = gateway.control(Method::GET, "/v1/logs?prompt_cache_miss=none").send().await.unwrap();
    assert_eq!(wrong.status(), 400);
    let wrong = wrong.text().await.unwrap();
    assert!(wrong.contains("prompt_cache_miss") && wrong.contains("other_target"), "{wrong}");
}

#[tokio::test]
async fn marks_by_use_are_for_five_minutes_while_a_conversation_does_not_pause() {
    let gateway = settings();
    let (provider, _) = provider().await;
    for turn in 1..4 {
        let body = messages(turn);
        let [mut found, mut wanted] = [Vec::new(), Vec::new()];
        for (sent, marks) in
            [(&mut found, json!({"mode": "auto", "ttl": "auto"})), (&mut wanted, json!("auto"))]
        {
            send(&gateway, &provider, "messages", Some(marks), &body).await;
            *sent = provider.received().pop().unwrap().body;
        }
        assert_eq!(found, wanted, "turn {turn}");
    }
    let config =
        json!({"provider": "anthropic", "api_key": "k", "prompt_cache": {"mode": "auto", "ttl": "auto"}});
    let question = json!({"method": "POST", "path": "/v1/messages", "body": messages(2),
        "headers": {"x-gateway-api-key": KEY, "x-gateway-config": config.to_string()}});
    let explained = gateway.control(Method::POST, "/v1/explain").json(&question).send().await.unwrap();
    let explained: Value = explained.json().await.unwrap();
    assert_eq!(explained["tree"]["prompt_cache"], json!({"mode": "auto", "ttl": "auto"}), "{explained}");
}
