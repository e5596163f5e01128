//! How long one attempt may keep us waiting: what its target's config says, or else what is of use.
//!
//! Where another target is left to go to, the defaults are short; where none is, they only bound a hang.

use super::leaf::Leaf;
use crate::config::rescue::StreamRescue;
use crate::error::Error;
use std::time::{Duration, Instant};

/// The wait for a stream's first content, where another target is left.
const FIRST_TOKEN: Duration = Duration::from_secs(10);
/// The wait for an answer's head, where another target is left: a whole answer may be minutes in the making.
const FIRST_BYTE: Duration = Duration::from_secs(120);
/// The silence in an answer, where another target is left.
const GAP: Duration = Duration::from_secs(15);
/// Any silence at all.
const HANG: Duration = Duration::from_secs(600);
/// The silence of a stream before the caller gets a comment.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The limits of one attempt.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// `request_timeout`, or else `first_byte_ms`.
    pub first_byte: Option<Duration>,
    pub first_token: Option<Duration>,
    pub gap: Option<Duration>,
    /// When the whole request must be over.
    pub total: Option<Instant>,
    pub heartbeat: Option<Duration>,
    pub early_heartbeat: bool,
    pub rescue: StreamRescue,
    /// The caller asked for a stream.
    streamed: bool,
    /// `first_token_ms` is written: it holds from the attempt's beginning, whatever is asked for.
    is_asked: bool,
}

/// What was waited for in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    Head,
    FirstToken,
    Gap,
    Total,
}

impl Patience {
    /// `started`: the request; `has_other`: another target is left to go to.
    pub fn of(leaf: &Leaf, started: Instant, has_other: bool, streamed: bool) -> Self {
        let written = leaf.time_limits;
        let limit = |ms: Option<u64>, plain: Duration| match ms {
            Some(0) => None,
            Some(ms) => Some(Duration::from_millis(ms)),
            None => Some(plain),
        };
        let short = |useful: Duration| if has_other { useful } else { HANG };
        let total = written.total.filter(|ms| *ms > 0).map(|ms| started + Duration::from_millis(ms));
        Self {
            first_byte: leaf.request_timeout.or(limit(written.first_byte, short(FIRST_BYTE))),
            is_asked: written.first_token.is_some(),
            first_token: limit(written.first_token, short(FIRST_TOKEN)),
            gap: limit(written.gap, short(GAP)),
            total,
            heartbeat: limit(written.heartbeat, HEARTBEAT),
            early_heartbeat: written.early_heartbeat.unwrap_or_default(),
            rescue: leaf.rescue.unwrap_or(StreamRescue::Resume),
            streamed,
        }
    }

    /// When the head must be there. No token of a stream comes before its head.
    pub fn head(&self, begun: Instant) -> (Option<Instant>, Waited) {
        let token = self.first_token.filter(|_| self.streamed || self.is_asked);
        let (limit, why) = match (self.first_byte, token) {
            (Some(byte), Some(token)) if token < byte => (Some(token), Waited::FirstToken),
            (None, Some(token)) => (Some(token), Waited::FirstToken),
            (byte, _) => (byte, Waited::Head),
        };
        self.within(limit.map(|limit| begun + limit), why)
    }

    /// When the first content must be there: of a stream counted from the attempt's beginning, of anything
    /// else from its head. `last`: when something was heard.
    pub fn first(&self, begun: Instant, head: Instant, last: Instant) -> (Option<Instant>, Waited) {
        let from = if self.streamed || self.is_asked { begun } else { head };
        let token = self.first_token.map(|limit| from + limit);
        let gap = self.gap.map(|limit| last + limit);
        match (token, gap) {
            (Some(token), Some(gap)) if gap < token => self.within(Some(gap), Waited::Gap),
            (None, gap) => self.within(gap, Waited::Gap),
            (token, _) => self.within(token, Waited::FirstToken),
        }
    }

    /// When the next piece must be there.
    pub fn next(&self, last: Instant) -> (Option<Instant>, Waited) {
        self.within(self.gap.map(|limit| last + limit), Waited::Gap)
    }

    fn within(&self, at: Option<Instant>, why: Waited) -> (Option<Instant>, Waited) {
        match (at, self.total) {
            (Some(at), Some(total)) if total < at => (Some(total), Waited::Total),
            (None, Some(total)) => (Some(total), Waited::Total),
            (at, _) => (at, why),
        }
    }

    /// The failure to tell.
    pub fn error(&self, waited: Waited, leaf: &Leaf, started: Instant) -> Error {
        let ms = |limit: Option<Duration>| limit.unwrap_or_default().as_millis();
        let who = leaf.spoken();
        let error = match waited {
            Waited::Head if leaf.request_timeout.is_some() => {
                Error::request_timed_out(ms(self.first_byte) as u64)
            }
            Waited::Head => Error::deadline_exceeded(format!(
                "The provider {who} did not begin to answer within {} ms (time_limits.first_byte_ms). Try again or \
                 another provider.",
                ms(self.first_byte)
            )),
            Waited::FirstToken => Error::deadline_exceeded(format!(
                "The provider {who} sent no content within {} ms (time_limits.first_token_ms). Try again or \
                 another provider.",
                ms(self.first_token)
            )),
            Waited::Gap => Error::deadline_exceeded(format!(
                "The provider {who} fell silent in its answer for {} ms (time_limits.gap_ms). Try again or \
                 another provider.",
                ms(self.gap)
            )),
            Waited::Total => Error::deadline_exceeded(format!(
                "The request took longer than time_limits.total_ms allows ({} ms, all attempts together).",
                self.total.map_or(0, |total| total.saturating_duration_since(started).as_millis())
            )),
        };
        error.with_provider(leaf.provider.id())
    }
}
