//! The names and schemas of the inherited keys, for those who describe configs and stored providers.
//!
//! Not here: the schemas themselves, which are in the rows of the table.

use super::{KEYS, Policies};
use serde_json::Value;

impl Policies {
    /// Names of those of which a config may consist.
    pub(crate) fn enough_names() -> impl Iterator<Item = &'static str> {
        KEYS.iter().filter(|key| key.is_enough).flat_map(|key| key.names.iter().copied())
    }

    /// Names of those that a stored provider may have.
    pub(crate) fn names_in_provider() -> impl Iterator<Item = &'static str> {
        KEYS.iter().filter(|key| key.in_provider.is_some()).flat_map(|key| key.names.iter().copied())
    }

    /// Names and schemas of all inherited keys in a config.
    pub(crate) fn schemas() -> impl Iterator<Item = (&'static str, Value)> {
        KEYS.iter().flat_map(|key| key.names.iter().map(|name| (*name, (key.schema)(name))))
    }

    /// Names and schemas of those that a stored provider may have.
    pub(crate) fn schemas_in_provider() -> impl Iterator<Item = (&'static str, Value)> {
        let keys = KEYS.iter().filter_map(|key| key.in_provider.map(|(_, schema)| (key.names, schema)));
        keys.flat_map(|(names, schema)| names.iter().map(move |name| (*name, schema(name))))
    }

    /// The definitions that these schemas refer to.
    pub(crate) fn definitions() -> impl Iterator<Item = (&'static str, Value)> {
        KEYS.iter().flat_map(|key| key.definitions.iter().map(|(name, schema)| (*name, schema())))
    }
}
