//! A stored bundle of MCP servers as requests use it: which servers, and what of each.

use super::mcp_access::Narrowing;
use crate::store::Record;
use serde_json::Value;
use std::sync::Arc;

/// The most servers of a bundle.
pub const MAX_SERVERS: usize = 100;

/// A bundle.
#[derive(Debug)]
pub struct StoredMcpBundle {
    pub slug: String,
    servers: Box<[(String, Arc<Narrowing>)]>,
}

impl StoredMcpBundle {
    /// What of a server is in it; `None`: the server is not.
    pub fn server(&self, slug: &str) -> Option<&Arc<Narrowing>> {
        self.servers.iter().find(|(server, _)| server == slug).map(|(_, narrowing)| narrowing)
    }
}

/// # Errors
/// Why it cannot be used.
pub(super) fn compile_mcp_bundle(record: &Record) -> Result<StoredMcpBundle, String> {
    let body: Value = serde_json::from_str(&record.body).map_err(|why| why.to_string())?;
    let servers = body.get("servers").and_then(Value::as_array).into_iter().flatten();
    let server = |entry: &Value| {
        let slug = entry.get("server")?.as_str()?.to_owned();
        Some((slug, Arc::new(Narrowing::read(entry))))
    };
    Ok(StoredMcpBundle {
        slug: record.slug.clone().unwrap_or_else(|| record.id.to_string()),
        servers: servers.filter_map(server).collect(),
    })
}
