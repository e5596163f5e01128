//! The `x-ratelimit-*` headers: how many requests and tokens pass in a window of the tightest limits, how many are left, and when it ends.
//!
//! Which limits are the tightest is the room `limits`'s.

use http::{HeaderMap, HeaderName, HeaderValue};
use memory::limits::{Remaining, Tightest};
use std::cell::RefCell;
use std::time::Duration;
use words::json::write::write_number;

const LIMIT_REQUESTS: HeaderName = HeaderName::from_static("x-ratelimit-limit-requests");
const REMAINING_REQUESTS: HeaderName = HeaderName::from_static("x-ratelimit-remaining-requests");
const RESET_REQUESTS: HeaderName = HeaderName::from_static("x-ratelimit-reset-requests");
const LIMIT_TOKENS: HeaderName = HeaderName::from_static("x-ratelimit-limit-tokens");
const REMAINING_TOKENS: HeaderName = HeaderName::from_static("x-ratelimit-remaining-tokens");
const RESET_TOKENS: HeaderName = HeaderName::from_static("x-ratelimit-reset-tokens");

/// Durations up to a minute, which most windows are: they need no allocation.
const SECONDS: [&str; 61] = [
    "0s", "1s", "2s", "3s", "4s", "5s", "6s", "7s", "8s", "9s", "10s", "11s", "12s", "13s", "14s", "15s",
    "16s", "17s", "18s", "19s", "20s", "21s", "22s", "23s", "24s", "25s", "26s", "27s", "28s", "29s", "30s",
    "31s", "32s", "33s", "34s", "35s", "36s", "37s", "38s", "39s", "40s", "41s", "42s", "43s", "44s", "45s",
    "46s", "47s", "48s", "49s", "50s", "51s", "52s", "53s", "54s", "55s", "56s", "57s", "58s", "59s", "1m0s",
];

/// A value, and its text.
type Written = Option<(u64, HeaderValue)>;

thread_local! {
    /// The limits that the last responses of this thread had, of requests and of tokens, and the seconds to the end of their windows: nearly
    /// all have the same as the one before, and need no text of their own.
    static LIMITS: RefCell<[Written; 2]> = const { RefCell::new([None, None]) };
    static RESETS: RefCell<[Written; 2]> = const { RefCell::new([None, None]) };
}

/// Writes what is left, in the place of what the provider has written under these names.
pub(super) fn write(headers: &mut HeaderMap, tightest: Tightest) {
    if let Some(left) = tightest.requests {
        write_one(headers, 0, [LIMIT_REQUESTS, REMAINING_REQUESTS, RESET_REQUESTS], left);
    }
    if let Some(left) = tightest.tokens {
        write_one(headers, 1, [LIMIT_TOKENS, REMAINING_TOKENS, RESET_TOKENS], left);
    }
}

#[inline]
fn write_one(
    headers: &mut HeaderMap,
    kind: usize,
    [limit, remaining, reset]: [HeaderName; 3],
    left: Remaining,
) {
    headers.insert(limit, LIMITS.with_borrow_mut(|last| kept(last, kind, left.limit.unsigned_abs(), number)));
    headers.insert(remaining, number(left.remaining.unsigned_abs()));
    headers.insert(reset, reset_text(kind, left.reset_in));
}

/// The text of a value: the one that was kept, or a new one.
fn kept(last: &mut [Written; 2], kind: usize, value: u64, write: fn(u64) -> HeaderValue) -> HeaderValue {
    match last.get_mut(kind) {
        Some(Some((of, text))) if *of == value => text.clone(),
        Some(last) => last.insert((value, write(value))).1.clone(),
        None => write(value),
    }
}

fn number(number: u64) -> HeaderValue {
    value(itoa::Buffer::new().format(number).as_bytes())
}

/// Whole seconds, rounded up.
fn reset_text(kind: usize, reset_in: Duration) -> HeaderValue {
    let seconds = reset_in.as_secs() + u64::from(reset_in.subsec_nanos() > 0);
    let short = usize::try_from(seconds).ok().and_then(|seconds| SECONDS.get(seconds));
    match short {
        Some(short) => HeaderValue::from_static(short),
        None => RESETS.with_borrow_mut(|last| kept(last, kind, seconds, duration)),
    }
}

/// More than a minute, as OpenAI writes it: `6m0s`.
fn duration(seconds: u64) -> HeaderValue {
    let hours = seconds / 3600;
    let minutes = seconds / 60 % 60;
    let seconds = seconds % 60;
    let mut text = Vec::with_capacity(24);
    if hours > 0 {
        write_number(&mut text, hours);
        text.push(b'h');
    }
    write_number(&mut text, minutes);
    text.push(b'm');
    write_number(&mut text, seconds);
    text.push(b's');
    value(&text)
}

fn value(text: &[u8]) -> HeaderValue {
    // Digits and letters are valid in a header.
    HeaderValue::from_bytes(text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_openai_writes_them() {
        for (millis, wanted) in [
            (0, "0s"),
            (1, "1s"),
            (59_000, "59s"),
            (59_001, "1m0s"),
            (360_000, "6m0s"),
            (3_600_000, "1h0m0s"),
            (90_061_000, "25h1m1s"),
        ] {
            // The second time it is the text that was kept.
            for _ in 0..2 {
                assert_eq!(reset_text(0, Duration::from_millis(millis)), wanted);
            }
        }
        for (seconds, text) in SECONDS.iter().take(60).enumerate() {
            assert_eq!(*text, format!("{seconds}s"));
        }
    }

    #[test]
    fn the_provider_s_own_are_replaced() {
        let mut headers = HeaderMap::new();
        headers.insert(REMAINING_TOKENS, HeaderValue::from_static("77"));
        let left = Remaining { limit: 1_000_000, remaining: 0, reset_in: Duration::from_secs(61) };
        write(&mut headers, Tightest { requests: None, tokens: Some(left) });
        for (name, wanted) in [(LIMIT_TOKENS, "1000000"), (REMAINING_TOKENS, "0"), (RESET_TOKENS, "1m1s")] {
            assert_eq!(headers[name], wanted);
        }
        assert_eq!(headers.len(), 3);
        // The text of a limit is that of this one, whatever the last response had.
        for limit in [7, 7, 1_000_000, 8] {
            write(&mut headers, Tightest { requests: Some(Remaining { limit, ..left }), tokens: Some(left) });
            assert_eq!(headers[LIMIT_REQUESTS], limit.to_string());
            assert_eq!(headers[LIMIT_TOKENS], "1000000");
        }
    }
}
