//! What an import has so far: the settings, and what became of each key.

use super::moved::Moved;
use super::report::Findings;

#[derive(Default)]
pub struct Import {
    pub moved: Moved,
    pub findings: Findings,
    /// The files without folder and ending.
    pub file_names: Vec<String>,
}

impl Import {
    /// The name of the file of this number, as an id is made of it.
    pub fn file_name(&self, number: usize) -> String {
        self.file_names.get(number).cloned().unwrap_or_else(|| "imported".to_owned())
    }
}
