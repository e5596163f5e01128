//! Rules of POST /batches (spec "Endpoints").
//!
//! Whether `immediate` is possible depends on who runs the batch; that is not checked here.

use super::{Row, Rule, Table, optional, required, rows};

const ENDPOINTS: &[&str] = &["/v1/chat/completions", "/v1/completions", "/v1/embeddings"];

const ROWS: &[Row] = &[
    required("input_file_id", Rule::Text),
    required("completion_window", Rule::OneOf(&["immediate", "24h"])),
    required("endpoint", Rule::OneOf(ENDPOINTS)),
    optional("metadata", Rule::Metadata),
];

pub(in crate::api) const TABLE: Table = rows(ROWS);
