//! The text of a stored service key: `gk_<12 characters, public id>_<43 characters, secret>`, all of them letters and digits.
//!
//! The last six characters of the secret are a checksum, so that a typo is told from an unknown key without a lookup, and secret
//! scanners find no false ones. The first 37 carry 220 random bits. Not here: how keys are kept ([`super::stored_keys`]).

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use words::config::secret::Secret;

/// What every key begins with.
pub const PREFIX: &str = "gk_";
const PUBLIC_ID_LEN: usize = 12;
const SECRET_LEN: usize = 43;
const CHECKSUM_LEN: usize = 6;
pub(super) const KEY_LEN: usize = PREFIX.len() + PUBLIC_ID_LEN + 1 + SECRET_LEN;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The part of a key that is no secret: logs may have it, and the key is found by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicId([u8; PUBLIC_ID_LEN]);

impl PublicId {
    /// The public id as text: the slug of the key's record.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes: [u8; PUBLIC_ID_LEN] = text.as_bytes().try_into().ok()?;
        bytes.iter().all(u8::is_ascii_alphanumeric).then_some(Self(bytes))
    }

    /// A new one.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(super) fn random() -> Result<Self, String> {
        Ok(Self(random()?))
    }

    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for PublicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A key as a client sends it, taken apart. Whether it exists is not decided here.
#[derive(Clone, Copy)]
pub struct KeyText<'a> {
    pub public_id: PublicId,
    whole: &'a [u8],
    /// The secret as it was sent, checksum included.
    pub secret: &'a [u8; SECRET_LEN],
}

impl<'a> KeyText<'a> {
    /// Reads a key by its form alone. Cheap: every request's key passes here.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        if text.len() != KEY_LEN {
            return None;
        }
        let rest = text.strip_prefix(PREFIX.as_bytes())?;
        let (public_id, rest) = rest.split_first_chunk::<PUBLIC_ID_LEN>()?;
        let (b'_', secret) = rest.split_first()? else { return None };
        Some(Self { public_id: PublicId(*public_id), whole: text, secret: secret.try_into().ok()? })
    }

    /// Whether the checksum is right.
    pub(crate) fn is_intact(&self) -> bool {
        self.whole.split_last_chunk::<CHECKSUM_LEN>().is_some_and(|(before, sum)| *sum == checksum(before))
    }

    /// What is kept in place of the key.
    pub fn hash(&self, pepper: &KeyHash) -> [u8; 32] {
        pepper.hash(self.whole)
    }
}

/// The secret with which keys are hashed: whoever has read the database cannot test keys without it.
#[derive(Clone)]
pub struct KeyHash(hmac::Key);

impl KeyHash {
    pub fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    pub(super) fn hash(&self, key: &[u8]) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(hmac::sign(&self.0, key).as_ref());
        bytes
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A key that was just made: the only moment its text exists outside its owner's hands.
#[derive(Debug, Clone)]
pub struct NewKey {
    pub public_id: PublicId,
    pub text: Secret,
    /// What is kept.
    pub hash: [u8; 32],
}

impl NewKey {
    /// Makes a key; `public_id`: that of the key whose secret is replaced.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn make(pepper: &KeyHash, public_id: Option<PublicId>) -> Result<Self, String> {
        let public_id = match public_id {
            Some(id) => id,
            None => PublicId::random()?,
        };
        let secret = random::<{ SECRET_LEN - CHECKSUM_LEN }>()?;
        let mut text = String::with_capacity(KEY_LEN);
        text.push_str(PREFIX);
        text.push_str(public_id.as_str());
        text.push('_');
        text.extend(secret.map(char::from));
        let sum = checksum(text.as_bytes());
        text.extend(sum.map(char::from));
        let hash = pepper.hash(text.as_bytes());
        Ok(Self { public_id, text: Secret::new(text), hash })
    }
}

/// A key as it may be shown: its first two and last three characters.
pub fn mask(key: &str) -> String {
    let is_long = key.is_ascii() && key.len() > 8;
    match (key.get(..2), key.get(key.len().saturating_sub(3)..)) {
        (Some(begin), Some(end)) if is_long => format!("{begin}*****{end}"),
        _ => "*****".to_owned(),
    }
}

/// Random letters and digits, each as likely as any other.
fn random<const N: usize>() -> Result<[u8; N], String> {
    let source = SystemRandom::new();
    let mut out = [b'0'; N];
    let mut left = out.as_mut_slice();
    while !left.is_empty() {
        let mut bytes = [0; 64];
        source.fill(&mut bytes).map_err(|_| "the system gives no random numbers".to_owned())?;
        // Bytes above the last multiple of 62 would make the first digits more likely.
        let digits =
            bytes.iter().filter(|byte| **byte < 248).filter_map(|byte| DIGITS.get(usize::from(*byte) % 62));
        let mut made = 0;
        for (place, digit) in left.iter_mut().zip(digits) {
            *place = *digit;
            made += 1;
        }
        left = left.get_mut(made..).unwrap_or_default();
    }
    Ok(out)
}

/// The CRC-32 of what comes before it, in six digits.
fn checksum(before: &[u8]) -> [u8; CHECKSUM_LEN] {
    let mut sum = crc32fast::hash(before);
    let mut digits = [b'0'; CHECKSUM_LEN];
    for place in digits.iter_mut().rev() {
        *place = DIGITS.get(sum as usize % 62).copied().unwrap_or(b'0');
        sum /= 62;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_new_key_has_the_form_and_its_own_parts() {
        let pepper = KeyHash::new(b"pepper");
        let keys: Vec<_> = (0..200).map(|_| NewKey::make(&pepper, None).unwrap()).collect();
        let form = regex::Regex::new("^gk_[0-9A-Za-z]{12}_[0-9A-Za-z]{43}$").unwrap();
        for key in &keys {
            let text = key.text.expose();
            assert!(form.is_match(text), "{text}");
            let parsed = KeyText::parse(text.as_bytes()).unwrap();
            assert!(parsed.is_intact() && parsed.public_id == key.public_id);
            assert_eq!(parsed.hash(&pepper), key.hash);
            assert_ne!(parsed.hash(&KeyHash::new(b"other")), key.hash);
        }
        let texts: HashSet<_> = keys.iter().map(|key| key.text.expose()).collect();
        assert_eq!(texts.len(), keys.len());
        let digits: HashSet<_> = keys.iter().flat_map(|key| key.text.expose().bytes().skip(16)).collect();
        assert_eq!(digits.len(), 62, "every digit occurs");
        let rotated = NewKey::make(&pepper, Some(keys[0].public_id)).unwrap();
        assert!(rotated.public_id == keys[0].public_id && rotated.hash != keys[0].hash);
    }

    #[test]
    fn any_changed_character_breaks_the_checksum() {
        let key = NewKey::make(&KeyHash::new(b"p"), None).unwrap();
        let text = key.text.expose();
        for at in 3..text.len() {
            let mut changed = text.as_bytes().to_vec();
            changed[at] = if changed[at] == b'a' { b'b' } else { b'a' };
            let intact = KeyText::parse(&changed).is_some_and(|key| key.is_intact());
            assert!(!intact, "{at}");
        }
    }

    #[test]
    fn what_has_another_form_is_no_key() {
        let key = NewKey::make(&KeyHash::new(b"p"), None).unwrap();
        let text = key.text.expose();
        for wrong in [
            "",
            "gk_",
            "gk_x",
            text.strip_prefix("g").unwrap(),
            &format!("{text}a"),
            &text.replacen("gk_", "gk-", 1),
        ] {
            assert!(KeyText::parse(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_masked_key_shows_five_characters() {
        assert_eq!(mask("gk_0123456789ab_secretXYZ"), "gk*****XYZ");
        assert_eq!(
            (mask("short"), mask(""), mask("ääääääääää")),
            ("*****".into(), "*****".into(), "*****".into())
        );
    }
}
