//! Makes and rotates the records of stored keys: the only place where keys are generated, for the API and the command line.
//!
//! Pure: it writes nothing. Who may make which key is decided by its users.

use super::key_body::{KeyBody, KeySecret, OtherForm};
use super::key_format::{KeyHash, NewKey, PublicId, mask};
use super::stored_keys::OwnHash;
use crate::store::{Kind, Record, Status};
use jiff::{SignedDuration, Timestamp};
use std::fmt;
use uuid::Uuid;
use words::config::secret::Secret;

/// How long the old secret of a rotated key stays good where nothing else is said, and the least that may be said besides 0:
/// milliseconds.
pub const TRANSITION_MS: i64 = 1_800_000;
/// The longest: 31 days.
pub const MAX_TRANSITION_MS: i64 = 31 * 24 * 3_600_000;

/// A record, and the key's text, which is kept nowhere.
#[derive(Debug, Clone)]
pub struct Made {
    pub record: Record,
    pub text: Secret,
    /// When the old secret ends; `None` where there is none.
    pub transition_ends: Option<Timestamp>,
}

/// Why a key was not rotated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RotationRefusal {
    /// The secret before this one is still good until then.
    InTransition(Timestamp),
    /// The record cannot be read, or the system has no random numbers.
    Broken(String),
}

impl fmt::Display for RotationRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InTransition(end) => write!(
                f,
                "the key was rotated a moment ago, and its old secret is good until {end:.0}: a key has two secrets at most. \
                 Rotate it after that, or with a transition of 0 to end all old secrets at once"
            ),
            Self::Broken(why) => f.write_str(why),
        }
    }
}

/// A new key. `body` without secrets and mask, which are made here.
///
/// # Errors
/// The system has no random numbers.
pub fn make(
    mut body: KeyBody,
    workspace: Option<Uuid>,
    pepper: &KeyHash,
    now: Timestamp,
) -> Result<Made, String> {
    let key = NewKey::make(pepper, None)?;
    body.secrets = vec![KeySecret::new(&key.hash)];
    body.masked = mask(key.text.expose());
    let record = first(key.public_id, &body, workspace, now);
    Ok(Made { record, text: key.text, transition_ends: None })
}

/// A key that was made elsewhere and that clients have already: of it there is only the SHA-256. `body` as in [`make`].
///
/// Its id follows from the digest, so that no store can have two records of one digest, also after the digest is gone from the record.
///
/// # Errors
/// The system has no random numbers.
pub fn adopt(
    mut body: KeyBody,
    workspace: Option<Uuid>,
    sha256: &[u8; 32],
    pepper: &KeyHash,
    now: Timestamp,
) -> Result<Record, String> {
    body.secrets = vec![KeySecret::of_sha256(sha256)];
    body.masked = mask("");
    let record = first(PublicId::random()?, &body, workspace, now);
    Ok(Record { id: adopted_id(sha256, pepper), ..record })
}

/// The id of the record of a key with this SHA-256. Whoever has the database cannot test keys by it: it is made with the pepper.
pub fn adopted_id(sha256: &[u8; 32], pepper: &KeyHash) -> Uuid {
    let mut text = b"adopted key ".to_vec();
    text.extend_from_slice(sha256);
    let hash = pepper.hash(&text);
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(hash).for_each(|(byte, of)| *byte = of);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// What is written of an adopted key where the store has this record of its digest: over one that was revoked; `None` over one in use.
pub fn adopted_over(record: &Record, before: Option<&Record>) -> Option<Record> {
    match before {
        None => Some(record.clone()),
        Some(before) if before.status == Status::Archived => {
            Some(Record { revision: before.revision + 1, slug: before.slug.clone(), ..record.clone() })
        }
        Some(_) => None,
    }
}

fn first(public_id: PublicId, body: &KeyBody, workspace: Option<Uuid>, now: Timestamp) -> Record {
    Record {
        kind: Kind::ApiKey,
        id: Uuid::now_v7(),
        parent: None,
        workspace,
        slug: Some(public_id.as_str().to_owned()),
        number: None,
        status: Status::Active,
        revision: 1,
        created_at: now,
        updated_at: now,
        body: body.to_json().into(),
        sealed: None,
    }
}

/// The key with the time of its last use, and with `own` hashes in the place of digests; `None` where a later use is written down and no
/// digest is replaced.
pub fn used(record: &Record, last_use: Timestamp, own: &[OwnHash]) -> Option<Record> {
    let mut body = KeyBody::parse(&record.body).ok()?;
    let mut is_upgraded = false;
    for secret in body.secrets.iter_mut().filter(|secret| secret.other_form == Some(OtherForm::Sha256)) {
        let digest = secret.hash_bytes();
        if let Some(found) = own.iter().find(|found| Some(found.sha256) == digest) {
            *secret = secret.with_own_hash(&found.hmac);
            is_upgraded = true;
        }
    }
    let is_noted = body.last_used_at.is_some_and(|before| before >= last_use);
    if record.status != Status::Active || (is_noted && !is_upgraded) {
        return None;
    }
    body.last_used_at = body.last_used_at.max(Some(last_use));
    Some(Record { revision: record.revision + 1, body: body.to_json().into(), ..record.clone() })
}

/// The key out of use, without its secrets. Its record stays: a data port that demanded a key does not open to everyone because
/// the last key is deleted.
pub fn revoked(record: &Record, now: Timestamp) -> Record {
    let body = KeyBody::parse(&record.body).map(|body| KeyBody { secrets: Vec::new(), ..body }.to_json());
    Record {
        status: Status::Archived,
        revision: record.revision + 1,
        updated_at: now,
        body: body.unwrap_or_default().into(),
        ..record.clone()
    }
}

/// The key with another secret. The old one stays good for `transition_ms`; with 0 every old secret ends at once, also in the
/// transition of an earlier rotation, which is otherwise never touched.
///
/// # Errors
/// [`RotationRefusal`].
pub fn rotate(
    record: &Record,
    pepper: &KeyHash,
    transition_ms: i64,
    now: Timestamp,
) -> Result<Made, RotationRefusal> {
    let broken = |why: String| RotationRefusal::Broken(why);
    let mut body = KeyBody::parse(&record.body).map_err(broken)?;
    let public_id = record.slug.as_deref().and_then(PublicId::parse);
    let public_id = public_id.ok_or_else(|| broken("the key has no public id".to_owned()))?;
    let live: Vec<KeySecret> = body.secrets.into_iter().filter(|secret| secret.is_live(now)).collect();
    let ends = live.iter().filter_map(|secret| secret.expires_at).max();
    if let (Some(end), true) = (ends, transition_ms > 0) {
        return Err(RotationRefusal::InTransition(end));
    }
    let key = NewKey::make(pepper, Some(public_id)).map_err(broken)?;
    let end = now.checked_add(SignedDuration::from_millis(transition_ms));
    let end = end.ok().filter(|_| transition_ms > 0);
    body.secrets = vec![KeySecret::new(&key.hash)];
    if let Some(end) = end {
        body.secrets.extend(live.into_iter().take(1).map(|old| KeySecret { expires_at: Some(end), ..old }));
    }
    body.masked = mask(key.text.expose());
    let record = Record {
        revision: record.revision + 1,
        updated_at: now,
        body: body.to_json().into(),
        ..record.clone()
    };
    Ok(Made { record, text: key.text, transition_ends: end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::key_format::KeyText;
    use words::settings::scopes::KeyType;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn hashes(record: &Record) -> Vec<(String, Option<Timestamp>)> {
        let secrets = KeyBody::parse(&record.body).unwrap().secrets;
        secrets.into_iter().map(|secret| (secret.hash, secret.expires_at)).collect()
    }

    #[test]
    fn a_digest_has_one_record_whatever_became_of_it() {
        let pepper = KeyHash::new(b"p");
        let of = |digest: u8, pepper: &KeyHash| {
            adopt(KeyBody::new("k", KeyType::WorkspaceService), None, &[digest; 32], pepper, at(0)).unwrap()
        };
        let first = of(1, &pepper);
        assert_eq!(of(1, &pepper).id, first.id);
        assert_ne!(of(2, &pepper).id, first.id);
        assert_ne!(of(1, &KeyHash::new(b"q")).id, first.id, "it cannot be computed without the pepper");
        let own = OwnHash { sha256: [1; 32], hmac: [9; 32] };
        let upgraded = used(&first, at(5), &[own]).unwrap();
        assert!(adopted_over(&of(1, &pepper), Some(&upgraded)).is_none(), "a digest that was replaced");
        let again = adopted_over(&of(1, &pepper), Some(&revoked(&upgraded, at(6)))).unwrap();
        assert_eq!((again.revision, again.status, again.slug), (4, Status::Active, first.slug));
    }

    #[test]
    fn a_rotation_leaves_two_secrets_and_never_lengthens_the_first() {
        let pepper = KeyHash::new(b"p");
        let first = make(KeyBody::new("k", KeyType::WorkspaceService), None, &pepper, at(0)).unwrap();
        let hash = |made: &Made| {
            let text = made.text.expose();
            KeySecret::new(&KeyText::parse(text.as_bytes()).unwrap().hash(&pepper)).hash
        };
        assert_eq!(hashes(&first.record), [(hash(&first), None)]);
        let second = rotate(&first.record, &pepper, TRANSITION_MS, at(0)).unwrap();
        assert_eq!(
            (second.record.id, second.record.slug.clone()),
            (first.record.id, first.record.slug.clone())
        );
        assert_eq!(second.transition_ends, Some(at(1800)));
        assert_eq!(hashes(&second.record), [(hash(&second), None), (hash(&first), Some(at(1800)))]);
        let again = rotate(&second.record, &pepper, TRANSITION_MS, at(1799));
        assert_eq!(again.unwrap_err(), RotationRefusal::InTransition(at(1800)));
        let cut = rotate(&second.record, &pepper, 0, at(10)).unwrap();
        assert_eq!((hashes(&cut.record), cut.transition_ends), (vec![(hash(&cut), None)], None));
        let third = rotate(&second.record, &pepper, TRANSITION_MS, at(1800)).unwrap();
        assert_eq!(hashes(&third.record), [(hash(&third), None), (hash(&second), Some(at(3600)))]);
        assert_eq!(third.record.revision, 3);
    }
}
