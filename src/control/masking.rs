//! Removes secrets from what is shown or kept: bodies and headers in the audit log, keys in responses.
//!
//! By the names of members, in snake case and camel case: a text under a name of this kind is a secret
//! wherever it stands. Nothing is masked by its content.

use serde_json::Value;

pub(super) const MASK: &str = "*****";

/// Parts of names, in lower case without separators, that make a text a secret.
const SECRET_PARTS: [&str; 9] = [
    "secret",
    "password",
    "credential",
    "apikey",
    "accesskey",
    "privatekey",
    "serviceaccount",
    "authorization",
    "headers",
];

/// Whole names.
const SECRET_NAMES: [&str; 2] = ["key", "encryptionkey"];

/// Replaces the secrets in a value.
pub(super) fn mask(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                if is_secret(name) { hide(value) } else { mask(value) }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}

/// Replaces every text in a value.
fn hide(value: &mut Value) {
    match value {
        Value::Object(members) => members.values_mut().for_each(hide),
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::String(text) if !text.is_empty() => MASK.clone_into(text),
        Value::Number(_) => *value = MASK.into(),
        _ => {}
    }
}

/// Whether what stands under this name is a secret.
pub(super) fn is_secret(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|char| char.to_ascii_lowercase()).collect();
    SECRET_NAMES.contains(&plain.as_str())
        || plain.ends_with("token")
        || SECRET_PARTS.iter().any(|part| plain.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_masked_wherever_they_stand() {
        let mut body = json!({
            "name": "a", "key": "sk-1", "max_tokens": 5, "secret_mappings": [{"target_field": "key"}],
            "configurations": {"awsSecretAccessKey": "x", "aws_access_key_id": "y", "aws_region": "eu",
                               "custom_headers": {"X-Any": "z"}, "vertex_service_account_json": {"private_key": "p"}},
            "list": [{"apiKey": "k", "adToken": "t", "model": "m"}],
        });
        mask(&mut body);
        assert_eq!(
            body,
            json!({
                "name": "a", "key": "*****", "max_tokens": 5, "secret_mappings": [{"target_field": "*****"}],
                "configurations": {"awsSecretAccessKey": "*****", "aws_access_key_id": "*****", "aws_region": "eu",
                                   "custom_headers": {"X-Any": "*****"},
                                   "vertex_service_account_json": {"private_key": "*****"}},
                "list": [{"apiKey": "*****", "adToken": "*****", "model": "m"}],
            })
        );
    }
}
