//! What limits would decide of a request now. Nothing is held, counted or reported.

use super::entity::{Entity, State};
use super::limit::Limit;
use super::refusal::{Cause, Refusal};
use super::usage_view::UsageView;
use jiff::Timestamp;
use std::sync::Arc;

/// What all limits of one phase would decide.
#[derive(Debug, Default)]
pub struct Preview {
    /// Of those that the request concerns.
    pub decisions: Vec<Decision>,
    /// What the client would get, if any of them refuses.
    pub refusal: Option<Box<Refusal>>,
}

/// What one limit would decide. Amounts are nanodollars, tokens or requests.
#[derive(Debug, Clone)]
pub struct Decision {
    pub limit: Arc<Limit>,
    /// Which bucket of it.
    pub value_key: Arc<str>,
    pub spent: i64,
    /// Of requests under way.
    pub held: i64,
    /// What would be held of it for this request.
    pub wanted: i64,
    /// Why it would refuse; `None`: it lets the request pass.
    pub cause: Option<Cause>,
    /// When its window ends; `None`: never.
    pub reset_at: Option<Timestamp>,
}

impl Entity {
    /// A bucket of its own with the state of another one.
    pub(super) fn copied(limit: &Limit, id: u128, value_key: Arc<str>, state: State) -> Self {
        Self { id, limit: (limit.id, limit.index), value_key, state: parking_lot::Mutex::new(state) }
    }

    /// A bucket of its own with what a store of shared counters shows. What a smooth limit counts of the window before is not in it.
    pub(super) fn shown(limit: &Limit, view: &UsageView) -> Self {
        // What was used elsewhere is taken off the limit, and is no count of the bucket's.
        let counted = view.spent.saturating_sub(limit.used_before);
        let state = State::reported(view.window, counted, view.held, 0);
        Self::copied(limit, view.entity.as_u128(), Arc::clone(&view.value_key), state)
    }
}
