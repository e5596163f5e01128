//! The names of the gateway's response headers under the further prefixes of the settings, for clients that use those.
//!
//! Not the values (`engine::response_headers`).

use http::{HeaderMap, HeaderName};

/// What follows the prefix in the names of the gateway's response headers.
pub(crate) const SUFFIXES: [&str; 8] = [
    "trace-id",
    "provider",
    "last-used-option-index",
    "retry-attempt-count",
    "cache-status",
    "cost-status",
    "attempts",
    "warnings",
];

/// The prefix that response headers always have.
const OWN_PREFIX: &str = "x-gateway-";
/// As many further prefixes are answered: one bit each.
const MAX_PREFIXES: usize = 64;

/// The names under each further prefix of the settings.
#[derive(Debug, Default, Clone)]
pub struct ReplyHeaders {
    prefixes: Vec<ReplyPrefix>,
}

#[derive(Debug, Clone)]
struct ReplyPrefix {
    prefix: String,
    /// The gateway's own name of a header, and the name under this prefix.
    names: Vec<(HeaderName, HeaderName)>,
}

/// The further prefixes that one client has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsedPrefixes(u64);

impl ReplyHeaders {
    /// `prefixes`: those of the settings, in lower case.
    pub fn new(prefixes: &[String]) -> Self {
        let further = prefixes.iter().filter(|prefix| *prefix != OWN_PREFIX).take(MAX_PREFIXES);
        let name = |prefix: &str, suffix: &str| HeaderName::try_from(format!("{prefix}{suffix}")).ok();
        let names = |prefix: &str| {
            let pair = |suffix: &&str| Some((name(OWN_PREFIX, suffix)?, name(prefix, suffix)?));
            SUFFIXES.iter().filter_map(pair).collect()
        };
        let prefixes =
            further.map(|prefix| ReplyPrefix { prefix: prefix.clone(), names: names(prefix) }).collect();
        Self { prefixes }
    }

    /// Which of the prefixes a request's headers have.
    pub fn used_in(&self, headers: &HeaderMap) -> UsedPrefixes {
        let mut used = 0;
        for (place, prefix) in self.prefixes.iter().enumerate() {
            let is_used = headers.keys().any(|name| name.as_str().starts_with(prefix.prefix.as_str()));
            used |= u64::from(is_used) << place;
        }
        UsedPrefixes(used)
    }

    /// Repeats the gateway's headers of a response under the prefixes that its client used.
    pub fn repeat(&self, used: UsedPrefixes, headers: &mut HeaderMap) {
        if used == UsedPrefixes::default() {
            return;
        }
        let is_used = |place: usize| used.0 >> place & 1 == 1;
        for (_, prefix) in self.prefixes.iter().enumerate().filter(|(place, _)| is_used(*place)) {
            for (own, other) in &prefix.names {
                if let Some(value) = headers.get(own).cloned() {
                    headers.insert(other.clone(), value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(names: &[&'static str]) -> HeaderMap {
        names.iter().map(|name| (HeaderName::from_static(name), HeaderValue::from_static("v"))).collect()
    }

    #[test]
    fn headers_are_repeated_under_the_prefixes_that_were_used() {
        let replies = ReplyHeaders::new(&["x-a-".into(), "x-gateway-".into(), "x-b-".into()]);
        for (request, wanted) in [
            (&["x-gateway-config", "x-c-config"][..], &[][..]),
            (&["x-a-anything"], &["x-a-trace-id", "x-a-warnings"]),
            (&["x-b-config", "x-gateway-config"], &["x-b-trace-id", "x-b-warnings"]),
            (
                &["x-b-config", "x-a-config"],
                &["x-a-trace-id", "x-a-warnings", "x-b-trace-id", "x-b-warnings"],
            ),
        ] {
            let used = replies.used_in(&headers(request));
            let mut response = headers(&["x-gateway-trace-id", "x-gateway-warnings", "x-request-id"]);
            replies.repeat(used, &mut response);
            let mut added: Vec<&str> = response.keys().map(HeaderName::as_str).skip(3).collect();
            added.sort_unstable();
            assert_eq!(added, wanted, "{request:?}");
        }
        let many: Vec<String> = (0..100).map(|number| format!("x-{number}-")).collect();
        assert_eq!(ReplyHeaders::new(&many).prefixes.len(), MAX_PREFIXES);
        assert_eq!(
            ReplyHeaders::new(&["x-gateway-".into()]).used_in(&headers(&["x-gateway-a"])),
            UsedPrefixes(0)
        );
    }
}
