//! Whether all that a model reads for a request stands in its body.
//!
//! Not how many tokens that is (`token_estimate`), nor what searches cost (`search_bounds`).

use super::body::Body;
use super::operation::Operation;
use crate::json::walk;

/// From where a model has its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All of it is text in the body, but for what vendors add.
    Visible,
    /// The body names or has something whose tokens are not its bytes: an image, a file, an earlier response.
    Referenced,
    /// The provider brings things into the conversation while it responds, and has the model read it again.
    Hosted,
}

/// Parts, and members, whose tokens are not the bytes of the body. Without the end of their names, which have versions and kinds.
const REFERENCES: [&str; 22] = [
    "\"image",
    "\"input_image",
    "\"file",
    "\"input_file",
    "\"audio",
    "\"input_audio",
    "\"video",
    "\"input_video",
    "\"document",
    "\"source",
    "\"inline_data",
    "\"inlineData",
    "\"previous_response_id",
    "\"conversation",
    "\"item_reference",
    "\"cached_content",
    "\"cachedContent",
    "\"media",
    "\"modalities",
    "\"responseModalities",
    "\"encrypted_content",
    "\"compaction",
];
/// Members that have a provider search, or do more, before and while it responds.
const HOSTED_MEMBERS: [&str; 7] = [
    "web_search_options",
    "search_parameters",
    "plugins",
    "enable_search",
    "search_options",
    "mcp_servers",
    "container",
];

/// Of a request whose body was read.
pub fn of(operation: Operation, body: &Body) -> Reach {
    use Operation as O;
    let is_text = matches!(
        operation,
        O::ChatCompletions
            | O::Completions
            | O::Messages
            | O::Responses
            | O::ResponsesCompact
            | O::GenerateContent
            | O::StreamGenerateContent
            | O::ListGenerateContent
            | O::Embeddings
            | O::EmbedContent
            | O::BatchEmbedContents
            | O::Moderations
            | O::Rerank
    );
    // A path that is no operation's may be one of a model.
    let is_generic = operation == O::Passthrough;
    if !(is_text || is_generic) || !body.is_object() {
        return Reach::Hosted;
    }
    let is_set = |name: &&str| body.value(name).is_some_and(|value| value != b"null" && value != b"false");
    if HOSTED_MEMBERS.iter().any(is_set) {
        return Reach::Hosted;
    }
    let tools = body.value("tools").filter(|value| *value != b"null");
    if tools
        .is_some_and(|tools| walk::items(tools).is_none_or(|mut tools| tools.any(|tool| !is_clients(tool))))
    {
        return Reach::Hosted;
    }
    // The models of GPT-5.6 in the mode `pro` run several times for one response, and report all of it.
    let reasoning = body.value("reasoning").unwrap_or_default();
    if memchr::memmem::find(reasoning, b"\"pro\"").is_some() {
        return Reach::Hosted;
    }
    // OpenAI keeps prompts that requests of the Responses API name.
    let names_prompt = operation == O::Responses && is_set(&"prompt");
    let text = body.bytes();
    // The documents of a rerank request are its texts.
    let is_reference = |name: &&&str| operation != O::Rerank || **name != "\"document";
    let stands = |name: &&str| memchr::memmem::find(text, name.as_bytes()).is_some();
    if is_generic || names_prompt || REFERENCES.iter().filter(is_reference).any(stands) {
        return Reach::Referenced;
    }
    Reach::Visible
}

/// Whether a tool is the client's own, which the provider does not run.
fn is_clients(tool: &[u8]) -> bool {
    let Some(members) = walk::members(tool) else { return false };
    let mut is_named = false;
    for (name, value) in members {
        match name {
            b"type" => return matches!(value, b"\"function\"" | b"\"custom\""),
            b"functionDeclarations" | b"function_declarations" | b"input_schema" => is_named = true,
            _ => {}
        }
    }
    is_named
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn a_body_reaches_as_far_as_what_it_names() {
        use Operation::{ChatCompletions, GenerateContent, Images, Messages, Rerank, Responses};
        let visible = Reach::Visible;
        for (operation, json, wanted) in [
            (ChatCompletions, r#"{"messages":[{"role":"user","content":"Hello"}]}"#, visible),
            (ChatCompletions, r#"{"tools":[{"type":"function","function":{"name":"f"}}]}"#, visible),
            (ChatCompletions, r#"{"tools":null}"#, visible),
            (ChatCompletions, r#"{"tools":[{"type":"web_search"}]}"#, Reach::Hosted),
            (ChatCompletions, r#"{"web_search_options":{}}"#, Reach::Hosted),
            (
                ChatCompletions,
                r#"{"messages":[{"content":[{"type":"image_url","image_url":{"url":"u"}}]}]}"#,
                Reach::Referenced,
            ),
            (Messages, r#"{"tools":[{"name":"f","input_schema":{}}]}"#, visible),
            (Messages, r#"{"tools":[{"name":"f","type":"bash_20250124"}]}"#, Reach::Hosted),
            (Responses, r#"{"input":"a"}"#, visible),
            (Responses, r#"{"input":"a","reasoning":{"effort":"high"}}"#, visible),
            (Responses, r#"{"input":"a","reasoning":{"mode":"pro"}}"#, Reach::Hosted),
            (Responses, r#"{"input":"a","previous_response_id":"r"}"#, Reach::Referenced),
            (Responses, r#"{"prompt":{"id":"p"}}"#, Reach::Referenced),
            (GenerateContent, r#"{"tools":[{"functionDeclarations":[]}]}"#, visible),
            (GenerateContent, r#"{"tools":[{"googleSearch":{}}]}"#, Reach::Hosted),
            (Rerank, r#"{"query":"q","documents":["a"]}"#, visible),
            (Images, r#"{"prompt":"a"}"#, Reach::Hosted),
        ] {
            let body = Body::parse(Bytes::from(json.to_owned())).unwrap();
            assert_eq!(of(operation, &body), wanted, "{operation:?} {json}");
        }
    }
}
