//! Why a request may not pass: which limit, and when to come again.
//!
//! Not here: statuses, headers and bodies, which the engine makes of it.

use super::limit::Limit;
use super::tightest::Tightest;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// A refused reservation. Nothing of it was counted.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The one to report: of those that refuse for the most lasting cause, the one that begins anew last.
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

/// What kind of refusal it is. Later ones last longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The store of the counters cannot be reached, and `limits.on_store_error` is `deny`.
    Unavailable,
    /// The rate of this window is used up.
    Rate,
    /// The rest is held for requests that are under way.
    Reserved,
    /// A `hard` limit on cost, and a model without a price.
    UnknownPrice,
    /// A `hard` limit, and a request whose output has no bound.
    NoBound,
    /// Used up, or (`hard`) the rest does not pay for this request.
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
