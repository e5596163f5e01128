//! Why a request may not pass: which limit, and when to come again.
//!
//! Not here: statuses, headers and bodies, which the engine makes of it.

use super::entity::State;
use super::limit::Limit;
use super::reservation::Reservation;
use super::tightest::Tightest;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// A refused reservation. Nothing of it was counted.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The limit to report: of those that refuse for the most lasting cause, the one whose window ends last.
    pub limit: Arc<Limit>,
    pub cause: Cause,
    /// When the limit's window ends; `None`: never.
    pub reset_at: Option<Timestamp>,
    /// When it is worth trying again: at least a second. Of a cause that time does not mend before the reset, until the reset.
    pub retry_after: Duration,
    /// All that refuse, `limit` among them.
    pub all: Vec<Arc<Limit>>,
    /// Nanodollars, tokens or requests, of the bucket of `limit`.
    pub spent: i64,
    pub held: i64,
    /// Which bucket of `limit`.
    pub value_key: Arc<str>,
    /// For the headers.
    pub tightest: Tightest,
}

impl Refusal {
    /// The one of several refusals that is reported, with all their limits.
    pub(super) fn reported(refusals: Vec<Self>, tightest: Tightest) -> Option<Self> {
        let all = refusals.iter().map(|refusal| Arc::clone(&refusal.limit)).collect();
        let last = |refusal: &Self| (refusal.cause, refusal.reset_at.unwrap_or(Timestamp::MAX));
        let reported = refusals.into_iter().max_by_key(last)?;
        Some(Self { all, tightest, ..reported })
    }

    /// A refusal by a limit, whose bucket is in this state.
    pub(super) fn by(
        limit: &Arc<Limit>,
        state: &State,
        value_key: &Arc<str>,
        cause: Cause,
        wanted: i64,
        now: i64,
    ) -> Self {
        let least = Duration::from_secs(1);
        let retry_after = match cause {
            Cause::Reserved | Cause::Unavailable => least,
            Cause::Rate => state.fits_in(limit, wanted, now).max(least),
            _ => state.fits_in(limit, 0, now).max(least),
        };
        Self {
            limit: Arc::clone(limit),
            cause,
            reset_at: state.window.reset_at(),
            retry_after,
            all: Vec::new(),
            spent: state.spent,
            held: state.all_held(),
            value_key: Arc::clone(value_key),
            tightest: Tightest::default(),
        }
    }

    /// A hard limit whose hold cannot be kept.
    pub(super) fn unavailable(reservation: &Reservation) -> Option<Self> {
        let (limit, entity) = reservation.first_journalled()?;
        let state = entity.state.lock();
        let refusal = Self::by(limit, &state, &entity.value_key, Cause::Unavailable, 0, 0);
        Self::reported(vec![refusal], reservation.tightest())
    }
}

/// What kind of refusal it is. Later ones last longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The store or journal of the counters cannot be reached. Hard limits refuse then; other budgets refuse if `limits.on_store_error` is
    /// `deny`.
    Unavailable,
    /// The rate of this window is used up.
    Rate,
    /// The rest is held for requests that are under way.
    Reserved,
    /// A `hard` limit on cost, and a model without a price.
    UnknownPrice,
    /// A `hard` limit, and a request whose output has no bound.
    NoBound,
    /// A `hard` limit, and a request of a kind that has no bound: an image, a form, one of unknown shape.
    Unboundable,
    /// A `hard` limit on cost, and a request for which the provider may search the web as often as it likes, billed by the piece.
    UnboundedSearches,
    /// Not used up, but (`hard`) the rest does not pay for the most that this request can cost.
    DoesNotFit,
    /// Used up. In counters that gateways share, also what does not fit.
    Spent,
}

impl Cause {
    /// For metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Rate => "rate",
            Self::Reserved => "reserved",
            Self::UnknownPrice => "unknown_price",
            Self::NoBound => "no_bound",
            Self::Unboundable => "unboundable",
            Self::UnboundedSearches => "unbounded_searches",
            Self::DoesNotFit => "does_not_fit",
            Self::Spent => "spent",
        }
    }
}

/// The request lacks a value that a limit with `on_missing: deny` groups by.
#[derive(Debug, Clone)]
pub struct MissingFact {
    pub limit: Arc<Limit>,
    /// The key as records write it: `metadata._user`.
    pub key: Box<str>,
}
