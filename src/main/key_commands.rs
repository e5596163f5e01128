//! `turnpike keys`: makes, lists, rotates and revokes stored service keys, whether or not a gateway runs; a running one follows within
//! a second.
//!
//! Works on the store itself, with the rights of whoever can read it. The API for the same is `control`'s.

use super::command_line::KeyCommand;
use super::{key_list, logging, output, read, store_opening};
use jiff::Timestamp;
use memory::auth::DEFAULT_WORKSPACE;
use memory::auth::key_body::KeyBody;
use memory::auth::key_format::KeyHash;
use memory::auth::key_records::{self, MAX_TRANSITION_MS, TRANSITION_MS};
use memory::store::{Change, Kind, Record, Status, Store, StoreOptions};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use uuid::Uuid;
use words::settings::scopes::{KeyType, ScopeSet};

/// Runs a command on the store and prints the outcome.
pub fn run(file: &Path, command: KeyCommand) -> ExitCode {
    let settings = match read::sections(file, &store_opening::SECTIONS) {
        Ok(settings) => settings,
        Err(error) => return logging::fatal(&read::unusable(file, &error)),
    };
    let options = match store_opening::existing(file, &settings) {
        Ok(options) => options,
        Err(why) => return logging::fatal(&why),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return logging::fatal(&format!("no runtime: {error}")),
    };
    match runtime.block_on(execute(options, command)) {
        Ok(text) => output::print(text.as_bytes()),
        Err(why) => logging::fatal(&why),
    }
}

async fn execute(options: StoreOptions, command: KeyCommand) -> Result<String, String> {
    store_opening::check_tables(&options).await?;
    let store = Store::open(options).await.map_err(|why| why.to_string())?;
    if let Some(why) = store.health().why {
        return Err(format!("the store is not available: {why}"));
    }
    match command {
        KeyCommand::Create { name, scopes, workspace, organisation, expires_at } => {
            let workspace = workspace.as_deref().unwrap_or(DEFAULT_WORKSPACE);
            let workspace = if organisation { None } else { Some(workspace) };
            create(&store, &name, &scopes, workspace, expires_at.as_deref()).await
        }
        KeyCommand::List { json } => Ok(key_list::print(&store.catalog(), json)),
        KeyCommand::Rotate { key, transition_ms } => rotate(&store, &key, transition_ms).await,
        KeyCommand::Revoke { key } => {
            let record = find(&store, &key)?;
            let revoked = key_records::revoked(&record, Timestamp::now());
            commit(&store, Change::Put(Arc::new(revoked))).await?;
            Ok(format!("revoked {}\n", record.id))
        }
    }
}

async fn commit(store: &Store, change: Change) -> Result<(), String> {
    store.commit(vec![change], Vec::new()).await.map(drop).map_err(|why| why.to_string())
}

fn pepper(store: &Store) -> Result<KeyHash, String> {
    let pepper = store.pepper().ok_or("the store has no secret for keys")?;
    Ok(KeyHash::new(pepper.as_bytes()))
}

async fn create(
    store: &Store,
    name: &str,
    scopes: &[String],
    workspace: Option<&str>,
    expires_at: Option<&str>,
) -> Result<String, String> {
    let kind = if workspace.is_some() { KeyType::WorkspaceService } else { KeyType::OrganisationService };
    let mut wanted = ScopeSet::default();
    for scope in scopes {
        let (named, unknown) = ScopeSet::parse([scope.as_str()]);
        let named = if scope == "all" { kind.scopes() } else { named };
        if scope != "all" && !unknown.is_empty() {
            return Err(format!(
                "{scope} is no scope; docs/keys.md lists them, and all is short for all of them"
            ));
        }
        if !named.without(&kind.scopes()).is_empty() {
            return Err(format!("a key of type {} cannot hold {scope}", kind.as_str()));
        }
        wanted = wanted.or(&named);
    }
    let now = Timestamp::now();
    let expires_at: Option<Timestamp> = match expires_at {
        Some(text) => {
            Some(text.parse().map_err(|_| format!("{text} is no time, such as 2027-01-31T00:00:00Z"))?)
        }
        None => None,
    };
    if expires_at.is_some_and(|end| end <= now) {
        return Err("--expires-at must be in the future".to_owned());
    }
    let workspace = workspace.map(|workspace| find_workspace(store, workspace)).transpose()?;
    let body = KeyBody {
        scopes: wanted.iter().map(|scope| scope.as_str().to_owned()).collect(),
        expires_at,
        created_by: Some("turnpike keys".to_owned()),
        ..KeyBody::new(name, kind)
    };
    let made = key_records::make(body, workspace, &pepper(store)?, now)?;
    let id = made.record.id;
    commit(store, Change::Put(Arc::new(made.record))).await?;
    Ok(format!("{}\nid {id}; the key is not shown again\n", made.text.expose()))
}

fn find_workspace(store: &Store, named: &str) -> Result<Uuid, String> {
    let catalog = store.catalog();
    let by_id = Uuid::try_parse(named).ok().and_then(|id| catalog.get(Kind::Workspace, id));
    let found = by_id.or_else(|| catalog.by_slug(Kind::Workspace, None, named));
    let found = found.filter(|record| record.status == Status::Active);
    found.map(|record| record.id).ok_or_else(|| {
        format!("there is no workspace {named}; the first start of the gateway makes the one called {DEFAULT_WORKSPACE}")
    })
}

/// The key with this id or public id.
fn find(store: &Store, named: &str) -> Result<Arc<Record>, String> {
    let catalog = store.catalog();
    let mut keys = catalog.all(Kind::ApiKey).filter(|key| key.status == Status::Active);
    let found = keys.find(|record| record.id.to_string() == named || record.slug.as_deref() == Some(named));
    found.cloned().ok_or_else(|| format!("there is no key {named}; turnpike keys list shows them"))
}

async fn rotate(store: &Store, key: &str, transition_ms: i64) -> Result<String, String> {
    let is_allowed = transition_ms == 0 || (TRANSITION_MS..=MAX_TRANSITION_MS).contains(&transition_ms);
    if !is_allowed {
        return Err(format!("--transition-ms must be 0, or from {TRANSITION_MS} to {MAX_TRANSITION_MS}"));
    }
    let record = find(store, key)?;
    let made = key_records::rotate(&record, &pepper(store)?, transition_ms, Timestamp::now());
    let made = made.map_err(|why| why.to_string())?;
    commit(store, Change::Put(Arc::new(made.record))).await?;
    let old = match made.transition_ends {
        Some(end) => format!("the old secret is good until {end:.0}"),
        None => "the old secrets have ended".to_owned(),
    };
    Ok(format!("{}\n{old}; the key is not shown again\n", made.text.expose()))
}
