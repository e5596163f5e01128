//! Names of models as settings write them: whole, or with one `*` for any text.
//!
//! Not here: what such a name stands for (`model_entry`).

use crate::config::members::{Form, form};
use crate::config::read::Cursor;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;

/// The longest name, characters.
const MAX_NAME: usize = 256;

/// What a name must be.
pub const RULE: &str = "must be a name of models: 1 to 256 characters without spaces, with at most one *";

/// [`RULE`] as a schema.
pub fn schema() -> Value {
    let plain = r"[^\s\x00-\x1f\x7f-\x9f*]*";
    json!({"type": "string", "minLength": 1, "maxLength": MAX_NAME, "pattern": format!(r"^{plain}\*?{plain}$")})
}

/// A name of one model, or of all whose names have this beginning and end. Letter case counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelPattern {
    text: Box<str>,
    /// Where its `*` stands.
    star: Option<usize>,
}

impl ModelPattern {
    /// `None`: it is no name of models.
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain = |c: char| !c.is_whitespace() && !c.is_control();
        let is_name = !text.is_empty() && text.chars().count() <= MAX_NAME && text.chars().all(is_plain);
        let mut stars = text.match_indices('*').map(|(at, _)| at);
        let star = stars.next();
        (is_name && stars.next().is_none()).then(|| Self { text: text.into(), star })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is the name of one model.
    pub fn is_exact(&self) -> bool {
        self.star.is_none()
    }

    /// What its `*` stands for in `name`, or an empty text where it has none; `None`: it does not mean this name.
    pub(crate) fn found_in<'n>(&self, name: &'n str) -> Option<&'n str> {
        let Some(star) = self.star else { return (*self.text == *name).then_some("") };
        let before = self.text.get(..star)?;
        let after = self.text.get(star + 1..)?;
        name.strip_prefix(before)?.strip_suffix(after)
    }

    /// What it becomes with this text in place of its `*`.
    pub(crate) fn with(&self, found: &str) -> String {
        self.text.replacen('*', found, 1)
    }

    /// Of two that mean the same name, the one with the higher rank counts.
    pub(crate) fn rank(&self) -> (bool, usize) {
        (self.is_exact(), self.text.len())
    }

    /// Reads one of a list.
    fn read(at: &Cursor<'_>) -> Option<Self> {
        let found = Self::parse(at.text()?);
        if found.is_none() {
            at.problem(RULE);
        }
        found
    }
}

impl fmt::Display for ModelPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The models that a key or a stored provider may use. A copy shares the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedNames(Arc<[ModelPattern]>);

impl AllowedNames {
    /// `names` that are no names of models mean none.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(names.into_iter().filter_map(ModelPattern::parse).collect())
    }

    /// Whether one of them means `name`.
    pub fn allows(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| pattern.found_in(name).is_some())
    }

    /// As they were written.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(ModelPattern::as_str)
    }
}

/// `allowed_models`. An empty list allows none.
pub(super) const ALLOWED_MODELS: Form<AllowedNames> = form(
    |at| Some(AllowedNames(at.list()?.iter().filter_map(ModelPattern::read).collect())),
    |doc| json!({"type": "array", "items": schema(), "description": doc, "examples": [["gpt-4o*", "@anthropic/*"]]}),
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, wanted) in [
            ("gpt-4o", "gpt-4o", Some("")),
            ("gpt-4o", "gpt-4o-mini", None),
            ("gpt-4o*", "gpt-4o-mini", Some("-mini")),
            ("gpt-4o*", "gpt-4o", Some("")),
            ("openai/*", "openai/a/b", Some("a/b")),
            ("*-mini", "gpt-4o-mini", Some("gpt-4o")),
            ("a*a", "a", None),
            ("*", "x", Some("x")),
            ("GPT-4o", "gpt-4o", None),
        ] {
            assert_eq!(ModelPattern::parse(pattern).unwrap().found_in(name), wanted, "{pattern} {name}");
        }
        assert_eq!(ModelPattern::parse("@a/*").unwrap().with("m"), "@a/m");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["", "a b", "a\n", "**", "a*b*", &"é".repeat(257)] {
            assert_eq!(ModelPattern::parse(text), None, "{text:?}");
        }
        assert!(ModelPattern::parse(&"é".repeat(256)).is_some());
        let allowed = AllowedNames::new(["gpt-*", "a b"]);
        assert!(allowed.allows("gpt-4o") && !allowed.allows("a b"));
        assert!(!AllowedNames::new([]).allows("gpt-4o"), "an empty list allows none");
    }

    #[test]
    fn a_whole_name_counts_before_a_longer_pattern() {
        let rank = |text: &str| ModelPattern::parse(text).unwrap().rank();
        assert!(rank("gpt") > rank("gpt-4o*") && rank("gpt-4o*") > rank("gpt*"));
    }
}
