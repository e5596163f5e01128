//! The result of a tool as the text that a model gets.

use crate::api::mcp::reply::{McpReply, member};
use crate::json::{Json, surrogates, walk};

/// The most of a result that a model gets, bytes: some hundred thousand tokens.
const MAX_TEXT: usize = 1 << 20;

/// What a call has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundResult {
    pub text: String,
    pub is_error: bool,
}

impl RoundResult {
    /// A call that has no result.
    pub fn error(why: impl Into<String>) -> Self {
        Self { text: why.into(), is_error: true }
    }

    /// What a server has responded: its texts, and of everything else what it is. Without any, its structured content.
    pub fn of(reply: &McpReply) -> Self {
        let is_error = reply.is_failure();
        let text = match reply {
            McpReply::Error(error) => text(error, "message").unwrap_or_default(),
            McpReply::Result(result) => result_text(result),
        };
        Self { text: cut(text), is_error }
    }

    /// What the model gets.
    pub(super) fn for_model(&self) -> String {
        match self.is_error {
            true => format!("Error: {}", self.text),
            false => self.text.clone(),
        }
    }
}

/// A text that is too long for a model, and says so.
fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        text.push_str("\n[cut here: the result is longer than 1 MiB]");
    }
    text
}

fn result_text(result: &str) -> String {
    let content = member(result, "content");
    let parts = content.as_ref().and_then(|content| walk::items(content.get().as_bytes()));
    let texts: Vec<String> =
        parts.into_iter().flatten().filter_map(|part| part_text(std::str::from_utf8(part).ok()?)).collect();
    if texts.is_empty() {
        return member(result, "structuredContent").map(|json| json.get().to_owned()).unwrap_or_default();
    }
    texts.join("\n")
}

/// A member that is a text. Half of a character is written as one that stands for it.
fn text(object: &str, name: &str) -> Option<String> {
    let json = member(object, name)?;
    let whole = || Json::parse(&surrogates::replaced(json.get()))?.text().map(String::from);
    json.text().map(String::from).or_else(whole)
}

fn part_text(part: &str) -> Option<String> {
    match text(part, "type")?.as_str() {
        "text" => text(part, "text"),
        "resource" => {
            let resource = member(part, "resource")?;
            let uri = text(resource.get(), "uri").unwrap_or_default();
            Some(match text(resource.get(), "text") {
                Some(content) => format!("{uri}\n{content}"),
                None => format!("[{uri}: not a text, left out]"),
            })
        }
        "resource_link" => text(part, "uri"),
        kind => {
            let media = text(part, "mimeType").unwrap_or_default();
            Some(format!("[{kind} {media}: not a text, left out]"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_its_texts() {
        let of = |text: &str| RoundResult::of(&McpReply::Result(text.to_owned()));
        let result = of(
            r#"{"content":[{"type":"text","text":"a"},{"type":"image","data":"AA","mimeType":"image/png"},
            {"type":"resource","resource":{"uri":"file:///x","text":"b"}},{"type":"resource_link","uri":"file:///y"}],"structuredContent":{"c":1}}"#,
        );
        let text = "a\n[image image/png: not a text, left out]\nfile:///x\nb\nfile:///y";
        assert_eq!(result, RoundResult { text: text.to_owned(), is_error: false });
        assert_eq!(of(r#"{"content":[],"structuredContent":{"c":1.0}}"#).text, r#"{"c":1.0}"#);
        assert_eq!(of(r#"{"content":[{"type":"text","text":"a\ud800b"}]}"#).text, "a\u{fffd}b");
        let long =
            of(&format!("{{\"content\":[{{\"type\":\"text\",\"text\":\"{}\"}}]}}", "é".repeat(MAX_TEXT)))
                .text;
        assert!(long.len() < MAX_TEXT + 100 && long.ends_with("longer than 1 MiB]"));
        let failed = of(r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#);
        assert_eq!(failed.for_model(), "Error: no");
        let error = RoundResult::of(&McpReply::Error(r#"{"code":-1,"message":"gone"}"#.to_owned()));
        assert_eq!(error, RoundResult::error("gone"));
    }
}
