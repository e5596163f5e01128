//! A template that is JSON before its tags are replaced: its strings are templates, everything else stays as it is.
//!
//! So no value can change the structure. Names of members are no templates.

use super::node::Node;
use super::renderer::{Renderer, Sink};
use super::tags;
use words::error::Error;
use words::json::JsonStr;
use words::json::write::write_string;

/// A part of the JSON text.
#[derive(Debug, Clone)]
pub enum Piece {
    Json(Box<str>),
    /// A string with tags.
    Text(Vec<Node>),
}

/// Compiles a text that is JSON.
///
/// # Errors
/// Everything that is wrong with the tags in its strings.
pub fn compile(text: &str) -> Result<Vec<Piece>, Vec<String>> {
    let mut pieces = Vec::new();
    let mut problems = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, string, after)) = next_string(rest) {
        plain.push_str(before);
        rest = after;
        let is_name = after.trim_start().starts_with(':');
        let content =
            (!is_name && string.contains("{{")).then(|| serde_json::from_str::<JsonStr<'_>>(string));
        let Some(Ok(content)) = content else {
            plain.push_str(string);
            continue;
        };
        match tags::parse(&content) {
            Ok(nodes) => {
                pieces.push(Piece::Json(std::mem::take(&mut plain).into()));
                pieces.push(Piece::Text(nodes));
            }
            Err(found) => problems.extend(found),
        }
    }
    plain.push_str(rest);
    pieces.push(Piece::Json(plain.into()));
    if problems.is_empty() { Ok(pieces) } else { Err(problems) }
}

/// The next string of a JSON text with its quotes, what stands before it and what follows.
fn next_string(text: &str) -> Option<(&str, &str, &str)> {
    let (before, here) = text.split_at_checked(text.find('"')?)?;
    let mut is_escaped = false;
    let end = here.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })?;
    let (string, after) = here.split_at_checked(end + 2)?;
    Some((before, string, after))
}

/// # Errors
/// As [`Renderer::render`].
pub fn render<'a>(pieces: &'a [Piece], renderer: &mut Renderer<'a>) -> Result<String, Error> {
    let mut out = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Json(json) => out.extend_from_slice(json.as_bytes()),
            Piece::Text(nodes) => {
                let mut text = String::new();
                renderer.render(nodes, &mut text as &mut dyn Sink)?;
                renderer.written += text.len();
                write_string(&mut out, &text);
            }
        }
    }
    String::from_utf8(out).map_err(|error| Error::internal(error.to_string()))
}
