//! Rules of POST /batches.

use super::{Row, Rule, Table, optional, required, rows};
use crate::api::body::Body;
use crate::error::Error;

/// What a batch of the gateway's own runs, and one that it runs at a provider with another API.
const ENDPOINTS: &[&str] = &["/v1/chat/completions", "/v1/completions", "/v1/embeddings"];

/// What a batch may be for that passes on. Source: `endpoint` of `POST /batches` in OpenAI's published API.
const PUBLISHED: &[&str] = &[
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/moderations",
    "/v1/images/generations",
    "/v1/images/edits",
    "/v1/videos",
];

const ROWS: &[Row] = &[
    required("input_file_id", Rule::Text),
    required("completion_window", Rule::OneOf(&["immediate", "24h"])),
    required("endpoint", Rule::OneOf(PUBLISHED)),
    optional("metadata", Rule::Metadata),
];

pub(in crate::api) const TABLE: Table = rows(ROWS);

/// Checks the endpoint of a batch that does not pass on.
///
/// # Errors
/// 400 for one that only providers run.
pub fn check_endpoint(body: &Body) -> Result<(), Error> {
    body.value("endpoint").map_or(Ok(()), |value| Rule::OneOf(ENDPOINTS).check("endpoint", value))
}

/// Checks the window of a batch that a provider is to run. `is_given`: whether the config sets it.
///
/// # Errors
/// 400 for `immediate`, which only batches of the gateway have.
pub fn check_window(body: &Body, is_given: bool) -> Result<(), Error> {
    if is_given || body.value("completion_window") != Some(b"\"immediate\"") {
        return Ok(());
    }
    let message = "The completion window 'immediate' is for batches that the gateway runs itself: those of a file that was \
                   uploaded to the gateway without a provider. A provider's own batch takes '24h'.";
    Err(Error::invalid_request("completion_window", message))
}
