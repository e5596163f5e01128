//! What limits do to requests: acceptance examples 10 to 15, 19, 21 and 22 of the control plane, and limits of keys, workspaces,
//! providers and the settings.
//!
//! On the running binary, on SQLite and PostgreSQL. Windows that need another time are tested beside the code; what holds under
//! load is in `budgets_under_load`.

use crate::support::client::client;
use crate::support::settings::KEY;
use crate::support::{Gateway, stores, wait};
use reqwest::Method;
use serde_json::{Value, json};

/// The service key of clients, from the settings: named `clients`.
pub(crate) const CLIENT: &str = "tp-clients-0123456789";

/// Two keys, and the emulator as two providers with OpenAI's prices.
pub(crate) const SETTINGS: &str = "
custom_hosts: {allow: [127.0.0.1]}
auth:
  keys:
    - {name: tests, key: tp-tests-0123456789}
    - {name: clients, key: tp-clients-0123456789, workspace: default}
providers:
  emu: {provider: openai, api_key: k, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
  emu2: {provider: openai, api_key: k, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
  gone: {provider: openai, api_key: k, custom_host: 'http://127.0.0.1:1/v1'}
";

/// The same settings on each store.
pub(crate) fn gateways() -> Vec<Gateway> {
    stores::gateways(SETTINGS)
}

pub(crate) async fn operate(gateway: &Gateway, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let call =
        client().request(method, format!("{}{path}", gateway.control_url())).header("x-gateway-api-key", KEY);
    let call = if body.is_null() { call } else { call.json(body) };
    let response = call.send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status} {text}")))
}

pub(crate) async fn get(gateway: &Gateway, path: &str) -> Value {
    let (status, body) = operate(gateway, Method::GET, path, &Value::Null).await;
    assert_eq!(status, 200, "{path}: {body}");
    body
}

pub(crate) async fn make(gateway: &Gateway, path: &str, body: &Value) -> String {
    let (status, made) = operate(gateway, Method::POST, path, body).await;
    assert_eq!(status, 200, "{path}: {made}");
    made["id"].as_str().unwrap().to_owned()
}

pub(crate) async fn change(gateway: &Gateway, path: &str, body: &Value) {
    let (status, changed) = operate(gateway, Method::PUT, path, body).await;
    assert_eq!(status, 200, "{path}: {changed}");
}

pub(crate) const USAGE: &str = "/v1/policies/usage-limits";
pub(crate) const RATES: &str = "/v1/policies/rate-limits";

/// A response: status, headers, body.
struct Answer {
    status: u16,
    headers: reqwest::header::HeaderMap,
    body: Value,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    fn error_type(&self) -> (u16, &str, &str) {
        let error = &self.body["error"];
        (self.status, error["type"].as_str().unwrap_or_default(), error["code"].as_str().unwrap_or_default())
    }
}

/// A chat of `gpt-4o` whose response has five tokens.
pub(crate) struct Chat<'a> {
    key: &'a str,
    headers: Vec<(&'a str, String)>,
    body: Value,
}

impl<'a> Chat<'a> {
    pub(crate) fn new() -> Self {
        let body = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello"}], "max_completion_tokens": 5});
        Self { key: CLIENT, headers: vec![("x-emulator-script", "tokens=5".to_owned())], body }
    }

    fn user(self, name: &str) -> Self {
        self.header("x-gateway-metadata", json!({"_user": name}).to_string())
    }

    pub(crate) fn header(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn member(mut self, name: &str, value: Value) -> Self {
        self.body[name] = value;
        self
    }

    /// What the provider does, in place of a response of 5 tokens.
    pub(crate) fn script(mut self, script: &str) -> Self {
        self.headers[0].1 = script.to_owned();
        self
    }

    pub(crate) fn key(self, key: &'a str) -> Self {
        Self { key, ..self }
    }

    async fn send(self, gateway: &Gateway) -> Answer {
        let call = client().post(format!("{}/chat/completions", gateway.base_url()));
        let call = call.header("x-gateway-api-key", self.key);
        let call = if self.headers.iter().any(|(name, _)| *name == "x-gateway-config") {
            call
        } else {
            call.header("x-gateway-provider", "@emu")
        };
        let call = self.headers.iter().fold(call, |call, (name, value)| call.header(*name, value));
        let response = call.json(&self.body).send().await.unwrap();
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let text = response.text().await.unwrap();
        Answer { status, headers, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
    }

    pub(crate) async fn status(self, gateway: &Gateway) -> u16 {
        self.send(gateway).await.status
    }
}

/// Input and output tokens of one such chat, by the provider.
pub(crate) async fn tokens(gateway: &Gateway) -> (u64, u64) {
    let usage = Chat::new().send(gateway).await.body["usage"].clone();
    (usage["prompt_tokens"].as_u64().unwrap(), usage["completion_tokens"].as_u64().unwrap())
}

pub(crate) fn per_user(of: &str, credit: Value) -> Value {
    json!({
        "conditions": [{"key": "metadata._user", "value": "*"}], "group_by": [{"key": "metadata._user"}],
        "type": of, "credit_limit": credit,
    })
}

/// How many calls the provider got.
pub(crate) async fn calls(gateway: &Gateway) -> u64 {
    let stats = client().get(format!("{}/_emulator/stats", gateway.emulator_url())).send().await.unwrap();
    stats.json::<Value>().await.unwrap()["requests"].as_u64().unwrap()
}

/// The policy's buckets.
pub(crate) async fn entities(gateway: &Gateway, id: &str, query: &str) -> Vec<Value> {
    get(gateway, &format!("{USAGE}/{id}/entities{query}")).await["data"].as_array().unwrap().clone()
}

/// Waits until a request that has its response is counted: the client has it a moment earlier.
pub(crate) async fn used(gateway: &Gateway, id: &str, value_key: &str, wanted: u64) -> Value {
    wait::until("the usage of the policy", async || {
        let found = entities(gateway, id, &format!("?search={value_key}")).await;
        found.into_iter().find(|entity| entity["current_usage"] == wanted && entity["reserved_usage"] == 0)
    })
    .await
}

/// Examples 8 and 10 to 12.
#[tokio::test]
async fn a_budget_for_each_user() {
    for gateway in gateways() {
        let (input, output) = tokens(&gateway).await;
        let one = input + output;
        // As example 8's 20 tokens are to calls of 15: the second call crosses the line.
        let id = make(&gateway, USAGE, &per_user("tokens", json!(one + 1))).await;
        assert_eq!(Chat::new().user("ann").status(&gateway).await, 200);
        used(&gateway, &id, "ann", one).await;
        assert_eq!(Chat::new().user("ann").status(&gateway).await, 200);
        used(&gateway, &id, "ann", 2 * one).await;
        let refused = Chat::new().user("ann").send(&gateway).await;
        assert_eq!(
            refused.error_type(),
            (412, "usage_limits_policy_exhaust_error", "06"),
            "{}",
            refused.body
        );
        assert_eq!(refused.body["status"], "failure");
        let limit = &refused.body["error"]["limit"];
        for (name, wanted) in [
            ("id", json!(id)),
            ("scope", json!("policy")),
            ("kind", json!("usage")),
            ("type", json!("tokens")),
        ] {
            assert_eq!(limit[name], wanted, "{limit}");
        }
        assert!(!refused.body.to_string().contains("ann"), "no value key for a client: {}", refused.body);
        assert_eq!(refused.header("x-gateway-limit"), Some(id.as_str()));
        assert_eq!((refused.header("x-gateway-limit-reset"), refused.header("retry-after")), (None, None));
        assert_eq!(Chat::new().user("bob").status(&gateway).await, 200);
        assert_eq!(Chat::new().status(&gateway).await, 200, "the policy is not for a request without a user");
        used(&gateway, &id, "bob", one).await;

        let map =
            get(&gateway, &format!("{USAGE}/{id}?include_usage=true")).await["value_key_usage_map"].clone();
        let of = |name: &str| (map[name]["current_usage"].clone(), map[name]["status"].clone());
        assert_eq!(of("metadata._user:ann"), (json!(2 * one), json!("exhausted")), "{map}");
        assert_eq!(of("metadata._user:bob"), (json!(one), json!("active")), "{map}");

        let exhausted = entities(&gateway, &id, "?status=exhausted").await;
        assert_eq!(exhausted.len(), 1, "{exhausted:?}");
        assert_eq!(exhausted[0]["value_key"], "metadata._user:ann");
        assert_eq!(entities(&gateway, &id, "?page_size=1&current_page=1").await.len(), 1);
        let reset = format!("{USAGE}/{id}/entities/{}/reset", exhausted[0]["id"].as_str().unwrap());
        assert_eq!(operate(&gateway, Method::PUT, &reset, &Value::Null).await, (200, json!({})));
        assert_eq!(Chat::new().user("ann").status(&gateway).await, 200);
        let unknown = format!("{USAGE}/{id}/entities/{}/reset", uuid::Uuid::now_v7());
        assert_eq!(operate(&gateway, Method::PUT, &unknown, &Value::Null).await.0, 404);
        // The same by its value key.
        used(&gateway, &id, "ann", one).await;
        change(&gateway, &format!("{USAGE}/{id}"), &json!({"reset_usage_for_value": "metadata._user:ann"}))
            .await;
        used(&gateway, &id, "ann", 0).await;
    }
}

/// Example 13, and a key's budget.
#[tokio::test]
async fn a_raised_limit_lets_requests_pass_at_once() {
    for gateway in gateways() {
        let id = make(&gateway, USAGE, &per_user("cost", json!(0))).await;
        assert_eq!(Chat::new().user("ann").status(&gateway).await, 412);
        change(&gateway, &format!("{USAGE}/{id}"), &json!({"credit_limit": 1})).await;
        assert_eq!(Chat::new().user("ann").status(&gateway).await, 200);

        let key = json!({"name": "k", "scopes": ["completions.write"], "usage_limits": {"type": "requests", "credit_limit": 1}});
        let (_, made) = operate(&gateway, Method::POST, "/v1/api-keys/workspace/service", &key).await;
        let path = format!("/v1/api-keys/{}", made["id"].as_str().unwrap());
        let key = made["key"].as_str().unwrap();
        assert_eq!(Chat::new().key(key).status(&gateway).await, 200);
        let refused = wait::until("the key to be exhausted", async || {
            let answer = Chat::new().key(key).send(&gateway).await;
            (answer.status == 412).then_some(answer)
        })
        .await;
        assert_eq!(
            (&refused.body["error"]["code"], &refused.body["error"]["limit"]["scope"]),
            (&json!("04"), &json!("api_key"))
        );
        let shown = get(&gateway, &path).await;
        assert_eq!(
            (&shown["status"], &shown["last_reset_at"]),
            (&json!("exhausted"), &Value::Null),
            "{shown}"
        );
        let url = format!("{}/v1/api-keys/self", gateway.data_url());
        let own: Value =
            client().get(url).header("x-gateway-api-key", key).send().await.unwrap().json().await.unwrap();
        let usage = &own["usage"][0];
        for (name, wanted) in [
            ("type", json!("requests")),
            ("limit", json!(1)),
            ("current_usage", json!(1)),
            ("remaining", json!(0)),
        ] {
            assert_eq!(usage[name], wanted, "{own}");
        }
        change(&gateway, &path, &json!({"usage_limits": {"type": "requests", "credit_limit": 2}})).await;
        assert_eq!(get(&gateway, &path).await["status"], "active", "at once");
        assert_eq!(Chat::new().key(key).status(&gateway).await, 200);
        wait::until("the key to be exhausted again", async || {
            (Chat::new().key(key).status(&gateway).await == 412).then_some(())
        })
        .await;
        change(&gateway, &path, &json!({"reset_usage": true})).await;
        let shown = get(&gateway, &path).await;
        assert!(shown["status"] == "active" && shown["last_reset_at"].is_string(), "{shown}");
        assert_eq!(Chat::new().key(key).status(&gateway).await, 200);
    }
}

/// Example 14, as far as the clock of the machine allows.
#[tokio::test]
async fn a_spent_week_names_its_end() {
    for gateway in gateways() {
        let mut policy = per_user("requests", json!(0));
        policy["periodic_reset"] = "weekly".into();
        let id = make(&gateway, USAGE, &policy).await;
        let refused = Chat::new().user("ann").send(&gateway).await;
        assert_eq!(refused.status, 412);
        let reset: jiff::Timestamp = refused.header("x-gateway-limit-reset").unwrap().parse().unwrap();
        let monday = reset.to_zoned(jiff::tz::TimeZone::UTC);
        assert_eq!(
            (monday.weekday(), monday.time()),
            (jiff::civil::Weekday::Monday, jiff::civil::Time::midnight())
        );
        assert!(
            reset > jiff::Timestamp::now()
                && reset < jiff::Timestamp::now() + jiff::SignedDuration::from_hours(7 * 24)
        );
        let shown: jiff::Timestamp = get(&gateway, &format!("{USAGE}/{id}")).await["next_usage_reset_at"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(shown, reset);
    }
}

/// Example 15.
#[tokio::test]
async fn a_rate_for_each_key() {
    for gateway in gateways() {
        let policy = json!({
            "conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "api_key"}],
            "type": "requests", "unit": "rph", "value": 2,
        });
        let id = make(&gateway, RATES, &policy).await;
        // The hour may end between two calls, once.
        let refused = wait::until("the rate to be used up", async || {
            let answer = Chat::new().send(&gateway).await;
            (answer.status != 200).then_some(answer)
        })
        .await;
        assert_eq!(
            (refused.status, &refused.body["error"]["type"]),
            (429, &json!("rate_limits_policy_exhaust_error"))
        );
        let retry: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=3600).contains(&retry), "{retry}");
        let headers =
            ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests"].map(|name| refused.header(name));
        assert_eq!(headers, [Some("2"), Some("0")]);
        assert!(refused.header("x-ratelimit-reset-requests").unwrap().ends_with('s'));
        for _ in 0..20 {
            assert_eq!(Chat::new().status(&gateway).await, 429);
        }
        assert_eq!(Chat::new().key(KEY).status(&gateway).await, 200, "another key has another bucket");
        change(&gateway, &format!("{RATES}/{id}"), &json!({"value": 3})).await;
        let passed = Chat::new().send(&gateway).await;
        assert_eq!(passed.status, 200, "refused calls do not count: {}", passed.body);
        assert_eq!(passed.header("x-ratelimit-remaining-requests"), Some("0"));
        assert_eq!(Chat::new().status(&gateway).await, 429);
        // Windows end by themselves.
        change(&gateway, &format!("{RATES}/{id}"), &json!({"unit": "rps", "value": 1})).await;
        for _ in 0..3 {
            wait::until("the next second", async || {
                (Chat::new().status(&gateway).await == 200).then_some(())
            })
            .await;
        }
    }
}

/// Example 19.
#[tokio::test]
async fn a_stream_that_names_no_usage_is_charged_as_the_provider_counts() {
    for gateway in gateways() {
        let (input, output) = tokens(&gateway).await;
        let id = make(&gateway, USAGE, &per_user("tokens", json!(1_000_000))).await;
        let stream = Chat::new().user("ann").member("stream", json!(true)).send(&gateway).await;
        let text = stream.body.as_str().unwrap();
        assert!(stream.status == 200 && text.contains("[DONE]") && !text.contains("prompt_tokens"), "{text}");
        used(&gateway, &id, "ann", input + output).await;
    }
}

/// Example 21.
#[tokio::test]
async fn a_target_whose_limit_is_spent_is_passed_over() {
    for gateway in gateways() {
        let policy = json!({
            "conditions": [{"key": "virtual_key", "value": "emu"}], "group_by": [{"key": "virtual_key"}],
            "type": "requests", "unit": "rph", "value": 0,
        });
        make(&gateway, RATES, &policy).await;
        let config = json!({
            "strategy": {"mode": "fallback", "on_status_codes": [429]},
            "targets": [
                {"provider": "@emu", "cb_config": {"failure_threshold": 1, "cooldown_interval": 60_000}},
                {"provider": "@emu2"},
            ],
        });
        for _ in 0..3 {
            let passed = Chat::new().header("x-gateway-config", config.to_string()).send(&gateway).await;
            assert_eq!(passed.status, 200, "{}", passed.body);
            assert_eq!(passed.header("x-gateway-last-used-option-index"), Some("config.targets[1]"));
        }
        let targets = get(&gateway, "/v1/targets").await;
        let states: Vec<&Value> =
            targets["targets"].as_array().unwrap().iter().map(|target| &target["state"]).collect();
        assert!(states.iter().all(|state| **state != json!("open")), "{targets}");
        assert_eq!(Chat::new().status(&gateway).await, 429, "alone it is refused");
    }
}

/// Example 22.
#[tokio::test]
async fn a_model_without_a_price_passes_a_soft_budget_and_not_a_hard_one() {
    for gateway in gateways() {
        let id = make(&gateway, USAGE, &per_user("cost", json!(5))).await;
        let without_price = || Chat::new().user("ann").member("model", json!("no-price-1"));
        let passed = without_price().send(&gateway).await;
        assert_eq!(
            (passed.status, passed.header("x-gateway-cost-status")),
            (200, Some("unknown")),
            "{}",
            passed.body
        );
        change(&gateway, &format!("{USAGE}/{id}"), &json!({"hard": true})).await;
        let refused = without_price().send(&gateway).await;
        assert_eq!(refused.status, 412, "{}", refused.body);
        let message = refused.body["error"]["message"].as_str().unwrap();
        assert!(message.contains("price"), "{message}");
        assert_eq!(Chat::new().user("ann").status(&gateway).await, 200, "one with a price");
    }
}

/// What an attempt may cost is decided by its own target, not by the first one of the request.
#[tokio::test]
async fn a_hard_budget_has_room_for_each_attempt_or_refuses_it() {
    for gateway in gateways() {
        let limit = json!({"conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "api_key"}], "type": "cost",
                           "credit_limit": 0.0001, "hard": true});
        let id = make(&gateway, USAGE, &limit).await;
        let target =
            |slug: &str, params: Value| json!({"provider": format!("@{slug}"), "override_params": params});
        let fallback = |targets: Value| {
            json!({"strategy": {"mode": "fallback", "on_status_codes": [500, 502, 503]}, "targets": targets})
                .to_string()
        };
        let cheap = json!({"model": "gpt-4o-mini"});
        let send = async |config: String| {
            let chat = Chat::new().header("x-gateway-config", config).send(&gateway).await;
            (chat.status, chat.body["error"]["type"].as_str().unwrap_or_default().to_owned())
        };
        let before = calls(&gateway).await;
        let spent = "usage_limits_policy_exhaust_error";
        // The first target does not respond; the second one costs sixteen times as much, which does not fit.
        let dearer = fallback(json!([target("gone", cheap.clone()), target("emu", json!({}))]));
        assert_eq!(send(dearer.clone()).await, (412, spent.to_owned()));
        // What the config sets is what counts, not what the client sends.
        let more = json!({"model": "gpt-4o-mini", "max_completion_tokens": 1_000_000});
        assert_eq!(send(fallback(json!([target("emu", more)]))).await, (412, spent.to_owned()));
        assert_eq!(calls(&gateway).await, before, "the provider was not called");
        // As cheap as the first one: there is room for it, because nothing was charged for the first.
        let as_cheap = fallback(json!([target("gone", cheap.clone()), target("emu", cheap)]));
        assert_eq!(send(as_cheap).await.0, 200);
        change(&gateway, &format!("{USAGE}/{id}"), &json!({"credit_limit": 1})).await;
        assert_eq!(send(dearer).await.0, 200);
        // Nothing stays reserved, neither for the attempts that were not charged.
        wait::until("the end of all holds", async || {
            let bucket = entities(&gateway, &id, "").await.remove(0);
            (bucket["reserved_usage"] == 0).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_user_without_a_name_is_refused_or_shares_a_bucket() {
    let gateway = Gateway::start(SETTINGS);
    let mut policy = per_user("requests", json!(1));
    policy["on_missing"] = "deny".into();
    let id = make(&gateway, USAGE, &policy).await;
    // What is neither a text nor a number names no user.
    for metadata in
        ["", r#"{"_user":{"a":1}}"#, r#"{"_user":[1]}"#, r#"{"_user":null}"#, r#"{"_user":"x","_user":null}"#]
    {
        let mut chat = Chat::new();
        if !metadata.is_empty() {
            chat = chat.header("x-gateway-metadata", metadata);
        }
        let refused = chat.send(&gateway).await;
        assert_eq!(refused.status, 400, "{metadata}: {}", refused.body);
        assert!(refused.body["error"]["message"].as_str().unwrap().contains("_user"), "{}", refused.body);
    }
    assert_eq!(
        Chat::new().member("user", json!("ann")).status(&gateway).await,
        200,
        "the body's user is the user"
    );
    change(&gateway, &format!("{USAGE}/{id}"), &json!({"on_missing": "shared"})).await;
    assert_eq!(Chat::new().status(&gateway).await, 200);
    wait::until("the bucket that all share", async || {
        (Chat::new().status(&gateway).await == 412).then_some(())
    })
    .await;
    change(&gateway, &format!("{USAGE}/{id}"), &json!({"on_missing": "skip"})).await;
    assert_eq!(Chat::new().status(&gateway).await, 200);
}

/// Status, code and scope of a refusal.
async fn refusal(gateway: &Gateway, chat: Chat<'_>) -> (u16, Value, Value) {
    let Answer { status, body, .. } = chat.send(gateway).await;
    (status, body["error"]["code"].clone(), body["error"]["limit"]["scope"].clone())
}

#[tokio::test]
async fn a_key_of_the_settings_has_limits() {
    let limited =
        SETTINGS.replace("workspace: default}", "workspace: default, rate_limits: [{unit: rph, value: 0}]}");
    let gateway = Gateway::start(&limited);
    assert_eq!(
        refusal(&gateway, Chat::new()).await,
        (429, json!("05"), json!("api_key")),
        "a key of the settings"
    );
    let own: Value = client()
        .get(format!("{}/v1/api-keys/self", gateway.data_url()))
        .header("x-gateway-api-key", CLIENT)
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(
        (&own["rate_limits"][0]["unit"], &own["usage"][0]["kind"]),
        (&json!("rph"), &json!("rate")),
        "{own}"
    );

    assert_eq!(Chat::new().key(KEY).status(&gateway).await, 200, "another key");
}

#[tokio::test]
async fn workspaces_have_limits() {
    let gateway = Gateway::start(SETTINGS);
    let ours = || Chat::new().key(KEY);
    assert_eq!(ours().status(&gateway).await, 200);
    let workspace = "/v1/admin/workspaces/default";
    change(&gateway, workspace, &json!({"usage_limits": [{"credit_limit": 0}], "rate_limits": []})).await;
    assert_eq!(refusal(&gateway, ours()).await, (412, json!("04"), json!("workspace")));
    assert_eq!(get(&gateway, workspace).await["status"], "exhausted");
    change(&gateway, workspace, &json!({"usage_limits": [], "rate_limits": [{"unit": "rpd", "value": 0}]}))
        .await;
    assert_eq!(refusal(&gateway, ours()).await, (429, json!("05"), json!("workspace")));
    change(&gateway, workspace, &json!({"usage_limits": null, "rate_limits": null})).await;
    assert_eq!(ours().status(&gateway).await, 200);
}

#[tokio::test]
async fn providers_and_integrations_have_limits() {
    let gateway = Gateway::start(SETTINGS);
    let ours = || Chat::new().key(KEY);
    let host = format!("{}/v1", gateway.emulator_url());
    let integration = json!({
        "name": "i", "slug": "account", "ai_provider_id": "openai", "key": "k", "configurations": {"custom_host": host},
        "default_provider_slug": "through",
    });
    make(&gateway, "/v1/integrations", &integration).await;
    let through = || ours().header("x-gateway-config", json!({"provider": "@through"}).to_string());
    let answer = through().send(&gateway).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    change(
        &gateway,
        "/v1/integrations/account",
        &json!({"usage_limits": {"type": "requests", "credit_limit": 0}}),
    )
    .await;
    assert_eq!(refusal(&gateway, through()).await.2, "integration");
    assert_eq!(get(&gateway, "/v1/integrations/account").await["status"], "exhausted");
    change(&gateway, "/v1/integrations/account", &json!({"usage_limits": null})).await;
    change(
        &gateway,
        "/v1/providers/through",
        &json!({"usage_limits": {"type": "requests", "credit_limit": 0}}),
    )
    .await;
    let answer = through().send(&gateway).await;
    assert_eq!(
        (answer.status, &answer.body["error"]["type"]),
        (412, &json!("virtual_key_exhaust_error")),
        "{}",
        answer.body
    );
    assert_eq!(get(&gateway, "/v1/providers/through").await["status"], "exhausted");
    assert_eq!(ours().status(&gateway).await, 200, "another provider");
}
