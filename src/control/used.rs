//! What is used of the limits of one record, as records of keys, workspaces, providers and policies show it.
//!
//! Reads the counters of `limits` and changes none.

use super::call::Call;
use super::records::time;
use jiff::Timestamp;
use memory::limits::from_records::{LAST_RESET, OF_INTEGRATION, limits_of, reset_of};
use memory::limits::{
    Calendar, Counted, Limit, LimitKind, LimitScope, Reset, UsageOf, UsageStatus, UsageView, Window,
};
use memory::store::Record;
use serde_json::{Map, Number, Value};
use std::sync::Arc;

/// The limits of a record in their present windows.
pub(super) struct Used {
    scope: LimitScope,
    limits: Vec<(Limit, Window, Option<UsageView>)>,
    calendar: Arc<Calendar>,
    now: Timestamp,
}

impl Used {
    /// The limits that a record has in this scope. Of limits with `group_by`, no bucket.
    pub async fn of(call: &Call, record: &Record, scope: LimitScope) -> Self {
        let limits = call.catalog().map(|catalog| limits_of(record, &catalog, call.now)).unwrap_or_default();
        Self::of_limits(call, limits.into_iter().filter(|limit| limit.scope == scope), scope).await
    }

    /// Of these limits.
    pub(crate) async fn of_limits(
        call: &Call,
        limits: impl IntoIterator<Item = Limit>,
        scope: LimitScope,
    ) -> Self {
        let calendar = call.limits.calendar();
        let mut with_usage = Vec::new();
        for limit in limits {
            let window = calendar.window(&limit.kind, call.now.as_millisecond());
            let view = if limit.group_by.is_empty() {
                call.limits.usage(&limit, call.now).await.unwrap_or_else(|failure| {
                    log::warn!(target: "turnpike", "the counters of limits cannot be reached: {}", failure.0);
                    None
                })
            } else {
                None
            };
            with_usage.push((limit, window, view));
        }
        let limits = with_usage;
        Self { scope, limits, calendar, now: call.now }
    }

    /// `exhausted` where a usage limit is used up, else `active`.
    pub fn status(&self) -> &'static str {
        let is_exhausted = |(limit, _, view): &(Limit, Window, Option<UsageView>)| {
            // A limit of 0 is used up without a bucket.
            !limit.is_rate()
                && view.as_ref().map_or(limit.value() <= 0, |view| view.status == UsageStatus::Exhausted)
        };
        let status =
            if self.limits.iter().any(is_exhausted) { UsageStatus::Exhausted } else { UsageStatus::Active };
        status.as_str()
    }

    fn usage_limits(&self) -> impl Iterator<Item = (&Limit, &Window)> {
        self.limits.iter().filter(|(limit, ..)| !limit.is_rate()).map(|(limit, window, _)| (limit, window))
    }

    /// When usage counts from 0 next; of several limits, the first time.
    pub(crate) fn next_reset(&self) -> Value {
        // Of one that begins anew when it is idle, each bucket does so by itself.
        let starts = self.usage_limits().filter(|(limit, _)| resets(limit));
        starts.filter_map(|(_, window)| window.reset_at()).min().map_or(Value::Null, time)
    }

    /// When usage counted from 0 last: the start of the window, where that was not the first one, or the last reset by hand.
    pub(crate) fn last_reset(&self, body: &Map<String, Value>, created_at: Timestamp) -> Value {
        let prefix = if self.scope == LimitScope::Integration { OF_INTEGRATION } else { "" };
        self.last_reset_by(body.get(&format!("{prefix}{LAST_RESET}")), created_at)
    }

    /// The same; `by_hand`: where the last reset by hand is kept.
    pub(crate) fn last_reset_by(&self, by_hand: Option<&Value>, created_at: Timestamp) -> Value {
        let by_hand = by_hand.and_then(Value::as_str).and_then(|text| text.parse().ok());
        let starts = self.usage_limits().filter(|(limit, _)| resets(limit)).map(|(_, window)| window.start);
        let starts = starts.filter_map(|start| Timestamp::from_millisecond(start).ok());
        let last = starts.filter(|start| *start > created_at).chain(by_hand).max();
        last.map_or(Value::Null, time)
    }

    /// The usage limits as they are shown: `limits`, with the time of the next reset.
    pub fn shown(&self, mut limits: Value) -> Value {
        let next = |item: &Value| {
            let reset = reset_of(item.as_object()?);
            let kind = LimitKind::Usage { of: UsageOf::Cost, credit: 0, alert_at: None, reset };
            self.calendar.window(&kind, self.now.as_millisecond()).reset_at()
        };
        let items = match &mut limits {
            Value::Array(items) => items.iter_mut().collect(),
            Value::Null => Vec::new(),
            item => vec![item],
        };
        for item in items {
            let next = next(item).map_or(Value::Null, time);
            if let Value::Object(members) = item {
                members.insert("next_usage_reset_at".to_owned(), next);
            }
        }
        limits
    }

    /// What is used of each limit: for `usage` of keys.
    pub fn list(&self) -> Value {
        let one = |(limit, window, view): &(Limit, Window, Option<UsageView>)| {
            let mut members = described(limit);
            members.extend(used(limit, window, view.as_ref()));
            Value::Object(members)
        };
        self.limits.iter().map(one).collect()
    }
}

/// What a limit is.
pub(super) fn described(limit: &Limit) -> Map<String, Value> {
    let raised_until = limit.raised_until.and_then(|until| Timestamp::from_millisecond(until).ok());
    let unit = match limit.kind {
        LimitKind::Rate { unit, .. } => Some(unit.as_str()),
        LimitKind::Usage { .. } => None,
    };
    Map::from_iter([
        ("kind".to_owned(), if limit.is_rate() { "rate" } else { "usage" }.into()),
        ("type".to_owned(), limit.counts().as_str().into()),
        ("unit".to_owned(), unit.into()),
        ("raised_until".to_owned(), raised_until.map_or(Value::Null, time)),
        (
            "limit".to_owned(),
            if is_bounded(limit) { amount(limit.counts(), limit.shown_value()) } else { Value::Null },
        ),
    ])
}

/// What is used of a limit in its present window; `view`: of its bucket, where it has one.
pub(super) fn used(limit: &Limit, window: &Window, view: Option<&UsageView>) -> Map<String, Value> {
    let of = limit.counts();
    let spent = view.map_or(limit.used_before, |view| view.spent);
    let held = view.map_or(0, |view| view.held);
    let left = limit.shown_value().saturating_sub(spent).saturating_sub(held).max(0);
    let is_over = !limit.is_rate() && limit.value() <= 0;
    let unused = if is_over { UsageStatus::Exhausted } else { UsageStatus::Active };
    let status = view.map_or(unused, |view| view.status);
    Map::from_iter([
        ("current_usage".to_owned(), amount(of, spent)),
        ("reserved".to_owned(), amount(of, held)),
        ("unreconciled".to_owned(), amount(of, view.map_or(0, |view| view.unreconciled))),
        ("remaining".to_owned(), if is_bounded(limit) { amount(of, left) } else { Value::Null }),
        ("status".to_owned(), status.as_str().into()),
        ("resets_at".to_owned(), window.reset_at().map_or(Value::Null, time)),
    ])
}

/// Whether there is a most, and not only an alert.
fn is_bounded(limit: &Limit) -> bool {
    limit.value() != i64::MAX
}

fn resets(limit: &Limit) -> bool {
    matches!(limit.kind, LimitKind::Usage { reset: Reset::Weekly | Reset::Monthly | Reset::Days { .. }, .. })
}

/// An amount as the API shows it: dollars of nanodollars, else the number itself.
pub(super) fn amount(of: Counted, amount: i64) -> Value {
    match of {
        Counted::Cost => dollars(amount),
        Counted::Tokens | Counted::Requests => amount.into(),
    }
}

/// Nanodollars as dollars, with all their digits.
fn dollars(nanodollars: i64) -> Value {
    let text = format!("{}.{:09}", nanodollars / 1_000_000_000, (nanodollars % 1_000_000_000).abs());
    let dollars = text.parse().ok().and_then(Number::from_f64);
    match nanodollars % 1_000_000_000 {
        0 => (nanodollars / 1_000_000_000).into(),
        _ => dollars.map_or(Value::Null, Value::Number),
    }
}
