//! Seals secrets under the master key: AES-256-GCM, bound to what they belong to.
//!
//! Several keys can be there at once: everything new is sealed under the first, and what an older one sealed can still be
//! read, so that `rekey` needs no stop. Where the keys come from is `master_key`'s.

use super::{Kind, Sealed, StoreError};
pub(crate) use ring::aead::NONCE_LEN;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt::Write as _;
use uuid::Uuid;

/// Bytes of a master key.
pub(crate) const KEY_BYTES: usize = 32;

/// The keys that can unseal; the first seals.
pub(crate) struct Keyring {
    current: SealingKey,
    previous: Vec<SealingKey>,
}

struct SealingKey {
    id: String,
    key: LessSafeKey,
}

impl Keyring {
    pub fn new(current: &[u8; KEY_BYTES], previous: &[[u8; KEY_BYTES]]) -> Result<Self, StoreError> {
        let previous = previous.iter().map(SealingKey::new).collect::<Result<_, _>>()?;
        Ok(Self { current: SealingKey::new(current)?, previous })
    }

    /// The id of the key that seals.
    pub(crate) fn current_id(&self) -> &str {
        &self.current.id
    }

    pub fn has(&self, key_id: &str) -> bool {
        self.find(key_id).is_some()
    }

    fn find(&self, key_id: &str) -> Option<&SealingKey> {
        std::iter::once(&self.current).chain(&self.previous).find(|key| key.id == key_id)
    }

    /// Seals the secrets of a record.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn seal(&self, kind: Kind, id: Uuid, plain: &[u8]) -> Result<Sealed, StoreError> {
        self.seal_bytes(&record_context(kind, id), plain)
    }

    /// # Errors
    /// `Damaged` if no key here has sealed it, or if it was changed or belongs to another record.
    pub fn unseal(&self, kind: Kind, id: Uuid, sealed: &Sealed) -> Result<Vec<u8>, StoreError> {
        self.unseal_bytes(&record_context(kind, id), sealed).map_err(|error| match error {
            StoreError::Damaged(why) => StoreError::Damaged(format!("{} {id}: {why}", kind.as_str())),
            error => error,
        })
    }

    /// Seals `plain`, readable only together with the same `context`.
    pub(crate) fn seal_bytes(&self, context: &[u8], plain: &[u8]) -> Result<Sealed, StoreError> {
        let mut bytes = [&[0; NONCE_LEN], plain].concat();
        self.seal_in_place(context, &mut bytes, 0)?;
        Ok(Sealed { key_id: self.current.id.clone(), bytes: bytes.into() })
    }

    /// Seals what follows the first [`NONCE_LEN`] bytes after `from`, which the nonce replaces.
    pub(crate) fn seal_in_place(
        &self,
        context: &[u8],
        bytes: &mut Vec<u8>,
        from: usize,
    ) -> Result<(), StoreError> {
        let too_large = || StoreError::Damaged("it cannot be sealed".to_owned());
        let part = bytes.get_mut(from..).and_then(|part| part.split_first_chunk_mut::<NONCE_LEN>());
        let (nonce, plain) = part.ok_or_else(too_large)?;
        random(nonce)?;
        let used = Nonce::assume_unique_for_key(*nonce);
        let tag = self.current.key.seal_in_place_separate_tag(used, Aad::from(context), plain);
        bytes.extend_from_slice(tag.map_err(|_| too_large())?.as_ref());
        Ok(())
    }

    pub(crate) fn unseal_bytes(&self, context: &[u8], sealed: &Sealed) -> Result<Vec<u8>, StoreError> {
        let key = self.find(&sealed.key_id).ok_or_else(|| {
            StoreError::Damaged(format!("sealed under the master key {}, which is not here", sealed.key_id))
        })?;
        let damaged = || StoreError::Damaged("its sealed part was changed".to_owned());
        let (nonce, sealed) = sealed.bytes.split_first_chunk::<NONCE_LEN>().ok_or_else(damaged)?;
        let mut bytes = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain =
            key.key.open_in_place(nonce, Aad::from(context), &mut bytes).map_err(|_| damaged())?.len();
        bytes.truncate(plain);
        Ok(bytes)
    }
}

impl SealingKey {
    fn new(bytes: &[u8; KEY_BYTES]) -> Result<Self, StoreError> {
        let key = UnboundKey::new(&AES_256_GCM, bytes)
            .map_err(|_| StoreError::Misconfigured("the master key is not usable".to_owned()))?;
        // The id says nothing about the key and is the same wherever the key is.
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, bytes), b"turnpike master key id");
        let mut id = String::with_capacity(16);
        for byte in tag.as_ref().iter().take(8) {
            let _ = write!(id, "{byte:02x}");
        }
        Ok(Self { id, key: LessSafeKey::new(key) })
    }
}

/// Fills `bytes` with random numbers that nobody can guess.
pub fn random(bytes: &mut [u8]) -> Result<(), StoreError> {
    SystemRandom::new()
        .fill(bytes)
        .map_err(|_| StoreError::Unavailable("the system has no random numbers".to_owned()))
}

/// What a record's secrets are bound to.
fn record_context(kind: Kind, id: Uuid) -> Vec<u8> {
    [kind.as_str().as_bytes(), &[0], id.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_is_read_only_by_its_key_in_its_place() {
        let old = [1; KEY_BYTES];
        let new = [2; KEY_BYTES];
        let before = Keyring::new(&old, &[]).unwrap();
        let both = Keyring::new(&new, &[old]).unwrap();
        let after = Keyring::new(&new, &[]).unwrap();
        let id = Uuid::from_u128(1);
        let other = Uuid::from_u128(2);
        let sealed = before.seal(Kind::Provider, id, b"sk-1").unwrap();
        assert_eq!(before.unseal(Kind::Provider, id, &sealed).unwrap(), b"sk-1");
        assert_eq!(both.unseal(Kind::Provider, id, &sealed).unwrap(), b"sk-1");
        let missing = after.unseal(Kind::Provider, id, &sealed).unwrap_err().to_string();
        assert!(missing.contains(before.current_id()) && missing.contains("not here"), "{missing}");
        assert!(before.unseal(Kind::Provider, other, &sealed).is_err(), "moved to another record");
        assert!(before.unseal(Kind::McpServer, id, &sealed).is_err(), "moved to another kind");
        assert!(both.has(before.current_id()) && !after.has(before.current_id()));
        assert_ne!(sealed, before.seal(Kind::Provider, id, b"sk-1").unwrap(), "a nonce of its own");
    }

    #[test]
    fn a_change_of_any_byte_is_noticed() {
        let keys = Keyring::new(&[7; KEY_BYTES], &[]).unwrap();
        let id = Uuid::from_u128(1);
        let sealed = keys.seal(Kind::Provider, id, b"sk-1").unwrap();
        for at in 0..sealed.bytes.len() {
            let mut bytes = sealed.bytes.to_vec();
            bytes[at] ^= 1;
            let changed = Sealed { bytes: bytes.into(), ..sealed.clone() };
            assert!(keys.unseal(Kind::Provider, id, &changed).is_err(), "byte {at}");
            let cut = Sealed { bytes: sealed.bytes[..at].into(), ..sealed.clone() };
            assert!(keys.unseal(Kind::Provider, id, &cut).is_err(), "cut at {at}");
        }
    }
}
