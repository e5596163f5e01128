//! Values that LiteLLM has encrypted under its salt key: NaCl's secret box (XSalsa20 and Poly1305), or AES-256-GCM.
//!
//! The key of both is the SHA-256 of the salt key. Only reads. Not here: which columns have such values.

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use crypto_secretbox::aead::{Aead, KeyInit};
use crypto_secretbox::{Key, Nonce, XSalsa20Poly1305};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce as GcmNonce, UnboundKey};
use words::config::secret::Secret;
use words::settings::service_key::sha256;

/// What values under AES begin with.
const GCM: &str = "v2:gcm:";
/// Of the secret box: nonce and tag, without a byte of text.
const MIN_BOX: usize = 24 + 16;
const GCM_NONCE: usize = 12;

const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Whether a text looks like such a value. Keys do not, nor do names of models, which begin with a provider.
pub fn is_encrypted(text: &str) -> bool {
    let has_provider = text.split_once('/').is_some_and(|(provider, _)| {
        provider.len() > 2 && provider.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '_' | '-'))
    });
    if has_provider {
        return false;
    }
    text.starts_with(GCM) || (text.len() >= 54 && boxed(text).is_some_and(|bytes| bytes.len() > MIN_BOX))
}

fn boxed(text: &str) -> Option<Vec<u8>> {
    ENGINE.decode(text.replace('+', "-").replace('/', "_")).ok()
}

/// The text of a value; `None`: it is of another salt key, or changed.
pub fn decrypt(text: &str, salt: &Secret) -> Option<String> {
    let key = sha256(salt.expose().as_bytes());
    let plain = match text.strip_prefix(GCM) {
        Some(rest) => of_gcm(ENGINE.decode(rest).ok()?, &key)?,
        None => of_box(&boxed(text)?, &key)?,
    };
    String::from_utf8(plain).ok()
}

fn of_box(sealed: &[u8], key: &[u8; 32]) -> Option<Vec<u8>> {
    let (nonce, rest) = sealed.split_first_chunk::<24>()?;
    let nonce: &Nonce = nonce.into();
    let key: &Key = key.into();
    XSalsa20Poly1305::new(key).decrypt(nonce, rest).ok()
}

fn of_gcm(mut sealed: Vec<u8>, key: &[u8; 32]) -> Option<Vec<u8>> {
    let nonce: [u8; GCM_NONCE] = sealed.get(..GCM_NONCE)?.try_into().ok()?;
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).ok()?);
    let rest = sealed.get_mut(GCM_NONCE..)?;
    let plain = key.open_in_place(GcmNonce::assume_unique_for_key(nonce), Aad::empty(), rest).ok()?;
    Some(plain.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with PyNaCl and with Python's cryptography, as LiteLLM does.
    const BOXED: &str = "6kKjQDagKM7zZW1IGTB0UskIWrbQi2g6gTdSFjiX4IWahCN2fKN6hgEmIM1KHoc_xYYmhS0=";
    const GCM_VALUE: &str = "v2:gcm:XHhmxT9cRv5qYXDUmcWNAI0LAZMpW9UCpJ7sfXqiQkwqlT4fCri-kB0=";

    #[test]
    fn values_of_litellm_are_read_under_their_salt_key_alone() {
        let salt = Secret::new("sk-salt-0123456789");
        for text in [BOXED, GCM_VALUE] {
            assert!(is_encrypted(text), "{text}");
            assert_eq!(decrypt(text, &salt).as_deref(), Some("openai/gpt-4o"), "{text}");
            assert_eq!(decrypt(text, &Secret::new("sk-other")), None, "{text}");
            let changed = format!("{}AAAA", text.get(..text.len() - 4).unwrap());
            assert_eq!(decrypt(&changed, &salt), None, "{text}");
        }
        for plain in [
            "openai/gpt-4o",
            "sk-1234567890abcdefghijklmnopqrstuvwxyz",
            "https://api.example.com/v1/some/long/path/of/it/that/is/no/base64",
            "",
        ] {
            assert!(!is_encrypted(plain), "{plain}");
        }
    }
}
