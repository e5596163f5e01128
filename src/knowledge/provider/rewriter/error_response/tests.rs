//! The words that clients get for the errors of all vendors, in both dialects: a table of shapes that vendors send, and
//! the recorded errors of real ones (skipped where the recordings are not beside the checkout).

use super::ErrorResponseTranslation;
use serde_json::{Value, json};
use words::api::Dialect;
use words::api::error_names::is_anthropic_type;

/// Provider, status, the type in the header, and the body.
type Sent<'a> = (&'static str, u16, Option<&'a str>, Value);
fn received((provider, status, kind, body): &Sent<'_>, dialect: Dialect) -> Value {
    let translation = ErrorResponseTranslation {
        status: *status,
        dialect,
        provider,
        request_id: "r-1".into(),
        kind: kind.map(str::to_owned),
    };
    let mut out = Vec::new();
    let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
    translation.write(text.as_bytes(), &mut out);
    serde_json::from_slice(&out).unwrap_or_else(|_| panic!("{body}: {}", String::from_utf8_lossy(&out)))
}

/// One error a line: what a vendor sends, and what clients get of it. `header` is the type in a header; `openai` is `type`,
/// `code` and `provider_code`; `anthropic` is `type` and `provider_code`. A body that is a text is no JSON.
const VENDORS: &str = include_str!("vendors.jsonl");

#[test]
fn every_vendors_error_has_the_names_of_the_clients_dialect() {
    for line in VENDORS.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let provider = crate::provider::find(row["provider"].as_str().unwrap()).unwrap().id();
        let status = u16::try_from(row["status"].as_u64().unwrap()).unwrap();
        let sent = (provider, status, row["header"].as_str(), row["body"].clone());
        for dialect in [Dialect::OpenAi, Dialect::Responses] {
            let body = received(&sent, dialect);
            let error = &body["error"];
            assert!(error["message"].is_string() && error.get("param").is_some(), "{line}\n{body}");
            let names = json!([error["type"], error["code"], error["provider_code"]]);
            assert_eq!(names, row["openai"], "{line}\n{body}");
        }
        let body = received(&sent, Dialect::Anthropic);
        let error = &body["error"];
        assert_eq!(
            (&body["type"], body["request_id"].is_string()),
            (&json!("error"), provider != "anthropic")
        );
        assert_eq!(json!([error["type"], error["provider_code"]]), row["anthropic"], "{line}\n{body}");
    }
    assert!(VENDORS.lines().count() > 40);
}

#[test]
fn other_members_of_an_error_stay() {
    let groq = json!({"error": {"message": "no", "type": "invalid_request_error", "code": "tool_use_failed",
        "failed_generation": "{}"}, "x": 1});
    let body = received(&("groq", 400, None, groq), Dialect::OpenAi);
    assert_eq!((&body["error"]["failed_generation"], &body["x"]), (&json!("{}"), &json!(1)));
    // A vendor's body of the dialect keeps every byte where its words are the dialect's.
    let mut out = Vec::new();
    let text = br#"{ "error" : {"code":"model_not_found","message":"no","param":null,"type":"invalid_request_error"} }"#;
    let translation = ErrorResponseTranslation {
        status: 404,
        dialect: Dialect::OpenAi,
        provider: "groq",
        request_id: String::new(),
        kind: None,
    };
    translation.write(text, &mut out);
    assert_eq!(out, text);
}

#[test]
fn recorded_errors_have_the_names_of_the_clients_dialect() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traffic/recorded.jsonl");
    let Ok(text) = std::fs::read_to_string(file) else {
        return eprintln!(
            "SKIPPED: recorded errors: no ../shared/traffic/recorded.jsonl beside this checkout"
        );
    };
    let mut count = 0;
    for line in text.lines().filter(|line| !line.contains(r#""status": 200"#)) {
        let line: Value = serde_json::from_str(line).unwrap();
        let status = u16::try_from(line["status"].as_u64().unwrap()).unwrap();
        if status < 400 {
            continue;
        }
        count += 1;
        let host = line["host"].as_str().unwrap();
        let provider = match host {
            "api.openai.com" => "openai",
            "api.anthropic.com" => "anthropic",
            "api.cohere.com" => "cohere",
            "api.groq.com" => "groq",
            "openrouter.ai" => "openrouter",
            "aiplatform.googleapis.com" => "vertex-ai",
            _ if host.contains("bedrock") => "bedrock",
            _ => panic!("{host}"),
        };
        let sent = (provider, status, None, line["response"].clone());
        let body = received(&sent, Dialect::OpenAi);
        match provider {
            "openai" => assert_eq!(body, line["response"]),
            _ => {
                let error = &body["error"];
                let expected = [Value::Null, json!("model_not_found"), json!("rate_limit_exceeded")];
                assert!(expected.contains(&error["code"]), "{}: {body}", line["id"]);
                let kind = error["type"].as_str().unwrap();
                assert!(["invalid_request_error", "requests"].contains(&kind), "{}: {body}", line["id"]);
            }
        }
        // A model that does not exist is told as such, whoever says so.
        let about_model = line["id"].as_str().unwrap().contains("model_name_suggestion");
        assert!(!about_model || body["error"]["code"] == "model_not_found", "{}: {body}", line["id"]);
        let body = received(&sent, Dialect::Anthropic);
        assert!(is_anthropic_type(body["error"]["type"].as_str().unwrap()), "{}: {body}", line["id"]);
    }
    assert!(count >= 18, "{count}");
}
