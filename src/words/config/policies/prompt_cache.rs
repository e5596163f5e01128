//! `prompt_cache`: whether the gateway sets the marks of the provider's cache of prompts where the client has set none.
//!
//! Not here: where they are set (`knowledge::provider::prompt_marks`), and the gateway's own cache of responses (`cache`).

use super::from_headers::PolicyHeader;
use super::{DescribeContext, Policies, PolicyKey, inherit_value};
use crate::config::members::{self, Choice, Form, MemberTable, MemberType as _, form};
use serde_json::{Value, json};

pub(super) const KEY: PolicyKey = PolicyKey {
    members: |policies, table| {
        let doc = "Whether marks of the provider's cache of prompts are set; the mode alone is short for an object with it.";
        policies.prompt_cache = table.get("prompt_cache", PROMPT_CACHE, doc);
    },
    header: Some(PolicyHeader {
        names: &["prompt-cache"],
        read: |policies, lines| {
            let Some(line) = lines.first() else { return Ok(()) };
            let text = line.text()?;
            let found = MODES.0.iter().find(|(name, _)| *name == text);
            let (_, mode) = found.ok_or_else(|| line.error("must be auto or off"))?;
            policies.prompt_cache = Some(PromptCachePolicy { mode: *mode, ttl: TtlRule::default() });
            Ok(())
        },
        is_list: false,
        inline: None,
    }),
    inherit: |policies, above| inherit_value(&mut policies.prompt_cache, &above.prompt_cache),
    describe: Some(describe),
    ..PolicyKey::NONE
};

const MODES: Choice<MarkMode> = Choice(&[("auto", MarkMode::Auto), ("off", MarkMode::Off)]);
const MODES_DOC: &str = "Set marks where the client has set none, or never.";
const TTLS: Choice<TtlRule> = Choice(&[
    ("5m", TtlRule::Always(MarkTtl::FiveMinutes)),
    ("1h", TtlRule::Always(MarkTtl::Hour)),
    ("auto", TtlRule::ByUse),
]);

/// A mode, or an object.
const PROMPT_CACHE: Form<PromptCachePolicy> = form(
    |at| match at.node.as_text() {
        Some(_) => MODES.read(at).map(|mode| PromptCachePolicy { mode, ttl: TtlRule::default() }),
        None => members::read(at, PromptCachePolicy::members),
    },
    |doc| {
        let whole =
            members::schema("Marks of the provider's cache (docs/config.md).", PromptCachePolicy::members);
        json!({"anyOf": [MODES.schema(MODES_DOC), whole], "description": doc})
    },
);

/// `prompt_cache` of a config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptCachePolicy {
    pub mode: MarkMode,
    pub ttl: TtlRule,
}

/// Whether marks are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkMode {
    Auto,
    Off,
}

/// How the time of the marks of a request is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TtlRule {
    Always(MarkTtl),
    /// An hour for conversations that have paused for longer than five minutes, else five minutes.
    ByUse,
}

impl Default for TtlRule {
    fn default() -> Self {
        Self::Always(MarkTtl::FiveMinutes)
    }
}

/// How long a provider keeps what ends at a mark, since its last use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkTtl {
    FiveMinutes,
    Hour,
}

impl MarkTtl {
    /// The value as written in a config, and in a mark.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FiveMinutes => "5m",
            Self::Hour => "1h",
        }
    }
}

impl PromptCachePolicy {
    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let mode = table.needed("mode", MODES, MODES_DOC);
        let ttl = "How long the provider keeps what it has cached, since its last use. `auto`: as the pauses of the conversation are.";
        let ttl = table.or("ttl", TTLS, TtlRule::default(), ttl);
        Some(Self { mode: mode?, ttl })
    }
}

impl Policies {
    /// Whether marks are set, and how their time is chosen.
    pub fn auto_marks(&self) -> Option<TtlRule> {
        let policy = self.prompt_cache?;
        (policy.mode == MarkMode::Auto).then_some(policy.ttl)
    }
}

impl TtlRule {
    /// The time of the marks of a request. `pauses`: its conversation has paused for longer than five minutes.
    pub const fn of_turn(self, pauses: bool) -> MarkTtl {
        match self {
            Self::Always(ttl) => ttl,
            Self::ByUse if pauses => MarkTtl::Hour,
            Self::ByUse => MarkTtl::FiveMinutes,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Always(ttl) => ttl.as_str(),
            Self::ByUse => "auto",
        }
    }
}

fn describe(policies: &Policies, _: &DescribeContext) -> (&'static str, Value) {
    let value = policies.auto_marks().map(|ttl| json!({"mode": "auto", "ttl": ttl.as_str()}));
    ("prompt_cache", value.unwrap_or_default())
}
