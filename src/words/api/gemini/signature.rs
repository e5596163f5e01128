//! Signatures in the dialect. A `thoughtSignature` is base64, and clients decode it, so what other providers sign or
//! encrypt is wrapped:
//!
//! ```text
//! Reasoning("sig-1")   base64("turnpike:signature:sig-1")
//! Redacted("XYZ")      base64("turnpike:redacted:XYZ")
//! Google               anything else
//! ```
//!
//! The prefixes are part of running conversations at clients and must not change.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use std::borrow::Cow;

/// Nine bytes, so their base64 ends where they do.
const MARK: &str = "turnpike:";
const SIGNATURE: &str = "signature:";
const REDACTED: &str = "redacted:";

/// [`MARK`] in base64: how every wrapped signature begins.
pub(super) const WRAPPED: &str = "dHVybnBpa2U6";

/// A `thoughtSignature`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Signature<'a> {
    /// Another provider's signature on its reasoning.
    Reasoning(Cow<'a, str>),
    /// Another provider's encrypted reasoning.
    Redacted(Cow<'a, str>),
    /// Google's own.
    Google,
}

impl<'a> Signature<'a> {
    pub fn parse(text: Cow<'a, str>) -> Signature<'static> {
        Self::unwrap(&text).unwrap_or(Signature::Google)
    }

    fn unwrap(text: &str) -> Option<Signature<'static>> {
        if !text.starts_with(WRAPPED) {
            return None;
        }
        // Google's SDKs write bytes in the alphabet of URLs, some without padding.
        let plain = text.trim_end_matches('=').replace('-', "+").replace('_', "/");
        let content = String::from_utf8(STANDARD_NO_PAD.decode(plain).ok()?).ok()?;
        let content = content.strip_prefix(MARK)?;
        let owned = |text: &str| Cow::Owned(text.to_owned());
        match content.strip_prefix(SIGNATURE) {
            Some(signature) => Some(Signature::Reasoning(owned(signature))),
            None => Some(Signature::Redacted(owned(content.strip_prefix(REDACTED)?))),
        }
    }

    /// As written into `thoughtSignature`; empty for Google's own.
    pub fn encode(&self) -> String {
        let wrap = |kind: &str, text: &str| STANDARD.encode([MARK, kind, text].concat());
        match self {
            Self::Reasoning(signature) => wrap(SIGNATURE, signature),
            Self::Redacted(data) => wrap(REDACTED, data),
            Self::Google => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn every_signature_round_trips_in_both_alphabets(text: String) {
            for signature in [Signature::Reasoning(text.as_str().into()), Signature::Redacted(text.as_str().into())] {
                let wrapped = signature.encode();
                assert!(wrapped.starts_with(WRAPPED));
                let for_urls = wrapped.trim_end_matches('=').replace('+', "-").replace('/', "_");
                assert_eq!(Signature::parse(wrapped.into()), signature);
                assert_eq!(Signature::parse(for_urls.into()), signature);
            }
        }
    }

    #[test]
    fn anything_else_is_googles() {
        for text in ["", "CsoBAdHtim9", WRAPPED, "dHVybnBpa2U6b3RoZXI6eA=="] {
            assert_eq!(Signature::parse(text.into()), Signature::Google, "{text}");
        }
    }
}
