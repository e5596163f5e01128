//! The text that shows which bucket of a limit a request has, and how large a bucket can be.
//!
//! For people only: a bucket is found by the hash of its whole values (`limit_set`). Clients choose values, so what is shown of each is
//! bounded.

use super::limit::Limit;
use crate::auth::facts::Facts;
use std::fmt;
use std::fmt::Write as _;

/// Of each value, so many bytes are shown.
const MAX_VALUE: usize = 96;
/// Of a text that was written when nothing was cut.
const MAX_TEXT: usize = 1024;
/// Stands where something was cut.
const CUT: char = '…';
/// What a bucket takes besides its text.
const BUCKET_BYTES: usize = 320;
/// What the buckets of one limit may take.
const MAX_LIMIT_BYTES: usize = 512 << 20;
/// Live buckets of one rate limit and of one usage limit. More of them share one.
const MAX_RATE_BUCKETS: usize = 100_000;
const MAX_USAGE_BUCKETS: usize = 1_000_000;

/// The value key of the common bucket of requests for which there is no room.
pub(super) const OVERFLOW_KEY: &str = "(other)";

/// The text of the bucket that the request has: `metadata._user:ann-model:openai.gpt-4o`.
pub(super) fn value_key(limit: &Limit, facts: &Facts<'_>) -> String {
    let mut text = String::new();
    for key in &limit.group_by {
        if !text.is_empty() {
            text.push('-');
        }
        let _ = write!(text, "{key}:");
        if let Some(value) = facts.group_value(key) {
            let _ = write!(Shown { text: &mut text, room: MAX_VALUE }, "{value}");
        }
    }
    text
}

/// A text that was kept before values were cut.
pub(super) fn kept(text: &str) -> String {
    let mut shown = String::new();
    let _ = Shown { text: &mut shown, room: MAX_TEXT }.write_str(text);
    shown
}

/// How a value key with whole values is shown, where it has one value; else the text itself.
pub(super) fn as_shown(limit: &Limit, text: &str) -> String {
    let mut shown = String::new();
    if let [key] = limit.group_by.as_slice() {
        let _ = write!(shown, "{key}:");
        if let Some(value) = text.strip_prefix(&shown) {
            let _ = Shown { text: &mut shown, room: MAX_VALUE }.write_str(value);
            return shown;
        }
    }
    text.to_owned()
}

/// How many live buckets a limit may have: fewer where each may be large.
pub(super) fn max_buckets(limit: &Limit) -> usize {
    let max = if limit.is_rate() { MAX_RATE_BUCKETS } else { MAX_USAGE_BUCKETS };
    let text =
        limit.group_by.iter().map(|key| key.to_string().len() + "-:".len() + MAX_VALUE + CUT.len_utf8());
    max.min(MAX_LIMIT_BYTES / (BUCKET_BYTES + text.sum::<usize>()))
}

/// What a bucket with this text takes.
pub(super) fn bytes(value_key: &str) -> usize {
    BUCKET_BYTES + value_key.len()
}

/// Adds to a text what fits into the room, at most.
struct Shown<'a> {
    text: &'a mut String,
    room: usize,
}

impl fmt::Write for Shown<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let fits = part.floor_char_boundary(self.room);
        self.text.push_str(part.get(..fits).unwrap_or_default());
        self.room -= fits;
        if fits < part.len() {
            self.text.push(CUT);
            // What follows is left out.
            return Err(fmt::Error);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Fixture, at, facts, policy, rate, tokens, usage, used};
    use super::super::*;
    use super::*;

    fn grouped(kind: LimitKind, keys: &[&str]) -> Limit {
        Limit { group_by: keys.iter().map(|key| FactKey::parse(key).unwrap()).collect(), ..policy(1, kind) }
    }

    fn budget(keys: &[&str]) -> Limit {
        grouped(usage(UsageOf::Cost, 1, Reset::Never), keys)
    }

    #[test]
    fn of_each_value_a_bounded_part_is_shown() {
        let long = "é".repeat(200);
        let members = [("a", long.as_str()), ("b", "short")];
        let metadata = members.as_slice();
        let limit = budget(&["metadata.a", "metadata.b"]);
        let wanted = format!("metadata.a:{}…-metadata.b:short", "é".repeat(48));
        assert_eq!(value_key(&limit, &facts(&metadata)), wanted);
        let one = budget(&["metadata.a"]);
        let shown = value_key(&one, &facts(&metadata));
        assert_eq!(as_shown(&one, &format!("metadata.a:{long}")), shown);
        assert_eq!(as_shown(&one, &shown), shown);
        assert_eq!(as_shown(&one, "metadata.a:ann"), "metadata.a:ann");
        assert_eq!(as_shown(&one, "other"), "other");
        assert_eq!((kept("short").as_str(), kept(&long.repeat(9)).len()), ("short", 1024 + 3));
    }

    /// Eight values of 500 bytes took 8 KB a bucket: 7.4 GiB at a million.
    #[test]
    fn the_buckets_of_a_limit_have_a_bound_in_bytes() {
        let name = format!("metadata.{}", "n".repeat(64));
        let keys: Vec<String> = (0..10).map(|number| format!("{name}{number}")).collect();
        let value = "v".repeat(60_000);
        let members: Vec<(&str, &str)> =
            keys.iter().map(|key| (key.strip_prefix("metadata.").unwrap(), value.as_str())).collect();
        let metadata = members.as_slice();
        for count in 0..=keys.len() {
            let keys: Vec<&str> = keys.iter().take(count).map(String::as_str).collect();
            for kind in [usage(UsageOf::Cost, 1, Reset::Never), rate(RateOf::Tokens, RateUnit::Day, 1)] {
                let limit = grouped(kind, &keys);
                let each = bytes(&value_key(&limit, &facts(&metadata)));
                assert!(each < 2_400, "{each}");
                assert!(each * max_buckets(&limit) <= MAX_LIMIT_BYTES, "{count} keys: {each}");
            }
        }
        assert_eq!(max_buckets(&budget(&["metadata._user"])), MAX_USAGE_BUCKETS);
        assert_eq!(max_buckets(&budget(&[name.as_str()])), MAX_USAGE_BUCKETS);
        assert_eq!(
            max_buckets(&grouped(rate(RateOf::Tokens, RateUnit::Day, 1), &[name.as_str(); 8])),
            MAX_RATE_BUCKETS
        );
    }

    /// Values are the client's: what they take is bounded, and a limit with one bucket still finds its own.
    #[test]
    fn what_all_buckets_take_has_a_bound() {
        let grouped = Limit {
            group_by: vec![FactKey::Metadata("_user".into())],
            ..policy(1, usage(UsageOf::Tokens, 20, Reset::Never))
        };
        let single = policy(2, usage(UsageOf::Tokens, 100, Reset::Never));
        let now = at("2026-11-22T12:00:00Z");
        let mut it = Fixture::new(vec![grouped.clone()]);
        it.limits.buckets.set_max_bytes(600);
        for user in ["ann", "bob", "cid", "dan"] {
            it.reserve(Some(user), &tokens(5), now).unwrap().settle(used(5, 0), now);
        }
        assert!(it.limits.counts().bucket_bytes > 600);
        let mut keys: Vec<_> =
            it.peek(&grouped, now).into_iter().map(|view| (view.value_key, view.spent)).collect();
        keys.sort();
        let wanted = [("(other)", 10), ("metadata._user:ann", 5), ("metadata._user:bob", 5)];
        assert_eq!(keys.iter().map(|(key, spent)| (&**key, *spent)).collect::<Vec<_>>(), wanted);
        it.change(vec![single.clone()]);
        it.reserve(None, &tokens(5), now).unwrap().settle(used(5, 0), now);
        let views = it.peek(&single, now);
        assert_eq!(views.iter().map(|view| (&*view.value_key, view.spent)).collect::<Vec<_>>(), [("", 5)]);
        it.limits.buckets.drop_where(|_| true);
        assert_eq!(it.limits.counts().bucket_bytes, 0);
    }
}
