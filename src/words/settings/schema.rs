//! The JSON Schema of the settings file (draft 2020-12), for editors and for checks without the binary.
//!
//! It is what the tables leave behind that read the settings (`config::members`), so both have the same keys, bounds and defaults. What
//! only the reader sees (whether a slug exists, addresses that clash, what a mode requires) is listed in the tests. Names of
//! providers are an argument.

#[cfg(test)]
mod tests;

use super::listen::{AnyListener, UsedAddresses};
use super::values::ADDRESS;
use super::{ModelEntry, Settings, StoredProvider};
use crate::config::members::{self, MemberType as _};
use crate::config::{self, Checks};
use crate::json::schema;
use serde_json::{Map, Value, json};

/// The schema; `providers` are all names of providers.
pub fn build(providers: &[&str]) -> Value {
    let mut schema = members::schema(Settings::DOC, |table| Settings::members(table, &Checks::NONE));
    if let Value::Object(members) = &mut schema {
        members.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
        members.insert("title".to_owned(), "Turnpike settings".into());
        // An empty file is all defaults.
        members.insert("type".to_owned(), json!(["object", "null"]));
        members.insert("$defs".to_owned(), definitions(providers).into());
    }
    schema
}

fn definitions(providers: &[&str]) -> Map<String, Value> {
    let doc = "A provider and the account to call it with.";
    let stored_provider =
        members::schema(doc, |table| StoredProvider::members(table, &Checks::NONE, providers));
    let own = [
        ("address", ADDRESS.schema("IP:PORT, or [IP]:PORT for IPv6.")),
        ("listener", AnyListener(&UsedAddresses::default()).schema("An address with its options.")),
        ("stored_provider", stored_provider),
        ("model_entry", ModelEntry::schema()),
    ];
    let own = own.into_iter().map(|(name, schema)| (name.to_owned(), schema));
    let mut definitions = config_definitions(providers);
    definitions.extend(own);
    definitions
}

fn config_definitions(providers: &[&str]) -> Map<String, Value> {
    let reference = json!({
        "type": "string",
        "pattern": schema::REFERENCE,
        "description": "${NAME}: the environment variable NAME. credential:NAME: the file NAME in systemd's $CREDENTIALS_DIRECTORY.",
    });
    let all = config::definitions(providers).into_iter().chain([("reference", reference)]);
    all.map(|(name, schema)| (name.to_owned(), schema)).collect()
}

/// The definitions of a config object, which refer to each other as `prefix` and a name, and their names. The control API's document has
/// them.
pub fn of_configs(providers: &[&str], prefix: &str) -> Map<String, Value> {
    let mut definitions = config_definitions(providers);
    definitions.values_mut().for_each(|schema| replace_references(schema, prefix));
    definitions
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
