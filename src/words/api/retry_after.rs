//! How long a provider wants clients to wait before a retry: all header forms, read into one duration.
//!
//! Does not decide whether the wait is honoured (`route::retry`).

use http::HeaderMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Reset headers of rate limits, each with the header that has the remaining quota.
const RESETS: [(&str, &str); 8] = [
    ("x-ratelimit-reset-requests", "x-ratelimit-remaining-requests"),
    ("x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens"),
    ("x-ratelimit-reset", "x-ratelimit-remaining"),
    ("ratelimit-reset", "ratelimit-remaining"),
    ("anthropic-ratelimit-requests-reset", "anthropic-ratelimit-requests-remaining"),
    ("anthropic-ratelimit-tokens-reset", "anthropic-ratelimit-tokens-remaining"),
    ("anthropic-ratelimit-input-tokens-reset", "anthropic-ratelimit-input-tokens-remaining"),
    ("anthropic-ratelimit-output-tokens-reset", "anthropic-ratelimit-output-tokens-remaining"),
];

/// The requested wait: `retry-after-ms`, `x-ms-retry-after-ms`, `retry-after` (seconds or an HTTP date), or else the
/// longest reset among the limits that are used up. Resets count only if `is_limited` (the status was 429), because
/// other responses routinely have these headers too.
pub fn retry_delay(headers: &HeaderMap, is_limited: bool, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let millis = |name: &str| duration(text(name)?.parse::<f64>().ok()? / 1000.0);
    millis("retry-after-ms")
        .or_else(|| millis("x-ms-retry-after-ms"))
        .or_else(|| seconds_or_date(text("retry-after")?, now))
        .or_else(|| {
            let used_up =
                |left: &str| text(left).is_none_or(|left| left.parse().is_ok_and(|left: f64| left <= 0.0));
            let resets = RESETS.iter().filter(|(_, left)| is_limited && used_up(left));
            resets.filter_map(|(reset, _)| until(text(reset)?, now)).max()
        })
}

/// How long a provider has no more quota, by a response that still succeeded: the longest reset among the limits that it says are used up.
pub fn quota_delay(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let is_used_up =
        |left: &str| text(left).and_then(|left| left.parse::<f64>().ok()).is_some_and(|left| left <= 0.0);
    let resets = RESETS.iter().filter(|(_, left)| is_used_up(left));
    resets.filter_map(|(reset, _)| until(text(reset)?, now)).max()
}

fn seconds_or_date(text: &str, now: SystemTime) -> Option<Duration> {
    match text.parse::<f64>() {
        Ok(seconds) => duration(seconds),
        Err(_) => date(text, now),
    }
}

/// The time until a reset, in any form that providers use: `6m0s`, `12ms`, seconds, Unix time, RFC 3339.
fn until(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(number) = text.parse::<f64>() {
        let epoch = now.duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
        // Unix time in milliseconds or in seconds, or a span in seconds.
        return match number {
            number if number > 1e12 => duration(number / 1000.0 - epoch),
            number if number > 1e9 => duration(number - epoch),
            number => duration(number),
        };
    }
    span(text).or_else(|| date(text, now))
}

/// Reads spans such as `1h2m3.5s` and `12ms`.
fn span(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|char: char| !char.is_ascii_digit() && char != '.')?;
        let (number, after) = rest.split_at_checked(digits)?;
        let units = after.find(|char: char| !char.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(units)?;
        let factor = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => return None,
        };
        sum += number.parse::<f64>().ok()? * factor;
        rest = after;
    }
    (!text.is_empty()).then_some(sum).and_then(duration)
}

fn date(text: &str, now: SystemTime) -> Option<Duration> {
    let at = match text.parse::<jiff::Timestamp>() {
        Ok(at) => at,
        Err(_) => jiff::fmt::rfc2822::parse(&text.replace("GMT", "+0000")).ok()?.timestamp(),
    };
    let delay = SystemTime::from(at).duration_since(now);
    Some(delay.unwrap_or_default())
}

/// Whole milliseconds, rounded up so that no retry is early. `None` for infinite and absurdly large values.
fn duration(seconds: f64) -> Option<Duration> {
    let sane = seconds.is_finite() && seconds < 1e9;
    sane.then(|| Duration::from_millis((seconds.max(0.0) * 1000.0).ceil() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    /// 2026-11-21T12:00:00Z.
    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_795_262_400)
    }

    type HeaderRows<'a> = &'a [(&'static str, &'a str)];

    fn delay_millis(headers: HeaderRows<'_>) -> Option<u64> {
        let pairs = headers.iter().map(|(name, value)| {
            (http::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        });
        retry_delay(&pairs.collect(), true, now()).map(|delay| delay.as_millis() as u64)
    }

    #[test]
    fn every_form_is_read() {
        let rows: &[(HeaderRows<'_>, Option<u64>)] = &[
            (&[("retry-after", "2")], Some(2000)),
            (&[("retry-after", "0.25")], Some(250)),
            (&[("retry-after", "Sat, 21 Nov 2026 12:00:07 GMT")], Some(7000)),
            (&[("retry-after", "Sat, 21 Nov 2026 11:00:00 GMT")], Some(0)),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "-3")], Some(0)),
            (&[("retry-after-ms", "200"), ("retry-after", "30")], Some(200)),
            (&[("x-ms-retry-after-ms", "1500"), ("retry-after", "30")], Some(1500)),
            (&[("x-ratelimit-reset-requests", "6m0s")], Some(360_000)),
            (&[("x-ratelimit-reset-tokens", "12ms")], Some(12)),
            (&[("x-ratelimit-reset-tokens", "1s"), ("x-ratelimit-remaining-tokens", "5")], None),
            (
                &[
                    ("x-ratelimit-reset-tokens", "1s"),
                    ("x-ratelimit-remaining-tokens", "0"),
                    ("x-ratelimit-reset-requests", "9s"),
                    ("x-ratelimit-remaining-requests", "12"),
                ],
                Some(1000),
            ),
            (&[("x-ratelimit-reset", "1795262405")], Some(5000)),
            (&[("x-ratelimit-reset", "1795262405000")], Some(5000)),
            (&[("anthropic-ratelimit-tokens-reset", "2026-11-21T12:00:30Z")], Some(30_000)),
            (&[], None),
        ];
        for (headers, wanted) in rows {
            assert_eq!(delay_millis(headers), *wanted, "{headers:?}");
        }
    }

    #[test]
    fn resets_count_only_where_the_limit_was_hit() {
        let headers = HeaderMap::from_iter([(
            http::HeaderName::from_static("x-ratelimit-reset"),
            HeaderValue::from_static("9"),
        )]);
        assert_eq!(retry_delay(&headers, false, now()), None);
    }

    #[test]
    fn a_success_has_the_limits_that_it_has_used_up() {
        let delay = |pairs: HeaderRows<'_>| {
            let pairs = pairs.iter().map(|(name, value)| {
                (http::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
            });
            quota_delay(&pairs.collect(), now()).map(|delay| delay.as_millis() as u64)
        };
        let requests = ("x-ratelimit-remaining-requests", "0");
        assert_eq!(delay(&[requests, ("x-ratelimit-reset-requests", "2s")]), Some(2000));
        assert_eq!(delay(&[("x-ratelimit-reset-requests", "2s")]), None, "nobody says that it is used up");
        assert_eq!(delay(&[requests]), None);
        let left = ("anthropic-ratelimit-tokens-remaining", "12");
        assert_eq!(delay(&[left, ("anthropic-ratelimit-tokens-reset", "2026-11-21T12:00:30Z")]), None);
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "[ -~]{0,40}") {
            for name in ["retry-after", "retry-after-ms", "x-ratelimit-reset"] {
                let _ = delay_millis(&[(name, &text)]);
            }
        }
    }
}
