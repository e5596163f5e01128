//! Prompts from the outside: saved, changed, published, labelled, rendered and completed, and who may do that.
//!
//! The dialect of templates has its tables beside the code (`src/knowledge/prompt/tests`).

use crate::support::client::{client, new_trace};
use crate::support::gateway::Gateway;
use crate::support::sse;
use crate::support::stores::{self, on_each_store};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use std::sync::OnceLock;

const ADMIN: &str = "tp-admin-0123456789";
/// May call, and nothing else.
const CALLER: &str = "tp-caller-0123456789";
/// May render, and nothing else.
const RENDERER: &str = "tp-render-0123456789";

const SETTINGS: &str = "
auth:
  keys:
    - {name: admin, key: tp-admin-0123456789}
    - {name: caller, key: tp-caller-0123456789, scopes: [completions.write]}
    - {name: renderer, key: tp-render-0123456789, scopes: [prompts.render]}
providers:
  emulator: {provider: openai, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
  second: {provider: groq, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
custom_hosts: {allow_private: true}
header_prefixes: [x-gateway-, x-portkey-]
";

fn gateway() -> &'static Gateway {
    static GATEWAYS: [OnceLock<Gateway>; 2] = [const { OnceLock::new() }; 2];
    GATEWAYS[usize::from(stores::is_postgres())].get_or_init(|| Gateway::start(SETTINGS))
}

fn call(method: Method, path: &str, key: &str) -> RequestBuilder {
    client().request(method, format!("{}{path}", gateway().base_url())).header("x-gateway-api-key", key)
}

/// Status and body of a call with this key.
async fn sent(method: Method, path: &str, key: &str, body: Value) -> (u16, Value) {
    let call = call(method, path, key);
    let call = if body.is_null() { call } else { call.json(&body) };
    let response = call.send().await.unwrap();
    let status = response.status().as_u16();
    (status, response.json().await.unwrap_or_default())
}

/// The body of a call that must succeed.
async fn done(method: Method, path: &str, body: Value) -> Value {
    let (status, reply) = sent(method.clone(), path, ADMIN, body).await;
    assert_eq!(status, 200, "{method} {path}: {reply}");
    reply
}

/// Saves a prompt at `@emulator`; returns its slug.
async fn saved(string: &str, parameters: Value) -> String {
    let body = json!({
        "name": "Test Prompt", "string": string, "parameters": parameters, "virtual_key": "emulator",
        "model": "gpt-4o-mini"
    });
    let created = done(Method::POST, "/prompts", body).await;
    assert_eq!(created["object"], "prompt");
    let slug = created["slug"].as_str().unwrap().to_owned();
    assert!(slug.starts_with("pp-testpr-"), "{slug}");
    slug
}

fn chat(text: &str) -> String {
    json!([{"role": "user", "content": text}]).to_string()
}

async fn rendered(reference: &str, body: Value) -> Value {
    let reply = done(Method::POST, &format!("/prompts/{reference}/render"), body).await;
    assert_eq!(reply["success"], true);
    reply["data"].clone()
}

#[tokio::test]
async fn versions_are_made_published_and_rendered() {
    on_each_store(async || {
        let slug = saved(&chat("Say {{q}}"), json!({"temperature": 0.2, "max_tokens": 256})).await;
        let path = format!("/prompts/{slug}");
        let changed =
            done(Method::PUT, &path, json!({"patch": true, "parameters": {"temperature": 0.9}})).await;
        let request = json!({"variables": {"q": "hi"}});
        for (reference, temperature) in [
            (slug.clone(), 0.2),
            (format!("{slug}@latest"), 0.9),
            (format!("{slug}%402"), 0.9),
            (format!("{slug}@1"), 0.2),
        ] {
            let data = rendered(&reference, request.clone()).await;
            assert_eq!(
                (&data["temperature"], &data["messages"][0]["content"]),
                (&json!(temperature), &json!("Say hi"))
            );
        }
        assert_eq!(done(Method::PUT, &format!("{path}/makeDefault"), json!({"version": 2})).await, json!({}));
        assert_eq!(rendered(&slug, request.clone()).await["temperature"], 0.9);
        let one = done(Method::GET, &path, Value::Null).await;
        assert_eq!(
            (&one["prompt_version"], &one["prompt_version_id"]),
            (&json!(2), &changed["prompt_version_id"])
        );
        assert_eq!(one["variable_components"]["variables"], json!(["q"]));
        assert_eq!((&one["is_raw_template"], &one["string"]), (&json!(0), &json!(chat("Say {{q}}"))));
        let versions = done(Method::GET, &format!("{path}/versions"), Value::Null).await;
        let numbers: Vec<&Value> =
            versions["data"].as_array().unwrap().iter().map(|item| &item["prompt_version"]).collect();
        assert_eq!((&versions["total"], numbers), (&json!(2), vec![&json!(2), &json!(1)]));
        // By id as well as by slug.
        let id = one["id"].as_str().unwrap();
        assert_eq!(rendered(&format!("{id}@1"), request).await["temperature"], 0.2);
        let (status, error) =
            sent(Method::PUT, &format!("{path}/makeDefault"), ADMIN, json!({"version": 9})).await;
        assert_eq!((status, &error["data"]["errorCode"]), (404, &json!("AB08")));
    })
    .await;
}

#[tokio::test]
async fn a_change_names_all_members_or_patches_the_latest_version() {
    on_each_store(async || {
        let slug = saved(&chat("one"), json!({"n": 1})).await;
        let path = format!("/prompts/{slug}");
        let (status, error) = sent(Method::PUT, &path, ADMIN, json!({"string": chat("two")})).await;
        let paths: Vec<&Value> =
            error["error"]["details"].as_array().unwrap().iter().map(|detail| &detail["path"]).collect();
        assert_eq!(
            (status, paths),
            (400, vec![&json!("parameters"), &json!("model"), &json!("virtual_key")])
        );
        // The second patch starts from the first, which is not published.
        done(Method::PUT, &path, json!({"patch": true, "string": chat("two")})).await;
        done(Method::PUT, &path, json!({"patch": 1, "model": "gpt-5", "metadata": {"azure_alias": "mine"}}))
            .await;
        let data = rendered(&format!("{slug}@latest"), json!({"variables": {}})).await;
        assert_eq!(data, json!({"n": 1, "model": "mine", "messages": [{"role": "user", "content": "two"}]}));
        // A name or a description alone makes no version.
        done(Method::PUT, &path, json!({"name": "Renamed", "version_description": "none"})).await;
        let one = done(Method::GET, &format!("{path}/versions/3"), Value::Null).await;
        assert_eq!(
            (&one["name"], &one["template_metadata"]),
            (&json!("Renamed"), &json!({"azure_alias": "mine"}))
        );
        assert_eq!(sent(Method::GET, &format!("{path}/versions/4"), ADMIN, Value::Null).await.0, 404);
    })
    .await;
}

#[tokio::test]
async fn a_request_is_laid_over_the_stored_parameters() {
    on_each_store(async || {
    let slug = saved(&chat("Say {{q}}{{! x }}"), json!({"max_tokens": 256, "q": "sample"})).await;
    let request = json!({"variables": {"q": "a \"b\"\nc"}, "temperature": 1, "max_completion_tokens": 9});
    let data = rendered(&slug, request).await;
    let messages = json!([{"role": "user", "content": "Say a \"b\"\nc"}]);
    let wanted =
        json!({"model": "gpt-4o-mini", "messages": messages, "temperature": 1, "max_completion_tokens": 9});
    assert_eq!(data, wanted);
    let path = format!("/prompts/{slug}/render");
    let response = call(Method::POST, &path, ADMIN)
        .json(&json!({"variables": {}, "messages": []}))
        .send()
        .await
        .unwrap();
    let warnings = response.headers()["x-gateway-warnings"].to_str().unwrap();
    assert!(warnings.starts_with("messages of the request was not used"), "{warnings}");
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_rendered_is_refused() {
    on_each_store(async || {
        let slug = saved(&chat("Say {{q}}"), json!({})).await;
        let with_partial = saved(&chat("{{>>p}}"), json!({})).await;
        let variables = json!({"variables": {}});
        for (reference, key, body, status, wanted) in [
            (slug.as_str(), ADMIN, json!({}), 400, "variables"),
            (&slug, ADMIN, json!({"variables": []}), 400, "variables"),
            (&slug, ADMIN, json!({"variables": {}, "hyperparameters": {}}), 400, "hyperparameters"),
            ("pp-nothing", ADMIN, variables.clone(), 404, "Invalid prompt id"),
            (&format!("{slug}@nolabel"), ADMIN, variables.clone(), 404, "Invalid prompt id"),
            (&format!("{slug}@7"), ADMIN, variables.clone(), 404, "Invalid prompt id"),
            (&with_partial, ADMIN, variables.clone(), 400, "Missing variable partials: p"),
            (
                &with_partial,
                ADMIN,
                json!({"variables": {"p": "pp-gone"}}),
                400,
                "Missing prompt partials: pp-gone",
            ),
            (&slug, CALLER, variables.clone(), 403, "prompts.render"),
            (&slug, "tp-nobody-012345678", variables.clone(), 401, "service key"),
        ] {
            let (found, error) = sent(Method::POST, &format!("/prompts/{reference}/render"), key, body).await;
            let message = error["error"]["message"].as_str().unwrap_or_default();
            assert_eq!((found, message.contains(wanted)), (status, true), "{reference}: {error}");
        }
        assert_eq!(sent(Method::POST, &format!("/prompts/{slug}/render"), RENDERER, variables).await.0, 200);
    })
    .await;
}

#[tokio::test]
async fn broken_prompts_are_refused_with_all_their_problems() {
    on_each_store(async || {
    let body = json!({
        "name": " ", "string": "[{\"role\":\"user\",\"content\":\"{{#a}}{{/b}}{{>p@prod}}\"}]", "virtual_key": "nobody", "extra": 1
    });
    let (status, error) = sent(Method::POST, "/prompts", ADMIN, body).await;
    let paths: Vec<&str> = error["error"]["details"]
        .as_array()
        .unwrap()
        .iter()
        .map(|detail| detail["path"].as_str().unwrap())
        .collect();
    assert_eq!((status, &error["data"]["errorCode"]), (400, &json!("AB01")));
    assert_eq!(paths, ["extra", "name", "parameters"]);
    let body = json!({
        "name": "x", "string": "[{\"role\":\"user\",\"content\":\"{{#a}}{{/b}}{{>p@prod}}\"}]", "virtual_key": "nobody",
        "parameters": {}
    });
    let (status, error) = sent(Method::POST, "/prompts", ADMIN, body).await;
    let message = error["error"]["message"].as_str().unwrap();
    for wanted in [
        "{{/b}} stands where {{#a}} must end first",
        "labels are for prompts",
        "no stored provider \"nobody\"",
    ] {
        assert_eq!((status, message.contains(wanted)), (400, true), "{message}");
    }
    })
    .await;
}

#[tokio::test]
async fn partials_change_their_prompts_at_once() {
    on_each_store(async || {
        let partial =
            done(Method::POST, "/prompts/partials", json!({"name": "Tone", "string": "Be {{how}}."})).await;
        let partial_slug = partial["slug"].as_str().unwrap();
        let slug =
            saved(&chat(&format!("{{{{>{partial_slug}}}}}|{{{{>{partial_slug}@1}}}}")), json!({})).await;
        let request = json!({"variables": {"how": "\"kind\""}});
        let text = async || rendered(&slug, request.clone()).await["messages"][0]["content"].clone();
        assert_eq!(text().await, "Be \"kind\".|Be \"kind\".");
        let path = format!("/prompts/partials/{partial_slug}");
        done(Method::PUT, &path, json!({"string": "Be very {{how}}."})).await;
        assert_eq!(text().await, "Be \"kind\".|Be \"kind\".");
        done(Method::PUT, &format!("{path}/makeDefault"), json!({"version": 2})).await;
        assert_eq!(text().await, "Be very \"kind\".|Be \"kind\".");
        let one = done(Method::GET, &path, Value::Null).await;
        assert_eq!((&one["version"], &one["string"]), (&json!(2), &json!("Be very {{how}}.")));
        assert_eq!(done(Method::GET, &format!("{path}/versions"), Value::Null).await["total"], 2);
        let (status, _) =
            sent(Method::POST, "/prompts/partials", ADMIN, json!({"name": "x", "string": "{{#a}}"})).await;
        assert_eq!(status, 400);
        // It stays as long as a prompt needs it.
        let (status, error) = sent(Method::DELETE, &path, ADMIN, Value::Null).await;
        assert!(status == 409 && error.to_string().contains(&slug), "{error}");
        let archive = json!({"status": "archived"});
        assert_eq!(sent(Method::PUT, &path, ADMIN, archive).await.0, 409);
        done(Method::PUT, &format!("/prompts/{slug}"), json!({"patch": true, "string": chat("plain")})).await;
        assert_eq!(
            sent(Method::DELETE, &path, ADMIN, Value::Null).await.0,
            409,
            "the published version has it"
        );
        done(Method::PUT, &format!("/prompts/{slug}/makeDefault"), json!({"version": 2})).await;
        done(Method::DELETE, &path, Value::Null).await;
        let (status, error) =
            sent(Method::POST, &format!("/prompts/{slug}@1/render"), ADMIN, request.clone()).await;
        assert_eq!(status, 400);
        assert!(
            error["error"]["message"].as_str().unwrap().starts_with("Missing prompt partials: "),
            "{error}"
        );
    })
    .await;
}

#[tokio::test]
async fn what_includes_what_does_not_exist_or_itself_is_not_saved() {
    on_each_store(async || {
    let refused = async |method: Method, path: &str, body: Value, wanted: &str| {
        let (status, error) = sent(method, path, ADMIN, body).await;
        let detail = &error["error"]["details"][0];
        let of = detail["path"].as_str().unwrap();
        let message = detail["message"].as_str().unwrap();
        assert!(status == 400 && ["string", "version"].contains(&of) && message.contains(wanted), "{error}");
    };
    let prompt = |string: &str| json!({"name": "x", "string": string, "parameters": {}, "virtual_key": "emulator", "model": "m"});
    refused(Method::POST, "/prompts", prompt(&chat("{{>pp-nowhere}}")), "no partial \"pp-nowhere\"").await;
    let partial = |string: &str| json!({"name": "p", "string": string});
    refused(Method::POST, "/prompts/partials", partial("{{#a}}{{>pp-nowhere}}{{/a}}"), "pp-nowhere").await;
    let first = done(Method::POST, "/prompts/partials", partial("one")).await;
    let first = first["slug"].as_str().unwrap();
    let second = done(Method::POST, "/prompts/partials", partial(&format!("{{{{>{first}}}}}"))).await;
    let second = second["slug"].as_str().unwrap();
    refused(Method::POST, "/prompts", prompt(&chat(&format!("{{{{>{first}@2}}}}"))), "@2").await;
    let path = format!("/prompts/partials/{first}");
    // A version that includes its own newest one, or one that does.
    refused(Method::PUT, &path, partial(&format!("{{{{>{first}@latest}}}}")), "include each other").await;
    // The published version of the first is still another one: the circle would be closed by publishing it.
    done(Method::PUT, &path, partial(&format!("{{{{>{second}}}}}"))).await;
    refused(Method::PUT, &format!("{path}/makeDefault"), json!({"version": 2}), "include each other").await;
    refused(Method::POST, "/prompts", prompt(&chat("{{>a@staging}}")), "a@staging").await;
    done(Method::POST, "/prompts", prompt(&chat(&format!("{{{{>{second}}}}}")))).await;
    })
    .await;
}

#[tokio::test]
async fn labels_stand_for_one_version_of_a_prompt() {
    on_each_store(async || {
        let slug = saved(&chat("one"), json!({})).await;
        let path = format!("/prompts/{slug}");
        done(Method::PUT, &path, json!({"patch": true, "string": chat("two")})).await;
        let name = format!("canary-{}", &slug[slug.len() - 6..]);
        let label = done(Method::POST, "/labels", json!({"name": name, "color_code": "#ffffff"})).await;
        let text = async |reference: &str| {
            rendered(reference, json!({"variables": {}})).await["messages"][0]["content"].clone()
        };
        done(Method::PUT, &format!("{path}/versions/2"), json!({"label_id": label["id"]})).await;
        done(Method::PUT, &format!("{path}/versions/2"), json!({"label_id": "production"})).await;
        assert_eq!(text(&format!("{slug}@{name}")).await, "two");
        let one = done(Method::GET, &format!("{path}/versions/2"), Value::Null).await;
        assert_eq!(one["prompt_version_labels"].as_array().unwrap().len(), 2, "{one}");
        // It moves.
        done(Method::PUT, &format!("{path}/versions/1"), json!({"label_id": label["id"]})).await;
        assert_eq!(
            (text(&format!("{slug}@{name}")).await, text(&format!("{slug}@production")).await),
            (json!("one"), json!("two"))
        );
        done(Method::DELETE, &format!("/labels/{name}"), Value::Null).await;
        let render = format!("/prompts/{slug}@{name}/render");
        assert_eq!(sent(Method::POST, &render, ADMIN, json!({"variables": {}})).await.0, 404);
        for (method, path, body, status) in [
            (Method::DELETE, "/labels/production", Value::Null, 409),
            (Method::PUT, "/labels/staging", json!({"description": "x"}), 409),
            (Method::POST, "/labels", json!({"name": "latest"}), 400),
            (Method::POST, "/labels", json!({"name": "12"}), 400),
            (Method::POST, "/labels", json!({"name": "a b"}), 400),
            (Method::POST, "/labels", json!({"name": "production"}), 409),
            (Method::GET, "/labels/nothing", Value::Null, 404),
        ] {
            assert_eq!(sent(method.clone(), path, ADMIN, body).await.0, status, "{method} {path}");
        }
        let labels = done(Method::GET, "/labels?search=stag", Value::Null).await;
        assert_eq!((&labels["total"], &labels["data"][0]["name"]), (&json!(1), &json!("staging")));
    })
    .await;
}

#[tokio::test]
async fn collections_hold_prompts() {
    on_each_store(async || {
        let collection = done(Method::POST, "/collections", json!({"name": "Support Team"})).await;
        let id = collection["id"].as_str().unwrap();
        assert!(collection["slug"].as_str().unwrap().starts_with("co-suppor-"), "{collection}");
        let slug = saved("text {{q}}", json!({})).await;
        let (status, _) =
            sent(Method::PUT, &format!("/prompts/{slug}"), ADMIN, json!({"collection_id": "co-nothing"}))
                .await;
        assert_eq!(status, 400);
        done(Method::PUT, &format!("/prompts/{slug}"), json!({"collection_id": collection["slug"]})).await;
        let listed = done(Method::GET, &format!("/prompts?collection_id={id}"), Value::Null).await;
        assert_eq!((&listed["total"], &listed["data"][0]["slug"]), (&json!(1), &json!(slug)));
        assert_eq!(listed["data"][0]["model"], "gpt-4o-mini");
        assert_eq!(sent(Method::DELETE, &format!("/collections/{id}"), ADMIN, Value::Null).await.0, 409);
        done(Method::DELETE, &format!("/prompts/{slug}"), Value::Null).await;
        done(Method::DELETE, &format!("/collections/{id}"), Value::Null).await;
        assert_eq!(sent(Method::GET, &format!("/collections/{id}"), ADMIN, Value::Null).await.0, 404);
        assert_eq!(sent(Method::GET, &format!("/prompts/{slug}"), ADMIN, Value::Null).await.0, 404);
        let all = done(Method::GET, "/collections", Value::Null).await;
        let default =
            all["data"].as_array().unwrap().iter().find(|item| item["is_default"] == 1).unwrap().clone();
        let default_path = format!("/collections/{}", default["id"].as_str().unwrap());
        assert_eq!(sent(Method::DELETE, &default_path, ADMIN, Value::Null).await.0, 409);
        assert_eq!(done(Method::GET, "/collections/default", Value::Null).await["id"], default["id"]);
    })
    .await;
}

#[tokio::test]
async fn a_prompt_is_completed_whole_and_streamed() {
    on_each_store(async || {
        let tag = new_trace();
        let trace = new_trace();
        let slug = saved(&chat("Say {{q}}"), json!({"stream": true, "temperature": 0.5})).await;
        let path = format!("/prompts/{slug}/completions");
        let body = json!({"variables": {"q": "hello"}, "model": format!("gpt-4o-mini?tag={tag}")});
        let response = call(Method::POST, &path, CALLER)
            .header("x-gateway-trace-id", &trace)
            .json(&body)
            .send()
            .await
            .unwrap();
        assert_eq!(
            (response.status(), &response.headers()["x-gateway-provider"]),
            (StatusCode::OK, &"openai".parse().unwrap())
        );
        let reply: Value = response.json().await.unwrap();
        assert_eq!(reply["object"], "chat.completion");
        let received = gateway().emulator_requests(&tag).await;
        assert_eq!(received.len(), 1, "{received:?}");
        let upstream = received[0].to_string();
        assert!(upstream.contains("/v1/chat/completions") && upstream.contains("Say hello"), "{upstream}");
        assert!(!upstream.contains("variables"), "{upstream}");
        let line = gateway().access_line(&trace).await;
        let one = done(Method::GET, &format!("/prompts/{slug}"), Value::Null).await;
        assert_eq!(
            (&line["prompt_slug"], &line["prompt_version_id"]),
            (&json!(slug), &one["prompt_version_id"])
        );
        assert_eq!((&line["operation"], &line["path"]), (&json!("chat"), &json!(format!("/v1{path}"))));

        let body = json!({"variables": {"q": "hello"}, "stream": true});
        let response = call(Method::POST, &path, CALLER).json(&body).send().await.unwrap();
        assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"));
        let events = sse::events(&response.text().await.unwrap());
        assert_eq!(events.last().unwrap().data, "[DONE]");
        assert!(!sse::chat_text(&events).is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_text_prompt_is_a_text_completion() {
    on_each_store(async || {
        let slug = saved("Say {{q}}", json!({"max_tokens": 5})).await;
        let path = format!("/prompts/{slug}/completions");
        let (status, reply) = sent(Method::POST, &path, CALLER, json!({"variables": {"q": "a\"b"}})).await;
        assert_eq!((status, &reply["object"]), (200, &json!("text_completion")), "{reply}");
    })
    .await;
}

#[tokio::test]
async fn a_config_falls_back_between_prompts() {
    on_each_store(async || {
        let tag = new_trace();
        let trace = new_trace();
        let first = saved(&chat("first {{q}}"), json!({})).await;
        let second = saved(&chat("second {{q}}"), json!({})).await;
        let config = json!({
            "strategy": {"mode": "fallback"},
            "targets": [
                {"virtual_key": "second", "override_params": {"model": "m?status=503"}},
                {"prompt_id": second, "override_params": {"model": format!("gpt-4o-mini?tag={tag}")}},
            ]
        });
        let request = json!({"variables": {"q": "hello"}});
        let response = call(Method::POST, &format!("/prompts/{first}/completions"), CALLER)
            .header("x-gateway-config", config.to_string())
            .header("x-gateway-trace-id", &trace)
            .json(&request)
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["x-gateway-last-used-option-index"], "config.targets[1]");
        let received = gateway().emulator_requests(&tag).await[0].to_string();
        assert!(received.contains("second hello") && !received.contains("first"), "{received}");
        assert_eq!(gateway().access_line(&trace).await["prompt_slug"], json!(second));
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_completed_is_refused_in_both_shapes() {
    on_each_store(async || {
        let slug = saved(&chat("Say {{q}}"), json!({})).await;
        let completions = format!("/prompts/{slug}/completions");
        let good = json!({"variables": {}});
        let unknown = json!({"prompt_id": "pp-nothing"}).to_string();
        for (path, key, config, body, status, wanted) in [
            ("/prompts/pp-nothing/completions", CALLER, None, good.clone(), 404, "Invalid prompt id"),
            (&completions, CALLER, None, json!({"q": 1}), 400, "variables must be a JSON object"),
            (
                &completions,
                CALLER,
                Some(&unknown),
                good.clone(),
                400,
                "Following prompt_id are not valid: pp-nothing",
            ),
            (&completions, RENDERER, None, good.clone(), 403, "completions.write"),
        ] {
            let call = call(Method::POST, path, key).json(&body);
            let call =
                config.iter().fold(call, |call, config| call.header("x-gateway-config", config.as_str()));
            let response = call.send().await.unwrap();
            let found = response.status().as_u16();
            let error: Value = response.json().await.unwrap();
            let message = error["error"]["message"].as_str().unwrap_or_default();
            assert_eq!((found, message.contains(wanted)), (status, true), "{path}: {error}");
            if path.starts_with("/prompts") {
                assert_eq!(
                    (&error["status"], &error["message"]),
                    (&json!("failure"), &error["error"]["message"])
                );
            }
        }
    })
    .await;
}

/// A config is good for prompts and for other requests.
#[tokio::test]
async fn a_prompt_of_a_config_has_no_effect_on_other_paths() {
    on_each_store(async || {
        let config = json!({
            "prompt_id": "pp-nothing", "strategy": {"mode": "fallback"},
            "targets": [{"provider": "@emulator"}, {"provider": "@emulator", "prompt_id": "pp-none"}],
        });
        let body = json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hi"}]});
        let call = call(Method::POST, "/chat/completions", CALLER).json(&body);
        let response = call.header("x-gateway-config", config.to_string()).send().await.unwrap();
        let warnings = response.headers().get("x-gateway-warnings").cloned();
        assert_eq!(response.status(), StatusCode::OK, "{}", response.text().await.unwrap());
        let warnings = warnings.unwrap().to_str().unwrap().to_owned();
        assert!(warnings.contains("prompt_id: no effect"), "{warnings}");
        assert!(warnings.contains("targets[1].prompt_id: no effect"), "{warnings}");
    })
    .await;
}

#[tokio::test]
async fn what_is_given_to_render_is_judged_by_the_rules_of_its_body() {
    on_each_store(async || {
        let of_chat = saved(&chat("Say {{q}}"), json!({"logprobs": true, "temperature": 0.2})).await;
        let of_text = saved("Say {{q}}", json!({})).await;
        for (slug, members, wanted) in [
            (&of_chat, json!({"stream": "yes"}), Some("stream")),
            (&of_chat, json!({"temperature": 2.5}), Some("temperature")),
            (&of_chat, json!({"top_p": "a"}), Some("top_p")),
            (&of_chat, json!({"n": 0}), Some("n")),
            (&of_chat, json!({"stream_options": {"include_usage": true}}), Some("stream_options")),
            (&of_text, json!({"logprobs": 9}), Some("logprobs")),
            (&of_text, json!({"best_of": 1, "n": 3}), Some("best_of")),
            // What the prompt has counts, and null takes it away.
            (&of_chat, json!({"top_logprobs": 3, "stream": true, "stream_options": {}}), None),
            (
                &of_chat,
                json!({"temperature": null, "max_completion_tokens": 9, "some_vendors_own": [1]}),
                None,
            ),
            (&of_text, json!({"logprobs": 5, "messages": 7}), None),
        ] {
            let mut body = json!({"variables": {"q": "x"}});
            body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            let (status, reply) =
                sent(Method::POST, &format!("/prompts/{slug}/render"), RENDERER, body).await;
            assert_eq!(status, if wanted.is_some() { 400 } else { 200 }, "{members}: {reply}");
            assert_eq!(reply["error"]["param"].as_str(), wanted, "{members}: {reply}");
        }
    })
    .await;
}

#[tokio::test]
async fn workspaces_do_not_see_each_others_prompts() {
    on_each_store(async || {
    let name = format!("Other {}", new_trace());
    let other = done(Method::POST, "/admin/workspaces", json!({"name": name})).await;
    let slug = saved(&chat("x"), json!({})).await;
    let body = json!({
        "name": "Theirs", "string": "x", "parameters": {}, "virtual_key": "emulator", "workspace_id": other["id"]
    });
    let theirs = done(Method::POST, "/prompts", body).await;
    let theirs = theirs["slug"].as_str().unwrap();
    // A client of the default workspace.
    for path in [format!("/prompts/{theirs}/completions"), format!("/prompts/{theirs}@1/completions")] {
        assert_eq!(sent(Method::POST, &path, CALLER, json!({"variables": {}})).await.0, 404, "{path}");
    }
    assert_eq!(
        sent(Method::POST, &format!("/prompts/{slug}/completions"), CALLER, json!({"variables": {}})).await.0,
        200
    );
    let listed =
        done(Method::GET, &format!("/prompts?workspace_id={}", other["slug"].as_str().unwrap()), Value::Null)
            .await;
    assert_eq!((&listed["total"], &listed["data"][0]["slug"]), (&json!(1), &json!(theirs)));
    })
    .await;
}
