//! Rules of POST /fine_tuning/jobs.
//!
//! `suffix` and `method` are required here, though not by OpenAI's own API.

use super::{INTEGER, Row, Rule, Table, optional, required, rows};

const ROWS: &[Row] = &[
    required("model", Rule::Text),
    required("training_file", Rule::Text),
    required("suffix", Rule::Text),
    required("method", Rule::Object),
    optional("validation_file", Rule::Text),
    optional("integrations", Rule::Integrations),
    optional("seed", INTEGER),
    optional("metadata", Rule::Metadata),
];

pub(in crate::api) const TABLE: Table = rows(ROWS);
