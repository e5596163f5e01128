//! What an MCP server is by its own account: `metadata` from what is remembered, `test` from a session now.
//!
//! A server that cannot be reached is no error of the request: the response has why.

use super::{api, check};
use crate::call::Call;
use crate::field::{Field, Type, nullable, required};
use crate::records::time;
use crate::reply::Reply;
use http::header::AUTHORIZATION;
use knowledge::provider::key::bearer;
use knowledge::provider::token_exchange::Credentials;
use memory::net::outbound::mcp::{McpDescription, McpFailure, McpServer};
use memory::state::credentials::FetchContext;
use memory::state::mcp_servers::{McpSync, McpSyncStatus, synced};
use memory::state::stored::mcp_apis::OPENAPI;
use memory::state::stored::mcp_servers::StoredMcpServer;
use memory::store::{Kind, Record};
use motion::engine::mcp::McpPeer;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use words::error::Error;

/// Of a server that takes tokens of persons.
const OF_PERSONS: &str = "nothing is called without a person: the server takes tokens that are issued for those of its clients. Use POST \
                          /v1/mcp-servers/{id}/test with a token of the identity provider";
const NAMES: Type = Type::List(&Type::Text(128), 0, 1000);
const STATUS: Type = Type::OneOf(&["pending", "synced", "failed"]);

pub(super) const METADATA: &[Field] = &[
    nullable(
        "server_name",
        Type::Text(128),
        "The server's name for itself; null before the first synchronisation.",
    ),
    nullable("server_version", Type::Text(128), "Its version."),
    nullable("protocol_version", Type::Text(128), "The version of MCP that both agreed on."),
    nullable("capability_flags", Type::AnyObject, "Its capabilities: a name, and whether it has it."),
    nullable("title", Type::Text(2000), "For people."),
    nullable("description", Type::Text(2000), "For people."),
    nullable("icons", Type::List(&Type::AnyObject, 0, 8), "`{src, mime_type, sizes}`."),
    nullable("tools", NAMES, "The names of its tools."),
    nullable("prompts", NAMES, "The names of its prompts."),
    nullable("resources", NAMES, "The names of its resources."),
    required("sync_status", STATUS, "How the last synchronisation ended; `pending` before its end."),
    nullable(
        "last_synced_at",
        Type::Time,
        "The last synchronisation that did not fail, from which the members above are.",
    ),
    nullable("sync_error", Type::Text(1000), "Why the last one failed."),
];

pub(super) const TESTED: &[Field] = &[
    required(
        "success",
        Type::Flag,
        "Whether a session was initialized; of an API: its document can be used.",
    ),
    nullable("status_code", Type::Integer(100, 999), "The server's HTTP status; null where it sent none."),
    required("response_time_ms", Type::Integer(0, 60_000), "Milliseconds."),
    required("url", Type::Text(2048), "What was called."),
    nullable("server_name", Type::Text(128), "The server's name for itself."),
    nullable("error", Type::Text(1000), "Why there is no session."),
    api::LEFT_OUT,
];

pub(super) async fn read(call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::McpServer)?;
    if let Some(api) = api_of(&call, &record)?.as_ref().and_then(|stored| stored.api.as_ref()) {
        return Ok(Reply::from(api::metadata(api, &record)));
    }
    if call.snapshot.stored.mcp_server(record.id).is_some_and(|stored| stored.exchange.is_some()) {
        // What it says, it says to a person: none is kept for all.
        return Ok(Reply::from(view(&McpSync::failed(OF_PERSONS, Instant::now()))));
    }
    let server = server(&call, &record).await?;
    let sync = synced(&call.shared, record.id, record.revision, server).await;
    Ok(Reply::from(view(&sync)))
}

pub(super) async fn test(mut call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::McpServer)?;
    if let Some(stored) = api_of(&call, &record)? {
        return tested_api(call, &stored).await;
    }
    let mut server = server(&call, &record).await?;
    let started = Instant::now();
    let client = &call.shared.mcp_servers.client;
    let found = match authorize(&call, &record, &mut server).await {
        Ok(()) => client.describe(&server, false, &call.shared.dns, &call.snapshot.hosts).await,
        Err(why) => Err(McpFailure { message: why.message, status: None }),
    };
    let elapsed = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    call.record_change().await;
    let (status, name, error) = match &found {
        Ok(description) => (Some(200), text(&description.server_name), None),
        Err(failure) => (failure.status, Value::Null, Some(failure.message.as_str())),
    };
    Ok(Reply::from(json!({
        "success": found.is_ok(),
        "status_code": status,
        "response_time_ms": elapsed,
        "url": server.url,
        "server_name": name,
        "error": error,
    })))
}

/// The server as requests use it, if it is an API.
fn api_of(call: &Call, record: &Record) -> Result<Option<Arc<StoredMcpServer>>, Error> {
    if !crate::records::members(record).get(OPENAPI).is_some_and(Value::is_object) {
        return Ok(None);
    }
    super::approval::server(call, record).map(Some)
}

/// Its document was read when it was saved: nothing is called.
async fn tested_api(mut call: Call, stored: &StoredMcpServer) -> Result<Reply, Error> {
    call.record_change().await;
    let api = stored.api.as_ref();
    Ok(Reply::from(json!({
        "success": true,
        "status_code": null,
        "response_time_ms": 0,
        "url": stored.url,
        "server_name": api.map(|api| text(&api.title)),
        "error": null,
        "left_out": api.map(api::left_out),
    })))
}

/// With its headers, and its token where the gateway signs in there. Without one, what the server says to that is in the result.
async fn server(call: &Call, record: &Arc<Record>) -> Result<McpServer, Error> {
    let body = call.open_members(record)?;
    let url = body.get("url").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut headers = check::headers(&body);
    let stored = call.snapshot.stored.mcp_server(record.id);
    if let Some(sign_in) = stored.and_then(|stored| stored.sign_in.clone()) {
        let shared = &call.shared;
        let context = FetchContext {
            hosts: &call.snapshot.hosts,
            dns: &shared.dns,
            metrics: &shared.metrics,
            by_operator: false,
        };
        let fetched = shared.credentials.get(&*sign_in, context, SystemTime::now()).await;
        if let Ok((Credentials::Bearer(token), _)) = fetched {
            headers.push((AUTHORIZATION, bearer(&token)?));
        }
    }
    Ok(McpServer { url, headers })
}

/// Adds the token that is issued for whoever sends the request, where the server takes such tokens.
///
/// # Errors
/// There is none.
async fn authorize(call: &Call, record: &Record, server: &mut McpServer) -> Result<(), Error> {
    let stored = call.snapshot.stored.mcp_server(record.id);
    let Some(stored) = stored.filter(|stored| stored.exchange.is_some()) else { return Ok(()) };
    let granted = stored.access.granted_to_all();
    let peer = McpPeer::new(&call.engine, stored, granted, Some(&*call.identity), &call.snapshot);
    let token = peer.token(&call.engine, &call.snapshot).await?;
    server.headers.extend(token.map(|token| (AUTHORIZATION, token)));
    Ok(())
}

fn view(sync: &McpSync) -> Value {
    let status = match sync.status() {
        McpSyncStatus::Pending => "pending",
        McpSyncStatus::Synced => "synced",
        McpSyncStatus::Failed => "failed",
    };
    let of = |member: fn(&McpDescription) -> Value| sync.description.as_deref().map(member);
    json!({
        "server_name": of(|description| text(&description.server_name)),
        "server_version": of(|description| text(&description.server_version)),
        "protocol_version": of(|description| text(&description.protocol_version)),
        "capability_flags": of(|description| description.capability_flags.clone().into()),
        "title": of(|description| json!(description.title)),
        "description": of(|description| json!(description.description)),
        "icons": of(|description| json!(description.icons)),
        "tools": of(|description| json!(description.tools)),
        "prompts": of(|description| json!(description.prompts)),
        "resources": of(|description| json!(description.resources)),
        "sync_status": status,
        "last_synced_at": sync.last_synced_at.map(time),
        "sync_error": sync.error,
    })
}

fn text(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { text.into() }
}
