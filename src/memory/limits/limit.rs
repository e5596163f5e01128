//! One limit, compiled: what it counts, for whom, how much of it, and in which window.
//!
//! Plain data. Whether a request is within it is judged in `buckets`; what records of the store mean is read elsewhere.

use super::value_key::as_shown;
use crate::auth::fact_key::{Condition, FactKey, Pattern};
use jiff::civil::Date;
use std::sync::Arc;
use uuid::Uuid;

/// A usage or rate limit of a policy, key, workspace, provider or integration.
///
/// `id` and `index` together name it: usage is kept under them, so that a changed limit keeps its usage. What a limit counts is part of
/// the index, so that no limit takes over what another one has counted in another unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// The record's; another one of limits that an integration has for a workspace.
    pub id: Uuid,
    /// Which of the limits with this id it is (`from_records`).
    pub index: u8,
    /// The record it belongs to.
    pub record: Uuid,
    pub scope: LimitScope,
    /// For the messages of refusals.
    pub name: Option<Arc<str>>,
    /// Of a policy or an integration: the workspace to whose requests the limit applies; `None`: those of the whole
    /// organisation. Of a provider: the provider's workspace. Unused in other scopes.
    pub workspace: Option<Uuid>,
    pub kind: LimitKind,
    /// All must match. None: every request does.
    pub conditions: Vec<Condition>,
    /// One bucket for each combination of their values. None: one bucket.
    pub group_by: Vec<FactKey>,
    /// What a request without a value for one of `group_by` means.
    pub on_missing: OnMissing,
    /// Never exceeded: what a request can cost at most must fit, and must be certain.
    pub hard: bool,
    /// With `hard`: a request that does not fit is given the output bound that does.
    pub fit: bool,
    /// Rate limits: the window before counts in part, so that twice the value cannot pass around a boundary.
    pub smooth: bool,
    /// Counts the times that the usage of all its buckets was reset.
    pub generation: u32,
    /// Its value is a raised one until then, milliseconds since 1970.
    pub raised_until: Option<i64>,
    /// Of a usage limit: what was used of it elsewhere, before this gateway counted. In its unit.
    pub used_before: i64,
    /// When it has to be compiled again, because a raise or what was used before ends; milliseconds since 1970.
    pub changes_at: Option<i64>,
}

impl Limit {
    /// A limit that is for every request in its scope, with one bucket.
    pub fn new(id: Uuid, scope: LimitScope, kind: LimitKind) -> Self {
        Self {
            id,
            index: 0,
            record: id,
            scope,
            name: None,
            workspace: None,
            kind,
            conditions: Vec::new(),
            group_by: Vec::new(),
            on_missing: OnMissing::Skip,
            hard: false,
            fit: false,
            smooth: false,
            generation: 0,
            raised_until: None,
            used_before: 0,
            changes_at: None,
        }
    }

    /// Whether it is the same as `before`. A set of limits that was made again has the same limits at other places: `before` becomes this
    /// one then, so that the next comparison is one of two pointers.
    pub(super) fn is_same(self: &Arc<Self>, before: &mut Arc<Self>) -> bool {
        if !Arc::ptr_eq(before, self) {
            if **before != **self {
                return false;
            }
            *before = Arc::clone(self);
        }
        true
    }

    /// Whether it can be judged only when the target of an attempt is certain.
    pub(crate) fn is_for_targets(&self) -> bool {
        matches!(self.scope, LimitScope::Provider | LimitScope::Integration)
            || self.keys().any(FactKey::is_of_target)
    }

    /// What it looks at of a request, apart from its scope.
    pub(super) fn keys(&self) -> impl Iterator<Item = &FactKey> {
        self.conditions.iter().map(|condition| &condition.key).chain(&self.group_by)
    }

    /// Whether a bucket counts the requests of this workspace alone, as far as the limit and the value key of the bucket show. Who belongs
    /// to one workspace may see no other bucket: it may have other workspaces' usage and the names of their users.
    pub fn is_of_workspace(&self, value_key: &str, workspace: Uuid) -> bool {
        if matches!(self.scope, LimitScope::Key | LimitScope::Workspace) || self.workspace == Some(workspace)
        {
            return true;
        }
        let is_it = |pattern: &Pattern| matches!(pattern, Pattern::Exact(text) if Uuid::try_parse(text) == Ok(workspace));
        let is_condition = |condition: &Condition| {
            let values = &condition.values;
            condition.key == FactKey::Workspace && !values.is_empty() && values.iter().all(is_it)
        };
        self.conditions.iter().any(is_condition)
            || (self.group_by.contains(&FactKey::Workspace) && names_workspace(value_key, workspace))
    }

    /// How the value key of a bucket is shown, whose values may be longer than what is shown of them. Of several values, as it is.
    pub fn shown_value_key(&self, value_key: &str) -> String {
        as_shown(self, value_key)
    }

    /// How long a bucket may be idle before it begins anew, in milliseconds. `None`: its windows are the calendar's.
    pub(super) fn idle_reset(&self) -> Option<i64> {
        match self.kind {
            LimitKind::Usage { reset: Reset::Idle { minutes }, .. } => Some(i64::from(minutes) * 60_000),
            _ => None,
        }
    }

    /// Whether it counts money.
    pub(crate) fn is_cost(&self) -> bool {
        matches!(self.kind, LimitKind::Usage { of: UsageOf::Cost, .. })
    }

    /// Whether it is a rate limit.
    pub fn is_rate(&self) -> bool {
        matches!(self.kind, LimitKind::Rate { .. })
    }

    /// Whether its usage outlives the process: that of short rate windows is over before it would matter.
    pub(super) fn is_journalled(&self) -> bool {
        !matches!(self.kind, LimitKind::Rate { unit: RateUnit::Second | RateUnit::Minute, .. })
    }

    /// What passes in one window here: nanodollars, tokens or requests. What was used before is taken off.
    pub fn value(&self) -> i64 {
        match self.shown_value() {
            i64::MAX => i64::MAX,
            value => value.saturating_sub(self.used_before).max(0),
        }
    }

    /// What passes in one window, as its record has it.
    pub fn shown_value(&self) -> i64 {
        match self.kind {
            LimitKind::Rate { value, .. } => value,
            LimitKind::Usage { credit, .. } => credit,
        }
    }

    /// What is used of [`Limit::shown_value`], where a bucket has counted this much.
    pub fn shown_usage(&self, counted: i64) -> i64 {
        counted.saturating_add(self.used_before)
    }

    /// What it counts.
    pub fn counts(&self) -> Counted {
        match self.kind {
            LimitKind::Rate { of: RateOf::Requests, .. } | LimitKind::Usage { of: UsageOf::Requests, .. } => {
                Counted::Requests
            }
            LimitKind::Rate { of: RateOf::Tokens, .. } | LimitKind::Usage { of: UsageOf::Tokens, .. } => {
                Counted::Tokens
            }
            LimitKind::Usage { of: UsageOf::Cost, .. } => Counted::Cost,
        }
    }

    /// What a bucket has counted when an alert is sent, below the limit itself.
    pub fn alert_at(&self) -> Option<i64> {
        self.shown_alert_at().map(|at| at.saturating_sub(self.used_before).max(0))
    }

    /// The usage at which an alert is sent, as its record has it.
    pub fn shown_alert_at(&self) -> Option<i64> {
        match self.kind {
            LimitKind::Rate { .. } => None,
            LimitKind::Usage { alert_at, .. } => alert_at,
        }
    }
}

/// Whether a value key with the value of a workspace has this one. A text that may have come from metadata names none.
fn names_workspace(value_key: &str, workspace: Uuid) -> bool {
    const NAME: &str = "workspace_id:";
    let mut found = value_key.match_indices(NAME).map(|(at, _)| at);
    let (Some(at), None) = (found.next(), found.next()) else { return false };
    let (before, after) = value_key.split_at_checked(at).unwrap_or_default();
    let after = after.strip_prefix(NAME).and_then(|rest| rest.strip_prefix(workspace.to_string().as_str()));
    let ends = after.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    ends && (before.is_empty() || before.ends_with('-'))
}

/// What the limit belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitScope {
    Policy,
    Key,
    Workspace,
    Provider,
    Integration,
}

impl LimitScope {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Key => "key",
            Self::Workspace => "workspace",
            Self::Provider => "provider",
            Self::Integration => "integration",
        }
    }
}

/// What is limited. Values are whole: of a fraction in a record, a rate and a `hard` limit take what is below it, a usage limit what
/// is above it (usage is spent when it is *at least* the limit).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    Rate {
        of: RateOf,
        unit: RateUnit,
        value: i64,
    },
    Usage {
        of: UsageOf,
        /// Nanodollars, tokens or requests. 0: nothing passes.
        credit: i64,
        alert_at: Option<i64>,
        reset: Reset,
    },
}

/// What a rate limit counts. The order is that of indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RateOf {
    Requests,
    Tokens,
}

/// What a usage limit counts. The order is that of indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UsageOf {
    /// In nanodollars.
    Cost,
    Tokens,
    Requests,
}

/// What any limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counted {
    Cost,
    Tokens,
    Requests,
}

impl Counted {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::Tokens => "tokens",
            Self::Requests => "requests",
        }
    }
}

/// The window of a rate limit. The order is that of indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RateUnit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
}

impl RateUnit {
    /// All of them, shortest first.
    pub const ALL: [Self; 5] = [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week];

    /// As records write it: `rps`, `rpm`, `rph`, `rpd`, `rpw`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Second => "rps",
            Self::Minute => "rpm",
            Self::Hour => "rph",
            Self::Day => "rpd",
            Self::Week => "rpw",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.as_str() == text)
    }
}

/// When a usage limit begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reset {
    Never,
    /// At the start of each week (`limits.week_start`).
    Weekly,
    /// On the first of each month.
    Monthly,
    /// Every so many days, counted from a day.
    Days {
        days: u16,
        from: Date,
    },
    /// When no request came for so many minutes: each bucket by itself.
    Idle {
        minutes: u16,
    },
}

/// What a request means that has no value for a key of `group_by`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnMissing {
    /// The limit is not for it.
    #[default]
    Skip,
    /// All such requests have one bucket together.
    Shared,
    /// It is refused.
    Deny,
}

impl OnMissing {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Shared => "shared",
            Self::Deny => "deny",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Skip, Self::Shared, Self::Deny].into_iter().find(|way| way.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_of_a_workspace_where_nothing_else_can_be_in_it() {
        let own = Uuid::from_u128(1);
        let other = Uuid::from_u128(2);
        let kind = LimitKind::Usage { of: UsageOf::Cost, credit: 1, alert_at: None, reset: Reset::Never };
        let limit = Limit::new(Uuid::nil(), LimitScope::Policy, kind);
        let grouped = Limit { group_by: vec![FactKey::Workspace], ..limit.clone() };
        let only = |texts: &[&str]| Limit {
            conditions: vec![Condition::new(FactKey::Workspace, texts.iter().copied(), [])],
            ..limit.clone()
        };
        let key = |id: Uuid| format!("workspace_id:{id}");
        for (limit, value_key, wanted) in [
            (limit.clone(), String::new(), false),
            (limit.clone(), key(own), false),
            (Limit { workspace: Some(own), ..limit.clone() }, "metadata._user:ann".to_owned(), true),
            (Limit { workspace: Some(other), ..limit.clone() }, key(own), false),
            (Limit { scope: LimitScope::Key, ..limit.clone() }, String::new(), true),
            (Limit { scope: LimitScope::Provider, ..limit.clone() }, String::new(), false),
            (grouped.clone(), key(own), true),
            (grouped.clone(), key(other), false),
            (grouped.clone(), format!("metadata._user:ann-{}-model:a.b", key(own)), true),
            (grouped.clone(), format!("{}-metadata._user:x-{}", key(other), key(own)), false),
            (grouped.clone(), format!("{}0", key(own)), false),
            (grouped, "(other)".to_owned(), false),
            (only(&[&own.to_string()]), "metadata._user:ann".to_owned(), true),
            (only(&[&own.to_string(), &other.to_string()]), "metadata._user:ann".to_owned(), false),
            (only(&["*"]), "metadata._user:ann".to_owned(), false),
        ] {
            assert_eq!(limit.is_of_workspace(&value_key, own), wanted, "{limit:?} {value_key}");
        }
    }
}
