//! The control API against its own OpenAPI document: no 500, and no response that the document does not have.
//!
//! Apart from the client libraries (`sdk`), since it takes longest of all tests: they begin in the order of their names, and this one
//! must not be among the last.

use crate::sdk;
use crate::support::Gateway;
use crate::support::settings::STANDARD;

/// Schemathesis sends what the document allows and what it does not, and compares the responses with it.
#[test]
fn the_control_api_follows_its_document() {
    sdk::python("schemathesis", &["openapi_document.py"], &Gateway::start(STANDARD));
}
