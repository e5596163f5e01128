//! How a provider key is shown: which header, with which words before it, and whether it must be there.
//!
//! Not where keys come from (the account has them) and not request signing.

use crate::config::account::Account;
use crate::config::secret::Secret;
use crate::error::Error;
use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Headers in which callers send keys. Taken out of every request before the right one is written: a
/// client made for one vendor may be routed to another, which must not see the first one's key.
const CREDENTIALS: [HeaderName; 4] = [
    header::AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-goog-api-key"),
];

/// A key style. No vendor here wants its key in the query, where it would end up in logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Lower case.
    pub header: &'static str,
    /// Written before the key, its space included.
    pub prefix: &'static str,
    /// Whether the vendor's own host refuses calls without a key. A custom host decides for itself.
    pub required: bool,
}

impl Key {
    pub const BEARER: Key = Key { header: "authorization", prefix: "Bearer ", required: true };
    /// For servers of one's own, which are often open.
    pub const OPTIONAL: Key = Key { required: false, ..Key::BEARER };

    /// Takes every credential header out and writes the account's key.
    ///
    /// # Errors
    /// 401 when a required key is missing and there is no custom host; 400 when the key has characters
    /// that no header can carry. The key itself is never quoted.
    pub fn write(
        self,
        provider: &'static str,
        account: &Account,
        headers: &mut HeaderMap,
    ) -> Result<(), Error> {
        clear(headers);
        let key = account.api_key.as_ref().map(|key| key.expose()).filter(|key| !key.is_empty());
        let Some(key) = key else {
            let refused = self.required && account.custom_host.is_none();
            return if refused { Err(missing(provider)) } else { Ok(()) };
        };
        let value = secret_value("api_key", &[self.prefix, key].concat())?;
        headers.insert(HeaderName::from_static(self.header), value);
        Ok(())
    }
}

/// Takes every credential header out: what the caller sent was meant for somebody else.
pub fn clear(headers: &mut HeaderMap) {
    for name in &CREDENTIALS {
        headers.remove(name);
    }
}

fn missing(provider: &'static str) -> Error {
    let message = format!(
        "No provider key for {provider}. Send it as 'Authorization: Bearer <key>', put it in the config as \
         api_key, or use a stored provider (@slug)."
    );
    Error::unauthorized(message).with_param("api_key").with_provider(provider)
}

/// A header value with a key in it: marked sensitive, so that it prints as such and no HTTP/2 encoder keeps it.
///
/// # Errors
/// As [`header_value`].
pub fn secret_value(param: &str, value: &str) -> Result<HeaderValue, Error> {
    let mut value = header_value(param, value)?;
    value.set_sensitive(true);
    Ok(value)
}

/// `Bearer <token>`, for a token that was fetched.
///
/// # Errors
/// As [`header_value`].
pub fn bearer(token: &Secret) -> Result<HeaderValue, Error> {
    secret_value("token", &["Bearer ", token.expose()].concat())
}

/// A header value made of what an account says.
///
/// # Errors
/// 400 naming `param`, without the value.
pub fn header_value(param: &str, value: &str) -> Result<HeaderValue, Error> {
    // `http` lets bytes beyond ASCII pass; no vendor has such keys, and what a server makes of them is luck.
    let header = value.is_ascii().then(|| HeaderValue::from_str(value).ok()).flatten();
    header.ok_or_else(|| {
        let message = format!(
            "{param} has characters that cannot stand in a header: line breaks, other control characters, \
             or letters beyond ASCII."
        );
        Error::invalid_request(param, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(key: &str) -> Account {
        Account { api_key: Some(Secret::new(key)), ..Account::default() }
    }

    #[test]
    fn the_key_is_marked_sensitive_and_stale_ones_go() {
        let mut headers = HeaderMap::new();
        for name in &CREDENTIALS {
            headers.insert(name, HeaderValue::from_static("stale"));
        }
        Key::BEARER.write("openai", &account("k"), &mut headers).unwrap();
        assert_eq!(headers.len(), 1);
        let value = &headers[header::AUTHORIZATION];
        assert_eq!(value, "Bearer k");
        assert!(value.is_sensitive());
        assert!(!format!("{headers:?}").contains("Bearer"));
    }

    #[test]
    fn a_key_no_header_can_carry_is_refused_without_quoting_it() {
        for key in ["sk-hidden\r\nx: y", "sk-hidden\n", "sk-hidden\0", "sk-hidden\u{e9}"] {
            let error = Key::BEARER.write("openai", &account(key), &mut HeaderMap::new()).unwrap_err();
            assert_eq!(error.status(), 400, "{key:?}");
            assert_eq!(error.param.as_deref(), Some("api_key"));
            assert!(!format!("{error:?}").contains("hidden"), "{error:?}");
        }
    }

    #[test]
    fn a_missing_key_is_refused_unless_the_host_is_custom() {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer stale"));
        for account in [Account::default(), account("")] {
            let error = Key::BEARER.write("groq", &account, &mut headers).unwrap_err();
            assert_eq!(error.status(), 401);
            assert!(error.message.contains("groq") && error.message.contains("api_key"), "{error}");
        }
        let own = Account { custom_host: Some("http://h".into()), ..Account::default() };
        Key::BEARER.write("groq", &own, &mut headers).unwrap();
        Key::OPTIONAL.write("ollama", &Account::default(), &mut headers).unwrap();
        assert!(headers.is_empty());
    }
}
