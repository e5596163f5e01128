//! Changes of several calls that are written together, or not at all: each call is made by the function of its route, with the rights of
//! the client, on the objects as the calls before have left them.
//!
//! Nothing of it is in the store or in force until its changes are committed. Not here: which calls are made (`declared`).

use super::audit::Trail;
use super::call::{Call, Presented};
use super::field::read_object;
use super::origin;
use super::reply::Reply;
use super::route::{Access, Body, Route};
use super::routes::routes;
use memory::auth::ClientIdentity;
use memory::state::Shared;
use memory::state::snapshot::SettingsSnapshot;
use memory::store::audit::AuditEntry;
use memory::store::{Catalog, Change, Kind, Record, Status};
use parking_lot::Mutex;
use serde::Deserialize as _;
use serde_json::{Map, Value};
use std::sync::Arc;
use uuid::Uuid;
use words::config::node::Node;
use words::config::read::Problems;
use words::error::Error;

/// What was changed so far.
pub(super) struct Stage {
    /// The set of files that the objects are of.
    pub set: String,
    pub catalog: Arc<Catalog>,
    pub changes: Vec<Change>,
    pub audit: Vec<AuditEntry>,
    /// Of a catalog that may be older.
    snapshot: Arc<SettingsSnapshot>,
    is_stale: bool,
    has_new_keys: bool,
}

/// A moment to go back to.
pub(super) struct StageMark {
    pub catalog: Arc<Catalog>,
    changes: usize,
    audit: usize,
}

/// Where a call is one of several that are written together.
#[derive(Clone)]
pub(super) struct Staged {
    stage: Arc<Mutex<Stage>>,
    /// The record that the call is about, where there is one.
    target: Option<Uuid>,
}

impl Staged {
    pub fn set(&self) -> String {
        self.stage.lock().set.clone()
    }

    pub fn target(&self) -> Option<Uuid> {
        self.target
    }

    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.stage.lock().catalog)
    }

    /// Adds the changes of a call, with its entry of the audit log.
    ///
    /// # Errors
    /// 409 for a slug that is taken.
    pub fn add(&self, changes: Vec<Change>, entry: Option<AuditEntry>) -> Result<(), Error> {
        self.stage.lock().add(changes, entry)
    }
}

impl Stage {
    pub fn new(set: &str, catalog: Arc<Catalog>, snapshot: Arc<SettingsSnapshot>) -> Self {
        Self {
            set: set.to_owned(),
            catalog,
            changes: Vec::new(),
            audit: Vec::new(),
            snapshot,
            // What is in force may be older than the store.
            is_stale: true,
            has_new_keys: false,
        }
    }

    pub fn mark(&self) -> StageMark {
        let catalog = Arc::clone(&self.catalog);
        StageMark { catalog, changes: self.changes.len(), audit: self.audit.len() }
    }

    /// The changes since then.
    pub fn since(&self, mark: &StageMark) -> &[Change] {
        self.changes.get(mark.changes..).unwrap_or_default()
    }

    /// Forgets what was changed since then.
    pub fn go_back(&mut self, mark: StageMark) {
        self.is_stale |= self.changes.len() != mark.changes;
        self.changes.truncate(mark.changes);
        self.audit.truncate(mark.audit);
        self.catalog = mark.catalog;
    }

    fn add(&mut self, changes: Vec<Change>, entry: Option<AuditEntry>) -> Result<(), Error> {
        let mut freed = Vec::new();
        for change in &changes {
            if let Change::Put(record) = change {
                freed.extend(self.freed(record)?);
            }
        }
        self.has_new_keys |=
            changes.iter().any(|change| matches!(change, Change::Put(record) if record.kind == Kind::ApiKey));
        freed.extend(changes);
        self.catalog = Arc::new(self.catalog.with(&freed, self.catalog.position));
        self.changes.extend(freed);
        self.audit.extend(entry);
        self.is_stale = true;
        Ok(())
    }

    /// What makes the slug of a record free: an object that is out of use, and was of the same set, gives it back, so that what a file has
    /// no more can be in it again.
    ///
    /// # Errors
    /// 409 where another object has the slug.
    fn freed(&self, record: &Record) -> Result<Option<Change>, Error> {
        let Some(slug) = &record.slug else { return Ok(None) };
        let holder = self.catalog.by_slug(record.kind, record.workspace, slug);
        let Some(holder) = holder.filter(|holder| holder.id != record.id) else { return Ok(None) };
        if holder.status == Status::Archived && origin::set_of(holder).as_deref() == Some(self.set.as_str()) {
            let slug = Some(format!("{slug}.{}", holder.id.simple()));
            let renamed = Record { slug, revision: holder.revision + 1, ..(**holder).clone() };
            return Ok(Some(Change::Put(Arc::new(renamed))));
        }
        let state = if holder.status == Status::Archived { "taken by an archived object" } else { "taken" };
        Err(Error::conflict(format!("The slug {slug} is {state}. Choose another one.")).with_param("slug"))
    }

    /// The objects as they would be in force now.
    fn snapshot(&mut self, shared: &Shared) -> Arc<SettingsSnapshot> {
        if self.is_stale {
            self.snapshot = Arc::new(shared.preview(&self.snapshot, &self.catalog, self.has_new_keys));
            self.is_stale = false;
        }
        Arc::clone(&self.snapshot)
    }
}

/// One of the calls.
pub(super) struct Part {
    pub route: &'static Route,
    /// The record that it is about.
    pub target: Option<Uuid>,
    /// What the path has behind the record's id.
    pub further: Option<(&'static str, String)>,
    pub body: Map<String, Value>,
}

impl Part {
    pub fn new(route: &'static Route, target: Option<Uuid>, body: Map<String, Value>) -> Self {
        Self { route, target, further: None, body }
    }
}

/// The route with this method and path.
///
/// # Errors
/// 500: there is none.
pub(super) fn route(method: &str, path: &str) -> Result<&'static Route, Error> {
    let found = routes().find(|route| route.method == method && route.path == path);
    found.ok_or_else(|| Error::internal(format!("there is no route {method} {path}")))
}

/// # Errors
/// 403 where the client has none of a route's scopes.
pub(super) fn check_scope(route: &Route, identity: &ClientIdentity) -> Result<(), Error> {
    let Access::Scope(scopes) = route.access else { return Ok(()) };
    if scopes.iter().any(|scope| identity.scopes.contains(*scope)) {
        return Ok(());
    }
    let names: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
    Err(Error::missing_scope(&names.join(" or ")))
}

/// The members of a body, by a route's table.
///
/// # Errors
/// 400 with all problems.
pub(super) fn read_members(
    route: &Route,
    body: &Map<String, Value>,
    problems: &Problems,
) -> Result<Map<String, Value>, Error> {
    let Body::Object(fields) = route.body else { return Ok(Map::new()) };
    let node = Node::deserialize(body).map_err(|why| Error::bad_request(why.to_string()))?;
    let read = read_object(fields, &node, "", problems);
    Ok(read)
}

/// Makes one of the calls.
///
/// # Errors
/// Those of its route.
pub(super) async fn run(call: &Call, stage: &Arc<Mutex<Stage>>, part: Part) -> Result<Reply, Error> {
    let route = part.route;
    check_scope(route, &call.identity)?;
    let problems = Problems::default();
    let mut body = read_members(route, &part.body, &problems)?;
    if let Some(check) = route.check {
        check(&mut body, call.now, &problems);
    }
    if !problems.is_empty() {
        return Err(Error::invalid_body(problems.into_vec()));
    }
    (route.run)(staged_call(call, stage, &part, body)).await
}

/// A call with the rights of `call`, whose changes are kept in the stage.
pub(super) fn staged_call(
    call: &Call,
    stage: &Arc<Mutex<Stage>>,
    part: &Part,
    body: Map<String, Value>,
) -> Call {
    let first = part.route.path.split(['{', '}']).nth(1).unwrap_or_default();
    let own = part.target.map(|id| (first.to_owned(), id.to_string()));
    let further = part.further.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let params: Vec<(String, String)> = own.into_iter().chain(further).collect();
    Call {
        shared: Arc::clone(&call.shared),
        limits: Arc::clone(&call.limits),
        engine: Arc::clone(&call.engine),
        planner: call.planner.clone(),
        snapshot: stage.lock().snapshot(&call.shared),
        identity: Arc::clone(&call.identity),
        presented: Presented::default(),
        trail: part_trail(call, part, &params),
        params,
        query: Map::new(),
        body,
        bytes: bytes::Bytes::new(),
        now: call.now,
        arrival: call.arrival.clone(),
        departure: None,
        held: call.shared.held_bytes.holder(),
        answer: Arc::new(Mutex::new(call.shared.held_bytes.holder())),
        staged: Some(Staged { stage: Arc::clone(stage), target: part.target }),
    }
}

/// The call in the audit log: as if it were made by itself, without the values of its body, which the entry of the whole has.
fn part_trail(call: &Call, part: &Part, params: &[(String, String)]) -> Trail {
    let filled = params
        .iter()
        .fold(part.route.path.to_owned(), |path, (name, value)| path.replace(&format!("{{{name}}}"), value));
    let names: Vec<&str> = part.body.keys().map(String::as_str).collect();
    let set = stage_set(call);
    Trail {
        change: part.route.change,
        method: part.route.method.to_owned(),
        uri: filled,
        query: format!("apply={}", call.trail.request_id),
        request_id: Uuid::now_v7().to_string(),
        body: serde_json::json!({"file_set": set, "members": names}).to_string(),
        is_written: false,
        is_staged: true,
        workspace: None,
        left_out: 0,
        ..call.trail.clone()
    }
}

fn stage_set(call: &Call) -> &str {
    call.text("set").unwrap_or_default()
}
