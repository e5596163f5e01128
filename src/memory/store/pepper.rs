//! The secret under which service keys are hashed: made once for a store, kept as a sealed record.
//!
//! Without it, nobody who has read the database can test whether a guessed key is right. Hashing is in `auth`.

use super::sealing::{Keyring, random};
use super::{Change, Kind, Record, Status, StoreError};
use jiff::Timestamp;
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

/// The one record of its kind.
pub(super) const ID: Uuid = Uuid::nil();
const BYTES: usize = 32;

/// 32 random bytes; they are never shown.
#[derive(PartialEq, Eq)]
pub struct Pepper([u8; BYTES]);

impl Pepper {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Pepper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A new one, to be written.
pub(super) fn make(keys: &Keyring) -> Result<Change, StoreError> {
    let mut bytes = [0; BYTES];
    random(&mut bytes)?;
    let now = Timestamp::now();
    Ok(Change::Put(Arc::new(Record {
        kind: Kind::Pepper,
        id: ID,
        parent: None,
        workspace: None,
        slug: None,
        number: None,
        status: Status::Active,
        revision: 1,
        created_at: now,
        updated_at: now,
        body: "{}".into(),
        sealed: Some(keys.seal(Kind::Pepper, ID, &bytes)?),
    })))
}

pub(super) fn read(record: &Record, keys: &Keyring) -> Result<Pepper, StoreError> {
    let missing = || StoreError::Damaged("the secret of service keys is not whole".to_owned());
    let sealed = record.sealed.as_ref().ok_or_else(missing)?;
    let plain = keys.unseal(record.kind, record.id, sealed)?;
    plain.try_into().map(Pepper).map_err(|_| missing())
}
