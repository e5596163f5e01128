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
            let priority = Priority::parse(text).ok_or_else(|| line.error("must be low, normal or high"))?;
            // A config has to say it: with the header alone every request would be the first.
            policies.priority = Some(priority).filter(|priority| *priority != Priority::High);
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

/// The priorities by their names.
pub(crate) const VARIANTS: &[(&str, Priority)] =
    &[("low", Priority::Low), ("normal", Priority::Normal), ("high", Priority::High)];

impl Priority {
    /// As they are written, the lowest first.
    pub const NAMES: [&str; 3] = ["low", "normal", "high"];

    /// The priority of that name.
    pub fn parse(name: &str) -> Option<Self> {
        VARIANTS.iter().find(|(found, _)| *found == name).map(|(_, priority)| *priority)
    }

    /// What counts for a request. `of_config`: the lowest that its config and its header say; `is_inline`: the config came with the
    /// request. `of_key`: the priority of its key: the one where nothing else is said, and the highest.
    pub fn effective(of_config: Option<Self>, is_inline: bool, of_key: Option<Self>) -> Self {
        // Who writes the config with the request does not decide who is before others.
        let most = of_key.unwrap_or(if is_inline { Self::Normal } else { Self::High });
        of_config.or(of_key).unwrap_or_default().min(most)
    }

    /// The value as written in a config.
    pub fn as_str(self) -> &'static str {
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

#[cfg(test)]
mod tests {
    use super::Priority::{self, High, Low, Normal};

    #[test]
    fn the_priority_of_a_key_is_the_default_and_the_most() {
        for (of_config, is_inline, of_key, wanted) in [
            (None, true, None, Normal),
            (Some(High), false, None, High),
            (Some(High), true, None, Normal),
            (None, true, Some(High), High),
            (Some(High), true, Some(High), High),
            (Some(Low), false, Some(High), Low),
            (None, false, Some(Low), Low),
            (Some(High), false, Some(Low), Low),
            (Some(High), false, Some(Normal), Normal),
        ] {
            let found = Priority::effective(of_config, is_inline, of_key);
            assert_eq!(found, wanted, "{of_config:?} {is_inline} {of_key:?}");
        }
    }
}
