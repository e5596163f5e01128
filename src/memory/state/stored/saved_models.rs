//! The stored names of models, by workspace: made anew for the workspace in which one changes.
//!
//! Not here: how a record is read (`compile`), and which name a request means (`ModelNames`).

use imbl::{HashMap, OrdMap, OrdSet};
use std::sync::Arc;
use uuid::Uuid;
use words::settings::{ModelEntry, ModelNames};

/// All stored names. A copy shares everything with its original.
#[derive(Debug, Clone, Default)]
pub(super) struct SavedModels {
    /// By workspace and the id of their record.
    entries: OrdMap<(Option<Uuid>, Uuid), Arc<ModelEntry>>,
    /// By the id of their record.
    workspaces: HashMap<Uuid, Option<Uuid>>,
    /// `None`: of the organisation.
    by_workspace: HashMap<Option<Uuid>, Arc<ModelNames>>,
    /// Those whose names are to be made anew.
    changed: OrdSet<Option<Uuid>>,
}

impl SavedModels {
    /// Replaces the entry of a record; `None`: it is gone. Returns whether that changes anything, which counts from the next
    /// [`SavedModels::renew`] on.
    pub(super) fn set(&mut self, id: Uuid, workspace: Option<Uuid>, entry: Option<ModelEntry>) -> bool {
        let before = self.workspaces.remove(&id);
        if let Some(before) = before {
            self.entries.remove(&(before, id));
            self.changed.insert(before);
        }
        let is_there = entry.is_some();
        if let Some(entry) = entry {
            self.workspaces.insert(id, workspace);
            self.entries.insert((workspace, id), Arc::new(entry));
            self.changed.insert(workspace);
        }
        is_there || before.is_some()
    }

    /// Makes the names of each workspace anew in which one has changed.
    pub(super) fn renew(&mut self) {
        for workspace in std::mem::take(&mut self.changed) {
            let own = self.entries.range((workspace, Uuid::nil())..=(workspace, Uuid::max()));
            let names = ModelNames::new(own.map(|(_, entry)| Arc::clone(entry)));
            if names.is_empty() {
                self.by_workspace.remove(&workspace);
            } else {
                self.by_workspace.insert(workspace, Arc::new(names));
            }
        }
    }

    pub(super) fn of(&self, workspace: Option<Uuid>) -> Option<&Arc<ModelNames>> {
        self.by_workspace.get(&workspace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::outbound::custom_host::HostRules;
    use crate::state::stored::read_model;
    use serde_json::{Value, json};
    use words::settings::CustomHosts;

    fn entry(name: &str) -> Option<ModelEntry> {
        let Value::Object(members) = json!({"name": name, "to": "@a"}) else { return None };
        read_model(&members, &HostRules::new(&CustomHosts::default()), false).ok()
    }

    /// Each name by itself would make a load of many names quadratic.
    #[test]
    fn the_names_of_a_workspace_are_made_anew_once_for_all_that_change() {
        let [first, second] = [7, 8].map(|number| Some(Uuid::from_u128(number)));
        let mut models = SavedModels::default();
        for number in 0..100 {
            assert!(models.set(Uuid::from_u128(number), first, entry(&format!("name-{number}"))));
        }
        assert!(models.of(first).is_none() && models.changed.len() == 1);
        models.renew();
        assert!(models.changed.is_empty());
        assert_eq!(models.of(first).map(|names| names.iter().count()), Some(100));
        // One moves, one goes.
        assert!(models.set(Uuid::from_u128(0), second, entry("moved")));
        assert!(models.set(Uuid::from_u128(1), first, None));
        assert!(!models.set(Uuid::from_u128(1), first, None));
        models.renew();
        assert_eq!(models.of(first).map(|names| names.iter().count()), Some(98));
        assert!(models.of(second).is_some_and(|names| names.whole("moved").is_some()));
        assert!(models.of(None).is_none());
    }
}
