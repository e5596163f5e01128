//! The eras of the protocol: which one a message of a client is of, and what its headers must repeat.

use super::message::McpMessage;
use crate::json::Json;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;

/// The version without sessions.
pub const STATELESS: &str = "2026-07-28";
/// The versions with `initialize`, the newest first.
pub const WITH_SESSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

pub const VERSION_HEADER: &str = "mcp-protocol-version";
pub const METHOD_HEADER: &str = "mcp-method";
pub const NAME_HEADER: &str = "mcp-name";
pub const SESSION_HEADER: &str = "mcp-session-id";

/// The members of `_meta` that each request of the stateless era has.
pub const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
pub const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";
/// The least severe log messages that a request wants; without it, none.
pub const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// What the names of those members begin with.
pub const META_PREFIX: &str = "io.modelcontextprotocol/";

/// How a peer speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpEra {
    /// With `initialize`, up to 2025-11-25.
    Sessions,
    /// From 2026-07-28 on.
    Stateless,
}

/// Why the version or the headers of a request are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EraProblem {
    /// -32022: the version that is not spoken.
    Version(String),
    /// -32020: the headers say something else than the body.
    Mismatch(String),
    /// -32602: `_meta` lacks what each request of the stateless era has.
    Meta(String),
}

impl McpEra {
    /// The era of a client's message.
    ///
    /// # Errors
    /// A version that is not spoken, and in the stateless era headers that do not repeat the body, and a `_meta` that lacks something.
    pub fn of(message: &McpMessage<'_>, headers: &HeaderMap) -> Result<Self, EraProblem> {
        let header = single(headers, VERSION_HEADER)?;
        let in_meta = message.meta(META_VERSION).and_then(|version| version.text().map(String::from));
        let stateless = in_meta.is_some() || header.as_deref() == Some(STATELESS);
        if !stateless {
            return match header {
                Some(version) if !WITH_SESSIONS.contains(&version.as_str()) => {
                    Err(EraProblem::Version(version))
                }
                _ => Ok(Self::Sessions),
            };
        }
        // A notification has no `_meta` that must be there.
        if message.is_request() && in_meta.is_none() {
            return Err(EraProblem::Meta(META_VERSION.to_owned()));
        }
        if message.is_request() && in_meta != header {
            let shown = |version: &Option<String>| version.clone().unwrap_or_else(|| "none".to_owned());
            return Err(EraProblem::Mismatch(format!(
                "MCP-Protocol-Version is {}, and {META_VERSION} is {}",
                shown(&header),
                shown(&in_meta)
            )));
        }
        if let Some(version) = in_meta.filter(|version| version != STATELESS) {
            return Err(EraProblem::Version(version));
        }
        if message.is_request() {
            check_mirrors(message, headers)?;
            if !message.meta(META_CAPABILITIES).is_some_and(|capabilities| capabilities.is_object()) {
                return Err(EraProblem::Meta(META_CAPABILITIES.to_owned()));
            }
        }
        Ok(Self::Stateless)
    }
}

/// Whether `Mcp-Method` and `Mcp-Name` say what the body says.
fn check_mirrors(message: &McpMessage<'_>, headers: &HeaderMap) -> Result<(), EraProblem> {
    let method = single(headers, METHOD_HEADER)?;
    if method.as_deref() != Some(&*message.method) {
        return Err(EraProblem::Mismatch("Mcp-Method is not the method of the body".to_owned()));
    }
    let Some(member) = message.named_member() else { return Ok(()) };
    let named = message.param(member).and_then(Json::text);
    let header = single(headers, NAME_HEADER)?.map(|value| decoded(&value));
    let is_same = match (&header, &named) {
        (Some(Some(header)), Some(named)) => header == named,
        _ => false,
    };
    if is_same {
        Ok(())
    } else {
        Err(EraProblem::Mismatch(format!("Mcp-Name is not params.{member} of the body")))
    }
}

/// The value of a header that may be there once only.
pub(super) fn single(headers: &HeaderMap, name: &str) -> Result<Option<String>, EraProblem> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(EraProblem::Mismatch(format!("{name} is there more than once")));
    }
    let text = |value: &http::HeaderValue| value.to_str().ok().map(|text| text.trim().to_owned());
    match first.map(text) {
        Some(None) => Err(EraProblem::Mismatch(format!("{name} is not ASCII"))),
        Some(text) => Ok(text),
        None => Ok(None),
    }
}

const BASE64_START: &str = "=?base64?";
const BASE64_END: &str = "?=";

/// A header's value as the protocol encodes what is not plain ASCII: `=?base64?...?=`.
pub fn encoded(name: &str) -> String {
    let is_plain = name.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && name.trim() == name
        && !name.starts_with(BASE64_START);
    if is_plain { name.to_owned() } else { format!("{BASE64_START}{}{BASE64_END}", STANDARD.encode(name)) }
}

/// The name that a header's value stands for; `None`: it is none.
pub(super) fn decoded(value: &str) -> Option<String> {
    match value.strip_prefix(BASE64_START).and_then(|rest| rest.strip_suffix(BASE64_END)) {
        None => Some(value.to_owned()),
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn era(body: &str, headers: &[(&str, &str)]) -> Result<McpEra, EraProblem> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        McpEra::of(&McpMessage::read(body).unwrap(), &map)
    }

    const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

    #[test]
    fn the_version_of_a_message_decides_its_era() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        assert_eq!(era(ping, &[]), Ok(McpEra::Sessions));
        assert_eq!(era(ping, &[("mcp-protocol-version", "2025-06-18")]), Ok(McpEra::Sessions));
        let unspoken = era(ping, &[("mcp-protocol-version", "2024-11-05")]);
        assert_eq!(unspoken, Err(EraProblem::Version("2024-11-05".to_owned())));
        let good = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "a")];
        assert_eq!(era(CALL, &good), Ok(McpEra::Stateless));
    }

    #[test]
    fn headers_must_repeat_the_body() {
        let version = ("mcp-protocol-version", "2026-07-28");
        let method = ("mcp-method", "tools/call");
        for headers in [
            &[][..],
            &[version],
            &[version, method],
            &[version, method, ("mcp-name", "b")],
            &[version, ("mcp-method", "tools/list"), ("mcp-name", "a")],
            &[("mcp-protocol-version", "2025-11-25"), method, ("mcp-name", "a")],
            &[version, method, ("mcp-name", "a"), ("mcp-name", "b")],
        ] {
            assert!(matches!(era(CALL, headers), Err(EraProblem::Mismatch(_))), "{headers:?}");
        }
        assert_eq!(era(CALL, &[version, method, ("mcp-name", "=?base64?YQ==?=")]), Ok(McpEra::Stateless));
    }

    #[test]
    fn a_request_of_the_stateless_era_has_its_meta() {
        let headers =
            [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list"), ("mcp-name", "a")];
        let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
        for (meta, lacks) in [("{}".to_owned(), META_VERSION), (format!("{{{version}}}"), META_CAPABILITIES)]
        {
            let body =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{meta}}}}}"#);
            assert_eq!(era(&body, &headers), Err(EraProblem::Meta(lacks.to_owned())), "{meta}");
        }
    }

    #[test]
    fn names_survive_their_header() {
        for name in ["plain", "größe", " spaced ", "=?base64?x?="] {
            assert_eq!(decoded(&encoded(name)).as_deref(), Some(name));
        }
    }
}
