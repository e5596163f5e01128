//! Request headers and what they are parsed as.
//!
//! The headers are built from wire bytes, so that values which `http` accepts and the gateway refuses are
//! covered too.

use super::*;
use crate::config::policies::Policies;
use http::HeaderValue;
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use std::time::Duration;

const OURS: [&str; 1] = ["x-gateway-"];
const BOTH: [&str; 2] = ["x-gateway-", "x-other-"];

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

fn policies_of<'a>(headers: &'a GatewayHeaders<'_>) -> &'a Policies {
    headers.policies.as_ref().unwrap().policies()
}

#[track_caller]
fn refused(lines: &[(&str, &str)], param: &str, what: &str) {
    let headers = headers(lines);
    let error = GatewayHeaders::read(&headers, &OURS).expect_err(param);
    assert_eq!((error.status(), error.param.as_deref()), (400, Some(param)), "{lines:?}");
    assert!(error.message.contains(what) && error.message.contains(param), "{}", error.message);
    assert!(!error.message.contains("canary"), "{}", error.message);
}

#[test]
fn a_request_without_gateway_headers_reads_as_default() {
    let headers = headers(&[
        ("content-type", "application/json"),
        ("x-gateway", "x"),
        ("x-gateway-new", "x"),
        ("x-gateway-provider", ""),
        ("x-gateway-aws-region", ""),
    ]);
    assert_eq!(GatewayHeaders::read(&headers, &OURS).unwrap(), GatewayHeaders::default());
}

#[test]
fn every_plain_header_is_read() {
    let headers = headers(&[
        ("X-Gateway-Api-Key", "service"),
        ("x-gateway-config", r#"{"override_params":{"user":"Jörg"}}"#),
        ("x-gateway-provider", "@slug"),
        ("x-gateway-virtual-key", "v"),
        ("x-gateway-custom-host", "https://h"),
        ("x-gateway-request-timeout", "5000"),
        ("x-gateway-forward-headers", "X-A, x-b,,"),
        ("x-gateway-forward-headers", "x-c"),
        ("x-gateway-trace-id", "t"),
        ("x-gateway-span-id", "s"),
        ("x-gateway-parent-span-id", "p"),
        ("x-gateway-span-name", "a name"),
        ("x-gateway-metadata", r#" {"_user":"ü"} "#),
        ("x-gateway-debug", "false"),
        ("x-gateway-ignore-service-log", "TRUE"),
        ("x-gateway-cache-namespace", "n"),
        ("x-gateway-cache-force-refresh", "True"),
        ("x-gateway-strict-open-ai-compliance", "false"),
    ]);
    let parsed = GatewayHeaders::read(&headers, &OURS).unwrap();
    let policies = Policies {
        request_timeout: Some(Duration::from_secs(5)),
        forward_headers: Some(["x-a", "x-b", "x-c"].map(HeaderName::from_static).to_vec()),
        strict_std_compliance: Some(false),
        ..Policies::default()
    };
    assert!(*policies_of(&parsed) == policies);
    let wanted = GatewayHeaders {
        service_key: Some("service"),
        config: Some(r#"{"override_params":{"user":"Jörg"}}"#),
        provider: Some("@slug"),
        virtual_key: Some("v"),
        custom_host: Some("https://h"),
        trace_id: Some("t"),
        span_id: Some("s"),
        parent_span_id: Some("p"),
        span_name: Some("a name"),
        metadata: Some(r#"{"_user":"ü"}"#),
        debug: Some(false),
        ignore_service_log: true,
        cache_namespace: Some("n"),
        cache_force_refresh: true,
        policies: parsed.policies.clone(),
        account: None,
    };
    assert_eq!(parsed, wanted);
}

#[test]
fn every_cloud_header_is_read_under_both_names() {
    let suffixes = [
        ("provider-organization", "openai-organization"),
        ("provider-project", "openai-project"),
        ("cloud-a-access-key-id", "aws-access-key-id"),
        ("cloud-a-secret-access-key", "aws-secret-access-key"),
        ("cloud-a-session-token", "aws-session-token"),
        ("cloud-a-region", "aws-region"),
        ("cloud-b-project-id", "vertex-project-id"),
        ("cloud-b-region", "vertex-region"),
        ("cloud-b-service-account-json", "vertex-service-account-json"),
        ("cloud-c-resource-name", "azure-resource-name"),
        ("cloud-c-deployment-id", "azure-deployment-id"),
        ("cloud-c-api-version", "azure-api-version"),
        ("cloud-c-model-name", "azure-model-name"),
        ("cloud-c-region", "azure-region"),
        ("cloud-c-deployment-name", "azure-deployment-name"),
        ("cloud-c-deployment-type", "azure-deployment-type"),
        ("cloud-c-endpoint-name", "azure-endpoint-name"),
        ("cloud-c-entra-scope", "azure-entra-scope"),
        ("cloud-a-auth-type", "aws-auth-type"),
        ("cloud-a-role-arn", "aws-role-arn"),
        ("cloud-a-external-id", "aws-external-id"),
        ("cloud-a-s3-bucket", "aws-s3-bucket"),
        ("cloud-a-batch-role-arn", "aws-batch-role-arn"),
        ("cloud-b-auth-type", "vertex-auth-type"),
        ("cloud-b-storage-bucket-name", "vertex-storage-bucket-name"),
        ("cloud-c-auth-mode", "azure-auth-mode"),
        ("cloud-c-ad-token", "azure-ad-token"),
        ("cloud-c-entra-tenant-id", "azure-entra-tenant-id"),
        ("cloud-c-entra-client-id", "azure-entra-client-id"),
        ("cloud-c-entra-client-secret", "azure-entra-client-secret"),
        ("cloud-c-managed-client-id", "azure-managed-client-id"),
        ("cloud-c-workload-client-id", "azure-workload-client-id"),
        ("cloud-c-extra-parameters", "azure-extra-params"),
    ];
    let mut earlier: Vec<Account> = Vec::new();
    for (neutral, vendor) in suffixes {
        let value = match neutral {
            "cloud-c-deployment-type" => "managed",
            "cloud-b-service-account-json" => r#"{"client_email":"x"}"#,
            "cloud-c-auth-mode" => "entra",
            suffix if suffix.ends_with("auth-type") => "apiKey",
            _ => "x",
        };
        let read = |suffix: &str| {
            let headers = headers(&[(&format!("x-gateway-{suffix}"), value)]);
            *GatewayHeaders::read(&headers, &OURS).unwrap().account.unwrap()
        };
        let account = read(neutral);
        assert_eq!(account, read(vendor), "{neutral}");
        assert_ne!(account, Account::default(), "{neutral}");
        assert!(!earlier.contains(&account), "{neutral} is read into the field of another header");
        earlier.push(account);
        let twice = [(&*format!("x-gateway-{neutral}"), value), (&*format!("x-gateway-{vendor}"), value)];
        assert!(GatewayHeaders::read(&headers(&twice), &OURS).is_err(), "{neutral}");
    }
}

#[test]
fn a_vendor_header_counts_only_for_that_vendor() {
    let mut lines = vec![
        ("x-gateway-workers-ai-account-id", "workers"),
        ("x-gateway-snowflake-account", "snow"),
        ("x-gateway-azure-resource-name", "azure"),
        ("x-gateway-huggingface-base-url", "https://h"),
        ("x-gateway-azure-foundry-url", "https://f"),
    ];
    for (provider, resource, host) in [
        ("workers-ai", "workers", None),
        ("snowflake", "snow", None),
        ("azure-openai", "azure", None),
        ("huggingface", "azure", Some("https://h")),
        ("azure-ai", "azure", Some("https://f")),
        ("@azure-ai", "azure", None),
    ] {
        lines.push(("x-gateway-provider", provider));
        let headers = headers(&lines);
        let account = GatewayHeaders::read(&headers, &OURS).unwrap().account.unwrap();
        assert_eq!(account.resource_name.as_deref(), Some(resource), "{provider}");
        assert_eq!(account.custom_host.as_deref(), host, "{provider}");
        lines.pop();
    }
}

#[test]
fn headers_of_reference_clients_are_read_or_ignored() {
    let headers = headers(&[
        ("x-portkey-api-key", "service"),
        ("x-portkey-package-version", "portkey-2.3.4"),
        ("x-portkey-runtime", "CPython"),
        ("x-portkey-runtime-version", "3.12.3"),
        ("x-portkey-mode", "proxy openai"),
        ("x-portkey-debug", "false"),
        ("x-portkey-strict-open-ai-compliance", "false"),
        ("x-portkey-forward-headers", "x-a,x-b"),
        ("x-portkey-metadata", r#"{"_user": "u"}"#),
        ("x-portkey-cache-force-refresh", "true"),
        ("x-portkey-request-timeout", "5000"),
        ("x-portkey-provider", "bedrock"),
        ("x-portkey-anthropic-beta", "b"),
        ("x-portkey-mistral-fim-completion", "true"),
        ("x-portkey-provider-file-name", "f"),
        ("x-portkey-aws-bedrock-model", "m"),
        ("x-portkey-aws-region", "us-east-1"),
        ("x-portkey-vertex-service-account-json", r#"{"client_email": "x"}"#),
    ]);
    let parsed = GatewayHeaders::read(&headers, &["x-gateway-", "x-portkey-"]).unwrap();
    assert_eq!((policies_of(&parsed).strict_std_compliance, parsed.provider), (Some(false), Some("bedrock")));
    let account = parsed.account.unwrap();
    assert_eq!(account.anthropic_beta.as_deref(), Some("b"));
    assert_eq!(account.cloud_a.region.as_deref(), Some("us-east-1"));
    assert!(account.cloud_b.service_account_json.is_some());
}

#[test]
fn the_first_prefix_wins_whatever_the_header_order() {
    let ours = ("x-gateway-provider", "ours");
    let other = ("x-other-provider", "other");
    for lines in [[ours, other], [other, ours]] {
        assert_eq!(GatewayHeaders::read(&headers(&lines), &BOTH).unwrap().provider, Some("ours"));
        assert_eq!(
            GatewayHeaders::read(&headers(&lines), &["x-other-", "x-gateway-"]).unwrap().provider,
            Some("other")
        );
        assert_eq!(GatewayHeaders::read(&headers(&lines), &OURS).unwrap().provider, Some("ours"));
    }
    // An empty header does not count, and one that is overridden is not checked.
    let lines = headers(&[("x-gateway-provider", ""), other]);
    assert_eq!(GatewayHeaders::read(&lines, &BOTH).unwrap().provider, Some("other"));
    let lines = headers(&[("x-gateway-request-timeout", "5"), ("x-other-request-timeout", "soon")]);
    assert_eq!(
        policies_of(&GatewayHeaders::read(&lines, &BOTH).unwrap()).request_timeout,
        Some(Duration::from_millis(5))
    );
}

#[test]
fn unreadable_headers_are_refused_by_name() {
    for (name, value, what) in [
        ("x-gateway-request-timeout", "0", "whole number of milliseconds"),
        ("x-gateway-request-timeout", "-1", "whole number of milliseconds"),
        ("x-gateway-request-timeout", "1.5", "whole number of milliseconds"),
        ("x-gateway-request-timeout", "canary", "whole number of milliseconds"),
        ("x-gateway-request-timeout", "99999999999999999999", "whole number of milliseconds"),
        ("x-gateway-metadata", "canary", "must be a JSON object"),
        ("x-gateway-metadata", "[1]", "must be a JSON object"),
        ("x-gateway-metadata", r#"{"canary":1} x"#, "must be a JSON object"),
        ("x-gateway-metadata", r#"{"canary":}"#, "must be a JSON object"),
        ("x-gateway-strict-std-compliance", "canary", "must be true or false"),
        ("x-gateway-forward-headers", "x-a, not a name", "must be a header name"),
        ("x-gateway-forward-headers", "X-Gateway-Forward-Headers", "must not be the header that lists"),
        ("x-gateway-forward-headers", r#"["x-a", "not a name"]"#, "must be a header name"),
        ("x-gateway-forward-headers", r#"["x-a", 1]"#, "a JSON array of them"),
        ("x-gateway-forward-headers", r#"["x-a""#, "a JSON array of them"),
        ("x-gateway-cloud-c-deployment-type", "canary", "must be one of: serverless, managed"),
        ("x-gateway-vertex-service-account-json", "canary", "must be a JSON object"),
        ("x-gateway-api-key", "canary-ü", "must be plain ASCII text"),
        ("x-gateway-trace-id", "canary-ü", "must be plain ASCII text"),
        ("x-gateway-trace-id", "a\tb", "visible ASCII"),
        ("x-gateway-azure-region", "canary-ü", "must be plain ASCII text"),
    ] {
        refused(&[(name, value)], name, what);
    }
    let long = "t".repeat(MAX_ID_LEN + 1);
    refused(&[("x-gateway-trace-id", &long)], "x-gateway-trace-id", "at most 256");
    refused(&[("x-gateway-span-name", &long)], "x-gateway-span-name", "at most 256");
    let twice = [("x-gateway-api-key", "canary"), ("x-gateway-api-key", "other")];
    refused(&twice, "x-gateway-api-key", "more than once");

    let mut latin = HeaderMap::new();
    latin.insert("x-gateway-config", HeaderValue::from_bytes(b"{\"a\":\"\xfc\"}").unwrap());
    let error = GatewayHeaders::read(&latin, &OURS).unwrap_err();
    assert!(error.message.contains("must be UTF-8 text"), "{}", error.message);
}

#[test]
fn forwarded_names_come_as_a_list_or_as_json() {
    for (lines, wanted) in [
        (&["X-A, x-b"][..], &["x-a", "x-b"][..]),
        (&[r#" ["X-A", " x-b ", ""] "#], &["x-a", "x-b"]),
        (&[r#"["x-a"]"#, "x-b,x-c"], &["x-a", "x-b", "x-c"]),
        (&["[]"], &[]),
    ] {
        let lines: Vec<_> = lines.iter().map(|line| ("x-gateway-forward-headers", *line)).collect();
        let headers = headers(&lines);
        let parsed = GatewayHeaders::read(&headers, &OURS).unwrap();
        let names = policies_of(&parsed).forward_headers.clone().unwrap();
        assert_eq!(names, wanted, "{lines:?}");
    }
}

#[test]
fn metadata_is_held_to_the_limits_of_the_spec() {
    let pairs = |count: usize, key: usize, value: &str| {
        let pair = |n| format!("\"{n:0>key$}\":{value}");
        format!("{{{}}}", (0..count).map(pair).collect::<Vec<_>>().join(","))
    };
    let text = |chars: usize| format!("\"{}\"", "ü".repeat(chars));
    for accepted in [
        pairs(16, 64, &text(512)),
        pairs(1, 1, r#"{"nested": [1, true]}"#),
        pairs(1, 1, &format!("\"{}\"", r"\u00fc".repeat(512))),
        "{}".to_owned(),
    ] {
        let headers = headers(&[("x-gateway-metadata", &accepted)]);
        assert_eq!(GatewayHeaders::read(&headers, &OURS).unwrap().metadata, Some(accepted.as_str()));
    }
    for (value, what) in [
        (pairs(17, 2, "1"), "has 17 members; at most 16 are allowed"),
        (pairs(1, 65, "1"), "has a key of more than 64 characters"),
        (pairs(1, 1, &text(513)), "has a value of more than 512 characters"),
        (pairs(1, 1, &format!("[{}]", text(511))), "has a value of more than 512 characters"),
        (pairs(1, 1, &format!("\"{}\"", r"\u00fc".repeat(513))), "has a value of more than 512 characters"),
    ] {
        refused(&[("x-gateway-metadata", &value)], "x-gateway-metadata", what);
    }
}

#[test]
fn only_true_forces_a_refresh() {
    for (value, wanted) in [("true", true), ("false", false), ("1", false), ("", false)] {
        let headers = headers(&[("x-gateway-cache-force-refresh", value)]);
        assert_eq!(GatewayHeaders::read(&headers, &OURS).unwrap().cache_force_refresh, wanted, "{value:?}");
    }
}

#[test]
fn gateway_headers_are_recognized_by_prefix() {
    for (name, wanted) in [("x-gateway-anything", true), ("x-other-x", true), ("x-api-key", false)] {
        assert_eq!(is_gateway_header(&HeaderName::from_static(name), &BOTH), wanted, "{name}");
    }
}

#[test]
fn debug_shows_no_credential() {
    let headers = headers(&[
        ("x-gateway-api-key", "canary"),
        ("x-gateway-config", "canary"),
        ("authorization", "Bearer canary"),
        ("x-gateway-aws-secret-access-key", "canary"),
    ]);
    let shown = format!("{:?}", GatewayHeaders::read(&headers, &OURS).unwrap());
    assert!(!shown.contains("canary"), "{shown}");
}

proptest! {
    #[test]
    fn any_value_is_parsed_or_refused_by_name(
        suffix in prop::sample::select(vec![
            "api-key", "config", "request-timeout", "forward-headers", "trace-id", "metadata",
            "strict-std-compliance", "cloud-b-service-account-json", "cloud-c-deployment-type",
        ]),
        value in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let Ok(value) = HeaderValue::from_bytes(&value) else { return Ok(()) };
        let name = HeaderName::from_bytes(format!("x-gateway-{suffix}").as_bytes()).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(name.clone(), value);
        match GatewayHeaders::read(&headers, &OURS) {
            Ok(parsed) => prop_assert!(parsed.trace_id.is_none_or(|id| id.len() <= MAX_ID_LEN)),
            Err(error) => prop_assert_eq!(error.param.as_deref(), Some(name.as_str())),
        }
    }
}
