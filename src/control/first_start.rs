//! What a new store gets: the default workspace, and one administrator's key where there is no key at all.
//!
//! Called before anything is served. Prints nothing: the key is returned, and shown once by `main`.

use super::records::{created, put};
use jiff::Timestamp;
use memory::auth::DEFAULT_WORKSPACE;
use memory::auth::key_body::{KeyBody, KeySecret};
use memory::auth::key_format::{KeyHash, NewKey, mask};
use memory::store::{Catalog, Change, Kind, Record, Store, StoreError};
use serde_json::{Value, json};
use words::config::secret::Secret;
use words::settings::Settings;
use words::settings::scopes::KeyType;

/// Makes what is missing. Returns the administrator's key if it made one.
///
/// # Errors
/// Why the store could not be written.
pub async fn run(store: &Store, settings: &Settings) -> Result<Option<Secret>, String> {
    if !store.health().available {
        return Err("it is not available".to_owned());
    }
    let (changes, key) = missing(store, &store.catalog(), settings)?;
    match write(store, changes).await {
        // Another gateway that starts at this moment has made it.
        Err(StoreError::Taken(_)) => {
            let catalog = store.newest_catalog().await.map_err(|why| why.to_string())?;
            let (changes, key) = missing(store, &catalog, settings)?;
            write(store, changes).await.map(|()| key)
        }
        written => written.map(|()| key),
    }
    .map_err(|why| why.to_string())
}

async fn write(store: &Store, changes: Vec<Change>) -> Result<(), StoreError> {
    if changes.is_empty() {
        return Ok(());
    }
    store.commit(changes, Vec::new()).await.map(drop)
}

/// What a catalog lacks, and the administrator's key if that is part of it.
fn missing(
    store: &Store,
    catalog: &Catalog,
    settings: &Settings,
) -> Result<(Vec<Change>, Option<Secret>), String> {
    let now = Timestamp::now();
    let mut changes = Vec::new();
    if catalog.by_slug(Kind::Workspace, None, DEFAULT_WORKSPACE).is_none() {
        let body = json!({"name": "Default", "description": "The workspace of keys that name none."});
        changes.push(put(created(Kind::Workspace, None, DEFAULT_WORKSPACE.to_owned(), &body, now)));
    }
    let mut key = None;
    if settings.auth.keys.is_empty() && catalog.all(Kind::ApiKey).next().is_none() {
        let pepper = store.pepper().ok_or("it has no secret for keys")?;
        let made = NewKey::make(&KeyHash::new(pepper.as_bytes()), None)?;
        changes.push(put(administrator(&made, now)));
        key = Some(Secret::new(made.text.expose()));
    }
    Ok((changes, key))
}

/// A key of the organisation that may do all that the key of a first start can.
fn administrator(made: &NewKey, now: Timestamp) -> Record {
    let key = KeyBody::new("administrator", KeyType::OrganisationService);
    let body = KeyBody {
        description: Some(
            "Made at the first start. Make keys of your own with it, then delete it.".to_owned(),
        ),
        scopes: key.most_scopes().iter().map(|scope| scope.as_str().to_owned()).collect(),
        secrets: vec![KeySecret::new(&made.hash)],
        masked: mask(made.text.expose()),
        ..key
    };
    let record = created(Kind::ApiKey, None, made.public_id.as_str().to_owned(), &Value::Null, now);
    Record { body: body.to_json().into(), ..record }
}
