//! Saved bundles of MCP servers: a path of its own for some servers, and some of what each has.
//!
//! A bundle only takes away: what a client may use of a server is the server's `access` to say. How clients use one is `proxy::mcp`.

use super::call::Call;
use super::declared::Managed;
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::mcp_servers::check::check_patterns;
use super::mcp_servers::{PROMPTS, RESOURCES, TOOLS};
use super::origin::{ORIGIN, SET};
use super::page;
use super::resource::{Changed, Draft, Resource, create, delete, list, read, update, view};
use super::route::{Route, Shape};
use memory::state::stored::mcp_bundles::MAX_SERVERS;
use memory::store::{Kind, Record};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use uuid::Uuid;
use words::config::read::Problems;
use words::error::Error;
use words::settings::scopes::Scope;

const SERVER: Type = Type::Object(&[
    required("server", Type::Name(128), "The slug of an MCP server of the workspace or the organisation."),
    TOOLS,
    PROMPTS,
    RESOURCES,
]);
const SERVERS: Type = Type::List(&SERVER, 1, MAX_SERVERS);
const SERVERS_DOC: &str =
    "What is in it. A server that is not there, or that the client may not use, is passed over.";

const CREATE: &[Field] = &[
    required("name", Type::Name(255), "For people; the slug begins with it."),
    optional("description", Type::Text(500), "For people."),
    optional("slug", Type::Slug(3, 50), "The path: `/mcp/{slug}`. A server with this slug goes before it."),
    optional("workspace_id", Type::Name(128), "Id or slug of the workspace."),
    required("servers", SERVERS, SERVERS_DOC),
];

const UPDATE: &[Field] = &[
    not_null("name", Type::Name(255), "For people."),
    optional("description", Type::Text(500), "For people."),
    not_null("servers", SERVERS, "Replaces all of them."),
];

const MADE: &[Field] =
    &[required("id", Type::Uuid, "The bundle."), required("slug", Type::Text(128), "Its name in paths.")];

const ITEM: &[Field] = &[
    required("id", Type::Uuid, "The bundle."),
    required("slug", Type::Text(128), "Its name in paths."),
    required("name", Type::Text(255), "For people."),
    nullable("description", Type::Text(500), "For people."),
    required("servers", SERVERS, SERVERS_DOC),
    nullable("workspace_id", Type::Uuid, "Where it is used."),
    required("status", Type::Text(20), "`active`."),
    required("created_at", Type::Time, "When it was made."),
    required("last_updated_at", Type::Time, "When it was changed last."),
    ORIGIN,
    SET,
    required("object", Type::Text(20), "`mcp-bundle`."),
];

const LIST: &[Field] = &[page::WORKSPACE];

pub(super) const ROUTES: &[Route] = &[
    create::<McpBundle>(
        &[Scope::McpServersCreate],
        "Saves a bundle of MCP servers",
        CREATE,
        Shape::Object(MADE),
    ),
    list::<McpBundle>(&[Scope::McpServersList], "Lists bundles of MCP servers", LIST, ITEM),
    read::<McpBundle>(&[Scope::McpServersRead], "Reads a bundle of MCP servers", ITEM),
    update::<McpBundle>(
        &[Scope::McpServersUpdate],
        "Changes a bundle of MCP servers",
        UPDATE,
        Shape::Object(MADE),
    ),
    delete::<McpBundle>(&[Scope::McpServersDelete], "Takes a bundle of MCP servers out of use"),
];

/// As files have it.
pub(super) const MANAGED: Managed = Managed::of::<McpBundle>("mcp-bundles");

struct McpBundle;

impl Resource for McpBundle {
    const KIND: Kind = Kind::McpBundle;
    const NAME: &'static str = "mcp-bundles";
    const PATHS: [&'static str; 2] = ["/v1/mcp-bundles", "/v1/mcp-bundles/{id}"];
    const PREFIX: &'static str = "mcp-";
    const KEPT: &'static [&'static str] = &["name", "description", "servers"];
    const CHANGED: Changed = Changed::Made;

    /// # Errors
    /// 409 for the slug of a server, which would hide the bundle.
    fn slug(call: &Call, workspace: Option<Uuid>) -> Result<String, Error> {
        let slug =
            call.new_slug(Self::KIND, workspace, Self::PREFIX, call.text("name").unwrap_or_default())?;
        let catalog = call.catalog()?;
        let is_server = |workspace| catalog.by_slug(Kind::McpServer, workspace, &slug).is_some();
        if is_server(workspace) || is_server(None) {
            let why = format!(
                "An MCP server has the slug {slug:?}, and goes before the bundle. Choose another one."
            );
            return Err(Error::conflict(why).with_param("slug"));
        }
        Ok(slug)
    }

    fn fill(call: &Call, _: &mut Draft<'_>) -> Result<(), Error> {
        let problems = Problems::default();
        let servers = call.body.get("servers").and_then(Value::as_array).into_iter().flatten();
        let mut named = HashSet::new();
        for (index, server) in servers.enumerate() {
            let Some(server) = server.as_object() else { continue };
            if !server.get("server").and_then(Value::as_str).is_some_and(|slug| named.insert(slug)) {
                problems.push(format!("servers[{index}].server"), None, "is in the list twice");
            }
            check_patterns(server, &format!("servers[{index}]."), &problems);
        }
        if problems.is_empty() { Ok(()) } else { Err(Error::invalid_body(problems.into_vec())) }
    }

    async fn shown(_: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        Ok(view(ITEM, record, json!({"object": "mcp-bundle"})))
    }
}
