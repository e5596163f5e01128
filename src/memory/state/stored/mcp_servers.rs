//! A stored MCP server as requests use it: its address and headers, what of it may be used, and what calls cost.
//!
//! Not here: the rules of its `access` (`mcp_access`), sessions with it (`state::mcp_sessions`), and what a request may save
//! (`control::mcp_servers`).

use super::mcp_access::McpAccess;
use super::mcp_apis::{StoredApi, read_api};
use crate::net::outbound::custom_host::HostRules;
use crate::net::outbound::origin::Origin;
use crate::store::{Catalog, Record, Store};
use http::{HeaderMap, HeaderName, HeaderValue};
use knowledge::provider::client_credentials::ClientCredentials;
use knowledge::provider::subject_exchange::{ACCESS_TOKEN, SubjectExchange};
use knowledge::provider::token_exchange::TokenExchange;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;
use words::api::mcp::definition::{DefinitionHash, read_hash};
use words::config::secret::Secret;
use words::settings::AllowedNames;

/// The member of a record with the approved definitions: `{tool: {"hash", "definition"}}`.
pub const APPROVED: &str = "approved_tools";

/// One server.
pub struct StoredMcpServer {
    pub id: Uuid,
    /// Of its record: another one is another server for whatever is remembered of it.
    pub revision: u64,
    pub slug: String,
    pub url: String,
    pub origin: Origin,
    /// Sent with every request to it; secrets.
    pub headers: HeaderMap,
    /// How the gateway signs in there, beside the headers.
    pub sign_in: Option<Arc<dyn TokenExchange>>,
    /// How tokens of clients are exchanged for those that it takes. Only clients that show one may use it.
    pub exchange: Option<Arc<SubjectExchange>>,
    pub access: McpAccess,
    /// Of one that is an API: its tools. No MCP is spoken with it.
    pub api: Option<StoredApi>,
    /// What calls of its tools cost; the first whose pattern means the tool counts.
    prices: Box<[CallPrice]>,
    /// The hashes of the definitions that were approved, by the server's names of the tools. `None`: none has to be.
    approved: Option<HashMap<Box<str>, DefinitionHash>>,
}

/// What a call costs.
struct CallPrice {
    tools: AllowedNames,
    cents: f64,
}

/// What was approved of a tool's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approval {
    /// It is as it was approved, or needs no approval.
    Good,
    /// Another definition was approved.
    Changed,
    Missing,
}

impl StoredMcpServer {
    /// Whether definitions of tools must be approved.
    pub const fn needs_approval(&self) -> bool {
        self.approved.is_some()
    }

    /// What was approved of a tool, by the server's own name of it. `hash`: of its definition now.
    pub fn approval<'h>(&self, tool: &str, hash: impl FnOnce() -> &'h DefinitionHash) -> Approval {
        let Some(approved) = &self.approved else { return Approval::Good };
        match approved.get(tool) {
            Some(approved) if approved == hash() => Approval::Good,
            Some(_) => Approval::Changed,
            None => Approval::Missing,
        }
    }

    /// Cents for one call of a tool, by the server's own name of it. `None`: it has no price, and is free.
    pub fn price(&self, tool: &str) -> Option<f64> {
        self.prices.iter().find(|price| price.tools.allows(tool)).map(|price| price.cents)
    }
}

/// The first of these servers that is at a URL, however that is written.
pub fn server_at<'s>(servers: &'s [Arc<StoredMcpServer>], url: &str) -> Option<&'s Arc<StoredMcpServer>> {
    let place = Origin::parse(url, false).ok()?;
    let is_there = |other: &Origin| {
        (other.tls, &other.host, other.port, &other.base_path)
            == (place.tls, &place.host, place.port, &place.base_path)
    };
    servers.iter().find(|server| is_there(&server.origin))
}

/// The sign-in of a record. `url`: the server's, for which its tokens are where nothing else is said.
fn sign_in(oauth: Option<&Value>, url: &str) -> Option<Arc<dyn TokenExchange>> {
    let text = |name: &str| oauth?.get(name)?.as_str().map(str::to_owned);
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
    Some(Arc::new(ClientCredentials {
        token_url: text("token_url")?,
        client_id: text("client_id")?,
        client_secret: Secret::new(text("client_secret")?),
        scope: filled(text("scope")),
        resource: filled(text("resource").or_else(|| Some(url.to_owned()))),
        secret_in_form: text("client_secret_in").as_deref() == Some("form"),
    }))
}

/// The exchange of clients' tokens of a record. `url`: the server's, for which its tokens are where nothing else is said.
fn exchange(record: &Record, settings: Option<&Value>, url: &str) -> Option<Arc<SubjectExchange>> {
    let text = |name: &str| settings?.get(name)?.as_str().map(str::to_owned);
    let filled = |name: &str| text(name).filter(|text| !text.is_empty());
    Some(Arc::new(SubjectExchange {
        owner: format!("{} {}", record.id, record.revision),
        token_url: text("token_url")?,
        client_id: text("client_id")?,
        client_secret: filled("client_secret").map(Secret::new),
        secret_in_form: text("client_secret_in").as_deref() == Some("form"),
        audience: filled("audience"),
        resource: text("resource").or_else(|| Some(url.to_owned())).filter(|resource| !resource.is_empty()),
        scope: filled("scope"),
        requested_token_type: filled("requested_token_type"),
        subject_token_type: filled("subject_token_type").unwrap_or_else(|| ACCESS_TOKEN.to_owned()),
    }))
}

/// The approved definitions of a record, if its `access` wants some.
fn approved(body: &Map<String, Value>) -> Option<HashMap<Box<str>, DefinitionHash>> {
    let is_wanted =
        body.get("access").and_then(|access| access.get("approved_only")) == Some(&Value::Bool(true));
    let listed = body.get(APPROVED).and_then(Value::as_object).into_iter().flatten();
    let hash = |approved: &Value| read_hash(approved.get("hash")?.as_str()?);
    is_wanted.then(|| {
        listed.filter_map(|(name, approved)| Some((name.as_str().into(), hash(approved)?))).collect()
    })
}

/// The prices of a record: names before patterns, and longer ones first.
fn prices(body: &Map<String, Value>) -> Box<[CallPrice]> {
    let listed = body.get("prices").and_then(Value::as_object).into_iter().flatten();
    let mut found: Vec<(&String, f64)> =
        listed.filter_map(|(pattern, cents)| Some((pattern, cents.as_f64()?))).collect();
    found.sort_by_key(|(pattern, _)| (pattern.contains('*'), std::cmp::Reverse(pattern.len())));
    let price =
        |(pattern, cents): (&String, f64)| CallPrice { tools: AllowedNames::new([pattern.as_str()]), cents };
    found.into_iter().map(price).collect()
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
    catalog: &Catalog,
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
    let configured =
        |name: &str| body.get("configurations").and_then(|configurations| configurations.get(name));
    let access = McpAccess::read(body.get("access"), catalog)?;
    let api = read_api(&body).transpose().map_err(|problems| {
        let first = problems.first().map(|problem| format!("{} {}", problem.path, problem.message));
        format!("its OpenAPI document cannot be used: {}", first.unwrap_or_default())
    })?;
    Ok(StoredMcpServer {
        id: record.id,
        revision: record.revision,
        slug: record.slug.clone().unwrap_or_else(|| record.id.to_string()),
        url: url.to_owned(),
        origin,
        headers,
        sign_in: sign_in(configured("oauth"), url),
        exchange: exchange(record, configured("token_exchange"), url),
        access,
        api: api.map(StoredApi::new),
        prices: prices(&body),
        approved: approved(&body),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_most_exact_price_counts() {
        let body = json!({"prices": {"*": 1, "search_*": 0.5, "search_deep": 20, "search_d*": 2}});
        let prices = prices(body.as_object().unwrap());
        let of = |tool: &str| prices.iter().find(|price| price.tools.allows(tool)).map(|price| price.cents);
        for (tool, wanted) in [("search_deep", 20.0), ("search_dry", 2.0), ("search_a", 0.5), ("other", 1.0)]
        {
            assert_eq!(of(tool), Some(wanted), "{tool}");
        }
    }
}
