//! The tools that a request's entries name, as far as the client may use them.

use crate::engine::mcp::{ItemKind, McpCatalog};
use crate::engine::planner::Planner;
use crate::engine::request_context::RequestContext;
use memory::state::stored::mcp_servers::server_at;
use words::api::body::Body;
use words::api::tool_rounds::{ListedServer, McpEntry, RoundTools};
use words::error::Error;

/// The tools of a request, and where they are called.
pub(super) struct Listed {
    pub tools: RoundTools,
    /// By the label of the entry.
    catalogs: Vec<(String, McpCatalog)>,
}

impl Listed {
    /// Lists the servers of all entries.
    ///
    /// # Errors
    /// A server is none that the client may use, or cannot be listed; two tools have one name.
    pub async fn find(
        planner: &Planner,
        ctx: &RequestContext,
        entries: &[McpEntry],
        body: &Body,
    ) -> Result<Self, Error> {
        let mut servers = Vec::with_capacity(entries.len());
        let mut catalogs = Vec::with_capacity(entries.len());
        for entry in entries {
            let at = match entry.url {
                Some(_) => format!("tools[{}].server_url", entry.place),
                None => format!("tools[{}].server_label", entry.place),
            };
            let catalog = find(planner, ctx, entry).map_err(|why| why.with_param(at.clone()))?;
            if let Some(refusal) = catalog.refusal() {
                return Err(refusal.with_param(at));
            }
            let (items, failed) = catalog.items(&planner.engine, &ctx.snapshot, ItemKind::Tool).await;
            // A bundle may lack one of its servers.
            if items.is_empty() && !failed.is_empty() {
                if let Some(error) = catalog.unauthorized(&planner.engine, &ctx.snapshot).await {
                    return Err(error.with_param(at));
                }
                let message = format!("The tools of the MCP server {:?} cannot be listed.", entry.label);
                return Err(Error::unreachable(message, failed.join("; ")).with_param(at));
            }
            let tools = entry.tools(&items, catalog.is_of_several());
            servers.push(ListedServer { label: entry.label.clone(), tools });
            catalogs.push((entry.label.clone(), catalog));
        }
        let places: Vec<usize> = entries.iter().map(|entry| entry.place).collect();
        let tools = RoundTools::new(servers, body.raw("tools").unwrap_or("[]"), &places)?;
        Ok(Self { tools, catalogs })
    }

    /// Where the tools of an entry are called.
    pub fn catalog(&self, label: &str) -> Option<&McpCatalog> {
        self.catalogs.iter().find(|(found, _)| found == label).map(|(_, catalog)| catalog)
    }
}

/// The servers that an entry means.
///
/// # Errors
/// There are none that the client may use.
fn find(planner: &Planner, ctx: &RequestContext, entry: &McpEntry) -> Result<McpCatalog, Error> {
    let Some(url) = &entry.url else {
        let found = McpCatalog::find(&planner.engine, ctx, Some(&entry.label));
        return found.ok_or_else(|| {
            Error::bad_request(format!(
                "There is no MCP server {:?} here that this key may use. Give server_url for a server that the provider calls.",
                entry.label
            ))
        });
    };
    let servers = ctx.snapshot.stored.mcp_servers(ctx.workspace());
    let found = server_at(&servers, url)
        .and_then(|server| McpCatalog::find(&planner.engine, ctx, Some(&server.slug)));
    found.ok_or_else(|| {
        Error::bad_request(
            "The config has the gateway call MCP servers (mcp_tools), and none with this URL is saved here that this key may use.",
        )
    })
}
