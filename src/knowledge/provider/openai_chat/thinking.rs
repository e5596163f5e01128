//! Emits thinking from every vendor's format. Tags inside the text (`<think>`) are not interpreted: a model
//! may well write about them.

use super::chunk::{MessageIn, PartIn, non_empty_text};
use words::api::chat::{Event, EventSink};
use words::json::Json;

/// Emits the thinking of one message or delta. If it contains several forms of the same thinking (OpenRouter
/// sends `reasoning` and `reasoning_details`), the most complete one is emitted.
pub(super) fn emit_thinking(choice: u32, message: &MessageIn<'_>, sink: EventSink<'_>) {
    let mut emitted = false;
    if let Some(blocks) = message.thinking_blocks.as_ref().and_then(Json::read::<Vec<Json<'_>>>) {
        for block in &blocks {
            emitted |= emit_block(choice, block, sink);
        }
    }
    if emitted {
        return;
    }
    let details = message.reasoning_details.as_ref().and_then(Json::read::<Vec<Json<'_>>>);
    let details = details.unwrap_or_default();
    let readable = details.iter().any(|detail| {
        let part = detail.read::<PartIn<'_>>().unwrap_or_default();
        non_empty_text(&part.text).is_some() || non_empty_text(&part.summary).is_some()
    });
    if !readable
        && let Some(text) =
            non_empty_text(&message.reasoning_content).or_else(|| non_empty_text(&message.reasoning))
    {
        sink(Event::Reasoning { choice, text: &text });
    }
    for detail in &details {
        emit_detail(choice, detail, sink);
    }
}

/// Emits a thinking block in the format of Anthropic, Mistral or Databricks. Returns false for other blocks.
pub(super) fn emit_block(choice: u32, json: &Json<'_>, sink: EventSink<'_>) -> bool {
    let Some(block) = json.read::<PartIn<'_>>() else { return false };
    match block.kind.as_deref() {
        Some("thinking") => emit_text(choice, &block.thinking, sink),
        Some("reasoning") => emit_text(choice, &block.summary, sink),
        Some("redacted_thinking") => {
            let data = non_empty_text(&block.data).unwrap_or_default();
            sink(Event::Redacted { choice, data: &data });
            return true;
        }
        _ => return false,
    }
    if let Some(signature) = non_empty_text(&block.signature) {
        sink(Event::Signature { choice, signature: &signature });
    }
    true
}

/// Emits text, or a list of parts with text; Databricks puts the signature inside a part.
fn emit_text(choice: u32, json: &Option<Json<'_>>, sink: EventSink<'_>) {
    if let Some(text) = non_empty_text(json) {
        return sink(Event::Reasoning { choice, text: &text });
    }
    let parts = json.as_ref().and_then(Json::read::<Vec<PartIn<'_>>>).unwrap_or_default();
    for part in &parts {
        if let Some(text) = non_empty_text(&part.text) {
            sink(Event::Reasoning { choice, text: &text });
        }
        if let Some(signature) = non_empty_text(&part.signature) {
            sink(Event::Signature { choice, signature: &signature });
        }
    }
}

/// Emits one of OpenRouter's details. An encrypted one is passed on as the whole object, because its id and
/// format must be sent back.
fn emit_detail(choice: u32, json: &Json<'_>, sink: EventSink<'_>) {
    let Some(detail) = json.read::<PartIn<'_>>() else { return };
    if detail.kind.as_deref() == Some("reasoning.encrypted") {
        return sink(Event::Redacted { choice, data: json.get() });
    }
    if let Some(text) = non_empty_text(&detail.text).or_else(|| non_empty_text(&detail.summary)) {
        sink(Event::Reasoning { choice, text: &text });
    }
    if let Some(signature) = non_empty_text(&detail.signature) {
        sink(Event::Signature { choice, signature: &signature });
    }
}
