//! One request to a control route: authenticated, its scope checked, its query and body read.
//!
//! What every resource needs: the workspace it acts in, objects by id or slug, and writes with their entry in the audit
//! log. Knows no resource.

use super::arrival::Arrival;
use super::audit::{self, Trail};
use super::console::{Person, SessionWatch};
use super::stage::Staged;
use super::{limit_owner, masking, origin, records};
use bytes::Bytes;
use jiff::Timestamp;
use memory::auth::ClientIdentity;
use memory::auth::roles::{self, DataAccess};
use memory::ledger::analytics::budget::Held;
use memory::limits::Limits;
use memory::net::inbound::axum_bridge::Departure;
use memory::state::Shared;
use memory::state::held_bytes::Hold;
use memory::state::snapshot::SettingsSnapshot;
use memory::store::audit::AuditEntry;
use memory::store::{Catalog, Change, Kind, Record, Status, Store};
use motion::engine::Engine;
use motion::engine::planner::Planner;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::future::pending;
use std::sync::Arc;
use uuid::Uuid;
use words::config::secret::Secret;
use words::error::Error;

/// A request to a control route.
pub(super) struct Call {
    pub shared: Arc<Shared>,
    pub limits: Arc<Limits>,
    pub engine: Arc<Engine>,
    pub planner: Planner,
    pub snapshot: Arc<SettingsSnapshot>,
    pub identity: Arc<ClientIdentity>,
    pub presented: Presented,
    /// The values of the path's parameters.
    pub params: Vec<(String, String)>,
    pub query: Map<String, Value>,
    /// The members of the body, by the route's table of fields. A null is kept: an update clears a member with it.
    pub body: Map<String, Value>,
    /// The body as it was sent.
    pub bytes: Bytes,
    pub now: Timestamp,
    pub trail: Trail,
    pub arrival: Arrival,
    /// Whether the client is still there.
    pub departure: Option<Departure>,
    /// What is held of the body, until the call is over.
    pub held: Hold,
    /// What is held of an answer, until the call is over.
    pub answer: Arc<Mutex<Hold>>,
    /// Where it is one of several that are written together.
    pub staged: Option<Staged>,
}

/// What identifies the client of a call, for a response that outlives the moment in which it was judged.
#[derive(Default)]
pub(super) struct Presented {
    /// The keys that its headers have, one of which is the client's.
    pub keys: Vec<Secret>,
    /// Who the client is in place of a key: somebody who has signed in at the identity provider.
    pub person: Option<Person>,
    /// The session of the console that its key comes from.
    pub session: Option<SessionWatch>,
}

impl Call {
    /// Counts so many bytes as held, until what is returned is dropped.
    ///
    /// # Errors
    /// 503 where the process holds as much as it may.
    pub(crate) fn hold(&self, bytes: usize) -> Result<Hold, Error> {
        let mut held = self.shared.held_bytes.holder();
        held.set(bytes)?;
        Ok(held)
    }

    /// Counts what an answer of the ledger holds, until the call is over.
    pub(crate) fn held_by_answer(&self) -> Held {
        let answer = Arc::clone(&self.answer);
        Box::new(move |bytes| answer.lock().set(bytes).is_ok())
    }

    /// The value of a parameter of the path.
    pub fn param(&self, name: &str) -> &str {
        let found = self.params.iter().find(|(param, _)| param == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// What the path calls the object that it is about: an id or a slug, its first parameter.
    pub fn named(&self) -> &str {
        self.params.first().map_or("", |(_, value)| value.as_str())
    }

    /// A text of the body.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.body.get(name)?.as_str()
    }

    /// A text of the query.
    pub(crate) fn query_text(&self, name: &str) -> Option<&str> {
        self.query.get(name)?.as_str()
    }

    /// A flag of the query.
    pub(crate) fn query_flag(&self, name: &str) -> Option<bool> {
        self.query.get(name)?.as_bool()
    }

    pub fn flag(&self, name: &str) -> Option<bool> {
        self.body.get(name)?.as_bool()
    }

    /// Whether the body has this member, null or not.
    pub fn has(&self, name: &str) -> bool {
        self.body.contains_key(name)
    }

    /// # Errors
    /// 503 where the process runs without a store.
    pub fn store(&self) -> Result<&Arc<Store>, Error> {
        self.shared.store().ok_or_else(|| {
            Error::store_unavailable(
                "This process runs without a store: it could not be opened at the start. See its log.",
            )
        })
    }

    /// All stored objects.
    ///
    /// # Errors
    /// As [`Call::store`].
    pub fn catalog(&self) -> Result<Arc<Catalog>, Error> {
        match &self.staged {
            Some(staged) => Ok(staged.catalog()),
            None => self.store().map(|store| store.catalog()),
        }
    }

    /// Writes changes, with this call in the audit log, and puts them in force before it returns.
    ///
    /// # Errors
    /// 409 for a slug that is taken or an object that has changed, 503 and 507 where the store cannot write.
    pub async fn commit(&mut self, changes: Vec<Change>) -> Result<(), Error> {
        let of_change = changes.iter().find_map(|change| match change {
            Change::Put(record) => record.workspace,
            Change::Delete { .. } => None,
        });
        self.trail.workspace = self.trail.workspace.or(of_change);
        let changes = origin::checked(self, &*self.catalog()?, changes)?;
        let entry = self.trail.entry(Some(&self.identity), 200, self.now);
        if let Some(staged) = &self.staged {
            return staged.add(changes, entry);
        }
        self.store()?.commit(changes, entry.into_iter().collect()).await.map_err(Error::from)?;
        self.put_in_force();
        Ok(())
    }

    /// Writes what several calls have changed, with their entries of the audit log and that of this call, and puts it in force.
    ///
    /// # Errors
    /// As [`Call::commit`].
    pub(crate) async fn commit_staged(
        &mut self,
        changes: Vec<Change>,
        mut audit: Vec<AuditEntry>,
    ) -> Result<(), Error> {
        let own = self.trail.entry(Some(&self.identity), 200, self.now);
        let parts = audit.clone();
        audit.extend(own);
        self.store()?.commit(changes, audit).await.map_err(Error::from)?;
        parts.iter().for_each(audit::log_written);
        self.put_in_force();
        Ok(())
    }

    /// As [`Call::commit`], with changes that `make` computes of the newest objects: again where another write has changed one of them
    /// meanwhile. For calls that change objects which the gateway changes itself; a change of one object that the client has read is refused
    /// in that case, which is what [`Call::commit`] does.
    ///
    /// # Errors
    /// As [`Call::commit`], and those of `make`.
    pub async fn commit_latest(
        &mut self,
        mut make: impl FnMut(&Catalog) -> Result<Vec<Change>, Error>,
    ) -> Result<(), Error> {
        if self.staged.is_some() {
            let changes = make(&*self.catalog()?)?;
            return self.commit(changes).await;
        }
        let entry = self.trail.entry(Some(&self.identity), 200, self.now);
        let mut refusal = None;
        let call = &*self;
        let make = |catalog: &Catalog| {
            let changes = make(catalog).and_then(|changes| origin::checked(call, catalog, changes));
            let changes = changes.map_err(|error| refusal = Some(error)).ok()?;
            Some((changes, ()))
        };
        let written = self.store()?.commit_latest(entry.into_iter().collect(), make);
        written.await.map_err(Error::from)?;
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        self.put_in_force();
        Ok(())
    }

    /// What this call has written counts from now on, here and not only in the next request.
    fn put_in_force(&mut self) {
        self.trail.is_written = true;
        self.shared.install_stored();
        self.limits.in_force(&self.shared.settings());
    }

    /// Has this call written to the audit log, where it changes nothing in the store.
    pub(crate) async fn record_change(&mut self) {
        if let Some(entry) = self.trail.entry(Some(&self.identity), 200, self.now) {
            audit::append(&self.shared, entry).await;
            self.trail.is_written = true;
        }
    }

    /// The members of a record's body, with the secrets that are masked in it.
    ///
    /// # Errors
    /// As [`Call::store`].
    pub(crate) fn open_members(&self, record: &Record) -> Result<Map<String, Value>, Error> {
        let mut members = records::members(record);
        if record.sealed.is_some() {
            members.extend(self.store()?.unseal(record).map_err(Error::from)?);
        }
        Ok(members)
    }

    /// Gives a record its body. Where one of `names` has secrets in it, the member is sealed, and the body has it masked.
    ///
    /// # Errors
    /// As [`Call::store`].
    pub(crate) fn set_body(
        &self,
        record: &mut Record,
        mut body: Map<String, Value>,
        names: &[&str],
    ) -> Result<(), Error> {
        let mut secrets = Map::new();
        for name in names {
            let Some(value) = body.get_mut(*name) else { continue };
            let open = value.clone();
            masking::mask(value);
            if *value != open {
                secrets.insert((*name).to_owned(), open);
            }
        }
        record.body = Value::Object(body).to_string().into();
        record.sealed = if secrets.is_empty() {
            None
        } else {
            Some(self.store()?.seal(record.kind, record.id, &secrets).map_err(Error::from)?)
        };
        Ok(())
    }

    /// The workspace that the call may see; `None`: all of the organisation.
    pub(crate) fn own_workspace(&self) -> Option<Uuid> {
        // A bound key whose workspace is gone sees nothing.
        self.identity.is_bound.then(|| self.identity.workspace.unwrap_or_default())
    }

    /// What the client may see of requests, by the role of the person it is.
    pub(crate) fn data_access(&self) -> DataAccess {
        let catalog = self.shared.store().map(|store| store.catalog());
        catalog.map_or_else(DataAccess::default, |catalog| {
            DataAccess::of(&roles::client_role(&self.identity, &catalog))
        })
    }

    /// The ids of the keys whose requests alone the client may see; `None`: all.
    pub(crate) fn visible_keys(&self) -> Option<Vec<String>> {
        let catalog = self.shared.store().filter(|_| self.data_access().own_keys_only)?.catalog();
        Some(roles::keys_of_user(&self.identity, &catalog))
    }

    /// The workspace of the client's key, the default one where it has none.
    fn workspace_of_identity(&self) -> Uuid {
        let own = self.identity.workspace.or_else(|| self.snapshot.stored.default_workspace());
        own.unwrap_or_default()
    }

    /// The workspace that a list is restricted to: the client's, or the one it names, or none.
    ///
    /// # Errors
    /// 403 for another workspace than the client's, 404 for an unknown one.
    pub(crate) fn list_workspace(&self) -> Result<Option<Uuid>, Error> {
        match self.named_workspace()? {
            Some(workspace) => Ok(Some(workspace)),
            None => Ok(self.own_workspace()),
        }
    }

    /// The workspace in which an object is created: the one named, or the client's, or the default one.
    ///
    /// # Errors
    /// As [`Call::list_workspace`].
    pub(crate) fn new_workspace(&self) -> Result<Uuid, Error> {
        Ok(self.named_workspace()?.unwrap_or_else(|| self.workspace_of_identity()))
    }

    /// The workspace that query or body name by id or slug, in `workspace_id` or `workspace_slug`.
    fn named_workspace(&self) -> Result<Option<Uuid>, Error> {
        let names = ["workspace_id", "workspace_slug"];
        let named = names.iter().find_map(|name| self.text(name).or_else(|| self.query_text(name)));
        let Some(named) = named else { return Ok(None) };
        let catalog = self.catalog()?;
        let found = by_id_or_slug(&catalog, Kind::Workspace, None, named);
        match found.filter(|record| record.status == Status::Active) {
            Some(record) if self.identity.may_enter(Some(record.id)) => Ok(Some(record.id)),
            // The same for a foreign workspace and for none: which exist is not for this key to know.
            _ if self.identity.is_bound => {
                Err(Error::forbidden("The key belongs to another workspace.").with_param("workspace_id"))
            }
            _ => Err(Error::invalid_request("workspace_id", format!("There is no workspace {named:?}."))),
        }
    }

    /// The object of this kind that the path names by id or slug, if it has the [`Call::wanted_status`].
    ///
    /// # Errors
    /// 404 for an unknown one, and for one that the client may not know of.
    pub fn find(&self, kind: Kind) -> Result<Arc<Record>, Error> {
        let record = self.find_any_status(kind)?;
        if record.status == self.wanted_status() { Ok(record) } else { Err(missing(kind, self.named())) }
    }

    /// As [`Call::find`], whatever its status.
    ///
    /// # Errors
    /// As [`Call::find`].
    pub(crate) fn find_any_status(&self, kind: Kind) -> Result<Arc<Record>, Error> {
        let named = self.named();
        let catalog = self.catalog()?;
        let own = self.own_workspace();
        let workspace = match own {
            Some(own) => Some(own),
            None => self.named_workspace()?,
        };
        let found = match Uuid::try_parse(named) {
            Ok(id) => catalog.get(kind, id).cloned(),
            Err(_) => match workspace {
                Some(workspace) => catalog
                    .by_slug(kind, Some(workspace), named)
                    .or_else(|| catalog.by_slug(kind, None, named)),
                None => in_any_workspace(&catalog, kind, named),
            }
            .cloned(),
        };
        found.filter(|record| is_visible(record, own)).ok_or_else(|| missing(kind, named))
    }

    /// The objects of a kind that the client may see and that have the [`Call::wanted_status`], the newest first.
    ///
    /// # Errors
    /// As [`Call::list_workspace`].
    pub fn list(&self, kind: Kind) -> Result<Vec<Arc<Record>>, Error> {
        let workspace = self.list_workspace()?;
        let catalog = self.catalog()?;
        let status = self.wanted_status();
        let found = catalog.all(kind).rev().filter(|record| record.status == status);
        Ok(found.filter(|record| is_visible(record, workspace)).cloned().collect())
    }

    /// The status that the query names in `status`, where the route takes that; else active.
    fn wanted_status(&self) -> Status {
        self.query_text("status").and_then(Status::parse).unwrap_or(Status::Active)
    }

    /// The slug of what a request creates in the workspace, or in the organisation for `None`: the one that it chooses, else a
    /// free one made of `name`.
    ///
    /// # Errors
    /// 409 if the client chose a name of the settings file. One that another object has is refused when it is written.
    /// 400 as of [`Call::check_free_slug`].
    pub(crate) fn new_slug(
        &self,
        kind: Kind,
        workspace: Option<Uuid>,
        prefix: &str,
        name: &str,
    ) -> Result<String, Error> {
        if let Some(slug) = self.text("slug") {
            self.check_free_slug(kind, "slug", slug)?;
            return Ok(slug.to_owned());
        }
        let catalog = self.catalog()?;
        let is_taken =
            |slug: &str| self.is_in_settings(kind, slug) || catalog.by_slug(kind, workspace, slug).is_some();
        Ok(records::slug(prefix, name, is_taken))
    }

    /// # Errors
    /// 409 if the settings file has given this name to something of the kind. 400 for what reads as an id: paths and calls take both, and
    /// another object may have that one.
    pub(crate) fn check_free_slug(&self, kind: Kind, param: &str, slug: &str) -> Result<(), Error> {
        if Uuid::try_parse(slug).is_ok() {
            let message = "A slug may not be a UUID, as ids are. Choose another one.";
            return Err(Error::invalid_request(param, message));
        }
        if self.is_in_settings(kind, slug) {
            Err(Error::conflict(format!("{slug} is a name in the settings file. Choose another one."))
                .with_param(param))
        } else {
            Ok(())
        }
    }

    fn is_in_settings(&self, kind: Kind, slug: &str) -> bool {
        let settings = &self.snapshot.settings;
        match kind {
            Kind::Provider => settings.providers.contains_key(slug),
            Kind::Config => settings.configs.contains_key(slug),
            _ => false,
        }
    }

    /// # Errors
    /// 403 for an object of the organisation, which keys of one workspace may use and not change, and for policies that it has made.
    pub(crate) fn check_owner(&self, record: &Record) -> Result<(), Error> {
        let is_of_organisation = record.workspace.is_none() && record.kind != Kind::Workspace;
        if self.identity.is_bound && is_of_organisation {
            Err(Error::forbidden("It belongs to the organisation. A key of the organisation changes it."))
        } else {
            limit_owner::check_policy(self, record)
        }
    }

    /// Who makes a change, for `created_by` and `owner_id`: the id of a user or a key.
    pub fn actor(&self) -> String {
        audit::actor(&self.identity)
    }
}

/// The oldest object with this slug, in the organisation or any workspace.
fn in_any_workspace<'c>(catalog: &'c Catalog, kind: Kind, slug: &str) -> Option<&'c Arc<Record>> {
    let workspaces = catalog.all(Kind::Workspace).map(|workspace| Some(workspace.id));
    let found = workspaces.chain([None]).filter_map(|workspace| catalog.by_slug(kind, workspace, slug));
    found.min_by_key(|record| record.id)
}

/// The object with this id or slug; a slug is looked for in the workspace, then in the organisation.
pub(super) fn by_id_or_slug(
    catalog: &Catalog,
    kind: Kind,
    workspace: Option<Uuid>,
    named: &str,
) -> Option<Arc<Record>> {
    let found = match Uuid::try_parse(named) {
        Ok(id) => catalog.get(kind, id),
        Err(_) => catalog.by_slug(kind, workspace, named).or_else(|| catalog.by_slug(kind, None, named)),
    };
    found.filter(|record| is_visible(record, workspace)).cloned()
}

/// Whether a client of this workspace may know of the object; `None`: a client of the whole organisation.
fn is_visible(record: &Record, workspace: Option<Uuid>) -> bool {
    let Some(workspace) = workspace else { return true };
    match (record.kind, record.workspace) {
        (Kind::Workspace, _) => record.id == workspace,
        (_, Some(own)) => own == workspace,
        (kind, None) => !kind.is_for_administrators(),
    }
}

/// Waits until the client has left; for ever where it stays.
pub(super) async fn left(departure: Option<Departure>) {
    match departure {
        Some(mut departure) => departure.wait().await,
        None => pending().await,
    }
}

pub(super) fn missing(kind: Kind, named: &str) -> Error {
    let name = kind.as_str().replace('_', " ");
    Error::not_found(format!("There is no {name} {named:?} that this key may see.")).with_unknown_name(named)
}
