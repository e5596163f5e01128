//! The response for control paths without a route: 501 for routes of the specification that are not built, 404 for all
//! others.
//!
//! Not a stub: it only reports that the route does not exist.

use super::routes::is_unbuilt;
use crate::error::Error;
use http::{Method, Uri};

pub(super) async fn respond(method: Method, uri: Uri) -> Error {
    let path = uri.path();
    match is_unbuilt(path) {
        true => Error::not_implemented(format!(
            "{method} {path} belongs to the control plane and is not available in this version of the gateway."
        )),
        false => Error::not_found(format!("There is no control route at {path}.")),
    }
}
