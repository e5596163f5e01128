//! What a client up to 2025-11-25 can be asked for while a call of it is carried out, and the session id that says so.
//!
//! The id is all there is of a session: the gateway keeps nothing, so that each of its processes knows each session.

use crate::json::Json;
use std::borrow::Cow;

const FORM: u8 = 1;
const URL: u8 = 1 << 1;
const SAMPLING: u8 = 1 << 2;
const SAMPLING_TOOLS: u8 = 1 << 3;
const SAMPLING_CONTEXT: u8 = 1 << 4;
const ROOTS: u8 = 1 << 5;
const ALL: u8 = (1 << 6) - 1;

/// What a session id of the gateway begins with: its form may change.
const PREFIX: &str = "tp1-";

/// The capabilities of a client that matter to servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ClientFeatures(u8);

impl ClientFeatures {
    /// Those that `capabilities` name.
    pub fn of_capabilities(capabilities: &Json<'_>) -> Self {
        let members = capabilities.own_members().unwrap_or_default();
        let find = |name: &str| members.iter().find(|(member, json)| member == name && json.is_object());
        let has = |json: &Json<'_>, name: &str| {
            let inner = json.own_members().unwrap_or_default();
            inner.iter().any(|(member, json)| member == name && json.is_object())
        };
        let mut bits = 0;
        if let Some((_, elicitation)) = find("elicitation") {
            let has_url = has(elicitation, "url");
            // Without a mode it is the form, which was there before modes were.
            bits |= if has(elicitation, "form") || !has_url { FORM } else { 0 };
            bits |= if has_url { URL } else { 0 };
        }
        if let Some((_, sampling)) = find("sampling") {
            bits |= SAMPLING;
            bits |= if has(sampling, "tools") { SAMPLING_TOOLS } else { 0 };
            bits |= if has(sampling, "context") { SAMPLING_CONTEXT } else { 0 };
        }
        bits |= if find("roots").is_some() { ROOTS } else { 0 };
        Self(bits)
    }

    /// Those of the session with this id. `None`: it is none of the gateway's.
    pub fn of_session_id(id: &str) -> Option<Self> {
        let (bits, random) = id.strip_prefix(PREFIX)?.split_once('-')?;
        let is_hex = |text: &str, length: usize| {
            text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        if !is_hex(bits, 2) || !is_hex(random, 32) {
            return None;
        }
        let bits = u8::from_str_radix(bits, 16).ok()?;
        // A client without any has no session.
        (bits & !ALL == 0 && bits != 0).then_some(Self(bits))
    }

    /// The id of a session of such a client. `random` makes it one of a kind, as the protocol demands.
    pub fn session_id(self, random: u128) -> String {
        format!("{PREFIX}{:02x}-{random:032x}", self.0)
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    const fn has(self, bits: u8) -> bool {
        self.0 & bits == bits
    }

    /// As `capabilities` name them: JSON text.
    pub fn capabilities(self) -> String {
        let mut all: Vec<Cow<'static, str>> = Vec::new();
        match (self.has(FORM), self.has(URL)) {
            (true, true) => all.push(r#""elicitation":{"form":{},"url":{}}"#.into()),
            (true, false) => all.push(r#""elicitation":{}"#.into()),
            (false, true) => all.push(r#""elicitation":{"url":{}}"#.into()),
            (false, false) => {}
        }
        if self.has(SAMPLING) {
            let parts = [(SAMPLING_TOOLS, r#""tools":{}"#), (SAMPLING_CONTEXT, r#""context":{}"#)];
            let parts = parts.into_iter().filter(|(bit, _)| self.has(*bit)).map(|(_, part)| part);
            all.push(format!(r#""sampling":{{{}}}"#, parts.collect::<Vec<_>>().join(",")).into());
        }
        if self.has(ROOTS) {
            all.push(r#""roots":{}"#.into());
        }
        format!("{{{}}}", all.join(","))
    }

    /// Whether a server may request this of such a client. `params`: JSON text.
    pub fn allow(self, method: &str, params: &str) -> bool {
        let members = Json::members(params).unwrap_or_default();
        let find = |name: &str| members.iter().find(|(member, _)| member == name).map(|(_, json)| json);
        // A task would outlive the call.
        if find("task").is_some() {
            return false;
        }
        match method {
            "elicitation/create" => match find("mode").map(|mode| mode.text()) {
                None => self.has(FORM),
                Some(mode) => match mode.as_deref() {
                    Some("form") => self.has(FORM),
                    Some("url") => self.has(URL),
                    _ => false,
                },
            },
            "sampling/createMessage" => {
                let has_tools = find("tools").is_some() || find("toolChoice").is_some();
                self.has(if has_tools { SAMPLING | SAMPLING_TOOLS } else { SAMPLING })
            }
            "roots/list" => self.has(ROOTS),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(capabilities: &str) -> ClientFeatures {
        ClientFeatures::of_capabilities(&Json::parse(capabilities).unwrap())
    }

    #[test]
    fn capabilities_survive_the_session_id() {
        for (capabilities, wanted) in [
            ("{}", "{}"),
            (r#"{"elicitation":{}}"#, r#"{"elicitation":{}}"#),
            (r#"{"elicitation":{"form":{}},"tasks":{}}"#, r#"{"elicitation":{}}"#),
            (r#"{"elicitation":{"url":{}}}"#, r#"{"elicitation":{"url":{}}}"#),
            (
                r#"{"roots":{"listChanged":true},"sampling":{"tools":{},"context":{}},"elicitation":{"url":{},"form":{}}}"#,
                r#"{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{}}"#,
            ),
            (r#"{"sampling":{},"roots":null}"#, r#"{"sampling":{}}"#),
        ] {
            let features = of(capabilities);
            assert_eq!(features.capabilities(), wanted);
            let found = ClientFeatures::of_session_id(&features.session_id(7));
            assert_eq!(found, (!features.is_empty()).then_some(features), "{capabilities}");
        }
    }

    #[test]
    fn other_session_ids_are_none() {
        let good = of(r#"{"roots":{}}"#).session_id(u128::MAX);
        assert_eq!(good, "tp1-20-ffffffffffffffffffffffffffffffff");
        assert!(ClientFeatures::of_session_id(&good).is_some());
        for bad in [
            good.replace("-20-", "-00-"),
            good.replace("-20-", "-40-"),
            good.replace("-20-", "-+1-"),
            good.replace("tp1", "tp2"),
            good.replace('f', "F"),
            format!("{good}0"),
            good.strip_suffix("f").unwrap().to_owned(),
            String::new(),
        ] {
            assert_eq!(ClientFeatures::of_session_id(&bad), None, "{bad}");
        }
    }

    #[test]
    fn a_server_may_request_what_the_client_can() {
        let form = of(r#"{"elicitation":{}}"#);
        assert!(
            form.allow("elicitation/create", "{}") && form.allow("elicitation/create", r#"{"mode":"form"}"#)
        );
        for (method, params) in [
            ("elicitation/create", r#"{"mode":"url"}"#),
            ("elicitation/create", r#"{"mode":1}"#),
            ("elicitation/create", r#"{"task":{}}"#),
            ("sampling/createMessage", "{}"),
            ("roots/list", "{}"),
            ("ping", "{}"),
            ("tools/list", "{}"),
        ] {
            assert!(!form.allow(method, params), "{method} {params}");
        }
        let rest = of(r#"{"elicitation":{"url":{}},"sampling":{},"roots":{}}"#);
        assert!(rest.allow("elicitation/create", r#"{"mode":"url"}"#) && rest.allow("roots/list", "{}"));
        assert!(!rest.allow("elicitation/create", "{}"));
        assert!(rest.allow("sampling/createMessage", "{}"));
        assert!(!rest.allow("sampling/createMessage", r#"{"tools":[]}"#));
        assert!(of(r#"{"sampling":{"tools":{}}}"#).allow("sampling/createMessage", r#"{"tools":[]}"#));
    }
}
