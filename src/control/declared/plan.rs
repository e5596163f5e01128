//! What becomes of one object of a file: found among those that are stored, compared, and made or changed on the stage.

use super::super::api_keys::is_made_of;
use super::super::call::Call;
use super::super::credential::has_role;
use super::super::origin;
use super::super::records::set;
use super::super::stage::{self, Part, Stage};
use super::kinds::{Managed, PLACES, fields};
use super::{account, comparison, members, numbered, secrets};
use memory::store::{Catalog, Kind, Record, Status};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;
use words::config::read::Problems;
use words::error::Error;

/// An object as a file has it.
pub(super) struct Entry {
    /// Its place in the request.
    pub index: usize,
    pub managed: &'static Managed,
    /// As it was sent, references to secrets marked.
    pub members: Map<String, Value>,
    /// By which it is found.
    pub name: String,
}

/// What becomes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Action {
    Create,
    Update,
    Delete,
    Unchanged,
    Refused,
}

impl Action {
    pub const ALL: [Self; 5] = [Self::Create, Self::Update, Self::Delete, Self::Unchanged, Self::Refused];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Unchanged => "unchanged",
            Self::Refused => "refused",
        }
    }
}

/// An object that was planned.
pub(super) struct Outcome {
    pub action: Action,
    pub changed: Vec<String>,
    pub notes: Vec<String>,
    /// The record, and its revision before; of a new one 0.
    pub record: Option<(Uuid, u64)>,
}

/// What a plan is made with.
pub(super) struct Planning<'a> {
    pub call: &'a Call,
    pub stage: Arc<Mutex<Stage>>,
    pub set: &'a str,
    pub takes_over: bool,
    /// The keys that are in use, by workspace and name.
    pub keys: HashMap<(Option<Uuid>, String), Vec<Arc<Record>>>,
}

impl Planning<'_> {
    fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.stage.lock().catalog)
    }

    /// Whether an object exists that has the name of this one.
    pub fn is_there(&self, entry: &Entry) -> bool {
        matches!(self.find(entry), Ok(Some(_)))
    }

    /// Makes or changes an object; where it is refused, the stage is as before.
    ///
    /// # Errors
    /// Those of the routes, and of members that a file cannot have.
    pub async fn plan(&self, entry: &Entry) -> Result<Outcome, Error> {
        let mark = self.stage.lock().mark();
        let planned = self.try_plan(entry).await;
        if planned.is_err() {
            self.stage.lock().go_back(mark);
        }
        planned
    }

    async fn try_plan(&self, entry: &Entry) -> Result<Outcome, Error> {
        let found = self.find(entry)?;
        let wanted = self.wanted(entry, found.is_none())?;
        match found {
            None => self.create(entry, wanted).await,
            Some(record) => self.update(entry, wanted, &record).await,
        }
    }

    /// The record of an object, if it is in use.
    fn find(&self, entry: &Entry) -> Result<Option<Arc<Record>>, Error> {
        let Entry { managed, name, .. } = entry;
        let part = Part::new(managed.creation(&entry.members)?, None, Map::new());
        let probe = stage::staged_call(self.call, &self.stage, &part, entry.members.clone());
        let workspace = managed.workspace(&probe)?;
        if managed.kind == Kind::ApiKey {
            let found = self.keys.get(&(workspace, name.clone())).map(Vec::as_slice).unwrap_or_default();
            if found.len() > 1 {
                let message =
                    format!("{} keys in use have the name {name:?}: a file finds keys by name.", found.len());
                return Err(Error::conflict(message).with_param("name"));
            }
            return Ok(found.first().cloned());
        }
        let catalog = self.catalog();
        let found = catalog.by_slug(managed.kind, workspace, name);
        let has_role = |record: &&Arc<Record>| managed.role().is_none_or(|role| has_role(record, role));
        Ok(found.filter(|record| record.status == Status::Active).filter(has_role).cloned())
    }

    /// The members of a file, checked by the table of the call that makes one.
    fn wanted(&self, entry: &Entry, is_new: bool) -> Result<Map<String, Value>, Error> {
        let route = entry.managed.creation(&entry.members)?;
        let mut members = entry.members.clone();
        // What no call that makes one takes.
        let of_file = match entry.managed.kind {
            Kind::Prompt => numbered::LABELS,
            Kind::ApiKey => "type",
            _ => "",
        };
        let of_file = members.remove_entry(of_file);
        let problems = Problems::default();
        let mut wanted = stage::read_members(route, &members, &problems)?;
        if !problems.is_empty() {
            return Err(Error::invalid_body(problems.into_vec()));
        }
        if let Some(check) = route.check {
            let problems = Problems::default();
            check(&mut wanted, self.call.now, &problems);
            // What is stored may have become invalid, such as an expiry that is over.
            if is_new && !problems.is_empty() {
                return Err(Error::invalid_body(problems.into_vec()));
            }
        }
        wanted.extend(of_file);
        if wanted.contains_key(SECOND) {
            let message = "is a second object: files have it as one of its own, of the kind providers.";
            return Err(Error::invalid_request(SECOND, message));
        }
        if entry.managed.kind == Kind::McpServer {
            lower_headers(&mut wanted);
        }
        let is_secret = |name: &str| entry.managed.secrets().contains(&name);
        match wanted.iter().find(|(name, value)| !is_secret(name) && !secrets::names(value).is_empty()) {
            None => Ok(wanted),
            Some((name, value)) => Err(secrets::not_given(name, value)),
        }
    }

    async fn create(&self, entry: &Entry, mut wanted: Map<String, Value>) -> Result<Outcome, Error> {
        let managed = entry.managed;
        if let Some((name, value)) = wanted.iter().find(|(_, value)| !secrets::names(value).is_empty()) {
            return Err(secrets::not_given(name, value));
        }
        if managed.kind == Kind::ApiKey && !wanted.contains_key("key_sha256") {
            return Err(Error::invalid_request(
                "key_sha256",
                "There is no such key, and none is made whose secret nobody has: make it by the API, or give the key_sha256 of one that \
                 clients have already.",
            ));
        }
        let labels = wanted.remove(numbered::LABELS);
        if managed.kind == Kind::ApiKey {
            wanted.remove("type");
        }
        if managed.kind == Kind::Workspace {
            // What they name may not be there yet: they are set when all else is made.
            wanted.remove("defaults");
        }
        let mark = self.stage.lock().mark();
        let part = Part::new(managed.creation(&entry.members)?, None, wanted);
        stage::run(self.call, &self.stage, part).await?;
        let made = self.made(managed, &mark);
        if let Some((record, labels)) = made.as_ref().zip(labels) {
            numbered::set_labels(self.call, &self.stage, record, &labels).await?;
        }
        let record = made.map(|record| (record.id, 0));
        Ok(Outcome { action: Action::Create, changed: Vec::new(), notes: Vec::new(), record })
    }

    /// The record that was made since.
    fn made(&self, managed: &Managed, mark: &stage::StageMark) -> Option<Arc<Record>> {
        let stage = self.stage.lock();
        stage.since(mark).iter().find_map(|change| match change {
            memory::store::Change::Put(record) => {
                let before = mark.catalog.get(record.kind, record.id);
                let is_new = before.is_none_or(|before| before.status != Status::Active);
                let is_made = record.kind == managed.kind && record.status == Status::Active && is_new;
                is_made.then(|| Arc::clone(record))
            }
            memory::store::Change::Delete { .. } => None,
        })
    }

    async fn update(
        &self,
        entry: &Entry,
        mut wanted: Map<String, Value>,
        record: &Arc<Record>,
    ) -> Result<Outcome, Error> {
        let managed = entry.managed;
        // A plan shows what is stored.
        stage::check_scope(managed.reading()?, &self.call.identity)?;
        stage::check_scope(managed.update()?, &self.call.identity)?;
        let owner = origin::set_of(record);
        let is_own = owner.as_deref() == Some(self.set);
        if let Some(owner) = owner.as_deref().filter(|_| !is_own && !self.takes_over) {
            return Err(origin::refusal(record, owner));
        }
        if let Some(digest) = wanted.get("key_sha256").and_then(Value::as_str)
            && !is_made_of(self.call, record, digest)?
        {
            return Err(Error::invalid_request(
                "key_sha256",
                "The key of this name was made of another one: rotate it by the API, or delete it first.",
            ));
        }
        let current = members::of_record(self.call, &self.catalog(), managed, record)?;
        let labels = wanted.remove(numbered::LABELS);
        let mut notes = Vec::new();
        let body = update_body(managed, &mut wanted, &current, &mut notes)?;
        let mark = self.stage.lock().mark();
        let is_adopted = !is_own && self.takes_over;
        if !body.is_empty() || is_adopted {
            self.change(managed, &wanted, body, record).await?;
        }
        if let Some(labels) = labels {
            numbered::set_labels(self.call, &self.stage, record, &labels).await?;
        }
        let is_nothing = {
            let stage = self.stage.lock();
            comparison::is_nothing(self.call, &mark.catalog, managed, stage.since(&mark))?
        };
        let of = Some((record.id, record.revision));
        if is_nothing && !is_adopted {
            self.stage.lock().go_back(mark);
            if !is_own {
                notes.push("is of the API, and stays so without take_over".to_owned());
            }
            return Ok(Outcome { action: Action::Unchanged, changed: Vec::new(), notes, record: of });
        }
        if !is_own && !self.takes_over {
            return Err(of_the_api(managed, &entry.name));
        }
        let catalog = self.catalog();
        let after = catalog
            .get(record.kind, record.id)
            .map(|after| members::of_record(self.call, &catalog, managed, after));
        let mut changed = comparison::paths(&current, &after.transpose()?.unwrap_or_default());
        if is_adopted {
            changed.push("origin".to_owned());
        }
        Ok(Outcome { action: Action::Update, changed, notes, record: of })
    }

    /// Calls the route that changes the object. What has versions publishes the new one.
    async fn change(
        &self,
        managed: &Managed,
        wanted: &Map<String, Value>,
        body: Map<String, Value>,
        record: &Arc<Record>,
    ) -> Result<(), Error> {
        let makes_version = managed.numbered().is_some() && numbered::makes_version(&body);
        let body = if makes_version { numbered::version_body(managed, wanted, &body) } else { body };
        let mark = self.stage.lock().mark();
        let part = Part::new(managed.update()?, Some(record.id), body);
        stage::run(self.call, &self.stage, part).await?;
        let is_nothing = {
            let stage = self.stage.lock();
            comparison::is_nothing(self.call, &mark.catalog, managed, stage.since(&mark))?
        };
        if makes_version && !is_nothing {
            numbered::publish(self.call, &self.stage, managed, record).await?;
        }
        Ok(())
    }
}

fn of_the_api(managed: &Managed, name: &str) -> Error {
    Error::conflict(format!(
        "{} {name} is managed by the API and differs: apply with take_over to have it managed by this set, or leave it out of the file.",
        managed.name
    ))
    .with_param("take_over")
}

/// The members that an update sends: those that differ, and a null for each that the file does not have.
///
/// # Errors
/// 400 for a member that cannot be changed, and for secrets that are not given where they are needed.
fn update_body(
    managed: &Managed,
    wanted: &mut Map<String, Value>,
    current: &Map<String, Value>,
    notes: &mut Vec<String>,
) -> Result<Map<String, Value>, Error> {
    let updatable = fields(managed.update()?);
    let field = |name: &str| updatable.iter().find(|field| field.name == name);
    let mut kept = Vec::new();
    let is_account = managed.kind == Kind::Provider;
    let mut body = if is_account { account::changes(wanted, current, &mut kept)? } else { Map::new() };
    for (name, value) in wanted.iter().filter(|(name, _)| !PLACES.contains(&name.as_str())) {
        let stored = current.get(name);
        if !secrets::names(value).is_empty() {
            if !stored.is_some_and(|stored| secrets::is_kept(name, value, stored)) {
                return Err(secrets::not_given(name, value));
            }
            kept.extend(secrets::names(value));
            continue;
        }
        if stored == Some(value) || stored.is_none() && is_absent(value) || is_once(name) {
            continue;
        }
        if field(name).is_none() {
            return Err(Error::invalid_request(
                name.as_str(),
                format!(
                    "{name} cannot be changed once it is made: give the object another slug, or delete it first."
                ),
            ));
        }
        set(&mut body, name, value.clone());
    }
    let is_sent_apart = |name: &str| is_account && matches!(name, "key" | "configurations");
    let has_gone = |(name, value): &(&String, &Value)| {
        !wanted.contains_key(*name) && !is_sent_apart(name) && !is_absent(value)
    };
    for (name, _) in current.iter().filter(has_gone) {
        if field(name).is_some_and(|field| field.is_nullable) {
            set(&mut body, name, Value::Null);
        }
    }
    notes.extend(
        kept.into_iter().map(|name| format!("the secret {name} is not given: the stored one is kept")),
    );
    Ok(body)
}

/// Writes the names of headers as they are stored.
fn lower_headers(wanted: &mut Map<String, Value>) {
    let headers = wanted.get_mut("configurations").and_then(|of| of.get_mut("custom_headers"));
    if let Some(Value::Object(headers)) = headers {
        *headers = std::mem::take(headers)
            .into_iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .collect();
    }
}

/// The slug of the provider that an integration is as well.
const SECOND: &str = "default_provider_slug";

/// Members that count when an object is made.
fn is_once(name: &str) -> bool {
    matches!(name, "users" | "key_sha256" | "default_provider_slug" | "create_default_provider")
}

/// Whether a value says as much as none.
fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}
