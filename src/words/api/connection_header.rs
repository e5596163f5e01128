//! The `Connection` header of a request: the names in it, and which of them no client may use.
//!
//! Not the removal of the headers that it names; whoever writes the upstream request does that.

use crate::error::Error;
use http::{HeaderMap, HeaderName, header};

/// Headers that no client may have removed by naming them in `Connection`.
const PROTECTED: [&str; 4] = ["host", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];

/// The names in `Connection`, as written, without empty ones.
pub fn names(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let values = headers.get_all(header::CONNECTION).into_iter();
    let names = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    names.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty())
}

/// Checks that `Connection` holds valid header names only, and none that is protected.
///
/// # Errors
/// 400 whose cause is the name.
pub fn check(headers: &HeaderMap) -> Result<(), Error> {
    let is_proper =
        |name: &&[u8]| HeaderName::from_bytes(name).is_ok_and(|name| !PROTECTED.contains(&name.as_str()));
    match names(headers).find(|name| !is_proper(name)) {
        Some(name) => {
            Err(Error::malformed_http(format!("Connection names {:?}", name.escape_ascii().to_string())))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn connection_must_not_name_protected_headers() {
        let headers = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::CONNECTION, HeaderValue::from_static(value));
            }
            headers
        };
        for proper in [&[][..], &["close"], &["keep-alive, x-own,", ""], &["Upgrade"]] {
            assert!(check(&headers(proper)).is_ok(), "{proper:?}");
        }
        for improper in ["host", "close, X-Forwarded-For", "a b", ":authority", "\"x\""] {
            assert_eq!(check(&headers(&[improper])).unwrap_err().status(), 400, "{improper}");
        }
    }
}
