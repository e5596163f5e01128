//! Limits of providers in the settings, as rates of one deployment: a target that is full is passed over.
//!
//! Not limits of stored providers (`limited_requests`).

use crate::limited_requests::{Chat, SETTINGS};
use crate::support::Gateway;
use serde_json::json;

/// The settings with a rate for one provider, and none, or one, for the other.
fn settings(first: &str, second: &str) -> String {
    let provider = |slug: &str, limits: &str| {
        format!(
            "  {slug}: {{provider: openai, api_key: k, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'{limits}}}\n"
        )
    };
    format!("{SETTINGS}{}{}", provider("full", first), provider("roomy", second))
}

const ONE: &str = ", rate_limits: [{type: requests, unit: rph, value: 1}]";
const TOKENS: &str = ", rate_limits: [{type: tokens, unit: rph, value: 1}]";

#[tokio::test]
async fn a_full_target_is_passed_over_before_the_client_sees_a_429() {
    let targets = json!([{"provider": "@full", "weight": 1e12}, {"provider": "@roomy"}]);
    for strategy in [
        json!({"mode": "loadbalance"}),
        json!({"mode": "loadbalance", "failover": true}),
        json!({"mode": "fallback"}),
        json!({"mode": "fallback", "on_errors": ["rate_limit"]}),
    ] {
        let config = json!({"strategy": strategy, "targets": targets}).to_string();
        let gateway = Gateway::start(&settings(ONE, ONE));
        let statuses = [
            Chat::new().header("x-gateway-config", &config).status(&gateway).await,
            Chat::new().header("x-gateway-config", &config).status(&gateway).await,
            Chat::new().header("x-gateway-config", &config).status(&gateway).await,
        ];
        assert_eq!(statuses, [200, 200, 429], "{config}");
        // Another provider of the same vendor is not limited.
        assert_eq!(Chat::new().status(&gateway).await, 200);
    }
}

#[tokio::test]
async fn tokens_of_a_deployment_are_limited_too() {
    let gateway = Gateway::start(&settings(TOKENS, ""));
    let full = json!({"provider": "@full", "retry": {"attempts": 0}}).to_string();
    let statuses = [
        Chat::new().header("x-gateway-config", &full).status(&gateway).await,
        Chat::new().header("x-gateway-config", &full).status(&gateway).await,
    ];
    assert_eq!(statuses[1], 429, "{statuses:?}");
    let both = json!({"strategy": {"mode": "loadbalance"}, "targets": [
        {"provider": "@full", "weight": 1e12}, {"provider": "@roomy"}]});
    assert_eq!(Chat::new().header("x-gateway-config", both.to_string()).status(&gateway).await, 200);
}
