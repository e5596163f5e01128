//! An entry of a request's `tools` that names an MCP server of the gateway's: which of its tools the model may call, and whether the client
//! must approve that.
//!
//! Source: OpenAI's guide, <https://platform.openai.com/docs/guides/tools-connectors-mcp>. An entry with `server_url` or `connector_id` is
//! for a provider that calls the server itself, and is left as it is, unless a config has the gateway call it (`mcp_tools`).

use super::tool::RoundTool;
use crate::api::body::Body;
use crate::api::mcp::names;
use crate::api::mcp::reply::member;
use crate::error::Error;
use crate::json::Json;
use crate::json::splice::Object;
use crate::json::walk;
use std::borrow::Cow;

/// The most entries of a request.
const MAX_ENTRIES: usize = 16;

/// The entries of a request.
#[derive(Debug, Default)]
pub struct McpEntries {
    /// Those whose servers the gateway calls.
    pub own: Vec<McpEntry>,
    /// There are others, whose servers the provider calls.
    pub has_others: bool,
}

/// One entry.
#[derive(Debug, Clone)]
pub struct McpEntry {
    /// Its place in `tools`.
    pub place: usize,
    /// What the client calls the server; its slug, or that of a bundle, where there is no `url`.
    pub label: String,
    /// Where the server is (`server_url`).
    pub url: Option<String>,
    allowed: Option<ToolFilter>,
    approval: Approval,
}

/// Names of tools, and whether only those that read.
#[derive(Debug, Clone, Default)]
struct ToolFilter {
    names: Option<Vec<String>>,
    only_reads: bool,
}

/// Which calls the client must approve.
#[derive(Debug, Clone)]
enum Approval {
    Always,
    Never,
    /// What is in neither needs none where only `always` is there.
    Some {
        always: Option<ToolFilter>,
        never: Option<ToolFilter>,
    },
}

/// The entries of MCP servers, with their places in `tools`.
fn of_mcp(body: &Body) -> impl Iterator<Item = (usize, Object<'_>)> {
    // Most requests have none, and are not read for it.
    let tools = body.value("tools").filter(|tools| memchr::memmem::find(tools, br#""mcp""#).is_some());
    let tools = tools.and_then(walk::items).into_iter().flatten().enumerate();
    tools.filter_map(|(place, tool)| {
        let tool = std::str::from_utf8(tool).ok().and_then(Object::read)?;
        (tool.string("type").as_deref() == Some("mcp")).then_some((place, tool))
    })
}

fn is_named(tool: &Object<'_>, name: &str) -> bool {
    tool.get(name).is_some_and(|value| !value.is_null())
}

impl McpEntry {
    /// Reads the entries of a request. `has_all`: the gateway calls those too that are meant for the provider.
    ///
    /// # Errors
    /// 400: an entry cannot be read.
    pub fn read_all(body: &Body, has_all: bool) -> Result<McpEntries, Error> {
        let mut entries = Vec::new();
        let mut has_others = false;
        for (place, tool) in of_mcp(body) {
            if has_all && is_named(&tool, "connector_id") {
                let message = "The config has the gateway call MCP servers (mcp_tools), and a connector can be called by OpenAI alone. Name an MCP server.";
                return Err(Error::invalid_request(format!("tools[{place}].connector_id"), message));
            }
            if !has_all && (is_named(&tool, "server_url") || is_named(&tool, "connector_id")) {
                has_others = true;
                continue;
            }
            let entry = Self::read(place, &tool)?;
            if entries.iter().any(|other: &Self| other.label == entry.label) {
                let message = "This server is named twice. Give it one entry.";
                return Err(Error::invalid_request(format!("tools[{place}].server_label"), message));
            }
            entries.push(entry);
        }
        if entries.len() > MAX_ENTRIES {
            let message = format!("A request may name at most {MAX_ENTRIES} MCP servers.");
            return Err(Error::invalid_request("tools", message));
        }
        Ok(McpEntries { own: entries, has_others })
    }

    fn read(place: usize, tool: &Object<'_>) -> Result<Self, Error> {
        let label = tool.string("server_label").filter(|label| !label.is_empty());
        let label = label.ok_or_else(|| {
            let message = "Name the slug of an MCP server of this gateway, or give server_url for a server that the provider calls.";
            Error::invalid_request(format!("tools[{place}].server_label"), message)
        })?;
        let allowed = match tool.get("allowed_tools").filter(|value| !value.is_null()) {
            Some(json) => Some(ToolFilter::read(json).ok_or_else(|| {
                let message = "A list of names of tools, or an object with tool_names and read_only.";
                Error::invalid_request(format!("tools[{place}].allowed_tools"), message)
            })?),
            None => None,
        };
        let approval = match tool.get("require_approval").filter(|value| !value.is_null()) {
            Some(json) => Approval::read(json).ok_or_else(|| {
                let message = r#""always", "never", or an object with the tool_names of always and never."#;
                Error::invalid_request(format!("tools[{place}].require_approval"), message)
            })?,
            None => Approval::Always,
        };
        let url = match tool.get("server_url").filter(|value| !value.is_null()) {
            Some(_) => Some(tool.string("server_url").map(Cow::into_owned).ok_or_else(|| {
                Error::invalid_request(format!("tools[{place}].server_url"), "It must be a string.")
            })?),
            None => None,
        };
        Ok(Self { place, label: label.into_owned(), url, allowed, approval })
    }

    /// The tools of the server's list that the model may call. `is_of_several`: their names begin with their server's.
    pub fn tools(&self, definitions: &[String], is_of_several: bool) -> Vec<RoundTool> {
        let mut tools = Vec::new();
        for definition in definitions {
            let Some(name) = member(definition, "name").and_then(|name| name.text().map(String::from)) else {
                continue;
            };
            let only_reads = member(definition, "annotations")
                .and_then(|notes| member(notes.get(), "readOnlyHint").map(|hint| hint.is_true()))
                .unwrap_or_default();
            if self.allowed.as_ref().is_some_and(|allowed| !allowed.has(&name, only_reads)) {
                continue;
            }
            let function = if is_of_several { name.clone() } else { names::prefixed(&self.label, &name) };
            tools.push(RoundTool {
                // OpenAI's functions have no dots.
                function: function.replace('.', "_"),
                label: self.label.clone(),
                needs_approval: self.approval.is_needed(&name, only_reads),
                name,
                definition: definition.clone(),
            });
        }
        tools
    }
}

impl ToolFilter {
    fn read(json: &Json<'_>) -> Option<Self> {
        if let Some(names) = json.read::<Vec<String>>() {
            return Some(Self { names: Some(names), only_reads: false });
        }
        let mut filter = Self::default();
        // What is not understood must not let everything through.
        for (name, value) in json.own_members()? {
            match &*name {
                _ if value.is_null() => {}
                "tool_names" => filter.names = Some(value.read::<Vec<String>>()?),
                "read_only" => filter.only_reads = value.read::<bool>()?,
                _ => return None,
            }
        }
        Some(filter)
    }

    fn has(&self, name: &str, only_reads: bool) -> bool {
        (only_reads || !self.only_reads)
            && self.names.as_ref().is_none_or(|names| names.iter().any(|allowed| allowed == name))
    }
}

impl Approval {
    fn read(json: &Json<'_>) -> Option<Self> {
        match json.text().as_deref() {
            Some("always") => return Some(Self::Always),
            Some("never") => return Some(Self::Never),
            Some(_) => return None,
            None => {}
        }
        let mut always = None;
        let mut never = None;
        for (name, value) in json.own_members()? {
            match &*name {
                _ if value.is_null() => {}
                "always" => always = Some(ToolFilter::read(&value)?),
                "never" => never = Some(ToolFilter::read(&value)?),
                _ => return None,
            }
        }
        Some(Self::Some { always, never })
    }

    fn is_needed(&self, name: &str, only_reads: bool) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Some { always, never } => {
                let is_in = |filter: &Option<ToolFilter>| {
                    filter.as_ref().is_some_and(|filter| filter.has(name, only_reads))
                };
                is_in(always) || !(is_in(never) || (never.is_none() && always.is_some()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use serde_json::{Value, json};

    fn entries(tools: &Value) -> Result<Vec<McpEntry>, Error> {
        let body = json!({"model": "m", "tools": tools}).to_string();
        McpEntry::read_all(&Body::parse(Bytes::from(body)).unwrap(), false).map(|entries| entries.own)
    }

    fn tools(entry: &Value) -> Vec<(String, bool)> {
        let definitions = [
            json!({"name": "read.file", "annotations": {"readOnlyHint": true}}).to_string(),
            json!({"name": "write", "inputSchema": {"type": "object"}}).to_string(),
        ];
        let entries = entries(&json!([entry])).unwrap();
        let tools = entries.iter().flat_map(|entry| entry.tools(&definitions, false));
        tools.map(|tool| (tool.function, tool.needs_approval)).collect()
    }

    #[test]
    fn only_entries_without_a_url_are_the_gateways() {
        let found = entries(&json!([
            {"type": "function", "function": {"name": "mcp", "description": "\"mcp\""}},
            {"type": "mcp", "server_label": "theirs", "server_url": "https://x"},
            {"type": "mcp", "server_label": "theirs", "connector_id": "connector_x"},
            {"type": "mcp", "server_label": "ours", "server_url": null},
        ]))
        .unwrap();
        assert_eq!(found.iter().map(|entry| (entry.place, &*entry.label)).collect::<Vec<_>>(), [(3, "ours")]);
        assert!(entries(&json!([{"type": "web_search"}])).unwrap().is_empty());
    }

    #[test]
    fn all_entries_are_the_gateways_where_a_config_has_it_so() {
        let read = |tools: Value| {
            let body = Body::parse(Bytes::from(json!({"model": "m", "tools": tools}).to_string())).unwrap();
            let has_others = McpEntry::read_all(&body, false).is_ok_and(|entries| entries.has_others);
            (has_others, McpEntry::read_all(&body, true).map(|entries| entries.own))
        };
        let own = json!({"type": "mcp", "server_label": "own"});
        let theirs = json!({"type": "mcp", "server_label": "theirs", "server_url": "https://x/mcp"});
        let [has_none, has_one] = [read(json!([own])), read(json!([own, theirs]))];
        assert_eq!([has_none.0, has_one.0], [false, true]);
        let urls: Vec<Option<String>> = has_one.1.unwrap().into_iter().map(|entry| entry.url).collect();
        assert_eq!(urls, [None, Some("https://x/mcp".to_owned())]);
        for (tool, param) in [
            (json!({"type": "mcp", "server_label": "a", "server_url": 1}), "tools[0].server_url"),
            (json!({"type": "mcp", "server_label": "a", "connector_id": "c"}), "tools[0].connector_id"),
            (json!({"type": "mcp", "server_url": "https://x"}), "tools[0].server_label"),
        ] {
            let (has_others, read) = read(json!([tool]));
            assert_eq!((has_others, read.unwrap_err().param.as_deref()), (true, Some(param)), "{tool}");
        }
    }

    #[test]
    fn wrong_entries_are_refused() {
        for (entry, param) in [
            (json!({"type": "mcp"}), "tools[0].server_label"),
            (json!({"type": "mcp", "server_label": 1}), "tools[0].server_label"),
            (json!({"type": "mcp", "server_label": "a", "allowed_tools": "b"}), "tools[0].allowed_tools"),
            (
                json!({"type": "mcp", "server_label": "a", "require_approval": "maybe"}),
                "tools[0].require_approval",
            ),
            (
                json!({"type": "mcp", "server_label": "a", "require_approval": {"never": 1}}),
                "tools[0].require_approval",
            ),
        ] {
            let error = entries(&json!([entry])).unwrap_err();
            assert_eq!((error.status(), error.param.as_deref()), (400, Some(param)), "{entry}");
        }
    }

    #[test]
    fn filters_choose_tools_and_approvals() {
        let of = |more: Value| {
            let mut entry = json!({"type": "mcp", "server_label": "s"});
            entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            tools(&entry)
        };
        let pair = |name: &str, waits| (name.to_owned(), waits);
        assert_eq!(of(json!({})), [pair("s__read_file", true), pair("s__write", true)]);
        assert_eq!(
            of(json!({"allowed_tools": ["write"], "require_approval": "never"})),
            [pair("s__write", false)]
        );
        assert_eq!(of(json!({"allowed_tools": {"read_only": true}})), [pair("s__read_file", true)]);
        let never = json!({"require_approval": {"never": {"tool_names": ["read.file"]}}});
        assert_eq!(of(never), [pair("s__read_file", false), pair("s__write", true)]);
        let always = json!({"require_approval": {"always": {"tool_names": ["write"]}}});
        assert_eq!(of(always), [pair("s__read_file", false), pair("s__write", true)]);
    }
}
