//! Keys that were made elsewhere and that clients have already: which digests may be taken in.
//!
//! Not the record that is made (`memory::auth::key_records`).

use crate::call::Call;
use crate::records::put;
use memory::store::{Kind, Record, Status};
use words::error::Error;
use words::settings::scopes::Scope;
use words::settings::service_key::sha256_bytes;

/// The digest of a key that was made elsewhere. Whoever registers one gets the requests of all who have that key, so it is for those who
/// may make keys of the organisation.
///
/// # Errors
/// 400 for what is none, 403 for another client, 409 for that of another key.
pub(super) fn digest(call: &Call, text: &str) -> Result<[u8; 32], Error> {
    if call.identity.is_bound {
        return Err(Error::forbidden("Only keys of the organisation take keys by their SHA-256."));
    }
    call.identity.require(Scope::OrganisationServiceApiKeysCreate)?;
    let digest = sha256_bytes(text)
        .ok_or_else(|| Error::invalid_request("key_sha256", "key_sha256 is no SHA-256.".to_owned()))?;
    let is_of_settings = call.snapshot.settings.auth.keys.iter().any(|key| key.key.sha256() == digest);
    if is_of_settings || call.snapshot.service_keys.stored().has_sha256(&digest) {
        return Err(conflict());
    }
    Ok(digest)
}

/// Writes the record of such a key, unless the newest records that this node has read have its digest. Of writes in the same moment, several
/// may succeed.
///
/// # Errors
/// 409 for the digest of another key, and those of the store.
pub(super) async fn commit(call: &mut Call, record: Record, digest: &[u8; 32]) -> Result<(), Error> {
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    call.commit_latest(|catalog| {
        let mut others = catalog.all(Kind::ApiKey).filter(|key| key.status == Status::Active);
        if others.any(|key| key.body.contains(&*digest)) {
            return Err(conflict());
        }
        Ok(vec![put(record.clone())])
    })
    .await
}

fn conflict() -> Error {
    Error::conflict("key_sha256 is that of another key; keys must differ.")
}
