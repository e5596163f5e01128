//! `hedge`: a second attempt beside a slow first one (a key of our own).
//!
//! Not here: starting it (`route` decides, `engine` carries it out).

use super::members::{Form, MemberTable, MemberType as _, SHARE, form, whole};
use super::values::{MAX_MS, at_least};

/// `hedge`: a second attempt, at another target, while the first has sent no token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hedge {
    /// Milliseconds without a first token before the second attempt starts, at least 1.
    pub after_ms: u64,
    /// Extra attempts per request, 0 to 1, measured over all requests of the process.
    pub max_extra_ratio: f64,
}

/// A share, whose bounds have messages of their own.
const RATIO: Form<f64> = form(
    |at| {
        let ratio = at_least(at, 0.0)?;
        if ratio > 1.0 {
            at.problem("must be at most 1");
            return None;
        }
        Some(ratio)
    },
    |doc| SHARE.schema(doc),
)
.written(|ratio| Some((*ratio).into()));

impl Hedge {
    pub(super) const DOC: &str =
        "A second attempt, at another target, while the first is slow. Needs two targets.";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let after: Option<u64> =
            table.needed("after_ms", whole(1, i64::MAX), "Milliseconds without a first token.");
        let max_extra_ratio = table.or("max_extra_ratio", RATIO, 0.1, "Extra attempts as a share of all.");
        Some(Self { after_ms: after?.min(MAX_MS), max_extra_ratio })
    }
}
