//! How much of what a state has, kept beside it.
//!
//! Not here: how it is made (`objects`, `rows`).

use super::Failure;
use serde::{Deserialize, Serialize};
use std::path::Path;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sizes {
    /// Stored keys, with two limits each.
    pub keys: usize,
    pub providers: usize,
    pub configs: usize,
    pub rows: usize,
    /// Keys of the settings file that `check` reads.
    pub yaml_keys: usize,
}

impl Sizes {
    /// What the aims are about.
    pub(crate) const fn whole() -> Self {
        Self { keys: 100_000, providers: 1_000, configs: 10_000, rows: 50_000_000, yaml_keys: 12_000 }
    }

    /// Of the state in this directory, if it is complete.
    pub(crate) fn of_state(directory: &Path) -> Result<Option<Self>, Failure> {
        match std::fs::read_to_string(directory.join("sizes.json")) {
            Ok(text) => Ok(Some(serde_json::from_str(&text)?)),
            Err(_) => Ok(None),
        }
    }

    pub(crate) fn write(&self, directory: &Path) -> Result<(), Failure> {
        Ok(std::fs::write(directory.join("sizes.json"), serde_json::to_string(self)?)?)
    }
}

impl Default for Sizes {
    /// A fiftieth.
    fn default() -> Self {
        let Self { keys, providers, configs, rows, yaml_keys } = Self::whole();
        Self { keys: keys / 50, providers: providers / 50, configs: configs / 50, rows: rows / 50, yaml_keys }
    }
}
