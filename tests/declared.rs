//! Stored objects as files: `POST /v1/apply`, `GET /v1/export`, and the commands on them, on each kind of store.
//!
//! What single calls of the API do is not tested here: an apply makes them.

use crate::support::client::client;
use crate::support::command::{Finished, turnpike_with};
use crate::support::settings::{LISTEN, OPERATOR_KEY};
use crate::support::stores::on_each_store;
use crate::support::{Gateway, wait};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use words::settings::scopes::{KeyType, Scope};

const SECRET: &str = "sk-canary-declared-0123456789";

async fn send(gateway: &Gateway, key: &str, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let call = client().request(method, format!("{}{path}", gateway.control_url()));
    let call = call.header("x-gateway-api-key", key).timeout(Duration::from_secs(120));
    let call = if body.is_null() { call } else { call.json(body) };
    let response = call.send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    assert!(!text.contains("canary"), "{path}: {text}");
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status} {text}")))
}

pub(crate) async fn operate(gateway: &Gateway, method: Method, path: &str, body: Value) -> (u16, Value) {
    send(gateway, OPERATOR_KEY, method, path, &body).await
}

pub(crate) async fn done(gateway: &Gateway, method: Method, path: &str, body: Value) -> Value {
    let (status, answer) = operate(gateway, method, path, body).await;
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

/// Applies objects of a set. `more`: `prune`, `take_over` …
pub(crate) async fn apply(gateway: &Gateway, set: &str, objects: &Value, more: Value) -> (u16, Value) {
    let mut body = json!({"set": set, "objects": objects});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    operate(gateway, Method::POST, "/v1/apply", body).await
}

pub(crate) async fn applied(gateway: &Gateway, set: &str, objects: &Value, more: Value) -> Value {
    let (status, plan) = apply(gateway, set, objects, more).await;
    assert_eq!(status, 200, "{plan}");
    plan
}

/// The rows of a plan that do not say `unchanged`, in a line each.
fn lines(plan: &Value) -> Vec<String> {
    let rows = plan["changes"].as_array().unwrap().iter().filter(|row| row["action"] != "unchanged");
    rows.map(|row| {
        let changed: Vec<&str> =
            row["changed"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        format!("{} {} {} {}", text("action"), text("kind"), text("name"), changed.join(","))
            .trim_end()
            .to_owned()
    })
    .collect()
}

fn problem(plan: &Value, name: &str) -> String {
    let rows = plan["changes"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}: {plan}"));
    format!("{}: {}", row["problem"]["path"].as_str().unwrap_or_default(), row["problem"]["message"])
}

fn config(slug: &str, attempts: u32) -> Value {
    json!({"kind": "configs", "slug": slug, "name": slug, "config": {"retry": {"attempts": attempts}}})
}

/// One of each kind, with names that are hard to write.
fn one_of_each() -> Value {
    let odd = "Ops: \"a\" #1, 'b' \\ {c} [d] | > & * ! % @ ` é 日本 ${X} ~";
    json!([
        {"kind": "api-keys", "name": odd, "type": "workspace-service", "workspace_id": "red", "scopes": ["completions.write"],
         "key_sha256": "5".repeat(64), "defaults": {"config_id": "main"}, "rate_limits": [{"type": "requests", "unit": "rpm", "value": 9}]},
        {"kind": "workspaces", "slug": "red", "name": odd, "description": "\ttabs\nand lines ", "defaults": {"input_guardrails": ["no-x"],
         "user_api_key_config": "main", "metadata": {"team": odd}}, "usage_limits": [{"type": "cost", "credit_limit": 10.5}]},
        {"kind": "labels", "name": "beta", "workspace_id": "red", "description": odd},
        {"kind": "collections", "slug": "inner", "name": "Inner", "workspace_id": "red", "parent_collection_id": "outer"},
        {"kind": "collections", "slug": "outer", "name": odd, "workspace_id": "red"},
        {"kind": "integrations", "slug": "all", "name": odd, "ai_provider_id": "openai", "key": SECRET, "workspace_id": null,
         "rate_limits": [{"type": "requests", "unit": "rpm", "value": 100}]},
        {"kind": "providers", "slug": "of-all", "name": "of all", "integration_id": "all", "workspace_id": "red",
         "usage_limits": {"credit_limit": 5}, "allowed_models": ["gpt-*"]},
        {"kind": "integrations", "slug": "own", "name": "own", "ai_provider_id": "bedrock", "workspace_id": "red",
         "configurations": {"aws_access_key_id": SECRET, "aws_secret_access_key": SECRET, "aws_region": "eu-west-1"}},
        {"kind": "guardrails", "slug": "no-x", "name": odd, "workspace_id": "red", "actions": {"deny": true},
         "checks": [{"id": "default.contains", "parameters": {"words": ["x", odd], "operator": "none"}}]},
        {"kind": "guardrails", "slug": "hook", "name": "hook", "workspace_id": "red", "actions": {"deny": false, "async": true},
         "checks": [{"id": "default.webhook", "parameters": {"webhookURL": "https://hooks.example/a", "headers": {"X-Key": SECRET}}}]},
        {"kind": "prompts/partials", "slug": "a-first", "name": "first", "workspace_id": "red", "string": "{{>z-last}} and"},
        {"kind": "prompts/partials", "slug": "z-last", "name": "last", "workspace_id": "red", "string": odd.replace(['{', '}'], "")},
        {"kind": "prompts", "slug": "greet", "name": odd, "workspace_id": "red", "collection_id": "inner", "virtual_key": "of-all",
         "model": "gpt-4o", "parameters": {"temperature": 0.5}, "string": "Hello {{name}}: {{>a-first}}", "labels": ["beta", "production"]},
        {"kind": "configs", "slug": "main", "name": "main", "workspace_id": "red", "is_default": true,
         "config": {"targets": [{"provider": "@of-all"}, {"provider": "openai", "api_key": SECRET}], "strategy": {"mode": "fallback"},
                    "input_guardrails": ["no-x"]}},
        {"kind": "model-names", "slug": "fast", "name": "fast-*", "to": "@of-all", "model": "gpt-*", "workspace_id": "red", "description": odd},
        {"kind": "mcp-servers", "slug": "tools", "name": "tools", "url": "https://mcp.example/a", "workspace_id": "red",
         "configurations": {"custom_headers": {"X-Token": SECRET}}},
        {"kind": "mcp-servers", "slug": "an-api", "name": "api", "url": "https://api.example/v2", "workspace_id": "red",
         "openapi": {"operations": {"deny": ["x*"]}, "document": {"openapi": "3.1.0", "info": {"title": odd}, "paths": {"/a/{b}": {
            "get": {"operationId": "a", "parameters": [{"name": "b", "in": "path", "schema": {"$ref": "#/components/schemas/B"}}]}}},
            "components": {"schemas": {"B": {"type": "string", "pattern": "^a$", "default": null}}}}}},
        {"kind": "policies/usage-limits", "slug": "each", "workspace_id": null, "type": "cost", "credit_limit": 3, "periodic_reset": "monthly",
         "conditions": [{"key": "metadata._user", "value": "*"}], "group_by": [{"key": "metadata._user"}]},
        {"kind": "policies/rate-limits", "slug": "rates", "workspace_id": "red", "type": "requests", "unit": "rpm", "value": 7, "name": odd,
         "conditions": [{"key": "metadata._user", "value": "*"}], "group_by": [{"key": "metadata._user"}]},
    ])
}

fn run(gateway: &Gateway, arguments: &[&str], secrets: &[(&str, &str)]) -> Finished {
    let url = gateway.control_url();
    let own = [("TURNPIKE_URL", url.as_str()), ("TURNPIKE_KEY", OPERATOR_KEY)];
    let environment: Vec<(&str, &str)> = own.into_iter().chain(secrets.iter().copied()).collect();
    turnpike_with(arguments, &environment)
}

#[tokio::test]
async fn what_is_exported_is_the_same_in_another_gateway_and_changes_nothing_in_its_own() {
    on_each_store(async || {
        let gateway = Gateway::start(LISTEN);
        let objects = one_of_each();
        let plan = applied(&gateway, "team", &objects, json!({})).await;
        assert_eq!(plan["totals"], json!({"create": objects.as_array().unwrap().len()}), "{plan}");
        let again = applied(&gateway, "team", &objects, json!({"prune": true})).await;
        assert_eq!(again["totals"], json!({"unchanged": objects.as_array().unwrap().len()}), "{again}");
        let main = done(&gateway, Method::GET, "/v1/configs/main?workspace_id=red", Value::Null).await;
        assert_eq!(
            (&main["data"]["origin"], &main["data"]["file_set"]),
            (&json!("file"), &json!("team")),
            "{main}"
        );
        let versions = done(&gateway, Method::GET, "/v1/configs/main/versions", Value::Null).await;
        assert_eq!(versions["total"], 1, "an apply that changes nothing makes no version: {versions}");

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("team.yaml");
        let path = file.to_str().unwrap();
        let exported = run(&gateway, &["export", "--only", "team"], &[]);
        assert_eq!(exported.code, Some(0), "{}", exported.stderr);
        assert!(!exported.stdout.contains("canary"), "{}", exported.stdout);
        assert!(exported.stdout.contains("# Not in this file: api-keys: 1"), "{}", exported.stdout);
        std::fs::write(&file, &exported.stdout).unwrap();
        // The secrets are not given here, and kept.
        let same = run(&gateway, &["diff", path], &[]);
        assert_eq!(same.code, Some(0), "{}{}", same.stdout, same.stderr);
        assert!(same.stdout.contains("the secret INTEGRATIONS_ALL_KEY is not given"), "{}", same.stdout);

        let other = Gateway::start(LISTEN);
        let refused = run(&other, &["apply", path], &[]);
        assert_eq!(refused.code, Some(1), "{}{}", refused.stdout, refused.stderr);
        assert!(
            refused.stdout.contains("needs the secret INTEGRATIONS_ALL_KEY, which is not given"),
            "{}",
            refused.stdout
        );
        let names: Vec<&str> = exported
            .stdout
            .split("from_env: ")
            .skip(1)
            .filter_map(|rest| rest.split(['}', '\n']).next())
            .collect();
        let secrets: Vec<(&str, &str)> = names.iter().map(|name| (*name, SECRET)).collect();
        assert!(secrets.len() >= 6, "{names:?}");
        let planned = run(&other, &["apply", "--plan", path], &secrets);
        assert_eq!(planned.code, Some(2), "{}{}", planned.stdout, planned.stderr);
        let made = run(&other, &["apply", path], &secrets);
        assert_eq!(made.code, Some(0), "{}{}", made.stdout, made.stderr);
        let there = run(&other, &["export", "--only", "team"], &[]);
        let without_keys = |text: &str| {
            text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(without_keys(&there.stdout), without_keys(&exported.stdout));
        assert_eq!(run(&other, &["diff", path], &secrets).code, Some(0));
        // A secret that is given and is the same is no change, and another one is.
        let rotated = run(&other, &["diff", path], &[("INTEGRATIONS_ALL_KEY", "sk-other-canary")]);
        assert_eq!(rotated.code, Some(2), "{}", rotated.stdout);
        assert!(rotated.stdout.contains("update integrations all: key"), "{}", rotated.stdout);
    })
    .await;
}

#[tokio::test]
async fn only_objects_of_the_same_set_that_are_in_no_file_are_deleted_and_only_when_that_is_wanted() {
    on_each_store(async || {
        let gateway = Gateway::start(LISTEN);
        done(
            &gateway,
            Method::POST,
            "/v1/configs",
            json!({"name": "h", "slug": "by-hand", "config": {"cache": {"mode": "simple"}}}),
        )
        .await;
        applied(&gateway, "a", &json!([config("a-1", 1), config("a-2", 1)]), json!({})).await;
        applied(&gateway, "b", &json!([config("b-1", 1), config("b-2", 1)]), json!({"prune": true})).await;
        let kept = applied(&gateway, "b", &json!([config("b-1", 1)]), json!({})).await;
        assert_eq!(lines(&kept), [""; 0]);
        let pruned = applied(&gateway, "b", &json!([config("b-1", 1)]), json!({"prune": true})).await;
        assert_eq!(lines(&pruned), ["delete configs b-2"]);
        let list = done(&gateway, Method::GET, "/v1/configs", Value::Null).await;
        let mut slugs: Vec<&str> =
            list["data"].as_array().unwrap().iter().filter_map(|item| item["slug"].as_str()).collect();
        slugs.sort_unstable();
        assert_eq!(slugs, ["a-1", "a-2", "b-1", "by-hand"]);
        // What was in no file for a while comes back under its name.
        let back = applied(&gateway, "b", &json!([config("b-1", 1), config("b-2", 4)]), json!({})).await;
        assert_eq!(lines(&back), ["create configs b-2"]);
        // Nobody has an object of another set or of the API by naming it.
        let foreign = json!([config("a-1", 2), config("by-hand", 2)]);
        let (status, plan) = apply(&gateway, "b", &foreign, json!({})).await;
        assert_eq!(status, 409, "{plan}");
        assert!(problem(&plan, "a-1").contains("files of the set"), "{plan}");
        assert!(problem(&plan, "by-hand").contains("managed by the API and differs"), "{plan}");
        let taken = applied(&gateway, "b", &foreign, json!({"take_over": true})).await;
        assert_eq!(
            lines(&taken),
            [
                "update configs a-1 config.retry.attempts,origin",
                "update configs by-hand config.cache,config.retry,name,origin"
            ]
        );
        let gone = applied(&gateway, "a", &json!([config("a-2", 1)]), json!({"prune": true})).await;
        assert_eq!(lines(&gone), [""; 0], "it is another set's now");
    })
    .await;
}

#[tokio::test]
async fn a_kept_secret_is_not_sent_to_another_host() {
    let gateway = Gateway::start(LISTEN);
    let account = |host: &str, key: Value| {
        json!([{"kind": "integrations", "slug": "p", "name": "p", "ai_provider_id": "openai", "workspace_id": null, "key": key,
                "configurations": {"custom_host": host}}])
    };
    let key = json!({"from_env": "KEY"});
    applied(&gateway, "s", &account("https://a.example/v1", SECRET.into()), json!({})).await;
    let same = applied(&gateway, "s", &account("https://a.example/v1", key.clone()), json!({})).await;
    assert_eq!(
        (lines(&same).len(), &same["changes"][0]["notes"]),
        (0, &json!(["the secret KEY is not given: the stored one is kept"]))
    );
    let absent = json!([{"kind": "integrations", "slug": "p", "name": "p", "ai_provider_id": "openai", "workspace_id": null,
                         "configurations": {"custom_host": "https://b.example/v1"}}]);
    let no_host = json!([{"kind": "integrations", "slug": "p", "name": "p", "ai_provider_id": "openai", "workspace_id": null, "key": key}]);
    for moved in [account("https://b.example/v1", key.clone()), absent, no_host] {
        let (status, plan) = apply(&gateway, "s", &moved, json!({})).await;
        assert_eq!(status, 409, "{plan}");
        assert!(problem(&plan, "p").contains("Give the account's secrets anew"), "{plan}");
    }
    let vendor = json!([{"kind": "integrations", "slug": "p", "name": "p", "ai_provider_id": "anthropic", "workspace_id": null, "key": key,
                         "configurations": {"custom_host": "https://a.example/v1"}}]);
    let (status, plan) = apply(&gateway, "s", &vendor, json!({})).await;
    assert_eq!(status, 409, "{plan}");
    assert!(problem(&plan, "p").contains("ai_provider_id cannot be changed"), "{plan}");
    let given = applied(&gateway, "s", &account("https://b.example/v1", SECRET.into()), json!({})).await;
    assert_eq!(lines(&given), ["update integrations p configurations.custom_host"]);

    // The same inside of configs, checks and MCP servers.
    let nested = |host: &str, key: Value| {
        json!([
            {"kind": "configs", "slug": "the-c", "name": "c", "config": {"provider": "openai", "api_key": key, "custom_host": host}},
            {"kind": "guardrails", "slug": "the-g", "name": "g", "actions": {"deny": false},
             "checks": [{"id": "default.webhook", "parameters": {"webhookURL": format!("{host}/hook"), "headers": {"X-Key": key}}}]},
            {"kind": "mcp-servers", "slug": "the-m", "name": "m", "url": format!("{host}/mcp"), "configurations": {"custom_headers": {"X-Key": key}}},
        ])
    };
    applied(&gateway, "n", &nested("https://a.example", SECRET.into()), json!({})).await;
    let same = applied(&gateway, "n", &nested("https://a.example", key.clone()), json!({})).await;
    assert_eq!(same["totals"], json!({"unchanged": 3}), "{same}");
    let (status, plan) = apply(&gateway, "n", &nested("https://b.example", key), json!({})).await;
    assert_eq!((status, &plan["totals"]), (409, &json!({"refused": 3})), "{plan}");
}

#[tokio::test]
async fn three_thousand_objects_are_planned_and_applied() {
    on_each_store(async || {
        let gateway = Gateway::start(LISTEN);
        let objects = |attempts: u32| {
            let configs = (0..1500).map(move |number| config(&format!("c-{number}"), attempts));
            let labels = (0..750).map(|number| json!({"kind": "labels", "name": format!("l-{number}")}));
            let rates = (0..750).map(|number| {
                json!({"kind": "policies/rate-limits", "slug": format!("r-{number}"), "workspace_id": null, "type": "requests", "unit": "rpm",
                       "value": 5, "conditions": [{"key": "metadata._user", "value": "*"}], "group_by": [{"key": "metadata._user"}]})
            });
            Value::Array(configs.chain(labels).chain(rates).collect())
        };
        let totals = async |objects: &Value, more: Value| {
            applied(&gateway, "many", objects, more).await["totals"].clone()
        };
        assert_eq!(totals(&objects(1), json!({})).await, json!({"create": 3000}));
        let unchanged = totals(&objects(1), json!({"dry_run": true, "prune": true})).await;
        assert_eq!(unchanged, json!({"unchanged": 3000}));
        let changed = totals(&objects(2), json!({"dry_run": true})).await;
        assert_eq!(changed, json!({"update": 1500, "unchanged": 1500}));
    })
    .await;
}

/// A key of the workspace `red`.
async fn key_with(gateway: &Gateway, scopes: &[&str]) -> String {
    let body = json!({"name": "k", "scopes": scopes, "workspace_id": "red"});
    let made = done(gateway, Method::POST, "/v1/api-keys/workspace/service", body).await;
    made["key"].as_str().unwrap().to_owned()
}

/// Two workspaces, a provider with a limit of the organisation's, an integration of the organisation.
async fn with_workspaces() -> Gateway {
    let gateway = Gateway::start(LISTEN);
    for slug in ["red", "blue"] {
        done(&gateway, Method::POST, "/v1/admin/workspaces", json!({"name": slug, "slug": slug})).await;
    }
    let limited = json!({"name": "p", "slug": "p", "provider": "openai", "key": "sk-1", "workspace_id": "red",
        "usage_limits": {"credit_limit": 5}});
    done(&gateway, Method::POST, "/v1/providers", limited).await;
    let of_all = json!({"name": "all", "slug": "all", "ai_provider_id": "openai", "key": "sk-1"});
    done(&gateway, Method::POST, "/v1/integrations", of_all).await;
    gateway
}

/// A key of `red` with every right that such keys may have.
async fn full_key(gateway: &Gateway) -> String {
    let every: Vec<&str> = KeyType::WorkspaceService.scopes().iter().map(Scope::as_str).collect();
    key_with(gateway, &every).await
}

fn in_workspace(slug: &str, workspace: &str) -> Value {
    let mut object = config(slug, 1);
    object["workspace_id"] = workspace.into();
    object
}

#[tokio::test]
async fn an_apply_does_what_its_key_could_do_by_single_calls() {
    let gateway = with_workspaces().await;
    let red = full_key(&gateway).await;
    let reader = key_with(&gateway, &["configs.read", "configs.list"]).await;
    let scopes = ["configs.read", "configs.create", "configs.update", "workspace_service_api_keys.create"];
    let maker = key_with(&gateway, &scopes).await;
    let raised = json!({"kind": "providers", "slug": "p", "name": "p", "workspace_id": "red", "usage_limits": {"credit_limit": 5000}});
    let renamed = json!({"kind": "integrations", "slug": "all", "name": "mine", "ai_provider_id": "openai", "workspace_id": null});
    let stronger = json!({"kind": "api-keys", "name": "new", "workspace_id": "red", "scopes": ["completions.write"],
        "key_sha256": "7".repeat(64)});
    for (key, object, wanted) in [
        (&red, in_workspace("cc", "blue"), "another workspace"),
        (&red, raised, "key of the organisation has set these limits"),
        (&red, renamed, "belongs to the organisation"),
        (&red, json!({"kind": "workspaces", "slug": "green", "name": "green"}), "workspaces.create"),
        (&red, stronger.clone(), "Only keys of the organisation take keys"),
        (&reader, in_workspace("cc", "red"), "configs.create"),
        (&maker, stronger, "cannot give a right it does not have"),
        (&maker, json!({"kind": "labels", "name": "l", "workspace_id": "red"}), "prompts.create"),
    ] {
        let body = json!({"set": "s", "objects": [in_workspace("fine", "red"), object], "take_over": true});
        let (status, plan) = send(&gateway, key, Method::POST, "/v1/apply", &body).await;
        assert_eq!(status, 409, "{object}: {plan}");
        let message = plan["changes"][1]["problem"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(wanted), "{object}: {message:?}");
    }
    let list = done(&gateway, Method::GET, "/v1/configs", Value::Null).await;
    assert_eq!(list["total"], 0, "what is beside a refused object is not written: {list}");
}

#[tokio::test]
async fn a_key_of_a_workspace_reaches_nothing_of_others() {
    let gateway = with_workspaces().await;
    let red = full_key(&gateway).await;
    let objects = json!([in_workspace("bb", "blue"), in_workspace("rr", "red")]);
    applied(&gateway, "s", &objects, json!({})).await;
    let (status, shown) = send(&gateway, &red, Method::GET, "/v1/export?set=s", &Value::Null).await;
    assert_eq!(status, 200, "{shown}");
    let slugs: Vec<&str> =
        shown["objects"].as_array().unwrap().iter().filter_map(|object| object["slug"].as_str()).collect();
    assert_eq!(slugs, ["rr"], "{shown}");
    let empty = json!({"set": "s", "objects": [], "prune": true});
    let (status, plan) = send(&gateway, &red, Method::POST, "/v1/apply", &empty).await;
    assert_eq!((status, lines(&plan)), (200, vec!["delete configs rr".to_owned()]));
    let (status, plan) = send(&gateway, "tp-unknown-0123456789", Method::POST, "/v1/apply", &empty).await;
    assert_eq!(status, 401, "{plan}");
    let left = done(&gateway, Method::GET, "/v1/export?set=s", Value::Null).await;
    assert_eq!(left["objects"][0]["slug"], "bb", "{left}");
}

#[tokio::test]
async fn one_refused_object_keeps_all_from_being_written_and_a_plan_holds_for_its_state_only() {
    on_each_store(async || {
        let gateway = Gateway::start(LISTEN);
        let mut bad = config("bad", 1);
        bad["config"] = json!({"provider": "@nowhere"});
        let objects = json!([config("good", 1), {"kind": "labels", "name": "new"}, bad]);
        let (status, plan) = apply(&gateway, "s", &objects, json!({})).await;
        assert_eq!((status, &plan["applied"]), (409, &json!(false)), "{plan}");
        assert!(problem(&plan, "bad").contains("nowhere"), "{plan}");
        let exported = done(&gateway, Method::GET, "/v1/export?set=s", Value::Null).await;
        assert_eq!(exported["objects"], json!([]), "{exported}");

        let objects = json!([config("good", 1)]);
        let planned = applied(&gateway, "s", &objects, json!({"dry_run": true})).await;
        assert_eq!(
            (&planned["applied"], lines(&planned)),
            (&json!(false), vec!["create configs good".to_owned()])
        );
        let digest = planned["digest"].clone();
        let other = applied(&gateway, "s", &json!([config("good", 2)]), json!({"dry_run": true})).await;
        assert_ne!(other["digest"], digest);
        applied(&gateway, "s", &objects, json!({"expect": digest})).await;
        let planned = applied(&gateway, "s", &json!([config("good", 3)]), json!({"dry_run": true})).await;
        applied(&gateway, "s", &json!([config("good", 2)]), json!({})).await;
        let (status, late) =
            apply(&gateway, "s", &json!([config("good", 3)]), json!({"expect": planned["digest"]})).await;
        assert_eq!(status, 409, "{late}");
        assert!(
            late["error"]["message"].as_str().unwrap().contains("no longer the one that is expected"),
            "{late}"
        );
        let now = done(&gateway, Method::GET, "/v1/configs/good", Value::Null).await;
        assert_eq!(now["data"]["config"]["retry"]["attempts"], 2, "{now}");
        for (body, wanted) in [
            (json!([{"kind": "users", "slug": "a"}]), "is no kind that files have"),
            (
                json!([{"kind": "configs", "name": "a", "config": {}}]),
                "is required: a file finds objects by it",
            ),
            (json!([config("a", 1), config("a", 2)]), "stands twice"),
        ] {
            let (status, answer) = apply(&gateway, "s", &body, json!({})).await;
            assert_eq!(status, 400, "{answer}");
            assert!(answer["error"]["message"].as_str().unwrap().contains(wanted), "{answer}");
        }
        let unknown = json!([{"kind": "labels", "name": "a", "colour": "red"}]);
        let (status, plan) = apply(&gateway, "s", &unknown, json!({})).await;
        assert!(status == 409 && problem(&plan, "a").contains("unknown key"), "{plan}");
    })
    .await;
}

#[tokio::test]
async fn what_a_file_has_is_changed_there_or_taken_over() {
    on_each_store(async || {
        let gateway = Gateway::start(LISTEN);
        let key = json!({"kind": "api-keys", "name": "k", "scopes": ["completions.write"], "key_sha256": "6".repeat(64),
            "usage_limits": {"type": "cost", "credit_limit": 5}});
        applied(&gateway, "s", &json!([config("cc", 1), config("dd", 1), key]), json!({})).await;
        let change = json!({"name": "by hand"});
        let (status, refused) = operate(&gateway, Method::PUT, "/v1/configs/cc", change.clone()).await;
        assert_eq!(status, 409, "{refused}");
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("files of the set \"s\"") && message.contains("take_over=true"), "{message}");
        let (status, _) = operate(&gateway, Method::DELETE, "/v1/configs/cc", Value::Null).await;
        assert_eq!(status, 409);
        let (status, _) = operate(&gateway, Method::PUT, "/v1/configs/cc?take_over=true", change).await;
        assert_eq!(status, 200);
        let shown = done(&gateway, Method::GET, "/v1/configs/cc", Value::Null).await;
        assert_eq!((&shown["data"]["origin"], shown["data"].get("file_set")), (&json!("store"), None), "{shown}");
        let list = done(&gateway, Method::GET, "/v1/configs?name=dd", Value::Null).await;
        assert_eq!((&list["data"][0]["origin"], &list["data"][0]["file_set"]), (&json!("file"), &json!("s")), "{list}");
        let (status, plan) = apply(&gateway, "s", &json!([config("cc", 2), config("dd", 1)]), json!({})).await;
        assert!(status == 409 && problem(&plan, "cc").contains("managed by the API"), "{plan}");
        done(&gateway, Method::DELETE, "/v1/configs/dd?take_over=true", Value::Null).await;

        // A key that has leaked is revoked at once, and usage is counted anew.
        let keys = done(&gateway, Method::GET, "/v1/api-keys?name=k", Value::Null).await;
        assert_eq!(keys["data"][0]["origin"], "file", "{keys}");
        let path = format!("/v1/api-keys/{}", keys["data"][0]["id"].as_str().unwrap());
        let (status, _) = operate(&gateway, Method::PUT, &path, json!({"description": "x"})).await;
        assert_eq!(status, 409);
        done(&gateway, Method::PUT, &path, json!({"reset_usage": true})).await;
        done(&gateway, Method::DELETE, &path, Value::Null).await;

        // The audit log has the apply and each of its calls.
        let log = done(&gateway, Method::GET, "/v1/audit-logs?page_size=100", Value::Null).await;
        let entries: Vec<(&str, &str, u64)> = log["records"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| {
                let text = |name: &str| entry[name].as_str().unwrap_or_default();
                (text("resource_type"), text("action"), entry["response_status_code"].as_u64().unwrap_or_default())
            })
            .collect();
        for wanted in [("files", "apply", 200), ("files", "apply", 409), ("configs", "create", 200), ("api-keys", "create", 200), ("configs", "update", 409)] {
            assert!(entries.contains(&wanted), "{wanted:?}: {entries:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_apply_that_is_killed_is_written_as_a_whole_or_not_at_all() {
    on_each_store(async || {
        let mut gateway = Gateway::start(LISTEN);
        for round in 0..3u64 {
            let set = format!("s-{round}");
            let objects: Vec<Value> =
                (0..400).map(|number| config(&format!("c-{round}-{number}"), 1)).collect();
            let body = json!({"set": set, "objects": objects});
            let call = gateway.control(Method::POST, "/v1/apply").json(&body);
            let sent = tokio::spawn(call.send());
            // At another moment each time.
            let begin = Instant::now();
            let moment = Duration::from_millis(40 + 150 * round);
            wait::until("a moment", async || (begin.elapsed() > moment).then_some(())).await;
            gateway = gateway.killed_and_started_again();
            let was_answered = sent.await.unwrap().is_ok_and(|response| response.status() == 200);
            let exported = done(&gateway, Method::GET, &format!("/v1/export?set={set}"), Value::Null).await;
            let count = exported["objects"].as_array().unwrap().len();
            assert!(
                count == 400 || count == 0 && !was_answered,
                "{count} of 400 are there; answered: {was_answered}"
            );
        }
    })
    .await;
}
