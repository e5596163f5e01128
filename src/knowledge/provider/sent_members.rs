//! No translated chat has a member twice, nor another bound of its output than the client's own dialect says: every dialect at
//! providers of every format, with members of all the others.

use super::Call;
use super::find;
use super::losses::TARGETS;
use super::translation::{PrepareOptions, prepare};
use super::translation_notes::TranslationNotes;
use http::Method;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::fmt;
use words::api::body::Body;
use words::api::operation::Operation;
use words::api::output_bounds;
use words::config::account::Account;

/// JSON without two members of one name in any object; otherwise the name.
struct Once(Option<String>);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Values;
        impl<'de> Visitor<'de> for Values {
            type Value = Once;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Once, A::Error> {
                let mut names = HashSet::new();
                let mut twice = None;
                while let Some(name) = map.next_key::<String>()? {
                    let Once(inner) = map.next_value()?;
                    twice = twice.or(inner);
                    if !names.insert(name.clone()) {
                        twice = Some(name);
                    }
                }
                Ok(Once(twice))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Once, A::Error> {
                let mut twice = None;
                while let Some(Once(inner)) = items.next_element()? {
                    twice = twice.or(inner);
                }
                Ok(Once(twice))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Once, E> {
                Ok(Once(None))
            }

            fn visit_u64<E>(self, _: u64) -> Result<Once, E> {
                Ok(Once(None))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Once, E> {
                Ok(Once(None))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Once, E> {
                Ok(Once(None))
            }

            fn visit_str<E>(self, _: &str) -> Result<Once, E> {
                Ok(Once(None))
            }

            fn visit_unit<E>(self) -> Result<Once, E> {
                Ok(Once(None))
            }
        }
        deserializer.deserialize_any(Values)
    }
}

/// A client's request of each dialect, plain and with what a translation writes anew.
fn requests() -> Vec<(Operation, Value)> {
    use Operation::{ChatCompletions, Completions, GenerateContent, Messages, Responses};
    let messages = json!([{"role": "user", "content": "Hi"}]);
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
    let function =
        json!({"type": "function", "function": {"name": "f", "strict": true, "parameters": schema}});
    let contents = json!([{"role": "user", "parts": [{"text": "Hi"}]}]);
    vec![
        (ChatCompletions, json!({"messages": messages, "max_tokens": 5})),
        (
            ChatCompletions,
            json!({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "Hi"}],
                "max_completion_tokens": 5, "tools": [function], "tool_choice": "auto", "stop": ["a"], "stream": true,
                "response_format": {"type": "json_object"}, "reasoning_effort": "low", "seed": 1, "top_p": 0.5, "user": "u"}),
        ),
        (Messages, json!({"messages": messages, "max_tokens": 5})),
        (
            Messages,
            json!({"messages": messages, "max_tokens": 5, "system": "s", "tools": [{"name": "f", "input_schema": schema}],
                "tool_choice": {"type": "auto"}, "stop_sequences": ["a"], "stream": true, "top_k": 5, "top_p": 0.5,
                "thinking": {"type": "enabled", "budget_tokens": 1024}, "metadata": {"user_id": "u"}}),
        ),
        (Responses, json!({"input": "Hi", "max_output_tokens": 5})),
        (
            Responses,
            json!({"input": "Hi", "max_output_tokens": 5, "instructions": "i", "stream": true, "reasoning": {"effort": "low"},
                "tools": [{"type": "function", "name": "f", "parameters": schema}], "tool_choice": "auto",
                "text": {"format": {"type": "json_object"}, "verbosity": "low"}, "store": true}),
        ),
        (Completions, json!({"prompt": "Hi", "max_tokens": 5})),
        (Completions, json!({"prompt": "Hi", "max_tokens": 5, "stop": ["a"], "stream": true, "seed": 1})),
        (GenerateContent, json!({"contents": contents, "generationConfig": {"maxOutputTokens": 5}})),
        (
            GenerateContent,
            json!({"contents": contents, "systemInstruction": {"parts": [{"text": "s"}]},
                "tools": [{"functionDeclarations": [{"name": "f"}]}], "generationConfig": {"maxOutputTokens": 5, "seed": 1,
                "stopSequences": ["a"], "responseMimeType": "application/json", "thinkingConfig": {"thinkingBudget": 1024}}}),
        ),
    ]
}

/// What no client of another dialect means, nor a limit holds.
const TOO_MUCH: u64 = 77_777;

/// Bounds and numbers of outputs, as the APIs call them.
const BOUNDS: [&str; 16] = [
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "maxOutputTokens",
    "max_new_tokens",
    "max_gen_len",
    "maxTokens",
    "maxTokenCount",
    "max_tokens_to_sample",
    "num_predict",
    "n_predict",
    "n",
    "best_of",
    "candidateCount",
    "candidate_count",
    "num_generations",
];

/// Objects that they stand in.
const GROUPS: [&str; 9] = [
    "generationConfig",
    "generation_config",
    "inferenceConfig",
    "textGenerationConfig",
    "additionalModelRequestFields",
    "additional_model_request_fields",
    "options",
    "parameters",
    "extra_body",
];

/// Other members, with values that they may have.
const OTHERS: &[(&str, &str)] = &[
    (
        "model system prompt input instructions suffix user modelId role k p reasoning_effort verbosity",
        r#""low""#,
    ),
    ("messages chat_history", r#"[{"role":"user","content":"other"}]"#),
    ("tools documents stop stop_sequences functions betas include", "[]"),
    ("contents systemInstruction system_instruction", r#"{"parts":[{"text":"other"}]}"#),
    ("stream store strict_tools parallel_tool_calls logprobs enable_thinking", "false"),
    ("seed random_seed top_k topK temperature top_p service_tier thinking_budget", "1"),
    (
        "stream_options tool_choice toolChoice response_format reasoning thinking toolConfig tool_config metadata text \
         output_config outputConfig guardrailConfig labels anthropic_version web_search_options serviceTier",
        r#"{"type":"text"}"#,
    ),
    ("guardrail_config", r#"{"guardrail_identifier":"a","guardrailIdentifier":"b"}"#),
];

/// Members of every API: each is added to each request.
fn others() -> Vec<(&'static str, Value)> {
    let all: Map<String, Value> = BOUNDS.iter().map(|name| ((*name).to_owned(), json!(TOO_MUCH))).collect();
    let mut nested = all.clone();
    nested.insert("inferenceConfig".to_owned(), Value::Object(all));
    let nested = Value::Object(nested);
    let bounds = BOUNDS.into_iter().map(|name| (name, json!(TOO_MUCH)));
    let groups = GROUPS.into_iter().map(|name| (name, nested.clone()));
    let others = OTHERS.iter().flat_map(|(names, value)| {
        let value: Value = serde_json::from_str(value).unwrap();
        names.split_whitespace().map(move |name| (name, value.clone()))
    });
    bounds.chain(groups).chain(others).collect()
}

/// The body that is sent; `None`: refused, or sent in the client's own dialect.
fn sent(operation: Operation, body: &Body, provider: &str, model: &str) -> Option<String> {
    let mut account = Account::default();
    account.cloud_a.region = Some("us-east-1".into());
    account.cloud_b.region = Some("us-central1".into());
    account.cloud_b.project_id = Some("p".into());
    let path = match operation {
        Operation::GenerateContent => "models/m:generateContent",
        _ => operation.label(),
    };
    let call =
        Call { operation, method: &Method::POST, path, query: None, model: Some(model), streamed: false };
    let options = PrepareOptions {
        strict: false,
        stream_usage: false,
        client_betas: None,
        learned: None,
        prompt_cache: None,
    };
    let mut notes = TranslationNotes::default();
    let prepared = prepare(find(provider).unwrap(), &call, &account, Some(body), options, &mut notes).ok()?;
    prepared.translation.filter(|translation| translation.is_chat())?;
    Some(String::from_utf8(prepared.body?).unwrap())
}

#[test]
fn nothing_is_sent_twice_and_no_other_bound_is_sent() {
    let targets = TARGETS.into_iter().chain([
        ("openai", "gpt-4o"),
        ("openai", "gpt-5.6"),
        ("azure-openai", "gpt-4o"),
        ("deepseek", "deepseek-chat"),
        ("openrouter", "m/m"),
        ("groq", "m"),
        ("ollama", "m"),
        ("vllm", "m"),
        ("bedrock", "amazon.titan-text-express-v1"),
        ("bedrock", "meta.llama3-1-8b-instruct-v1:0"),
        ("bedrock", "cohere.command-r-v1:0"),
        ("vertex-ai", "claude-opus-4-6"),
    ]);
    let others = others();
    let mut wrong = Vec::new();
    let mut checked = 0;
    for (provider, model) in targets {
        for (operation, request) in requests() {
            for (name, value) in &others {
                let mut members = request.as_object().unwrap().clone();
                if members.contains_key(*name) {
                    continue;
                }
                if operation != Operation::GenerateContent {
                    members.insert("model".to_owned(), json!(model));
                }
                members.insert((*name).to_owned(), value.clone());
                let text = Value::Object(members).to_string();
                let body = Body::parse(text.into()).unwrap();
                let Some(sent) = sent(operation, &body, provider, model) else { continue };
                checked += 1;
                let at = format!("{name} of {operation:?} to {provider} {model}: {sent}");
                if let Some(twice) = serde_json::from_str::<Once>(&sent).unwrap().0 {
                    wrong.push(format!("{twice} twice, {at}"));
                }
                // What the client's own dialect has, limits hold.
                let is_held = output_bounds::bound(operation, &body).is_none_or(|bound| bound >= TOO_MUCH)
                    || output_bounds::outputs(operation, &body) >= TOO_MUCH;
                if !is_held && sent.contains(&TOO_MUCH.to_string()) {
                    wrong.push(at);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {checked}: {:#?}", wrong.len(), &wrong[..wrong.len().min(40)]);
    assert!(checked > 5_000, "{checked}");
}

#[test]
fn a_member_that_is_there_twice_is_found() {
    for (json, twice) in
        [(r#"{"a":[{"b":1,"c":null}],"b":1.0}"#, None), (r#"{"a":[{"b":1,"b":-2}]}"#, Some("b"))]
    {
        assert_eq!(serde_json::from_str::<Once>(json).unwrap().0.as_deref(), twice);
    }
}
