//! JSON-RPC messages that the gateway writes: requests to servers, responses and errors to clients.

use super::era::{
    META_CAPABILITIES, META_CLIENT, META_LOG_LEVEL, META_PREFIX, META_VERSION, McpEra, STATELESS,
};
use super::message::McpMessage;
use super::notification::LogLevel;
use super::reply::{McpReply, member};
use crate::json::Json;
use crate::json::write::{ObjectWriter, write_string};
use std::borrow::Cow;

/// Codes of JSON-RPC and of the protocol.
pub const INVALID_REQUEST: i32 = -32600;
pub const METHOD_NOT_FOUND: i32 = -32601;
pub const INVALID_PARAMS: i32 = -32602;
pub const INTERNAL_ERROR: i32 = -32603;
/// What the server itself defines: a refusal of the gateway.
pub const REFUSED: i32 = -32000;
pub const HEADER_MISMATCH: i32 = -32020;
pub const UNSUPPORTED_VERSION: i32 = -32022;

/// What a response without an id begins with.
const NO_ID: &[u8] = br#"{"jsonrpc":"2.0","id":null"#;

const PROGRESS_TOKEN: &str = "progressToken";

/// The gateway, as it introduces itself.
const THIS: &str = concat!(r#"{"name":"turnpike","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// `serverInfo` and `clientInfo` of the gateway.
pub const fn own_info() -> &'static str {
    THIS
}

/// A response with this content. `id`: JSON text.
pub fn response(id: &str, reply: &McpReply) -> Vec<u8> {
    let (name, content) = match reply {
        McpReply::Result(result) => ("result", result),
        McpReply::Error(error) => ("error", error),
    };
    let mut out = Vec::with_capacity(content.len() + id.len() + 48);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(format!(",\"{name}\":").as_bytes());
    out.extend_from_slice(content.as_bytes());
    out.push(b'}');
    out
}

/// A response without an id, with this one.
pub fn with_id(body: Vec<u8>, id: &str) -> Vec<u8> {
    match body.strip_prefix(NO_ID) {
        Some(rest) => [NO_ID.strip_suffix(b"null").unwrap_or_default(), id.as_bytes(), rest].concat(),
        None => body,
    }
}

/// The JSON of an error. `data`: JSON text.
pub fn error(code: i32, message: &str, data: Option<&str>) -> McpReply {
    let mut out = format!("{{\"code\":{code},\"message\":").into_bytes();
    write_string(&mut out, message);
    if let Some(data) = data {
        out.extend_from_slice(b",\"data\":");
        out.extend_from_slice(data.as_bytes());
    }
    out.push(b'}');
    McpReply::Error(String::from_utf8(out).unwrap_or_default())
}

/// A request of the gateway to a server, with these `params` (JSON text).
pub fn request(id: &str, method: &str, params: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(params.len() + 96);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(b",\"method\":");
    write_string(&mut out, method);
    out.extend_from_slice(b",\"params\":");
    out.extend_from_slice(params.as_bytes());
    out.push(b'}');
    out
}

/// The `params` of a request of the gateway's own to a server of an era, with these members (JSON text each).
pub fn own_params(era: McpEra, members: &[(&str, &str)]) -> String {
    let mut out = Vec::new();
    let mut params = ObjectWriter::open(&mut out);
    if era == McpEra::Stateless {
        params.raw("_meta", &own_meta());
    }
    for (name, json) in members {
        params.raw(*name, json);
    }
    params.close();
    String::from_utf8(out).unwrap_or_default()
}

fn own_meta() -> String {
    format!(r#"{{"{META_VERSION}":"{STATELESS}","{META_CLIENT}":{THIS},"{META_CAPABILITIES}":{{}}}}"#)
}

/// What a server learns of a call besides the client's `params`.
#[derive(Debug, Clone, Copy, Default)]
pub struct RelayedTerms<'a> {
    /// The token of progress: JSON text.
    pub progress_token: Option<&'a str>,
    /// The least severe log messages that it is to send.
    pub log_level: Option<LogLevel>,
    /// What it may request, where that is not what the client's `_meta` has: JSON text.
    pub capabilities: Option<&'a str>,
}

/// The `params` of a client's request for a server of this era: as they are, but for the name by which the server knows what it is about,
/// and for what the eras have in `_meta`. `named`: the member with the name, and the name.
pub fn relayed_params(
    message: &McpMessage<'_>,
    era: McpEra,
    named: Option<(&str, &str)>,
    terms: RelayedTerms<'_>,
) -> String {
    let mut out = Vec::new();
    let mut params = ObjectWriter::open(&mut out);
    let mut has_meta = false;
    for (name, json) in &message.params {
        match named.filter(|(member, _)| member == name) {
            Some((_, new)) => params.text(&**name, new),
            None if name == "_meta" => {
                has_meta = true;
                params.raw("_meta", &relayed_meta(&json.own_members().unwrap_or_default(), era, terms));
            }
            None => params.raw(&**name, json.get()),
        }
    }
    if !has_meta && era == McpEra::Stateless {
        params.raw("_meta", &relayed_meta(&[], era, terms));
    }
    params.close();
    String::from_utf8(out).unwrap_or_default()
}

/// `_meta` for a server of this era. `members`: those of the client's.
fn relayed_meta(members: &[(Cow<'_, str>, Json<'_>)], era: McpEra, terms: RelayedTerms<'_>) -> String {
    let mut out = Vec::new();
    let mut object = ObjectWriter::open(&mut out);
    let is_of_era = |name: &str| name.starts_with(META_PREFIX);
    if era == McpEra::Stateless {
        let own = |wanted: &str| members.iter().find(|(name, _)| name == wanted).map(|(_, json)| json.get());
        object.text(META_VERSION, STATELESS);
        object.raw(META_CLIENT, own(META_CLIENT).unwrap_or(THIS));
        let capabilities = terms.capabilities.or_else(|| own(META_CAPABILITIES));
        object.raw(META_CAPABILITIES, capabilities.unwrap_or("{}"));
        if let Some(level) = terms.log_level {
            object.text(META_LOG_LEVEL, level.as_str());
        }
    }
    // Of two clients with one token the server would not know them apart.
    if let Some(token) = terms.progress_token {
        object.raw(PROGRESS_TOKEN, token);
    }
    let replaced = [META_VERSION, META_CLIENT, META_CAPABILITIES, META_LOG_LEVEL];
    let is_kept = |name: &Cow<'_, str>| match era {
        _ if name == PROGRESS_TOKEN => false,
        McpEra::Stateless => !replaced.contains(&&**name),
        McpEra::Sessions => !is_of_era(name),
    };
    for (name, json) in members.iter().filter(|(name, _)| is_kept(name)) {
        object.raw(&**name, json.get());
    }
    object.close();
    String::from_utf8(out).unwrap_or_default()
}

/// The reply to a method for a client of this era: the stateless one has `resultType` in each result, and how long what was read may be
/// kept. A client of the era before cannot be asked for input: that is an error to it.
pub fn reply_for(era: McpEra, method: &str, reply: McpReply) -> McpReply {
    let McpReply::Result(mut result) = reply else { return reply };
    let kind = member(&result, "resultType").and_then(|kind| kind.text().map(String::from));
    if era == McpEra::Sessions {
        return match kind.as_deref() {
            Some("input_required") => error(
                INTERNAL_ERROR,
                "The server needs input that a client of this version cannot be asked for.",
                None,
            ),
            _ => McpReply::Result(result),
        };
    }
    let needed: &[(&str, &str)] = match method {
        "resources/read" => &[("resultType", "\"complete\""), ("ttlMs", "0"), ("cacheScope", "\"private\"")],
        _ => &[("resultType", "\"complete\"")],
    };
    for (name, json) in needed.iter().filter(|_| kind.as_deref() != Some("input_required")) {
        if member(&result, name).is_none() {
            let added = crate::json::splice::append_member(result.as_bytes(), name, json);
            result = added.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or(result);
        }
    }
    McpReply::Result(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_are_relayed_as_they_are_but_for_the_name() {
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"unknown":[1.0],"name":"s__a","arguments":{"a":"\u00e9","a":2},"_meta":{"progressToken":1,"k":1.0,"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let message = McpMessage::read(text).unwrap();
        let none = RelayedTerms::default();
        assert_eq!(
            relayed_params(&message, McpEra::Sessions, Some(("name", "a")), none),
            r#"{"unknown":[1.0],"name":"a","arguments":{"a":"\u00e9","a":2},"_meta":{"k":1.0}}"#
        );
        let terms = RelayedTerms {
            progress_token: Some("7"),
            log_level: Some(LogLevel::Info),
            capabilities: Some(r#"{"roots":{}}"#),
        };
        let sessions = relayed_params(&message, McpEra::Sessions, None, terms);
        assert!(sessions.ends_with(r#""_meta":{"progressToken":7,"k":1.0}}"#), "{sessions}");
        let stateless = relayed_params(&message, McpEra::Stateless, Some(("name", "a")), terms);
        assert!(stateless.contains(r#"clientCapabilities":{"roots":{}}"#), "{stateless}");
        assert!(stateless.contains(r#""progressToken":7"#) && stateless.contains(STATELESS), "{stateless}");
        assert!(stateless.contains(r#""io.modelcontextprotocol/logLevel":"info""#), "{stateless}");
        let bare = McpMessage::read(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).unwrap();
        assert_eq!(relayed_params(&bare, McpEra::Sessions, None, none), "{}");
        assert!(relayed_params(&bare, McpEra::Stateless, None, none).contains(META_CAPABILITIES));
    }

    #[test]
    fn an_error_gets_the_id_of_its_request() {
        let error = response("null", &error(REFUSED, "no", None));
        assert_eq!(
            with_id(error, "\"a\""),
            br#"{"jsonrpc":"2.0","id":"a","error":{"code":-32000,"message":"no"}}"#
        );
    }

    #[test]
    fn results_have_their_type_in_the_stateless_era() {
        let of = |era, method: &str, text: &str| reply_for(era, method, McpReply::Result(text.to_owned()));
        let result = |text: &str| McpReply::Result(text.to_owned());
        assert_eq!(of(McpEra::Sessions, "tools/call", r#"{"a":1}"#), result(r#"{"a":1}"#));
        let typed = result(r#"{"a":1,"resultType":"complete"}"#);
        assert_eq!(of(McpEra::Stateless, "tools/call", r#"{"a":1}"#), typed);
        let read = result(r#"{"ttlMs":9,"resultType":"complete","cacheScope":"private"}"#);
        assert_eq!(of(McpEra::Stateless, "resources/read", r#"{"ttlMs":9}"#), read);
        let pending = r#"{"resultType":"input_required"}"#;
        assert_eq!(of(McpEra::Stateless, "resources/read", pending), result(pending));
        assert!(of(McpEra::Sessions, "tools/call", pending).is_failure());
    }
}
