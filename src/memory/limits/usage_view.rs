//! The usage of one bucket, as the control plane shows it.

use super::entity::State;
use super::limit::Limit;
use super::window::{NEVER, Window};
use std::sync::Arc;
use uuid::Uuid;

/// One bucket of a limit, at present. Amounts are nanodollars, tokens or requests.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageView {
    /// The same as long as the limit has this bucket.
    pub entity: Uuid,
    /// `metadata._user:ann`; empty where the limit has one bucket.
    pub value_key: Arc<str>,
    /// With what was used before this gateway counted.
    pub spent: i64,
    /// Of requests under way.
    pub held: i64,
    /// Of `spent`: what requests may have used whose gateway ended before it could count.
    pub unreconciled: i64,
    pub status: UsageStatus,
    pub window: Window,
    pub is_threshold_alert_sent: bool,
    pub is_exhausted_alert_sent: bool,
}

/// Whether requests pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageStatus {
    Active,
    Exhausted,
}

impl UsageStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Exhausted => "exhausted",
        }
    }
}

impl UsageView {
    pub(super) fn of(limit: &Limit, entity: u128, value_key: &Arc<str>, state: &State, now: i64) -> Self {
        let used = if limit.is_rate() { state.used(limit, now) } else { state.spent };
        Self {
            entity: Uuid::from_u128(entity),
            value_key: Arc::clone(value_key),
            spent: limit.shown_usage(state.spent),
            held: state.all_held(),
            unreconciled: state.unreconciled,
            status: if used >= limit.value() { UsageStatus::Exhausted } else { UsageStatus::Active },
            // A store of shared counters shows an idle bucket without the time when it begins anew.
            window: Window {
                end: if state.window.end < 0 { NEVER } else { state.window.end },
                ..state.window
            },
            is_threshold_alert_sent: state.is_threshold_sent(limit),
            is_exhausted_alert_sent: state.is_exhausted_sent(limit),
        }
    }
}
