//! Which models may be used through a stored provider.
//!
//! Written in the store (`PUT /v1/integrations/{slug}/models`); providers of the settings file allow every model.

use std::collections::HashMap;

/// The models of an integration that are allowed or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedModels {
    /// Whether a model that is not listed is allowed.
    pub allows_others: bool,
    /// By name as requests have it: whether it is enabled.
    pub listed: HashMap<String, bool>,
}

impl AllowedModels {
    pub fn allows(&self, model: &str) -> bool {
        self.listed.get(model).copied().unwrap_or(self.allows_others)
    }
}
