//! What Claude Code writes into its system prompt for Anthropic alone: a first line that changes with every request.
//!
//! `x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=fa690;` stands first in the prompt, so that no other
//! vendor's cache of prompts ever finds the same beginning twice, and says nothing to a model. It is left out everywhere but at
//! Anthropic's own API, which takes it out itself. Sources: <https://github.com/anthropics/claude-code/issues/68900>,
//! <https://github.com/vllm-project/vllm/pull/36829>, <https://github.com/ggml-org/llama.cpp/pull/20623>.

use super::anthropic::BetaHost;
use super::translation_notes::TranslationNotes;
use super::{Call, Provider};
use std::borrow::Cow;
use words::api::body::{Body, Edit};
use words::api::chat::{Message, Part, Role};
use words::api::operation::Operation;
use words::json::Json;
use words::json::splice::{Object, Splice};

const BEGINNING: &str = "x-anthropic-billing-header:";

/// A text without the line; `None` if it does not begin with it.
fn without_line(text: &str) -> Option<&str> {
    let line = text.strip_prefix(BEGINNING)?;
    Some(line.split_once('\n').map_or("", |(_, rest)| rest))
}

fn warn(notes: &mut TranslationNotes) {
    notes.warn_once("system", "x-anthropic-billing-header left out, it is for Anthropic alone");
}

/// Leaves the line out of a chat that is translated.
pub(super) fn leave_out(messages: &mut Vec<Message<'_>>, notes: &mut TranslationNotes) {
    let mut is_changed = false;
    let mut is_kept = |part: &mut Part<'_>| {
        let Part::Text { text, .. } = part else { return true };
        let Some(rest) = without_line(text) else { return true };
        is_changed = true;
        *text = Cow::Owned(rest.to_owned());
        !text.trim().is_empty()
    };
    for message in messages.iter_mut().take_while(|message| message.role == Role::System) {
        message.content.retain_mut(&mut is_kept);
    }
    if is_changed {
        messages.retain(|message| message.role != Role::System || !message.content.is_empty());
        warn(notes);
    }
}

/// Leaves the line out of a request of Anthropic's dialect that passes on to somebody else.
pub(super) fn edit(
    provider: &dyn Provider,
    call: &Call<'_>,
    body: &Body,
    notes: &mut TranslationNotes,
) -> Option<Edit<'static>> {
    let is_messages = matches!(call.operation, Operation::Messages | Operation::CountTokens);
    let is_home =
        || provider.beta_host(call.operation, call.model.unwrap_or_default()) == Some(BetaHost::Own);
    let has_line = || memchr::memmem::find(body.value("system")?, BEGINNING.as_bytes());
    if !is_messages || has_line().is_none() || is_home() {
        return None;
    }
    let system = body.raw("system")?;
    let changed = match Json::parse(system)?.text() {
        Some(text) => without_line(&text).map(|rest| Json::from_value(rest).get().to_owned())?,
        None => without_block(system)?,
    };
    warn(notes);
    Some(match changed.as_str() {
        "[]" | "\"\"" => Edit::Remove("system"),
        _ => Edit::Set("system", Cow::Owned(changed)),
    })
}

/// A list of blocks without the line, and without the block that has nothing else; `None` if it stays.
fn without_block(system: &str) -> Option<String> {
    let list: Vec<Json<'_>> = serde_json::from_str(system).ok()?;
    let mut splice = Splice::new(system);
    let mut kept = Vec::with_capacity(list.len());
    for json in &list {
        let block = json.source().and_then(Object::read);
        let text = block.as_ref().and_then(|block| block.string("text"));
        let rest = text.as_deref().and_then(without_line);
        match (rest, &block) {
            (Some(rest), Some(block)) if !rest.trim().is_empty() => {
                splice.replace(block, "text", Json::from_value(rest).get());
                kept.push(json.get());
            }
            (Some(_), _) => {}
            (None, _) => kept.push(json.get()),
        }
    }
    if kept.len() < list.len() {
        return Some(format!("[{}]", kept.join(",")));
    }
    splice.finish().and_then(|changed| String::from_utf8(changed).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::find;
    use http::Method;
    use serde_json::{Value, json};
    use words::api::messages;

    const LINE: &str = "x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=fa690;";

    /// The system prompt of a request of messages that passes on, and the number of warnings.
    fn passed(provider: &str, model: &str, system: &Value) -> (Value, usize) {
        let body = Body::parse(json!({"system": system, "messages": []}).to_string().into()).unwrap();
        let operation = Operation::Messages;
        let model = Some(model);
        let call =
            Call { operation, method: &Method::POST, path: "messages", query: None, model, streamed: false };
        let mut notes = TranslationNotes::default();
        let edit = edit(find(provider).unwrap(), &call, &body, &mut notes);
        let sent: Value = serde_json::from_slice(&body.edit(edit.as_slice())).unwrap();
        (sent["system"].clone(), notes.warnings.len())
    }

    #[test]
    fn the_line_is_for_anthropic_alone() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let both = format!("{LINE}\nYou are");
        for (system, wanted) in [
            (json!([text(LINE), text("You are")]), json!([text("You are")])),
            (json!([text(&both)]), json!([text("You are")])),
            (json!([text(LINE)]), Value::Null),
            (json!(both), json!("You are")),
            (json!(LINE), Value::Null),
        ] {
            for (provider, model) in
                [("deepseek", "m"), ("moonshot", "m"), ("vertex-ai", "claude-sonnet-4-5")]
            {
                assert_eq!(passed(provider, model, &system), (wanted.clone(), 1), "{provider}");
            }
            for (provider, model) in [("anthropic", "claude-sonnet-4-5"), ("azure-ai", "claude-sonnet-4-5")] {
                assert_eq!(passed(provider, model, &system), (system.clone(), 0), "{provider}");
            }
            let request = json!({"model": "m", "max_tokens": 9, "system": system,
                "messages": [{"role": "user", "content": LINE}]});
            let request = Body::parse(request.to_string().into()).unwrap();
            let mut request = messages::read(&request).unwrap();
            let mut notes = TranslationNotes::default();
            leave_out(&mut request.messages, &mut notes);
            let texts: Vec<String> =
                request.messages.iter().map(|message| message.text().to_string()).collect();
            assert!(texts == ["You are", LINE] || (wanted.is_null() && texts == [LINE]), "{texts:?}");
            assert_eq!(notes.warnings.len(), 1);
        }
        let other = json!([text("You are x-anthropic-billing-header: y")]);
        assert_eq!(passed("deepseek", "m", &other), (other, 0));
    }
}
