//! How a provider key is sent: in which header, with which prefix, and whether it is required.
//!
//! Not where keys come from (the account has them) and not request signing.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use words::config::account::Account;
use words::config::secret::Secret;
use words::error::Error;

/// Headers in which clients send keys. They are removed from every request before the provider key is
/// written: a request made for one vendor may be routed to another, which must not see the first one's key.
const CREDENTIALS: [HeaderName; 4] = [
    header::AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-goog-api-key"),
];

/// How a key is sent. No supported vendor requires its key in the query, where it would end up in logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// In lower case.
    pub header: &'static str,
    /// Written before the key, including the space.
    pub prefix: &'static str,
    /// Whether the vendor's own host requires a key. A custom host decides for itself.
    pub required: bool,
}

impl Key {
    pub(crate) const BEARER: Key = Key { header: "authorization", prefix: "Bearer ", required: true };
    /// For self-hosted servers, which are often open.
    pub const OPTIONAL: Key = Key { required: false, ..Key::BEARER };

    /// Removes every credential header and writes the account's key.
    ///
    /// # Errors
    /// 401 when a required key is missing and there is no custom host; 400 when the key contains characters
    /// that are not allowed in a header. The key itself is never quoted.
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

/// Removes every credential header that the client sent.
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

/// A header value that contains a key. It is marked sensitive, so that it prints as such and no HTTP/2
/// encoder adds it to its table.
///
/// # Errors
/// As [`header_value`].
pub(crate) fn secret_value(param: &str, value: &str) -> Result<HeaderValue, Error> {
    let mut value = header_value(param, value)?;
    value.set_sensitive(true);
    Ok(value)
}

/// `Bearer <token>`, for a fetched token.
///
/// # Errors
/// As [`header_value`].
pub fn bearer(token: &Secret) -> Result<HeaderValue, Error> {
    secret_value("token", &["Bearer ", token.expose()].concat())
}

/// A header value made from an account field.
///
/// # Errors
/// 400 that names `param`, without the value.
pub(crate) fn header_value(param: &str, value: &str) -> Result<HeaderValue, Error> {
    // `http` accepts non-ASCII bytes. No vendor has such keys, and servers interpret the bytes differently.
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
