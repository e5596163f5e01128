//! The list of keys: those of the store, and behind them those of the settings.
//!
//! Not here: how one is shown.

use super::{Action, pepper, scope, settings_view, view};
use crate::call::Call;
use crate::page::{NameFilter, Page};
use crate::reply::Reply;
use memory::auth::key_body::KeyBody;
use memory::auth::key_records;
use memory::store::{Kind, Record};
use std::cmp::Reverse;
use std::sync::Arc;
use words::error::Error;
use words::settings::ServiceKey;
use words::settings::service_key::sha256_bytes;

/// A member of the list.
enum Listed<'a> {
    Stored(Arc<Record>),
    OfSettings(&'a ServiceKey),
}

impl Listed<'_> {
    /// The name; `None` for a record that cannot be read.
    fn name(&self) -> Option<String> {
        match self {
            Self::Stored(record) => KeyBody::parse(&record.body).ok().map(|body| body.name),
            Self::OfSettings(key) => Some(key.name.clone()),
        }
    }
}

pub(super) async fn list(call: Call) -> Result<Reply, Error> {
    let mut found: Vec<Listed<'_>> = Vec::new();
    // There may be many: only those of the page are read.
    let is_for_client = |record: &Arc<Record>| {
        let kind = KeyBody::kind_of(&record.body);
        kind.is_some_and(|kind| call.identity.scopes.contains(scope(kind, Action::List)))
    };
    if let Some(digest) = call.query_text("key_sha256") {
        let of_digest = of_digest(&call, digest)?.into_iter().filter(is_for_client);
        found.extend(of_digest.map(Listed::Stored));
    } else {
        let mut stored = call.list(Kind::ApiKey)?;
        // Ids of adopted keys do not follow the time.
        stored.sort_by_key(|record| Reverse(record.created_at));
        found.extend(stored.into_iter().filter(is_for_client).map(Listed::Stored));
    }
    let is_of_all = call.query_text("key_sha256").is_none() && call.list_workspace()?.is_none();
    if is_of_all && !call.identity.is_bound {
        found.extend(call.snapshot.settings.auth.keys.iter().map(Listed::OfSettings));
    }
    let wanted = NameFilter::of(&call);
    if !wanted.has_all() {
        found.retain(|item| item.name().is_some_and(|name| wanted.has(Some(&name), None)));
    }
    let page = Page::of(&call, 50);
    let mut shown = Vec::new();
    for item in page.part(&found) {
        match item {
            Listed::Stored(record) => {
                if let Ok(body) = KeyBody::parse(&record.body) {
                    shown.push(view(&call, record, &body).await);
                }
            }
            Listed::OfSettings(key) => shown.push(settings_view(&call, key).await),
        }
    }
    Ok(page.reply_with(found.len(), shown))
}

/// Whether a key was made of this digest.
///
/// # Errors
/// 400 for no digest.
pub(crate) fn is_made_of(call: &Call, record: &Record, text: &str) -> Result<bool, Error> {
    let digest = sha256_bytes(text)
        .ok_or_else(|| Error::invalid_request("key_sha256", "key_sha256 is no SHA-256.".to_owned()))?;
    Ok(key_records::adopted_id(&digest, &pepper(call)?) == record.id)
}

/// The key that was made of this digest, also where it was revoked since, or the digest was replaced.
///
/// # Errors
/// 400 for no digest, 403 for whoever may not take such keys in.
fn of_digest(call: &Call, text: &str) -> Result<Option<Arc<Record>>, Error> {
    if call.identity.is_bound {
        return Err(Error::forbidden("Only keys of the organisation look for keys by their SHA-256."));
    }
    let digest = sha256_bytes(text)
        .ok_or_else(|| Error::invalid_request("key_sha256", "key_sha256 is no SHA-256.".to_owned()))?;
    let id = key_records::adopted_id(&digest, &pepper(call)?);
    Ok(call.catalog()?.get(Kind::ApiKey, id).cloned())
}
