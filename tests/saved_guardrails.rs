//! Guardrails of the control plane: what is refused when one is saved, and trying one on a text.
//!
//! On the running binary. What saved guardrails do to requests is not here.

use crate::support::Gateway;
use crate::support::client::client;
use reqwest::Method;
use serde_json::{Value, json};
use words::settings::scopes::{KeyType, Scope};

async fn call(gateway: &Gateway, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let response = gateway.control(method, path).json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

async fn save(gateway: &Gateway, slug: &str, checks: Value) -> (u16, Value) {
    let body =
        json!({"name": "n", "slug": slug, "checks": checks, "actions": {"deny": true, "message": "no"}});
    call(gateway, Method::POST, "/v1/guardrails", &body).await
}

/// Path and message of each problem.
fn problems(refusal: &Value) -> Vec<(String, String)> {
    let text = |detail: &Value, name: &str| detail[name].as_str().unwrap_or_default().to_owned();
    let details = refusal["error"]["details"].as_array().unwrap_or_else(|| panic!("{refusal}"));
    details.iter().map(|detail| (text(detail, "path"), text(detail, "message"))).collect()
}

#[tokio::test]
async fn all_problems_of_a_guardrail_are_refused_at_once() {
    let gateway = Gateway::start("");
    let checks = json!([
        {"id": "default.nope"},
        {"id": "default.contains", "parameters": {"words": 5, "colour": "red"}},
        {"id": "default.regexMatch", "parameters": {"rule": "(?=a)"}},
        {"id": "default.wordCount", "parameters": {"minWords": 1}},
        {"id": "default.notNull"},
    ]);
    let (status, refusal) = save(&gateway, "bad", checks).await;
    let found = problems(&refusal);
    let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
    let wanted = [
        "checks[0]",
        "checks[1].parameters.colour",
        "checks[1].parameters.words",
        "checks[2].parameters.rule",
        "checks[3].parameters.maxWords",
    ];
    assert_eq!((status, paths), (400, wanted.to_vec()), "{refusal}");
    assert!(found[0].1.contains("there is no check \"default.nope\""), "{found:?}");
    assert_eq!(found[2].1, "must be a list of texts");
    assert!(found[3].1.contains("look-around"), "{found:?}");
    let parallel = json!({"name": "n", "checks": [{"id": "regexReplace", "parameters": {"rule": "a"}}], "actions": {"parallel": true}});
    let (status, refusal) = call(&gateway, Method::POST, "/v1/guardrails", &parallel).await;
    assert_eq!((status, problems(&refusal)[0].0.as_str()), (400, "actions.parallel"), "{refusal}");
    let both = json!([{"id": "default.modelWhitelist", "parameters": {"models": ["a"]}}]);
    assert_eq!(save(&gateway, "good", both).await.0, 200);
    let update = json!({"checks": [{"id": "default.endsWith", "parameters": {"suffix": ""}}]});
    let (status, refusal) = call(&gateway, Method::PUT, "/v1/guardrails/good", &update).await;
    assert_eq!((status, problems(&refusal)[0].0.as_str()), (400, "checks[0].parameters.suffix"), "{refusal}");
    assert_eq!(call(&gateway, Method::PUT, "/v1/guardrails/good", &json!({"name": "m"})).await.0, 200);
}

#[tokio::test]
async fn a_guardrail_is_tried_on_a_text() {
    let gateway = Gateway::start("");
    let checks = json!([
        {"id": "default.contains", "parameters": {"words": ["bomb"], "operator": "none"}},
        {"id": "default.regexReplace", "parameters": {"rule": r"\d{3}-\d{4}", "redactText": "[PHONE]"}},
        {"id": "default.wordCount", "parameters": {"minWords": 1, "maxWords": 9}, "is_enabled": false},
    ]);
    assert_eq!(save(&gateway, "mine", checks).await.0, 200);
    for (phase, text, verdict, changed) in [
        (json!("before"), "call 555-1234", true, "call [PHONE]"),
        (json!("after"), "a bomb, 555-1234", false, "a bomb, [PHONE]"),
        (Value::Null, "hello", true, "hello"),
    ] {
        let mut body = json!({"text": text});
        if !phase.is_null() {
            body["phase"] = phase;
        }
        let (status, result) = call(&gateway, Method::POST, "/v1/guardrails/mine/test", &body).await;
        assert_eq!(
            (status, &result["verdict"], &result["text"]),
            (200, &json!(verdict), &json!(changed)),
            "{result}"
        );
        assert_eq!(
            (&result["deny"], &result["id"], &result["type"]),
            (&json!(!verdict), &json!("mine"), &json!("guardrail"))
        );
        assert_eq!(result["transformed"], text != changed);
        let ids: Vec<&str> =
            result["checks"].as_array().unwrap().iter().map(|check| check["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["default.contains", "default.regexReplace"], "{result}");
        assert!(result["created_at"].is_string() && result["execution_time"].is_u64());
    }
    let test = "/v1/guardrails/mine/test";
    assert_eq!(call(&gateway, Method::POST, test, &json!({})).await.0, 400);
    assert_eq!(call(&gateway, Method::POST, test, &json!({"text": "a", "phase": "during"})).await.0, 400);
    assert_eq!(call(&gateway, Method::POST, "/v1/guardrails/none/test", &json!({"text": "a"})).await.0, 404);
    let only_requests = json!([{"id": "default.modelWhitelist", "parameters": {"models": ["test"]}}]);
    assert_eq!(save(&gateway, "models", only_requests).await.0, 200);
    let body = json!({"text": "a", "phase": "after"});
    let (status, refusal) = call(&gateway, Method::POST, "/v1/guardrails/models/test", &body).await;
    assert_eq!(status, 400, "{refusal}");
}

/// What checks call obeys the rules for custom hosts, also when an administrator tries it.
#[tokio::test]
async fn a_tried_check_calls_no_address_of_the_inside() {
    let gateway = Gateway::start("");
    let checks = json!([{"id": "default.webhook", "parameters": {"webhookURL": "http://169.254.169.254/latest", "failOnError": true}}]);
    assert_eq!(save(&gateway, "hook", checks).await.0, 200);
    let (status, result) =
        call(&gateway, Method::POST, "/v1/guardrails/hook/test", &json!({"text": "a"})).await;
    let check = &result["checks"][0];
    assert_eq!(
        (status, &result["verdict"], &check["fail_on_error"]),
        (200, &json!(false), &json!(true)),
        "{result}"
    );
    assert!(check["error"]["message"].as_str().unwrap().starts_with("The webhook failed: "), "{result}");
}

/// A guardrail that whoever it guards can end is advice: what the organisation has run in a workspace is its to change.
#[tokio::test]
async fn a_workspace_ends_no_guardrail_that_the_organisation_has_set() {
    let gateway = Gateway::start("");
    let scopes: Vec<&str> = KeyType::WorkspaceService.scopes().iter().map(Scope::as_str).collect();
    let body = json!({"name": "all rights", "workspace_id": "default", "scopes": scopes});
    let (status, made) = call(&gateway, Method::POST, "/v1/api-keys/workspace/service", &body).await;
    assert_eq!(status, 200, "{made}");
    let key = made["key"].as_str().unwrap().to_owned();
    let own = async |path: &str, body: Value| {
        let call = client().put(format!("{}{path}", gateway.control_url())).header("x-gateway-api-key", &key);
        let response = call.json(&body).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let words =
        |word: &str| json!([{"id": "default.contains", "parameters": {"operator": "none", "words": [word]}}]);
    for slug in ["organisation", "workspace"] {
        assert_eq!(save(&gateway, slug, words("secret")).await.0, 200);
    }
    let workspace = "/v1/admin/workspaces/default";
    let defaults = |slugs: Value| json!({"defaults": {"input_guardrails": slugs}});
    let (status, answer) = call(&gateway, Method::PUT, workspace, &defaults(json!(["organisation"]))).await;
    assert_eq!(status, 200, "{answer}");
    for (path, body) in [
        ("/v1/guardrails/organisation", json!({"checks": words("nothing")})),
        ("/v1/guardrails/organisation", json!({"actions": {"deny": false}})),
        (workspace, defaults(json!([]))),
        (workspace, defaults(json!(["workspace"]))),
        (workspace, json!({"defaults": {}})),
    ] {
        let (status, answer) = own(path, body.clone()).await;
        assert!(status == 403 && answer.contains("organisation"), "{path} {body}: {answer}");
    }
    // Its own it adds, changes, and takes out again.
    for (path, body) in [
        (workspace, defaults(json!(["organisation", "workspace"]))),
        ("/v1/guardrails/workspace", json!({"checks": words("other")})),
        (workspace, defaults(json!(["organisation"]))),
    ] {
        let (status, answer) = own(path, body.clone()).await;
        assert_eq!(status, 200, "{path} {body}: {answer}");
    }
    let (status, answer) = call(&gateway, Method::PUT, workspace, &defaults(json!([]))).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(own("/v1/guardrails/organisation", json!({"checks": words("a")})).await.0, 200);
}
