//! Removes secrets from what is shown or kept: bodies and headers in the audit log, keys in responses.
//!
//! By the names of members, in snake case and camel case: a text under a name of this kind is a secret
//! wherever it stands. Of addresses (`webhookURL`, `url`) the user, the password, the query and the fragment are. Nothing else is masked by
//! its content.

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

/// Whole names of what only sounds like one: where a secret is sent.
const PLAIN_NAMES: [&str; 1] = ["clientsecretin"];

/// Whole names.
const SECRET_NAMES: [&str; 5] = ["keysha256", "key", "encryptionkey", "previousencryptionkeys", "hmackey"];

/// Replaces the secrets in a value.
pub(super) fn mask(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                if is_secret(name) {
                    hide(value);
                } else if is_address(name) {
                    mask_addresses(value);
                } else {
                    mask(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}

/// Whether what stands under this name is the address of a server.
fn is_address(name: &str) -> bool {
    let plain = name.to_ascii_lowercase();
    ["url", "uri", "urls", "uris"].iter().any(|end| plain.ends_with(end))
}

/// Masks every text with a scheme as an address, whatever its name.
pub(super) fn mask_urls(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(masked) =
                Some(&*text).filter(|text| text.contains("://")).and_then(|text| masked_address(text))
            {
                *text = masked;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask_urls),
        Value::Object(members) => members.values_mut().for_each(mask_urls),
        _ => {}
    }
}

fn mask_addresses(value: &mut Value) {
    match value {
        Value::String(address) => {
            if let Some(masked) = masked_address(address) {
                *address = masked;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask_addresses),
        _ => mask(value),
    }
}

/// An address whose user, password, query and fragment are masked; `None`: it has none.
fn masked_address(address: &str) -> Option<String> {
    let (scheme, rest) = address
        .split_once("://")
        .map_or(("", address), |(_, rest)| (address.strip_suffix(rest).unwrap_or_default(), rest));
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let (place, after) = rest.split_at_checked(end)?;
    let authority = place.split(['/', '\\']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map(|(_, host)| host);
    if host.is_none() && after.len() < 2 {
        return None;
    }
    let path = place.strip_prefix(authority).unwrap_or_default();
    let user = if host.is_some() { format!("{MASK}@") } else { String::new() };
    let after = after.get(..1).map(|mark| format!("{mark}{MASK}")).unwrap_or_default();
    Some(format!("{scheme}{user}{}{path}{after}", host.unwrap_or(authority)))
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
    let is_part = || plain.ends_with("token") || SECRET_PARTS.iter().any(|part| plain.contains(part));
    !PLAIN_NAMES.contains(&plain.as_str()) && (SECRET_NAMES.contains(&plain.as_str()) || is_part())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn of_addresses_what_only_their_servers_need_is_masked() {
        for (address, wanted) in [
            ("https://h.example/a/b", "https://h.example/a/b"),
            ("https://h.example", "https://h.example"),
            ("https://ann:pw@h.example:8443/a?token=t&b=c#d", "https://*****@h.example:8443/a?*****"),
            ("https://tok@h.example", "https://*****@h.example"),
            ("https://a@b:c@h.example/x@y", "https://*****@h.example/x@y"),
            ("https://h.example/a@b?k=s", "https://h.example/a@b?*****"),
            ("https://h.example#secret", "https://h.example#*****"),
            ("ann:pw@h.example/a", "*****@h.example/a"),
            ("https://h.example/a?", "https://h.example/a?"),
            ("", ""),
        ] {
            for name in ["webhookURL", "logURL", "url", "jwks_uri", "WEBHOOKURL"] {
                let mut check =
                    json!({"checks": [{"parameters": {name: address, "others": [{name: [address]}]}}]});
                mask(&mut check);
                let parameters = &check["checks"][0]["parameters"];
                assert_eq!(
                    (&parameters[name], &parameters["others"][0][name][0]),
                    (&json!(wanted), &json!(wanted))
                );
            }
        }
    }

    #[test]
    fn secrets_are_masked_wherever_they_stand() {
        let mut body = json!({
            "name": "a", "key": "sk-1", "key_sha256": "0a1b", "max_tokens": 5, "secret_mappings": [{"target_field": "key"}],
            "configurations": {"awsSecretAccessKey": "x", "aws_access_key_id": "y", "aws_region": "eu",
                               "custom_headers": {"X-Any": "z"}, "vertex_service_account_json": {"private_key": "p"}},
            "list": [{"apiKey": "k", "adToken": "t", "model": "m"}],
        });
        mask(&mut body);
        assert_eq!(
            body,
            json!({
                "name": "a", "key": "*****", "key_sha256": "*****", "max_tokens": 5, "secret_mappings": [{"target_field": "*****"}],
                "configurations": {"awsSecretAccessKey": "*****", "aws_access_key_id": "*****", "aws_region": "eu",
                                   "custom_headers": {"X-Any": "*****"},
                                   "vertex_service_account_json": {"private_key": "*****"}},
                "list": [{"apiKey": "*****", "adToken": "*****", "model": "m"}],
            })
        );
    }
}
