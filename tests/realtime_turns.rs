//! Turns of realtime sessions: each is held by the limits of its key before the provider has it, charged with what its response reports,
//! and has a line of its own; and the tokens that open such sessions.
//!
//! The provider is one of this file: it says what was used, and begins turns by itself. Not how bytes pass (`realtime`).

use crate::support::Gateway;
use crate::support::client::{client, install_ring, new_trace};
use crate::support::wait::until;
use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, accept_async, connect_async};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// A turn costs 1,000 x 4 and 100 x 16 dollars a million: 0.0056. Audio is dearer: 4,096 tokens of it cost 0.26 at most.
const KEYS: &str = "
auth:
  keys:
    - {name: free, key: tp-free-0123456789}
    - {name: soft, key: tp-soft-0123456789, usage_limits: [{credit_limit: 0.011}]}
    - {name: rate, key: tp-rate-0123456789, rate_limits: [{unit: rpd, value: 2}]}
    - {name: hard, key: tp-hard-0123456789, usage_limits: [{credit_limit: 0.2, hard: true}]}
    - {name: bound, key: tp-bound-0123456789, allowed_models: [gpt-realtime]}
custom_hosts: {allow_private: true}
";

/// A provider of realtime sessions.
struct Provider {
    host: String,
    got: Arc<Mutex<Vec<Value>>>,
}

impl Provider {
    async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let host = format!("http://{}/v1", listener.local_addr().unwrap());
        let got: Arc<Mutex<Vec<Value>>> = Arc::default();
        let noted = Arc::clone(&got);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream, Arc::clone(&noted)));
            }
        });
        Self { host, got }
    }

    fn count(&self, kind: &str) -> usize {
        self.got.lock().iter().filter(|event| event["type"] == kind).count()
    }
}

/// Responds to each `response.create`, but to one with the instructions `hang`; begins a turn by itself at audio that is `SPEECH`; ends
/// one that is cancelled. Answers the oldest `session.update` at each `test.answer`.
async fn converse(stream: TcpStream, got: Arc<Mutex<Vec<Value>>>) {
    let Ok(mut socket) = accept_async(stream).await else { return };
    let session = json!({"type": "session.created", "session": {"id": "sess_1", "model": "gpt-realtime"}});
    let _sent = socket.send(Message::text(session.to_string())).await;
    let mut responses = 0;
    let mut updates = std::collections::VecDeque::new();
    let done = |id: &str, status: &str, output: u64| {
        let usage = json!({"total_tokens": 1000 + output, "input_tokens": 1000, "output_tokens": output,
            "input_token_details": {"text_tokens": 1000, "audio_tokens": 0},
            "output_token_details": {"text_tokens": output, "audio_tokens": 0}});
        json!({"type": "response.done", "response": {"id": id, "status": status, "usage": usage}})
    };
    while let Some(Ok(message)) = socket.next().await {
        let Ok(text) = message.to_text() else { continue };
        let Ok(event) = serde_json::from_str::<Value>(text) else { continue };
        got.lock().push(event.clone());
        let begins = event["type"] == "response.create" || event["audio"] == "SPEECH";
        responses += usize::from(begins);
        let id = format!("resp_{responses}");
        let mut answers = Vec::new();
        if begins {
            answers.push(json!({"type": "response.created", "response": {"id": id}}));
        }
        if event["type"] == "response.create" && event["response"]["instructions"] != "hang" {
            answers.push(done(&id, "completed", 100));
        }
        if event["type"] == "response.cancel" {
            answers.push(done(event["response_id"].as_str().unwrap(), "cancelled", 10));
        }
        if event["type"] == "session.update" {
            updates.push_back(event["session"].clone());
        }
        if event["type"] == "test.answer" {
            answers.push(json!({"type": "session.updated", "session": updates.pop_front()}));
        }
        for answer in answers {
            let _sent = socket.send(Message::text(answer.to_string())).await;
        }
    }
}

async fn open(gateway: &Gateway, path: &str, headers: &[(&str, &str)]) -> Result<Socket, (u16, String)> {
    install_ring();
    let url = format!("ws://127.0.0.1:{}/v1/{path}", gateway.ports.data);
    let mut request = url.into_client_request().unwrap();
    for (name, value) in headers {
        let name: http::HeaderName = name.parse().unwrap();
        request.headers_mut().append(name, value.parse().unwrap());
    }
    match tokio::time::timeout(READ_TIMEOUT, connect_async(request)).await.unwrap() {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(response)) => {
            let body = response.body().clone().unwrap_or_default();
            Err((response.status().as_u16(), String::from_utf8_lossy(&body).into_owned()))
        }
        Err(other) => panic!("{other}"),
    }
}

/// The keys, and the provider as the operator's: what goes to a client's own host with the client's own key costs nothing.
fn settings(provider: &Provider) -> String {
    format!("{KEYS}providers: {{up: {{provider: openai, api_key: k, custom_host: '{}'}}}}\n", provider.host)
}

fn headers<'a>(key: &'a str, trace: &'a str) -> [(&'a str, &'a str); 3] {
    [("x-gateway-api-key", key), ("x-gateway-trace-id", trace), ("x-gateway-provider", "@up")]
}

async fn next(socket: &mut Socket) -> Value {
    let message = tokio::time::timeout(READ_TIMEOUT, socket.next()).await.expect("no message arrived");
    let message = message.unwrap().unwrap();
    serde_json::from_str(message.to_text().unwrap()).unwrap_or_else(|_| panic!("{message:?}"))
}

async fn send(socket: &mut Socket, event: Value) {
    socket.send(Message::text(event.to_string())).await.unwrap();
}

/// A turn: the types of what arrives, up to the end of the response or an error; and the last event.
async fn turn(socket: &mut Socket, response: Value) -> (Vec<String>, Value) {
    send(socket, json!({"type": "response.create", "event_id": "mine", "response": response})).await;
    let mut kinds = Vec::new();
    loop {
        let event = next(socket).await;
        let kind = event["type"].as_str().unwrap().to_owned();
        let is_last = kind == "response.done" || kind == "error";
        kinds.push(kind);
        if is_last {
            return (kinds, event);
        }
    }
}

/// The access lines of a trace, once there are so many.
async fn lines(gateway: &Gateway, trace: &str, count: usize) -> Vec<Value> {
    let member = format!("\"trace_id\":{}", Value::from(trace));
    let what = format!("{count} lines of {trace}");
    let enough = async || Some(gateway.stdout.lines_with(&member)).filter(|lines| lines.len() >= count);
    let found = until(&what, enough).await;
    found.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn each_turn_is_held_charged_and_recorded() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(&settings(&provider));
    for (key, code, until_when) in
        [("tp-soft-0123456789", "04", "ask the operator"), ("tp-rate-0123456789", "05", "Try again in")]
    {
        let trace = new_trace();
        let before = provider.count("response.create");
        let mut socket = open(&gateway, "realtime?model=gpt-realtime", &headers(key, &trace)).await.unwrap();
        assert_eq!(next(&mut socket).await["type"], "session.created");
        for _ in 0..2 {
            assert_eq!(turn(&mut socket, json!({})).await.0, ["response.created", "response.done"], "{key}");
        }
        let (kinds, event) = turn(&mut socket, json!({})).await;
        assert_eq!(kinds, ["error"]);
        let error = &event["error"];
        assert_eq!((&error["code"], &error["event_id"]), (&json!(code), &json!("mine")), "{event}");
        assert!(error["message"].as_str().unwrap().contains(until_when), "{event}");
        assert!(error["limit"]["scope"] == "api_key" && event["event_id"].is_string(), "{event}");
        assert_eq!(provider.count("response.create") - before, 2, "the third one was sent");
        // The session itself goes on.
        send(&mut socket, json!({"type": "conversation.item.create", "item": {"n": key}})).await;
        until("the item", async || {
            provider.got.lock().iter().any(|event| event["item"]["n"] == key).then_some(())
        })
        .await;
        socket.close(None).await.unwrap();
        drop(socket);
        let lines = lines(&gateway, &trace, 4).await;
        let of_turns: Vec<&Value> = lines.iter().filter(|line| line["status"] == 200).collect();
        assert_eq!(of_turns.len(), 2, "{lines:?}");
        for line in of_turns {
            assert_eq!((&line["tokens"]["input"], &line["tokens"]["output"]), (&json!(1000), &json!(100)));
            assert!((line["cost_usd"].as_f64().unwrap() - 0.0056).abs() < 1e-9, "{line}");
        }
        let refused =
            lines.iter().filter(|line| [412, 429].contains(&line["status"].as_u64().unwrap())).count();
        let session = lines.iter().find(|line| line["status"] == 101).unwrap();
        assert_eq!((refused, session.get("cost_usd")), (1, None), "{lines:?}");
        // Another session is refused at once where the budget is spent.
        let again = open(&gateway, "realtime?model=gpt-realtime", &headers(key, &trace)).await;
        assert!(matches!(again, Err((412 | 429, _))), "{:?}", again.err());
    }
}

#[tokio::test]
async fn turns_that_the_provider_begins_are_held_as_well() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(&settings(&provider));
    let trace = new_trace();
    let rate = headers("tp-rate-0123456789", &trace);
    let mut socket = open(&gateway, "realtime?model=gpt-realtime", &rate).await.unwrap();
    next(&mut socket).await;
    let speech = || json!({"type": "input_audio_buffer.append", "audio": "SPEECH"});
    for _ in 0..2 {
        send(&mut socket, speech()).await;
        assert_eq!(next(&mut socket).await["type"], "response.created");
    }
    send(&mut socket, speech()).await;
    assert_eq!(next(&mut socket).await["type"], "response.created");
    assert_eq!(next(&mut socket).await["error"]["code"], "05");
    let done = next(&mut socket).await;
    assert_eq!(
        (&done["response"]["status"], &done["response"]["id"]),
        (&json!("cancelled"), &json!("resp_3"))
    );
    assert_eq!(provider.count("response.cancel"), 1);
    drop(socket);
    // What the cancelled one used is charged, and the two that have no report count as what was held for them.
    let lines = lines(&gateway, &trace, 5).await;
    let cancelled = lines.iter().find(|line| line["tokens"]["output"] == 10).expect("no line of it");
    assert!((cancelled["cost_usd"].as_f64().unwrap() - 0.00416).abs() < 1e-9, "{cancelled}");
    assert_eq!(lines.iter().filter(|line| line["cost_status"] == "unknown").count(), 2, "{lines:?}");
}

/// A turn that nobody reports is charged what was held for it, so that leaving before its end is not free.
#[tokio::test]
async fn turns_without_a_report_spend_a_soft_budget() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(&settings(&provider));
    for left in 0..40 {
        let trace = new_trace();
        let soft = headers("tp-soft-0123456789", &trace);
        let mut socket = match open(&gateway, "realtime?model=gpt-realtime", &soft).await {
            Ok(socket) => socket,
            Err((status, body)) => {
                assert!(status == 412 && left > 0, "{left}: {status} {body}");
                return;
            }
        };
        next(&mut socket).await;
        send(&mut socket, json!({"type": "response.create", "response": {"instructions": "hang"}})).await;
        assert_eq!(next(&mut socket).await["type"], "response.created");
        socket.close(None).await.unwrap();
        drop(socket);
        lines(&gateway, &trace, 2).await;
    }
    panic!("forty turns without a report left the budget as it was");
}

#[tokio::test]
async fn a_hard_budget_holds_the_most_that_a_turn_can_cost() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(&settings(&provider));
    let trace = new_trace();
    let hard = headers("tp-hard-0123456789", &trace);
    let mut socket = open(&gateway, "realtime?model=gpt-realtime", &hard).await.unwrap();
    next(&mut socket).await;
    // Without a bound: 4,096 tokens of audio do not fit.
    let (kinds, event) = turn(&mut socket, json!({})).await;
    assert_eq!(kinds, ["error"], "{event}");
    assert!(event["error"]["message"].as_str().unwrap().contains("hard limit"), "{event}");
    let audio = json!({"type": "input_audio_buffer.append", "audio": "SPEECH"});
    send(&mut socket, audio).await;
    assert_eq!(next(&mut socket).await["type"], "error");
    assert_eq!(provider.got.lock().len(), 0, "nothing may begin a turn that is not held");
    assert_eq!(turn(&mut socket, json!({"max_output_tokens": 100})).await.0.len(), 2);
    // What has no readable type might be a turn.
    for message in
        ["no JSON", r#"{"type":"x","type":"response.create"}"#, r#"{"\u0074ype":"response.create"}"#]
    {
        socket.send(Message::text(message)).await.unwrap();
        assert_eq!(next(&mut socket).await["error"]["code"], "invalid_request", "{message}");
    }
    send(&mut socket, json!({"type": "session.update", "session": {"type": "transcription"}})).await;
    assert_eq!(next(&mut socket).await["type"], "error");
    let transcribing = open(&gateway, "realtime?intent=transcription&model=gpt-realtime", &hard).await;
    assert_eq!(transcribing.err().map(|error| error.0), Some(501));
    // A client that leaves before the report is charged what was held.
    send(
        &mut socket,
        json!({"type": "response.create", "response": {"instructions": "hang", "max_output_tokens": 1000}}),
    )
    .await;
    assert_eq!(next(&mut socket).await["type"], "response.created");
    drop(socket);
    let url = format!("{}/v1/api-keys/self", gateway.control_url());
    let spent = until("the hold as spent", async || {
        let own = client().get(&url).header("x-gateway-api-key", "tp-hard-0123456789").send().await.unwrap();
        let own: Value = own.json().await.unwrap();
        let usage = own["usage"].to_string();
        let spent =
            find_number(&own["usage"], "current_usage").or_else(|| find_number(&own["usage"], "spent"));
        spent.filter(|spent| *spent > 0.05).ok_or(usage).ok()
    })
    .await;
    assert!(spent < 0.2, "{spent}");
    // Sockets that are none of the realtime API have no bound.
    let other = open(&gateway, "proxy/listen", &hard).await;
    assert_eq!(other.err().map(|error| error.0), Some(412));
    // Nor may one that is stand where it is not read.
    for path in ["proxy/Realtime?model=gpt-realtime", "x/v1/realtime?model=gpt-realtime"] {
        let elsewhere = open(&gateway, path, &hard).await;
        assert_eq!(elsewhere.err().map(|error| error.0), Some(403), "{path}");
    }
}

/// A turn has the highest bound that may be in force: the answer to an earlier change of the session ends no later one.
#[tokio::test]
async fn a_late_answer_lowers_no_bound() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(&settings(&provider));
    let trace = new_trace();
    let hard = headers("tp-hard-0123456789", &trace);
    let mut socket = open(&gateway, "realtime?model=gpt-realtime", &hard).await.unwrap();
    next(&mut socket).await;
    let bound = |bound: Value| json!({"type": "session.update", "session": {"max_output_tokens": bound}});
    let answered = async |socket: &mut Socket| {
        send(socket, json!({"type": "test.answer"})).await;
        assert_eq!(next(socket).await["type"], "session.updated");
    };
    send(&mut socket, bound(json!(100))).await;
    send(&mut socket, bound(json!("inf"))).await;
    answered(&mut socket).await;
    assert_eq!(turn(&mut socket, json!({})).await.0, ["error"], "it may say all that its model can");
    answered(&mut socket).await;
    assert_eq!(turn(&mut socket, json!({})).await.0, ["error"]);
    send(&mut socket, bound(json!(100))).await;
    assert_eq!(turn(&mut socket, json!({})).await.0, ["error"], "it may not be in force yet");
    answered(&mut socket).await;
    assert_eq!(turn(&mut socket, json!({})).await.0, ["response.created", "response.done"]);
}

fn find_number(json: &Value, name: &str) -> Option<f64> {
    match json {
        Value::Object(members) => members
            .get(name)
            .and_then(Value::as_f64)
            .or_else(|| members.values().find_map(|inner| find_number(inner, name))),
        Value::Array(items) => items.iter().find_map(|inner| find_number(inner, name)),
        _ => None,
    }
}

#[tokio::test]
async fn the_model_of_a_session_stays() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(&settings(&provider));
    let trace = new_trace();
    let bound = headers("tp-bound-0123456789", &trace);
    let mut socket = open(&gateway, "realtime?model=gpt-realtime", &bound).await.unwrap();
    next(&mut socket).await;
    send(&mut socket, json!({"type": "session.update", "session": {"model": "gpt-realtime", "n": 1}})).await;
    send(&mut socket, json!({"type": "session.update", "session": {"model": "gpt-realtime-dear"}})).await;
    let event = next(&mut socket).await;
    assert_eq!(
        (&event["error"]["param"], &event["type"]),
        (&json!("session.model"), &json!("error")),
        "{event}"
    );
    assert_eq!(turn(&mut socket, json!({})).await.0.len(), 2);
    assert_eq!(provider.count("session.update"), 1);
}

async fn control(gateway: &Gateway, method: http::Method, path: &str, body: &Value) -> Value {
    let url = format!("{}{path}", gateway.control_url());
    let call = client().request(method, url).header("x-gateway-api-key", "tp-free-0123456789");
    let call = if body.is_null() { call } else { call.json(body) };
    let response = call.send().await.unwrap();
    assert_eq!(response.status(), 200);
    serde_json::from_str(&response.text().await.unwrap()).unwrap_or_default()
}

/// A POST at the data port: its status and body.
async fn post(gateway: &Gateway, path: &str, headers: &[(&str, &str)], body: &Value) -> (u16, Value) {
    let call = client().post(format!("{}{path}", gateway.base_url()));
    let call = headers.iter().fold(call, |call, (name, value)| call.header(*name, *value));
    let response = call.json(body).send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status} {text}")))
}

#[tokio::test]
async fn a_token_opens_sessions_of_its_key_and_ends_with_it() {
    let provider = Provider::start().await;
    let stored = format!(
        "providers: {{oai: {{provider: openai, api_key: sk-provider, custom_host: '{}'}}}}\n",
        provider.host
    );
    let gateway = Gateway::start(&format!("{KEYS}{stored}"));
    let made = json!({"name": "app", "scopes": ["completions.write"], "rate_limits": [{"type": "requests", "unit": "rpd", "value": 2}]});
    let made = control(&gateway, http::Method::POST, "/v1/api-keys/workspace/service", &made).await;
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    let ours = [("x-gateway-api-key", key), ("x-gateway-provider", "@oai")];
    let wanted = json!({"expires_after": {"anchor": "created_at", "seconds": 60},
        "session": {"type": "realtime", "model": "gpt-realtime", "instructions": "be kind"}});
    let (status, answer) = post(&gateway, "/realtime/client_secrets", &ours, &wanted).await;
    assert_eq!((status, &answer["session"]["model"]), (200, &json!("gpt-realtime")), "{answer}");
    let token = answer["value"].as_str().unwrap();
    let in_a_minute = jiff::Timestamp::now().as_second() + 60;
    assert!(token.starts_with("ek_tp_") && (answer["expires_at"].as_i64().unwrap() - in_a_minute).abs() < 5);
    assert!(answer["session"]["id"].is_string() && !token.contains(key), "{answer}");

    // As a page opens it; what the token grants cannot be replaced.
    let protocol = format!("realtime, openai-insecure-api-key.{token}");
    let bearer = format!("Bearer {token}");
    let trace = new_trace();
    let by_page = [("sec-websocket-protocol", &*protocol), ("x-gateway-trace-id", &*trace)];
    let by_header = [
        ("authorization", &*bearer),
        ("x-gateway-custom-host", "http://127.0.0.1:9/v1"),
        ("x-gateway-provider", "openai"),
    ];
    let mut open_now = None;
    for (path, headers) in [("realtime", &by_page[..]), ("realtime?model=other", &by_header[..])] {
        let before = provider.count("session.update");
        let mut socket = open(&gateway, path, headers).await.unwrap();
        next(&mut socket).await;
        assert_eq!(turn(&mut socket, json!({})).await.0.len(), 2);
        assert_eq!(provider.count("session.update"), before + 1);
        open_now = Some(socket);
    }
    assert!(provider.got.lock().iter().any(|event| event["session"]["instructions"] == "be kind"));
    assert_eq!(lines(&gateway, &trace, 1).await[0]["key"], "app");
    // Limits are those of the key, over all of its sessions.
    let mut socket = open_now.unwrap();
    assert_eq!(turn(&mut socket, json!({})).await.1["error"]["code"], "05");

    // It opens nothing else.
    for path in ["/chat/completions", "/realtime/client_secrets"] {
        let (status, answer) = post(&gateway, path, &[("authorization", &bearer)], &wanted).await;
        assert_eq!(status, 401, "{path}: {answer}");
    }
    // A session that is open ends with the next turn, and no other is opened.
    control(&gateway, http::Method::DELETE, &format!("/v1/api-keys/{id}"), &Value::Null).await;
    let (_, event) = turn(&mut socket, json!({})).await;
    assert_eq!(event["error"]["code"], "invalid_api_key", "{event}");
    let last = tokio::time::timeout(READ_TIMEOUT, socket.next()).await.unwrap();
    let code = match last {
        Some(Ok(Message::Close(Some(frame)))) => u16::from(frame.code),
        other => panic!("{other:?}"),
    };
    assert_eq!(code, 1008);
    let refused = open(&gateway, "realtime", &by_page).await;
    assert_eq!(refused.err().map(|error| error.0), Some(401));
}

#[tokio::test]
async fn nothing_of_a_provider_opens_a_session_without_the_gateway() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(&settings(&provider));
    let trace = new_trace();
    let free = headers("tp-free-0123456789", &trace);
    for path in [
        "/realtime/calls",
        "/realtime/calls/rtc_1/accept",
        "/proxy/v1/realtime/calls",
        "/proxy//Realtime/client_secrets",
        "/realtime/transcription_sessions",
        "/realtime/translations/client_secrets",
    ] {
        let (status, answer) = post(&gateway, path, &free, &json!({})).await;
        assert_eq!(status, 403, "{path}: {answer}");
    }
    let legacy = json!({"model": "gpt-4o-realtime-preview", "voice": "alloy"});
    let (status, answer) = post(&gateway, "/realtime/sessions", &free, &legacy).await;
    assert_eq!((status, &answer["voice"]), (200, &json!("alloy")), "{answer}");
    assert!(answer["client_secret"]["value"].as_str().unwrap().starts_with("ek_tp_"), "{answer}");
    for (wanted, param) in [
        (json!({}), "session.model"),
        (json!({"session": {"type": "transcription"}}), "session.type"),
        (json!({"session": {"model": "m"}, "expires_after": {"seconds": 9}}), "expires_after.seconds"),
        (json!({"session": {"model": "m", "instructions": "x".repeat(5000)}}), "session"),
    ] {
        let (status, answer) = post(&gateway, "/realtime/client_secrets", &free, &wanted).await;
        assert_eq!((status, &answer["error"]["param"]), (400, &json!(param)), "{answer}");
    }
    let (status, answer) =
        post(&gateway, "/realtime/client_secrets", &[("x-gateway-api-key", "wrong")], &legacy).await;
    assert_eq!(status, 401, "{answer}");
}

#[tokio::test]
async fn guardrails_that_cannot_judge_a_session_refuse_it() {
    let provider = Provider::start().await;
    let (trace, config) = (new_trace(), |list: &str| {
        json!({"provider": "openai", "api_key": "k", "custom_host": provider.host,
            list: [{"default.contains": {"operator": "none", "words": ["secret"]}, "deny": true}]})
        .to_string()
    });
    for (setting, wanted) in [("", Some(501)), ("realtime: {unjudged: true}\n", None)] {
        let gateway = Gateway::start(&format!("{KEYS}{setting}"));
        for list in ["input_guardrails", "output_guardrails"] {
            let config = config(list);
            let headers = [
                ("x-gateway-api-key", "tp-free-0123456789"),
                ("x-gateway-config", &*config),
                ("x-gateway-trace-id", &trace),
            ];
            let opened = open(&gateway, "realtime?model=gpt-realtime", &headers).await;
            assert_eq!(opened.as_ref().err().map(|error| error.0), wanted, "{list}: {:?}", opened.err());
        }
    }
}
