//! `conditions` and `group_by` of policies: whose requests a policy limits, and what has a bucket of its own.
//!
//! Checks names and forms. What a request has for a key is `limits`' business.

use super::super::call::{Call, by_id_or_slug};
use super::super::field::{Field, Type, optional, required};
use memory::limits::FactKey;
use memory::store::Kind;
use serde_json::{Map, Value};
use std::collections::HashSet;
use uuid::Uuid;
use words::config::read::{Problems, nearest};
use words::error::Error;

const KEY_DOC: &str = "`api_key`, `organisation_id`, `workspace_id`, `config`, `prompt`, `endpoint_type`, `metadata.<name>`; of the \
                       target: `model`, `provider`, `virtual_key`.";

pub(in super::super) const VALUE: Type =
    Type::AnyOf(&[Type::Text(512), Type::List(&Type::Text(512), 1, 100)]);

const CONDITION: Type = Type::Object(&[
    required("key", Type::PolicyKey, KEY_DOC),
    optional(
        "value",
        VALUE,
        "The value it must have, or a list of which it must have one; `*`: any value, and not none.",
    ),
    optional("excludes", VALUE, "The value, or the values, it must not have."),
]);

const GROUP: Type = Type::Object(&[required("key", Type::PolicyKey, KEY_DOC)]);

pub(super) const CONDITIONS: Type = Type::List(&CONDITION, 1, 20);
pub(super) const GROUP_BY: Type = Type::List(&GROUP, 1, 10);

pub(super) const CONDITIONS_FIELD: Field =
    required("conditions", CONDITIONS, "Whose requests are limited: all conditions must be met.");
pub(super) const GROUP_BY_FIELD: Field = required(
    "group_by",
    GROUP_BY,
    "What has a bucket of its own: each combination of values of these keys. It cannot be changed later.",
);

/// What a person is in a workspace.
const ROLES: [&str; 4] = ["owner", "admin", "manager", "member"];

/// The most characters of the name of metadata.
const METADATA_NAME: usize = 64;

/// Checks the keys and values of a body's `conditions` and `group_by`.
pub(super) fn check(body: &Map<String, Value>, problems: &Problems) {
    check_conditions(body, "", &FactKey::NAMES, problems);
    let mut before = HashSet::new();
    for (index, group) in items(body, "group_by").enumerate() {
        let path = format!("group_by[{index}]");
        if let Some(key) = check_key(group, &path, &FactKey::NAMES, problems)
            && !before.insert(key)
        {
            problems.push(format!("{path}.key"), None, "stands twice");
        }
    }
}

fn items<'a>(body: &'a Map<String, Value>, name: &str) -> impl Iterator<Item = &'a Value> {
    body.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// The texts of a value: itself, or the members of a list.
fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    value.into_iter().chain(list).filter_map(Value::as_str)
}

/// Checks the keys, which are `names` and those of metadata, and the values of `conditions`. `at`: what stands before their paths.
pub(in super::super) fn check_conditions(
    body: &Map<String, Value>,
    at: &str,
    names: &[&'static str],
    problems: &Problems,
) {
    for (index, condition) in items(body, "conditions").enumerate() {
        let path = format!("{at}conditions[{index}]");
        let Some(key) = check_key(condition, &path, names, problems) else { continue };
        let given = |name: &str| condition.get(name).filter(|value| !value.is_null());
        if given("value").is_none() && given("excludes").is_none() {
            problems.push(format!("{path}.value"), None, "is required, or excludes");
        }
        for name in ["value", "excludes"] {
            if let Some(why) = texts(condition.get(name)).find_map(|text| wrong_value(key, text)) {
                problems.push(format!("{path}.{name}"), None, why);
            }
        }
    }
}

/// The item's key, if it is one.
fn check_key<'a>(
    item: &'a Value,
    path: &str,
    names: &[&'static str],
    problems: &Problems,
) -> Option<&'a str> {
    let key = item.get("key")?.as_str()?;
    let path = format!("{path}.key");
    match key.strip_prefix("metadata.") {
        Some("") => problems.push(path, None, "must name the metadata: metadata._user"),
        Some(name) if name.chars().count() > METADATA_NAME => {
            problems.push(
                path,
                None,
                format!("must have at most {METADATA_NAME} characters after metadata."),
            );
        }
        Some(_) => return Some(key),
        None if names.contains(&key) => return Some(key),
        None => {
            let message = match nearest(names, key) {
                Some(name) => format!("is no key of a condition; did you mean {name}?"),
                None => format!("must be one of {}, or metadata.<name>", names.join(", ")),
            };
            problems.push(path, None, message);
        }
    }
    None
}

/// Why no request can have this value for the key.
fn wrong_value(key: &str, text: &str) -> Option<String> {
    match key {
        _ if text == "*" => None,
        _ if text.is_empty() => Some("must not be empty".to_owned()),
        "role" if !ROLES.contains(&text) => Some(format!("must be one of {}", ROLES.join(", "))),
        "api_key" if text.starts_with("gk_") => {
            Some("must be the key's id, which is no secret, not the key itself".to_owned())
        }
        "model" if text.starts_with('@') && !text.contains('/') => {
            Some("must be a model, @provider/model, or @provider/* for all of a provider".to_owned())
        }
        _ => None,
    }
}

/// # Errors
/// 400 for a condition that no request of the policy's workspace meets, because it names another one.
pub(super) fn check_workspace(call: &Call, workspace: Option<Uuid>) -> Result<(), Error> {
    let Some(own) = workspace else { return Ok(()) };
    let catalog = call.catalog()?;
    for (index, condition) in items(&call.body, "conditions").enumerate() {
        if condition.get("key").and_then(Value::as_str) != Some("workspace_id") {
            continue;
        }
        let is_own = |text: &str| {
            text == "*"
                || by_id_or_slug(&catalog, Kind::Workspace, None, text).is_some_and(|found| found.id == own)
        };
        let mut values = texts(condition.get("value")).peekable();
        if values.peek().is_some() && !values.any(is_own) {
            return Err(Error::invalid_request(
                format!("conditions[{index}].value"),
                "The policy limits the requests of another workspace, so that none meets this condition. Send that workspace as \
                 workspace_id, or null for all (with a key of the organisation).",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paths(body: Value) -> Vec<String> {
        let problems = Problems::default();
        check(&super::super::super::records::object(body), &problems);
        problems.into_vec().into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn every_key_of_the_reference_is_good() {
        for key in FactKey::NAMES.into_iter().chain(["metadata._user", "metadata.team.a"]) {
            let body = json!({"conditions": [{"key": key, "value": "*"}], "group_by": [{"key": key}]});
            assert_eq!(paths(body), [""; 0], "{key}");
        }
    }

    #[test]
    fn what_no_request_can_have_is_refused_with_its_path() {
        let long = format!("metadata.{}", "a".repeat(65));
        for (condition, wanted) in [
            (json!({"key": "apikey", "value": "*"}), "conditions[0].key"),
            (json!({"key": "metadata.", "value": "*"}), "conditions[0].key"),
            (json!({"key": long, "value": "*"}), "conditions[0].key"),
            (json!({"key": "config"}), "conditions[0].value"),
            (json!({"key": "api_key", "value": "gk_a_b"}), "conditions[0].value"),
            (json!({"key": "model", "value": ["@a/b", "gpt-4o", "@openai"]}), "conditions[0].value"),
            (json!({"key": "model", "excludes": "@openai"}), "conditions[0].excludes"),
            (json!({"key": "config", "value": ""}), "conditions[0].value"),
        ] {
            assert_eq!(paths(json!({"conditions": [condition.clone()]})), [wanted], "{condition}");
        }
        let twice = json!({"group_by": [{"key": "config"}, {"key": "model"}, {"key": "config"}]});
        assert_eq!(paths(twice), ["group_by[2].key"]);
    }
}
