//! What a request has besides the texts that have a place of their own, and refusals of responses.

use super::super::super::finding::Change;
use super::super::super::subject::Subject;
use super::super::places::{REDACTED, SECRET, is_denied};
use serde_json::{Value, json};
use words::api::operation::Operation;

fn chat(member: &str, value: Value) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": "a"}], member: value})
}

fn of_message(member: &str, value: Value) -> Value {
    json!({"messages": [{"role": "user", "content": "a", member: value}]})
}

/// Each is judged, and changed where it stands.
fn assert_judged(list: &[(Operation, Value)]) {
    for (operation, body) in list {
        let mut subject = Subject::of_request(*operation, &body.to_string());
        assert!(is_denied(&subject), "{body}");
        let texts = subject.texts.iter().map(|text| Some(text.text.replace(SECRET, REDACTED))).collect();
        assert!(subject.apply(&Change::Texts(texts)) && !subject.source.contains(SECRET), "{body}");
    }
}

/// What no list of the gateway names is judged, whatever the operation: a provider may have a model read it.
#[test]
fn members_that_no_list_names_are_judged() {
    let audio = json!({"id": "a", "transcript": SECRET});
    assert_judged(&[
        (Operation::Images, json!({"prompt": "a", "negative_prompt": SECRET})),
        (Operation::ChatCompletions, chat("zzz", json!({"deep": [SECRET]}))),
        (Operation::ChatCompletions, of_message("zzz", json!([{"a": SECRET}]))),
        (Operation::ChatCompletions, of_message("arguments", json!(SECRET))),
        (Operation::ChatCompletions, of_message("audio", audio)),
        (
            Operation::ChatCompletions,
            of_message("reasoning_details", json!([{"type": "reasoning.text", "text": SECRET}])),
        ),
        (
            Operation::Responses,
            json!({"input": [{"type": "mcp_approval_response", "approve": false, "reason": SECRET}]}),
        ),
        (Operation::Messages, json!({"messages": [], "zzz": SECRET})),
        // Of what vendors list, what a model reads.
        (Operation::ChatCompletions, chat("plugins", json!([{"id": "web", "search_prompt": SECRET}]))),
        (
            Operation::ChatCompletions,
            chat("data_sources", json!([{"parameters": {"role_information": SECRET}}])),
        ),
    ]);
}

#[test]
fn what_stands_in_another_form_than_the_one_that_is_read_is_judged() {
    assert_judged(&[
        // In another form than the one that is read.
        (Operation::ChatCompletions, chat("content", json!([{"type": "text", "text": SECRET}]))),
        (Operation::Speech, json!({"input": "a", "text": SECRET})),
        (Operation::Completions, json!({"prompt": {"text": SECRET}})),
        (Operation::ChatCompletions, of_message("parts", json!([{"text": SECRET}]))),
        (Operation::ChatCompletions, of_message("reasoning_content", json!({"a": [SECRET]}))),
        (
            Operation::ChatCompletions,
            of_message("annotations", json!([{"file": {"content": [{"text": SECRET}]}}])),
        ),
        (
            Operation::ChatCompletions,
            of_message("tool_calls", json!([{"name": "f", "arguments": {"a": SECRET}}])),
        ),
        (
            Operation::ChatCompletions,
            of_message("content", json!([{"type": "reasoning", "reasoning": SECRET}])),
        ),
        // No proof of a thought stands in a message of a chat.
        (
            Operation::ChatCompletions,
            json!({"messages": [{"role": "assistant", "reasoning_content": SECRET, "signature": "s"}]}),
        ),
        (
            Operation::Responses,
            json!({"input": [{"type": "file_search_call", "queries": [], "results": [{"attributes": {"a": SECRET}}]}]}),
        ),
        // Results that are JSON: names and numbers as well.
        (
            Operation::Responses,
            json!({"input": [{"type": "function_call_output", "call_id": "c", "output": {"a": SECRET}}]}),
        ),
        (
            Operation::GenerateContent,
            json!({"contents": [{"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {(SECRET): true}}}]}]}),
        ),
        (
            Operation::GenerateContent,
            json!({"contents": [{"role": "model", "parts": [{"thought": true, "functionResponse": {"name": "f", "response": {"r": SECRET}}}]}]}),
        ),
        (
            Operation::GenerateContent,
            json!({"contents": [{"role": "model", "parts": [{"thought": true, "functionCall": {"name": "f", "args": {"a": SECRET}}}]}]}),
        ),
        (Operation::GenerateContent, json!({"contents": [], "zzz": SECRET})),
    ]);
}

#[test]
fn settings_ids_and_keys_are_not_judged() {
    for (member, value) in [
        ("user", json!(SECRET)),
        ("stop", json!([SECRET])),
        ("metadata", json!({"a": SECRET})),
        ("client_metadata", json!({"a": SECRET})),
        ("guardrailConfig", json!({"guardrailIdentifier": SECRET})),
        ("data_sources", json!([{"parameters": {"authentication": {"key": SECRET}}}])),
    ] {
        let body = chat(member, value);
        assert!(!is_denied(&Subject::of_request(Operation::ChatCompletions, &body.to_string())), "{body}");
    }
}

/// A thought with a signature reaches its provider unchanged, or not at all: it is judged, and stays as it is.
#[test]
fn a_proved_thought_is_judged_and_not_changed() {
    let thinking = json!([{"type": "thinking", "thinking": SECRET, "signature": "s"}]);
    let thought = json!([{"text": SECRET, "thought": true, "thoughtSignature": "s"}]);
    let summary = json!([{"type": "summary_text", "text": SECRET}]);
    for (operation, body) in [
        (Operation::Messages, json!({"messages": [{"role": "assistant", "content": thinking}]})),
        (Operation::GenerateContent, json!({"contents": [{"role": "model", "parts": thought}]})),
        (
            Operation::Responses,
            json!({"input": [{"type": "reasoning", "encrypted_content": "e", "summary": summary}]}),
        ),
        (
            Operation::Responses,
            json!({"input": [{"type": "reasoning", "encrypted_content": "e", "content": [{"type": "reasoning_text", "text": SECRET}]}]}),
        ),
        (
            Operation::ChatCompletions,
            json!({"messages": [{"role": "assistant", "thinking_blocks": thinking}]}),
        ),
    ] {
        let mut subject = Subject::of_request(operation, &body.to_string());
        assert!(is_denied(&subject), "{body}");
        assert_eq!(json!(subject.judged())["texts"], json!({"reasoning": 1}), "{body}");
        let texts: Vec<_> = subject.texts.iter().map(|_| Some(REDACTED.to_owned())).collect();
        assert!(subject.leaves_fixed(&Change::Texts(texts.clone())), "{body}");
        assert!(!subject.apply(&Change::Texts(texts)), "{body}");
    }
}

/// A part that says it is a picture, and whose data is a text, is no picture that nobody needs to read; nor is a file one with a text beside it.
#[test]
fn a_text_that_is_called_a_picture_or_stands_with_a_file_is_noted() {
    let text = "data:text/plain;base64,S0VTVFJFTA==";
    let picture = "data:image/png;base64,AA==";
    let of_part = |part: Value| json!({"messages": [{"role": "user", "content": [part]}]});
    let of_google = |part: Value| json!({"contents": [{"role": "user", "parts": [part]}]});
    for (body, is_unread) in [
        (of_part(json!({"type": "image_url", "image_url": {"url": text}})), true),
        (of_part(json!({"type": "image_url", "text": "", "image_url": {"url": text}})), true),
        (of_part(json!({"type": "image_url", "image_url": {"url": " DATA:text/html,a"}})), true),
        (of_part(json!({"type": "input_image", "image_url": text})), true),
        (
            of_part(
                json!({"type": "image", "source": {"type": "base64", "media_type": "text/plain", "data": "a"}}),
            ),
            true,
        ),
        (of_part(json!({"type": "input_audio", "input_audio": {"data": "a", "format": "text/plain"}})), true),
        (of_part(json!({"type": "file", "text": "", "file": {"file_data": text}})), true),
        (of_part(json!({"type": "input_file", "content": null, "file_data": text})), true),
        (of_google(json!({"text": "", "inlineData": {"mimeType": "text/plain", "data": "a"}})), true),
        (
            of_google(
                json!({"inlineData": {"mimeType": "image/png", "mime_type": "text/plain", "data": "a"}}),
            ),
            true,
        ),
        (of_part(json!({"type": "image_url", "image_url": {"url": picture}})), false),
        (of_part(json!({"type": "image_url", "image_url": {"url": "https://a.example/b.png"}})), false),
        (of_part(json!({"type": "input_audio", "input_audio": {"data": "a", "format": "wav"}})), false),
        (of_google(json!({"text": "a", "inlineData": {"mimeType": "image/png", "data": "a"}})), false),
    ] {
        let subject = Subject::of_request(Operation::ChatCompletions, &body.to_string());
        assert_eq!(subject.unread().is_some(), is_unread, "{body}");
    }
}

/// A member that is there a hundred thousand times is no hundred thousand times a look at all of them.
#[test]
fn many_members_of_one_name_are_read_in_linear_time() {
    let repeated = "\"thinking\":\"a\",".repeat(100_000);
    let body = format!(
        r#"{{"messages":[{{"role":"assistant",{repeated}"content":[{{{repeated}"type":"thinking"}}]}}]}}"#
    );
    assert_eq!(Subject::of_request(Operation::Messages, &body).texts.len(), 200_000);
}

/// What a model refuses is judged wherever a response has it.
#[test]
fn refusals_of_responses_are_judged_in_every_shape() {
    let part = json!({"type": "refusal", "refusal": SECRET});
    let empty = json!({"type": "output_text", "text": ""});
    for body in [
        json!({"choices": [{"message": {"content": "a", "refusal": SECRET}}]}),
        json!({"choices": [{"message": {"content": [part]}}]}),
        // What was spoken, and is not what stands in the content.
        json!({"choices": [{"message": {"content": "a", "audio": {"id": "i", "transcript": SECRET}}}]}),
        json!({"choices": [{"message": {"content": null, "audio": {"id": "i", "transcript": SECRET}}}]}),
        json!({"output": [{"type": "message", "content": [part]}]}),
        json!({"output": [{"type": "message", "content": [empty, part]}], "output_text": ""}),
        json!({"data": [{"role": "assistant", "content": [part]}]}),
        json!({"data": [{"role": "assistant", "content": null, "refusal": SECRET}]}),
    ] {
        let mut subject =
            Subject::of_request(Operation::ChatCompletions, "{}").with_response(&body.to_string());
        assert!(is_denied(&subject), "{body}");
        let texts = subject.texts.iter().map(|text| Some(text.text.replace(SECRET, REDACTED))).collect();
        assert!(subject.apply(&Change::Texts(texts)) && !subject.source.contains(SECRET), "{body}");
    }
}
