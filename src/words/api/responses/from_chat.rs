//! Conversion of chat annotations, logprobs and web searches, which the Responses API writes differently.

use crate::api::chat::logprobs::{Logprobs, Token};
use crate::json::write::{ObjectWriter, key};
use crate::json::{Json, JsonStr};
use serde::{Deserialize, Serialize};

/// The annotation types the API has; clients reject others.
const ANNOTATIONS: [&str; 4] = ["url_citation", "file_citation", "container_file_citation", "file_path"];

/// A chat annotation (`{"type":"url_citation","url_citation":{..}}`) in the flat form of the API. `None` if
/// the API has no such type.
pub(super) fn annotation(json: &str) -> Option<Json<'static>> {
    let outer = Json::members(json)?;
    let kind = outer.iter().find(|(name, _)| name == "type")?.1.text()?.into_owned();
    if !ANNOTATIONS.contains(&kind.as_str()) {
        return None;
    }
    let nested = outer.iter().find(|(name, value)| *name == kind && value.is_object());
    let inner = match nested {
        Some((_, value)) => Json::members(value.source()?)?,
        None => outer,
    };
    let mut out = Vec::new();
    let mut object = ObjectWriter::open(&mut out);
    object.text(key!("type"), &kind);
    let has = |name: &str| inner.iter().any(|(key, value)| key == name && !value.is_null());
    if kind == "url_citation" {
        let url = inner.iter().find(|(name, _)| name == "url")?.1.clone();
        // Some providers give only the source, not the range of text it belongs to.
        for (name, default) in
            [("start_index", Json::from_value(&0)), ("end_index", Json::from_value(&0)), ("title", url)]
        {
            if !has(name) {
                object.raw(name, default.get());
            }
        }
    }
    for (name, value) in inner.iter().filter(|(name, value)| name != "type" && !value.is_null()) {
        object.raw(&**name, value.get());
    }
    object.close();
    Json::written(out)
}

#[derive(Serialize)]
struct TokenOut<'a> {
    token: &'a str,
    bytes: Json<'a>,
    logprob: &'a Json<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_logprobs: Option<Vec<TokenOut<'a>>>,
}

/// The tokens of a chat's `logprobs` object. There `bytes` is optional, in this API it is required.
pub(super) fn logprobs(json: &str) -> Vec<Json<'static>> {
    let Ok(Logprobs { content: Some(tokens) }) = serde_json::from_str(json) else { return Vec::new() };
    let each = tokens.iter().map(|entry: &Token<'_>| {
        let top = entry.top().iter();
        let top = top.map(|entry| token(&entry.token, &entry.logprob, entry.bytes.as_ref(), None));
        Json::from_value(&token(&entry.token, &entry.logprob, entry.bytes.as_ref(), Some(top.collect())))
    });
    each.collect()
}

fn token<'a>(
    token: &'a str,
    logprob: &'a Json<'a>,
    bytes: Option<&'a Json<'a>>,
    top_logprobs: Option<Vec<TokenOut<'a>>>,
) -> TokenOut<'a> {
    let bytes = bytes.cloned().unwrap_or_else(|| Json::from_value(token.as_bytes()));
    TokenOut { token, bytes, logprob, top_logprobs }
}

/// The query, if an Anthropic content block is a web search.
pub(super) fn search(json: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow, rename = "type")]
        kind: JsonStr<'a>,
        name: Option<JsonStr<'a>>,
        input: Option<Input<'a>>,
    }
    #[derive(Deserialize)]
    struct Input<'a> {
        #[serde(borrow)]
        query: Option<JsonStr<'a>>,
    }
    let block: Block<'_> = serde_json::from_str(json).ok()?;
    let is_search = &*block.kind == "server_tool_use" && block.name.as_deref() == Some("web_search");
    is_search.then(|| block.input.and_then(|input| input.query).unwrap_or_default().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_become_flat_and_complete() {
        let cases = [
            (
                r#"{"type":"url_citation","url_citation":{"url":"https://a.example/","title":"A","start_index":1,"end_index":5}}"#,
                Some(
                    r#"{"type":"url_citation","url":"https://a.example/","title":"A","start_index":1,"end_index":5}"#,
                ),
            ),
            (
                r#"{"type":"url_citation","url_citation":{"url":"https://a.example/"}}"#,
                Some(
                    r#"{"type":"url_citation","start_index":0,"end_index":0,"title":"https://a.example/","url":"https://a.example/"}"#,
                ),
            ),
            (
                r#"{"type":"url_citation","url":"u","title":null}"#,
                Some(r#"{"type":"url_citation","start_index":0,"end_index":0,"title":"u","url":"u"}"#),
            ),
            (
                r#"{"type":"file_path","file_id":"f","index":3}"#,
                Some(r#"{"type":"file_path","file_id":"f","index":3}"#),
            ),
            (r#"{"type":"url_citation","url_citation":{"title":"no url"}}"#, None),
            (r#"{"type":"horoscope","horoscope":{}}"#, None),
            ("[]", None),
        ];
        for (chat, response) in cases {
            assert_eq!(annotation(chat).as_ref().map(Json::get), response, "{chat}");
        }
    }

    #[test]
    fn tokens_have_their_bytes() {
        let chat = r#"{"content":[{"token":"Hi","logprob":-0.10,"bytes":null,"top_logprobs":[{"token":"ä","logprob":-1.0}]}],"refusal":null}"#;
        let tokens: Vec<String> = logprobs(chat).iter().map(|json| json.get().to_owned()).collect();
        assert_eq!(
            tokens,
            [
                r#"{"token":"Hi","bytes":[72,105],"logprob":-0.10,"top_logprobs":[{"token":"ä","bytes":[195,164],"logprob":-1.0}]}"#
            ]
        );
        assert!(logprobs("null").is_empty() && logprobs(r#"{"content":null}"#).is_empty());
    }

    #[test]
    fn only_web_searches_are_recognized() {
        let block = r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"tea"}}"#;
        assert_eq!(search(block).as_deref(), Some("tea"));
        assert_eq!(search(r#"{"type":"web_search_tool_result","content":[]}"#), None);
        assert_eq!(search(r#"{"type":"server_tool_use","name":"code_execution","input":{}}"#), None);
    }
}
