//! What a request has besides the texts that have a place of their own, and refusals of responses.

use super::super::super::finding::Change;
use super::super::super::judged::Selection;
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
        (Operation::GenerateContent, json!({"contents": SECRET})),
        (Operation::Embeddings, json!({"input": [[SECRET]]})),
        (Operation::ChatCompletions, chat("requests", json!([{"text": SECRET}]))),
        (Operation::ChatCompletions, of_message("result", json!(SECRET))),
        (Operation::Responses, json!({"input": [], "prompt": {"id": "p", "zzz": SECRET}})),
        (Operation::Responses, json!({"input": [{"type": "message", "name": SECRET, "content": "a"}]})),
    ]);
}

fn of_part(part: Value) -> Value {
    json!({"messages": [{"role": "user", "content": [part]}]})
}

fn of_google(part: Value) -> Value {
    json!({"contents": [{"role": "user", "parts": [part]}]})
}

/// Members of parts, of media and of calls that no list names, as an ordinary reader and as one that takes names in any case has them.
#[test]
fn members_of_parts_that_no_list_names_are_judged() {
    let call =
        |call: Value| json!({"messages": [{"role": "assistant", "content": null, "tool_calls": [call]}]});
    let search = json!({"type": "web_search_tool_result", "content": [{"type": "web_search_result", "url": "u", "snippet": SECRET}]});
    let png = "data:image/png;base64,AA==";
    assert_judged(&[
        (Operation::ChatCompletions, of_part(json!({"type": "text", "text": "ok", "Text": SECRET}))),
        (Operation::ChatCompletions, of_part(json!({"type": "text", "Text": SECRET}))),
        (
            Operation::ChatCompletions,
            of_part(json!({"type": "text", "text": "ok", "zzz": {"a": [{(SECRET): 1}]}})),
        ),
        (
            Operation::ChatCompletions,
            of_part(json!({"type": "image_url", "image_url": {"url": png, "alt": SECRET}})),
        ),
        (Operation::ChatCompletions, of_part(json!({"type": "reasoning", "summary": [{"a": SECRET}]}))),
        (Operation::ChatCompletions, of_part(json!([{"type": "text", "text": SECRET}]))),
        (
            Operation::Messages,
            of_part(json!({"type": "image", "source": {"type": "url", "url": "u", "title": SECRET}})),
        ),
        (Operation::Messages, of_part(search)),
        (
            Operation::Messages,
            json!({"messages": [], "system": [{"type": "text", "text": "a", "note": SECRET}]}),
        ),
        (
            Operation::ChatCompletions,
            call(json!({"id": "c", "function": {"name": "f", "arguments": "{}", "Arguments": SECRET}})),
        ),
        (
            Operation::ChatCompletions,
            call(json!({"id": "c", "note": SECRET, "function": {"name": "f", "arguments": "{}"}})),
        ),
        (
            Operation::GenerateContent,
            json!({"contents": [{"role": "user", "parts": [{"text": "a"}], "zzz": SECRET}]}),
        ),
        (
            Operation::GenerateContent,
            json!({"contents": [], "systemInstruction": [{"parts": [{"text": SECRET}]}]}),
        ),
        (Operation::GenerateContent, of_google(json!({"text": "a", "zzz": SECRET}))),
        (
            Operation::GenerateContent,
            of_google(json!({"text": "a", "videoMetadata": {"fps": 1, "zzz": SECRET}})),
        ),
        (
            Operation::GenerateContent,
            of_google(
                json!({"functionResponse": {"name": "f", "response": {}, "parts": [{"text": SECRET}]}}),
            ),
        ),
        (
            Operation::GenerateContent,
            of_google(json!({"functionResponse": {"name": "f", "response": {}, "zzz": SECRET}})),
        ),
    ]);
}

/// What a model reads as JSON is judged with its names and numbers; what is a setting of a part is not judged.
#[test]
fn json_that_a_model_reads_is_judged_with_names_and_numbers() {
    let with = |member: &str, value: Value| chat(member, value);
    assert_judged(&[
        (Operation::ChatCompletions, with("documents", json!([{"data": {(SECRET): 1}}]))),
        (Operation::ChatCompletions, with("zzz", json!({(SECRET): true}))),
        (Operation::ChatCompletions, of_message("zzz", json!({(SECRET): true}))),
    ]);
    let card = json!({"card": 4_111_111_111_111_111_u64});
    for body in [
        with("documents", json!([{"data": card}])),
        with("zzz", card.clone()),
        of_part(json!({"type": "text", "text": "a", "zzz": card})),
        json!({"input": {"deep": card}}),
    ] {
        let subject = Subject::of_request(Operation::ChatCompletions, &body.to_string());
        assert!(subject.texts.iter().any(|text| text.text == "4111111111111111"), "{body}");
    }
    for part in [
        json!({"type": "text", "text": "a", "cache_control": {"type": SECRET}, "id": SECRET}),
        json!({"type": "image_url", "image_url": {"url": SECRET, "detail": SECRET}}),
        json!({"type": "tool_use", "id": SECRET, "name": SECRET, "input": {}}),
    ] {
        let content = json!([{"type": "text", "text": "a"}, part]);
        let body = json!({"messages": [{"role": "user", "content": content}]});
        assert!(!is_denied(&Subject::of_request(Operation::Messages, &body.to_string())), "{body}");
    }
}

/// What is sealed, named or a medium is no text, wherever it stands.
#[test]
fn seals_media_and_short_numbers_of_unlisted_members_are_not_judged() {
    let long = SECRET.repeat(40);
    let png = format!("data:image/png;base64,{SECRET}");
    let block = json!([{"type": "redacted_thinking", "data": SECRET}, {"type": "thinking", "thinking": "a", "signature": SECRET}]);
    let text = json!({"type": "text", "text": "a"});
    for part in [
        json!({"type": "image", "base64": long}),
        json!({"type": "document", "document": {"format": "pdf", "source": {"bytes": SECRET}}}),
        json!({"type": "image_embeds", "image_embeds": long}),
        json!({"type": "compaction", "content": "a", "encrypted_content": SECRET, "signature": SECRET}),
    ] {
        let body = json!({"messages": [{"role": "user", "content": [text, part]}]});
        assert!(!is_denied(&Subject::of_request(Operation::Messages, &body.to_string())), "{body}");
    }
    for body in [
        of_message("content_blocks", block),
        chat("reference_images", json!([long])),
        of_message("zzz", json!({"url": png})),
    ] {
        assert!(!is_denied(&Subject::of_request(Operation::ChatCompletions, &body.to_string())), "{body}");
    }
    let numbers = chat("zzz", json!({"seed": 12345, "card": 5_555_555_555_554_444_u64}));
    let subject = Subject::of_request(Operation::ChatCompletions, &numbers.to_string());
    let has = |wanted: &str| subject.texts.iter().any(|text| text.text == wanted);
    assert!(has("5555555555554444") && !has("12345"));
    let summary = json!({"messages": [{"role": "user", "content": [{"type": "compaction", "content": SECRET, "signature": "s"}]}]});
    let mut subject = Subject::of_request(Operation::Messages, &summary.to_string());
    assert!(is_denied(&subject));
    let texts = subject.texts.iter().map(|_| Some(REDACTED.to_owned())).collect();
    assert!(!subject.apply(&Change::Texts(texts)), "it is sealed");
}

/// By choice: the names of properties, and what stands in examples.
#[test]
fn names_of_properties_and_examples_of_a_schema_are_judged_by_choice() {
    let tools = Selection { tools: true, ..Selection::default() };
    for schema in [
        json!({"type": "object", "properties": {(SECRET): {"type": "string"}}}),
        json!({"type": "object", "examples": [{"type": SECRET}]}),
        json!({"type": "object", "default": {(SECRET): 1}}),
    ] {
        let tool = json!({"type": "function", "function": {"name": "f", "parameters": schema}});
        let mut subject =
            Subject::of_request(Operation::ChatCompletions, &chat("tools", json!([tool])).to_string());
        assert!(!is_denied(&subject), "{schema}");
        subject.select(tools);
        assert!(is_denied(&subject), "{schema}");
    }
}

/// A summary that this gateway made is a text wherever it stands.
#[test]
fn a_summary_within_a_content_is_judged() {
    let summary = format!("turnpike:summary:{SECRET}");
    let body = of_part(json!({"type": "compaction", "encrypted_content": summary}));
    assert!(is_denied(&Subject::of_request(Operation::Responses, &body.to_string())), "{body}");
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

/// A member that is there many times is read once each time, not each time for each of them.
#[test]
fn each_of_many_members_of_one_name_is_read_once() {
    let repeated = "\"thinking\":\"a\",".repeat(1_000);
    let body = format!(
        r#"{{"messages":[{{"role":"assistant",{repeated}"content":[{{{repeated}"type":"thinking"}}]}}]}}"#
    );
    assert_eq!(Subject::of_request(Operation::Messages, &body).texts.len(), 2_000);
}

/// What a model refuses is judged wherever a response has it.
#[test]
fn refusals_of_responses_are_judged_in_every_shape() {
    let part = json!({"type": "refusal", "refusal": SECRET});
    let half = |text: &str| json!({"type": "refusal", "refusal": text});
    let empty = json!({"type": "output_text", "text": ""});
    for body in [
        json!({"choices": [{"message": {"content": "a", "refusal": SECRET}}]}),
        json!({"choices": [{"message": {"content": [part]}}]}),
        // What was spoken, and is not what stands in the content.
        json!({"choices": [{"message": {"content": "a", "audio": {"id": "i", "transcript": SECRET}}}]}),
        json!({"choices": [{"message": {"content": null, "audio": {"id": "i", "transcript": SECRET}}}]}),
        json!({"output": [{"type": "message", "content": [part]}]}),
        json!({"output": [{"type": "message", "content": [empty, part]}], "output_text": ""}),
        json!({"output": [{"type": "message", "content": [{"refusal": SECRET}]}]}),
        json!({"output": [{"type": "message", "content": [], "refusal": SECRET}]}),
        json!({"output": [{"type": "message", "content": [half("KES"), half("TREL")]}]}),
        json!({"choices": [{"message": {"content": [half("KES"), half("TREL")]}}]}),
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

/// What a vendor has added to its responses is judged where no list says that it is none of the model's texts.
#[test]
fn parts_blocks_and_items_of_responses_that_no_list_names_are_judged() {
    let message = |part: Value| json!({"output": [{"type": "message", "content": [part]}]});
    for body in [
        json!({"choices": {"message": {"content": SECRET}}}),
        json!({"choices": [{"delta": {"content": SECRET}}]}),
        json!({"choices": [{"message": {"content": "a", "zzz": SECRET}}]}),
        json!({"choices": [{"message": {"content": [{"type": "text", "text": "a", "Text": SECRET}]}}]}),
        json!({"choices": [{"message": {"content": "a", "content_blocks": [{"type": "server_tool_use", "input": {"q": SECRET}}]}}]}),
        json!({"content": [{"type": "text", "text": "a", "Text": SECRET}]}),
        json!({"content": [{"type": "refusal", "refusal": SECRET}]}),
        message(json!({"type": "output_audio", "transcript": SECRET})),
        message(json!({"type": "zzz", "zzz": {"deep": SECRET}})),
        json!({"output": [{"type": "mcp_approval_request", "arguments": json!({"a": SECRET}).to_string()}]}),
        json!({"output": [{"type": "zzz", "deep": [{"text": SECRET}]}]}),
        json!({"content": [{"type": "zzz", "text": SECRET}]}),
        json!({"content": [{"type": "compaction", "content": SECRET}]}),
        json!({"content": [{"type": "text", "text": "a"}], "stop_details": {"explanation": SECRET}}),
    ] {
        let mut subject =
            Subject::of_request(Operation::ChatCompletions, "{}").with_response(&body.to_string());
        assert!(is_denied(&subject), "{body}");
        let texts = subject.texts.iter().map(|text| Some(text.text.replace(SECRET, REDACTED))).collect();
        assert!(subject.apply(&Change::Texts(texts)) && !subject.source.contains(SECRET), "{body}");
    }
    let long = SECRET.repeat(40);
    let url = json!({"url": format!("data:image/png;base64,{SECRET}")});
    for body in [
        json!({"choices": [{"message": {"content": [{"type": "image_url", "image_url": url}]}}]}),
        json!({"choices": [{"message": {"content": "a", "executed_tools": [{"output": SECRET}]}}]}),
        json!({"output": [{"type": "openrouter:image_generation", "imageB64": long}]}),
        json!({"output": [{"type": "zzz", "id": SECRET, "call_id": SECRET, "imageB64": long, "encrypted_content": SECRET}]}),
        json!({"content": [{"type": "compaction", "content": "a", "encrypted_content": SECRET}]}),
        message(json!({"type": "reasoning_text", "text": SECRET})),
        json!({"output": [{"type": "function_call_output", "output": SECRET}]}),
        json!({"content": [{"type": "web_search_tool_result", "content": [{"title": SECRET}]}]}),
        message(json!({"type": "output_audio", "transcript": "a", "data": SECRET})),
    ] {
        let subject = Subject::of_request(Operation::ChatCompletions, "{}").with_response(&body.to_string());
        assert!(!subject.texts.iter().any(|text| text.text.contains(SECRET)), "{body}");
    }
}
