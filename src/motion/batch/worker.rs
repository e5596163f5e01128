//! Finds batches to run, and deletes what is kept no longer.
//!
//! Several processes may share the store: each batch is run by the one that gets its lease.

use super::batches::Batches;
use super::record;
use super::run::Run;
use super::state::{Batch, Status as BatchStatus};
use futures_util::FutureExt;
use jiff::Timestamp;
use memory::store::{Catalog, Change, Kind, Record, Status};
use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use uuid::Uuid;
use words::api::own_ids::{batch_id, file_id};

/// How often batches are looked for that another process has left.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often is deleted what is kept no longer.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// Batches of one kind that run at a time, of all workspaces; the others wait.
const MAX_RUNNING: usize = 1024;
/// Of one workspace: batches whose lines the gateway sends, and batches that providers run, which do little but wait.
const MAX_IN_WORKSPACE: usize = 16;
const MAX_AT_PROVIDERS: usize = 256;
/// Content without a record younger than this may be an upload under way.
const UPLOAD_TIME: Duration = Duration::from_secs(24 * 3600);
/// Records that are deleted in one write.
const DELETED_AT_ONCE: usize = 100;
/// How long a batch waits whose run broke.
const BROKEN_PAUSE: Duration = Duration::from_secs(10);

/// What kind of place a batch takes while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum PlaceKind {
    /// The gateway sends its lines.
    Own,
    /// A provider runs it.
    AtProvider,
    /// It was cancelled, or its time is over: it only ends, and waits for no place.
    Ending,
}

impl PlaceKind {
    fn of(batch: &Batch, now: Timestamp) -> Self {
        match batch.status {
            BatchStatus::Cancelling => Self::Ending,
            _ if batch.is_over(now.as_second()) => Self::Ending,
            _ if batch.jobs.is_some() => Self::AtProvider,
            _ => Self::Own,
        }
    }
}

/// The places that are taken.
#[derive(Debug, Default)]
struct Places {
    all: HashMap<PlaceKind, usize>,
    in_workspace: HashMap<(PlaceKind, Option<Uuid>), usize>,
}

impl Places {
    /// Takes a place. `false`: there is none.
    fn take(&mut self, kind: PlaceKind, workspace: Option<Uuid>) -> bool {
        let most = match kind {
            PlaceKind::Own => MAX_IN_WORKSPACE,
            PlaceKind::AtProvider => MAX_AT_PROVIDERS,
            PlaceKind::Ending => return true,
        };
        let all = self.all.entry(kind).or_default();
        let own = self.in_workspace.entry((kind, workspace)).or_default();
        let is_free = *all < MAX_RUNNING && *own < most;
        (*all, *own) = (*all + usize::from(is_free), *own + usize::from(is_free));
        is_free
    }
}

impl Batches {
    /// Runs batches until the process stops, and those that run to where others can go on.
    pub async fn work(self: Arc<Self>, stopped: impl Future<Output = ()>) {
        let Some(store) = self.shared.store().cloned() else { return };
        let mut updated = store.updated();
        let (mut tick, mut sweep) = (interval(INTERVAL), interval(SWEEP_INTERVAL));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut running = JoinSet::new();
        let mut ids = HashMap::new();
        tokio::pin!(stopped);
        loop {
            tokio::select! {
                () = &mut stopped => break,
                () = self.work.notified() => {}
                _ = tick.tick() => {}
                _ = updated.changed() => {}
                _ = sweep.tick() => self.sweep(&store.catalog()).await,
                Some(finished) = running.join_next() => if let Ok(id) = finished { ids.remove(&id); },
            }
            let catalog = store.catalog();
            self.metrics.set_open(open_batches(&catalog));
            for (id, kind) in self.candidates(&catalog, &ids) {
                ids.insert(id, kind);
                let run = Run::new(Arc::clone(&self), id);
                running.spawn(async move {
                    // One that breaks the gateway is run again, as after a start.
                    if AssertUnwindSafe(run.until_finished()).catch_unwind().await.is_err() {
                        log::error!(target: "turnpike", "batches: the run of {} broke; it is tried again", batch_id(id, None));
                        tokio::time::sleep(BROKEN_PAUSE).await;
                    }
                    id
                });
            }
        }
        while running.join_next().await.is_some() {}
    }

    /// The batches that this process may run: those that are to run immediately first, then the oldest.
    fn candidates(&self, catalog: &Catalog, running: &HashMap<Uuid, PlaceKind>) -> Vec<(Uuid, PlaceKind)> {
        let now = Timestamp::now();
        let open = catalog.all(Kind::Batch).filter(|record| record.status == Status::Active);
        let mut found: Vec<(bool, Uuid, PlaceKind)> = open
            .filter(|record| !running.contains_key(&record.id))
            .filter_map(|record| {
                let batch = record::batch(record)?;
                let is_free = !batch.status.is_final() && batch.is_free_for(self.owner, now.as_millisecond());
                is_free.then(|| (batch.request.window != "immediate", record.id, PlaceKind::of(&batch, now)))
            })
            .collect();
        found.sort_unstable_by_key(|(is_later, id, _)| (*is_later, *id));
        let workspace = |id: &Uuid| catalog.get(Kind::Batch, *id).and_then(|record| record.workspace);
        let mut places = Places::default();
        for (id, kind) in running {
            places.take(*kind, workspace(id));
        }
        let found = found.into_iter().map(|(_, id, kind)| (id, kind));
        found.filter(|(id, kind)| places.take(*kind, workspace(id))).collect()
    }

    /// Deletes files and finished batches whose time is over, and content that no record names.
    async fn sweep(&self, catalog: &Catalog) {
        let now = Timestamp::now();
        let is_over = |record: &Arc<Record>| match record.kind {
            Kind::File if is_of_deleted(catalog, record) => true,
            Kind::File => record::file(record)
                .is_some_and(|file| file.expires.is_some_and(|expires| expires <= now.as_second())),
            _ => record.status == Status::Archived && is_older(record, now, self.options.retention),
        };
        let read: HashSet<Uuid> = catalog
            .all(Kind::Batch)
            .filter(|record| record.status == Status::Active)
            .filter_map(|record| record::batch(record).map(|batch| batch.request.input_file))
            .collect();
        let over: Vec<(Kind, Uuid)> = [Kind::File, Kind::Batch]
            .into_iter()
            .flat_map(|kind| catalog.all(kind))
            .filter(|record| is_over(record) && !read.contains(&record.id))
            .map(|record| (record.kind, record.id))
            .collect();
        for some in over.chunks(DELETED_AT_ONCE) {
            let changes = some.iter().map(|(kind, id)| Change::Delete { kind: *kind, id: *id }).collect();
            let Some(store) = self.shared.store() else { return };
            if let Err(why) = store.commit(changes, Vec::new()).await {
                log::debug!(target: "turnpike", "batches: what is over is not deleted yet: {why}");
                return;
            }
            // At once: content without a record may be an upload under way, and is left alone for a day.
            for (_, id) in some.iter().filter(|(kind, _)| *kind == Kind::File) {
                if let Err(why) = self.blobs.delete(&record::file_path(*id)).await {
                    log::debug!(target: "turnpike", "batches: the content of {} is not deleted yet: {why}", file_id(*id, None));
                }
            }
        }
        let Some(store) = self.shared.store() else { return };
        if let Err(why) = self.delete_nameless(&store.catalog(), now).await {
            log::debug!(target: "turnpike", "batches: content without a record is not deleted yet: {why}");
        }
    }

    /// Deletes content that no record names: of deleted files, and of uploads and batches whose process was killed.
    async fn delete_nameless(
        &self,
        catalog: &Catalog,
        now: Timestamp,
    ) -> Result<(), super::blobs::BlobError> {
        self.blobs.remove_abandoned().await?;
        for (folder, kind) in [("files", Kind::File), ("batches", Kind::Batch)] {
            for blob in self.blobs.list(folder).await? {
                let name = blob.path.split('/').nth(1).unwrap_or_default();
                let Ok(id) = Uuid::try_parse(name) else { continue };
                let is_named = match catalog.get(kind, id) {
                    Some(record) => kind == Kind::File || record.status == Status::Active,
                    None => is_young(id, now),
                };
                if !is_named {
                    self.blobs.delete(&blob.path).await?;
                    log::debug!(target: "turnpike", "batches: deleted the content of {}", file_id(id, None));
                }
            }
        }
        Ok(())
    }
}

/// Whether a file's workspace is deleted, whether the file was made before or after that.
fn is_of_deleted(catalog: &Catalog, file: &Record) -> bool {
    let workspace = file.workspace.and_then(|id| catalog.get(Kind::Workspace, id));
    file.status == Status::Archived || workspace.is_some_and(|record| record.status == Status::Archived)
}

/// How many batches are not finished.
fn open_batches(catalog: &Catalog) -> usize {
    catalog.all(Kind::Batch).filter(|record| record.status == Status::Active).count()
}

fn is_older(record: &Record, now: Timestamp, age: Duration) -> bool {
    now.duration_since(record.updated_at).unsigned_abs() > age
}

/// Whether an id was made so short a time ago that its record may still come.
fn is_young(id: Uuid, now: Timestamp) -> bool {
    let Some((seconds, _)) = id.get_timestamp().map(|at| at.to_unix()) else { return false };
    now.as_second().saturating_sub_unsigned(seconds) < UPLOAD_TIME.as_secs() as i64
}
