//! `turnpike import portkey --to store`: prompts of an export are made in a running gateway, and clients go on naming them.
//!
//! Not here: configs and providers of an export (`import`).

use crate::support::Gateway;
use crate::support::client::client;
use crate::support::command::{Finished, turnpike_with};
use crate::support::settings::{KEY, OPERATOR_KEY, STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

/// An export of prompts: one with a slug of a provider, one with it in the model, one that names none.
fn export() -> Value {
    let message = |text: &str| json!([{"role": "user", "content": text}]).to_string();
    json!({"object": "list", "total": 3, "data": [
        {
            "id": "3f0a9f4e-0000-4000-8000-000000000001", "slug": "pp-greeting-1f2e3d", "name": "Greeting", "collection_id": "c",
            "string": message("Greet {{who}}"), "parameters": {"temperature": 0.5, "max_tokens": 7}, "virtual_key": "emulator",
            "model": "gpt-4o", "prompt_version": 4, "prompt_version_status": "active", "prompt_version_description": "warmer",
        },
        {"slug": "pp-other", "name": "Other", "string": message("Say {{what}}"), "parameters": {}, "model": "@emulator/gpt-4o"},
        {"slug": "pp-none", "name": "None", "string": message("Hi"), "parameters": {}, "model": "gpt-4o"},
    ]})
}

/// The command, its report, and what it did in the store.
fn import(gateway: &Gateway, folder: &TempDir, export: &Value, more: &[&str]) -> (Finished, Value) {
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("prompts.json"), export.to_string()).unwrap();
    let (file, out, report) = (at("prompts.json"), at("turnpike.yaml"), at("report.json"));
    let mut arguments =
        vec!["import", "portkey", &file, "--out", &out, "--report", &report, "--json", "--force"];
    arguments.extend(more);
    let control = gateway.control_url();
    let finished = turnpike_with(&arguments, &[("TURNPIKE_URL", &control), ("TURNPIKE_KEY", OPERATOR_KEY)]);
    let text = std::fs::read_to_string(&report).unwrap_or_default();
    (finished, serde_json::from_str(&text).unwrap_or_default())
}

async fn rendered(gateway: &Gateway, slug: &str, variables: Value) -> (u16, Value) {
    let call = client().post(format!("{}/prompts/{slug}/render", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).json(&json!({"variables": variables}));
    let response = call.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn prompts_of_an_export_are_made_once_and_go_on_under_their_slugs() {
    let gateway = Gateway::start(STANDARD);
    let folder = TempDir::new().unwrap();
    let (finished, report) = import(&gateway, &folder, &export(), &[]);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(report.to_string().contains("--to store makes them"), "{report}");
    assert_eq!(rendered(&gateway, "pp-other", json!({})).await.0, 404, "without --to store nothing is made");

    let (finished, report) = import(&gateway, &folder, &export(), &["--to", "store"]);
    assert_eq!(finished.code, Some(0), "{}{report}", finished.stderr);
    assert_eq!(report["store"]["made"], json!({"prompt": 2}), "{report}");
    assert!(report.to_string().contains("names no provider"), "{report}");
    let (status, body) = rendered(&gateway, "pp-greeting-1f2e3d", json!({"who": "Ann"})).await;
    assert_eq!(status, 200, "{body}");
    let body = &body["data"];
    let wanted = json!([{"role": "user", "content": "Greet Ann"}]);
    assert_eq!(
        (&body["messages"], &body["max_tokens"], &body["model"]),
        (&wanted, &json!(7), &json!("gpt-4o"))
    );
    // A client calls it as it did.
    let call = client().post(format!("{}/prompts/pp-other/completions", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).json(&json!({"variables": {"what": "hello"}}));
    let response = call.send().await.unwrap();
    assert_eq!(response.status(), 200, "{:?}", response.text().await);

    let (finished, report) = import(&gateway, &folder, &export(), &["--to", "store"]);
    let store = &report["store"];
    assert_eq!(
        (finished.code, &store["made"], &store["unchanged"]),
        (Some(0), &json!({}), &json!({"prompt": 2}))
    );
    // What says something else by now stays as it is.
    let mut changed = export();
    changed["data"][0]["parameters"]["max_tokens"] = 8.into();
    let (finished, report) = import(&gateway, &folder, &changed, &["--to", "store"]);
    assert_eq!((finished.code, &report["store"]["unchanged"]), (Some(1), &json!({"prompt": 1})), "{report}");
    assert!(report["store"]["refused"][0].as_str().unwrap().contains("says something else"), "{report}");
    let (_, body) = rendered(&gateway, "pp-greeting-1f2e3d", json!({"who": "Ann"})).await;
    assert_eq!(body["data"]["max_tokens"], 7);
}
