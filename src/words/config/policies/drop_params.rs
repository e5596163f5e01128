//! `drop_params`: paths to what is left out of the request body.
//!
//! A level's list replaces that of the level above. Not the removal itself (`json::path`).

use super::{Policies, PolicyKey, inherit_value};
use crate::config::members::{Form, MemberTable, form};
use crate::config::read::Cursor;
use crate::json::path::JsonPath;
use crate::json::schema::pattern;
use serde_json::json;

pub(super) const KEY: PolicyKey = PolicyKey {
    members,
    in_provider: Some(members),
    inherit: |policies, above| inherit_value(&mut policies.drop_params, &above.drop_params),
    ..PolicyKey::NONE
};

/// The most paths: each is looked for in every member that is on its way.
const MAX_PATHS: usize = 64;

/// What a path is, as a pattern.
const PATTERN: &str = r"^[^.\[\]]+(\[([0-9]{1,6}|\*)\])*(\.[^.\[\]]+(\[([0-9]{1,6}|\*)\])*)*$";

const PATHS: Form<Vec<JsonPath>> = form(read, |doc| {
    let path = pattern("A path into the body.", PATTERN, &["logprobs", "tools[*].function.strict"]);
    json!({"type": "array", "maxItems": MAX_PATHS, "items": path, "description": doc,
           "examples": [["logprobs", "response_format.json_schema", "messages[*].name"]]})
});

fn read(at: &Cursor<'_>) -> Option<Vec<JsonPath>> {
    let items = at.list()?;
    if items.len() > MAX_PATHS {
        at.problem(format!("must hold at most {MAX_PATHS} paths"));
        return None;
    }
    Some(items.iter().filter_map(path).collect())
}

fn path(at: &Cursor<'_>) -> Option<JsonPath> {
    let path = JsonPath::parse(at.text()?);
    match &path {
        None => at.problem(
            "must be a path such as logprobs, response_format.json_schema, tools[0].function.strict or messages[*].name",
        ),
        Some(path) if path.is_member() && path.first() == "model" => {
            at.problem("must not be model: every request to a provider has one");
            return None;
        }
        Some(_) => {}
    }
    path
}

fn members(policies: &mut Policies, table: &mut MemberTable<'_>) {
    let doc = "Paths to what is left out of the request body.";
    policies.drop_params = table.get("drop_params", PATHS, doc);
}

impl Policies {
    /// Paths to what is left out of the body.
    pub fn drop_params(&self) -> &[JsonPath] {
        self.drop_params.as_deref().unwrap_or_default()
    }
}
