//! The stored names of models, by workspace: made anew for the workspace in which one changes.
//!
//! Not here: how a record is read (`compile`), and which name a request means (`ModelNames`).

use imbl::{HashMap, OrdMap};
use std::sync::Arc;
use uuid::Uuid;
use words::settings::{ModelEntry, ModelNames};

/// All stored names. A copy shares everything with its original.
#[derive(Debug, Clone, Default)]
pub(super) struct SavedModels {
    /// By the id of their record, with their workspace.
    entries: OrdMap<Uuid, SavedModel>,
    /// `None`: of the organisation.
    by_workspace: HashMap<Option<Uuid>, Arc<ModelNames>>,
}

#[derive(Debug, Clone)]
struct SavedModel {
    workspace: Option<Uuid>,
    entry: Arc<ModelEntry>,
}

impl SavedModels {
    /// Replaces the entry of a record; `None`: it is gone. Returns whether that changes anything.
    pub(super) fn set(&mut self, id: Uuid, workspace: Option<Uuid>, entry: Option<ModelEntry>) -> bool {
        let is_there = entry.is_some();
        let before = match entry {
            Some(entry) => self.entries.insert(id, SavedModel { workspace, entry: Arc::new(entry) }),
            None => self.entries.remove(&id),
        };
        let changed = before.as_ref().map(|before| before.workspace);
        for workspace in changed.into_iter().chain(is_there.then_some(workspace)) {
            self.renew(workspace);
        }
        is_there || before.is_some()
    }

    fn renew(&mut self, workspace: Option<Uuid>) {
        let own = self.entries.values().filter(|saved| saved.workspace == workspace);
        let names = ModelNames::new(own.map(|saved| Arc::clone(&saved.entry)));
        if names.is_empty() {
            self.by_workspace.remove(&workspace);
        } else {
            self.by_workspace.insert(workspace, Arc::new(names));
        }
    }

    pub(super) fn of(&self, workspace: Option<Uuid>) -> Option<&Arc<ModelNames>> {
        self.by_workspace.get(&workspace)
    }
}
