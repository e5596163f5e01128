//! How secrets stand in files: by the name of a variable of the environment, as `{"from_env": NAME}`.
//!
//! The command puts the values in where it has them. What is left stands for a secret that is not given: what is stored is kept, as long
//! as nothing beside it changes that says where it is sent.

use super::super::masking;
use serde_json::{Map, Value, json};
use words::error::Error;

const FROM_ENV: &str = "from_env";
/// Begins a text that stands for a reference, while the members are checked as texts.
const MARK: &str = "\u{1}from_env:";

/// Replaces references by texts that [`name`] reads.
pub(super) fn mark(value: &mut Value) {
    if let Some(name) = reference(value) {
        *value = format!("{MARK}{name}").into();
        return;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(mark),
        Value::Object(members) => members.values_mut().for_each(mark),
        _ => {}
    }
}

fn reference(value: &Value) -> Option<&str> {
    let members = value.as_object().filter(|members| members.len() == 1)?;
    members.get(FROM_ENV)?.as_str()
}

/// The name of the secret that a marked value stands for.
pub(super) fn name(value: &Value) -> Option<&str> {
    value.as_str()?.strip_prefix(MARK)
}

/// The names of all secrets in a marked value that are not given.
pub(super) fn names(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(names).collect(),
        Value::Object(members) => members.values().flat_map(names).collect(),
        value => name(value).map(str::to_owned).into_iter().collect(),
    }
}

/// Why an object is refused that needs a secret which is not given.
pub(super) fn not_given(member: &str, value: &Value) -> Error {
    let names = names(value).join(", ");
    let message = format!(
        "{member} needs the secret {names}, which is not given: set the variable where the file is applied. A kept secret is never sent \
         along with a change of what stands beside it."
    );
    Error::invalid_request(member, message)
}

/// Whether a marked value is the stored one, where only secrets are not given. `member`: under which both stand.
pub(super) fn is_kept(member: &str, marked: &Value, stored: &Value) -> bool {
    let mut masked = json!({member: stored});
    masking::mask(&mut masked);
    is_same(marked, stored, masked.get(member).unwrap_or(&Value::Null))
}

fn is_same(marked: &Value, stored: &Value, masked: &Value) -> bool {
    if name(marked).is_some() {
        return stored.is_string() && stored != masked;
    }
    match (marked, stored, masked) {
        (Value::Array(one), Value::Array(other), Value::Array(masked)) => {
            one.len() == other.len()
                && one.iter().zip(other).zip(masked).all(|((one, other), masked)| is_same(one, other, masked))
        }
        (Value::Object(one), Value::Object(other), Value::Object(masked)) => {
            one.len() == other.len()
                && one.iter().all(|(name, one)| {
                    other
                        .get(name)
                        .zip(masked.get(name))
                        .is_some_and(|(other, masked)| is_same(one, other, masked))
                })
        }
        (one, other, _) => one == other,
    }
}

/// Replaces the secrets in these members by references. `name_of` makes a name of the path.
pub(super) fn hide(
    members: &mut Map<String, Value>,
    secret: &[&str],
    name_of: &mut dyn FnMut(&str) -> String,
) {
    let mut masked = Value::Object(members.clone());
    masking::mask(&mut masked);
    for (member, value) in members.iter_mut().filter(|(member, _)| secret.contains(&member.as_str())) {
        if let Some(masked) = masked.get(member) {
            hide_in(value, masked, member, name_of);
        }
    }
}

fn hide_in(value: &mut Value, masked: &Value, path: &str, name_of: &mut dyn FnMut(&str) -> String) {
    match (&mut *value, masked) {
        (Value::Array(items), Value::Array(masked)) => {
            for (index, (item, masked)) in items.iter_mut().zip(masked).enumerate() {
                hide_in(item, masked, &format!("{path}.{index}"), name_of);
            }
        }
        (Value::Object(members), Value::Object(masked)) => {
            for (member, value) in members {
                if let Some(masked) = masked.get(member) {
                    hide_in(value, masked, &format!("{path}.{member}"), name_of);
                }
            }
        }
        (found, masked) if &*found != masked => *value = json!({FROM_ENV: name_of(path)}),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_is_not_given_is_kept_only_where_nothing_near_it_changes() {
        let stored = json!({"targets": [{"provider": "openai", "api_key": "sk-1", "custom_host": "https://a.example"}]});
        let file = |host: &str| {
            let mut value = json!({"targets": [{"provider": "openai", "api_key": {"from_env": "K"}, "custom_host": host}]});
            mark(&mut value);
            value
        };
        assert!(is_kept("config", &file("https://a.example"), &stored));
        assert!(!is_kept("config", &file("https://b.example"), &stored));
        assert_eq!(names(&file("x")), ["K"]);
        // No name stands for what is no secret: it could be moved to where it is shown.
        let mut moved = json!({"targets": [{"provider": {"from_env": "K"}, "api_key": "sk-1", "custom_host": "https://a.example"}]});
        mark(&mut moved);
        assert!(!is_kept("config", &moved, &stored));
    }

    #[test]
    fn what_is_hidden_is_found_by_its_name_again() {
        let mut members = json!({"key": "sk-1", "checks": [{"parameters": {"webhookURL": "https://h.example/?t=1", "headers": {"X": "y"}}}]});
        let stored = members.clone();
        let mut hidden = members.as_object().unwrap().clone();
        hide(&mut hidden, &["key", "checks"], &mut |path| path.to_uppercase());
        assert_eq!(hidden.get("key"), Some(&json!({"from_env": "KEY"})));
        members = Value::Object(hidden);
        mark(&mut members);
        assert_eq!(names(&members).len(), 3, "{members}");
        assert!(is_kept("checks", &members["checks"], &stored["checks"]));
    }
}
