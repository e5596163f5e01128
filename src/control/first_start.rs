//! What a new store gets: the default workspace, and one administrator's key where there is no key at all.
//!
//! Called before anything is served. Prints nothing, and keeps no file: `main` does, which is handed the key before the store has it.

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

/// What became of the administrator's key of a new store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdministratorKey {
    /// There are keys, or the settings have some.
    NotNeeded,
    /// It was made, and kept.
    Made,
    /// It could not be kept, for this reason, and so was not made.
    NotKept(String),
}

/// Keeps the administrator's key where only an administrator finds it, or says why it cannot. It is of use only where [`run`] returns
/// [`AdministratorKey::Made`].
pub type Keep<'a> = &'a (dyn Fn(&Secret) -> Result<(), String> + Sync);

/// Makes what is missing. A key that cannot be kept is not made.
///
/// # Errors
/// Why the store could not be written.
pub async fn run(store: &Store, settings: &Settings, keep: Keep<'_>) -> Result<AdministratorKey, String> {
    if !store.health().available {
        return Err("it is not available".to_owned());
    }
    let (changes, key) = missing(store, &store.catalog(), settings, keep)?;
    match write(store, changes).await {
        // Another gateway that starts at this moment has made it.
        Err(StoreError::Taken(_)) => {
            let catalog = store.newest_catalog().await.map_err(|why| why.to_string())?;
            let (changes, key) = missing(store, &catalog, settings, keep)?;
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

/// What a catalog lacks, and whether the administrator's key is part of it.
fn missing(
    store: &Store,
    catalog: &Catalog,
    settings: &Settings,
    keep: Keep<'_>,
) -> Result<(Vec<Change>, AdministratorKey), String> {
    let now = Timestamp::now();
    let mut changes = Vec::new();
    if catalog.by_slug(Kind::Workspace, None, DEFAULT_WORKSPACE).is_none() {
        let body = json!({"name": "Default", "description": "The workspace of keys that name none."});
        changes.push(put(created(Kind::Workspace, None, DEFAULT_WORKSPACE.to_owned(), &body, now)));
    }
    let mut key = AdministratorKey::NotNeeded;
    if settings.auth.keys.is_empty() && catalog.all(Kind::ApiKey).next().is_none() {
        let pepper = store.pepper().ok_or("it has no secret for keys")?;
        let made = NewKey::make(&KeyHash::new(pepper.as_bytes()), None)?;
        key = match keep(&Secret::new(made.text.expose())) {
            Ok(()) => {
                changes.push(put(administrator(&made, now)));
                AdministratorKey::Made
            }
            Err(why) => AdministratorKey::NotKept(why),
        };
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
