//! Recorded responses of real providers, translated by the running gateway for clients of
//! `/v1/chat/completions`: the content is preserved, whole, streamed in any chunks, and for errors, and the
//! responses are valid by OpenAI's published schemas.
//!
//! Not byte for byte (`recordings`), and the recordings are not in this repository: without them beside the
//! checkout the test is skipped.

use crate::support::client::client;
use crate::support::emulator::Emulator;
use crate::support::expected::{ChatContent, Shape, data, message, parsed};
use crate::support::recording::{self, Recording};
use crate::support::schemas::Schemas;
use crate::support::settings::{KEY, STANDARD};
use crate::support::{Gateway, report};
use futures_util::{StreamExt, stream};
use reqwest::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Requests in flight at a time.
const AT_ONCE: usize = 16;

/// The recorded host (its end), what the path must contain, our name of the provider, its format, and what
/// the account needs besides a key.
pub(crate) const HOSTS: &[(&str, &str, &str, Shape, &str)] = &[
    ("api.anthropic.com", "/v1/messages", "anthropic", Shape::Anthropic, ""),
    ("generativelanguage.googleapis.com", "enerateContent", "google", Shape::Gemini, ""),
    (
        "aiplatform.googleapis.com",
        "enerateContent",
        "vertex-ai",
        Shape::Gemini,
        ", cloud_b_region: us-central1, cloud_b_project_id: p",
    ),
    ("amazonaws.com", "/converse", "bedrock", Shape::Converse, ", cloud_a_region: us-east-1"),
    ("api.cohere.com", "/v2/chat", "cohere", Shape::Cohere, ""),
    ("api.openai.com", "/v1/chat/completions", "openai", Shape::OpenAi, ""),
    ("api.groq.com", "/chat/completions", "groq", Shape::OpenAi, ""),
    ("api.mistral.ai", "/chat/completions", "mistral-ai", Shape::OpenAi, ""),
    ("openrouter.ai", "/chat/completions", "openrouter", Shape::OpenAi, ""),
    ("api.deepseek.com", "/chat/completions", "deepseek", Shape::OpenAi, ""),
    ("api.cerebras.ai", "/chat/completions", "cerebras", Shape::OpenAi, ""),
    ("router.huggingface.co", "/chat/completions", "huggingface", Shape::OpenAi, ""),
    ("api.z.ai", "/chat/completions", "z-ai", Shape::OpenAi, ""),
];

/// One recording on one path through the gateway.
pub(crate) struct Trip<'a> {
    pub(crate) recording: &'a Recording,
    pub(crate) provider: &'static str,
    pub(crate) shape: Shape,
    /// The header that sets how the response is split.
    pub(crate) cut: Option<(&'static str, &'static str)>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_responses_translate_to_openais_format() {
    let Some(file) = recording::file() else {
        return report("SKIPPED: translations: no ../shared/traffic beside this checkout");
    };
    let recordings = recording::all(&std::fs::read_to_string(&file).unwrap());
    let schemas = Schemas::load(&recordings).unwrap();
    let emulator = Emulator::start(Some(&file));
    let gateway = Gateway::start(&settings(emulator.port));
    let trips = trips(&recordings);
    let client = client();
    let travel = |trip| travel(&client, &gateway, &schemas, trip);
    let problems: Vec<String> = stream::iter(&trips).map(travel).buffer_unordered(AT_ONCE).concat().await;
    assert!(
        problems.is_empty(),
        "{} problems in {} trips:\n{}",
        problems.len(),
        trips.len(),
        problems.join("\n")
    );
    assert!(trips.len() > 700, "only {} trips were made", trips.len());
    report(&summary("translations", &trips));
}

pub(crate) fn settings(port: u16) -> String {
    let mut rows = String::from("providers:\n");
    for (_, _, provider, _, account) in HOSTS {
        if knowledge::provider::find(provider).is_none() {
            continue;
        }
        let host = format!("http://127.0.0.1:{port}/v1");
        let row = format!(
            "{{provider: {provider}, api_key: k-recorded-0123456789, custom_host: '{host}'{account}}}"
        );
        writeln!(rows, "  recorded-{provider}: {row}").unwrap();
    }
    STANDARD.replace("providers:\n", &rows)
}

pub(crate) fn trips(recordings: &[Recording]) -> Vec<Trip<'_>> {
    let mut trips = Vec::new();
    for recording in recordings {
        let is_host =
            |row: &&(&str, &str, _, _, _)| recording.host.ends_with(row.0) && recording.path.contains(row.1);
        let Some(&(_, _, provider, shape, _)) = HOSTS.iter().find(is_host) else { continue };
        if recording.path.contains("count_tokens") {
            continue;
        }
        let mut cuts = vec![None];
        if recording.streamed {
            let cut = |size| Some(("x-replay-chunk", size));
            cuts.extend([cut("7"), cut("1"), Some(("x-replay-cuts", "11")), Some(("x-replay-cuts", "12"))]);
        }
        trips.extend(cuts.into_iter().map(|cut| Trip { recording, provider, shape, cut }));
    }
    trips
}

async fn travel(client: &Client, gateway: &Gateway, schemas: &Schemas, trip: &Trip<'_>) -> Vec<String> {
    let mut problems = one_trip(client, gateway, schemas, trip, false).await;
    problems.extend(one_trip(client, gateway, schemas, trip, true).await);
    problems
}

/// One request; `strict`: with `strict_std_compliance`, as is the default.
async fn one_trip(
    client: &Client,
    gateway: &Gateway,
    schemas: &Schemas,
    trip: &Trip<'_>,
    strict: bool,
) -> Vec<String> {
    let Trip { recording, provider, shape, cut } = trip;
    let streamed = recording.streamed;
    let mut body = json!({"model": "asked-model", "messages": [{"role": "user", "content": "Hello."}]});
    if streamed {
        body["stream"] = json!(true);
        body["stream_options"] = json!({"include_usage": true});
    }
    let call = client.post(format!("{}/chat/completions", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).header("x-replay-id", &recording.id);
    let call = call.header("x-gateway-provider", format!("@recorded-{provider}"));
    let call = cut.iter().fold(call, |call, (name, value)| call.header(*name, *value));
    let call = if strict { call } else { call.header("x-gateway-strict-std-compliance", "false") };
    let response = call.json(&body).send().await.unwrap();
    let status = response.status().as_u16();
    let body = response.bytes().await.unwrap();
    let mut problems = Vec::new();
    if status != recording.status {
        problems.push(format!("status {status}, not {}", recording.status));
    } else if status >= 400 {
        let got = ChatContent::from_recording(recording, *shape).error.unwrap();
        let wanted = serde_json::from_slice(&body);
        let wanted: Value = wanted.unwrap_or_default();
        if message(&wanted) != got || !wanted["error"]["message"].is_string() {
            problems.push(format!("error {wanted}, not {got:?}"));
        }
    } else {
        let mut wanted = ChatContent::from_recording(recording, *shape);
        let mut got = read(&body, streamed);
        if strict && *shape != Shape::OpenAi {
            problems.extend(beyond_the_standard(&body, streamed));
            wanted.reasoning.clear();
            // An image has a note in its place.
            if got.text.contains("left out, a chat completion has no member") {
                got.text.clone_from(&wanted.text);
            }
        }
        problems.extend(compare(&got, &wanted));
        problems.extend(schemas.problems(&body, streamed));
        // A stream that ends in an error must not look complete.
        if streamed && wanted.error.is_none() && !body.ends_with(b"data: [DONE]\n\n") {
            problems.push("no [DONE] at the end".to_owned());
        }
    }
    let start: String = String::from_utf8_lossy(&body).chars().take(200).collect();
    let named = |problem| format!("{provider} {} {cut:?} {strict}: {problem} <- {start}", recording.id);
    problems.into_iter().map(named).collect()
}

/// The members of a translated response that OpenAI's published schemas do not have.
fn beyond_the_standard(body: &[u8], streamed: bool) -> Vec<String> {
    const RESPONSE: &[&str] =
        &["id", "object", "created", "model", "choices", "usage", "system_fingerprint", "service_tier"];
    const MESSAGE: &[&str] = &["role", "content", "refusal", "tool_calls", "annotations", "audio"];
    const USAGE: &[&str] = &[
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "prompt_tokens_details",
        "completion_tokens_details",
    ];
    let mut found = Vec::new();
    let mut check = |what: &str, object: &Value, names: &[&str]| {
        let foreign =
            object.as_object().into_iter().flatten().filter(|(name, _)| !names.contains(&name.as_str()));
        found.extend(foreign.map(|(name, _)| format!("{what} has {name}")));
    };
    let events = if streamed { data(body) } else { vec![serde_json::from_slice(body).unwrap_or_default()] };
    for event in events.iter().filter(|event| event.get("error").is_none()) {
        check("the response", event, RESPONSE);
        check("usage", &event["usage"], USAGE);
        for choice in event["choices"].as_array().into_iter().flatten() {
            check("a choice", choice, &["index", "message", "delta", "logprobs", "finish_reason"]);
            check("a message", &choice["message"], MESSAGE);
            check("a delta", &choice["delta"], MESSAGE);
            for call in choice["message"]["tool_calls"].as_array().into_iter().flatten() {
                check("a function", &call["function"], &["name", "arguments"]);
            }
        }
    }
    found
}

/// The content the client received.
fn read(body: &[u8], streamed: bool) -> ChatContent {
    let mut content = ChatContent::default();
    let mut calls = BTreeMap::new();
    let events = if streamed { data(body) } else { vec![serde_json::from_slice(body).unwrap_or_default()] };
    events.iter().for_each(|event| content.openai(event, &mut calls));
    content.tools.extend(calls.into_values().map(|(name, arguments)| (name, parsed(&arguments))));
    content
}

pub(crate) fn compare(got: &ChatContent, wanted: &ChatContent) -> Vec<String> {
    let mut problems = Vec::new();
    let mut differs = |what: &str, got: String, wanted: String| {
        if got != wanted {
            problems.push(format!("{what} {got}, not {wanted}"));
        }
    };
    differs("text", format!("{:?}", got.text), format!("{:?}", wanted.text));
    differs("reasoning", format!("{:?}", got.reasoning), format!("{:?}", wanted.reasoning));
    differs("tools", format!("{:?}", got.tools), format!("{:?}", wanted.tools));
    differs("finish", format!("{:?}", got.finish), format!("{:?}", wanted.finish));
    differs("tokens", format!("{:?}", got.tokens), format!("{:?}", wanted.tokens));
    differs("error", format!("{:?}", got.error), format!("{:?}", wanted.error));
    problems
}

/// The number of recordings per provider.
pub(crate) fn summary(title: &str, trips: &[Trip<'_>]) -> String {
    let mut counts: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    for Trip { recording, provider, cut, .. } in trips {
        let count = counts.entry(provider).or_default();
        let kind = usize::from(recording.streamed) + 2 * usize::from(recording.status >= 400);
        count[kind.min(2)] += usize::from(cut.is_none());
        count[3] += 1;
    }
    let mut table = format!("{title} (provider, whole, streamed, refused, trips):\n");
    for (provider, [whole, streamed, refused, trips]) in counts {
        writeln!(table, "  {provider:<12} {whole:>4} {streamed:>4} {refused:>4} {trips:>5}").unwrap();
    }
    table
}
