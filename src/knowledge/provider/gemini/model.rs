//! What a model's name says about the model: parameters differ between the generations of Gemini.

/// How thinking is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thinking {
    /// Not at all (Gemini 2.0 and older): thinking parameters are refused.
    None,
    /// By a number of tokens (Gemini 2.5).
    Budget,
    /// By a level (Gemini 3 and later, and names without a version).
    Level,
}

/// A model's properties, derived from its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Model {
    pub thinking: Thinking,
    /// It always thinks, and has fewer levels than the smaller models.
    pub is_pro: bool,
    /// Gemini 3 or later: function calls of earlier turns need their signature, and function results may
    /// contain pictures.
    pub requires_signatures: bool,
}

impl Model {
    /// Accepts `gemini-2.5-pro`, `models/gemini-3-flash-preview`, `google/gemini-2.0-flash-001`.
    pub(super) fn from_name(name: &str) -> Self {
        let name = name.rsplit('/').next().unwrap_or_default();
        let version = name.find("gemini-").and_then(|at| name.get(at + "gemini-".len()..)).map(version);
        let is_pro = name.contains("-pro");
        let (thinking, requires_signatures) = match version {
            Some(Some((0..=1, _) | (2, 0..=4))) => (Thinking::None, false),
            Some(Some((2, _))) => (Thinking::Budget, false),
            // `gemini-flash-latest` is of the newest generation.
            Some(_) => (Thinking::Level, true),
            None => (Thinking::Level, false),
        };
        Self { thinking, is_pro, requires_signatures }
    }
}

/// Major and minor version at the start of `text`.
fn version(text: &str) -> Option<(u32, u32)> {
    let end = text.find(|each: char| !each.is_ascii_digit() && each != '.').unwrap_or(text.len());
    let (major, minor) = match text.get(..end)?.split_once('.') {
        Some((major, minor)) => (major, minor),
        None => (text.get(..end)?, "0"),
    };
    Some((major.parse().ok()?, minor.parse().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generation_is_in_the_name() {
        let cases = [
            ("gemini-1.5-flash", Thinking::None, false, false),
            ("gemini-2.0-flash-exp", Thinking::None, false, false),
            ("models/gemini-2.5-pro-preview-03-25", Thinking::Budget, true, false),
            ("google/gemini-2.5-flash-lite", Thinking::Budget, false, false),
            ("gemini-3-pro-preview", Thinking::Level, true, true),
            ("google.gemini-3.1-flash-lite", Thinking::Level, false, true),
            ("gemini-flash-latest", Thinking::Level, false, true),
            ("gemma-3-27b-it", Thinking::Level, false, false),
            ("", Thinking::Level, false, false),
        ];
        for (name, thinking, is_pro, requires_signatures) in cases {
            assert_eq!(Model::from_name(name), Model { thinking, is_pro, requires_signatures }, "{name}");
        }
    }
}
