//! The APIs that clients and providers both speak: what the client's dialect writes, the provider's decoder reads as the
//! same, and what the provider's adapter writes, the dialect reads as the same request.
//!
//! So the two sides of an API agree also where they are two types (`docs/decisions/062`).

use super::adapter::{Adapter, CallTarget, ChatAdapter};
use super::openai_responses::OpenAiResponses;
use super::translation_notes::TranslationNotes;
use super::{Call, find};
use http::Method;
use words::api::body::Body;
use words::api::chat::{ChatRequest, ChatResponse, EncodeContext, Encoder, Event, Finish, Start};
use words::api::operation::Operation;
use words::api::usage::Usage;
use words::api::{chat_completions, gemini, messages, responses};
use words::config::account::Account;
use words::error::Error;

/// The two sides of one API.
struct Api {
    name: &'static str,
    read: for<'a> fn(&'a Body) -> Result<ChatRequest<'a>, Error>,
    encoder: fn(bool, EncodeContext) -> Box<dyn Encoder>,
    adapter: &'static dyn ChatAdapter,
    /// A request of a client of the dialect.
    request: &'static str,
    /// A signature can be written and read again.
    signs: bool,
}

fn adapter(provider: &str, operation: Operation) -> &'static dyn ChatAdapter {
    match find(provider).unwrap().adapter(&call(operation), &Account::default()) {
        Ok(Adapter::Chat(adapter)) => adapter,
        other => panic!("{provider}: {other:?}"),
    }
}

fn call(operation: Operation) -> Call<'static> {
    Call { operation, method: &Method::POST, path: "", query: None, model: Some("m"), streamed: false }
}

/// A request of each, with text, a picture, a call, its result and a tool.
const MESSAGES: &str = r#"{"model":"m","max_tokens":900,"system":"s","stop_sequences":["x"],"messages":[
    {"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},
        {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},
        {"type":"document","source":{"type":"url","url":"https://h/a.pdf"},"title":"t","citations":{"enabled":true}}]},
    {"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"sig"},
        {"type":"redacted_thinking","data":"d"},{"type":"text","text":"b"},
        {"type":"tool_use","id":"toolu_1","name":"f","input":{"a":1.0}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"r"}],"is_error":true}]}],
    "tools":[{"name":"f","description":"d","input_schema":{"type":"object","properties":{}}}],
    "tool_choice":{"type":"tool","name":"f"}}"#;
const GEMINI: &str = r#"{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[
    {"role":"user","parts":[{"text":"a"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}},
        {"fileData":{"mimeType":"application/pdf","fileUri":"https://h/a.pdf"}}]},
    {"role":"model","parts":[{"text":"b"},{"functionCall":{"id":"1","name":"f","args":{"a":1.0}}}]},
    {"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{"output":"r"}}}]}],
    "tools":[{"functionDeclarations":[{"name":"f","description":"d","parameters":{"type":"OBJECT","properties":{"a":{"type":"NUMBER"}}}}]}],
    "toolConfig":{"functionCallingConfig":{"mode":"ANY"}},
    "generationConfig":{"maxOutputTokens":9,"temperature":0.5,"stopSequences":["x"]}}"#;
const CHAT: &str = r#"{"model":"m","messages":[{"role":"system","content":"s"},
    {"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}}]},
    {"role":"assistant","content":"b","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1.0}"}}]},
    {"role":"tool","tool_call_id":"call_1","content":"r"}],
    "tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{}}}}],
    "tool_choice":"required","stop":["x"],"temperature":0.5,"max_completion_tokens":9}"#;
const RESPONSES: &str = r#"{"model":"m","instructions":"s","store":false,"input":[
    {"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:image/png;base64,AAAA","detail":"low"}]},
    {"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"}]},
    {"type":"function_call","call_id":"call_1","name":"f","arguments":"{\"a\":1.0}"},
    {"type":"function_call_output","call_id":"call_1","output":"r"}],
    "tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object","properties":{}}}],
    "tool_choice":"required","temperature":0.5,"max_output_tokens":90}"#;

fn apis() -> [Api; 4] {
    [
        Api {
            name: "messages",
            read: messages::read,
            encoder: messages::encoder,
            adapter: adapter("anthropic", Operation::ChatCompletions),
            request: MESSAGES,
            signs: true,
        },
        Api {
            name: "gemini",
            read: gemini::read,
            encoder: gemini::encoder,
            adapter: adapter("google", Operation::ChatCompletions),
            request: GEMINI,
            signs: true,
        },
        Api {
            name: "chat completions",
            read: chat_completions::read,
            encoder: chat_completions::encoder,
            adapter: adapter("openai", Operation::Messages),
            request: CHAT,
            signs: false,
        },
        Api {
            name: "responses",
            read: responses::read,
            encoder: responses::encoder,
            adapter: &OpenAiResponses,
            request: RESPONSES,
            signs: false,
        },
    ]
}

fn events(signs: bool) -> Vec<Event<'static>> {
    let usage = Usage { input: 30, output: 12, total: 42, cached: 8, reasoning: 5, ..Usage::default() };
    let mut events = vec![Event::Start(Start { id: Some("msg_1"), model: Some("m"), created: Some(7) })];
    events.push(Event::Reasoning { choice: 0, text: "why " });
    events.push(Event::Reasoning { choice: 0, text: "not" });
    if signs {
        events.push(Event::Signature { choice: 0, signature: "c2ln" });
    }
    events.extend([
        Event::Text { choice: 0, text: "All \"work\"\n" },
        Event::Text { choice: 0, text: "and n\u{f6} play" },
        Event::ToolCall { choice: 0, index: 0, id: "call_1", name: "look", signature: None },
        Event::Arguments { choice: 0, index: 0, fragment: "{\"city\":" },
        Event::Arguments { choice: 0, index: 0, fragment: "\"Paris\",\"n\":1.0}" },
        Event::ToolCall { choice: 0, index: 1, id: "call_2", name: "stop", signature: None },
        Event::Arguments { choice: 0, index: 1, fragment: "{}" },
        Event::Usage(usage),
        Event::Finish { choice: 0, reason: Finish::ToolCalls, native: "" },
    ]);
    events
}

#[test]
fn a_provider_reads_the_responses_that_its_dialect_writes() {
    for api in apis() {
        for streamed in [false, true] {
            let context = EncodeContext {
                id: "x".to_owned(),
                created: 7,
                model: "m".to_owned(),
                provider: "p",
                strict: false,
                is_own_dialect: true,
                include_usage: true,
                request: None,
            };
            let mut encoder = (api.encoder)(streamed, context);
            let mut out = Vec::new();
            let mut wanted = ChatResponse::default();
            for event in events(api.signs) {
                wanted.apply(&event);
                encoder.write(&event, &mut out);
            }
            encoder.close(&mut out);
            let mut read = ChatResponse::default();
            let mut is_complete = false;
            let sink = &mut |event: Event<'_>| {
                assert!(!matches!(event, Event::Error(_)), "{} {streamed}: {event:?}", api.name);
                is_complete |= matches!(event, Event::End);
                read.apply(&event);
            };
            let mut decoder = api.adapter.decoder(streamed);
            decoder.push(&out, sink);
            decoder.finish(sink);
            let shown = String::from_utf8_lossy(&out);
            assert!(is_complete, "{} {streamed}: {shown}", api.name);
            assert_eq!(read.usage, wanted.usage, "{} {streamed}: {shown}", api.name);
            assert_eq!(read.model, wanted.model, "{} {streamed}: {shown}", api.name);
            // Not the finish reason: a turn with calls ends as any other where the API says so.
            assert_eq!(read.choices[0].parts, wanted.choices[0].parts, "{} {streamed}: {shown}", api.name);
        }
    }
}

#[test]
fn a_dialect_reads_the_requests_that_its_provider_writes() {
    for api in apis() {
        let write = |json: &[u8]| {
            let body = Body::parse(json.to_vec().into()).unwrap();
            let request = (api.read)(&body).unwrap();
            let call = call(Operation::ChatCompletions);
            let target =
                CallTarget { call: &call, account: &Account::default(), model: "m", client_betas: None };
            let mut notes = TranslationNotes::default();
            let written = api.adapter.write(request, &target, &mut notes).unwrap();
            assert_eq!(notes.warnings, [""; 0], "{}", api.name);
            String::from_utf8(written).unwrap()
        };
        let once = write(api.request.as_bytes());
        assert_eq!(write(once.as_bytes()), once, "{}", api.name);
        for kept in ["AAAA", "1.0", "\"f\"", "\"r\"", "\"s\""] {
            assert!(once.contains(kept), "{}: {kept} in {once}", api.name);
        }
    }
}
