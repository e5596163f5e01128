//! Approved definitions of tools: what a server lists now beside what was approved, and approving it.
//!
//! What is approved is the definition by its hash, which the client has seen: one that changes meanwhile is not. What a missing approval leads
//! to is `engine::mcp`'s.

use super::api;
use crate::call::Call;
use crate::field::{Field, Type, nullable, optional, required};
use crate::records::changed;
use crate::reply::Reply;
use memory::state::mcp_sessions::{ListPurpose, McpItem, McpItems, McpList};
use memory::state::stored::mcp_servers::{APPROVED, StoredMcpServer};
use memory::store::{Change, Kind, Record};
use motion::engine::mcp::McpPeer;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use words::api::mcp::definition::{canonical, changes, hash, hash_text};
use words::error::Error;

/// How old the list may be that is shown.
const MAX_AGE: Duration = Duration::from_secs(5);
/// The most bytes of all approved definitions of a server.
const MAX_BYTES: usize = 1 << 20;

const TOOL: &[Field] = &[
    required("name", Type::Text(1024), "The server's own name of it."),
    required(
        "status",
        Type::OneOf(&["approved", "changed", "new", "gone"]),
        "`changed`: another definition was approved. `gone`: one was approved, and the server lists it no longer; of a server with `token_exchange`: not for whoever sends this request.",
    ),
    nullable("hash", Type::Text(64), "Of the definition now: SHA-256, hexadecimal."),
    nullable("definition", Type::AnyObject, "What the server lists now."),
    nullable("approved_hash", Type::Text(64), "Of the approved definition."),
    required("changes", Type::List(&Type::AnyObject, 0, 100), "What differs: `{path, approved, now}`."),
];

pub(super) const LISTED: &[Field] = &[
    required("approved_only", Type::Flag, "Whether clients may use approved definitions alone."),
    required("data", Type::List(&Type::Object(TOOL), 0, 4000), "By name."),
    api::LEFT_OUT,
    required("object", Type::Text(20), "`list`."),
];

pub(super) const APPROVE: &[Field] = &[
    optional(
        "tools",
        Type::Map(&Type::Text(64), 2000),
        "The hash of each definition that is approved, by the tool's name. Other approvals stay.",
    ),
    optional(
        "all",
        Type::Flag,
        "Approves all that is listed now; approvals of tools that are gone end, but where the server lists for persons.",
    ),
];

/// A tool, by what was approved and what is listed.
#[derive(Default)]
struct Tool {
    now: Option<Value>,
    now_hash: Option<String>,
    approved: Option<Value>,
    approved_hash: Option<String>,
}

impl Tool {
    fn view(&self, name: &str) -> Value {
        let status = match (&self.now_hash, &self.approved_hash) {
            (Some(now), Some(approved)) if now == approved => "approved",
            (Some(_), Some(_)) => "changed",
            (Some(_), None) => "new",
            (None, _) => "gone",
        };
        let changes = match (&self.approved, &self.now) {
            (Some(approved), Some(now)) => changes(approved, now),
            _ => Vec::new(),
        };
        json!({"name": name, "status": status, "hash": self.now_hash, "definition": self.now, "approved_hash": self.approved_hash,
            "changes": changes})
    }
}

pub(super) async fn list(call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::McpServer)?;
    let server = server(&call, &record)?;
    let listed = listed(&call, &server).await?;
    let mut tools: BTreeMap<String, Tool> = BTreeMap::new();
    for (name, approved) in approved(&record) {
        let tool = tools.entry(name).or_default();
        tool.approved_hash = approved.get("hash").and_then(Value::as_str).map(str::to_owned);
        tool.approved = approved.get("definition").cloned();
    }
    for (name, (definition, hash)) in listed {
        let tool = tools.entry(name).or_default();
        (tool.now, tool.now_hash) = (Some(definition), Some(hash));
    }
    let data: Vec<Value> = tools.iter().map(|(name, tool)| tool.view(name)).collect();
    let mut reply = json!({"approved_only": server.needs_approval(), "data": data, "object": "list"});
    if let (Some(api), Some(members)) = (&server.api, reply.as_object_mut()) {
        members.insert("left_out".to_owned(), api::left_out(api));
    }
    Ok(Reply::from(reply))
}

pub(super) async fn approve(mut call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::McpServer)?;
    let server = server(&call, &record)?;
    let listed = listed(&call, &server).await?;
    let mut kept = approved(&record);
    let wanted = call.body.get("tools").and_then(Value::as_object);
    if call.flag("all") == Some(true) {
        // What one person's list lacks, another one's may have.
        if server.exchange.is_none() {
            kept.clear();
        }
        kept.extend(listed.iter().map(|(name, found)| (name.clone(), entry(found))));
    } else if let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) {
        for (name, hash) in wanted {
            let found = listed.get(name).filter(|(_, now)| hash.as_str() == Some(now));
            let found = found.ok_or_else(|| {
                Error::conflict(format!(
                    "The tool {name:?} is not listed with this definition now. Read the list again, and approve what it has."
                ))
                .with_param(format!("tools.{name}"))
            })?;
            kept.insert(name.clone(), entry(found));
        }
    } else {
        return Err(Error::invalid_request(
            "tools",
            "Name what is approved: tools with their hashes, or all: true.",
        ));
    }
    let mut body: Map<String, Value> = crate::records::members(&record);
    let kept = Value::Object(kept);
    if kept.to_string().len() > MAX_BYTES {
        let why = format!(
            "The approved definitions of a server may have {MAX_BYTES} bytes together. Approve fewer."
        );
        return Err(Error::invalid_request("tools", why));
    }
    let count = kept.as_object().map_or(0, Map::len);
    body.insert(APPROVED.to_owned(), kept);
    let changed = changed(&record, &Value::Object(body), call.now);
    call.commit(vec![Change::Put(Arc::new(changed))]).await?;
    Ok(Reply::from(json!({"approved": count})))
}

fn entry((definition, hash): &(Value, String)) -> Value {
    json!({"hash": hash, "definition": definition})
}

/// The approvals of a record, by the tool's name.
fn approved(record: &Record) -> Map<String, Value> {
    match crate::records::members(record).remove(APPROVED) {
        Some(Value::Object(approved)) => approved,
        _ => Map::new(),
    }
}

/// What the server lists now: each definition and its hash, by name.
async fn listed(
    call: &Call,
    server: &Arc<StoredMcpServer>,
) -> Result<BTreeMap<String, (Value, String)>, Error> {
    let granted = server.access.granted_to_all();
    let peer = McpPeer::new(&call.engine, Arc::clone(server), granted, Some(&*call.identity), &call.snapshot);
    // An API lists what its document has: nothing is called.
    if let Some(refusal) = peer.refusal().filter(|_| server.api.is_none()) {
        return Err(refusal);
    }
    let items: Result<McpItems, String> =
        peer.items(&call.engine, &call.snapshot, McpList::Tools, MAX_AGE, ListPurpose::ThisServer).await;
    let items = match items {
        Ok(items) => items,
        Err(why) => {
            let unauthorized = peer.unauthorized(&call.engine, &call.snapshot).await;
            let message = format!("The MCP server {} cannot be listed.", server.slug);
            return Err(unauthorized.unwrap_or_else(|| Error::unreachable(message, why)));
        }
    };
    let tool = |item: &McpItem| {
        let text = canonical(&item.text)?;
        let definition: Value = serde_json::from_str(&text).ok()?;
        let name = definition.get("name")?.as_str()?.to_owned();
        Some((name, (definition, hash_text(&hash(&text)))))
    };
    // Of two with one name the first counts, as in clients' lists.
    let mut found = BTreeMap::new();
    for (name, tool) in items.iter().filter_map(tool) {
        found.entry(name).or_insert(tool);
    }
    Ok(found)
}

/// The server as requests use it.
pub(super) fn server(call: &Call, record: &Record) -> Result<Arc<StoredMcpServer>, Error> {
    let found = call.snapshot.stored.mcp_server(record.id);
    found.ok_or_else(|| Error::conflict("The MCP server cannot be used now: the log has why."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_shown_by_what_was_approved_of_it() {
        let definition = |text: &str| Some(json!({"name": "a", "description": text}));
        let hash = |text: &str| Some(text.to_owned());
        for (tool, status, count) in [
            (
                Tool {
                    now: definition("x"),
                    now_hash: hash("1"),
                    approved: definition("x"),
                    approved_hash: hash("1"),
                },
                "approved",
                0,
            ),
            (
                Tool {
                    now: definition("y"),
                    now_hash: hash("2"),
                    approved: definition("x"),
                    approved_hash: hash("1"),
                },
                "changed",
                1,
            ),
            (Tool { now: definition("y"), now_hash: hash("2"), ..Tool::default() }, "new", 0),
            (Tool { approved: definition("x"), approved_hash: hash("1"), ..Tool::default() }, "gone", 0),
        ] {
            let shown = tool.view("a");
            assert_eq!(
                (&shown["status"], shown["changes"].as_array().unwrap().len()),
                (&json!(status), count)
            );
        }
    }
}
