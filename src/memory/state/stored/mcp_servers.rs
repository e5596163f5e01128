//! A stored MCP server as requests use it: its address and headers, and what of it may be used.
//!
//! Nothing may be used that `access` does not allow. Not here: sessions with it (`state::mcp_sessions`), and what a request may save
//! (`control::mcp_servers`).

use crate::net::outbound::custom_host::HostRules;
use crate::net::outbound::origin::Origin;
use crate::store::{Record, Store};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};
use uuid::Uuid;
use words::settings::AllowedNames;

/// One server.
#[derive(Clone)]
pub struct StoredMcpServer {
    pub id: Uuid,
    /// Of its record: another one is another server for whatever is remembered of it.
    pub revision: u64,
    pub slug: String,
    pub url: String,
    pub origin: Origin,
    /// Sent with every request to it; secrets.
    pub headers: HeaderMap,
    pub tools: AccessRules,
    pub prompts: AccessRules,
    pub resources: AccessRules,
}

/// What may be used of one kind. The default allows nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRules {
    allow: AllowedNames,
    deny: AllowedNames,
    /// Of tools: only those that their server marks as reading only.
    pub read_only: bool,
}

impl Default for AccessRules {
    fn default() -> Self {
        Self { allow: AllowedNames::new([]), deny: AllowedNames::new([]), read_only: false }
    }
}

impl AccessRules {
    /// Those of a record's `access`.
    fn read(access: Option<&Value>, kind: &str) -> Self {
        let Some(rules) = access.and_then(|access| access.get(kind)) else { return Self::default() };
        let names = |list: &str| {
            let names = rules.get(list).and_then(Value::as_array).into_iter().flatten();
            AllowedNames::new(names.filter_map(Value::as_str))
        };
        let read_only = rules.get("read_only").and_then(Value::as_bool).unwrap_or(false);
        Self { allow: names("allow"), deny: names("deny"), read_only }
    }

    /// Whether something of this name may be used. `only_reads`: its server marks it so.
    pub fn allows(&self, name: &str, only_reads: bool) -> bool {
        self.allow.allows(name) && !self.deny.allows(name) && (only_reads || !self.read_only)
    }

    /// Whether nothing can be allowed.
    pub fn is_empty(&self) -> bool {
        self.allow.names().next().is_none()
    }
}

impl std::fmt::Debug for StoredMcpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredMcpServer")
            .field("slug", &self.slug)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// # Errors
/// Why it cannot be used, without secrets.
pub(super) fn compile_mcp_server(
    record: &Record,
    store: &Store,
    hosts: &HostRules,
) -> Result<StoredMcpServer, String> {
    let mut body: Map<String, Value> = serde_json::from_str(&record.body).map_err(|why| why.to_string())?;
    if record.sealed.is_some() {
        body.extend(store.unseal(record).map_err(|why| why.to_string())?);
    }
    let url = body.get("url").and_then(Value::as_str).unwrap_or_default();
    let origin = Origin::parse(url, false)?;
    hosts.check_name(&origin)?;
    let custom = body.get("configurations").and_then(|configurations| configurations.get("custom_headers"));
    let mut headers = HeaderMap::new();
    for (name, value) in custom.and_then(Value::as_object).into_iter().flatten() {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| "a header has no valid name")?;
        let value = value.as_str().and_then(|value| HeaderValue::from_str(value).ok());
        let mut value = value.ok_or_else(|| format!("the header {name} has no valid value"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let access = body.get("access");
    Ok(StoredMcpServer {
        id: record.id,
        revision: record.revision,
        slug: record.slug.clone().unwrap_or_else(|| record.id.to_string()),
        url: url.to_owned(),
        origin,
        headers,
        tools: AccessRules::read(access, "tools"),
        prompts: AccessRules::read(access, "prompts"),
        resources: AccessRules::read(access, "resources"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_is_allowed_that_is_not_listed() {
        let rules = |access: Value| AccessRules::read(Some(&access), "tools");
        for none in [
            json!({}),
            json!({"tools": {}}),
            json!({"tools": {"deny": ["x"]}}),
            json!({"prompts": {"allow": ["*"]}}),
        ] {
            assert!(!rules(none.clone()).allows("a", true) && rules(none.clone()).is_empty(), "{none}");
        }
        assert!(!AccessRules::read(None, "tools").allows("a", true));
        let some = rules(json!({"tools": {"allow": ["a*", "b"], "deny": ["a_hidden*"]}}));
        for (name, wanted) in [("a", true), ("a_b", true), ("b", true), ("bc", false), ("a_hidden_x", false)]
        {
            assert_eq!(some.allows(name, false), wanted, "{name}");
        }
        let reading = rules(json!({"tools": {"allow": ["*"], "read_only": true}}));
        assert!(reading.allows("a", true) && !reading.allows("a", false));
    }
}
