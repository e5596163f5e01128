//! `priority`: which attempts get a free place first where some wait for one (`concurrency`).
//!
//! The lowest of all levels counts, the request's header among them: who sends a request may put it back, not ahead.

use super::PolicyKey;
use super::from_headers::PolicyHeader;
use crate::config::members::{Choice, default_shown};

pub(super) const KEY: PolicyKey = PolicyKey {
    members: |policies, table| {
        let doc = "Who gets a free place of `concurrency` first; the lowest of all levels counts.";
        policies.priority = table.get("priority", default_shown(Choice(VARIANTS), Priority::Normal), doc);
    },
    header: Some(PolicyHeader {
        names: &["priority"],
        read: |policies, lines| {
            let Some(line) = lines.first() else { return Ok(()) };
            let text = line.text()?;
            let found = VARIANTS.iter().find(|(name, _)| *name == text);
            let (_, priority) = found.ok_or_else(|| line.error("must be low, normal or high"))?;
            // A config has to say it: with the header alone every request would be the first.
            policies.priority = Some(*priority).filter(|priority| *priority != Priority::High);
            Ok(())
        },
        is_list: false,
        inline: None,
    }),
    inherit: |policies, above| policies.priority = lowest(policies.priority, above.priority),
    describe: Some(|policies, _| ("priority", policies.priority.unwrap_or_default().as_str().into())),
    ..PolicyKey::NONE
};

/// Who gets a free place first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    Low,
    #[default]
    Normal,
    High,
}

const VARIANTS: &[(&str, Priority)] =
    &[("low", Priority::Low), ("normal", Priority::Normal), ("high", Priority::High)];

impl Priority {
    /// The value as written in a config.
    fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
        }
    }
}

fn lowest(own: Option<Priority>, above: Option<Priority>) -> Option<Priority> {
    match (own, above) {
        (Some(own), Some(above)) => Some(own.min(above)),
        (own, above) => own.or(above),
    }
}
