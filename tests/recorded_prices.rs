//! Every recorded response with usage has a price, or a reason for having none.
//!
//! The recordings are not in this repository: without them beside the checkout the tests are skipped. `docs/prices.md` has the
//! table of what was found (`UPDATE_GOLDEN=1 cargo test recorded_prices` writes it). What tokens a response has is tested elsewhere (`recordings`, `translations`).

use crate::support::recording::{self, Recording};
use crate::support::report;
use base64::Engine;
use jiff::Timestamp;
use knowledge::price::{Charge, CostStatus, PriceBook};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use words::api::operation::Operation;
use words::api::tap::Tap;
use words::api::usage::{Usage, UsageParts};

/// The vendor that is called at a recorded host.
const VENDORS: &[(&str, &str)] = &[
    ("api.openai.com", "openai"),
    ("api.anthropic.com", "anthropic"),
    ("generativelanguage.googleapis.com", "google"),
    ("bedrock-runtime", "bedrock"),
    ("aiplatform.googleapis.com", "vertex-ai"),
    ("openrouter.ai", "openrouter"),
    ("api.groq.com", "groq"),
    ("api.mistral.ai", "mistral-ai"),
    ("api.cohere.com", "cohere"),
    ("api.deepseek.com", "deepseek"),
    ("api.cerebras.ai", "cerebras"),
    ("router.huggingface.co", "huggingface"),
    ("api.z.ai", "z-ai"),
    ("openai.azure.com", "azure-openai"),
    ("localhost:11434", "ollama"),
];

/// The models that have no price, and why.
const UNKNOWN: &[(&str, &str)] = &[
    ("bedrock/anthropic.claude-v2", "no longer offered: not in the catalogue"),
    (
        "bedrock/arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/mi1dadi0g15f",
        "only the account's owner knows its model: overlay, like",
    ),
    ("bedrock/minimax.minimax-m2", "not in the catalogue for Bedrock"),
    ("bedrock/nvidia.nemotron-nano-12b-v2", "not in the catalogue for Bedrock"),
    ("bedrock/zai.glm-4.7-flash", "not in the catalogue for Bedrock"),
    ("cerebras/qwen-3-coder-480b", "in the catalogue without a price"),
    ("groq/compound-beta", "a system of several models"),
    // The recordings have the provider behind Hugging Face in the path; our names have it behind the model.
    ("huggingface/deepseek-ai/DeepSeek-R1", "no provider in the name"),
    ("huggingface/meta-llama/Llama-4-Scout-17B-16E-Instruct", "no provider in the name"),
    ("huggingface/meta-llama/llama-3.1-8b-instruct", "no provider in the name"),
    ("ollama/qwen3:0.6b", "the operator's own machine: overlay, free"),
];

/// The JSON texts of a response: of its body, or of the events of its stream.
fn texts(recording: &Recording) -> Vec<String> {
    let body = &recording.body;
    if recording.content_type.contains("amazon.eventstream") {
        return event_stream_texts(body);
    }
    let text = String::from_utf8_lossy(body);
    if recording.streamed {
        text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::to_owned).collect()
    } else {
        vec![text.into_owned()]
    }
}

/// The payloads of Amazon's event stream; those of `invoke` hold the vendor's event as base64.
fn event_stream_texts(body: &[u8]) -> Vec<String> {
    let mut texts = Vec::new();
    let mut rest = body;
    while let Some(prelude) = rest.get(..8) {
        let number = |at: usize| u32::from_be_bytes(prelude[at..at + 4].try_into().unwrap()) as usize;
        let length = number(0);
        let headers = number(4);
        let Some(message) = rest.get(..length) else { break };
        let payload = String::from_utf8_lossy(&message[12 + headers..length - 4]).into_owned();
        let inner = serde_json::from_str::<Value>(&payload).ok();
        let inner = inner.and_then(|value| {
            base64::engine::general_purpose::STANDARD.decode(value["bytes"].as_str()?).ok()
        });
        texts.push(inner.map_or(payload, |bytes| String::from_utf8_lossy(&bytes).into_owned()));
        rest = &rest[length..];
    }
    texts
}

/// The last usage that a response reports, its parts joined, and the model it names.
fn observed(recording: &Recording) -> (Option<Usage>, Option<String>) {
    let mut parts: Option<UsageParts> = None;
    let mut model = None;
    for value in texts(recording).iter().filter_map(|text| serde_json::from_str::<Value>(text).ok()) {
        for holder in [&value, &value["response"], &value["message"]] {
            for name in ["usage", "usageMetadata"] {
                let found = holder.get(name).filter(|usage| usage.is_object());
                let read = found.and_then(|usage| UsageParts::read(usage.to_string().as_bytes()));
                match (&mut parts, read) {
                    (Some(parts), Some(later)) => parts.update(&later),
                    (none, Some(read)) => *none = Some(read),
                    (_, None) => {}
                }
            }
            let named = holder.get("model").or(holder.get("modelVersion")).and_then(Value::as_str);
            model = named.map(str::to_owned).or(model);
        }
    }
    (parts.and_then(|parts| parts.usage()), model)
}

/// The model that the request names: in its body, or in its path.
fn requested(recording: &Recording) -> Option<String> {
    let body = recording.request.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let in_body = body.as_ref().and_then(|body| body["model"].as_str().map(str::to_owned));
    in_body.or_else(|| {
        let path = recording.path.split('?').next().unwrap_or_default();
        let (_, rest) = path.split_once("/models/").or_else(|| path.split_once("/model/"))?;
        let name = if recording.host.contains("bedrock") {
            rest.rsplit_once('/')?.0
        } else {
            rest.split_once(':')?.0
        };
        Some(percent_encoding::percent_decode_str(name).decode_utf8_lossy().into_owned())
    })
}

#[test]
fn recorded_responses_with_usage_have_a_price() {
    let Some(file) = recording::file() else {
        return report("SKIPPED: recorded prices: no ../shared/traffic/recorded.jsonl beside this checkout");
    };
    let recordings = recording::all(&std::fs::read_to_string(&file).unwrap());
    let book = PriceBook::default();
    let at = Timestamp::from_second(1_795_305_600).unwrap();
    let mut table: BTreeMap<&str, [u64; 4]> = BTreeMap::new();
    let mut unknown = BTreeSet::new();
    for recording in recordings.iter().filter(|recording| recording.status == 200) {
        let (usage, response_model) = observed(recording);
        let Some(usage) = usage.filter(|usage| usage.total > 0) else { continue };
        let host = VENDORS.iter().find(|(host, _)| recording.host.contains(host));
        let (_, vendor) = host.unwrap_or_else(|| panic!("no vendor for {}", recording.host));
        let model = requested(recording).or_else(|| response_model.clone()).unwrap_or_default();
        let cost = book.cost(&Charge {
            vendor,
            model: &model,
            response_model: response_model.as_deref(),
            own: None,
            usage: &usage,
            service_tier: None,
            is_batch: false,
            at,
        });
        let row = table.entry(vendor).or_default();
        let column = match cost.status {
            CostStatus::Priced => 0,
            CostStatus::Free => 1,
            CostStatus::Unknown => 2,
        };
        row[column] += 1;
        row[3] += cost.nanodollars.unwrap_or_default().unsigned_abs();
        if cost.status == CostStatus::Unknown {
            unknown.insert(format!("{vendor}/{model}"));
        } else if cost.status == CostStatus::Priced {
            assert!(cost.nanodollars.unwrap() > 0, "{}: {usage:?}", recording.id);
        }
    }
    let expected: BTreeSet<String> = UNKNOWN.iter().map(|(model, _)| (*model).to_owned()).collect();
    assert_eq!(unknown, expected, "the models without a price");
    let mut lines = format!("{TABLE}\n|---|---|---|---|\n");
    for (vendor, [priced, free, unknown, _]) in &table {
        writeln!(lines, "| `{vendor}` | {priced} | {free} | {unknown} |").unwrap();
    }
    let sum = |column: usize| table.values().map(|row| row[column]).sum::<u64>();
    let priced = sum(0);
    let free = sum(1);
    assert!(priced > 900, "only {priced}\n{lines}");
    let all = priced + free + sum(2);
    let sentence = format!("Of {all} recorded responses with usage, {priced} are priced and {free} are free");
    compare_documentation(&sentence, &lines);
}

/// The first line of the table in the documentation.
const TABLE: &str = "| Provider | priced | free | unknown |";

/// Holds the documentation to what was found, or writes it there.
fn compare_documentation(sentence: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/prices.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let replaced = |text: &str, begin: &str, end: &str, by: &str| {
        let from = text.find(begin).unwrap_or_else(|| panic!("docs/prices.md has no {begin:?}"));
        let to = from + text[from..].find(end).unwrap();
        format!("{}{by}{}", &text[..from], &text[to..])
    };
    let wanted = replaced(&text, TABLE, "\n\n", table.trim_end());
    let wanted = replaced(&wanted, "Of ", " (`tests/recorded_prices.rs`", sentence);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &wanted).unwrap();
        return;
    }
    assert!(text == wanted, "docs/prices.md is behind: UPDATE_GOLDEN=1 cargo test recorded_prices");
}

/// The searches that a whole response of the Responses API shows, counted by another reader.
fn searches(response: &Value) -> u64 {
    let is_search = |item: &&Value| {
        item["type"] == "web_search_call"
            && item["action"]["type"].as_str().is_none_or(|kind| kind == "search")
    };
    let counted = response["tool_usage"]["web_search"]["num_requests"].as_u64();
    counted.unwrap_or_else(|| {
        response["output"].as_array().into_iter().flatten().filter(is_search).count() as u64
    })
}

#[test]
fn recorded_searches_of_the_responses_api_are_counted() {
    let Some(file) = recording::file() else {
        return report(
            "SKIPPED: recorded searches: no ../shared/traffic/recorded.jsonl beside this checkout",
        );
    };
    let recordings = recording::all(&std::fs::read_to_string(&file).unwrap());
    let mut whole = 0;
    let mut streamed = 0;
    for recording in recordings.iter().filter(|one| one.status == 200 && one.path.contains("/responses")) {
        let mut values =
            texts(recording).into_iter().filter_map(|text| serde_json::from_str::<Value>(&text).ok());
        let last = values.next_back().unwrap_or_default();
        let wanted = searches(if recording.streamed { &last["response"] } else { &last });
        let length = Some(recording.body.len());
        let mut tap = Tap::new(Operation::Responses, recording.streamed, !recording.streamed, length);
        recording.body.chunks(1000).for_each(|chunk| _ = tap.push(chunk));
        tap.finish();
        assert_eq!(tap.summary().web_searches.count(), wanted, "{}", recording.id);
        *(if recording.streamed { &mut streamed } else { &mut whole }) += wanted;
    }
    assert!(whole > 15 && streamed > 2, "{whole} {streamed}");
}
