//! How often a provider may search the web for a request, which some bill by the piece.
//!
//! Looks for whatever may make it search: tools of the provider's own, members that ask for it, and models that always do. What is not
//! known here may search. Not here: how often it did (`tap::web_searches`, `usage`), and the price.

use super::Dialect;
use super::body::Body;
use super::operation::Operation;
use crate::json::walk;
use crate::json::whole_number::whole_number;

/// Tools that do not search the web: those of the client, and hosted ones, without their versions. Google names them by the member.
const OTHER_TOOLS: &[&str] = &[
    "function",
    "custom",
    "file_search",
    "computer",
    "computer_use",
    "computer_use_preview",
    "code_interpreter",
    "image_generation",
    "local_shell",
    "shell",
    "apply_patch",
    "tool_search",
    "tool_search_tool_bm25",
    "tool_search_tool_regex",
    "bash",
    "text_editor",
    "code_execution",
    "memory",
    "web_fetch",
    "functionDeclarations",
    "function_declarations",
    "codeExecution",
    "urlContext",
    "url_context",
    "fileSearch",
    "computerUse",
];
/// Members that ask for searches: of OpenAI's chat and Perplexity, of xAI, of OpenRouter, of Alibaba.
const MEMBERS: [&str; 5] =
    ["web_search_options", "search_parameters", "plugins", "enable_search", "search_options"];
/// Parts of the names of models that search without being asked to.
const SEARCHING_MODELS: [&str; 4] = ["search", "sonar", "research", ":online"];

/// The most searches of a request to this model; `None`: there is no bound.
pub fn bound(operation: Operation, body: &Body, model: &str) -> Option<u64> {
    let is_set = |name: &&str| body.value(name).is_some_and(|value| value != b"null" && value != b"false");
    if MEMBERS.iter().any(is_set) || SEARCHING_MODELS.iter().any(|part| model.contains(part)) {
        return None;
    }
    let Some(tools) = body.value("tools").filter(|value| *value != b"null") else { return Some(0) };
    let tools = walk::items(tools)?;
    let mut searching = tools.filter(|tool| may_search(tool)).peekable();
    if searching.peek().is_none() {
        return Some(0);
    }
    match (operation, operation.dialect()) {
        (Operation::Responses | Operation::ResponsesCompact, _) => {
            body.value("max_tool_calls").and_then(whole_number)
        }
        (_, Dialect::Anthropic) => searching
            .try_fold(0_u64, |sum, tool| Some(sum.saturating_add(whole_number(member(tool, b"max_uses")?)?))),
        _ => None,
    }
}

/// Whether the provider may search the web with this tool.
fn may_search(tool: &[u8]) -> bool {
    let Some(members) = walk::members(tool) else { return true };
    let mut kinds = members.clone().filter(|(name, _)| *name == b"type").peekable();
    if kinds.peek().is_some() {
        return !kinds
            .all(|(_, kind)| is_other(kind.strip_prefix(b"\"").and_then(|kind| kind.strip_suffix(b"\""))));
    }
    // Anthropic's tools of the client need no type; Google's have their kind as the name of a member.
    let is_of_client = members.clone().any(|(name, _)| name == b"input_schema");
    !is_of_client && !members.clone().all(|(name, _)| is_other(Some(name)))
}

/// Whether a kind of tool does not search the web, in any version.
fn is_other(kind: Option<&[u8]>) -> bool {
    let Some(mut kind) = kind.and_then(|kind| std::str::from_utf8(kind).ok()) else { return false };
    loop {
        if OTHER_TOOLS.contains(&kind) {
            return true;
        }
        match kind.rsplit_once('_') {
            Some((base, version))
                if !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                kind = base;
            }
            _ => return false,
        }
    }
}

fn member<'a>(object: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    walk::members(object)?.filter(|(name, _)| *name == wanted).map(|(_, value)| value).last()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn searches_are_bounded_by_calls_and_uses() {
        use Operation::{ChatCompletions, GenerateContent, Messages, Responses};
        let search = r#"{"type":"web_search"}"#;
        for (operation, json, wanted) in [
            (Responses, "{}".to_owned(), Some(0)),
            (Responses, r#"{"tools":null,"max_tool_calls":5}"#.to_owned(), Some(0)),
            (Responses, format!(r#"{{"tools":[{search}]}}"#), None),
            (Responses, format!(r#"{{"tools":[{search}],"max_tool_calls":3}}"#), Some(3)),
            (Responses, format!(r#"{{"tools":[{search}],"max_tool_calls":null}}"#), None),
            (Responses, r#"{"tools":[{"type":"function","name":"f"},{"type":"custom"}]}"#.to_owned(), Some(0)),
            (Responses, r#"{"tools":[{"type":"code_interpreter"},{"type":"of_tomorrow"}]}"#.to_owned(), None),
            (Responses, r#"{"tools":[{"type":"web_search_preview_2025_03_11"}],"max_tool_calls":1}"#.to_owned(), Some(1)),
            (Responses, r#"{"tools":{"type":"function"}}"#.to_owned(), None),
            (Responses, r#"{"tools":[{"type":"function","type":"web_search"}]}"#.to_owned(), None),
            (ChatCompletions, r#"{"web_search_options":{}}"#.to_owned(), None),
            (ChatCompletions, r#"{"web_search_options":null,"plugins":false}"#.to_owned(), Some(0)),
            (ChatCompletions, format!(r#"{{"tools":[{search}],"max_tool_calls":3}}"#), None),
            (Messages, r#"{"tools":[{"name":"f","input_schema":{}},{"type":"computer_20250124"}]}"#.to_owned(), Some(0)),
            (Messages, r#"{"tools":[{"type":"web_search_20250305","max_uses":2},{"type":"web_search_20250305","max_uses":3.0}]}"#.to_owned(), Some(5)),
            (Messages, r#"{"tools":[{"type":"web_search_20250305","max_uses":2},{"type":"web_search_20250305"}]}"#.to_owned(), None),
            (GenerateContent, r#"{"tools":[{"functionDeclarations":[]},{"codeExecution":{}}]}"#.to_owned(), Some(0)),
            (GenerateContent, r#"{"tools":[{"functionDeclarations":[],"googleSearch":{}}]}"#.to_owned(), None),
        ] {
            let body = Body::parse(Bytes::from(json.clone())).unwrap();
            assert_eq!(bound(operation, &body, "gpt-4o"), wanted, "{json}");
            assert_eq!(bound(operation, &body, "gpt-4o-search-preview"), None);
        }
    }
}
