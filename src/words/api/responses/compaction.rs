//! Compacting a conversation through the model, for providers that have no compaction of their own: the prompt, the item that
//! carries the summary, and the response of `POST /v1/responses/compact`.
//!
//! Codex compacts in two ways: it sends the conversation to `/responses/compact` and goes on from the `output` of the response, or it
//! ends `input` with an item `compaction_trigger` and waits for exactly one item `compaction` (`core/src/compact_remote.rs` and
//! `compact_remote_v2.rs` in `codex-rs` of <https://github.com/openai/codex>). Both become a chat whose last message is [`PROMPT`].
//!
//! The summary is the text of `encrypted_content` behind [`MARK`]: nothing in it is secret from its client. What another provider
//! encrypted cannot be read here.

use super::builder::ResponseBuilder;
use super::item::Status;
use crate::api::Dialect;
use crate::api::body::Body;
use crate::api::chat::{
    ChatRequest, EncodeContext, Encoder, Event, Message, Part, ProviderError, Role, ToolChoice,
};
use crate::api::operation::Operation;
use crate::error::Error;
use crate::json::splice::Object;
use crate::json::write::{ObjectWriter, key};
use crate::json::{Json, JsonStr};
use serde::Deserialize;
use std::borrow::Cow;

/// The last message of the chat that compacts. `docs/responses.md` has it too.
const PROMPT: &str = "The conversation up to here is about to be replaced by a summary. Write that summary now, for another model that \
goes on with the work and will see the user's messages and your summary, nothing else. Say: what the user wants, with every \
requirement and preference; what was done, with the names of files, commands, results and decisions that still matter; what is \
true now, with errors that are still open; what is to be done next, step by step. Keep names, paths, numbers and short pieces of \
code exactly. Call no tool, ask nothing, and write only the summary.";

/// What stands before a summary of ours. It is part of running conversations at clients and must not change.
const MARK: &str = "turnpike:summary:";

/// What the model reads before a summary.
const PREFACE: &str = "The conversation before this was replaced by this summary of it, which a model wrote. Go on from there.\n\n";

/// What the model reads in place of a summary that another provider encrypted.
const UNREADABLE: &str = "The conversation before this was replaced by a summary that cannot be read here. Ask the user for what is missing.";

/// Bytes of the user's messages that stay beside the summary, the newest first: about the 64,000 tokens that OpenAI and Codex keep.
const MAX_KEPT_MESSAGES: usize = 256 << 10;

/// The type of the item that requests a compaction.
pub(super) const TRIGGER: &str = "compaction_trigger";

/// The types of items that are a summary: that of the API, its older name, and what Codex writes for a provider's own.
pub(super) const SUMMARIES: [&str; 3] = ["compaction", "compaction_summary", "context_compaction"];

/// Whether a request is one to compact the conversation.
pub fn compacts(operation: Operation, body: &Body) -> bool {
    operation == Operation::ResponsesCompact || (operation == Operation::Responses && has_trigger(body))
}

/// Bytes of the input that a request gets besides what its client sent.
pub fn added_bytes(operation: Operation, body: &Body) -> usize {
    if compacts(operation, body) { PROMPT.len() } else { 0 }
}

/// Whether the input has an item that requests a compaction.
pub(super) fn has_trigger(body: &Body) -> bool {
    let Some(input) = body.raw("input") else { return false };
    if !input.starts_with('[') || memchr::memmem::find(input.as_bytes(), TRIGGER.as_bytes()).is_none() {
        return false;
    }
    let items: Vec<Json<'_>> = serde_json::from_str(input).unwrap_or_default();
    let is_trigger = |item: &Json<'_>| {
        let item = item.source().and_then(Object::read);
        item.is_some_and(|item| item.string("type").as_deref() == Some(TRIGGER))
    };
    items.iter().any(is_trigger)
}

/// Parses the body of a request to compact.
///
/// # Errors
/// 400 that names the `param`.
pub fn read_compaction(body: &Body) -> Result<ChatRequest<'_>, Error> {
    let mut request = super::request::read_chat(body, true)?;
    request.stream = false;
    Ok(request)
}

/// Turns a conversation into the request for its summary. Its tools stay: providers that find calls in a conversation demand them,
/// and the prompt's beginning stays what it was.
pub(super) fn request_summary(request: &mut ChatRequest<'_>) {
    request.response_format = None;
    request.tool_choice = (!request.tools.is_empty()).then_some(ToolChoice::None);
    request.parallel_tool_calls = None;
    request.messages.push(Message::new(Role::User, vec![Part::text(PROMPT)]));
}

/// The text of an item with a summary, and whether it was one that can be read.
pub(super) fn summary_text(encrypted: &str) -> (String, bool) {
    match own_summary(encrypted) {
        Some(summary) => ([PREFACE, summary].concat(), true),
        None => (UNREADABLE.to_owned(), false),
    }
}

/// The summary in an `encrypted_content` that this gateway wrote.
pub fn own_summary(encrypted: &str) -> Option<&str> {
    encrypted.strip_prefix(MARK)
}

/// The `encrypted_content` with a summary.
pub(super) fn encrypted_content(summary: &str) -> String {
    [MARK, summary].concat()
}

/// The input with summaries of this gateway as messages, for a provider with a Responses API of its own: it could not decrypt them.
/// `None` where there are none.
pub fn input_with_messages(body: &Body) -> Option<String> {
    #[derive(serde::Serialize)]
    struct MessageOut<'a> {
        r#type: &'static str,
        role: &'static str,
        content: &'a str,
    }
    let input = body.raw("input").filter(|input| input.starts_with('['))?;
    memchr::memmem::find(input.as_bytes(), MARK.as_bytes())?;
    let items: Vec<Json<'_>> = serde_json::from_str(input).ok()?;
    let message = |item: &Json<'_>| {
        let item = item.source().and_then(Object::read)?;
        if !SUMMARIES.contains(&item.string("type").as_deref()?) {
            return None;
        }
        let summary = item.string("encrypted_content")?;
        let content = [PREFACE, own_summary(&summary)?].concat();
        Some(Json::from_value(&MessageOut { r#type: "message", role: "user", content: &content }))
    };
    let mut is_changed = false;
    let changed: Vec<Json<'_>> = items
        .into_iter()
        .map(|item| match message(&item) {
            Some(message) => {
                is_changed = true;
                message
            }
            None => item,
        })
        .collect();
    is_changed.then(|| Json::from_value(&changed).get().to_owned())
}

/// The encoder of a response of `POST /v1/responses/compact`, which is never a stream.
pub fn compaction_encoder(_streamed: bool, context: EncodeContext) -> Box<dyn Encoder> {
    let messages = context.request.as_ref().map(user_messages).unwrap_or_default();
    Box::new(Compacted { builder: ResponseBuilder::new(&context).with_summary(), messages, context })
}

/// One response: the user's messages, then the summary.
#[derive(Debug)]
struct Compacted {
    builder: ResponseBuilder,
    /// The `content` of each, a list of parts.
    messages: Vec<Json<'static>>,
    context: EncodeContext,
}

impl Encoder for Compacted {
    fn write(&mut self, event: &Event<'_>, _out: &mut Vec<u8>) {
        self.builder.apply(event, &mut |_, _, _| {});
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        self.builder.finish(&mut |_, _, _| {});
        let id = &self.context.id;
        let mut output: Vec<Json<'_>> = Vec::with_capacity(self.messages.len() + 1);
        for (place, content) in self.messages.iter().enumerate() {
            output.push(Json::object(&[
                ("id", Json::from_value(&format!("msg_{id}_{place}"))),
                ("type", Json::from_value("message")),
                ("role", Json::from_value("user")),
                ("status", Json::from_value(Status::Completed.as_str())),
                ("content", content.clone()),
            ]));
        }
        let response = self.builder.response();
        output.extend(response.output.iter().map(Json::from_value));
        let mut object = ObjectWriter::open(out);
        object.text(key!("id"), &response.envelope.id);
        object.text(key!("object"), "response.compaction");
        object.number(key!("created_at"), response.envelope.created);
        object.raw(key!("output"), Json::from_value(&output).get());
        object.optional_raw(key!("usage"), response.usage_json().as_ref().map(Json::get));
        object.close();
    }

    fn fail(&mut self, error: &ProviderError, out: &mut Vec<u8>) {
        out.extend_from_slice(&error.body(Dialect::Responses, Some(self.context.provider), None));
    }
}

/// The contents of the user's messages, in order, as far as they are kept.
fn user_messages(body: &Body) -> Vec<Json<'static>> {
    #[derive(Deserialize)]
    struct ItemIn<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<JsonStr<'a>>,
        role: Option<JsonStr<'a>>,
        content: Option<Json<'a>>,
    }
    let Some(input) = body.raw("input") else { return Vec::new() };
    let of_text = |text: &str| {
        let part =
            Json::object(&[("type", Json::from_value("input_text")), ("text", Json::from_value(text))]);
        Json::from_value(&[part])
    };
    if let Some(text) = Json::parse(input).as_ref().and_then(Json::text) {
        return vec![of_text(&text)];
    }
    let items: Vec<ItemIn<'_>> = serde_json::from_str(input).unwrap_or_default();
    let mut kept = Vec::new();
    let mut bytes = 0;
    for item in items.into_iter().rev() {
        let is_message = item.kind.as_deref().is_none_or(|kind| kind == "message");
        let Some(content) = item.content.filter(|_| is_message && item.role.as_deref() == Some("user"))
        else {
            continue;
        };
        bytes += content.get().len();
        // The newest stays, however long it is.
        if bytes > MAX_KEPT_MESSAGES && !kept.is_empty() {
            break;
        }
        let text = content.text().map(Cow::into_owned);
        kept.extend(text.map(|text| of_text(&text)).or_else(|| Json::owned(content.get().to_owned())));
    }
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::chat::Finish;
    use crate::api::usage::Usage;
    use serde_json::{Value, json};

    fn body(value: &Value) -> Body {
        Body::parse(value.to_string().into()).unwrap()
    }

    fn context(request: &Value) -> EncodeContext {
        EncodeContext {
            id: "1".to_owned(),
            created: 7,
            model: "m".to_owned(),
            provider: "p",
            strict: false,
            is_own_dialect: false,
            include_usage: true,
            request: Some(body(request)),
        }
    }

    /// A response with thinking, a call and a summary in two parts.
    fn encoded(mut encoder: Box<dyn Encoder>) -> String {
        let mut out = Vec::new();
        let events = [
            Event::Reasoning { choice: 0, text: "hm" },
            Event::Text { choice: 0, text: "They want " },
            Event::Text { choice: 0, text: "tea." },
            Event::ToolCall { choice: 0, index: 0, id: "c", name: "f", signature: None },
            Event::Finish { choice: 0, reason: Finish::Stop, native: "stop" },
            Event::Usage(Usage { input: 9, output: 3, total: 12, ..Usage::default() }),
        ];
        events.iter().for_each(|event| encoder.write(event, &mut out));
        encoder.close(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_conversation_to_compact_ends_with_the_prompt() {
        let tools = json!([{"type": "function", "name": "f", "parameters": {}}]);
        let input = json!([{"role": "user", "content": "tea"}]);
        let plain = json!({"model": "m", "input": input, "tools": tools, "tool_choice": "required", "stream": true,
            "text": {"format": {"type": "json_object"}}});
        let mut triggered = plain.clone();
        triggered["input"] = json!([{"role": "user", "content": "tea"}, {"type": "compaction_trigger"}]);
        assert!(!compacts(Operation::Responses, &body(&plain)));
        assert!(compacts(Operation::Responses, &body(&triggered)));
        assert!(!compacts(Operation::Responses, &body(&json!({"input": "compaction_trigger"}))));
        assert!(!compacts(
            Operation::Responses,
            &body(&json!({"input": [{"role": "user", "content": "compaction_trigger"}]}))
        ));
        for (is_path, body) in [(true, body(&plain)), (false, body(&triggered))] {
            assert!(compacts(
                if is_path { Operation::ResponsesCompact } else { Operation::Responses },
                &body
            ));
            let request = if is_path { read_compaction(&body) } else { super::super::read(&body) }.unwrap();
            assert_eq!(request.messages.len(), 2);
            assert_eq!(request.messages.last().unwrap().text(), PROMPT);
            assert_eq!(request.tools.len(), 1);
            assert!(
                matches!(request.tool_choice, Some(ToolChoice::None)) && request.response_format.is_none()
            );
            assert_eq!(request.stream, !is_path);
            let operation = if is_path { Operation::ResponsesCompact } else { Operation::Responses };
            assert_eq!(added_bytes(operation, &body), PROMPT.len());
        }
    }

    #[test]
    fn a_trigger_is_answered_with_one_item() {
        let request = json!({"input": [{"type": "compaction_trigger"}]});
        let whole: Value =
            serde_json::from_str(&encoded(super::super::encoder(false, context(&request)))).unwrap();
        let item = json!({"id": "cmp_1_0", "type": "compaction", "encrypted_content": "turnpike:summary:They want tea."});
        assert_eq!(whole["output"], json!([item]));
        assert_eq!(whole["status"], "completed");
        let stream = encoded(super::super::encoder(true, context(&request)));
        let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
        let events: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
        let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        let item_kinds = ["response.output_item.added", "response.output_item.done"];
        assert_eq!(kinds[2..], [item_kinds[0], item_kinds[1], "response.completed"]);
        assert_eq!(events[3]["item"], item);
        assert_eq!(events[4]["response"]["output"], json!([item]));
    }

    #[test]
    fn the_path_is_answered_with_the_users_messages_and_the_item() {
        let request = json!({"input": [
            {"role": "user", "content": "tea"}, {"type": "message", "role": "assistant", "content": "Which?"},
            {"type": "compaction", "encrypted_content": "turnpike:summary:old"}, {"role": "developer", "content": "d"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "green"}]}]});
        let whole: Value =
            serde_json::from_str(&encoded(compaction_encoder(true, context(&request)))).unwrap();
        assert_eq!(
            (&whole["object"], &whole["id"], &whole["created_at"]),
            (&json!("response.compaction"), &json!("resp_1"), &json!(7))
        );
        assert_eq!(whole["usage"]["total_tokens"], 12);
        let output = whole["output"].as_array().unwrap();
        let texts: Vec<_> =
            output.iter().map(|item| item.pointer("/content/0/text").and_then(Value::as_str)).collect();
        assert_eq!(texts, [Some("tea"), Some("green"), None]);
        assert_eq!(output[2]["encrypted_content"], "turnpike:summary:They want tea.");
        // A history that is too long keeps the newest.
        let long = "x".repeat(MAX_KEPT_MESSAGES);
        let request = json!({"input": [{"role": "user", "content": "a"}, {"role": "user", "content": long}]});
        assert_eq!(user_messages(&body(&request)).len(), 1);
        assert_eq!(user_messages(&body(&json!({"input": "hi"}))).len(), 1);
    }

    #[test]
    fn a_summary_is_read_back_unless_another_provider_made_it() {
        let items = json!([{"type": "compaction", "id": "cmp_1", "encrypted_content": "turnpike:summary:tea"},
            {"type": "compaction", "encrypted_content": "gAAAAAB"}, {"type": "context_compaction"}, {"role": "user", "content": "go on"}]);
        let body = body(&json!({"model": "m", "input": items}));
        let request = super::super::read(&body).unwrap();
        let texts: Vec<_> = request.messages.iter().map(|message| message.text().into_owned()).collect();
        assert_eq!(texts, [[PREFACE, "tea"].concat(), UNREADABLE.to_owned(), "go on".to_owned()]);
        assert_eq!(request.warnings.len(), 1);
        let sent: Value = serde_json::from_str(&input_with_messages(&body).unwrap()).unwrap();
        assert_eq!(sent[0], json!({"type": "message", "role": "user", "content": (format!("{PREFACE}tea"))}));
        assert_eq!((&sent[1], &sent[2]), (&items[1], &items[2]));
        let quoted =
            Body::parse(json!({"input": [{"role": "user", "content": MARK}]}).to_string().into()).unwrap();
        assert!(input_with_messages(&quoted).is_none());
    }
}
