//! Tokens of an identity provider as service keys: where they count, how new keys are found, what a bad one learns.
//!
//! Which tokens are good is tested beside the code (`auth::jwt`).

use crate::log_tail::Tail;
use crate::support::client::{client, new_trace};
use crate::support::gateway::Gateway;
use crate::support::settings::STANDARD;
use crate::support::signing_key::SigningKey;
use crate::support::upstream::Upstream;
use crate::support::wait::until;
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;

/// An identity provider that publishes its keys over HTTP.
struct IdentityProvider {
    published: Arc<Mutex<Vec<Value>>>,
    server: Upstream,
}

impl IdentityProvider {
    async fn start() -> Self {
        let published = Arc::<Mutex<Vec<Value>>>::default();
        let keys = Arc::clone(&published);
        let server = Upstream::start(move |mut connection| {
            let body = json!({"keys": *keys.lock()}).to_string();
            async move {
                connection.request().await;
                connection.send_json(&body).await;
            }
        })
        .await;
        Self { published, server }
    }

    fn publish(&self, key: &SigningKey) {
        self.published.lock().push(key.public());
    }

    fn gateway(&self) -> Gateway {
        self.gateway_with("")
    }

    /// `more`: lines below `auth.jwt`.
    fn gateway_with(&self, more: &str) -> Gateway {
        let jwt = format!(
            "auth:\n  jwt:\n    jwks_url: http://127.0.0.1:{}/jwks\n    issuer: https://id.test\n    audience: turnpike\n{more}",
            self.server.port
        );
        Gateway::start(&STANDARD.replacen("auth:\n", &jwt, 1))
    }
}

/// The status and body of a call with this header, and its trace id.
async fn call(gateway: &Gateway, tag: &str, name: &str, value: &str) -> (u16, String, String) {
    let trace = new_trace();
    let response = client()
        .post(format!("{}/chat/completions", gateway.base_url()))
        .header("x-gateway-provider", "@emulator")
        .header("x-emulator-tag", tag)
        .header("x-gateway-trace-id", &trace)
        .header(name, value)
        .json(&json!({"model": "m", "messages": [{"role": "user", "content": "a"}]}))
        .send()
        .await
        .unwrap();
    (response.status().as_u16(), response.text().await.unwrap(), trace)
}

#[tokio::test]
async fn a_token_counts_where_keys_do_and_new_keys_are_found() {
    let provider = IdentityProvider::start().await;
    let first = SigningKey::new("first");
    provider.publish(&first);
    let gateway = provider.gateway();
    let token = first.token(&json!({}));
    let bearer = format!("Bearer {token}");
    for (name, value) in [("x-gateway-api-key", &token), ("authorization", &bearer), ("x-api-key", &token)] {
        let tag = new_trace();
        let (status, body, trace) = call(&gateway, &tag, name, value).await;
        assert_eq!(status, 200, "{name}: {body}");
        assert_eq!(gateway.access_line(&trace).await["key"], "ann");
        let sent = gateway.emulator_requests(&tag).await;
        assert!(!sent[0].to_string().contains(&token), "{name}: {sent:?}");
    }
    // A key that is published later is looked for when a token names it.
    let second = SigningKey::new("second");
    provider.publish(&second);
    let (status, body, _) = call(&gateway, "-", "x-gateway-api-key", &second.token(&json!({}))).await;
    assert_eq!(status, 200, "{body}");
}

#[tokio::test]
async fn a_live_tail_ends_with_its_token() {
    let provider = IdentityProvider::start().await;
    let key = SigningKey::new("key");
    provider.publish(&key);
    let gateway = provider.gateway();
    // Clocks may differ by a minute.
    let end = jiff::Timestamp::now().as_second() - 56;
    let token = key.token(&json!({"exp": end, "scope": "logs.list"}));
    let follow = client().get(format!("{}/v1/logs/tail", gateway.control_url()));
    let tail = Tail::of(follow.bearer_auth(&token).send().await.unwrap()).await;
    assert_eq!(tail.end().await, "key");
}

/// A provider that publishes once and then never ends a response.
#[tokio::test]
async fn a_key_set_that_hangs_costs_a_token_little_and_the_last_one_stays() {
    let key = SigningKey::new("key");
    let body = json!({"keys": [key.public()]}).to_string();
    let calls = Arc::<Mutex<usize>>::default();
    let server = Upstream::start(move |mut connection| {
        let body = body.clone();
        let is_first = {
            let mut calls = calls.lock();
            *calls += 1;
            *calls == 1
        };
        async move {
            connection.request().await;
            if is_first {
                connection.send_json(&body).await;
                return;
            }
            // Drips, so that no timeout of a single read ends it.
            connection.write("HTTP/1.1 200 OK\r\n").await;
            for _ in 0..60 {
                connection.write("x-drip: a\r\n").await;
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
        }
    })
    .await;
    let provider = IdentityProvider { published: Arc::default(), server };
    let gateway = provider.gateway();
    let good = key.token(&json!({}));
    until("the first token", async || {
        (call(&gateway, "-", "x-gateway-api-key", &good).await.0 == 200).then_some(())
    })
    .await;
    let unknown = SigningKey::new("unknown").token(&json!({}));
    for _ in 0..2 {
        let begin = std::time::Instant::now();
        assert_eq!(call(&gateway, "-", "x-gateway-api-key", &unknown).await.0, 401);
        assert!(begin.elapsed().as_secs() < 8, "{:?}", begin.elapsed());
        assert_eq!(call(&gateway, "-", "x-gateway-api-key", &good).await.0, 200, "the last good set stays");
    }
}

#[tokio::test]
async fn a_bad_token_learns_nothing_and_the_log_has_the_reason() {
    let provider = IdentityProvider::start().await;
    let (key, stranger) = (SigningKey::new("key"), SigningKey::new("key"));
    provider.publish(&key);
    let gateway = provider.gateway();
    // The keys are there.
    until("the first token", async || {
        let (status, ..) = call(&gateway, "-", "x-gateway-api-key", &key.token(&json!({}))).await;
        (status == 200).then_some(())
    })
    .await;
    let mut bodies = Vec::new();
    for (token, reason) in [
        (stranger.token(&json!({})), "jwt_signature"),
        (key.token(&json!({"aud": "another"})), "jwt_audience"),
        (key.token(&json!({"iss": "https://other.test"})), "jwt_issuer"),
    ] {
        let tag = new_trace();
        let (status, body, trace) = call(&gateway, &tag, "x-gateway-api-key", &token).await;
        assert_eq!(status, 401, "{reason}: {body}");
        assert!(!body.contains("jwt"), "{body}");
        bodies.push(body);
        let line = gateway.access_line(&trace).await;
        assert!(line["error"].as_str().unwrap().contains(reason), "{line}");
        let url = format!("{}/_emulator/requests?tag={tag}", gateway.emulator_url());
        let sent: Vec<Value> = client().get(url).send().await.unwrap().json().await.unwrap();
        assert!(sent.is_empty(), "{sent:?}");
        assert!(!gateway.log().contains(&token));
    }
    assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]), "{bodies:?}");
    let (status, body, _) = call(&gateway, "-", "x-gateway-api-key", &key.token(&json!({"exp": 1000}))).await;
    assert!(status == 401 && body.contains("expired_api_key"), "{body}");
    let narrow = key.token(&json!({"scope": "configs.list"}));
    let (status, body, _) = call(&gateway, "-", "x-gateway-api-key", &narrow).await;
    assert!(status == 403 && body.contains("completions.write"), "{body}");
}

#[tokio::test]
async fn a_token_may_do_what_its_scopes_and_its_role_allow() {
    let provider = IdentityProvider::start().await;
    let key = SigningKey::new("key");
    provider.publish(&key);
    let gateway = provider.gateway();
    until("the first token", async || {
        let (status, ..) = call(&gateway, "-", "x-gateway-api-key", &key.token(&json!({}))).await;
        (status == 200).then_some(())
    })
    .await;
    let config = json!({"name": "c", "config": {"retry": {"attempts": 2}}});
    for (claims, wanted) in [
        (json!({"scope": "configs.create", "role": "member"}), 403),
        (json!({"scope": "configs.create", "role": "Manager"}), 403),
        (json!({"scope": "configs.create", "role": ["manager"]}), 401),
        (json!({"scope": "configs.create", "role": "manager"}), 200),
        (json!({"scope": "configs.create"}), 200),
        (json!({"scope": "configs.read", "role": "admin"}), 403),
    ] {
        let create = client().post(format!("{}/v1/configs", gateway.control_url())).json(&config);
        let response = create.header("x-gateway-api-key", key.token(&claims)).send().await.unwrap();
        let status = response.status().as_u16();
        let body = response.text().await.unwrap();
        assert_eq!(status, wanted, "{claims}: {body}");
    }
}

const ORGANISATION: &str = "01900000-0000-7000-8000-000000000001";
const SCOPES: &str = "policies.create policies.list workspaces.create workspaces.list workspaces.delete";

/// A gateway where admins may write, and owners act for the organisation as well.
struct Operated {
    gateway: Gateway,
    key: SigningKey,
    _provider: IdentityProvider,
}

impl Operated {
    async fn start() -> Self {
        let provider = IdentityProvider::start().await;
        let key = SigningKey::new("key");
        provider.publish(&key);
        let gateway =
            provider.gateway_with("    write_roles: [owner, admin]\n    organisation_roles: [owner]\n");
        until("the first token", async || {
            let (status, ..) = call(&gateway, "-", "x-gateway-api-key", &key.token(&json!({}))).await;
            (status == 200).then_some(())
        })
        .await;
        Self { gateway, key, _provider: provider }
    }

    async fn send(&self, method: Method, path: &str, claims: &Value, body: &Value) -> (u16, Value) {
        let call = client().request(method, format!("{}{path}", self.gateway.control_url()));
        let call = call.header("x-gateway-api-key", self.key.token(claims)).json(body);
        let response = call.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }
}

fn policy(own: &Value, more: &Value) -> Value {
    let mut body = json!({
        "conditions": [{"key": "metadata._user", "value": "*"}], "group_by": [{"key": "metadata._user"}],
    });
    for members in [own, more] {
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    }
    body
}

#[tokio::test]
async fn a_token_names_workspace_and_organisation_of_a_policy() {
    let operated = Operated::start().await;
    let admin = json!({"scope": SCOPES, "role": "admin"});
    let owner = json!({"scope": SCOPES, "role": "owner", "workspace_slug": null});
    let both = json!({"workspace_id": "default", "organisation_id": ORGANISATION});
    let foreign =
        json!({"workspace_id": "default", "organisation_id": "0a0a0a0a-0000-4000-8000-000000000000"});
    let everywhere = json!({"workspace_id": null, "organisation_id": ORGANISATION});
    let workspace = "workspace_id";
    let organisation = "organisation_id";
    for (path, own) in [
        ("/v1/policies/usage-limits", json!({"type": "cost", "credit_limit": 5})),
        ("/v1/policies/rate-limits", json!({"type": "requests", "unit": "rpm", "value": 5})),
    ] {
        for (claims, more, wanted, missing) in [
            (&admin, &json!({}), 400, &[workspace, organisation][..]),
            (&admin, &json!({"workspace_id": "default"}), 400, &[organisation]),
            (&admin, &json!({"organisation_id": ORGANISATION}), 400, &[workspace]),
            (&admin, &everywhere, 400, &[workspace]),
            (&admin, &foreign, 400, &[organisation]),
            (&admin, &both, 200, &[]),
            (&owner, &json!({}), 400, &[workspace, organisation]),
            (&owner, &both, 200, &[]),
            (&owner, &everywhere, 200, &[]),
            (&json!({"scope": SCOPES, "role": "manager"}), &both, 403, &[]),
            (&json!({"scope": "policies.list", "role": "admin"}), &both, 403, &[]),
        ] {
            let (status, body) = operated.send(Method::POST, path, claims, &policy(&own, more)).await;
            assert_eq!(status, wanted, "{path} {claims} {more}: {body}");
            let details = body["error"]["details"].as_array().cloned().unwrap_or_default();
            let paths: Vec<&str> = details.iter().map(|one| one["path"].as_str().unwrap()).collect();
            assert_eq!(paths, missing, "{path} {claims} {more}: {body}");
        }
    }
}

#[tokio::test]
async fn an_owners_token_of_the_organisation_lists_archived_workspaces() {
    let operated = Operated::start().await;
    let admin = json!({"scope": SCOPES, "role": "admin"});
    let owner = json!({"scope": SCOPES, "role": "owner", "workspace_slug": null});
    let named = json!({"name": "old", "slug": "old"});
    let (status, body) = operated.send(Method::POST, "/v1/admin/workspaces", &owner, &named).await;
    assert_eq!(status, 200, "{body}");
    let named = json!({"name": "old"});
    let (status, body) = operated.send(Method::DELETE, "/v1/admin/workspaces/old", &owner, &named).await;
    assert_eq!(status, 200, "{body}");
    let list = "/v1/workspaces?status=active,archived";
    let (status, body) = operated.send(Method::GET, list, &owner, &Value::Null).await;
    assert_eq!(status, 200, "{body}");
    let slugs: Vec<_> = body["data"].as_array().unwrap().iter().map(|one| one["slug"].clone()).collect();
    assert!(slugs.contains(&json!("old")) && slugs.contains(&json!("default")), "{body}");
    assert_eq!(operated.send(Method::GET, list, &admin, &Value::Null).await.0, 403);
    let token = operated.key.token(&json!({"role": "owner", "workspace_slug": null}));
    let (status, ..) = call(&operated.gateway, "-", "x-gateway-api-key", &token).await;
    assert_eq!(status, 403, "the organisation calls no models");
}
