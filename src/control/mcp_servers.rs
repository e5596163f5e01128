//! Saved MCP servers: address, headers, and what the server is by its own account.
//!
//! No traffic of MCP clients goes through the gateway. How a server is found out about is `net::outbound::mcp`, what is
//! remembered of it `state::mcp_servers`; what a request may save is checked in [`check`].

mod check;
mod metadata;

use super::ORGANISATION;
use super::call::Call;
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::page::{self, Page};
use super::records::{archived, changed, created, member, members, overlay, put, time};
use super::reply::Reply;
use super::route::{Access, Route, Shape, delete, get, post, put as put_route};
use memory::store::{Kind, Record};
use serde_json::{Map, Value, json};
use words::error::Error;
use words::settings::scopes::Scope;

const AUTH_TYPE: Type = Type::OneOf(&["headers", "none", "oauth_auto"]);
const TRANSPORT: Type = Type::OneOf(&["http", "sse"]);
const AUTH_TYPE_DOC: &str = "`headers` or `none`; by default what `configurations` has. `oauth_auto` is refused: the gateway signs in nowhere.";
const TRANSPORT_DOC: &str =
    "`http`: streamable HTTP, the default. `sse`, which MCP has given up, is refused.";
const CONFIGURATIONS: Type = Type::Object(&[optional(
    "custom_headers",
    Type::Map(&Type::Text(8192), 50),
    "Sent with every request to the server. Values are secrets: they come back as `*****`, and in an update `*****` \
     keeps the value.",
)]);

const CREATE: &[Field] = &[
    required("name", Type::Name(255), "For people; the slug begins with it."),
    required(
        "url",
        Type::Name(2048),
        "Where the server listens, without a query. Checked as custom hosts are.",
    ),
    optional("description", Type::Text(500), "For people."),
    optional("slug", Type::Slug(3, 50), "Made of the name where absent."),
    optional("workspace_id", Type::Name(128), "Id or slug of the workspace."),
    optional("auth_type", AUTH_TYPE, AUTH_TYPE_DOC),
    optional("transport", TRANSPORT, TRANSPORT_DOC),
    optional("configurations", CONFIGURATIONS, "How the server is called."),
    optional("mcp_integration_id", Type::Text(128), "Kept and shown, and not used."),
];

const UPDATE: &[Field] = &[
    not_null("name", Type::Name(255), "For people."),
    not_null(
        "url",
        Type::Name(2048),
        "Another host needs its headers with it: the old ones are not sent there.",
    ),
    optional("description", Type::Text(500), "For people."),
    optional("auth_type", AUTH_TYPE, "`none` removes the headers."),
    optional("transport", TRANSPORT, TRANSPORT_DOC),
    optional("configurations", CONFIGURATIONS, "Replaces all headers; null removes them."),
    optional("mcp_integration_id", Type::Text(128), "Kept and shown, and not used."),
];

const MADE: &[Field] =
    &[required("id", Type::Uuid, "The server."), required("slug", Type::Text(128), "Its name in paths.")];

const ITEM: &[Field] = &[
    required("id", Type::Uuid, "The server."),
    required("slug", Type::Text(128), "Its name in paths."),
    required("name", Type::Text(255), "For people."),
    nullable("description", Type::Text(500), "For people."),
    required("url", Type::Text(2048), "Where the server listens."),
    required("auth_type", Type::OneOf(&["headers", "none"]), "Whether headers are sent."),
    required("transport", Type::OneOf(&["http"]), "Streamable HTTP."),
    required("configurations", Type::AnyObject, "`custom_headers`, with masked values."),
    nullable("mcp_integration_id", Type::Text(128), "As it was given."),
    required("organisation_id", Type::Uuid, "The organisation."),
    nullable("workspace_id", Type::Uuid, "Where it is used."),
    required("status", Type::Text(20), "`active`."),
    required("created_at", Type::Time, "When it was made."),
    required("last_updated_at", Type::Time, "When it was changed last."),
    nullable("owner_id", Type::Text(128), "Who made it."),
    nullable("updated_by", Type::Text(128), "Who changed it last."),
    required("object", Type::Text(20), "`mcp-server`."),
];

pub(super) const ROUTES: &[Route] = &[
    post("/v1/mcp-servers", Access::Scope(&[Scope::McpServersCreate]), "Saves an MCP server", |call| {
        Box::pin(create(call))
    })
    .body(CREATE)
    .replies(Shape::Object(MADE))
    .changes("mcp-servers", "create"),
    get("/v1/mcp-servers", Access::Scope(&[Scope::McpServersList]), "Lists MCP servers", |call| {
        Box::pin(list(call))
    })
    .query(page::WORKSPACE_QUERY)
    .replies(Shape::List(ITEM)),
    get("/v1/mcp-servers/{id}", Access::Scope(&[Scope::McpServersRead]), "Reads an MCP server", |call| {
        Box::pin(read(call))
    })
    .replies(Shape::Object(ITEM)),
    put_route(
        "/v1/mcp-servers/{id}",
        Access::Scope(&[Scope::McpServersUpdate]),
        "Changes an MCP server",
        |call| Box::pin(update(call)),
    )
    .body(UPDATE)
    .replies(Shape::Object(MADE))
    .changes("mcp-servers", "update"),
    delete(
        "/v1/mcp-servers/{id}",
        Access::Scope(&[Scope::McpServersDelete]),
        "Takes an MCP server out of use",
        |call| Box::pin(remove(call)),
    )
    .replies(Shape::Empty)
    .changes("mcp-servers", "delete"),
    post(
        "/v1/mcp-servers/{id}/test",
        Access::Scope(&[Scope::McpServersRead]),
        "Initializes a session with an MCP server now",
        |call| Box::pin(metadata::test(call)),
    )
    .replies(Shape::Object(metadata::TESTED))
    .changes("mcp-servers", "test"),
    get(
        "/v1/mcp-servers/{id}/metadata",
        Access::Scope(&[Scope::McpServersRead]),
        "Shows what an MCP server is by its own account",
        |call| Box::pin(metadata::read(call)),
    )
    .replies(Shape::Object(metadata::METADATA)),
];

/// The members of a body whose values are secrets.
const SECRET: [&str; 1] = ["configurations"];
/// The members that a request sets as they are.
const PLAIN: [&str; 3] = ["name", "description", "mcp_integration_id"];

async fn create(mut call: Call) -> Result<Reply, Error> {
    let workspace = call.new_workspace()?;
    let name = call.text("name").unwrap_or_default();
    let slug = call.new_slug(Kind::McpServer, Some(workspace), "mcp-", name)?;
    let mut body = Map::new();
    overlay(&mut body, &call.body, &PLAIN);
    check::set_connection(&call, &mut body)?;
    body.insert("owner_id".to_owned(), call.actor().into());
    body.insert("updated_by".to_owned(), call.actor().into());
    let mut record = created(Kind::McpServer, Some(workspace), slug, &Value::Null, call.now);
    call.set_body(&mut record, body, &SECRET)?;
    call.commit(vec![put(record.clone())]).await?;
    Ok(Reply::from(json!({"id": record.id, "slug": record.slug})))
}

async fn update(mut call: Call) -> Result<Reply, Error> {
    let before = call.find(Kind::McpServer)?;
    call.check_owner(&before)?;
    let mut body = call.open_members(&before)?;
    overlay(&mut body, &call.body, &PLAIN);
    check::set_connection(&call, &mut body)?;
    body.insert("updated_by".to_owned(), call.actor().into());
    let mut record = changed(&before, &Value::Null, call.now);
    call.set_body(&mut record, body, &SECRET)?;
    call.commit(vec![put(record)]).await?;
    Ok(Reply::from(json!({"id": before.id, "slug": before.slug})))
}

async fn list(call: Call) -> Result<Reply, Error> {
    let found = call.list(Kind::McpServer)?;
    Ok(Page::of(&call, 100).reply(&found, |record| view(record)))
}

async fn read(call: Call) -> Result<Reply, Error> {
    Ok(Reply::from(view(&*call.find(Kind::McpServer)?)))
}

async fn remove(mut call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::McpServer)?;
    call.check_owner(&record)?;
    call.commit(vec![put(archived(&record, call.now))]).await?;
    Ok(Reply::empty())
}

fn view(record: &Record) -> Value {
    let body = members(record);
    json!({
        "id": record.id,
        "slug": record.slug,
        "name": member(&body, "name"),
        "description": member(&body, "description"),
        "url": member(&body, "url"),
        "auth_type": member(&body, "auth_type"),
        "transport": "http",
        "configurations": member(&body, "configurations"),
        "mcp_integration_id": member(&body, "mcp_integration_id"),
        "organisation_id": ORGANISATION,
        "workspace_id": record.workspace,
        "status": record.status.as_str(),
        "created_at": time(record.created_at),
        "last_updated_at": time(record.updated_at),
        "owner_id": member(&body, "owner_id"),
        "updated_by": member(&body, "updated_by"),
        "object": "mcp-server",
    })
}
