//! All control routes as rows of one table: method, path, who may call it, whether the data port serves it, too. Beside it
//! the names that the specification gives to the control plane and that no route has yet.
//!
//! The axum routers of both ports and the list of control paths at the data port are built from these.

use super::{dialect, error, explain, health, metrics, origin_guard, targets, unserved};
use crate::net::inbound::control_paths::ControlPaths;
use crate::state::Shared;
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, any, get, post};
use std::sync::Arc;

/// One route. To add a route, write a handler and a row.
struct Route {
    method: &'static str,
    path: &'static str,
    scope: Scope,
    /// Whether the data port serves it, so that one base URL serves everything (spec "Endpoints"; reference 1.2 for
    /// `health`). Where it does not, its name is the control plane's there all the same.
    on_data_port: bool,
    handler: fn() -> MethodRouter<Arc<Shared>>,
}

/// Who may call a route. Authentication belongs in [`Scope::guard`]. Until the control plane has keys of its own, its
/// listen address is its only protection; no page in a browser there can use an operator's route ([`origin_guard`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Load balancers and anyone else: the route shows no settings and no traffic.
    Public,
    /// Operators: the route shows or changes what the process does.
    Operator,
}

const fn row(
    method: &'static str,
    path: &'static str,
    scope: Scope,
    on_data_port: bool,
    handler: fn() -> MethodRouter<Arc<Shared>>,
) -> Route {
    Route { method, path, scope, on_data_port, handler }
}

const ROUTES: &[Route] = &[
    row("GET", "/livez", Scope::Public, true, || get(health::livez)),
    row("GET", "/readyz", Scope::Public, true, || get(health::readyz)),
    row("GET", "/metrics", Scope::Operator, false, || get(metrics::show)),
    row("GET", "/v1/health", Scope::Public, true, || get(health::health)),
    row("GET", "/v1/targets", Scope::Operator, false, || get(targets::list)),
    row("POST", "/v1/targets/reset", Scope::Operator, false, || post(targets::reset)),
    row("POST", "/v1/explain", Scope::Operator, false, || post(explain::route)),
];

/// The names below `/v1` that the specification or the reference (section 1.2) gives to the control plane, with every
/// path below them: both ports respond with 501 where no route is built, and no provider gets such a request, which may
/// contain a secret. Not `models`: that is an operation of the data plane.
const NAMES: &[&str] = &[
    "prompts",
    "labels",
    "collections",
    "policies",
    "analytics",
    "logs",
    "workspaces",
    "admin",
    "mcp-servers",
    "mcp-integrations",
    "api-keys",
    "virtual-keys",
    "providers",
    "integrations",
    "configs",
    "guardrails",
    "feedback",
    "audit-logs",
    "scim",
    "secret-references",
    "workspace-exclusions",
    "model-configs",
];

/// The names that the reference also has outside `/v1`.
const UNVERSIONED: &[&str] = &["model-configs", "metrics"];

/// The port at which a request arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    Data,
    Control,
}

/// The paths that belong to the control plane when they arrive at the data port.
pub fn control_paths() -> ControlPaths {
    let mut names = NAMES.to_vec();
    names.extend(ROUTES.iter().filter_map(|route| first_segment(route.path)));
    let is_open = |route: &&Route| route.on_data_port && first_segment(route.path).is_none();
    let open = ROUTES.iter().filter(is_open).map(|route| route.path).collect();
    ControlPaths { names, unversioned: UNVERSIONED.to_vec(), open }
}

/// What is built, as `GET /livez, GET /readyz`. `on_data_port`: whether the data port serves it.
pub(super) fn built(on_data_port: bool) -> String {
    let routes = ROUTES.iter().filter(|route| route.on_data_port == on_data_port);
    routes.map(|route| format!("{} {}", route.method, route.path)).collect::<Vec<_>>().join(", ")
}

/// Whether this path has a name of the specification. Routes are found before.
pub(super) fn is_unbuilt(path: &str) -> bool {
    control_paths().name(path).is_some_and(|name| NAMES.contains(&name))
}

/// Whether this path is a route of the control port only.
pub(super) fn is_on_control_port_only(path: &str) -> bool {
    ROUTES.iter().any(|route| !route.on_data_port && route.path == path)
}

impl Scope {
    fn guard(self, handler: MethodRouter<Arc<Shared>>, shared: &Arc<Shared>) -> MethodRouter<Arc<Shared>> {
        match self {
            Self::Public => handler,
            Self::Operator => handler.layer(from_fn_with_state(Arc::clone(shared), origin_guard::check)),
        }
    }
}

/// The control routes of one port.
pub fn router(shared: Arc<Shared>, port: Port) -> Router {
    let mut router = Router::new();
    for route in ROUTES.iter().filter(|route| port == Port::Control || route.on_data_port) {
        router = router.route(route.path, route.scope.guard((route.handler)(), &shared));
    }
    router
        .method_not_allowed_fallback(error::wrong_method)
        .fallback(any(unserved::respond))
        .layer(from_fn(dialect::write))
        .with_state(shared)
}

/// The first segment below `/v1`.
fn first_segment(path: &str) -> Option<&str> {
    path.strip_prefix("/v1/").and_then(|relative| relative.split('/').next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::operation::Operation;
    use http::Method;

    #[test]
    fn control_paths_at_the_data_port_follow_the_table() {
        let paths = control_paths();
        for route in ROUTES {
            assert!(paths.owns(route.path), "{}", route.path);
            let needs_no_key = matches!(route.path, "/livez" | "/readyz");
            assert_eq!(paths.is_open(route.path), needs_no_key, "{}", route.path);
        }
        for path in ["/v1/chat/completions", "/v1/models", "/v1/healthy", "/v1/files", "/v1/", "/health"] {
            assert!(!paths.owns(path), "{path}");
        }
    }

    /// A name of the control plane would hide an operation of the same name.
    #[test]
    fn no_operation_has_a_name_of_the_control_plane() {
        for name in control_paths().names {
            for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE] {
                assert_eq!(Operation::find(&method, name), Operation::Passthrough, "{name}");
            }
        }
    }

    #[test]
    fn an_operators_route_stays_on_the_control_port() {
        let exposed = ROUTES.iter().find(|route| route.scope == Scope::Operator && route.on_data_port);
        assert!(exposed.is_none(), "{:?}", exposed.map(|route| route.path));
    }
}
