//! How far the gateway's counts are off from the providers' own, on recorded requests and responses.
//!
//! Prints the table of docs/usage.md. Not the counting of what broke off (`usage`).

use crate::support::recording::{self, Recording};
use crate::support::report;
use memory::state::tokenizer::Tokenizer;
use serde_json::Value;
use std::collections::BTreeMap;
use words::api::body::Body;
use words::api::operation::Operation;
use words::api::token_estimate::{self, CountText};

/// Which dialect a recorded request is in.
fn operation(path: &str) -> Option<Operation> {
    let path = path.split('?').next().unwrap_or_default();
    let ends = [
        ("/chat/completions", Operation::ChatCompletions),
        ("/messages", Operation::Messages),
        ("/responses", Operation::Responses),
        (":generateContent", Operation::GenerateContent),
        (":streamGenerateContent", Operation::StreamGenerateContent),
    ];
    ends.into_iter().find(|(end, _)| path.ends_with(end)).map(|(_, operation)| operation)
}

/// Whether the count includes something that the request does not: what was searched, ran, fetched or referred to.
fn counts_more(request: &str) -> bool {
    let parts = [
        "_20",
        "mcp_servers",
        "file_id",
        "\"url\"",
        "image_url",
        "inlineData",
        "fileData",
        "previous_response_id",
        "googleSearch",
        "urlContext",
        "codeExecution",
        "web_search",
        "input_audio",
        "input_image",
        "input_file",
        "cachedContent",
        "conversation",
    ];
    parts.iter().any(|part| request.contains(part))
}

/// The texts of a whole response of a chat, and whether all of its output is text.
fn output_text(response: &Value) -> Option<String> {
    let message = &response["choices"][0]["message"];
    let text = match (&message["content"], &response["content"]) {
        (Value::String(text), _) if message["tool_calls"].is_null() => text.clone(),
        (_, Value::Array(blocks)) if blocks.iter().all(|block| block["type"] == "text") => {
            blocks.iter().filter_map(|block| block["text"].as_str()).collect()
        }
        _ => return None,
    };
    let usage = &response["usage"];
    let reasoning = usage.pointer("/completion_tokens_details/reasoning_tokens");
    (reasoning.and_then(Value::as_u64).unwrap_or(0) == 0 && text.len() > 80).then_some(text)
}

#[derive(Default)]
struct Deviations(Vec<f64>);

impl Deviations {
    fn add(&mut self, estimate: u64, counted: u64) {
        self.0.push(estimate as f64 / counted as f64 - 1.0);
    }

    fn at(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[(share * (sorted.len() - 1) as f64).round() as usize] * 100.0
    }

    fn text(&self) -> String {
        let [low, half, high] = [0.1, 0.5, 0.9].map(|share| self.at(share));
        format!("{low:+.0} % | {half:+.0} % | {high:+.0} %")
    }
}

/// Input by the tokenizer, input by the rule, output by the tokenizer.
type Host = [Deviations; 3];

fn add(recording: &Recording, tokenizer: &Tokenizer, hosts: &mut BTreeMap<String, Host>) -> Option<()> {
    let operation = operation(&recording.path)?;
    let request = recording.request.as_deref().filter(|text| text.starts_with('{'))?;
    let (input, output) = recording.tokens().filter(|_| recording.status == 200)?;
    let host = recording.host.trim_start_matches("api.").to_owned();
    let deviations = hosts.entry(host).or_default();
    let count = |text: &str| tokenizer.count(text);
    let by_tokenizer = CountText::By(&count);
    // Short requests are mostly what providers add to them.
    if input >= 100 && !counts_more(request) {
        let body = Body::parse(request.to_owned().into()).ok()?;
        deviations[0].add(token_estimate::input(operation, &body, &by_tokenizer), input);
        deviations[1].add(token_estimate::input(operation, &body, &CountText::ByRule), input);
    }
    let response: Value = serde_json::from_slice(&recording.body).ok()?;
    let text = output_text(&response).filter(|_| output > 0)?;
    let model = response["model"].as_str();
    deviations[2].add(by_tokenizer.of(&text, model), output);
    Some(())
}

#[test]
fn token_estimates_are_about_right() {
    let Some(file) = recording::file() else {
        return report("SKIPPED: token estimates: no ../shared/traffic/recorded.jsonl beside this checkout");
    };
    let recordings = recording::all(&std::fs::read_to_string(file).unwrap());
    let tokenizer = Tokenizer::default();
    let mut hosts = BTreeMap::new();
    for recording in &recordings {
        add(recording, &tokenizer, &mut hosts);
    }
    let names = ["input, tokenizer", "input, rule", "output, tokenizer"];
    report("| Provider | What | Requests | 10 % | 50 % | 90 % |\n|---|---|---|---|---|---|");
    for (host, deviations) in &hosts {
        for (name, deviations) in
            names.iter().zip(deviations).filter(|(_, deviations)| deviations.0.len() >= 5)
        {
            report(&format!("| {host} | {name} | {} | {} |", deviations.0.len(), deviations.text()));
        }
    }
    let measured = |what: usize| hosts.values().map(|host| host[what].0.len()).sum::<usize>();
    assert!(measured(0) > 80 && measured(2) > 40, "{} {}", measured(0), measured(2));
    for (what, most) in [(0, 20.0), (2, 15.0)] {
        let all = hosts.values().flat_map(|host| host[what].0.iter().copied()).collect();
        assert!(Deviations(all).at(0.5).abs() < most, "{}", names[what]);
    }
}
