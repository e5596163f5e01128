//! When a certificate is ordered: by its validity, the orders before, and the time. Pure.
//!
//! Let's Encrypt allows five failed validations of a name in an hour and five certificates for the same names in a week
//! (<https://letsencrypt.org/docs/rate-limits/>). Failed orders are at most four in any hour, also over restarts, because their history is
//! kept, and an order counts as failed from its begin until its outcome is there. A certificate is replaced at the earliest when a third
//! of its lifetime has passed since it was issued, whatever the clock says.

use crate::certificate::Validity;
use serde::{Deserialize, Serialize};

/// The first wait after an order that the authority refused, seconds, and the longest. Each is twice the one before.
const REFUSED: Waits = Waits { first: 5 * 60, most: 6 * 3_600 };
/// The same where it could not be reached: that costs it nothing.
const UNREACHABLE: Waits = Waits { first: 10, most: 1_800 };
/// The longest `Retry-After` that is obeyed: the window of the longest rate limit.
const MAX_RETRY_AFTER: i64 = 7 * 86_400;
/// How long after one was issued another one is ordered at the earliest where none can be used, seconds.
const UNUSABLE: i64 = 3_600;
/// What the history says while an order goes on, and after a process that ended meanwhile.
const BEGUN: &str = "begun, without an outcome yet: the process orders it now, or ended before it was there";
/// The longest reason that is kept, bytes.
const MAX_WHY: usize = 1_000;

struct Waits {
    first: i64,
    most: i64,
}

/// Why there is no certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderFailure {
    /// No response, or one of a gateway before the authority.
    Unreachable,
    /// The authority, or what it verified, said no.
    Refused,
    /// This machine: a file, a full disk.
    Local,
}

impl OrderFailure {
    /// For the metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Local => "local",
        }
    }
}

/// What became of the orders of one certificate. Times in Unix seconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderHistory {
    /// When the last one was issued.
    pub issued_at: Option<i64>,
    /// How many have failed since.
    pub failures: u32,
    /// How many of these reached the authority, or may have. They and the others have waits of their own.
    #[serde(default)]
    pub reached: u32,
    /// None is ordered before.
    pub next: i64,
    /// Why the last one failed.
    pub why: Option<String>,
}

impl OrderHistory {
    /// From when on a certificate is to be ordered. `spread`: a number of this certificate, so that not all gateways order at a time.
    pub fn due(&self, validity: Option<Validity>, spread: u64, now: i64) -> i64 {
        // Later than that only a clock that was set back can have put it: it says nothing.
        let not_before = if self.next > now.saturating_add(MAX_RETRY_AFTER) { i64::MIN } else { self.next };
        let issued_at = self.issued_at.filter(|issued_at| *issued_at <= now);
        let Some(validity) = validity else {
            let unusable = issued_at.map_or(i64::MIN, |issued_at| issued_at.saturating_add(UNUSABLE));
            return unusable.max(not_before);
        };
        let lifetime = validity.until.saturating_sub(validity.from).max(1);
        let early = lifetime / 30;
        let renewal = validity.until - lifetime / 3 - share(early, spread);
        let at_the_earliest = issued_at.map_or(i64::MIN, |issued_at| issued_at.saturating_add(lifetime / 3));
        renewal.max(at_the_earliest).max(not_before)
    }

    pub fn issued(now: i64) -> Self {
        Self { issued_at: Some(now), ..Self::default() }
    }

    /// With one more order that begins. It is replaced by the outcome, and stays where the process is killed before.
    pub fn begun(&self, spread: u64, now: i64) -> Self {
        self.failed(OrderFailure::Local, BEGUN, None, spread, now)
    }

    /// The one that says more: that of the last certificate, and of more failures since.
    pub fn later(self, other: Self) -> Self {
        let rank = |history: &Self| (history.issued_at, history.failures, history.next);
        if rank(&other) > rank(&self) { other } else { self }
    }

    /// With one more order that failed. `retry_after`: the seconds that the authority wants to be left alone.
    pub fn failed(
        &self,
        failure: OrderFailure,
        why: &str,
        retry_after: Option<i64>,
        spread: u64,
        now: i64,
    ) -> Self {
        let failures = self.failures.saturating_add(1);
        let reached = match failure {
            OrderFailure::Unreachable => self.reached,
            // A fault of this machine may come after the authority has issued.
            OrderFailure::Refused | OrderFailure::Local => self.reached.saturating_add(1),
        };
        // Each kind doubles by its own count: an authority that was away for long is not left alone for hours when it refuses once.
        let waits = if failure == OrderFailure::Unreachable { UNREACHABLE } else { REFUSED };
        let count =
            if failure == OrderFailure::Unreachable { failures.saturating_sub(reached) } else { reached };
        let doubled = waits.first.saturating_mul(1 << count.saturating_sub(1).min(20));
        let wait = doubled.min(waits.most);
        let wait = wait + share(wait / 10, spread);
        let wait = wait.max(retry_after.unwrap_or(0).min(MAX_RETRY_AFTER));
        let end = why.floor_char_boundary(MAX_WHY);
        // Most of it is another server's text, and goes to the log and to terminals.
        let why = why.get(..end).unwrap_or_default().replace(char::is_control, " ");
        Self { issued_at: self.issued_at, failures, reached, next: now.saturating_add(wait), why: Some(why) }
    }
}

/// A part of a time, by a number that is spread evenly.
fn share(most: i64, spread: u64) -> i64 {
    let parts = i64::try_from(spread % 1_000).unwrap_or(0);
    most.saturating_mul(parts) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: i64 = 86_400;
    const NINETY_DAYS: Validity = Validity { from: 0, until: 90 * DAY };

    #[test]
    fn a_certificate_is_renewed_with_a_third_of_its_lifetime_left() {
        let history = OrderHistory::issued(0);
        assert_eq!(history.due(Some(NINETY_DAYS), 0, DAY), 60 * DAY);
        // A tenth of that earlier at most.
        assert_eq!(history.due(Some(NINETY_DAYS), 999, DAY), 60 * DAY - 3 * DAY * 999 / 1_000);
        // Without a history, as with the file of another machine.
        assert_eq!(OrderHistory::default().due(Some(NINETY_DAYS), 0, 80 * DAY), 60 * DAY);
        assert_eq!(OrderHistory::default().due(None, 7, 80 * DAY), 0, "there is none: at once");
    }

    #[test]
    fn a_wrong_clock_does_not_order_again_and_again() {
        // The clock is years ahead: each certificate has expired when it comes.
        let ahead = 2_000 * DAY;
        let history = OrderHistory::issued(ahead);
        assert_eq!(history.due(Some(NINETY_DAYS), 0, ahead + 1), ahead + 30 * DAY);
        // It was put right: what it said before is of no more account.
        assert_eq!(history.due(Some(NINETY_DAYS), 0, 70 * DAY), 60 * DAY);
        let refused = OrderHistory::default().failed(OrderFailure::Refused, "no", None, 0, ahead);
        assert!(refused.due(None, 0, DAY) <= DAY, "the clock is right again: at once");
        let again = refused.failed(OrderFailure::Refused, "no", None, 0, DAY);
        for now in [DAY + 1, DAY + 599] {
            assert_eq!(again.due(None, 0, now), DAY + 600, "and then as after every failure");
        }
    }

    #[test]
    fn one_that_cannot_be_used_is_not_ordered_again_at_once() {
        let history = OrderHistory::issued(DAY);
        for now in [DAY, DAY + 1, DAY + 3_599, 2 * DAY] {
            assert_eq!(history.due(None, 0, now), DAY + 3_600);
        }
        let failed = history.failed(OrderFailure::Local, "unusable", None, 0, DAY);
        assert_eq!((failed.issued_at, failed.due(None, 0, DAY + 400)), (Some(DAY), DAY + 3_600));
    }

    #[test]
    fn an_order_that_a_kill_cuts_off_counts() {
        let mut history = OrderHistory::default();
        let mut orders = Vec::new();
        // A process that is started again each second, and killed in its order.
        for now in 0..3_600 {
            if now >= history.due(None, 0, now) {
                orders.push(now);
                history = history.begun(0, now);
            }
        }
        assert_eq!(orders, [0, 300, 900, 2_100]);
        assert_eq!(history.why.as_deref(), Some(BEGUN));
        let before = OrderHistory::issued(5).failed(OrderFailure::Refused, "no", None, 0, 10);
        assert_eq!(before.clone().later(before.begun(0, 400)), before.begun(0, 400));
        let issued = OrderHistory::issued(500);
        assert_eq!(before.begun(0, 400).later(issued.clone()), issued);
        assert_eq!(issued.clone().later(OrderHistory::default()), issued, "the file is away");
    }

    #[test]
    fn each_kind_of_failure_has_waits_of_its_own() {
        let mut history = OrderHistory::default();
        for _ in 0..12 {
            history = history.failed(OrderFailure::Unreachable, "away", None, 0, 0);
        }
        assert_eq!(history.next, UNREACHABLE.most);
        let refused = history.failed(OrderFailure::Refused, "no", None, 0, 0);
        assert_eq!((refused.next, refused.failures, refused.reached), (300, 13, 1));
        // What lies between two refusals does not shorten their waits: the authority counts them all.
        let away = refused.failed(OrderFailure::Unreachable, "away", None, 0, 0);
        assert_eq!(away.failed(OrderFailure::Refused, "no", None, 0, 0).next, 600);
        let old: OrderHistory = serde_json::from_str("{\"failures\":2,\"next\":7}").unwrap();
        assert_eq!(old, OrderHistory { failures: 2, next: 7, ..OrderHistory::default() });
    }

    #[test]
    fn refused_orders_are_at_most_four_in_an_hour() {
        let mut history = OrderHistory::default();
        let mut orders = Vec::new();
        for now in 0..2 * DAY {
            if now >= history.due(None, 0, now) {
                orders.push(now);
                history = history.failed(OrderFailure::Refused, "no", None, 0, now);
            }
        }
        for (index, order) in orders.iter().enumerate() {
            let within = orders.iter().skip(index).take_while(|other| *other - order < 3_600).count();
            assert!(within <= 4, "{within} orders within the hour from {order}");
        }
        assert!(orders.len() > 8, "it goes on: {orders:?}");
        assert_eq!(history.failures, u32::try_from(orders.len()).unwrap());
    }

    #[test]
    fn the_authority_is_left_alone_for_as_long_as_it_wants() {
        let first = OrderHistory::default().failed(OrderFailure::Unreachable, "no", None, 0, 100);
        assert_eq!((first.next, first.failures, first.why.as_deref()), (110, 1, Some("no")));
        let text = first.failed(OrderFailure::Refused, "no\r\n\u{1b}[2J", None, 0, 0).why.unwrap();
        assert_eq!(text, "no   [2J");
        let busy = first.failed(OrderFailure::Refused, "busy", Some(9_000), 0, 200);
        assert_eq!(busy.next, 9_200);
        let forever = first.failed(OrderFailure::Refused, "busy", Some(i64::MAX), 0, 200);
        assert_eq!(forever.next, 200 + MAX_RETRY_AFTER);
        assert_eq!(
            first.failed(OrderFailure::Refused, &"ä".repeat(999), None, 0, 0).why.unwrap().len(),
            1_000
        );
    }

    proptest! {
        #[test]
        fn any_clock_and_any_certificate_have_a_time(
            from: i64, until: i64, issued_at: Option<i64>, failures: u32, reached: u32, next: i64, spread: u64, now: i64,
        ) {
            let bound = |time: i64| time % (1 << 50);
            let issued_at = issued_at.map(bound);
            let history = OrderHistory { issued_at, failures, reached, next: bound(next), why: None };
            let now = bound(now);
            let validity = Validity { from: bound(from), until: bound(until) };
            let due = history.due(Some(validity), spread, now);
            prop_assert!(due >= history.next || history.next > now + MAX_RETRY_AFTER);
            prop_assert!(history.due(None, spread, now) <= now + MAX_RETRY_AFTER, "never for ever");
            for failure in [OrderFailure::Refused, OrderFailure::Unreachable, OrderFailure::Local] {
                let next = history.failed(failure, "", None, spread, now).next;
                prop_assert!(next > now && next <= now + REFUSED.most + REFUSED.most / 10);
            }
        }
    }
}
