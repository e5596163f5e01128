//! The rules of the catalogue by which a name stands for one of its models.
//!
//! Names are compared in lower case. Not here: which models are looked through (`catalog`).

use words::config::pattern::{Excerpt, Pattern, PatternBudget};

#[derive(Debug, Clone)]
pub enum ModelRule {
    All(Box<[ModelRule]>),
    Any(Box<[ModelRule]>),
    Contains(Box<str>),
    EndsWith(Box<str>),
    Equals(Box<str>),
    StartsWith(Box<str>),
    Matches(NamePattern),
}

impl ModelRule {
    /// Whether the name, in lower case, is one of the model's.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::All(rules) => rules.iter().all(|rule| rule.matches(name)),
            Self::Any(rules) => rules.iter().any(|rule| rule.matches(name)),
            Self::Contains(text) => name.contains(&**text),
            Self::EndsWith(text) => name.ends_with(&**text),
            Self::Equals(text) => name == &**text,
            Self::StartsWith(text) => name.starts_with(&**text),
            Self::Matches(pattern) => pattern.matches(name),
        }
    }
}

/// A regular expression, possibly one that begins with what may not follow: the catalogue writes `^(?!A)B`, and our
/// patterns look neither ahead nor back. That is `^A` not matched and `^B` matched.
#[derive(Debug, Clone)]
pub struct NamePattern {
    excluded: Option<Pattern>,
    pattern: Pattern,
}

impl NamePattern {
    /// # Errors
    /// What is wrong with the pattern.
    pub fn compile(text: &str) -> Result<Self, String> {
        // Each pattern is bounded by itself: the catalogue is not written by a client.
        let compile = |text: &str| Pattern::compile(text, &PatternBudget::default());
        match excluded_part(text) {
            None => Ok(Self { excluded: None, pattern: compile(text)? }),
            Some((excluded, rest)) => Ok(Self {
                excluded: Some(compile(&format!("^(?:{excluded})"))?),
                pattern: compile(&format!("^(?:{rest})"))?,
            }),
        }
    }

    fn matches(&self, name: &str) -> bool {
        let name = Excerpt::of(name);
        !self.excluded.as_ref().is_some_and(|excluded| excluded.is_match(&name))
            && self.pattern.is_match(&name)
    }
}

/// For `^(?!A)B`, A and B. Brackets within A are balanced, and none of them stands in a class.
fn excluded_part(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("^(?!")?;
    let mut depth = 0_usize;
    let mut is_escaped = false;
    for (at, character) in rest.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '(' => depth += 1,
            ')' if depth == 0 => return Some((rest.get(..at)?, rest.get(at + 1..)?)),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_not_follow_is_excluded() {
        let pattern = NamePattern::compile("^(?!.*-[tT][tT][sS](?:$|-))").unwrap();
        assert!(pattern.matches("gemini-2.5-flash"));
        assert!(pattern.matches("gemini-2.5-ttsx"));
        assert!(!pattern.matches("gemini-2.5-flash-tts"));
        assert!(!pattern.matches("gemini-2.5-tts-preview"));
        let pattern = NamePattern::compile("^(?![^/]+/)(?:labs-)?(?:mi|code)stral").unwrap();
        assert!(pattern.matches("labs-mistral-x") && pattern.matches("codestral"));
        assert!(!pattern.matches("mistralai/mistral") && !pattern.matches("a-mistral"));
        for wrong in ["^(?!a", "(?!a)b", "a(", "x(?=y)"] {
            assert!(NamePattern::compile(wrong).is_err(), "{wrong}");
        }
    }
}
