//! Files and batches of the gateway itself, as clients use them: uploads, lists, contents, deletion; creation and cancelling.
//!
//! Each object belongs to a workspace, and only its clients find it. What runs batches is `worker` and `run`; which requests
//! are for these objects and not for a provider's is decided by the door (`proxy`).

use super::blobs::{BlobReader, Blobs};
use super::makers::Makers;
use super::metrics::BatchMetrics;
use super::passed_upload::pass_on;
use super::record::{self, File, batch_view, file_path, file_view};
use super::state::{Batch, Event};
use super::turns::Turns;
use super::upload;
use crate::engine::offline::OfflineResponse;
use crate::engine::planner::Planner;
use bytes::Bytes;
use futures_util::Stream;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use knowledge::provider;
use memory::auth::{ClientIdentity, ORGANISATION};
use memory::state::Shared;
use memory::store::audit::AuditEntry;
use memory::store::{Catalog, Change, Kind, Record, Status, Store, StoreError};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Notify;
use uuid::Uuid;
use words::api::operation::Operation;
use words::api::own_ids::{batch_id, file_id, parse_batch_id, parse_file_id};
use words::api::rules;
use words::error::Error;
use words::settings::BatchSettings;

/// The age up to which an object may not have been announced yet, seconds; clocks of machines differ.
const NEW_SECONDS: u64 = 60;
const BATCHES: PageSize = PageSize { usual: 20, most: 100 };
const FILES: PageSize = PageSize { usual: 10_000, most: 10_000 };
/// The member of a batch's sealed record that has its headers.
pub(super) const HEADERS: &str = "headers";

/// Files and batches of the gateway.
pub struct Batches {
    pub(super) shared: Arc<Shared>,
    pub(super) planner: Planner,
    pub(super) blobs: Blobs,
    pub(super) concurrency: usize,
    pub(super) turns: Arc<Turns>,
    /// This process, in leases.
    pub(super) owner: Uuid,
    pub(super) metrics: BatchMetrics,
    /// There may be a batch to run.
    pub(super) work: Notify,
    /// The bytes of received files whose records are being written, by workspace.
    pending: Mutex<HashMap<Option<Uuid>, u64>>,
}

/// The room of a received file in its workspace, until its record has it.
struct Room<'a> {
    batches: &'a Batches,
    workspace: Option<Uuid>,
    bytes: u64,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        let mut pending = self.batches.pending.lock();
        if let Some(bytes) = pending.get_mut(&self.workspace) {
            *bytes = bytes.saturating_sub(self.bytes);
            if *bytes == 0 {
                pending.remove(&self.workspace);
            }
        }
    }
}

impl Batches {
    pub fn new(planner: Planner, blobs: Blobs, metrics: BatchMetrics) -> Self {
        let shared = Arc::clone(&planner.engine.shared);
        let concurrency = shared.settings().settings.batches.concurrency;
        Self {
            shared,
            planner,
            blobs,
            concurrency,
            turns: Turns::new(concurrency),
            owner: Uuid::now_v7(),
            metrics,
            work: Notify::new(),
            pending: Mutex::default(),
        }
    }

    /// The bounds of files and batches that are in force: a reload changes them.
    pub(super) fn bounds<T>(&self, read: impl FnOnce(&BatchSettings) -> T) -> T {
        read(&self.shared.settings().settings.batches)
    }

    /// # Errors
    /// 503 where the process runs without a store.
    pub(super) fn store(&self) -> Result<&Arc<Store>, Error> {
        self.shared.store().ok_or_else(|| {
            Error::store_unavailable(
                "This process runs without a store, which files and batches need. See its log.",
            )
        })
    }

    /// # Errors
    /// As [`Batches::store`].
    pub(super) fn catalog(&self) -> Result<Arc<Catalog>, Error> {
        self.store().map(|store| store.catalog())
    }

    /// The workspace in which a client has its files and batches.
    pub(super) fn workspace(&self, client: &ClientIdentity) -> Option<Uuid> {
        client.workspace.or_else(|| self.shared.settings().stored.default_workspace())
    }

    /// Stores an uploaded file; `provider`: for whose batches. The body is `multipart/form-data`, and is not held in memory. A file that is
    /// for a provider, and not for its batches, is passed on.
    ///
    /// # Errors
    /// 400 for a form that is wrong, 413 for a file that is too large or for which the workspace has no room.
    pub async fn upload(
        &self,
        client: &Arc<ClientIdentity>,
        headers: &HeaderMap,
        provider: Option<&str>,
        body: impl Stream<Item = Result<Bytes, Error>> + Send,
    ) -> Result<Uploaded, Error> {
        let content_type =
            headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let store = Arc::clone(self.store()?);
        let workspace = self.workspace(client);
        let jobs = provider.and_then(provider::find).and_then(|provider| provider.batch_jobs());
        let may_pass = jobs.is_some_and(|jobs| !jobs.keeps_all_files());
        let max_file_bytes = self.bounds(|batches| batches.max_file_bytes);
        let room = self
            .bounds(|batches| batches.max_workspace_bytes)
            .saturating_sub(used_bytes(&store.catalog(), workspace));
        if room == 0 && !may_pass {
            return Err(self.no_room());
        }
        let (id, path) = new_file();
        // What is passed on needs no room, and its purpose may stand behind the file.
        let passed = if may_pass { self.shared.settings().settings.limits.max_body_bytes as u64 } else { 0 };
        let most = max_file_bytes.min(room.max(passed));
        let received = upload::receive(content_type, body, &self.blobs, &path, most).await;
        let is_for_room = most < max_file_bytes;
        let received = received
            .map_err(|error| if is_for_room && error.status() == 413 { self.no_room() } else { error })?;
        if may_pass && received.purpose != "batch" {
            let passed = pass_on(self, client, headers, &received, &path).await;
            drop(self.blobs.delete(&path).await);
            return passed.map(Uploaded::Passed);
        }
        // Others may have been uploaded meanwhile.
        let Some(_room) = self.room(&store, workspace, received.bytes) else {
            drop(self.blobs.delete(&path).await);
            return Err(self.no_room());
        };
        let now = Timestamp::now();
        let expires = received.expires_after.map(|after| now.as_second() + i64::from(after));
        let file = File {
            filename: received.filename,
            purpose: received.purpose,
            bytes: received.bytes,
            created: now.as_second(),
            expires,
            provider: provider.map(str::to_owned),
            made_by: client.id.as_deref().map(str::to_owned),
        };
        self.metrics.upload(file.bytes);
        let put = Change::Put(Arc::new(record::created(Kind::File, id, workspace, &file, now)));
        if let Err(error) = store.commit(vec![put], Vec::new()).await {
            drop(self.blobs.delete(&path).await);
            return Err(error.into());
        }
        Ok(Uploaded::Kept(file_view(id, &file)))
    }

    /// Takes the room of a received file, unless the workspace has too little.
    fn room(&self, store: &Store, workspace: Option<Uuid>, bytes: u64) -> Option<Room<'_>> {
        let mut all = self.pending.lock();
        let pending = all.get(&workspace).copied().unwrap_or_default();
        // Read under the lock: a file is in the catalog before its room is given back.
        let used = used_bytes(&store.catalog(), workspace).saturating_add(pending);
        if used.saturating_add(bytes) > self.bounds(|batches| batches.max_workspace_bytes) {
            return None;
        }
        all.insert(workspace, pending.saturating_add(bytes));
        Some(Room { batches: self, workspace, bytes })
    }

    fn no_room(&self) -> Error {
        let most = self.bounds(|batches| batches.max_workspace_bytes);
        let message = format!(
            "With this file the workspace would have more than {most} bytes of files, the most it may have. Delete files that are no \
             longer needed, or ask the operator to raise batches.max_workspace_bytes."
        );
        Error { message, ..Error::body_too_large(most) }.with_param("file")
    }

    /// # Errors
    /// 404 where the client's workspace has no such file.
    pub async fn file(&self, client: &ClientIdentity, id: &str) -> Result<Value, Error> {
        let (id, file) = self.find_file(client, id).await?;
        Ok(file_view(id, &file))
    }

    pub(super) async fn find_file(&self, client: &ClientIdentity, id: &str) -> Result<(Uuid, File), Error> {
        let own_id = parse_file_id(id);
        let found = self.find(client, Kind::File, own_id.map(|own| own.id)).await?;
        let found = found.and_then(|record| Some((record.id, record::file(&record)?)));
        let provider = own_id.and_then(|own| own.provider);
        let found = found.filter(|(_, file)| file.provider.as_deref() == provider);
        found.ok_or_else(|| Error::not_found(format!("There is no file {id:?} here.")).with_param("file_id"))
    }

    /// The record of this id in the client's workspace. One that this process does not have yet may have been made by another one a
    /// moment ago: clients behind a load balancer use it at once.
    async fn find(
        &self,
        client: &ClientIdentity,
        kind: Kind,
        id: Option<Uuid>,
    ) -> Result<Option<Arc<Record>>, Error> {
        let store = self.store()?;
        let Some(id) = id else { return Ok(None) };
        let mut found = store.catalog().get(kind, id).cloned();
        if found.is_none() && is_new(id) {
            let newest = store.newest_catalog().await;
            // Where the database cannot be reached, the object is not found, as before.
            found = newest.ok().and_then(|catalog| catalog.get(kind, id).cloned());
        }
        let found = found.filter(|record| record.workspace == self.workspace(client));
        Ok(found.filter(|record| Makers::of(client, &store.catalog()).have_made(record)))
    }

    /// The client's files, the newest first; `query` as OpenAI's: `after`, `limit`, `order`, `purpose`. `provider`: those for its batches
    /// only.
    ///
    /// # Errors
    /// 400 for a limit that is none.
    pub fn files(
        &self,
        client: &ClientIdentity,
        query: Option<&str>,
        provider: Option<&str>,
    ) -> Result<Value, Error> {
        let page = Page::read(query, FILES)?;
        let catalog = self.catalog()?;
        let workspace = self.workspace(client);
        let makers = Makers::of(client, &catalog);
        let is_found = |record: &&Arc<Record>| record.workspace == workspace && makers.have_made(record);
        let found = catalog.all(Kind::File).filter(is_found).filter_map(|record| {
            let file = record::file(record)?;
            let is_wanted = page.purpose.as_ref().is_none_or(|purpose| *purpose == file.purpose)
                && provider.is_none_or(|provider| file.provider.as_deref() == Some(provider));
            is_wanted.then(|| file_view(record.id, &file))
        });
        let found: Vec<Value> = if page.ascending { found.collect() } else { found.rev().collect() };
        Ok(page.list(found))
    }

    /// The content of a file: its name, and the bytes as they are read.
    ///
    /// # Errors
    /// 404 where the client's workspace has no such file; 503 where the blob store does not respond.
    pub async fn content(&self, client: &ClientIdentity, id: &str) -> Result<BlobReader, Error> {
        let (id, _) = self.find_file(client, id).await?;
        Ok(self.blobs.read(&file_path(id)).await?)
    }

    /// Deletes a file for good.
    ///
    /// # Errors
    /// 404 as above; 409 while a batch reads it.
    pub async fn delete_file(&self, client: &ClientIdentity, id: &str) -> Result<Value, Error> {
        let (id, file) = self.find_file(client, id).await?;
        let own_id = file_id(id, file.provider.as_deref());
        let store = self.store()?;
        let catalog = store.catalog();
        let reads = |record: &&Arc<Record>| {
            record.status == Status::Active
                && record::batch(record)
                    .is_some_and(|batch| !batch.status.is_final() && batch.request.input_file == id)
        };
        if let Some(reader) = catalog.all(Kind::Batch).find(reads) {
            let reader = own_batch_id(reader);
            let message = format!(
                "The file is the input of {reader}, which is not finished. Cancel that batch first, or wait."
            );
            return Err(Error::conflict(message));
        }
        store.commit(vec![Change::Delete { kind: Kind::File, id }], Vec::new()).await?;
        if let Err(why) = self.blobs.delete(&file_path(id)).await {
            // Nobody finds it any more; the sweep removes what no record names.
            log::warn!(target: "turnpike", "batches: the content of {own_id} is not deleted yet: {why}");
        }
        Ok(json!({"id": own_id, "object": "file", "deleted": true}))
    }

    /// The headers with which a batch was made.
    ///
    /// # Errors
    /// They cannot be unsealed: the master key is another one.
    pub(super) fn headers(&self, record: &Record) -> Result<Vec<(String, String)>, StoreError> {
        let store = self.shared.store().ok_or_else(|| StoreError::Unavailable(String::new()))?;
        let secrets = store.unseal(record)?;
        let pairs = secrets.get(HEADERS).cloned().unwrap_or_default();
        serde_json::from_value(pairs).map_err(|why| StoreError::Damaged(why.to_string()))
    }

    /// # Errors
    /// 404 where the client's workspace has no such batch.
    pub async fn batch(&self, client: &ClientIdentity, id: &str) -> Result<Value, Error> {
        self.find_batch(client, id).await.map(|(id, batch)| batch_view(id, &batch))
    }

    async fn find_batch(&self, client: &ClientIdentity, id: &str) -> Result<(Uuid, Batch), Error> {
        let own_id = parse_batch_id(id);
        let found = self.find(client, Kind::Batch, own_id.map(|own| own.id)).await?;
        let found = found.and_then(|record| Some((record.id, record::batch(&record)?)));
        let provider = own_id.and_then(|own| own.provider);
        let found = found.filter(|(_, batch)| batch.provider() == provider);
        found
            .ok_or_else(|| Error::not_found(format!("There is no batch {id:?} here.")).with_param("batch_id"))
    }

    /// The client's batches, the newest first; `query`: `after`, `limit`. `provider`: those that it runs only.
    ///
    /// # Errors
    /// 400 for a limit that is none.
    pub fn list(
        &self,
        client: &ClientIdentity,
        query: Option<&str>,
        provider: Option<&str>,
    ) -> Result<Value, Error> {
        rules::check_query(Operation::BatchesList, query)?;
        let catalog = self.catalog()?;
        let workspace = self.workspace(client);
        let makers = Makers::of(client, &catalog);
        let is_found = |record: &&Arc<Record>| record.workspace == workspace && makers.have_made(record);
        let found = catalog.all(Kind::Batch).rev().filter(is_found);
        let page = Page::read(query, BATCHES)?;
        let views = found.filter_map(|record| {
            let batch = record::batch(record)?;
            let is_wanted = provider.is_none_or(|provider| batch.provider() == Some(provider));
            is_wanted.then(|| batch_view(record.id, &batch))
        });
        Ok(page.list(views.collect()))
    }

    /// Cancels a batch: no other line of it is sent.
    ///
    /// # Errors
    /// 404 as above; 409 for a batch that is finished.
    pub async fn cancel(&self, client: &ClientIdentity, id: &str) -> Result<Value, Error> {
        let (id, _) = self.find_batch(client, id).await?;
        let now = Timestamp::now();
        let audit =
            self.catalog()?.get(Kind::Batch, id).map(|record| audit_entry(client, record, "cancel", now));
        let mut refused = None;
        let change = |batch: &mut Batch| match batch.apply(Event::Cancel, now.as_second()) {
            Ok(()) => true,
            Err(status) => {
                refused = Some(status);
                false
            }
        };
        let changed = self.change(id, change, |_| Vec::new(), audit.into_iter().collect()).await?;
        if let Some(status) = refused {
            let message = format!("Cannot cancel a batch with status '{}'.", status.as_str());
            return Err(Error::conflict(message));
        }
        self.work.notify_one();
        changed.map(|batch| batch_view(id, &batch)).ok_or_else(|| Error::not_found("The batch is gone."))
    }

    /// What `GET /batches/{id}/output` returns: the output file, or the errors of a batch without one.
    ///
    /// # Errors
    /// 404 as above, and while there is nothing to show.
    pub async fn output(&self, client: &ClientIdentity, id: &str) -> Result<Output, Error> {
        let (id, batch) = self.find_batch(client, id).await?;
        if let Some(file) = batch.files.output.or(batch.files.errors) {
            return Ok(Output::File(self.blobs.read(&file_path(file)).await?));
        }
        if batch.status.is_final() {
            return Ok(Output::Errors(batch_view(id, &batch).get("errors").cloned().unwrap_or_default()));
        }
        let message = format!("The batch has no output yet: its status is '{}'.", batch.status.as_str());
        Err(Error::not_found(message))
    }

    /// Changes a batch in the store, as often as it takes to have no other change in between. `None`: there is no such batch, or
    /// `change` refuses. `further`: what is written in the same transaction.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(super) async fn change(
        &self,
        id: Uuid,
        mut change: impl FnMut(&mut Batch) -> bool,
        further: impl Fn(&Record) -> Vec<Change>,
        audit: Vec<AuditEntry>,
    ) -> Result<Option<Batch>, StoreError> {
        let store = self.shared.store().ok_or_else(|| StoreError::Unavailable(String::new()))?;
        let make = |catalog: &Catalog| {
            let record = catalog.get(Kind::Batch, id)?;
            let mut batch = record::batch(record)?;
            if !change(&mut batch) {
                return None;
            }
            let mut next = record::changed(record, &batch, Timestamp::now());
            if batch.status.is_final() {
                // Its headers have keys, and are of no use any more.
                next.status = Status::Archived;
                next.sealed = None;
            }
            Some((std::iter::once(Change::Put(Arc::new(next))).chain(further(record)).collect(), batch))
        };
        store.commit_latest(audit, make).await
    }
}

/// What an upload has come to.
pub enum Uploaded {
    /// The file, as OpenAI shows it.
    Kept(Value),
    /// The provider's response.
    Passed(OfflineResponse),
}

/// What a batch has come to.
pub enum Output {
    File(BlobReader),
    /// `errors` of the batch, or null.
    Errors(Value),
}

/// A batch's id, as clients write it.
fn own_batch_id(record: &Record) -> String {
    let batch = record::batch(record);
    batch_id(record.id, batch.as_ref().and_then(Batch::provider))
}

/// The id of a new file, and where its content is.
pub(super) fn new_file() -> (Uuid, String) {
    let id = Uuid::now_v7();
    (id, file_path(id))
}

/// Whether an id was made so short a time ago that another process's announcement of it may be on its way. Ids have the time.
fn is_new(id: Uuid) -> bool {
    let made = id.get_timestamp().map(|at| at.to_unix().0);
    made.is_some_and(|seconds| seconds.abs_diff(Timestamp::now().as_second().unsigned_abs()) < NEW_SECONDS)
}

/// The bytes of a workspace's files.
fn used_bytes(catalog: &Catalog, workspace: Option<Uuid>) -> u64 {
    let own = catalog.all(Kind::File).filter(|record| record.workspace == workspace);
    own.filter_map(|record| Some(record::file(record)?.bytes)).sum()
}

pub(super) fn audit_entry(
    client: &ClientIdentity,
    record: &Record,
    action: &str,
    now: Timestamp,
) -> AuditEntry {
    let key = || client.key_id.map(|id| id.to_string());
    let actor = client.user.as_deref().map(str::to_owned).or_else(key);
    let actor = actor.unwrap_or_else(|| client.name.as_deref().unwrap_or_default().to_owned());
    let id = own_batch_id(record);
    let actor_type = if client.user.is_some() { "user" } else { "api_key" };
    let uri = match action {
        "create" => "/v1/batches".to_owned(),
        _ => format!("/v1/batches/{id}/{action}"),
    };
    let body = json!({
        "timestamp": format!("{now:.3}"), "method": "POST", "uri": uri, "user_id": actor, "user_type": actor_type,
        "organisation_id": ORGANISATION, "workspace_id": record.workspace, "response_status_code": 200,
        "resource_type": "batches", "resource_id": id, "action": action,
    });
    log::info!(target: "turnpike::audit", "{action} batches by {actor_type} {actor:?}: 200 (POST {uri})");
    AuditEntry {
        id: Uuid::now_v7(),
        time: now,
        workspace: record.workspace,
        actor,
        actor_type: actor_type.to_owned(),
        action: action.to_owned(),
        resource: "batches".to_owned(),
        method: "POST".to_owned(),
        status: 200,
        body: body.to_string(),
    }
}

/// How many objects a page has where the client names no number, and at most.
struct PageSize {
    usual: usize,
    most: usize,
}

/// A page of a list.
#[derive(Debug, PartialEq)]
struct Page {
    /// The id of the last object of the page before.
    after: Option<String>,
    limit: usize,
    ascending: bool,
    purpose: Option<String>,
}

impl Page {
    /// # Errors
    /// 400 for a limit that is none.
    fn read(query: Option<&str>, size: PageSize) -> Result<Self, Error> {
        let most = size.most;
        let mut page = Self { after: None, limit: size.usual, ascending: false, purpose: None };
        for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*name {
                "after" => page.after = Some(value.into_owned()),
                "purpose" => page.purpose = Some(value.into_owned()),
                "order" if value == "asc" || value == "desc" => page.ascending = value == "asc",
                "order" => {
                    return Err(Error::invalid_request("order", "The order must be asc or desc."));
                }
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=most).contains(limit));
                    page.limit = limit.ok_or_else(|| {
                        Error::invalid_request(
                            "limit",
                            format!("The limit must be a number from 1 to {most}."),
                        )
                    })?;
                }
                _ => {}
            }
        }
        Ok(page)
    }

    /// The page of these objects.
    fn list(&self, all: Vec<Value>) -> Value {
        let id = |object: &Value| object.get("id").and_then(Value::as_str).map(str::to_owned);
        let start = match &self.after {
            Some(after) => all
                .iter()
                .position(|object| id(object).as_ref() == Some(after))
                .map_or(all.len(), |at| at + 1),
            None => 0,
        };
        let mut data: Vec<Value> = all.into_iter().skip(start).take(self.limit + 1).collect();
        let has_more = data.len() > self.limit;
        data.truncate(self.limit);
        json!({
            "object": "list", "first_id": data.first().and_then(id), "last_id": data.last().and_then(id),
            "has_more": has_more, "data": data,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other() {
        let all = || (0..5).map(|n| json!({"id": n.to_string()})).collect::<Vec<_>>();
        let page = |query: &str| Page::read(Some(query), BATCHES).map(|page| page.list(all()));
        let ids = |list: &Value| {
            list["data"]
                .as_array()
                .unwrap()
                .iter()
                .map(|object| object["id"].as_str().unwrap().to_owned())
                .collect::<String>()
        };
        let first = page("limit=2").unwrap();
        assert_eq!(
            (ids(&first), &first["has_more"], &first["last_id"]),
            ("01".into(), &json!(true), &json!("1"))
        );
        let next = page("limit=3&after=1").unwrap();
        assert_eq!((ids(&next), &next["has_more"]), ("234".into(), &json!(false)));
        assert_eq!(ids(&page("after=nobody").unwrap()), "");
        for wrong in ["limit=0", "limit=101", "limit=x", "limit=", "order=up"] {
            assert_eq!(page(wrong).unwrap_err().status(), 400, "{wrong}");
        }
    }
}
