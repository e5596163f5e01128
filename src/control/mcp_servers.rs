//! Saved MCP servers: address, headers, and what the server is by its own account.
//!
//! How clients use it through the gateway is `proxy::mcp`. How a server is found out about is `net::outbound::mcp`, what is
//! remembered of it `state::mcp_servers`; what a request may save is checked in [`check`].

mod api;
mod approval;
pub(super) mod check;
mod exchange;
mod metadata;
mod resource_metadata;
mod sign_in;

use super::call::Call;
use super::declared::Managed;
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::origin::{ORIGIN, SET};
use super::page;
use super::policies::conditions;
use super::resource::{
    Changed, Draft, Item, Resource, create, delete, list, read, stored_items, update, view,
};
use super::route::{Access, MaxBody, Route, Shape, get, post};
use super::work::Work;
use memory::state::stored::mcp_access::MAX_RULES;
use memory::store::{Kind, Record};
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;
use words::error::Error;
use words::settings::scopes::Scope;

const AUTH_TYPE: Type =
    Type::OneOf(&["headers", "none", "client_credentials", "token_exchange", "oauth_auto"]);
const TRANSPORT: Type = Type::OneOf(&["http", "sse"]);
const AUTH_TYPE_DOC: &str = "`headers`, `client_credentials`, `token_exchange` or `none`; by default what `configurations` has. `oauth_auto` is refused: no person is asked to sign in.";
const TRANSPORT_DOC: &str =
    "`http`: streamable HTTP, the default. `sse`, which MCP has given up, is refused.";
const CONFIGURATIONS: Type = Type::Object(&[
    optional(
        "custom_headers",
        Type::Map(&Type::Text(8192), 50),
        "Sent with every request to the server. Values are secrets: they come back as `*****`, and in an update `*****` \
     keeps the value.",
    ),
    sign_in::OAUTH,
    exchange::TOKEN_EXCHANGE,
]);

const PATTERNS: Type = Type::List(&Type::Name(256), 0, 500);
const ALLOW: Field =
    optional("allow", PATTERNS, "What may be used: names, each with at most one `*` for any text.");
const DENY: Field = optional("deny", PATTERNS, "What may not, before `allow`.");
const ONE_ACCESS: Type = Type::Object(&[ALLOW, DENY]);
pub(super) const TOOLS: Field = optional(
    "tools",
    Type::Object(&[
        ALLOW,
        DENY,
        optional("read_only", Type::Flag, "Only tools that the server marks with `readOnlyHint`."),
    ]),
    "By the server's own names.",
);
pub(super) const PROMPTS: Field = optional("prompts", ONE_ACCESS, "By the server's own names.");
pub(super) const RESOURCES: Field = optional("resources", ONE_ACCESS, "By their URIs.");
const CONDITION: Type = Type::Object(&[
    required(
        "key",
        Type::PolicyKey,
        "`api_key` (the key's id), `workspace_id`, `role` (`owner`, `admin`, `manager`, `member`) or `metadata.<name>`: metadata that the \
         key, its workspace or its token sets, not what a request brings.",
    ),
    optional(
        "value",
        conditions::VALUE,
        "The value it must have, or a list of which it must have one; `*`: any.",
    ),
    optional("excludes", conditions::VALUE, "The value, or the values, it must not have."),
]);
const RULE: Type = Type::Object(&[
    required("conditions", Type::List(&CONDITION, 1, 20), "Whose rule it is: all must be met."),
    TOOLS,
    PROMPTS,
    RESOURCES,
]);
const ACCESS: Type = Type::Object(&[
    TOOLS,
    PROMPTS,
    RESOURCES,
    optional(
        "approved_only",
        Type::Flag,
        "Only tools whose definition was approved (`POST /v1/mcp-servers/{id}/tools/approve`) and has not changed since.",
    ),
    optional(
        "rules",
        Type::List(&RULE, 0, MAX_RULES),
        "More for some clients. What one of a client's rules denies, no other allows.",
    ),
]);
const ACCESS_DOC: &str =
    "What clients may use of the server through the gateway. Nothing that is not allowed here.";

const PRICES: Type = Type::Map(&Type::Number(0.0, 100_000.0), 500);
const PRICES_DOC: &str = "What one call of a tool costs, US cents, by the server's own name of it, with at most one `*`: a name before a \
                          pattern, a longer pattern before a shorter one. Calls without a price are free.";

const CREATE: &[Field] = &[
    required("name", Type::Name(255), "For people; the slug begins with it."),
    optional(
        "url",
        Type::Name(2048),
        "Where the server listens, without a query. Checked as custom hosts are. Of an API: its base URL; by default the first server of \
         the document.",
    ),
    optional("openapi", api::OPENAPI, api::DOC),
    optional("description", Type::Text(500), "For people."),
    optional("slug", Type::Slug(3, 50), "Made of the name where absent."),
    optional("workspace_id", Type::Name(128), "Id or slug of the workspace."),
    optional("auth_type", AUTH_TYPE, AUTH_TYPE_DOC),
    optional("transport", TRANSPORT, TRANSPORT_DOC),
    optional("configurations", CONFIGURATIONS, "How the server is called."),
    optional("access", ACCESS, ACCESS_DOC),
    optional("prices", PRICES, PRICES_DOC),
    optional("mcp_integration_id", Type::Text(128), "Kept and shown, and not used."),
];

const UPDATE: &[Field] = &[
    not_null("name", Type::Name(255), "For people."),
    not_null(
        "url",
        Type::Name(2048),
        "Another host needs its headers with it: the old ones are not sent there.",
    ),
    optional("openapi", api::OPENAPI, "Replaces all of it; null: the server speaks MCP."),
    optional("description", Type::Text(500), "For people."),
    optional(
        "auth_type",
        AUTH_TYPE,
        "`none` removes headers and sign-in, `headers` the sign-in, `client_credentials` the exchange and `token_exchange` the credentials.",
    ),
    optional("transport", TRANSPORT, TRANSPORT_DOC),
    optional("configurations", CONFIGURATIONS, "Replaces all headers and the sign-in; null removes them."),
    optional("access", ACCESS, "Replaces all of it; null allows nothing."),
    optional("prices", PRICES, "Replaces all of them; null: its calls are free."),
    optional("mcp_integration_id", Type::Text(128), "Kept and shown, and not used."),
];

const MADE: &[Field] =
    &[required("id", Type::Uuid, "The server."), required("slug", Type::Text(128), "Its name in paths.")];

const LIST: &[Field] =
    &[optional("id", Type::Text(128), "Only the server with this id or slug."), page::WORKSPACE];

const ITEM: &[Field] = &[
    required("id", Type::Uuid, "The server."),
    required("slug", Type::Text(128), "Its name in paths."),
    required("name", Type::Text(255), "For people."),
    nullable("description", Type::Text(500), "For people."),
    required("url", Type::Text(2048), "Where the server listens."),
    required(
        "auth_type",
        Type::OneOf(&["headers", "none", "client_credentials", "token_exchange"]),
        "How the gateway authenticates there.",
    ),
    required("transport", Type::OneOf(&["http"]), "Streamable HTTP."),
    required(
        "configurations",
        Type::AnyObject,
        "`custom_headers`, `oauth` and `token_exchange`, with masked secrets.",
    ),
    nullable("openapi", Type::AnyObject, "As it was given; in lists without its `document`."),
    nullable("access", ACCESS, ACCESS_DOC),
    nullable("prices", PRICES, PRICES_DOC),
    nullable("mcp_integration_id", Type::Text(128), "As it was given."),
    required("organisation_id", Type::Uuid, "The organisation."),
    nullable("workspace_id", Type::Uuid, "Where it is used."),
    required("status", Type::Text(20), "`active`."),
    required("created_at", Type::Time, "When it was made."),
    required("last_updated_at", Type::Time, "When it was changed last."),
    nullable("owner_id", Type::Text(128), "Who made it."),
    nullable("updated_by", Type::Text(128), "Who changed it last."),
    ORIGIN,
    SET,
    required("object", Type::Text(20), "`mcp-server`."),
];

pub(super) const ROUTES: &[Route] = &[
    create::<McpServer>(&[Scope::McpServersCreate], "Saves an MCP server", CREATE, Shape::Object(MADE)),
    list::<McpServer>(&[Scope::McpServersList], "Lists MCP servers", LIST, ITEM),
    read::<McpServer>(&[Scope::McpServersRead], "Reads an MCP server", ITEM),
    update::<McpServer>(&[Scope::McpServersUpdate], "Changes an MCP server", UPDATE, Shape::Object(MADE)),
    delete::<McpServer>(&[Scope::McpServersDelete], "Takes an MCP server out of use"),
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
    get(
        "/v1/mcp-servers/{id}/tools",
        Access::Scope(&[Scope::McpServersRead]),
        "Lists the tools of an MCP server, with what was approved of them",
        |call| Box::pin(approval::list(call)),
    )
    .works_at(Work::Trial)
    .replies(Shape::Object(approval::LISTED)),
    post(
        "/v1/mcp-servers/{id}/tools/approve",
        Access::Scope(&[Scope::McpServersUpdate]),
        "Approves definitions of tools",
        |call| Box::pin(approval::approve(call)),
    )
    .works_at(Work::Trial)
    .takes(MaxBody::Large)
    .body(approval::APPROVE)
    .replies(Shape::Object(&[required(
        "approved",
        Type::Integer(0, 4000),
        "How many tools have an approval now.",
    )]))
    .changes("mcp-servers", "approve"),
    get("/.well-known/oauth-protected-resource", Access::Open, RESOURCE_SUMMARY, |call| {
        Box::pin(resource_metadata::read(call))
    })
    .replies(Shape::Object(resource_metadata::DESCRIPTION)),
    get("/.well-known/oauth-protected-resource/{*path}", Access::Open, RESOURCE_SUMMARY, |call| {
        Box::pin(resource_metadata::read(call))
    })
    .replies(Shape::Object(resource_metadata::DESCRIPTION)),
];

const RESOURCE_SUMMARY: &str = "Describes an MCP endpoint to clients that sign in (RFC 9728)";

/// As files have it.
pub(super) const MANAGED: Managed = Managed::of::<McpServer>("mcp-servers");

struct McpServer;

impl Resource for McpServer {
    const KIND: Kind = Kind::McpServer;
    const NAME: &'static str = "mcp-servers";
    const PATHS: [&'static str; 2] = ["/v1/mcp-servers", "/v1/mcp-servers/{id}"];
    const PREFIX: &'static str = "mcp-";
    const KEPT: &'static [&'static str] =
        &["name", "description", "mcp_integration_id", "access", "prices", "openapi"];
    const SECRET: &'static [&'static str] = &["configurations"];
    const IS_COMPILED: bool = true;
    const PAGE_SIZE: usize = 100;
    const CHANGED: Changed = Changed::Made;

    fn fill(call: &Call, draft: &mut Draft<'_>) -> Result<(), Error> {
        check::set_connection(call, &mut draft.body)
    }

    fn items(call: &Call) -> Result<Vec<Item>, Error> {
        let mut found = call.list(Self::KIND)?;
        if let Some(named) = call.query_text("id") {
            let id = Uuid::try_parse(named).ok();
            found.retain(|record| id == Some(record.id) || record.slug.as_deref() == Some(named));
        }
        Ok(stored_items(found))
    }

    async fn listed(_: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        Ok(api::without_document(view(ITEM, record, json!({"transport": "http", "object": "mcp-server"}))))
    }

    async fn shown(_: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        Ok(view(ITEM, record, json!({"transport": "http", "object": "mcp-server"})))
    }
}
