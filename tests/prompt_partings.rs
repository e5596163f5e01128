//! Where the prompts of two logged requests part (`GET /v1/logs/{id}/prompt-cache`, `turnpike explain --cache`), on the running binary.

use crate::support::client::{chat_at, client, new_trace};
use crate::support::command::turnpike_with;
use crate::support::mcp_fake::http;
use crate::support::provider::Provider;
use crate::support::settings::OPERATOR_KEY;
use crate::support::{Gateway, wait};
use serde_json::{Value, json};

const SETTINGS: &str = "custom_hosts: {allow: [127.0.0.1]}\nlogs: {payloads: all}\n";

async fn compared(gateway: &Gateway, earlier: &str, later: &str) -> (u16, Value) {
    let path = format!("/v1/logs/{later}/prompt-cache?after={earlier}");
    let response = gateway.control(reqwest::Method::GET, &path).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn the_first_other_text_is_found_in_the_log() {
    let gateway = Gateway::start(SETTINGS);
    let provider = Provider::start(|_| {
        let answer = json!({"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0,
            "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 4000, "completion_tokens": 1, "total_tokens": 4001}});
        http("200 OK", "", "application/json", &answer.to_string())
    })
    .await;
    let system = "You are careful. ".repeat(600);
    let mut traces = Vec::new();
    for (time, turns) in [("10:05", 1), ("10:05", 2), ("10:06", 2)] {
        let mut messages = vec![json!({"role": "system", "content": format!("{system}It is {time}.")})];
        messages.extend((0..turns).map(|turn| json!({"role": "user", "content": format!("turn {turn}")})));
        let body = json!({"model": "gpt-5", "messages": messages});
        let trace = new_trace();
        let sent = chat_at(&gateway, &trace, &provider.base_url(), &body).send().await.unwrap();
        assert_eq!(sent.status(), 200);
        traces.push(trace);
    }
    let [first, second, third] = &*traces else { panic!() };
    wait::until("the logs", async || (compared(&gateway, first, third).await.0 == 200).then_some(())).await;

    let (_, going_on) = compared(&gateway, first, second).await;
    assert_eq!((&going_on["causes"], &going_on["parted_at"]), (&json!([]), &Value::Null), "{going_on}");
    assert_eq!(going_on["common_bytes"], going_on["earlier_bytes"]);
    let (_, parted) = compared(&gateway, second, third).await;
    assert_eq!(parted["causes"], json!(["changed"]), "{parted}");
    let at = json!({"path": "messages[0].content", "byte": system.len() + 10, "before": "5.", "now": "6."});
    assert_eq!((&parted["parted_at"], &parted["minimum_units"]), (&at, &json!(1024)));

    assert_eq!(compared(&gateway, third, second).await.0, 400, "it is not the earlier one");
    assert_eq!(compared(&gateway, "none", second).await.0, 404);
    let open = client().get(format!("{}/v1/logs/{third}/prompt-cache?after={second}", gateway.control_url()));
    assert_eq!(open.send().await.unwrap().status(), 401);

    let url = gateway.control_url();
    let arguments = ["explain", "--cache", second, third];
    let printed = turnpike_with(&arguments, &[("TURNPIKE_URL", &url), ("TURNPIKE_KEY", OPERATOR_KEY)]);
    assert!(
        printed.stdout.contains("parted  at messages[0].content"),
        "{}{}",
        printed.stdout,
        printed.stderr
    );
}
