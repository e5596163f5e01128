//! The JSON Schema of the settings file (draft 2020-12), for editors and for checks without the binary.
//!
//! It describes what `Settings` reads: keys, types, bounds, defaults. `schema/tests.rs` walks both and compares them: the two
//! know the same keys, and the schema refuses nothing that the reader takes. What only the reader sees (whether a slug
//! exists, addresses that clash, what a mode requires) is listed there. Names of providers are an argument.

mod account;
mod config_object;

#[cfg(test)]
mod tests;

use super::Settings;
use super::listen::{AnyListener, UsedAddresses};
use super::values::ADDRESS;
use crate::config::Checks;
use crate::config::members::{self, MemberType as _};
use crate::config::policies::Policies;
use crate::json::schema::{self, object, one_of};
use serde_json::{Map, Value, json};

/// Of a description there is nothing to check.
const NO_CHECKS: Checks<'static> =
    Checks { provider: &|_| Ok(()), account: &|_, _| Ok(()), custom_host: &|_| Ok(()) };

/// The schema; `providers` are all names of providers.
pub fn build(providers: &[&str]) -> Value {
    let mut schema = members::schema(Settings::DOC, |table| Settings::members(table, &NO_CHECKS));
    if let Value::Object(members) = &mut schema {
        members.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
        members.insert("title".to_owned(), "Turnpike settings".into());
        // An empty file is all defaults.
        members.insert("type".to_owned(), json!(["object", "null"]));
        members.insert("$defs".to_owned(), definitions(providers));
    }
    schema
}

fn definitions(providers: &[&str]) -> Value {
    let mut definitions = config_object::definitions(providers);
    let own = [
        (
            "reference",
            json!({
                "type": "string",
                "pattern": schema::REFERENCE,
                "description": "${NAME}: the environment variable NAME. credential:NAME: the file NAME in systemd's $CREDENTIALS_DIRECTORY.",
            }),
        ),
        ("address", ADDRESS.schema("IP:PORT, or [IP]:PORT for IPv6.")),
        ("listener", AnyListener(&UsedAddresses::default()).schema("An address with its options.")),
        ("stored_provider", stored_provider(providers)),
    ];
    if let Value::Object(members) = &mut definitions {
        let all = own.into_iter().chain(Policies::definitions());
        members.extend(all.map(|(name, schema)| (name.to_owned(), schema)));
    }
    definitions
}

/// The definitions of a config object, which refer to each other as `prefix` and a name, and their names. The control API's document has
/// them.
pub fn of_configs(providers: &[&str], prefix: &str) -> Map<String, Value> {
    let mut definitions = definitions(providers);
    if let Value::Object(members) = &mut definitions {
        members.retain(|name, _| !matches!(name.as_str(), "address" | "listener" | "stored_provider"));
    }
    replace_references(&mut definitions, prefix);
    match definitions {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Has every `$ref` begin with `prefix`.
fn replace_references(schema: &mut Value, prefix: &str) {
    match schema {
        Value::Object(members) => {
            for (name, value) in members {
                match value.as_str().and_then(|text| text.strip_prefix("#/$defs/")) {
                    Some(target) if name == "$ref" => *value = format!("{prefix}{target}").into(),
                    _ => replace_references(value, prefix),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace_references(item, prefix)),
        _ => {}
    }
}

fn stored_provider(providers: &[&str]) -> Value {
    let provider = one_of("The provider (docs/providers.md).", providers.iter().copied());
    let mut keys = vec![("provider", provider)];
    keys.extend(Policies::schemas_in_provider());
    keys.extend(account::keys(false));
    object("A provider and the account to call it with.", &["provider"], keys)
}
