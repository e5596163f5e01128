//! Keys that were made elsewhere and that clients have already: which digests may be taken in.
//!
//! Not the record that is made (`memory::auth::key_records`).

use crate::call::Call;
use crate::records::put;
use memory::auth::key_records;
use memory::store::{Kind, Record};
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

/// Writes the record of such a key. The id of a record follows from its digest, so that of writes in the same moment one succeeds.
///
/// # Errors
/// 409 for the digest of another key, also of one whose digest was replaced since, and those of the store.
pub(super) async fn commit(call: &mut Call, record: Record) -> Result<(), Error> {
    call.commit_latest(|catalog| {
        let before = catalog.get(Kind::ApiKey, record.id);
        let written = key_records::adopted_over(&record, before.map(|before| &**before));
        written.map(|written| vec![put(written)]).ok_or_else(conflict)
    })
    .await
}

fn conflict() -> Error {
    Error::conflict("key_sha256 is that of another key; keys must differ.")
}
