//! Seals what a cookie of the console carries: AES-256-GCM under a key that is derived from the store's secret.
//!
//! Every gateway of a store reads the cookies of the others. Not the sealing of records (`memory::store`), whose keys stay there.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};

/// What a cookie is for. Its key is derived with it, so that nothing else that is made of the same secret is such a cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Session,
    /// A sign-in at the identity provider that has begun.
    SignIn,
}

impl Purpose {
    const fn text(self) -> &'static [u8] {
        match self {
            Self::Session => b"turnpike console session 1\n",
            Self::SignIn => b"turnpike console sign-in 1\n",
        }
    }
}

/// The text of a cookie for `plain`; `None` where the system has no random numbers.
pub(super) fn seal(purpose: Purpose, secret: &[u8], plain: &[u8]) -> Option<String> {
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).ok()?;
    let mut sealed = plain.to_vec();
    let used = Nonce::assume_unique_for_key(nonce);
    key(purpose, secret)?.seal_in_place_append_tag(used, Aad::empty(), &mut sealed).ok()?;
    Some(URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat()))
}

/// What a cookie carries; `None` where it was not sealed under this secret, or was changed.
pub(super) fn open(purpose: Purpose, secret: &[u8], text: &str) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>()?;
    let mut sealed = sealed.to_vec();
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let plain = key(purpose, secret)?.open_in_place(nonce, Aad::empty(), &mut sealed).ok()?.len();
    sealed.truncate(plain);
    Some(sealed)
}

fn key(purpose: Purpose, secret: &[u8]) -> Option<LessSafeKey> {
    let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), purpose.text());
    Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, derived.as_ref()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_is_read_only_whole_and_under_its_secret() {
        let text = seal(Purpose::Session, b"one", b"plain").unwrap();
        assert_eq!(open(Purpose::Session, b"one", &text).unwrap(), b"plain");
        assert_ne!(text, seal(Purpose::Session, b"one", b"plain").unwrap(), "a nonce of its own");
        assert!(open(Purpose::Session, b"two", &text).is_none());
        assert!(open(Purpose::SignIn, b"one", &text).is_none(), "of another cookie");
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let opened = open(Purpose::Session, b"one", &String::from_utf8(changed).unwrap());
            // The last letter has bits that encode nothing.
            assert!(opened.is_none() || at + 1 == text.len(), "letter {at}");
        }
        for text in ["", "A", "=", "AAAAAAAAAAAAAAAA", "\u{fc}"] {
            assert!(open(Purpose::Session, b"one", text).is_none(), "{text}");
        }
    }
}
