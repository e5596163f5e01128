//! Recorded responses of real providers pass the running gateway byte for byte: whole, streamed in any
//! chunks, and errors; on the matching route and on the generic proxy route.
//!
//! Not translated responses (`translations`), and the recordings are not in this repository: without them
//! beside the checkout the test is skipped.

use crate::support::client::client;
use crate::support::emulator::Emulator;
use crate::support::expected::data;
use crate::support::recording::{self, Recording};
use crate::support::settings::{KEY, STANDARD};
use crate::support::wait::until;
use crate::support::{Gateway, report};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use reqwest::{Client, Method};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Requests in flight at a time.
const AT_ONCE: usize = 16;
/// Streams up to this size are also sent byte by byte.
const BYTE_BY_BYTE: usize = 8 << 10;

/// Providers with OpenAI's format: the recorded host, the prefix of its paths, and our name of the provider.
const HOSTS: &[(&str, &str, &str)] = &[
    ("api.openai.com", "/v1/", "openai"),
    ("api.groq.com", "/openai/v1/", "groq"),
    ("api.mistral.ai", "/v1/", "mistral-ai"),
    ("openrouter.ai", "/api/v1/", "openrouter"),
    ("api.deepseek.com", "/", "deepseek"),
    ("api.cerebras.ai", "/v1/", "cerebras"),
    ("router.huggingface.co", "/novita/v3/openai/", "huggingface"),
    ("router.huggingface.co", "/together/v1/", "huggingface"),
    ("api.z.ai", "/api/paas/v4/", "z-ai"),
    ("localhost:11434", "/v1/", "ollama"),
    ("pydanticai7521574644.openai.azure.com", "/openai/deployments/gpt-4o/", "openai"),
    ("pydantic-ai-realtime-dev.openai.azure.com", "/openai/v1/", "openai"),
    ("api.anthropic.com", "/v1/", "anthropic"),
];

/// One recording on one path through the gateway.
struct Trip<'a> {
    recording: &'a Recording,
    trace: String,
    provider: &'static str,
    /// The path below `/v1/`.
    path: String,
    /// The header that sets how the response is split.
    cut: Option<(&'static str, &'static str)>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_responses_pass_byte_for_byte() {
    let Some(file) = recording::file() else {
        return report("SKIPPED: recordings: no ../shared/traffic/recorded.jsonl beside this checkout");
    };
    let recordings = recording::all(&std::fs::read_to_string(&file).unwrap());
    let emulator = Emulator::start(Some(&file));
    let gateway = Gateway::start(&settings(emulator.port));
    let trips = trips(&recordings);
    let client = client();
    let travel = |trip| travel(&client, &gateway, emulator.port, trip);
    let mut problems: Vec<String> = stream::iter(&trips).map(travel).buffer_unordered(AT_ONCE).concat().await;
    problems.extend(token_problems(&gateway, &trips).await);
    assert!(problems.is_empty(), "{} of {} trips:\n{}", problems.len(), trips.len(), problems.join("\n"));
    assert!(trips.len() > 1_000, "only {} trips were made", trips.len());
    let counted = trips.iter().filter(|trip| trip.recording.tokens().is_some()).count();
    assert!(counted > 1_000, "only {counted} trips had tokens");
    report(&summary(&trips));
}

fn settings(port: u16) -> String {
    let mut providers: Vec<&str> = HOSTS.iter().map(|(_, _, provider)| *provider).collect();
    providers.dedup();
    let mut rows = String::from("providers:\n");
    for provider in providers {
        let host = format!("http://127.0.0.1:{port}/v1");
        let row = format!("{{provider: {provider}, api_key: sk-recorded-0123456789, custom_host: '{host}'}}");
        if !rows.contains(&format!("  recorded-{provider}:")) {
            writeln!(rows, "  recorded-{provider}: {row}").unwrap();
        }
    }
    // Requests pass byte for byte, too: nothing is added to ask for the usage of streams.
    STANDARD.replace("providers:\n", &format!("usage: {{stream_usage: false}}\n{rows}"))
}

fn trips(recordings: &[Recording]) -> Vec<Trip<'_>> {
    let mut trips = Vec::new();
    for recording in recordings {
        let found = HOSTS.iter().find_map(|(host, prefix, provider)| {
            let path = (recording.host == *host).then(|| recording.path.strip_prefix(prefix))??;
            Some((path, *provider))
        });
        // The gateway itself makes tokens of realtime sessions, and refuses their calls (`realtime_turns`).
        let Some((path, provider)) = found.filter(|(path, _)| !path.starts_with("realtime/")) else {
            continue;
        };
        let small = recording.body.len() <= BYTE_BY_BYTE;
        let mut cuts = vec![None];
        if recording.streamed {
            cuts.extend([Some(("x-replay-chunk", "7")), Some(("x-replay-cuts", "11"))]);
            cuts.extend(small.then_some(Some(("x-replay-chunk", "1"))));
        }
        let kinds = cuts.iter().map(|cut| (path.to_owned(), *cut));
        for (path, cut) in kinds.chain([(format!("proxy/{path}"), None)]) {
            let trace = format!("recording-{}-end", trips.len());
            trips.push(Trip { recording, trace, provider, path, cut });
        }
    }
    trips
}

/// Makes the trip and returns what is wrong with the received response and with the provider's request.
async fn travel(client: &Client, gateway: &Gateway, emulator: u16, trip: &Trip<'_>) -> Vec<String> {
    let Trip { recording, trace, provider, path, cut } = trip;
    let method: Method = recording.method.parse().unwrap();
    let call = client.request(method, format!("{}/{path}", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-trace-id", trace);
    let call = call.header("x-gateway-provider", format!("@recorded-{provider}"));
    let call = call.header("x-replay-id", &recording.id).header("x-emulator-tag", trace);
    let call = cut.iter().fold(call, |call, (name, value)| call.header(*name, *value));
    let sent = body(recording);
    let call = match &sent {
        Some((kind, body)) => call.header("content-type", *kind).body(body.clone()),
        None => call,
    };
    let response = call.send().await.unwrap();
    let status = response.status().as_u16();
    let kind = response.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
    let body =
        response.bytes().await.unwrap_or_else(|error| Bytes::from(format!("no complete response: {error}")));
    let mut problems = Vec::new();
    if status != recording.status {
        problems.push(format!("status {status}, not {}: {}", recording.status, start(&body)));
    } else if body != recording.body
        && !(path == "chat/completions" && is_completed_by_gateway(&body, recording))
    {
        let same = body.iter().zip(&recording.body).take_while(|(one, other)| one == other).count();
        let lengths = format!("{} bytes, not {}", body.len(), recording.body.len());
        problems.push(format!("{lengths}, different from byte {same} on: {}", start(&body[same..])));
    }
    if kind.as_deref() != Some(&recording.content_type) {
        problems.push(format!("content-type {kind:?}, not {}", recording.content_type));
    }
    let sent = sent.map(|(_, body)| body).unwrap_or_default();
    problems.extend(arrived(client, emulator, trace, &sent).await);
    let named = |problem| format!("{} {path} {cut:?} {}: {problem}", recording.host, recording.id);
    problems.into_iter().map(named).collect()
}

/// Whether a chat response differs only by members that OpenAI's schemas require and the vendor omits, or by
/// vendor values mapped to OpenAI's: added members, a content list as text, a finish reason. On the proxy
/// route nothing may differ.
fn is_completed_by_gateway(got: &[u8], recording: &Recording) -> bool {
    let read = |bytes: &[u8]| {
        if recording.streamed { data(bytes) } else { vec![serde_json::from_slice(bytes).unwrap()] }
    };
    let got = read(got);
    let wanted = read(&recording.body);
    got.len() == wanted.len() && got.iter().zip(&wanted).all(|(got, wanted)| holds(got, wanted, ""))
}

/// Whether `got` has everything that `wanted` has, unchanged.
fn holds(got: &Value, wanted: &Value, name: &str) -> bool {
    match (got, wanted) {
        (Value::Object(got), Value::Object(wanted)) => {
            // A vendor's own member is kept beside OpenAI's counterpart.
            let ignored_members =
                |name: &str, wanted: &Value| got.get(format!("native_{name}").as_str()) == Some(wanted);
            let replaced = |wanted: &Value| match got.get("provider_code") {
                Some(Value::String(own)) => *own == wanted.as_str().map_or(wanted.to_string(), str::to_owned),
                _ => false,
            };
            let matches_member = |(name, wanted): (&String, &Value)| match got.get(name) {
                Some(_) if ignored_members(name, wanted) => true,
                // A vendor's own word for an error is kept beside OpenAI's.
                Some(_) if name == "code" && replaced(wanted) => true,
                Some(got) => holds(got, wanted, name),
                // The schemas do not allow `"tool_calls": null`.
                None => wanted.is_null(),
            };
            wanted.iter().all(matches_member)
        }
        (Value::Array(got), Value::Array(wanted)) => {
            got.len() == wanted.len() && got.iter().zip(wanted).all(|(got, wanted)| holds(got, wanted, name))
        }
        (Value::String(_) | Value::Null, Value::Array(_)) if name == "content" => true,
        (got, wanted) => got == wanted,
    }
}

/// What is wrong with the request the provider received.
async fn arrived(client: &Client, emulator: u16, trace: &str, sent: &str) -> Option<String> {
    let url = format!("http://127.0.0.1:{emulator}/_emulator/requests?tag={trace}&wait=10000");
    let requests: Vec<Value> = client.get(url).send().await.unwrap().json().await.unwrap();
    let digest = ring::digest::digest(&ring::digest::SHA256, sent.as_bytes());
    let wanted: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let got = requests.iter().map(|request| request["body_sha256"].as_str().unwrap_or_default());
    let got: Vec<&str> = got.collect();
    (got != [wanted.as_str()]).then(|| format!("the provider got bodies {got:?}, not {wanted}"))
}

/// The recorded body; uploads and a few others were not recorded.
fn body(recording: &Recording) -> Option<(&'static str, String)> {
    const FORM: &str =
        "--b\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nassistants\r\n--b--\r\n";
    const CHAT: &str = r#"{"model": "any", "messages": [{"role": "user", "content": "Hello."}]}"#;
    match &recording.request {
        Some(json) => Some(("application/json", json.clone())),
        None if recording.method != "POST" => None,
        None if recording.path.contains("/files") => {
            Some(("multipart/form-data; boundary=b", FORM.to_owned()))
        }
        None => Some(("application/json", CHAT.to_owned())),
    }
}

/// Compares the tokens in the access lines with the recordings'.
async fn token_problems(gateway: &Gateway, trips: &[Trip<'_>]) -> Vec<String> {
    let complete_counts = async || {
        let lines = gateway.stdout.lines_with("\"recording-");
        (lines.len() >= trips.len()).then_some(lines)
    };
    let lines = until("the access lines of all trips", complete_counts).await;
    let lines = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines: BTreeMap<String, Value> =
        lines.map(|line| (line["trace_id"].as_str().unwrap().to_owned(), line)).collect();
    let problem = |trip: &Trip<'_>| {
        let line = &lines[&trip.trace];
        let wanted = trip.recording.tokens();
        // What the gateway counted itself is not what the recording reports.
        let tokens = if line["tokens_estimated"] == true { &Value::Null } else { &line["tokens"] };
        let got =
            tokens["input"].as_u64().map(|input| (input, tokens["output"].as_u64().unwrap_or_default()));
        (got != wanted)
            .then(|| format!("{} {}: tokens {got:?}, not {wanted:?}", trip.recording.host, trip.recording.id))
    };
    trips.iter().filter_map(problem).collect()
}

fn start(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().take(300).collect()
}

/// The number of trips per host and kind.
fn summary(trips: &[Trip<'_>]) -> String {
    let mut counts: BTreeMap<(&str, &str), [usize; 2]> = BTreeMap::new();
    for trip in trips {
        let kind = match trip.recording {
            Recording { status: 400.., .. } => "refused",
            Recording { streamed: true, .. } => "streamed",
            _ => "whole",
        };
        let count = counts.entry((&trip.recording.host, kind)).or_default();
        count[0] += usize::from(trip.path.starts_with("proxy/"));
        count[1] += 1;
    }
    let mut table = String::from("recordings, byte for byte (host, kind, recordings, trips):\n");
    for ((host, kind), [recordings, trips]) in counts {
        writeln!(table, "  {host:<42} {kind:<9} {recordings:>4} {trips:>5}").unwrap();
    }
    table
}
