//! The messages of a chat as OpenTelemetry's conventions for generative AI have them, made of the bodies of request and response.
//!
//! Only of bodies that are whole. The shapes are those of the conventions' JSON schemas for `gen_ai.input.messages`,
//! `gen_ai.output.messages` and `gen_ai.system_instructions`: lists of messages with parts, as a text.
//! Source: <https://github.com/open-telemetry/semantic-conventions-genai>.

use bytes::Bytes;
use knowledge::provider::rescue;
use serde_json::{Value, json};
use words::api::body::Body;
use words::api::chat::Finish;
use words::api::chat::message::{Message, Part, Role, Source};
use words::api::chat::response::{ChatResponse, Choice, ContentPart};
use words::api::operation::{Operation, StreamShape};

/// The attributes of a chat's request: its messages, and what stands apart from them as instructions. None for what is no chat.
pub(super) fn of_request(operation: Operation, body: &str) -> Vec<(&'static str, String)> {
    let read = || {
        let body = Body::parse(Bytes::copy_from_slice(body.as_bytes())).ok()?;
        let request = (operation.translator()?.read)(&body).ok()?;
        let (apart, messages): (Vec<_>, Vec<_>) =
            request.messages.iter().partition(|message| is_apart(operation, message));
        let instructions: Vec<Value> = apart.into_iter().flat_map(parts).collect();
        let messages: Vec<Value> = messages.into_iter().map(shown).collect();
        Some([("gen_ai.system_instructions", instructions), ("gen_ai.input.messages", messages)])
    };
    let lists = read().into_iter().flatten().filter(|(_, list)| !list.is_empty());
    lists.map(|(name, list)| (name, Value::Array(list).to_string())).collect()
}

/// The attribute of a chat's response, whole or as the events of a stream; `None` for what is no chat, or none that can be read.
pub(super) fn of_response(
    operation: Operation,
    streamed: bool,
    body: &str,
) -> Option<(&'static str, String)> {
    let mut decoder = rescue::client_decoder(operation, streamed)?;
    let mut response = ChatResponse::default();
    decoder.push(body.as_bytes(), &mut |event| response.apply(&event));
    decoder.finish(&mut |event| response.apply(&event));
    let messages: Vec<Value> =
        response.choices.iter().filter(|choice| !choice.parts.is_empty()).map(chosen).collect();
    (!messages.is_empty()).then(|| ("gen_ai.output.messages", Value::Array(messages).to_string()))
}

/// Whether the client wrote it apart from its messages: Anthropic's `system`, `instructions` of responses, Gemini's `systemInstruction`.
fn is_apart(operation: Operation, message: &Message<'_>) -> bool {
    let is_instruction = matches!(message.role, Role::System | Role::Developer);
    // A place without an index is a member of the body.
    let is_member = match message.at {
        Some(place) => !place.to_string().contains('['),
        None => matches!(operation.stream_shape(), Some(StreamShape::Responses | StreamShape::Gemini)),
    };
    is_instruction && is_member
}

fn shown(message: &Message<'_>) -> Value {
    let role = match message.role {
        Role::System | Role::Developer => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let mut shown = json!({"role": role, "parts": parts(message)});
    if let (Some(name), Some(members)) = (&message.name, shown.as_object_mut()) {
        members.insert("name".to_owned(), name.as_ref().into());
    }
    shown
}

fn parts(message: &Message<'_>) -> Vec<Value> {
    let parts: Vec<Value> = message.content.iter().map(part).collect();
    if message.role != Role::Tool {
        return parts;
    }
    // A result is most often a text.
    let response = match parts.as_slice() {
        [one] => one.get("content").cloned().unwrap_or_else(|| one.clone()),
        _ => Value::Array(parts),
    };
    vec![json!({"type": "tool_call_response", "id": message.tool_call_id, "response": response})]
}

fn part(part: &Part<'_>) -> Value {
    match part {
        Part::Text { text, .. } => text_part(text),
        Part::Image(image) => source("image", &image.source),
        Part::Audio { data, format } => {
            json!({"type": "blob", "modality": "audio", "mime_type": format!("audio/{format}"), "content": data})
        }
        Part::File(file) => source("document", &file.source),
        Part::Reasoning { text, .. } => json!({"type": "reasoning", "content": text}),
        Part::Redacted { .. } => json!({"type": "reasoning", "content": ""}),
        Part::Refusal(text) => text_part(text),
        Part::ToolCall(call) => tool_call(&call.id, &call.name, &call.arguments),
        Part::Other { kind, json } => {
            json!({"type": kind, "content": serde_json::from_str::<Value>(json.get()).unwrap_or_default()})
        }
    }
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "content": text})
}

fn tool_call(id: &str, name: &str, arguments: &str) -> Value {
    // As the model wrote it, which may be no JSON.
    let arguments = serde_json::from_str(arguments).unwrap_or_else(|_| Value::from(arguments));
    json!({"type": "tool_call", "id": id, "name": name, "arguments": arguments})
}

fn source(modality: &str, source: &Source<'_>) -> Value {
    match source {
        Source::Url { url, media_type } => {
            json!({"type": "uri", "modality": modality, "mime_type": media_type, "uri": url})
        }
        Source::Data { media_type, data } => {
            json!({"type": "blob", "modality": modality, "mime_type": media_type, "content": data})
        }
        Source::Text(text) => text_part(text),
        Source::Id(id) => json!({"type": "file", "modality": modality, "file_id": id}),
    }
}

fn chosen(choice: &Choice) -> Value {
    let parts: Vec<Value> = choice.parts.iter().map(content).collect();
    let has_calls = choice.parts.iter().any(|part| matches!(part, ContentPart::ToolCall { .. }));
    let finish = choice.finish.as_ref().map(|(finish, _)| match finish {
        // The conventions' name. Responses call every good end the same.
        Finish::ToolCalls => "tool_call",
        Finish::Stop if has_calls => "tool_call",
        other => other.as_str(),
    });
    json!({"role": "assistant", "parts": parts, "finish_reason": finish.unwrap_or_default()})
}

fn content(part: &ContentPart) -> Value {
    match part {
        ContentPart::Text(text) | ContentPart::Refusal(text) => text_part(text),
        ContentPart::Reasoning { text, .. } => json!({"type": "reasoning", "content": text}),
        ContentPart::Redacted(_) => json!({"type": "reasoning", "content": ""}),
        ContentPart::ToolCall { id, name, arguments, .. } => tool_call(id, name, arguments),
        ContentPart::Media { media_type, data } => {
            let modality = media_type.split('/').next().unwrap_or_default();
            json!({"type": "blob", "modality": modality, "mime_type": media_type, "content": data})
        }
        ContentPart::Block(block) => {
            json!({"type": "server_block", "content": serde_json::from_str::<Value>(block).unwrap_or_default()})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(operation: Operation, body: &str) -> Value {
        let read = |(name, text): (&str, String)| (name.to_owned(), serde_json::from_str(&text).unwrap());
        Value::Object(of_request(operation, body).into_iter().map(read).collect())
    }

    #[test]
    fn a_request_is_shown_with_its_parts_in_each_dialect() {
        let chat = r#"{"model":"m","messages":[{"role":"system","content":"s"},
            {"role":"user","name":"ann","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"https://h/a.png"}}]},
            {"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},
            {"role":"tool","tool_call_id":"c1","content":"r"}]}"#;
        let wanted = json!({"gen_ai.input.messages": [
            {"role": "system", "parts": [{"type": "text", "content": "s"}]},
            {"role": "user", "name": "ann", "parts": [{"type": "text", "content": "a"},
                {"type": "uri", "modality": "image", "mime_type": null, "uri": "https://h/a.png"}]},
            {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "f", "arguments": {"a": 1}}]},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "r"}]}]});
        assert_eq!(attributes(Operation::ChatCompletions, chat), wanted);
        let user = json!([{"role": "user", "parts": [{"type": "text", "content": "a"}]}]);
        let apart = json!({"gen_ai.system_instructions": [{"type": "text", "content": "s"}], "gen_ai.input.messages": user});
        let messages =
            r#"{"model":"m","max_tokens":9,"system":"s","messages":[{"role":"user","content":"a"}]}"#;
        assert_eq!(attributes(Operation::Messages, messages), apart);
        let responses = r#"{"model":"m","instructions":"s","input":"a"}"#;
        assert_eq!(attributes(Operation::Responses, responses), apart);
        // What was cut, and what is no chat.
        assert_eq!(attributes(Operation::ChatCompletions, "{\"model\":"), json!({}));
        assert_eq!(attributes(Operation::Embeddings, r#"{"model":"m","input":"a"}"#), json!({}));
    }

    #[test]
    fn a_response_is_shown_whole_and_streamed() {
        let text = |operation, streamed, body: &str| -> Option<Value> {
            of_response(operation, streamed, body).map(|(_, text)| serde_json::from_str(&text).unwrap())
        };
        let wanted = json!([{"role": "assistant", "parts": [{"type": "text", "content": "hi"}], "finish_reason": "stop"}]);
        let whole = r#"{"id":"1","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#;
        assert_eq!(text(Operation::ChatCompletions, false, whole), Some(wanted.clone()));
        let stream = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"h\"}}]}\n\n\
                      data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"i\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        assert_eq!(text(Operation::ChatCompletions, true, stream), Some(wanted.clone()));
        let message = r#"{"id":"1","type":"message","role":"assistant","content":[{"type":"text","text":"hi"}],
            "stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#;
        assert_eq!(text(Operation::Messages, false, message), Some(wanted));
        let response = r#"{"id":"1","object":"response","status":"completed","output":[
            {"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}]}"#;
        let call = json!([{"role": "assistant", "finish_reason": "tool_call",
            "parts": [{"type": "tool_call", "id": "c1", "name": "f", "arguments": {}}]}]);
        assert_eq!(text(Operation::Responses, false, response), Some(call));
        assert_eq!(text(Operation::ChatCompletions, false, "{\"error\":{}}"), None);
        assert_eq!(text(Operation::Embeddings, false, "{}"), None);
    }
}
