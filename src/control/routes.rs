//! All control routes: the tables of the resources, a line each. Beside them the names that belong to the
//! control plane and that no route has yet.
//!
//! The axum routers of both ports, the list of control paths at the data port and the OpenAPI document are built from these.
//!
//! The names that the data port hands over (`ControlPaths`, which reads a path as leniently as any server might) are made here
//! too, and `main` gives them to the data plane.

use super::route::{Access, Route};
use super::services::Services;
use super::{console, dialect, dispatch, error, unserved};
use axum::Router;
use axum::middleware::from_fn;
use axum::routing::any;
use memory::net::inbound::control_paths::ControlPaths;
use std::collections::BTreeSet;

/// The tables of routes. To add a resource, add its table.
const TABLES: &[&[Route]] = &[
    crate::health::ROUTES,
    crate::metrics::ROUTES,
    crate::targets::ROUTES,
    crate::nodes::ROUTES,
    crate::settings::ROUTES,
    crate::explain::ROUTES,
    crate::openapi::ROUTES,
    crate::workspaces::ROUTES,
    crate::workspaces::MEMBER_ROUTES,
    crate::users::ROUTES,
    crate::api_keys::ROUTES,
    crate::own_limits::ROUTES,
    crate::providers::ROUTES,
    crate::provider_drain::ROUTES,
    crate::provider_trial::ROUTES,
    crate::integrations::ROUTES,
    crate::integrations::MODEL_ROUTES,
    crate::integrations::WORKSPACE_ROUTES,
    crate::virtual_keys::ROUTES,
    crate::configs::ROUTES,
    crate::model_names::ROUTES,
    crate::guardrails::ROUTES,
    crate::cache::ROUTES,
    crate::batches::ROUTES,
    crate::prompts::ROUTES,
    crate::partials::ROUTES,
    crate::labels::ROUTES,
    crate::collections::ROUTES,
    crate::policies::USAGE_ROUTES,
    crate::policies::ENTITY_ROUTES,
    crate::policies::RATE_ROUTES,
    crate::mcp_servers::ROUTES,
    crate::mcp_bundles::ROUTES,
    crate::declared::ROUTES,
    crate::audit_logs::ROUTES,
    crate::pricing::ROUTES,
    crate::analytics::GROUP_ROUTES,
    crate::analytics::GRAPH_ROUTES,
    crate::analytics::FEEDBACK_ROUTES,
    crate::logs::ROUTES,
    crate::logs::EXPORT_ROUTES,
    crate::logs::FILE_ROUTES,
    crate::feedback::ROUTES,
    crate::console::ROUTES,
];

/// All routes.
pub(super) fn routes() -> impl Iterator<Item = &'static Route> {
    TABLES.iter().copied().flatten()
}

/// The names below `/v1` that are the control plane's (those of Portkey's API too), with every
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

/// The names outside `/v1`: those that Portkey also has there, and the console.
const UNVERSIONED: &[&str] = &["model-configs", "metrics", "console"];

/// The port at which a request arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    Data,
    Control,
}

/// The paths that belong to the control plane when they arrive at the data port.
pub fn control_paths() -> ControlPaths {
    let mut names = NAMES.to_vec();
    names.extend(routes().filter_map(|route| first_segment(route.path)));
    // Those outside /v1, and those below it that anyone may call with any parameter.
    let is_open = |route: &&Route| {
        let is_unversioned = first_segment(route.path).is_none();
        route.on_data_port
            && (is_unversioned
                || (matches!(route.access, Access::Open | Access::Link) && route.path.contains('{')))
    };
    let open = routes().filter(is_open).map(|route| route.path).collect();
    ControlPaths { names, unversioned: UNVERSIONED.to_vec(), open }
}

/// The first segments below `/v1` of what is built.
pub(super) fn built() -> BTreeSet<&'static str> {
    routes().filter_map(|route| first_segment(route.path)).collect()
}

/// Whether this path has a name of the control plane that no route has.
pub(super) fn is_unbuilt(path: &str) -> bool {
    let is_built = |name: &str| routes().any(|route| first_segment(route.path) == Some(name));
    control_paths().name(path).is_some_and(|name| NAMES.contains(&name) && !is_built(name))
}

/// Whether there is a route for this path, whatever its method and port.
pub(super) fn has_route(path: &str) -> bool {
    routes().any(|route| {
        let mut given = path.split('/');
        let fits = |part: &str| match part.strip_prefix('{') {
            Some(parameter) if parameter.starts_with('*') => given.by_ref().count() > 0,
            Some(_) => given.next().is_some_and(|given| !given.is_empty()),
            None => given.next() == Some(part),
        };
        route.path.split('/').all(fits) && given.next().is_none()
    })
}

/// Whether a route is served at the data port. `has_control`: with the control API, by `listen.control_on_data`; else only what anyone may
/// call, and what clients of models call.
fn is_on_data_port(route: &Route, has_control: bool) -> bool {
    let is_clients = route.is_for_clients || route.access == Access::Open;
    route.on_data_port && (has_control || is_clients)
}

/// The control routes of one port.
pub fn router(services: Services, port: Port) -> Router {
    let mut router = Router::new();
    let snapshot = services.shared.settings_arc();
    let has_control = snapshot.settings.listen.control_on_data;
    let has_console = snapshot.settings.console.is_enabled && port == Port::Control;
    let is_served = |route: &&Route| port == Port::Control || is_on_data_port(route, has_control);
    for route in routes().filter(is_served).filter(|route| has_console || !console::has(route)) {
        router = router.route(route.path, dispatch::handler(route, port));
    }
    if has_console {
        router = console::attach(router, &services);
    }
    router
        .method_not_allowed_fallback(error::wrong_method)
        .fallback(any(unserved::respond))
        .layer(from_fn(dialect::write))
        .with_state(services)
}

/// The first segment below `/v1`.
fn first_segment(path: &str) -> Option<&str> {
    path.strip_prefix("/v1/").and_then(|relative| relative.split('/').next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;
    use words::api::operation::Operation;
    use words::settings::scopes::Scope;

    #[test]
    fn control_paths_at_the_data_port_follow_the_table() {
        let paths = control_paths();
        for route in routes() {
            assert!(paths.owns(route.path), "{}", route.path);
            // Prices are no secret, nor is how to sign in; links to files of exports are signed.
            let is_below = ["model-configs/", "export-files/", "/.well-known/"]
                .iter()
                .any(|name| route.path.contains(name));
            let needs_no_key = matches!(route.path, "/livez" | "/readyz") || is_below;
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
    fn without_the_control_api_the_data_port_has_what_clients_and_health_checks_call() {
        let left = routes().filter(|route| is_on_data_port(route, false));
        let left: Vec<_> = left.map(|route| format!("{} {}", route.method, route.path)).collect();
        assert_eq!(
            left,
            [
                "GET /livez",
                "GET /readyz",
                "GET /v1/health",
                "GET /v1/openapi.json",
                "GET /v1/api-keys/self",
                "GET /v1/api-keys/self/limits",
                "POST /v1/prompts/{id}/render",
                "GET /.well-known/oauth-protected-resource",
                "GET /.well-known/oauth-protected-resource/{*path}",
                "GET /model-configs/pricing/{provider}/{*model}",
                "GET /v1/model-configs/pricing/{provider}/{*model}",
                "POST /v1/logs",
                "POST /v1/feedback",
                "PUT /v1/feedback/{id}",
            ]
        );
    }

    /// What an edge node refuses is what the audit log has as a change. Of everything else it must be said here that it changes no stored
    /// object.
    #[test]
    fn every_route_that_changes_an_object_is_refused_at_an_edge_node() {
        let others = routes().filter(|route| route.method != "GET" && !route.writes());
        let others: Vec<_> = others.map(|route| format!("{} {}", route.method, route.path)).collect();
        assert_eq!(
            others,
            [
                "POST /v1/targets/reset",
                "POST /v1/explain",
                "POST /v1/providers/{slug}/drain",
                "POST /v1/providers/{slug}/test",
                "POST /v1/guardrails/{id}/test",
                "POST /v1/prompts/{id}/render",
                "POST /v1/logs",
                "POST /v1/feedback",
                "PUT /v1/feedback/{id}",
                "POST /console/session",
                "DELETE /console/session",
                "POST /console/chat/completions",
            ]
        );
        assert!(routes().filter(|route| route.method == "GET").all(|route| !route.writes()));
    }

    #[test]
    fn a_path_is_found_by_its_pattern() {
        for path in
            ["/v1/targets", "/v1/configs/a", "/model-configs/pricing/openai/a/b", "/v1/logs/exports/x/start"]
        {
            assert!(has_route(path), "{path}");
        }
        for path in ["/v1/configs/", "/v1/configs/a/b/c/d", "/v1/none", "/v1/targets/"] {
            assert!(!has_route(path), "{path}");
        }
    }

    #[test]
    fn an_operators_route_stays_on_the_control_port() {
        let scopes = [Scope::TargetsRead, Scope::TargetsUpdate, Scope::ExplainRead, Scope::MetricsRead];
        for route in routes().filter(|route| route.on_data_port) {
            let is_operators =
                matches!(route.access, Access::Scope(of) if scopes.iter().any(|scope| of.contains(scope)));
            assert!(!is_operators && route.access != Access::Metrics, "{}", route.path);
        }
    }
}
