//! The gateway's MCP endpoints as protected resources of OAuth (RFC 9728): where each describes itself, and what a refusal says of that.
//!
//! Nobody signs in here: which tokens count is `auth.jwt` of the settings.

use serde_json::{Value, json};

/// What stands before the path of a resource in the path of its description.
pub const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// The scope that calls need.
pub const SCOPE: &str = "mcp.invoke";

/// `WWW-Authenticate` of a refusal at this path. `public_url`: where clients reach the gateway, if that is set.
pub fn challenge(public_url: Option<&str>, path: &str, lacks_scope: bool) -> String {
    let mut parts = Vec::new();
    if lacks_scope {
        parts.push(format!("error=\"insufficient_scope\", scope=\"{SCOPE}\""));
    }
    parts.extend(public_url.map(|url| format!("resource_metadata=\"{}\"", description_url(url, path))));
    if parts.is_empty() { "Bearer".to_owned() } else { format!("Bearer {}", parts.join(", ")) }
}

/// Where the resource at a path is described: the well-known part stands between the host and the path.
fn description_url(public_url: &str, path: &str) -> String {
    let after_scheme = public_url.find("://").map_or(0, |at| at + 3);
    let host_end = public_url.get(after_scheme..).and_then(|rest| rest.find('/'));
    let (host, base) = public_url.split_at(host_end.map_or(public_url.len(), |at| after_scheme + at));
    // What no path of ours has is not repeated.
    let path = if path.bytes().all(is_plain) { path } else { "/mcp" };
    format!("{host}{WELL_KNOWN}{base}{path}")
}

/// The path of the resource whose description is at this path below [`WELL_KNOWN`], without the part of the path that `public_url` has.
pub fn described_path<'p>(public_url: &str, below: &'p str) -> Option<&'p str> {
    let host_and_base = public_url.split_once("://").map_or(public_url, |(_, rest)| rest);
    let base = host_and_base.find('/').and_then(|at| host_and_base.get(at..)).unwrap_or_default();
    // A proxy before the gateway may take its own part off, and may not.
    Some(below.strip_prefix(base).filter(|rest| rest.starts_with('/')).unwrap_or(below))
        .filter(|path| path.starts_with('/') && path.bytes().all(is_plain))
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.')
}

/// The description of the resource at a path. `issuers`: who makes tokens for it.
pub fn description(public_url: &str, path: &str, issuers: &[&str]) -> Value {
    let mut document = json!({
        "resource": format!("{public_url}{path}"),
        "bearer_methods_supported": ["header"],
        "scopes_supported": [SCOPE],
        "resource_name": "Turnpike MCP gateway",
    });
    if let Some(members) = document.as_object_mut().filter(|_| !issuers.is_empty()) {
        members.insert("authorization_servers".to_owned(), json!(issuers));
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_description_of_the_resource() {
        for (url, path, wanted) in [
            (
                Some("https://g.example"),
                "/mcp",
                "Bearer resource_metadata=\"https://g.example/.well-known/oauth-protected-resource/mcp\"",
            ),
            (
                Some("https://g.example/ai"),
                "/mcp/tools",
                "Bearer resource_metadata=\"https://g.example/.well-known/oauth-protected-resource/ai/mcp/tools\"",
            ),
            (
                Some("http://127.0.0.1:8787"),
                "/mcp/a\"b",
                "Bearer resource_metadata=\"http://127.0.0.1:8787/.well-known/oauth-protected-resource/mcp\"",
            ),
            (None, "/mcp", "Bearer"),
        ] {
            assert_eq!(challenge(url, path, false), wanted);
        }
        assert_eq!(
            challenge(None, "/mcp", true),
            "Bearer error=\"insufficient_scope\", scope=\"mcp.invoke\""
        );
    }

    #[test]
    fn a_description_is_found_by_the_path_that_clients_make() {
        assert_eq!(described_path("https://g.example", "/mcp/tools"), Some("/mcp/tools"));
        assert_eq!(described_path("https://g.example/ai", "/ai/mcp"), Some("/mcp"));
        assert_eq!(described_path("https://g.example/ai", "/mcp"), Some("/mcp"));
        assert_eq!(described_path("https://g.example", ""), None);
        assert_eq!(described_path("https://g.example", "/mcp/\r\nx:1"), None);
        let document = description("https://g.example", "/mcp", &["https://id.example"]);
        assert_eq!(document["resource"], "https://g.example/mcp");
        assert_eq!(document["authorization_servers"][0], "https://id.example");
        assert!(description("https://g.example", "/mcp", &[]).get("authorization_servers").is_none());
    }
}
