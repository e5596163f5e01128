//! The response of an MCP server to one request: found in a JSON body or in a stream of events, by its id.
//!
//! A body with another request's response, or with none, is refused: whose result it is, nobody knows.

use crate::api::sse::SseParser;
use crate::json::Json;

/// A response, with the text of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpReply {
    /// The JSON of `result`.
    Result(String),
    /// The JSON of `error`.
    Error(String),
}

impl McpReply {
    /// Finds the response to the request with this id, which is JSON text.
    ///
    /// # Errors
    /// Why there is none.
    pub fn find(body: &[u8], id: &str) -> Result<Self, &'static str> {
        let text =
            std::str::from_utf8(body).map_err(|_| "it is not UTF-8")?.trim_start_matches('\u{feff}').trim();
        if text.starts_with('{') {
            return Self::of(text, id).unwrap_or(Err("it is no response of JSON-RPC"));
        }
        if text.starts_with('[') || text.starts_with('<') || text.is_empty() {
            return Err("it is no response of JSON-RPC");
        }
        let mut parser = SseParser::default();
        let run = parser.push(body);
        let rest = parser.finish();
        for data in run.data().chain(rest.data()) {
            let Ok(text) = std::str::from_utf8(&data) else { continue };
            // Requests and notifications of the server go before it.
            if let Some(found) = Self::of(text.trim(), id) {
                return found;
            }
        }
        Err("its stream ended without the response")
    }

    /// One message as the response to the request with this id, which is JSON text. `None`: it is a request or a notification.
    ///
    /// # Errors
    /// Why it is no response to that.
    pub fn of(text: &str, id: &str) -> Option<Result<Self, &'static str>> {
        let [result, error, method, found] = Json::first_members(text, ["result", "error", "method", "id"])?;
        let reply = match (&result, &error) {
            (Some(result), None) if result.is_object() => Self::Result(result.get().to_owned()),
            (None, Some(error)) if error.is_object() => Self::Error(error.get().to_owned()),
            _ if method.is_some() => return None,
            _ => return Some(Err("it is no response of JSON-RPC")),
        };
        let is_own = found.as_ref().is_some_and(|found| found.get() == id);
        // What could not be read has no id.
        let is_unread = matches!(reply, Self::Error(_)) && found.as_ref().is_none_or(Json::is_null);
        Some(if is_own || is_unread { Ok(reply) } else { Err("it is the response to another request") })
    }

    /// Whether the tool, or the server, reports a failure.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Error(_) => true,
            Self::Result(result) => member(result, "isError").is_some_and(|flag| flag.is_true()),
        }
    }
}

/// A member of an object that is JSON text.
pub fn member<'t>(object: &'t str, name: &str) -> Option<Json<'t>> {
    let [found] = Json::first_members(object, [name])?;
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_response_is_found_in_a_document_and_among_events() {
        let result = McpReply::Result(r#"{"x":1.0}"#.to_owned());
        assert_eq!(
            McpReply::find(br#" {"jsonrpc":"2.0","id":7,"result":{"x":1.0}}"#, "7"),
            Ok(result.clone())
        );
        let events = b": hi\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n\
            data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\ndata: \"result\":{\"x\":1.0}}\n\n";
        assert_eq!(McpReply::find(events, "7"), Ok(result));
        // A last event without its blank line.
        let cut = b"data: {\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-1}}";
        assert!(McpReply::find(cut, "7").unwrap().is_failure());
    }

    #[test]
    fn other_responses_are_refused() {
        for body in [
            &br#"{"jsonrpc":"2.0","id":8,"result":{}}"#[..],
            br#"{"jsonrpc":"2.0","id":"7","result":{}}"#,
            br#"{"jsonrpc":"2.0","result":{}}"#,
            br#"{"jsonrpc":"2.0","id":7,"result":[]}"#,
            br#"{"jsonrpc":"2.0","id":7}"#,
            br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#,
            br#"[{"jsonrpc":"2.0","id":7,"result":{}}]"#,
            b"<html>",
            b"",
            b"data: {\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{}}\n\n",
            b"data: {\"jsonrpc\":\"2.0\",\"id\":7,\"res",
            b"\xff",
        ] {
            assert!(McpReply::find(body, "7").is_err(), "{}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn failures_of_tools_are_failures() {
        let reply = |result: &str| McpReply::Result(result.to_owned()).is_failure();
        assert!(reply(r#"{"content":[],"isError":true}"#));
        assert!(!reply(r#"{"content":[],"isError":false}"#) && !reply("{}"));
    }
}
