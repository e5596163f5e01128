//! The names of `models`, of the settings or of one workspace: which of them a request means.
//!
//! Not here: what an entry says (`model_entry`), and names of several places (`state::directory`).

use super::ModelEntry;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names that work as `model`.
#[derive(Debug, Clone, Default)]
pub struct ModelNames {
    whole: BTreeMap<Box<str>, Arc<ModelEntry>>,
    /// Those with a `*`, the one first that counts where several mean a name.
    patterns: Vec<Arc<ModelEntry>>,
}

impl ModelNames {
    /// Of two entries of one name the first counts.
    pub fn new(entries: impl IntoIterator<Item = Arc<ModelEntry>>) -> Self {
        let mut names = Self::default();
        for entry in entries {
            if entry.name.is_exact() {
                names.whole.entry(entry.name.as_str().into()).or_insert(entry);
            } else {
                names.patterns.push(entry);
            }
        }
        names.patterns.sort_by(|a, b| b.name.rank().cmp(&a.name.rank()).then_with(|| a.name.cmp(&b.name)));
        names
    }

    pub fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.patterns.is_empty()
    }

    /// The entry of exactly this name.
    pub fn whole(&self, name: &str) -> Option<&Arc<ModelEntry>> {
        self.whole.get(name)
    }

    /// The entry whose `*` makes it mean this name; of several the longest.
    pub fn pattern(&self, name: &str) -> Option<&Arc<ModelEntry>> {
        self.patterns.iter().find(|entry| entry.name.found_in(name).is_some())
    }

    /// All entries, those with a `*` last.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ModelEntry>> {
        self.whole.values().chain(&self.patterns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Checks;
    use crate::config::node::Node;
    use crate::config::read::{Cursor, Problems};

    #[test]
    fn the_longest_pattern_counts() {
        let node = Node::from_json(br#""@p""#).unwrap();
        let problems = Problems::default();
        let entry = |name: &&str| {
            ModelEntry::read(name, &Cursor::root(&node, &problems), &Checks::NONE).map(Arc::new)
        };
        let names = ModelNames::new(["*", "gpt-4o*", "gpt-*", "gpt-4o"].iter().filter_map(entry));
        let pattern = |name: &str| names.pattern(name).map(|entry| entry.name.as_str().to_owned());
        assert_eq!(pattern("gpt-4o-mini").as_deref(), Some("gpt-4o*"));
        assert_eq!(pattern("gpt-5").as_deref(), Some("gpt-*"));
        assert_eq!(pattern("x").as_deref(), Some("*"));
        assert!(names.whole("gpt-4o").is_some() && names.whole("gpt-*").is_none());
        assert_eq!((names.iter().count(), names.is_empty()), (4, false));
    }
}
