//! All control routes as rows of one table: method, path, who may call it, whether the data port serves it, too.
//!
//! The axum router and the list of control paths at the data port are both built from this table.

use super::{error, explain, health, metrics, not_implemented, origin_guard, targets};
use crate::net::inbound::control_paths::ControlPaths;
use crate::state::Shared;
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, any, get, post};
use std::sync::Arc;

/// One route. To add a route, write a handler and a row.
struct Route {
    path: &'static str,
    scope: Scope,
    /// Whether requests for it at the data port are passed to the control plane, so that one base URL serves everything
    /// (spec "Endpoints"; reference 1.2 for `health`). Not for `targets` and `explain`: they are neither in the spec
    /// nor in the reference, so at the data port these paths belong to providers.
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
    path: &'static str,
    scope: Scope,
    on_data_port: bool,
    handler: fn() -> MethodRouter<Arc<Shared>>,
) -> Route {
    Route { path, scope, on_data_port, handler }
}

const ROUTES: &[Route] = &[
    row("/livez", Scope::Public, true, || get(health::livez)),
    row("/readyz", Scope::Public, true, || get(health::readyz)),
    row("/metrics", Scope::Operator, false, || get(metrics::show)),
    row("/v1/health", Scope::Public, true, || get(health::health)),
    row("/v1/targets", Scope::Operator, false, || get(targets::list)),
    row("/v1/targets/reset", Scope::Operator, false, || post(targets::reset)),
    row("/v1/explain", Scope::Operator, false, || post(explain::route)),
];

/// First segments below `/v1` of control routes that the specification has and this version does not: both ports
/// respond with 501, and these paths never reach a provider.
const UNBUILT: [&str; 7] =
    ["prompts", "policies", "analytics", "logs", "workspaces", "mcp-servers", "feedback"];

/// The paths that belong to the control plane when they arrive at the data port.
pub fn control_paths() -> ControlPaths {
    let on_data_port = || ROUTES.iter().filter(|route| route.on_data_port).map(|route| route.path);
    let segments = on_data_port().filter_map(first_segment).chain(UNBUILT).collect();
    ControlPaths { segments, paths: on_data_port().filter(|path| first_segment(path).is_none()).collect() }
}

impl Scope {
    fn guard(self, handler: MethodRouter<Arc<Shared>>, shared: &Arc<Shared>) -> MethodRouter<Arc<Shared>> {
        match self {
            Self::Public => handler,
            Self::Operator => handler.layer(from_fn_with_state(Arc::clone(shared), origin_guard::check)),
        }
    }
}

/// All control routes.
pub fn router(shared: Arc<Shared>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        router = router.route(route.path, route.scope.guard((route.handler)(), &shared));
    }
    router
        .method_not_allowed_fallback(error::wrong_method)
        .fallback(any(not_implemented::respond))
        .with_state(shared)
}

/// Whether this path is a control route of the specification that is not built.
pub(super) fn is_unbuilt(path: &str) -> bool {
    first_segment(path).is_some_and(|first| UNBUILT.contains(&first))
}

/// The first segment below `/v1`.
fn first_segment(path: &str) -> Option<&str> {
    path.strip_prefix("/v1/").and_then(|relative| relative.split('/').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_paths_at_the_data_port_follow_the_table() {
        let paths = control_paths();
        for path in ["/livez", "/readyz"] {
            assert!(paths.owns_path(path), "{path}");
        }
        for relative in ["health", "prompts", "prompts/p/render", "mcp-servers", "feedback"] {
            assert!(paths.owns_relative(relative), "{relative}");
        }
        for relative in ["targets", "explain", "chat/completions", "healthy", ""] {
            assert!(!paths.owns_relative(relative), "{relative}");
        }
        assert!(!paths.owns_path("/metrics") && !paths.owns_path("/v1/health"));
    }

    #[test]
    fn an_operators_route_stays_on_the_control_port() {
        let exposed = ROUTES.iter().find(|route| route.scope == Scope::Operator && route.on_data_port);
        assert!(exposed.is_none(), "{:?}", exposed.map(|route| route.path));
    }
}
