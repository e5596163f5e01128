//! What an MCP endpoint of the gateway says of itself to clients that look for a way to sign in (RFC 9728).
//!
//! Without `server.public_url` there is nothing to say: what a request calls the gateway could be anybody's name.

use crate::call::Call;
use crate::field::{Field, Type, optional, required};
use crate::reply::Reply;
use http::Method;
use judgment::route::admission::Endpoint;
use words::api::mcp::protected_resource::{described_path, description};
use words::api::operation::Operation;
use words::error::Error;

pub(super) const DESCRIPTION: &[Field] = &[
    required("resource", Type::Text(2048), "The endpoint's URL: what a token must be for."),
    optional(
        "authorization_servers",
        Type::List(&Type::Text(2048), 1, 1),
        "The issuer of `auth.jwt` of the settings; absent where only service keys count.",
    ),
    required("bearer_methods_supported", Type::List(&Type::Text(20), 1, 1), "`header`."),
    required("scopes_supported", Type::List(&Type::Text(40), 1, 1), "`mcp.invoke`."),
    required("resource_name", Type::Text(100), "For people."),
];

/// The endpoint at the path of the request; `/mcp` where it names none.
pub(super) async fn read(call: Call) -> Result<Reply, Error> {
    let settings = &call.snapshot.settings;
    let Some(url) = settings.server.public_url.as_deref() else {
        return Err(Error::not_found(
            "The gateway does not say where it is reached: set server.public_url in its settings.",
        ));
    };
    let below = match call.named() {
        "" => "/mcp".to_owned(),
        path => format!("/{path}"),
    };
    let path = described_path(url, &below).unwrap_or_default();
    if Endpoint::find(&Method::POST, path).operation != Operation::Mcp {
        return Err(Error::not_found(format!("There is no protected resource at {below}.")));
    }
    let issuer = settings.auth.jwt.as_ref().map(|jwt| jwt.issuer.as_str());
    let issuers: Vec<&str> = issuer.into_iter().filter(|issuer| issuer.starts_with("http")).collect();
    Ok(Reply::from(description(url, path, &issuers)))
}
