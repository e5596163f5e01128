//! What an import has so far: the settings, the objects of the store, and what became of each key.

use super::moved::Moved;
use super::objects::PlannedObject;
use super::report::Findings;
use clap::ValueEnum;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// What clients, teams and their limits become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ImportTarget {
    /// Keys of the settings file.
    #[default]
    Settings,
    /// Objects of the store of a running gateway: workspaces, keys, policies. The rest becomes settings.
    Store,
}

#[derive(Default)]
pub struct Import {
    pub moved: Moved,
    /// In no order.
    pub objects: Vec<PlannedObject>,
    pub findings: Findings,
    /// The files without folder and ending.
    pub file_names: Vec<String>,
    pub target: ImportTarget,
    /// What time it is.
    pub now: Timestamp,
    /// Limits that nothing was made of, by their marks, and why: no key is made that depends on one.
    pub lost: BTreeMap<String, String>,
}

impl Import {
    /// The name of the file of this number, as an id is made of it.
    pub fn file_name(&self, number: usize) -> String {
        self.file_names.get(number).cloned().unwrap_or_else(|| "imported".to_owned())
    }

    /// Says that a limit of what has this mark is not made.
    pub fn lose(&mut self, mark: &str, why: &str) {
        self.lost.entry(mark.to_owned()).or_insert_with(|| why.to_owned());
    }

    /// Why a limit of what has this mark is not made.
    pub fn why_lost(&self, mark: &str) -> Option<&str> {
        self.lost.get(mark).map(String::as_str)
    }
}
