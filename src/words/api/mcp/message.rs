//! One JSON-RPC message of a client, with the text of its members: what the gateway does not know of it is passed on as it is.

use crate::json::Json;
use std::borrow::Cow;
use std::collections::HashSet;

/// More members than any message or its `params` have.
const MAX_MEMBERS: usize = 1000;
/// How much of a name an error shows, bytes.
const MAX_SHOWN: usize = 100;

/// A request, a notification or a response.
#[derive(Debug, Clone)]
pub struct McpMessage<'a> {
    /// As it was written; `None` for a notification.
    pub id: Option<Json<'a>>,
    /// Empty for a response.
    pub method: Cow<'a, str>,
    /// The members of `params`, in their order.
    pub params: Vec<(Cow<'a, str>, Json<'a>)>,
}

impl<'a> McpMessage<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// Why it is none, for the client. A member that is there twice is refused: the next reader might take the other one.
    pub fn read(text: &'a str) -> Result<Self, String> {
        let members = Json::members(text).ok_or("it is no JSON object")?;
        check_unique(&members, "")?;
        let member = |name: &str| members.iter().find(|(member, _)| member == name).map(|(_, json)| json);
        let version = member("jsonrpc").and_then(|version| version.text().map(Cow::into_owned));
        if version.as_deref() != Some("2.0") {
            return Err(r#"jsonrpc must be "2.0""#.to_owned());
        }
        let id = member("id").cloned();
        let is_id = |id: &Json<'_>| {
            let first = id.get().bytes().next();
            first.is_some_and(|byte| byte == b'"' || byte == b'-' || byte.is_ascii_digit())
        };
        if id.as_ref().is_some_and(|id| !is_id(id)) {
            return Err("id must be a string or a number".to_owned());
        }
        let method = match member("method").map(|method| (method, method.text())) {
            Some((method, Some(_))) => {
                let source = method.source().unwrap_or_default();
                serde_json::from_str::<crate::json::JsonStr<'a>>(source)
                    .map_or(Cow::Borrowed(""), |text| text.0)
            }
            Some((_, None)) => return Err("method must be a string".to_owned()),
            None if member("result").is_some() || member("error").is_some() => Cow::Borrowed(""),
            None => return Err("it has no method".to_owned()),
        };
        let params = match member("params") {
            None => Vec::new(),
            Some(params) if params.is_null() => Vec::new(),
            Some(params) => params.own_members().ok_or("params must be an object")?,
        };
        check_unique(&params, "params.")?;
        Ok(Self { id, method, params })
    }

    /// Whether it is a request, which has a response.
    pub fn is_request(&self) -> bool {
        self.id.is_some() && !self.method.is_empty()
    }

    /// A member of `params`.
    pub fn param(&self, name: &str) -> Option<&Json<'a>> {
        self.params.iter().find(|(member, _)| member == name).map(|(_, json)| json)
    }

    /// A member of `params._meta`.
    pub fn meta(&self, name: &str) -> Option<Json<'a>> {
        let members = self.param("_meta")?.own_members()?;
        members.into_iter().find(|(member, _)| member == name).map(|(_, json)| json)
    }

    /// The member of `params` by which its method names what it is about, which `Mcp-Name` repeats.
    pub fn named_member(&self) -> Option<&'static str> {
        match &*self.method {
            "tools/call" | "prompts/get" => Some("name"),
            "resources/read" => Some("uri"),
            _ => None,
        }
    }
}

fn check_unique(members: &[(Cow<'_, str>, Json<'_>)], path: &str) -> Result<(), String> {
    if members.len() > MAX_MEMBERS {
        let of = if path.is_empty() { "it" } else { "params" };
        return Err(format!("{of} has more than {MAX_MEMBERS} members"));
    }
    let mut names = HashSet::with_capacity(members.len());
    match members.iter().find(|(name, _)| !names.insert(&**name)) {
        Some((name, _)) => Err(format!(
            "{path}{} is there twice",
            name.get(..name.floor_char_boundary(MAX_SHOWN)).unwrap_or_default()
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_with_the_text_of_their_members() {
        let text = r#"{"jsonrpc":"2.0","id":1.50,"method":"tools\/call","params":{"name":"a","x":1.0,"_meta":{"k":"v"}}}"#;
        let message = McpMessage::read(text).unwrap();
        assert_eq!(message.id.as_ref().unwrap().get(), "1.50");
        assert_eq!((&*message.method, message.named_member()), ("tools/call", Some("name")));
        assert_eq!(message.param("x").unwrap().get(), "1.0");
        assert_eq!(message.meta("k").unwrap().text().as_deref(), Some("v"));
        assert!(message.is_request());
        let notification = McpMessage::read(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#).unwrap();
        assert!(!notification.is_request());
        assert!(!McpMessage::read(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).unwrap().is_request());
    }

    #[test]
    fn what_is_no_message_or_could_be_read_in_two_ways_is_refused() {
        for text in [
            "[]",
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            r#"{"id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"a","params":[]}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","n\u0061me":"b"}}"#,
        ] {
            assert!(McpMessage::read(text).is_err(), "{text}");
        }
        let many: Vec<String> = (0..=MAX_MEMBERS).map(|number| format!("\"m{number}\":1")).collect();
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{{}}}}}"#, many.join(","));
        assert_eq!(McpMessage::read(&text).unwrap_err(), "params has more than 1000 members");
    }
}
