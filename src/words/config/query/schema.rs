//! The schema of a query.
//!
//! Not here: reading one, which finds more that is wrong.

use super::Query;
use serde_json::{Value, json};

impl Query {
    /// Members with free names: `null` is a value to compare with here.
    pub(in crate::config) fn schema() -> Value {
        let scalar = json!({"type": ["string", "number", "boolean", "null"]});
        let scalars = json!({"type": "array", "items": scalar});
        let bound = json!({"type": ["number", "string"]});
        let queries = json!({"type": "array", "items": {"$ref": "#/$defs/query"}});
        let operators = json!({
            "type": "object",
            "properties": {
                "$eq": scalar, "$ne": scalar, "$in": scalars, "$nin": scalars,
                "$gt": bound, "$gte": bound, "$lt": bound, "$lte": bound,
                "$regex": {"type": "string"},
            },
            "additionalProperties": false,
        });
        let test = json!({"anyOf": [scalar, operators]});
        json!({
            "type": "object",
            "description": "Keys are metadata.x, params.x, headers.x and url.pathname, with a value or operators; $and and $or hold queries.",
            "properties": {"$and": queries, "$or": queries},
            "patternProperties": {r"^(metadata|params|headers)\.[^.]": test, r"^url\.pathname($|\.)": test},
            "additionalProperties": false,
        })
    }
}
