//! Completions: what an argument of a prompt or of a resource's template may become, which its server knows.

use super::McpRequest;
use super::call::{Naming, refused};
use super::reply::Outgoing;
use motion::engine::mcp::ItemKind;
use motion::engine::request_context::RequestContext;
use pingora_proxy::Session;
use std::borrow::Cow;
use words::api::mcp::message::McpMessage;
use words::error::Error;
use words::json::Json;
use words::json::write::ObjectWriter;

/// Passes a request for completions on to the server of what `params.ref` names.
///
/// # Errors
/// Those of a call.
pub(super) async fn complete(
    request: &McpRequest<'_>,
    session: &mut Session,
    ctx: &mut RequestContext,
) -> Result<Outgoing, Error> {
    let id = request.message.id.as_ref().map_or("null", Json::get);
    let reference = request.message.param("ref").and_then(Json::own_members).unwrap_or_default();
    let text = |wanted: &str| {
        let found = reference.iter().find(|(name, _)| name == wanted);
        found.and_then(|(_, json)| json.text().map(Cow::into_owned))
    };
    let named = match text("type").as_deref() {
        Some("ref/prompt") => Some((ItemKind::Prompt, "name", "uri")),
        Some("ref/resource") => Some((ItemKind::Template, "uri", "name")),
        _ => None,
    };
    let mut names: Vec<&str> = reference.iter().map(|(name, _)| &**name).collect();
    names.sort_unstable();
    // Of two members with one name, or with the name of the other kind, the server could take the one that nobody looked at.
    let is_single = names.windows(2).all(|pair| pair.first() != pair.last());
    let named = named.filter(|(_, _, other)| is_single && !names.contains(other));
    let Some(((kind, member, _), name)) = named.and_then(|named| Some((named, text(named.1)?))) else {
        let why =
            "params.ref must be a ref/prompt with a name, or a ref/resource with a uri, and no member twice.";
        return Ok(refused(ctx, id, why.to_owned()));
    };
    let found = match request.find(ctx, kind, &name).await? {
        Ok(found) => found,
        Err(refused) => return Ok(refused),
    };
    let mut own = Vec::new();
    let mut object = ObjectWriter::open(&mut own);
    for (name, json) in &reference {
        if name == member {
            object.text(&**name, &found.own_name);
        } else {
            object.raw(&**name, json.get());
        }
    }
    object.close();
    let own = String::from_utf8(own).unwrap_or_default();
    let params = request.message.params.iter().map(|(name, json)| {
        let is_reference = name == "ref";
        (name.clone(), Json::parse(&own).filter(|_| is_reference).unwrap_or_else(|| json.clone()))
    });
    let method = request.message.method.clone();
    let message = McpMessage { id: None, method, params: params.collect() };
    request.send(session, ctx, &found, &message, Naming { kind, named: None, label: &name }).await
}
