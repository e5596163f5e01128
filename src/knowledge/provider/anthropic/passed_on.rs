//! What is changed in a request of Anthropic's own dialect that passes on: what another provider made (ids of tool calls, searches,
//! thinking), and what a cloud does not take.

use super::beta_host::BetaHost;
use crate::provider::call_ids::IdRule;
use crate::provider::encrypted_thinking;
use crate::provider::string_members::string_members;
use crate::provider::translation_notes::TranslationNotes;
use std::borrow::Cow;
use words::api::body::{Body, Edit};
use words::api::messages::is_foreign_search;
use words::error::Error;
use words::json::Json;
use words::json::splice::{Object, Splice};

/// The changes; usually none.
///
/// # Errors
/// 400 for a conversation with too many values to be changed.
pub(in crate::provider) fn edits(
    body: &Body,
    host: BetaHost,
    notes: &mut TranslationNotes,
) -> Result<Vec<Edit<'static>>, Error> {
    let mut edits = Vec::new();
    for name in host.missing_members().iter().filter(|name| body.raw(name).is_some()) {
        notes.drop_param(name, "this provider");
        edits.push(Edit::Remove(name));
    }
    if body.value("tools").is_some_and(|tools| host.may_lack(tools)) {
        body.check_values("this provider")?;
        leave_out_tools(body, host, notes, &mut edits);
    }
    let has_searches = body.value("messages").is_some_and(has_foreign_search);
    let has_thinking = body.value("messages").is_some_and(encrypted_thinking::may_be_in);
    let has_ids = body.value("messages").is_some_and(has_foreign_id);
    if has_searches || has_thinking || has_ids {
        body.check_values("this provider")?;
        let messages = body.raw("messages").unwrap_or_default();
        let mut changed = has_searches.then(|| without_foreign_searches(messages, notes)).flatten();
        if has_thinking {
            let readable = encrypted_thinking::without_blocks(changed.as_deref().unwrap_or(messages), notes);
            changed = readable.or(changed);
        }
        if has_ids {
            changed = with_own_ids(changed.as_deref().unwrap_or(messages)).or(changed);
        }
        edits.extend(changed.map(|messages| Edit::Set("messages", Cow::Owned(messages))));
    }
    Ok(edits)
}

/// Leaves out the tools that the host does not have, and a choice of one of them.
fn leave_out_tools(
    body: &Body,
    host: BetaHost,
    notes: &mut TranslationNotes,
    edits: &mut Vec<Edit<'static>>,
) {
    let list: Vec<Json<'_>> = body.read("tools").unwrap_or_default();
    let mut kept = Vec::with_capacity(list.len());
    let mut left_out = Vec::new();
    for (index, json) in list.iter().enumerate() {
        let tool = json.source().and_then(Object::read);
        let kind = tool.as_ref().and_then(|tool| tool.string("type")).unwrap_or_default();
        if host.takes_tool(&kind) {
            kept.push(json.get());
            continue;
        }
        notes.leave_out_tool(index, &kind, "this provider");
        left_out.extend(tool.as_ref().and_then(|tool| tool.string("name")).map(Cow::into_owned));
    }
    if kept.len() == list.len() {
        return;
    }
    let chosen = body.raw("tool_choice").and_then(Object::read);
    let is_chosen = |choice: Object<'_>| {
        choice.string("name").is_some_and(|name| left_out.iter().any(|left| *left == name))
    };
    let is_free = chosen.is_some_and(is_chosen);
    if kept.is_empty() {
        edits.extend([Edit::Remove("tools"), Edit::Remove("tool_choice")]);
        return;
    }
    edits.push(Edit::Set("tools", Cow::Owned(format!("[{}]", kept.join(",")))));
    if is_free {
        notes.free_choice("this provider");
        edits.push(Edit::Set("tool_choice", Cow::Borrowed(r#"{"type":"auto"}"#)));
    }
}

/// A quick check: whether a result names a call by an id that Anthropic would refuse.
fn has_foreign_id(messages: &[u8]) -> bool {
    let is_sign = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    string_members(messages, "\"tool_use_id\"").any(|text| {
        let id = text.iter().take_while(|byte| is_sign(byte)).count();
        text.get(id) != Some(&b'"')
    })
}

/// A quick check: whether there may be a search that another provider made.
fn has_foreign_search(messages: &[u8]) -> bool {
    memchr::memmem::find(messages, b"srvtoolu_other_").is_some()
}

/// What a message says that had nothing but searches of another provider: Anthropic takes none without content.
const ONLY_SEARCHES: &str = r#"[{"type":"text","text":"(A search of the web.)"}]"#;

/// The messages without the calls and results of searches that another provider made, which Anthropic has no proof of.
fn without_foreign_searches(text: &str, notes: &mut TranslationNotes) -> Option<String> {
    let is_own = |block: &Json<'_>| {
        let block = block.source().and_then(Object::read);
        let id = block.as_ref().and_then(|block| block.string("id").or_else(|| block.string("tool_use_id")));
        !id.is_some_and(|id| is_foreign_search(&id))
    };
    let list: Vec<Json<'_>> = serde_json::from_str(text).ok()?;
    let mut splice = Splice::new(text);
    for message in list.iter().filter_map(|message| Object::read(message.source()?)) {
        let content = message.json_of("content").unwrap_or_default();
        let blocks: Vec<Json<'_>> = serde_json::from_str(content).unwrap_or_default();
        let own: Vec<Json<'_>> = blocks.iter().filter(|block| is_own(block)).cloned().collect();
        if own.len() == blocks.len() {
            continue;
        }
        notes.warn_once("messages", "searches that another provider made were left out");
        let own =
            if own.is_empty() { ONLY_SEARCHES.to_owned() } else { Json::from_value(&own).get().to_owned() };
        splice.replace(&message, "content", own);
    }
    splice.finish().and_then(|changed| String::from_utf8(changed).ok())
}

fn with_own_ids(text: &str) -> Option<String> {
    let list: Vec<Json<'_>> = serde_json::from_str(text).ok()?;
    let mut splice = Splice::new(text);
    let messages = list.iter().filter_map(|message| Object::read(message.source()?));
    for block in messages.flat_map(|message| message.list("content")) {
        let name = match block.string("type").as_deref() {
            Some("tool_use") => "id",
            Some("tool_result") => "tool_use_id",
            _ => continue,
        };
        let Some(id) = block.string(name) else { continue };
        if let Cow::Owned(fitting) = IdRule::ANTHROPIC.fit(&id) {
            splice.replace(&block, name, Json::from_value(&fitting).get());
        }
    }
    splice.finish().and_then(|changed| String::from_utf8(changed).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn edited(body: &Value) -> (Value, Vec<String>) {
        let body = Body::parse(body.to_string().into()).unwrap();
        let mut notes = TranslationNotes::default();
        let edits = edits(&body, BetaHost::Vertex, &mut notes).unwrap();
        (serde_json::from_slice(&body.edit(&edits)).unwrap(), notes.warnings)
    }

    #[test]
    fn only_ids_of_others_change_and_results_still_match() {
        let turn = |id: &str| {
            json!({"messages": [
                {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "f", "input": {"tool_use_id": "a:b"}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "x"}]}]})
        };
        assert_eq!(edited(&turn("toolu_01")).0, turn("toolu_01"));
        let (changed, _) = edited(&turn("functions.Bash:0"));
        let id = changed.pointer("/messages/0/content/0/id").and_then(Value::as_str).unwrap();
        assert_eq!(changed, turn(id));
        assert!(id.starts_with("functions_Bash_0_"), "{id}");
        let search = |id: &str| {
            json!({"messages": [{"role": "assistant", "content": [{"type": "text", "text": "x"},
                {"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "q"}},
                {"type": "web_search_tool_result", "tool_use_id": id, "content": []}]}]})
        };
        assert_eq!(edited(&search("srvtoolu_1")).0, search("srvtoolu_1"));
        let own = json!({"messages": [{"role": "assistant", "content": [{"type": "text", "text": "x"}]}]});
        let (changed, warnings) = edited(&search("srvtoolu_other_msg_1"));
        assert_eq!((changed, warnings.len()), (own, 1));
        let only = json!({"messages": [{"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "srvtoolu_other_1", "name": "web_search", "input": {"query": "q"}}]}]});
        let (changed, warnings) = edited(&only);
        assert_eq!(changed.pointer("/messages/0/content/0/type"), Some(&json!("text")));
        assert_eq!(warnings, ["messages: searches that another provider made were left out"]);
        let (changed, warnings) = edited(&json!({"speed": "fast", "messages": []}));
        assert_eq!((changed, warnings.len()), (json!({"messages": []}), 1));
    }

    #[test]
    fn members_and_tools_leave_with_their_betas() {
        let (changed, warnings) = edited(&json!({"speed": "fast", "messages": [], "context_management": {}}));
        assert_eq!((changed, warnings.len()), (json!({"messages": [], "context_management": {}}), 1));
        let search = json!({"type": "web_search_20250305", "name": "web_search"});
        let fetch = json!({"type": "web_fetch_20250910", "name": "web_fetch"});
        let servers = json!({"type": "mcp_toolset", "mcp_server_name": "a"});
        let choice = json!({"type": "tool", "name": "web_fetch"});
        let (changed, warnings) =
            edited(&json!({"mcp_servers": [], "tools": [servers, search, fetch], "tool_choice": choice}));
        assert_eq!(changed, json!({"tools": [search], "tool_choice": {"type": "auto"}}));
        assert_eq!(warnings.len(), 4, "{warnings:?}");
        let (changed, _) = edited(&json!({"tools": [fetch], "tool_choice": {"type": "auto"}}));
        assert_eq!(changed, json!({}));
        let mentioned = json!({"tools": [{"name": "f", "description": "not web_fetch_20250910"}]});
        assert_eq!(edited(&mentioned).0, mentioned);
    }
}
