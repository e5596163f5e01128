//! What a model of Anthropic's supports, by the version in its name.
//!
//! Sources: <https://platform.claude.com/docs/en/about-claude/models/overview>,
//! `.../build-with-claude/effort`, `.../adaptive-thinking`, `.../extended-thinking`,
//! `.../structured-outputs`. A name without a version (for example of a deployment) and future versions are
//! treated as the newest.

use crate::provider::rescue::Prefill;

/// A model's family and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::provider) struct Generation {
    family: Family,
    /// `claude-opus-4-5-20251101` is (4, 5), `claude-sonnet-4-20250514` (4, 0).
    version: Option<(u16, u16)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Opus,
    /// Fable and Mythos, whose thinking cannot be turned off.
    Fable,
    Other,
}

impl Generation {
    /// Parses a model's name in any cloud's spelling: `us.anthropic.claude-3-5-sonnet-20241022-v2:0`,
    /// `claude-sonnet-4@20250514`, `claude-2.1`.
    pub(crate) fn from_model(model: &str) -> Self {
        let model = model.to_ascii_lowercase();
        let family = match () {
            () if model.contains("opus") => Family::Opus,
            () if model.contains("fable") || model.contains("mythos") => Family::Fable,
            () => Family::Other,
        };
        let parts = model.split_once("claude").map_or("", |(_, rest)| rest);
        let mut parts = parts.split(['-', '@', ':', '_', '.', '/']).skip_while(|part| number(part).is_none());
        let major = parts.next().and_then(number);
        let minor = parts.next().and_then(number).unwrap_or_default();
        Self { family, version: major.map(|major| (major, minor)) }
    }

    fn since(self, version: (u16, u16)) -> bool {
        self.version.is_none_or(|own| own >= version)
    }

    /// Responses that follow a JSON schema, and `strict` tools.
    pub(crate) fn has_schemas(self) -> bool {
        self.since((4, 5)) || (self.family == Family::Opus && self.since((4, 1)))
    }

    /// Whether the model continues an assistant message at the end. From 4.6 on that is a 400 ("does not
    /// support assistant message prefill"):
    /// <https://platform.claude.com/docs/en/about-claude/models/migration-guide>. A name without a version is
    /// treated as one of those.
    pub fn prefill(self) -> Prefill {
        let takes = self.version.is_some_and(|version| ((3, 0)..(4, 6)).contains(&version));
        if takes && self.family != Family::Fable { Prefill::Plain } else { Prefill::No }
    }

    pub fn thinks(self) -> bool {
        self.since((3, 7))
    }

    /// `thinking: {type: adaptive}` with `output_config.effort`; older models take a budget in tokens.
    pub(crate) fn adapts(self) -> bool {
        self.since((4, 6))
    }

    /// `output_config.effort`.
    pub(crate) fn has_effort(self) -> bool {
        self.adapts() || (self.family == Family::Opus && self.since((4, 5)))
    }

    /// `effort: xhigh`; for older models `max` is the closest.
    pub(crate) fn has_xhigh(self) -> bool {
        self.since((4, 7))
    }

    /// Thinking is hidden unless requested with `display`.
    pub(crate) fn hides_thinking(self) -> bool {
        self.since((4, 7))
    }

    /// The model thinks unless thinking is disabled.
    pub(crate) fn thinks_by_default(self) -> bool {
        self.version.is_some() && self.since((5, 0))
    }

    /// Thinking cannot be disabled.
    pub(crate) fn always_thinks(self) -> bool {
        match self.family {
            Family::Fable => true,
            Family::Opus => self.version.is_some() && self.since((5, 5)),
            Family::Other => false,
        }
    }

    /// `temperature`, `top_p` and `top_k` are refused unless they equal the default.
    pub(crate) fn has_fixed_sampling(self) -> bool {
        self.family == Family::Fable || (self.version.is_some() && self.since((4, 7)))
    }

    /// Takes `temperature` or `top_p`, not both.
    pub(crate) fn takes_one_sampling_param(self) -> bool {
        self.version.is_some() && self.has_schemas()
    }

    /// The `max_tokens` for requests without one: Anthropic requires it, OpenAI's clients often leave it out.
    /// As much as every model of the generation allows, up to 32,000: more would take too much of a 200,000
    /// token context from the prompt.
    pub fn max_tokens(self) -> u64 {
        match self.version {
            Some(version) if version < (3, 5) => 4_096,
            Some(version) if version < (3, 7) => 8_192,
            _ => 32_000,
        }
    }
}

/// A part of a version: `4`, or `v2` in old names, but not a date.
fn number(part: &str) -> Option<u16> {
    let digits = part.strip_prefix('v').unwrap_or(part);
    (digits.len() <= 2).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_up_to_4_5_accept_a_prefill() {
        let takes = [
            "claude-3-opus-latest",
            "claude-3-5-haiku@20241022",
            "us.anthropic.claude-3-7-sonnet-20250219-v1:0",
            "claude-sonnet-4-20250514",
            "claude-opus-4-5-20251101",
            "anthropic/claude-sonnet-4.5",
        ];
        let refuses = [
            "claude-2.1",
            "claude-opus-4-6",
            "claude-sonnet-4-6",
            "claude-opus-5",
            "claude-mythos-preview",
            "mine",
        ];
        for (names, prefill) in [(&takes[..], Prefill::Plain), (&refuses[..], Prefill::No)] {
            for name in names {
                assert_eq!(Generation::from_model(name).prefill(), prefill, "{name}");
            }
        }
    }

    #[test]
    fn a_models_version_is_read_in_every_spelling() {
        for (name, version) in [
            ("claude-3-opus-latest", Some((3, 0))),
            ("claude-3-5-haiku@20241022", Some((3, 5))),
            ("claude-3-7-sonnet-20250219", Some((3, 7))),
            ("claude-sonnet-4-20250514", Some((4, 0))),
            ("claude-sonnet-4-0", Some((4, 0))),
            ("us.anthropic.claude-haiku-4-5-20251001-v1:0", Some((4, 5))),
            ("anthropic.claude-v2:1", Some((2, 1))),
            ("claude-2.1", Some((2, 1))),
            ("claude-opus-4.6", Some((4, 6))),
            ("claude-fable-5-1", Some((5, 1))),
            ("arn:aws:bedrock:us-east-1:1:application-inference-profile/x7", None),
            ("claude-latest", None),
            ("my-deployment-4", None),
        ] {
            assert_eq!(Generation::from_model(name).version, version, "{name}");
        }
    }

    #[test]
    fn each_generation_has_the_documented_features() {
        let features = |name| {
            let model = Generation::from_model(name);
            [model.thinks(), model.has_schemas(), model.adapts(), model.has_effort(), model.has_xhigh()]
        };
        assert_eq!(features("claude-3-5-sonnet-20241022"), [false; 5]);
        assert_eq!(features("claude-sonnet-4-0"), [true, false, false, false, false]);
        assert_eq!(features("claude-opus-4-1"), [true, true, false, false, false]);
        assert_eq!(features("claude-sonnet-4-5"), [true, true, false, false, false]);
        assert_eq!(features("claude-opus-4-5"), [true, true, false, true, false]);
        assert_eq!(features("claude-sonnet-4-6"), [true, true, true, true, false]);
        assert_eq!(features("claude-opus-4-8"), [true; 5]);
        assert_eq!(features("claude-haiku-5-5"), [true; 5]);
        assert_eq!(features("my-deployment"), [true; 5]);
        assert!(!Generation::from_model("my-deployment").has_fixed_sampling());
    }
}
