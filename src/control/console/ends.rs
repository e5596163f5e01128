//! Sessions that end before their time: signed out, or ended for somebody. In the store, so that all its gateways know of them.
//!
//! A record for each session that was ended, and one for each person whose sessions all were. They are of use for as long as a session can
//! last, and are deleted by later ones. Without a store, and where it only reads, the process remembers by itself (`session`).

use super::super::call::Call;
use super::super::field::{Field, Type, required};
use super::super::records::{changed, created, members, put};
use super::super::reply::Reply;
use super::session::ABSOLUTE;
use jiff::Timestamp;
use memory::store::{Catalog, Change, Kind, Record};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use uuid::Uuid;
use words::error::Error;

/// Records of ended sessions; beyond it a sign-out is known to its process alone.
const MAX_RECORDS: usize = 10_000;
/// Those of one key or person; beyond it the oldest of its own are deleted.
const MAX_OF_ONE: usize = 100;

pub(super) const BODY: &[Field] = &[required(
    "user",
    Type::Text(4096),
    "As the audit log names the person: the claim of `auth.jwt.claims.user`.",
)];

pub(super) const REPLY: &[Field] = &[
    required("object", Type::Text(30), "`console-sessions-end`."),
    required("user", Type::Text(4096), "Whose."),
];

/// Whether a session was ended.
pub(super) fn has_ended(catalog: &Catalog, id: Uuid) -> bool {
    catalog.get(Kind::SessionEnd, id).is_some()
}

/// Whether all sessions of a person were ended that had begun by then, seconds since 1970.
pub(super) fn has_ended_all(catalog: &Catalog, user: &str, begun: i64) -> bool {
    let record = catalog.get(Kind::SessionEnd, of_user(user));
    let before = record.and_then(|record| members(record).get("before")?.as_i64());
    before.is_some_and(|before| begun <= before)
}

/// Ends the session of the call, at all gateways of the store.
pub(super) async fn sign_out(mut call: Call) -> Result<Reply, Error> {
    let is_kept = call.shared.store().is_some_and(|store| !store.reads_only());
    let session = call.presented.session.as_ref().filter(|_| is_kept);
    let session = session.map(|session| {
        let body = json!({"until": session.ends_at_last(), "of": session.holder()});
        let record = created(Kind::SessionEnd, None, String::new(), &body, call.now);
        Record { id: session.id(), slug: None, ..record }
    });
    if let Some(ended) = session {
        match write(&mut call, ended).await {
            Ok(()) => return Ok(Reply::empty()),
            Err(error) => {
                log::warn!(target: "turnpike", "console: a sign-out is known here alone: {}", error.message);
            }
        }
    }
    call.record_change().await;
    Ok(Reply::empty())
}

/// Ends all sessions that a person has begun at the identity provider.
pub(super) async fn end_all(mut call: Call) -> Result<Reply, Error> {
    let user = call.text("user").unwrap_or_default().to_owned();
    let now = call.now.as_second();
    let body = json!({"user": user, "before": now, "until": now + ABSOLUTE});
    let before = call.catalog()?.get(Kind::SessionEnd, of_user(&user)).cloned();
    let record = match before {
        Some(before) => changed(&before, &body, call.now),
        None => {
            let record = created(Kind::SessionEnd, None, String::new(), &body, call.now);
            Record { id: of_user(&user), slug: None, ..record }
        }
    };
    write(&mut call, record).await?;
    Ok(Reply::from(json!({"object": "console-sessions-end", "user": user})))
}

/// Writes a record, and deletes those of no use any more. That all sessions of a person are ended is written however many sign-outs there
/// are.
///
/// # Errors
/// 409 for a sign-out where there are too many.
async fn write(call: &mut Call, record: Record) -> Result<(), Error> {
    let catalog = call.catalog()?;
    let mut changes = useless(&catalog, &record, call.now);
    let is_sign_out = members(&record).contains_key("of");
    if is_sign_out && catalog.all(Kind::SessionEnd).count() >= MAX_RECORDS + changes.len() {
        return Err(Error::conflict("As many sessions were ended in the last hours as are remembered."));
    }
    changes.push(put(record));
    call.commit(changes).await
}

/// Deletes the records of sessions that would be over by now, and the oldest of too many of one holder. Nobody's are deleted for those of
/// others.
fn useless(catalog: &Catalog, new: &Record, now: Timestamp) -> Vec<Change> {
    let holder = members(new).remove("of");
    let all = catalog.all(Kind::SessionEnd).filter(|record| record.id != new.id);
    let mut own = Vec::new();
    let mut deleted = Vec::new();
    for record in all {
        let body = members(record);
        if body.get("until").and_then(Value::as_i64).is_none_or(|until| until <= now.as_second()) {
            deleted.push(record.id);
        } else if holder.is_some() && body.get("of") == holder.as_ref() {
            own.push((record.created_at, record.id));
        }
    }
    own.sort_unstable();
    let too_many = (own.len() + 1).saturating_sub(MAX_OF_ONE);
    deleted.extend(own.into_iter().take(too_many).map(|(_, id)| id));
    deleted.into_iter().map(|id| Change::Delete { kind: Kind::SessionEnd, id }).collect()
}

/// The id of the record for all sessions of a person.
fn of_user(user: &str) -> Uuid {
    let digest = digest(&SHA256, user.as_bytes());
    Uuid::from_bytes(digest.as_ref().first_chunk().copied().unwrap_or_default())
}
