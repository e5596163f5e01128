//! Keys that were made elsewhere and that clients have already: which digests may be taken in.
//!
//! Not the record that is made (`memory::auth::key_records`).

use crate::call::Call;
use words::error::Error;
use words::settings::service_key::sha256_bytes;

/// The digest of a key that was made elsewhere.
///
/// # Errors
/// 400 for what is none, 409 for that of another key.
pub(super) fn digest(call: &Call, text: &str) -> Result<[u8; 32], Error> {
    let digest = sha256_bytes(text)
        .ok_or_else(|| Error::invalid_request("key_sha256", "key_sha256 is no SHA-256.".to_owned()))?;
    let is_of_settings = call.snapshot.settings.auth.keys.iter().any(|key| key.key.sha256() == digest);
    if is_of_settings || call.snapshot.service_keys.stored().has_sha256(&digest) {
        return Err(Error::conflict("key_sha256 is that of another key; keys must differ."));
    }
    Ok(digest)
}
