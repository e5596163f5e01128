//! The response for control paths without a route: 501 where the specification has one and this version has not, 404 for
//! the rest.
//!
//! Not a stub of those routes: it only says that they are not there.

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
