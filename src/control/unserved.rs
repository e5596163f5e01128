//! The response for control paths without a route at this port: 501 for names of the specification that are not built, 404
//! for all others. It lists what is built.
//!
//! Not a stub: it only reports that the route does not exist.

use super::routes::{built, is_on_control_port_only, is_unbuilt};
use crate::error::Error;
use http::{Method, Uri};

pub(super) async fn respond(method: Method, uri: Uri) -> Error {
    let path = uri.path();
    if is_on_control_port_only(path) {
        // Only the data port's router gets here: the other one has a route.
        return Error::not_found(format!(
            "{path} is served at the control port only (listen.control), and no provider gets it."
        ));
    }
    if !is_unbuilt(path) {
        return Error::not_found(format!("There is no control route at {path}."));
    }
    Error::not_implemented(format!(
        "{method} {path} belongs to the control plane and is not available in this version of the gateway; no provider \
         was called. Available: {} on both ports; {} on the control port. A provider's own path of this name is called \
         below /v1/proxy/.",
        built(true),
        built(false)
    ))
}
