//! Rules of POST /batches (spec "Endpoints").
//!
//! `immediate` is for batches that the gateway runs itself, and this version runs none: every batch is a provider's own.

use super::{Fields, Row, Rule, Table, optional, required};
use crate::error::Error;

const ENDPOINTS: &[&str] = &["/v1/chat/completions", "/v1/completions", "/v1/embeddings"];

const ROWS: &[Row] = &[
    required("input_file_id", Rule::Text),
    required("completion_window", Rule::OneOf(&["immediate", "24h"])),
    required("endpoint", Rule::OneOf(ENDPOINTS)),
    optional("metadata", Rule::Metadata),
];

pub(in crate::api) const TABLE: Table = Table { rows: ROWS, across };

fn across(fields: &Fields<'_>) -> Result<(), Error> {
    let is_immediate = fields.value("completion_window") == Some(b"\"immediate\"");
    if is_immediate && !fields.is_given(&["completion_window"]) {
        let message = "The completion window 'immediate' is for batches that the gateway runs itself, which this version \
                       does not do. Use '24h'.";
        return Err(Error::invalid_request("completion_window", message));
    }
    Ok(())
}
