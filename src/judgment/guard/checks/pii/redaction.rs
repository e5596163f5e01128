//! Placeholders in place of what was found: by category, or numbered so that the originals can be put back.

use super::category::Category;
use super::scan::Found;
use std::collections::{HashMap, HashSet};

/// The placeholders of one subject.
#[derive(Debug, Default)]
pub(crate) struct Redaction {
    /// Original to placeholder, and the pairs in order; `None`: not numbered.
    numbered: Option<Numbered>,
}

#[derive(Debug, Default)]
struct Numbered {
    /// Original to placeholder, also of other checks of the same request.
    placeholders: HashMap<String, String>,
    taken: HashSet<String>,
    counts: HashMap<&'static str, usize>,
    pairs: Vec<(String, String)>,
}

/// What stands for any value of a category.
pub fn placeholder(category: Category) -> String {
    format!("{{{{{}}}}}", category.as_str())
}

impl Redaction {
    /// For texts without numbers.
    pub fn plain() -> Self {
        Self::default()
    }

    /// With numbers that go on behind the placeholders that other checks have made.
    pub fn numbered(made: &[(String, String)]) -> Self {
        let placeholders = made.iter().map(|(placeholder, original)| (original.clone(), placeholder.clone()));
        let taken = made.iter().map(|(placeholder, _)| placeholder.clone()).collect();
        let numbered = Numbered { placeholders: placeholders.collect(), taken, ..Numbered::default() };
        Self { numbered: Some(numbered) }
    }

    /// The text with placeholders; `None` where nothing was found in it.
    pub fn replace(&mut self, text: &str, found: &[Found]) -> Option<String> {
        if found.is_empty() {
            return None;
        }
        let mut replaced = String::with_capacity(text.len());
        let mut end = 0;
        for hit in found {
            let original = text.get(hit.range.clone()).unwrap_or_default();
            replaced.push_str(text.get(end..hit.range.start).unwrap_or_default());
            match &mut self.numbered {
                Some(numbered) => replaced.push_str(numbered.placeholder(hit.category, original)),
                None => replaced.push_str(&placeholder(hit.category)),
            }
            end = hit.range.end;
        }
        replaced.push_str(text.get(end..).unwrap_or_default());
        Some(replaced)
    }

    /// (placeholder, original) of each value that has a new one, where they are numbered.
    pub(crate) fn originals(self) -> Option<Vec<(String, String)>> {
        self.numbered.map(|numbered| numbered.pairs)
    }
}

impl Numbered {
    fn placeholder(&mut self, category: Category, original: &str) -> &str {
        if !self.placeholders.contains_key(original) {
            let count = self.counts.entry(category.as_str()).or_default();
            let placeholder = loop {
                *count += 1;
                let placeholder = format!("{{{{{}_{count}}}}}", category.as_str());
                if !self.taken.contains(&placeholder) {
                    break placeholder;
                }
            };
            self.pairs.push((placeholder.clone(), original.to_owned()));
            self.placeholders.insert(original.to_owned(), placeholder);
        }
        self.placeholders.get(original).map(String::as_str).unwrap_or_default()
    }
}
