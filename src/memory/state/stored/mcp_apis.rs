//! An API as an MCP server: the tools that the operations of its OpenAPI document are.
//!
//! Not how a document is read (`words::api::openapi`), nor how a tool is called (`engine::mcp`).

use crate::state::mcp_sessions::{McpItem, McpItems};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;
use words::api::openapi::document::{ApiDocument, DocumentProblem, LeftOut, OperationChoice, read};
use words::api::openapi::tool::ApiTool;
use words::settings::AllowedNames;

/// The member of a record with the document.
pub const OPENAPI: &str = "openapi";

/// The tools of an API.
#[derive(Debug)]
pub struct StoredApi {
    /// What the document calls itself.
    pub title: String,
    pub version: String,
    /// As a list of tools has them, by name.
    pub items: McpItems,
    /// Operations that are no tools.
    pub left_out: Vec<LeftOut>,
    tools: HashMap<Box<str>, Arc<ApiTool>>,
}

impl StoredApi {
    /// A tool by its name.
    pub fn tool(&self, name: &str) -> Option<Arc<ApiTool>> {
        self.tools.get(name).cloned()
    }

    /// The names of all tools.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.tools.keys().map(|name| String::from(&**name)).collect();
        names.sort_unstable();
        names
    }

    pub(super) fn new(document: ApiDocument) -> Self {
        let ApiDocument { title, version, tools, left_out, .. } = document;
        let items: Vec<McpItem> = tools.iter().map(|tool| McpItem::new(tool.definition.clone())).collect();
        let tools = tools.into_iter().map(|tool| (tool.name.as_str().into(), Arc::new(tool))).collect();
        Self { title, version, items: items.into(), left_out, tools }
    }
}

/// Reads the document of a record's body. `None`: it has none.
///
/// # Errors
/// All that is wrong with it.
pub fn read_api(body: &Map<String, Value>) -> Option<Result<ApiDocument, Vec<DocumentProblem>>> {
    let api = body.get(OPENAPI).filter(|api| api.is_object())?;
    let patterns = |list: &str| {
        let patterns = api.get("operations").and_then(|operations| operations.get(list))?.as_array()?;
        Some(AllowedNames::new(patterns.iter().filter_map(Value::as_str)))
    };
    let allow = patterns("allow");
    let deny = patterns("deny");
    let is_wanted = |name: &str| {
        !deny.as_ref().is_some_and(|deny| deny.allows(name))
            && allow.as_ref().is_none_or(|allow| allow.allows(name))
    };
    let headers = body.get("configurations").and_then(|configurations| configurations.get("custom_headers"));
    let headers = headers.and_then(Value::as_object);
    let is_own_header = |name: &str| {
        headers.is_some_and(|headers| headers.keys().any(|header| header.eq_ignore_ascii_case(name)))
    };
    let choice = OperationChoice { is_wanted: &is_wanted, is_own_header: &is_own_header };
    Some(read(api.get("document").unwrap_or(&Value::Null), &choice))
}
