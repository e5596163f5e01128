//! Thinking, in every vendor's spelling. Tags inside the text (`<think>`) are not guessed at: a model may
//! well write about them.

use super::chunk::{MessageIn, PartIn, words};
use crate::api::chat::{Event, EventSink, Json};

/// Tells the thinking of one message or delta. Several spellings of the same stand beside each other
/// (OpenRouter has `reasoning` and `reasoning_details`): the one that says most is told.
pub(super) fn tell_thinking(choice: u32, message: &MessageIn<'_>, tell: EventSink<'_>) {
    let mut said = false;
    if let Some(blocks) = message.thinking_blocks.as_ref().and_then(Json::read::<Vec<Json<'_>>>) {
        for block in &blocks {
            said |= tell_block(choice, block, tell);
        }
    }
    if said {
        return;
    }
    let details = message.reasoning_details.as_ref().and_then(Json::read::<Vec<Json<'_>>>);
    let details = details.unwrap_or_default();
    let readable = details.iter().any(|detail| {
        let part = detail.read::<PartIn<'_>>().unwrap_or_default();
        words(&part.text).is_some() || words(&part.summary).is_some()
    });
    if !readable && let Some(text) = words(&message.reasoning_content).or_else(|| words(&message.reasoning)) {
        tell(Event::Reasoning { choice, text: &text });
    }
    for detail in &details {
        tell_detail(choice, detail, tell);
    }
}

/// A thinking block as Anthropic has it, or as Mistral and Databricks do; false when it is something else.
pub(super) fn tell_block(choice: u32, json: &Json<'_>, tell: EventSink<'_>) -> bool {
    let Some(block) = json.read::<PartIn<'_>>() else { return false };
    match block.kind.as_deref() {
        Some("thinking") => tell_words(choice, &block.thinking, tell),
        Some("reasoning") => tell_words(choice, &block.summary, tell),
        Some("redacted_thinking") => {
            let data = words(&block.data).unwrap_or_default();
            tell(Event::Redacted { choice, data: &data });
            return true;
        }
        _ => return false,
    }
    if let Some(signature) = words(&block.signature) {
        tell(Event::Signature { choice, signature: &signature });
    }
    true
}

/// Text, or a list of parts with text; of Databricks' the seal is inside.
fn tell_words(choice: u32, json: &Option<Json<'_>>, tell: EventSink<'_>) {
    if let Some(text) = words(json) {
        return tell(Event::Reasoning { choice, text: &text });
    }
    let parts = json.as_ref().and_then(Json::read::<Vec<PartIn<'_>>>).unwrap_or_default();
    for part in &parts {
        if let Some(text) = words(&part.text) {
            tell(Event::Reasoning { choice, text: &text });
        }
        if let Some(signature) = words(&part.signature) {
            tell(Event::Signature { choice, signature: &signature });
        }
    }
}

/// One of OpenRouter's details. What only the model's vendor can read is handed out as the whole object:
/// its id and format are wanted back.
fn tell_detail(choice: u32, json: &Json<'_>, tell: EventSink<'_>) {
    let Some(detail) = json.read::<PartIn<'_>>() else { return };
    if detail.kind.as_deref() == Some("reasoning.encrypted") {
        return tell(Event::Redacted { choice, data: json.get() });
    }
    if let Some(text) = words(&detail.text).or_else(|| words(&detail.summary)) {
        tell(Event::Reasoning { choice, text: &text });
    }
    if let Some(signature) = words(&detail.signature) {
        tell(Event::Signature { choice, signature: &signature });
    }
}
