//! LiteLLM's `config.yaml` and database: deployments become providers, names and configs, keys stay keys.
//!
//! One file for each part: `account` is where a deployment is, `deployment` which model it requests and how, `routes` what deployments of
//! one name are together, `process` what holds for all, `keys` what becomes of every key. `database` is its PostgreSQL, an input like a
//! file.

mod account;
mod database;
mod deployment;
mod guardrails;
mod keys;
mod pricing;
mod process;
mod routes;
mod value;

use super::cursor::InputAt;
use super::import::Import;
use super::key_table::Key;
pub use database::read as read_database;
use routes::Routing;
use std::collections::BTreeMap;
use words::tables::concat;

/// What becomes of every key of its files, and of every column of its database.
pub const KEYS: &[Key] = &concat::<_, { keys::KEYS.len() + database::columns::COLUMNS.len() }>(
    &database::columns::COLUMNS,
    keys::KEYS,
);

/// The sections of the file by which it is recognized.
pub const SECTIONS: [&str; 4] = ["model_list", "litellm_settings", "router_settings", "general_settings"];

/// Takes the files over. They are one configuration, as with LiteLLM's `include`.
pub fn import(import: &mut Import, files: &[InputAt<'_>]) {
    for file in files {
        import.reserve_references(file.node, value::reader);
    }
    let mut credentials = BTreeMap::new();
    for file in files {
        read_credentials(import, file, &mut credentials);
    }
    let mut routing = Routing::default();
    for file in files {
        process::read(import, file, &mut routing);
        guardrails::read(import, file, &mut routing);
    }
    for at in files.iter().filter_map(|file| file.member("model_list")).flat_map(|list| list.items()) {
        deployment::reserve(import, &at, &credentials);
    }
    let mut deployments = Vec::new();
    for file in files {
        for at in file.member("model_list").map(|list| list.items()).unwrap_or_default() {
            deployments.extend(deployment::read(import, &at, &credentials, routing.has_limits));
        }
    }
    let groups = routes::groups(import, deployments);
    routes::write(import, &groups, &routing);
    for file in files.iter().filter(|file| database::is_database(file)) {
        database::import(import, file, files);
    }
    import.moved.comment("models", "The names that clients send: each model_name of the file.");
}

/// `credential_list`: accounts that deployments name.
fn read_credentials<'n>(
    import: &mut Import,
    file: &InputAt<'n>,
    credentials: &mut BTreeMap<String, InputAt<'n>>,
) {
    for at in file.member("credential_list").map(|list| list.items()).unwrap_or_default() {
        let Some(name) = at.member("credential_name") else { continue };
        let Some(values) = at.member("credential_values") else { continue };
        import.findings.exact(&name, "the providers of the deployments that name it");
        credentials.insert(name.text().unwrap_or_default(), values);
    }
}
