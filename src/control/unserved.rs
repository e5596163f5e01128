//! The response for control paths without a route at this port: 501 for names of the control plane that are not built, 404
//! for all others. It lists what is built.
//!
//! Not a stub: it only reports that the route does not exist, and only to who has a key.

use super::dispatch::present_certificate;
use super::error;
use super::routes::{built, has_route, is_unbuilt};
use super::services::Services;
use axum::extract::{Request, State};
use axum::response::Response;
use http::Method;
use jiff::Timestamp;
use memory::state::authentication;
use words::error::Error;

pub(super) async fn respond(State(services): State<Services>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    present_certificate(&mut parts, &services.shared.settings_arc());
    let authenticated =
        authentication::authenticate(&services.shared, &parts.headers, &parts.uri, Timestamp::now()).await;
    error::response(authenticated.err().unwrap_or_else(|| reason(&parts.method, parts.uri.path())))
}

fn reason(method: &Method, path: &str) -> Error {
    if has_route(path) {
        // Only the data port's router gets here: the other one has every route.
        return Error::not_found(format!(
            "{path} is served at the control port only (listen.control), and no provider gets it."
        ));
    }
    if !is_unbuilt(path) {
        return Error::not_found(format!("There is no control route at {path}."));
    }
    Error::not_implemented(format!(
        "{method} {path} belongs to the control plane and is not available in this version of the gateway; no provider \
         was called. GET /v1/openapi.json has what is: {}. A provider's own path of this name is called below /v1/proxy/.",
        built().into_iter().collect::<Vec<_>>().join(", ")
    ))
}
