//! The value types of settings: durations, sizes, addresses, files, ids, URLs.
//!
//! Each function reads one value and reports what is wrong with it. Not here: which keys exist.

use crate::config::read::{Cursor, ObjectReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The longest duration a setting accepts, in milliseconds: a day.
const MAX_MS: i64 = 86_400_000;

/// A number of milliseconds from 1 to a day.
pub(super) fn millis(fields: &mut ObjectReader<'_>, name: &str) -> Option<Duration> {
    let ms = fields.get(&[name])?.integer_within(1, MAX_MS)?;
    u64::try_from(ms).ok().map(Duration::from_millis)
}

/// A whole number from `min` to `max`, neither of them negative.
pub(super) fn count(fields: &mut ObjectReader<'_>, name: &str, min: i64, max: i64) -> Option<usize> {
    usize::try_from(fields.get(&[name])?.integer_within(min, max)?).ok()
}

/// A string that is not blank.
pub(super) fn non_empty<'a>(at: &Cursor<'a>) -> Option<&'a str> {
    let text = at.text()?;
    if text.trim().is_empty() {
        at.problem("must not be empty");
        return None;
    }
    Some(text)
}

/// The path of a file. Whether the file exists is checked when it is opened.
pub(super) fn file(fields: &mut ObjectReader<'_>, name: &str) -> Option<PathBuf> {
    non_empty(&fields.get(&[name])?).map(PathBuf::from)
}

/// `IP:PORT`, or `[IP]:PORT` for IPv6.
pub(super) fn address(at: &Cursor<'_>) -> Option<SocketAddr> {
    let found = at.text()?.parse().ok();
    if found.is_none() {
        at.problem("must be IP:PORT, such as 127.0.0.1:8787, 0.0.0.0:8787 or [::]:8787");
    }
    found
}

/// The operator's own URL, which [`base_url`] checks.
pub(super) fn http_url(at: &Cursor<'_>) -> Option<String> {
    let url = non_empty(at)?;
    if let Err(why) = base_url(url) {
        at.problem(why);
    }
    Some(url.to_owned())
}

/// Whether `text` can be a slug or a config id, usable in a header, a path and a metric label.
pub(super) fn is_id(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// Checks the operator's own `custom_host`: any host is trusted, but it must be a base URL.
///
/// # Errors
/// What is wrong with it, without repeating it (it may hold a password).
pub(super) fn base_url(text: &str) -> Result<(), String> {
    let url = url::Url::parse(text).map_err(|error| format!("must be an http or https URL ({error})"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must be an http or https URL".to_owned());
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("must name a host".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold a user or password; give api_key".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must end with its path, without ? or #".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_http_with_a_host_and_nothing_after_its_path() {
        for good in
            ["http://127.0.0.1:8790/v1", "https://api.example.com", "http://[::1]:80/", "http://vllm/v1/"]
        {
            assert_eq!(base_url(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "/v1",
            "localhost:80",
            "ftp://a/",
            "https://",
            "http://u:p@a/",
            "http://u@a",
            "http://a/?b",
            "http://a/#b",
        ] {
            assert!(base_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_id_is_made_of_letters_digits_dots_dashes_and_underscores() {
        assert!(is_id("openai-prod_1.eu"));
        for bad in ["", "a b", "@a", "a/b", "ä", &"a".repeat(129)] {
            assert!(!is_id(bad), "{bad}");
        }
    }
}
