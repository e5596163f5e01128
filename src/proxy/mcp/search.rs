//! Three tools in the place of a long list: one that searches it, one that describes a tool of it, one that calls one.
//!
//! For `/mcp` and bundles, where the settings have `mcp.search_above`. The tools themselves can be called by their names all the same.

use super::McpRequest;
use motion::engine::mcp::ItemKind;
use motion::engine::request_context::RequestContext;
use serde_json::{Value, json};
use std::borrow::Cow;
use words::api::mcp::message::McpMessage;
use words::api::mcp::reply::{McpReply, member};
use words::api::mcp::search::{SearchedTool, rank};
use words::json::Json;

const SEARCH: &str = "search_tools";
const DESCRIBE: &str = "describe_tool";
const CALL: &str = "call_tool";
/// How many tools a search finds, where the client names no number, and at most.
const FOUND: u64 = 10;
const MAX_FOUND: u64 = 50;
/// The most characters of a description in what a search finds.
const MAX_DESCRIPTION: usize = 500;

/// What a call of one of the three is.
pub(super) enum SearchCall<'m> {
    /// It is responded to here.
    Reply(McpReply),
    /// It is a call of this tool, by this message.
    Tool(Box<McpMessage<'m>>, Cow<'m, str>),
}

/// The three tools, as JSON.
pub(super) fn definitions() -> Vec<String> {
    let text = |doc: &str| json!({"type": "string", "description": doc});
    let name = || text("The tool's name, as search_tools has it.");
    let tool = |name: &str, description: &str, properties: Value, required: &[&str]| {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        let reads = name != CALL;
        json!({"name": name, "description": description, "inputSchema": schema, "annotations": {"readOnlyHint": reads}})
            .to_string()
    };
    vec![
        tool(
            CALL,
            "Calls a tool that search_tools has found.",
            json!({"name": name(), "arguments": {"type": "object", "description": "The tool's arguments, by its inputSchema."}}),
            &["name"],
        ),
        tool(
            DESCRIBE,
            "Shows the whole definition of a tool, with its inputSchema.",
            json!({"name": name()}),
            &["name"],
        ),
        tool(
            SEARCH,
            "Finds tools by words of their names, descriptions and parameters. There are more tools than are listed: search for what a task needs.",
            json!({
                "query": text("A few words. Empty: the first tools by name."),
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_FOUND, "default": FOUND},
            }),
            &["query"],
        ),
    ]
}

/// Whether a list of so many tools is shown as the three.
pub(super) fn is_searched(request: &McpRequest<'_>, ctx: &RequestContext, tools: usize) -> bool {
    let above = ctx.snapshot.settings.mcp.search_above;
    request.catalog.is_of_several() && above.is_some_and(|above| tools > above)
}

/// What the call of a tool is, if the tool is one of the three. `Err`: what is wrong with its arguments.
pub(super) async fn search_call<'m>(
    request: &McpRequest<'m>,
    ctx: &mut RequestContext,
    name: &str,
) -> Option<Result<SearchCall<'m>, String>> {
    if !request.catalog.is_of_several() || ctx.snapshot.settings.mcp.search_above.is_none() {
        return None;
    }
    let arguments = request.message.param("arguments").and_then(Json::own_members).unwrap_or_default();
    let argument =
        |wanted: &str| arguments.iter().find(|(name, _)| name == wanted).map(|(_, json)| json.clone());
    let named = || argument("name").and_then(|name| name.text().map(|name| name.into_owned()));
    let lacks = |member: &str| format!("params.arguments.{member} must be a string.");
    Some(match name {
        SEARCH => {
            let limit = argument("limit").and_then(|limit| limit.read::<u64>()).unwrap_or(FOUND);
            match argument("query").and_then(|query| query.text().map(Cow::into_owned)) {
                Some(query) => {
                    Ok(SearchCall::Reply(search(request, ctx, query, limit.clamp(1, MAX_FOUND)).await))
                }
                None => Err(lacks("query")),
            }
        }
        DESCRIBE => match named() {
            Some(tool) => describe(request, ctx, &tool).await.map(SearchCall::Reply),
            None => Err(lacks("name")),
        },
        CALL => match named() {
            Some(tool) => Ok(inner_call(request, tool, argument("arguments"))),
            None => Err(lacks("name")),
        },
        _ => return None,
    })
}

async fn search(request: &McpRequest<'_>, ctx: &mut RequestContext, query: String, limit: u64) -> McpReply {
    let (items, failed) = request.catalog.items(&request.gateway.engine, &ctx.snapshot, ItemKind::Tool).await;
    ctx.reply.warnings.extend(failed);
    let bytes = items.iter().map(String::len).sum();
    let work = &request.gateway.engine.shared.large_work;
    work.run(bytes, move || {
        let names: Vec<String> = items.iter().map(|item| text_of(item, "name")).collect();
        let tools =
            items.iter().zip(&names).map(|(item, name)| SearchedTool { name, text: searched_text(item) });
        let tools: Vec<SearchedTool<'_>> = tools.collect();
        let found = rank(&query, &tools, limit as usize);
        let shown = |at: &usize| Some((names.get(*at)?, items.get(*at)?));
        let found = found.iter().filter_map(shown).map(|(name, item)| {
            let description: String = text_of(item, "description").chars().take(MAX_DESCRIPTION).collect();
            json!({"name": name, "description": description})
        });
        let found: Vec<Value> = found.collect();
        result(&json!({"tools": found, "total": items.len()}).to_string())
    })
    .await
}

async fn describe(
    request: &McpRequest<'_>,
    ctx: &mut RequestContext,
    name: &str,
) -> Result<McpReply, String> {
    let (items, failed) = request.catalog.items(&request.gateway.engine, &ctx.snapshot, ItemKind::Tool).await;
    ctx.reply.warnings.extend(failed);
    let found = items.iter().find(|item| text_of(item, "name") == name);
    let item = found.ok_or_else(|| format!("Unknown tool: {name}"))?;
    Ok(result(item))
}

/// The message of a call of a tool of the list: as the client's, but for what is called and with what.
fn inner_call<'m>(request: &McpRequest<'m>, tool: String, arguments: Option<Json<'m>>) -> SearchCall<'m> {
    let mut params: Vec<(Cow<'m, str>, Json<'m>)> = Vec::new();
    for (name, json) in &request.message.params {
        match (&**name, &arguments) {
            ("arguments", Some(arguments)) => params.push((name.clone(), arguments.clone())),
            ("arguments", None) => {}
            _ => params.push((name.clone(), json.clone())),
        }
    }
    let message =
        McpMessage { id: request.message.id.clone(), method: request.message.method.clone(), params };
    SearchCall::Tool(Box::new(message), tool.into())
}

/// A text of a tool's definition.
fn text_of(item: &str, name: &str) -> String {
    member(item, name).and_then(|text| text.text().map(Cow::into_owned)).unwrap_or_default()
}

/// What of a tool is searched besides its name: title, description, and the names and descriptions of its parameters.
fn searched_text(item: &str) -> String {
    let mut text = format!("{} {}", text_of(item, "title"), text_of(item, "description"));
    let properties = member(item, "inputSchema").and_then(|schema| {
        let members = schema.own_members()?;
        members.into_iter().find(|(name, _)| name == "properties")?.1.own_members()
    });
    for (name, schema) in properties.unwrap_or_default() {
        text.push(' ');
        text.push_str(&name);
        text.push(' ');
        text.push_str(&text_of(schema.get(), "description"));
    }
    text
}

/// The result of a tool of the gateway's own. `content`: JSON text of an object.
fn result(content: &str) -> McpReply {
    let text = json!([{"type": "text", "text": content}]);
    McpReply::Result(format!("{{\"content\":{text},\"structuredContent\":{content}}}"))
}
