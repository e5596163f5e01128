//! Objects in files, and what is not in them: an apply ends nothing of the API, and the API goes on with what files do not have.
//!
//! Not here: what an apply does to its own objects (`declared`).

use crate::declared::{applied, apply, done, operate};
use crate::support::Gateway;
use crate::support::settings::LISTEN;
use reqwest::Method;
use serde_json::{Value, json};

fn integration(slug: &str) -> Value {
    json!({"kind": "integrations", "slug": slug, "name": slug, "ai_provider_id": "openai", "key": "sk-1", "workspace_id": null})
}

fn key(name: &str, digest: char) -> Value {
    json!({"kind": "api-keys", "name": name, "type": "workspace-service", "workspace_id": "red", "scopes": ["completions.write"],
        "key_sha256": digest.to_string().repeat(64)})
}

fn workspace() -> Value {
    json!({"kind": "workspaces", "slug": "red", "name": "Red"})
}

/// What would go with an object of the file, and is of the API, keeps it.
#[tokio::test]
async fn pruning_ends_no_object_of_the_api() {
    let gateway = Gateway::start(LISTEN);
    applied(&gateway, "team", &json!([workspace(), integration("all")]), json!({})).await;
    let provider = json!({"name": "mine", "slug": "mine", "integration_id": "all", "workspace_id": "red"});
    done(&gateway, Method::POST, "/v1/providers", provider).await;
    let (status, plan) = apply(&gateway, "team", &json!([workspace()]), json!({"prune": true})).await;
    assert_eq!(status, 409, "{plan}");
    assert!(plan.to_string().contains("would go with it"), "{plan}");
    done(&gateway, Method::GET, "/v1/providers/mine?workspace_id=red", Value::Null).await;
    done(&gateway, Method::DELETE, "/v1/providers/mine?workspace_id=red", Value::Null).await;
    let plan = applied(&gateway, "team", &json!([workspace()]), json!({"prune": true})).await;
    assert!(plan["totals"]["delete"].as_u64() >= Some(1), "{plan}");
}

/// A key that comes back into a file is one of the file again, and goes with it; its digest is no other one's.
#[tokio::test]
async fn a_key_that_comes_back_is_one_of_the_file_and_its_digest_is_not_another() {
    let gateway = Gateway::start(LISTEN);
    let with = json!([workspace(), key("ci", 'a')]);
    let without = json!([workspace()]);
    for _ in 0..2 {
        let plan = applied(&gateway, "team", &with, json!({"prune": true})).await;
        assert!(plan["totals"]["create"].as_u64().unwrap_or_default() >= 1, "{plan}");
        let keys =
            done(&gateway, Method::GET, &format!("/v1/api-keys?key_sha256={}", "a".repeat(64)), Value::Null)
                .await;
        assert_eq!(keys["data"][0]["status"], "active", "{keys}");
        let plan = applied(&gateway, "team", &without, json!({"prune": true})).await;
        assert_eq!(plan["totals"]["delete"], 1, "{plan}");
        let keys =
            done(&gateway, Method::GET, &format!("/v1/api-keys?key_sha256={}", "a".repeat(64)), Value::Null)
                .await;
        assert_eq!(keys["data"][0]["status"], "revoked", "{keys}");
    }
    applied(&gateway, "team", &with, json!({})).await;
    let (status, plan) = apply(&gateway, "team", &json!([workspace(), key("ci", 'b')]), json!({})).await;
    assert!(status == 409 && plan.to_string().contains("rotate it by the API"), "{plan}");
}

/// Parts of an object that files do not have are changed by the API, and the object stays the file's.
#[tokio::test]
async fn what_files_do_not_have_is_changed_by_the_api_alone() {
    let gateway = Gateway::start(LISTEN);
    applied(&gateway, "team", &json!([workspace(), integration("all")]), json!({})).await;
    let models = json!({"allow_all_models": false, "models": [{"slug": "gpt-4o", "enabled": true}]});
    let (status, answer) = operate(&gateway, Method::PUT, "/v1/integrations/all/models", models).await;
    assert_eq!(status, 200, "{answer}");
    let (status, answer) =
        operate(&gateway, Method::PUT, "/v1/integrations/all", json!({"name": "other"})).await;
    assert_eq!(status, 409, "{answer}");
    let shown = done(&gateway, Method::GET, "/v1/integrations/all", Value::Null).await;
    assert!(shown.to_string().contains(r#""origin":"file""#), "{shown}");
    // A second object stands by itself.
    let mut second = integration("two");
    second["default_provider_slug"] = "second".into();
    let (status, plan) = apply(&gateway, "more", &json!([second]), json!({})).await;
    assert!(status == 409 && plan.to_string().contains("default_provider_slug"), "{plan}");
}
