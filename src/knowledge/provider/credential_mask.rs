//! Masks our own credentials in what a provider sends back: a provider (or a proxy before it) that echoes a request in its
//! error would hand the operator's key to the client.
//!
//! Headers of all responses are searched, and bodies of failing ones and error events alone. A credential is replaced by as many asterisks, so
//! that the length of the response stays what its header says. A failing response that is compressed cannot be searched, and is withheld.

use super::spelling;
use super::token_exchange::Credentials;
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue};
use serde_json::json;
use words::config::account::Account;

/// A shorter credential is not masked: it would be found in ordinary words.
const MIN_LENGTH: usize = 8;

/// The credentials of one attempt.
#[derive(Debug, Default)]
pub struct CredentialMask {
    /// Longest first: one may contain another.
    secrets: Vec<Vec<u8>>,
}

impl CredentialMask {
    /// `auth`: the headers that authorize the attempt; `fetched`: the token or temporary credentials it was sent with.
    pub fn new(account: &Account, auth: &HeaderMap, fetched: Option<&Credentials>) -> Self {
        let mut mask = Self::default();
        let sent = auth.values().filter(|value| value.is_sensitive());
        // Without the scheme: `Bearer `.
        sent.filter_map(|value| value.as_bytes().rsplit(|byte| *byte == b' ').next())
            .for_each(|secret| mask.add(secret));
        let kept = [
            &account.api_key,
            &account.cloud_a.access_key_id,
            &account.cloud_a.secret_access_key,
            &account.cloud_a.session_token,
            &account.cloud_c.ad_token,
            &account.cloud_c.entra_client_secret,
        ];
        kept.into_iter().flatten().for_each(|secret| mask.add(secret.expose().as_bytes()));
        match fetched {
            Some(Credentials::Bearer(token)) => mask.add(token.expose().as_bytes()),
            Some(Credentials::Aws { access_key_id, secret_access_key, session_token }) => {
                let secrets = [Some(access_key_id), Some(secret_access_key), session_token.as_ref()];
                secrets.into_iter().flatten().for_each(|secret| mask.add(secret.expose().as_bytes()));
            }
            None => {}
        }
        mask.secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        mask.secrets.dedup();
        mask
    }

    fn add(&mut self, secret: &[u8]) {
        if secret.len() < MIN_LENGTH {
            return;
        }
        self.secrets.push(secret.to_vec());
    }

    /// The text with all credentials masked. Copied only if it contains one.
    pub fn bytes(&self, text: Bytes) -> Bytes {
        if !self.is_in(&text) {
            return text;
        }
        let mut masked = BytesMut::from(&*text);
        self.in_place(&mut masked);
        masked.freeze()
    }

    /// As [`CredentialMask::bytes`], for a string.
    pub fn text(&self, text: &mut String) {
        if self.is_in(text.as_bytes()) {
            let mut masked = std::mem::take(text).into_bytes();
            self.in_place(&mut masked);
            *text = String::from_utf8_lossy(&masked).into_owned();
        }
    }

    /// Whether nothing is masked.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// The body to send in place of a failing response's, where that cannot be searched; its headers are those of the new one then.
    pub fn withheld(&self, headers: &mut HeaderMap) -> Option<Bytes> {
        let encoding = headers.get(CONTENT_ENCODING)?;
        // A body that does not come can be replaced by none either.
        let is_empty = headers.get(CONTENT_LENGTH).is_some_and(|length| length == "0");
        if self.is_empty() || is_empty || encoding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity") {
            return None;
        }
        let encoding = encoding.to_str().unwrap_or("unknown");
        let message = format!(
            "The provider's error is compressed ({encoding}), though the gateway asked for one that is not. It is not shown, because \
             a credential could not be found in it."
        );
        let error = json!({"message": message, "type": "upstream_error", "param": null, "code": "upstream_invalid_answer"});
        let body = Bytes::from(json!({"error": error}).to_string());
        for name in [CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING] {
            headers.remove(name);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_LENGTH, body.len().into());
        Some(body)
    }

    /// Removes response headers that contain a credential.
    pub fn headers(&self, headers: &mut HeaderMap) {
        let leaks = |value: &HeaderValue| self.is_in(value.as_bytes());
        let names: Vec<_> =
            headers.iter().filter(|(_, value)| leaks(value)).map(|(name, _)| name.clone()).collect();
        for name in names {
            headers.remove(&name);
        }
    }

    fn is_in(&self, text: &[u8]) -> bool {
        // No spelling is shorter. Most headers are shorter than a key.
        let mut fitting = self.secrets.iter().filter(|secret| text.len() >= secret.len());
        fitting.any(|secret| spelling::find(text, secret).is_some())
    }

    fn in_place(&self, text: &mut [u8]) {
        for secret in &self.secrets {
            let mut from = 0;
            while let Some(found) = text.get(from..).and_then(|rest| spelling::find(rest, secret)) {
                let start = from + found.start;
                let end = from + found.end;
                if let Some(found) = text.get_mut(start..end) {
                    found.fill(b'*');
                }
                from = end;
            }
        }
    }
}

/// Masks a body that arrives in chunks: what may be the beginning of a credential is held until the next chunk.
#[derive(Debug)]
pub struct MaskedBody {
    mask: CredentialMask,
    held: BytesMut,
    /// What is sent in place of the body.
    withheld: Option<Bytes>,
}

impl MaskedBody {
    /// `withheld`: what is sent in place of the body ([`CredentialMask::withheld`]).
    pub fn new(mask: CredentialMask, withheld: Option<Bytes>) -> Self {
        Self { mask, held: BytesMut::new(), withheld }
    }

    /// The part of the body that can be sent. `end`: no other chunk follows.
    pub fn push(&mut self, chunk: &[u8], end: bool) -> Bytes {
        if let Some(instead) = &mut self.withheld {
            return if end { std::mem::take(instead) } else { Bytes::new() };
        }
        self.held.extend_from_slice(chunk);
        self.mask.in_place(&mut self.held);
        let longest = self.mask.secrets.first().map_or(0, Vec::len) * spelling::LONGEST;
        let keep = if end { 0 } else { longest.saturating_sub(1).min(self.held.len()) };
        self.held.split_to(self.held.len() - keep).freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use words::config::secret::Secret;

    fn mask() -> CredentialMask {
        let account = Account { api_key: Some(Secret::new("sk-\"stored\"-1")), ..Account::default() };
        let mut auth = HeaderMap::new();
        let mut value = HeaderValue::from_static("Bearer sk-sent-12345");
        value.set_sensitive(true);
        auth.insert("authorization", value);
        auth.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        CredentialMask::new(&account, &auth, Some(&Credentials::Bearer(Secret::new("fetched-token"))))
    }

    #[test]
    fn credentials_are_masked_and_everything_else_stays() {
        let cases = [
            ("bad key sk-sent-12345, sk-sent-12345!", "bad key *************, *************!"),
            (r#"{"key":"sk-\"stored\"-1"}"#, r#"{"key":"***************"}"#),
            ("Bearer fetched-token, version 2023-06-01", "Bearer *************, version 2023-06-01"),
            ("nothing", "nothing"),
        ];
        for (text, wanted) in cases {
            let mask = mask();
            assert_eq!(mask.bytes(Bytes::from(text)), wanted);
            let mut string = text.to_owned();
            mask.text(&mut string);
            assert_eq!(string, wanted);
            for size in 1..text.len() {
                let mut body = MaskedBody::new(super::tests::mask(), None);
                let mut out: Vec<u8> =
                    text.as_bytes().chunks(size).flat_map(|chunk| body.push(chunk, false)).collect();
                out.extend(body.push(b"", true));
                assert_eq!(String::from_utf8(out).unwrap(), wanted, "{size}");
            }
        }
    }

    #[test]
    fn characters_may_be_escaped() {
        let account = Account { api_key: Some(Secret::new("a/stored+key")), ..Account::default() };
        let mask = CredentialMask::new(&account, &HeaderMap::new(), None);
        for spelled in
            [r"a\/stored+key", r"a\u002Fstored\u002bkey", r"\u0061/stored%2bkey", "a%2Fstored%2Bkey"]
        {
            let stars = "*".repeat(spelled.len());
            let text = |inside: &str| format!(r#"{{"key":"{inside}","n":"\\"}}"#);
            assert_eq!(mask.bytes(Bytes::from(text(spelled))), text(&stars));
            let mut body = MaskedBody::new(CredentialMask::new(&account, &HeaderMap::new(), None), None);
            let mut out: Vec<u8> =
                text(spelled).as_bytes().chunks(3).flat_map(|chunk| body.push(chunk, false)).collect();
            out.extend(body.push(b"", true));
            assert_eq!(String::from_utf8(out).unwrap(), text(&stars));
        }
    }

    #[test]
    fn a_compressed_body_is_withheld() {
        let withheld = |mask: CredentialMask, encoding: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
            let body = mask.withheld(&mut headers);
            (body, headers)
        };
        let (body, headers) = withheld(mask(), "gzip");
        let body = body.unwrap();
        assert!(!headers.contains_key(CONTENT_ENCODING));
        assert_eq!(headers[CONTENT_LENGTH], body.len().to_string());
        let mut masked = MaskedBody::new(mask(), Some(body.clone()));
        assert!(masked.push(b"sk-sent-12345", false).is_empty());
        assert_eq!(masked.push(b"", true), body);
        assert_eq!(withheld(mask(), "identity").0, None);
        assert_eq!(withheld(CredentialMask::default(), "gzip").0, None);
        let mut without_body = HeaderMap::new();
        without_body.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        without_body.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        assert_eq!(mask().withheld(&mut without_body), None);
        assert_eq!(without_body[CONTENT_LENGTH], "0");
    }

    #[test]
    fn headers_that_echo_a_credential_are_removed() {
        let mut headers = HeaderMap::new();
        headers.insert("x-echo", HeaderValue::from_static("Bearer sk-sent-12345"));
        headers.insert("x-other", HeaderValue::from_static("1"));
        mask().headers(&mut headers);
        assert!(!headers.contains_key("x-echo") && headers.contains_key("x-other"));
    }

    #[test]
    fn a_short_credential_is_not_masked() {
        let account = Account { api_key: Some(Secret::new("test")), ..Account::default() };
        let mask = CredentialMask::new(&account, &HeaderMap::new(), None);
        assert_eq!(mask.bytes(Bytes::from("a test")), "a test");
    }
}
