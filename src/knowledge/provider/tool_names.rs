//! Names of tools as a provider takes them, and back: too long ones are shortened, illegal characters replaced.
//!
//! The name sent depends only on the client's name, so that tools, choices and calls of earlier turns still match.
//! The name in the response is the client's again. For example, where 64 characters are the limit,
//! `mcp__a_server_with_a_long_name__and_a_tool_whose_name_is_even_longer_than_that` is sent as
//! `mcp__a_server_with_a_long_name__and_a_tool_whose_name_i_1a2b3c4d`.

use std::borrow::Cow;
use std::collections::HashMap;
use words::api::chat::{ChatRequest, Part, Tool, ToolChoice};

/// What a name may consist of.
#[derive(Debug, Clone, Copy)]
pub struct NameRule {
    /// The maximum length, in characters.
    pub max: usize,
    /// Legal besides letters, digits, `_` and `-`.
    pub also: &'static str,
    /// The first character is a letter or `_`.
    pub has_letter_first: bool,
}

impl NameRule {
    /// OpenAI (<https://platform.openai.com/docs/api-reference/chat/create>, `tools.function.name`), Bedrock
    /// (`ToolName` in botocore 1.44.5: at most 64 of `[a-zA-Z0-9_-]`), and the default for everyone else.
    pub const COMMON: NameRule = NameRule { max: 64, also: "", has_letter_first: false };
    /// Anthropic: `^[a-zA-Z0-9_-]{1,128}$`.
    pub const ANTHROPIC: NameRule = NameRule { max: 128, also: "", has_letter_first: false };
    /// Gemini: "a-z, A-Z, 0-9, or contain underscores, dots, colons and dashes, with a maximum length of 128"
    /// (`FunctionDeclaration.name` in google-genai 3.4). "Must start with a letter or an underscore", says the API's refusal of
    /// others.
    pub const GEMINI: NameRule = NameRule { max: 128, also: ".:", has_letter_first: true };

    /// Moonshot: `^[a-zA-Z_][a-zA-Z0-9-_]63$`, as <https://platform.kimi.ai/docs/guide/use-kimi-api-to-complete-tool-calls> writes it.
    pub(crate) const MOONSHOT: NameRule = NameRule { has_letter_first: true, ..Self::COMMON };

    fn is_legal(self, char: char) -> bool {
        char.is_ascii_alphanumeric() || matches!(char, '_' | '-') || self.also.contains(char)
    }

    fn begins_legally(self, name: &str) -> bool {
        let is_first = |char: char| !self.has_letter_first || char.is_ascii_alphabetic() || char == '_';
        name.chars().next().is_none_or(is_first)
    }

    /// Whether a name is legal as it is.
    pub fn allows(self, name: &str) -> bool {
        self.begins_legally(name) && name.len() <= self.max && name.chars().all(|char| self.is_legal(char))
    }

    /// The name to send; `None` if it is legal as it is.
    pub(super) fn legal(self, name: &str) -> Option<String> {
        if self.allows(name) {
            return None;
        }
        // FNV-1a: keeps names apart that differ only in what is cut off or replaced.
        let hash = name
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let kept = name.chars().map(|char| if self.is_legal(char) { char } else { '_' });
        let first = if self.begins_legally(name) { "" } else { "_" };
        let kept: String = kept.take(self.max.saturating_sub(9 + first.len())).collect();
        Some(format!("{first}{kept}_{hash:08x}"))
    }
}

/// The names that were changed: as the client has them, by what was sent.
#[derive(Debug, Default)]
pub(crate) struct ToolNames(HashMap<String, String>);

impl ToolNames {
    /// Changes the names in a request that `rule` does not allow; `None` if there are none.
    pub fn shorten(request: &mut ChatRequest<'_>, rule: NameRule) -> Option<Self> {
        let mut names = Self::default();
        for tool in &mut request.tools {
            if let Tool::Function { name, .. } = tool {
                names.change(name, rule);
            }
        }
        match &mut request.tool_choice {
            Some(ToolChoice::Function(name)) => names.change(name, rule),
            Some(ToolChoice::Allowed { names: allowed, .. }) => {
                let changed = std::mem::take(allowed).into_list().into_iter().map(|mut name| {
                    names.change(&mut name, rule);
                    name
                });
                *allowed = changed.collect();
            }
            _ => {}
        }
        for part in request.messages.iter_mut().flat_map(|message| &mut message.content) {
            if let Part::ToolCall(call) = part {
                names.change(&mut call.name, rule);
            }
        }
        (!names.is_empty()).then_some(names)
    }

    fn change(&mut self, name: &mut Cow<'_, str>, rule: NameRule) {
        if let Some(legal) = self.shorten_name(name, rule) {
            *name = Cow::Owned(legal);
        }
    }

    /// The name to send for one of the client's, which is remembered; `None` if it is legal as it is.
    pub fn shorten_name(&mut self, name: &str, rule: NameRule) -> Option<String> {
        let legal = rule.legal(name)?;
        self.0.entry(legal.clone()).or_insert_with(|| name.to_owned());
        Some(legal)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The client's name for a name that was sent.
    pub fn original(&self, sent: &str) -> Option<&str> {
        self.0.get(sent).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legal_names_stay_and_others_come_back() {
        let long = "a".repeat(65);
        let other = format!("{}b", "a".repeat(64));
        for rule in [NameRule::COMMON, NameRule::ANTHROPIC, NameRule::GEMINI] {
            assert_eq!(rule.legal("get_weather-2"), None);
            for name in ["", "über", "a b"] {
                let legal = rule.legal(name);
                assert!(legal.is_none_or(|legal| legal.chars().all(|char| rule.is_legal(char))), "{name}");
            }
        }
        assert_eq!(NameRule::GEMINI.legal("a.b:c"), None);
        assert_eq!(NameRule::ANTHROPIC.legal(&long), None);
        let short = NameRule::COMMON.legal(&long);
        let shorter = NameRule::COMMON.legal(&other);
        assert_eq!(short.as_ref().map(String::len), Some(64));
        assert_ne!(short, shorter, "two long names stay apart");
        let mut request = ChatRequest {
            tool_choice: Some(ToolChoice::Function(Cow::Borrowed(&long))),
            ..ChatRequest::default()
        };
        let names = ToolNames::shorten(&mut request, NameRule::COMMON).unwrap();
        assert_eq!(names.original(&short.unwrap()), Some(long.as_str()));
        assert_eq!(names.original("other"), None);
        assert!(ToolNames::shorten(&mut request, NameRule::COMMON).is_none(), "what was sent is legal");
    }
}
