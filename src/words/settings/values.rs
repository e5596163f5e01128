//! The value types of settings: durations, sizes, addresses, files, ids, URLs.
//!
//! Each function reads one value and reports what is wrong with it. Not here: which keys exist.

use crate::config::members::{Form, form, non_empty};
use crate::config::read::Cursor;
use crate::json::schema::pattern;
use std::net::SocketAddr;

/// `IP:PORT`, or `[IP]:PORT` for IPv6.
pub(super) const ADDRESS: Form<SocketAddr> = form(
    |at| {
        let found = at.text()?.parse().ok();
        if found.is_none() {
            at.problem("must be IP:PORT, such as 127.0.0.1:8787, 0.0.0.0:8787 or [::]:8787");
        }
        found
    },
    |doc| {
        let address = "^[0-9.]+:[0-9]{1,5}$|^\\[[0-9A-Fa-f:.%]+\\]:[0-9]{1,5}$";
        pattern(doc, address, &["0.0.0.0:8000", "127.0.0.1:8787", "[::]:8787"])
    },
);

/// The operator's own URL, which [`base_url`] checks.
pub(super) fn http_url(at: &Cursor<'_>) -> Option<String> {
    let url = non_empty(at)?;
    if let Err(why) = base_url(url) {
        at.problem(why);
    }
    Some(url.to_owned())
}

/// The same as a value of its own.
pub(super) const URL: Form<String> =
    form(http_url, |doc| pattern(doc, "^https?://[^/?#@]+[^?#]*$", &["https://id.example.com/jwks"]));

/// A scope that an identity provider is asked for (RFC 6749, 3.3).
pub(super) const SIGN_IN_SCOPE: Form<String> = form(
    |at| {
        let text = non_empty(at)?;
        let is_good = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\');
        if !is_good {
            at.problem("a scope has neither spaces nor quotes");
        }
        is_good.then(|| text.to_owned())
    },
    |doc| pattern(doc, "^[!#-\\[\\]-~]+$", &["openid"]),
);

/// The name of a gateway.
pub(super) const NODE_NAME: Form<String> = form(
    |at| {
        let name = non_empty(at)?;
        if !is_id(name) {
            at.problem("a name is made of letters, digits, dots, dashes and underscores, at most 128");
        }
        Some(name.to_owned())
    },
    |doc| pattern(doc, ID, &["gateway-1"]),
);

/// What slugs and ids of configs look like in the schema.
pub(super) const ID: &str = "^[A-Za-z0-9._-]{1,128}$";

/// Whether `text` can be a slug or a config id, usable in a header, a path and a metric label.
pub(super) fn is_id(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// Whether a text can be a name in DNS: labels of letters, digits, dashes and underscores.
pub(super) fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    name.len() <= 253 && name.split('.').all(is_label)
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
