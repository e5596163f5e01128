//! Keys that were made elsewhere, of which the gateway has the SHA-256 alone: in the settings and in the store.
//!
//! Not how such a digest is replaced once the key is used (`memory::auth::stored_keys`).

use crate::support::Gateway;
use crate::support::client::{client, hello};
use crate::support::settings::{KEY, STANDARD};
use crate::support::stores::on_each_store;
use reqwest::Method;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

const OLD: &str = "sk-litellm-1234567890abcdef";
const SERVICE: &str = "/v1/api-keys/workspace/service";

fn sha256(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The status of a chat with this header, and the name of the key in its access line.
async fn chat(gateway: &Gateway, name: &str, value: &str) -> (u16, Value) {
    let call = client().post(format!("{}/chat/completions", gateway.base_url())).header(name, value);
    let call = call.header("x-gateway-provider", "@emulator").json(&hello(false));
    let response = call.send().await.unwrap();
    let status = response.status().as_u16();
    let trace = response.headers()["x-gateway-trace-id"].to_str().unwrap().to_owned();
    (status, gateway.access_line(&trace).await["key"].clone())
}

async fn control(gateway: &Gateway, key: &str, path: &str, body: &Value) -> (u16, Value) {
    let call = client().post(format!("{}{path}", gateway.control_url())).header("x-gateway-api-key", key);
    let response = call.json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn a_key_of_the_settings_may_be_its_digest() {
    let many: String =
        (0..12).map(|number| format!("    - {{name: n{number}, key: filler-key-{number}}}\n")).collect();
    for others in ["", &many] {
        let gateway = Gateway::start(&STANDARD.replacen(
            "  keys:\n",
            &format!("  keys:\n    - {{name: moved, sha256: {}}}\n{others}", sha256(OLD).to_uppercase()),
            1,
        ));
        for (name, value) in [
            ("authorization", format!("Bearer {OLD}")),
            ("x-api-key", OLD.to_owned()),
            ("x-gateway-api-key", OLD.to_owned()),
        ] {
            assert_eq!(chat(&gateway, name, &value).await, (200, json!("moved")), "{name}");
        }
        assert_eq!(chat(&gateway, "x-gateway-api-key", KEY).await.0, 200, "the other keys count as before");
        for wrong in [format!("{OLD}0"), sha256(OLD), OLD[1..].to_owned()] {
            assert_eq!(chat(&gateway, "authorization", &format!("Bearer {wrong}")).await.0, 401, "{wrong}");
        }
    }
}

#[tokio::test]
async fn a_stored_key_may_be_made_of_its_digest() {
    on_each_store(async || {
        let gateway = Gateway::start(STANDARD);
        let key = |name: &str, digest: &str| {
            json!({"name": name, "scopes": ["completions.write"], "key_sha256": digest,
                "rate_limits": [{"type": "requests", "unit": "rph", "value": 3}]})
        };
        let (status, made) = control(&gateway, KEY, SERVICE, &key("moved", &sha256(OLD))).await;
        assert_eq!((status, made.get("key")), (200, None), "{made}");
        for (name, value) in [("authorization", format!("Bearer {OLD}")), ("x-api-key", OLD.to_owned())] {
            assert_eq!(chat(&gateway, name, &value).await, (200, json!("moved")), "{name}");
        }
        for wrong in [format!("{OLD}0"), sha256(OLD)] {
            assert_eq!(chat(&gateway, "authorization", &format!("Bearer {wrong}")).await.0, 401, "{wrong}");
        }
        // It reaches no provider.
        let tag = crate::support::client::new_trace();
        let call = client().post(format!("{}/chat/completions", gateway.base_url()));
        let call = call.bearer_auth(OLD).header("x-note", OLD).header("x-emulator-tag", &tag);
        let call = call.header("x-gateway-provider", "@emulator").json(&hello(false));
        assert_eq!(call.send().await.unwrap().status(), 200);
        let sent = gateway.emulator_requests(&tag).await;
        assert!(!sent[0].to_string().contains(OLD), "{sent:?}");
        // Its limits are its own.
        assert_eq!(chat(&gateway, "x-api-key", OLD).await.0, 429);

        for (digest, wanted, why) in [
            (sha256(OLD), 409, "another key"),
            (sha256(KEY), 409, "another key"),
            ("ab".to_owned(), 400, "64 hexadecimal"),
        ] {
            let (status, refused) = control(&gateway, KEY, SERVICE, &key("again", &digest)).await;
            assert!(status == wanted && refused.to_string().contains(why), "{status} {refused}");
        }
        let (_, weak) =
            control(&gateway, KEY, SERVICE, &json!({"name": "weak", "scopes": ["completions.write"]})).await;
        let weak = weak["key"].as_str().unwrap();
        assert_eq!(control(&gateway, weak, SERVICE, &key("no", &sha256("sk-other"))).await.0, 403);

        // Whoever may make keys of a workspace alone would get the requests of others' keys.
        let scopes = json!(["workspace_service_api_keys.create", "completions.write"]);
        let maker = json!({"name": "maker", "scopes": scopes});
        let (status, maker) = control(&gateway, KEY, SERVICE, &maker).await;
        let maker = maker["key"].as_str().unwrap_or_else(|| panic!("{status} {maker}"));
        let plain = json!({"name": "plain", "scopes": ["completions.write"]});
        assert_eq!(control(&gateway, maker, SERVICE, &plain).await.0, 200);
        let taken = control(&gateway, maker, SERVICE, &key("taken", &sha256("sk-of-others"))).await;
        assert_eq!(taken.0, 403, "{}", taken.1);

        let path = format!("/v1/api-keys/{}", made["id"].as_str().unwrap());
        let shown: Value = gateway.control(Method::GET, &path).send().await.unwrap().json().await.unwrap();
        assert!(!shown.to_string().contains(&sha256(OLD)), "{shown}");
        assert_eq!(gateway.control(Method::DELETE, &path).send().await.unwrap().status(), 200);
        assert_eq!(chat(&gateway, "x-api-key", OLD).await.0, 401);
    })
    .await;
}

#[tokio::test]
async fn a_digest_is_that_of_one_key() {
    on_each_store(async || {
        let gateway = Gateway::start(STANDARD);
        // Of those that are made in the same moment, one is.
        let other = sha256("sk-at-once-0123456789");
        let body = json!({"name": "at once", "scopes": ["completions.write"], "key_sha256": other});
        let all = (0..8).map(|_| control(&gateway, KEY, SERVICE, &body));
        let all = futures_util::future::join_all(all).await;
        let made_now: Vec<_> = all.iter().filter(|(status, _)| *status == 200).collect();
        assert_eq!(made_now.len(), 1, "{all:?}");
        assert!(all.iter().all(|(status, _)| [200, 409].contains(status)), "{all:?}");
        // It is found by its digest, also when it was revoked; then the digest is free again.
        let find = async || {
            let path = format!("/v1/api-keys?key_sha256={other}");
            let found: Value =
                gateway.control(Method::GET, &path).send().await.unwrap().json().await.unwrap();
            (found["total"].clone(), found["data"][0]["id"].clone(), found["data"][0]["status"].clone())
        };
        let id = made_now[0].1["id"].clone();
        assert_eq!(find().await, (json!(1), id.clone(), json!("active")));
        let path_of_it = format!("/v1/api-keys/{}", id.as_str().unwrap());
        assert_eq!(gateway.control(Method::DELETE, &path_of_it).send().await.unwrap().status(), 200);
        assert_eq!(find().await, (json!(1), id.clone(), json!("revoked")));
        assert_eq!(control(&gateway, KEY, SERVICE, &body).await.0, 200);
        assert_eq!(find().await, (json!(1), id, json!("active")));
    })
    .await;
}
