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

/// Records of ended sessions; beyond it the oldest are deleted.
const MAX_RECORDS: usize = 10_000;

pub(super) const BODY: &[Field] = &[required(
    "user",
    Type::Text(512),
    "As the audit log names the person: the claim of `auth.jwt.claims.user`.",
)];

pub(super) const REPLY: &[Field] = &[
    required("object", Type::Text(30), "`console-sessions-end`."),
    required("user", Type::Text(512), "Whose."),
];

/// Whether a session was ended, or all of its person's that had begun by then.
///
/// `begun`: seconds since 1970. `user`: the person who has signed in, none where a key has.
pub(super) fn has_ended(catalog: &Catalog, id: Uuid, user: Option<&str>, begun: i64) -> bool {
    let ended_all = |user: &str| {
        let record = catalog.get(Kind::SessionEnd, of_user(user))?;
        members(record).get("before")?.as_i64()
    };
    catalog.get(Kind::SessionEnd, id).is_some()
        || user.and_then(ended_all).is_some_and(|before| begun <= before)
}

/// Ends the session of the call, at all gateways of the store.
pub(super) async fn sign_out(mut call: Call) -> Result<Reply, Error> {
    let is_kept = call.shared.store().is_some_and(|store| !store.reads_only());
    let session = call.presented.session.as_ref().map(|session| (session.id(), session.ends_at_last()));
    if let Some((id, until)) = session.filter(|_| is_kept) {
        let record = created(Kind::SessionEnd, None, String::new(), &json!({"until": until}), call.now);
        let ended = Record { id, slug: None, ..record };
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

/// Writes a record, and deletes those of no use any more.
async fn write(call: &mut Call, record: Record) -> Result<(), Error> {
    let catalog = call.catalog()?;
    let mut changes = useless(&catalog, call.now);
    changes.retain(|change| !matches!(change, Change::Delete { id, .. } if *id == record.id));
    changes.push(put(record));
    call.commit(changes).await
}

/// Deletes the records of sessions that would be over by now, and the oldest of too many.
fn useless(catalog: &Catalog, now: Timestamp) -> Vec<Change> {
    let all: Vec<_> = catalog.all(Kind::SessionEnd).collect();
    let too_many = (all.len() + 1).saturating_sub(MAX_RECORDS);
    let is_over = |record: &Record| {
        members(record).get("until").and_then(Value::as_i64).is_none_or(|until| until <= now.as_second())
    };
    let deleted = all.iter().enumerate().filter(|(at, record)| *at < too_many || is_over(record));
    deleted.map(|(_, record)| Change::Delete { kind: Kind::SessionEnd, id: record.id }).collect()
}

/// The id of the record for all sessions of a person.
fn of_user(user: &str) -> Uuid {
    let digest = digest(&SHA256, user.as_bytes());
    Uuid::from_bytes(digest.as_ref().first_chunk().copied().unwrap_or_default())
}
