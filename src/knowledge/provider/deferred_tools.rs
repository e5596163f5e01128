//! Tools that a client defers (`defer_loading`), and references to tools in results, at providers that have neither.
//!
//! All tools are declared from the first request on. Declaring them only once a result names them would change the beginning of
//! the prompt in the middle of a conversation, and with it what providers cache. A reference in the result of the client's own
//! search (`{"type":"tool_reference","tool_name":"read"}`, as Claude Code sends it) becomes a text that names the tool. What a
//! search that the provider ran left in the assistant's messages is left out where each adapter writes them.

use super::tool_names::NameRule;
use super::translation_notes::TranslationNotes;
use serde::Deserialize;
use std::borrow::Cow;
use words::api::chat::{ChatRequest, Message, Part, Role, Tool};
use words::json::JsonStr;

const REFERENCE: &str = "tool_reference";

/// Declares all tools, and writes references as text. `rule`: how the tools are named there.
pub(super) fn declare(request: &mut ChatRequest<'_>, rule: NameRule, notes: &mut TranslationNotes) {
    let mut is_any = false;
    for tool in &mut request.tools {
        if let Tool::Function { rest, .. } = tool {
            is_any |= rest.take("defer_loading").is_some_and(|value| value.is_true());
        }
    }
    if is_any {
        notes.warn("tools.defer_loading", "dropped, this provider gets all tools from the beginning");
    }
    let results = request.messages.iter_mut().filter(|message| message.role == Role::Tool);
    results.for_each(|message| write_references(message, rule));
}

/// The references of one result as one text, where the first one stood.
fn write_references(message: &mut Message<'_>, rule: NameRule) {
    #[derive(Deserialize)]
    struct Reference<'a> {
        #[serde(borrow)]
        tool_name: Option<JsonStr<'a>>,
    }
    let is_reference = |part: &Part<'_>| matches!(part, Part::Other { kind, .. } if kind == REFERENCE);
    let Some(at) = message.content.iter().position(is_reference) else { return };
    let name = |part: &Part<'_>| match part {
        Part::Other { json, .. } if is_reference(part) => json
            .read::<Reference<'_>>()
            .and_then(|reference| reference.tool_name)
            .map(|name| rule.legal(&name.0).unwrap_or_else(|| name.0.into_owned())),
        _ => None,
    };
    let names: Vec<String> = message.content.iter().filter_map(name).collect();
    message.content.retain(|part| !is_reference(part));
    let text = format!("Found, and can be called now: {}.", names.join(", "));
    message.content.insert(at, Part::Text { text: Cow::Owned(text), cache_control: None });
}

#[cfg(test)]
mod tests {
    use super::super::tool_names::ToolNames;
    use super::*;
    use serde_json::json;
    use words::api::body::Body;
    use words::api::messages;

    #[test]
    fn a_reference_has_the_name_that_is_declared() {
        let long = format!("mcp__server__{}", "a".repeat(80));
        let body = json!({"model": "m", "max_tokens": 9,
            "tools": [{"name": long, "input_schema": {}, "defer_loading": true}, {"name": "b", "input_schema": {}}],
            "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "i", "content": [
                {"type": "tool_reference", "tool_name": long}, {"type": "tool_reference", "tool_name": "b"}]}]}]});
        let body = Body::parse(body.to_string().into()).unwrap();
        let mut request = messages::read(&body).unwrap();
        declare(&mut request, NameRule::COMMON, &mut TranslationNotes::default());
        assert!(ToolNames::shorten(&mut request, NameRule::COMMON).is_some());
        let Some(Tool::Function { name, .. }) = request.tools.first() else { panic!("no tool") };
        let texts: Vec<_> = request.messages.iter().map(Message::text).collect();
        assert_ne!(*name, long);
        assert!(texts.concat().contains(&format!("now: {name}, b.")), "{texts:?}");
    }
}
