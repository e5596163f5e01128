//! Requests for every documented member of the three chat dialects, translated for each provider and judged by that provider's
//! own published request types.
//!
//! The types are in Python, and so are the generator and the judge (tests/sdk/published_requests.py); the translations are
//! made here, in process. Skipped as `sdk` is.

use crate::sdk_types::{DIALECTS, DialectCall, account, folder, judge, write};
use crate::support::packages;
use http::Method;
use knowledge::provider::translation::{PrepareOptions, PreparedRequest, prepare};
use knowledge::provider::translation_notes::TranslationNotes;
use knowledge::provider::{Call, find};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::io::Write;
use words::api::body::Body;
use words::api::rules;
use words::config::account::Account;
use words::error::Error;

/// The providers whose published types judge requests, with a model of each kind that is translated in its own way.
const TARGETS: &[(&str, &str)] = &[
    ("openai", "gpt-4o"),
    ("anthropic", "claude-sonnet-4-5"),
    ("google", "gemini-2.5-flash"),
    ("vertex-ai", "gemini-2.5-flash"),
    ("bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("bedrock", "amazon.nova-pro-v1:0"),
    ("bedrock", "meta.llama4-maverick-17b-instruct-v1:0"),
    ("cohere", "command-a-03-2025"),
    ("mistral-ai", "mistral-large-latest"),
    ("groq", "openai/gpt-oss-120b"),
    ("cerebras", "gpt-oss-120b"),
];

#[test]
fn requests_are_valid_for_their_providers() {
    const SCRIPT: &str = "published_requests.py";
    if packages::python("types", SCRIPT).is_none() {
        return;
    }
    let requests = folder().join("requests.jsonl");
    judge(SCRIPT, &["generate"], &requests);
    let text = std::fs::read_to_string(requests).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let halves: Vec<&[&str]> = lines.chunks(lines.len().div_ceil(2).max(1)).collect();
    let made: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let threads = halves.iter().map(|half| scope.spawn(|| translated(half)));
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    judge(SCRIPT, &["judge"], &write("translated.jsonl", &made.concat()));
}

/// Every request, translated for every target, one JSON object a line.
fn translated(lines: &[&str]) -> Vec<u8> {
    #[derive(serde::Deserialize)]
    struct Generated<'a> {
        client: &'a str,
        label: String,
        #[serde(borrow)]
        body: &'a RawValue,
    }
    let mut out = Vec::new();
    let account = account();
    for line in lines {
        let request: Generated<'_> = serde_json::from_str(line).unwrap();
        let (operation, path) = *DIALECTS.iter().find(|(_, path)| *path == request.client).unwrap();
        for (provider, model) in TARGETS {
            let mut body: Value = serde_json::from_str(request.body.get()).unwrap();
            body["model"] = json!(model);
            let body = Body::parse(body.to_string().into()).unwrap();
            let streamed = body.is_true("stream");
            let call = DialectCall { operation, path, streamed };
            let mut notes = TranslationNotes::default();
            let mut line =
                json!({"client": path, "label": request.label, "provider": provider, "model": model});
            match send(&call, provider, model, &body, &account, &mut notes) {
                Ok(prepared) => {
                    let sent = prepared.body.unwrap_or_else(|| body.bytes().to_vec());
                    line["sent"] = serde_json::from_slice(&sent).unwrap();
                    line["operation"] = json!(prepared.operation.label());
                    line["warnings"] = json!(notes.warnings);
                    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
                        (name.to_string(), json!(value.to_str().unwrap()))
                    };
                    line["headers"] = notes.headers.iter().map(header).collect();
                }
                Err(error) => line["refused"] = json!(format!("{:?}: {}", error.param, error.message)),
            }
            writeln!(out, "{line}").unwrap();
        }
    }
    out
}

fn send(
    call: &DialectCall,
    provider: &str,
    model: &str,
    body: &Body,
    account: &Account,
    notes: &mut TranslationNotes,
) -> Result<PreparedRequest, Error> {
    rules::check(call.operation, body, &|_| false)?;
    let DialectCall { operation, path, streamed } = *call;
    let outgoing = Call { operation, method: &Method::POST, path, query: None, model: Some(model), streamed };
    prepare(
        find(provider).unwrap(),
        &outgoing,
        account,
        Some(body),
        PrepareOptions {
            strict: true,
            stream_usage: false,
            client_betas: None,
            learned: None,
            prompt_cache: None,
        },
        notes,
    )
}
