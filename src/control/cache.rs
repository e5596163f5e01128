//! The cache of responses as operators see it: what it holds, and taking entries out of it.
//!
//! Not which responses are cached (`engine::caching`), and not what it did for requests (`analytics`).

use super::call::Call;
use super::field::{Field, Type, optional, required};
use super::reply::Reply;
use super::route::{Access, Route, Shape, get, post};
use memory::cache::{CacheError, CacheKey, Purge, Scope as CacheScope};
use serde_json::json;
use std::sync::Arc;
use words::config::read::Problems;
use words::error::Error;
use words::settings::scopes::Scope;

const PURGE: &[Field] = &[
    optional("key", Type::Text(64), "One entry: `cache.key` of a request's access line."),
    optional(
        "namespace",
        Type::Text(1024),
        "All entries of a namespace (x-gateway-cache-namespace) in the workspace.",
    ),
    optional(
        "workspace_id",
        Type::Name(128),
        "Id or slug. With `namespace` and absent: the key's own workspace, else the default one.",
    ),
    optional("all", Type::Flag, "Everything, in all workspaces."),
];

const PURGED: &[Field] = &[
    required(
        "purged",
        Type::Integer(0, i64::MAX),
        "How many entries were removed, here and in the shared store.",
    ),
    required("object", Type::Text(20), "`cache-purge`."),
];

const STATE: &[Field] = &[
    required("entries", Type::Integer(0, i64::MAX), "Responses in this gateway's memory."),
    required("bytes", Type::Integer(0, i64::MAX), "The memory they take."),
    required("vectors", Type::Integer(0, i64::MAX), "Texts that can be found by their meaning."),
    required("vector_bytes", Type::Integer(0, i64::MAX), "The memory they take."),
    required("calls_in_flight", Type::Integer(0, i64::MAX), "Upstream calls that equal requests may join."),
    required("object", Type::Text(20), "`cache`."),
];

pub(super) const ROUTES: &[Route] = &[
    get("/v1/cache", Access::Scope(&[Scope::ConfigsRead]), "What the cache holds", |call| {
        Box::pin(state(call))
    })
    .replies(Shape::Object(STATE)),
    post("/v1/cache/purge", Access::Scope(&[Scope::ConfigsUpdate]), "Removes cached responses", |call| {
        Box::pin(purge(call))
    })
    .body(PURGE)
    .replies(Shape::Object(PURGED))
    .changes("cache", "purge"),
];

async fn state(call: Call) -> Result<Reply, Error> {
    if call.identity.is_bound {
        return Err(Error::forbidden(
            "What the cache holds is of all workspaces: only keys of the whole organisation see it.",
        ));
    }
    let caching = &call.engine.caching;
    let store = caching.store.stats();
    let index = caching.index.stats();
    Ok(Reply::from(json!({
        "entries": store.entries, "bytes": store.bytes, "vectors": index.entries,
        "vector_bytes": index.bytes,
        "calls_in_flight": caching.calls_in_flight(), "object": "cache",
    })))
}

async fn purge(mut call: Call) -> Result<Reply, Error> {
    let what = wanted(&call)?;
    let caching = Arc::clone(&call.engine.caching);
    caching.index.purge(&what);
    let purged = caching.store.purge(what).await.map_err(|why| match why {
        CacheError::Unreachable(why) => Error::store_unavailable(format!(
            "The entries of this gateway are removed. Those in the shared store are not: {why}. Try again."
        )),
        CacheError::Misconfigured(why) => Error::internal(why),
    })?;
    call.record_change().await;
    Ok(Reply::from(json!({"purged": purged, "object": "cache-purge"})))
}

/// # Errors
/// 400 where nothing is named, or more than one thing; 403 for everything with a key of one workspace.
fn wanted(call: &Call) -> Result<Purge, Error> {
    let one = "name one of them: key, namespace (with workspace_id), workspace_id, all: true";
    let invalid = |path: &str, why: &str| {
        let problems = Problems::default();
        problems.push(path, None, why);
        Error::invalid_body(problems.into_vec())
    };
    let of_scope = |workspace| CacheScope::workspace(workspace, call.snapshot.stored.default_workspace());
    let workspace = call.list_workspace()?;
    match (call.text("key"), call.text("namespace"), call.has("workspace_id"), call.flag("all")) {
        (Some(key), None, false, None | Some(false)) => {
            let why = "is the `cache.key` of an access line: 43 letters, digits, dashes and underscores";
            let key = CacheKey::parse(key).ok_or_else(|| invalid("key", why))?;
            Ok(match call.own_workspace() {
                None => Purge::Key(key),
                own => Purge::OwnKey { workspace: of_scope(own), key },
            })
        }
        (None, Some(namespace), _, None | Some(false)) => {
            let workspace = of_scope(Some(call.new_workspace()?));
            Ok(Purge::Namespace { workspace, namespace: namespace.into() })
        }
        (None, None, true, None | Some(false)) => Ok(Purge::Workspace(of_scope(workspace))),
        (None, None, false, Some(true)) => match call.own_workspace() {
            None => Ok(Purge::All),
            own => Ok(Purge::Workspace(of_scope(own))),
        },
        _ => Err(invalid("", one)),
    }
}
