//! Finds batches to run, and runs them.
//!
//! Several processes may share the store: each batch is run by the one that gets its lease. What is kept no longer is deleted by `sweep`.

use super::batches::Batches;
use super::record;
use super::run::Run;
use super::state::{Batch, Status as BatchStatus};
use super::sweep;
use futures_util::FutureExt;
use jiff::Timestamp;
use memory::store::{Catalog, Kind, Status};
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use uuid::Uuid;
use words::api::own_ids::batch_id;

/// How often batches are looked for that another process has left.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often is deleted what is kept no longer.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// Batches of one kind that run at a time, of all workspaces; the others wait.
const MAX_RUNNING: usize = 1024;
/// Of one workspace: batches whose lines the gateway sends, and batches that providers run, which do little but wait.
const MAX_IN_WORKSPACE: usize = 16;
const MAX_AT_PROVIDERS: usize = 256;
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
        *all += usize::from(is_free);
        *own += usize::from(is_free);
        is_free
    }
}

/// Runs batches until the process stops, and those that run to where others can go on.
pub async fn work(batches: Arc<Batches>, stopped: impl Future<Output = ()>) {
    let Some(store) = batches.shared.store().cloned() else { return };
    let mut updated = store.updated();
    let mut tick = interval(INTERVAL);
    let mut sweep = interval(SWEEP_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut running = JoinSet::new();
    let mut ids = HashMap::new();
    tokio::pin!(stopped);
    loop {
        tokio::select! {
            () = &mut stopped => break,
            () = batches.work.notified() => {}
            _ = tick.tick() => {}
            _ = updated.changed() => {}
            _ = sweep.tick() => sweep::sweep(&batches, &store).await,
            Some(finished) = running.join_next() => if let Ok(id) = finished { ids.remove(&id); },
        }
        let catalog = store.catalog();
        batches.metrics.set_open(open_batches(&catalog));
        for (id, kind) in candidates(&catalog, batches.owner, &ids) {
            ids.insert(id, kind);
            let run = Run::new(Arc::clone(&batches), id);
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

/// The batches that this process, the owner of their leases, may run: those that are to run immediately first, then the oldest.
fn candidates(catalog: &Catalog, owner: Uuid, running: &HashMap<Uuid, PlaceKind>) -> Vec<(Uuid, PlaceKind)> {
    let now = Timestamp::now();
    let open = catalog.all(Kind::Batch).filter(|record| record.status == Status::Active);
    let mut found: Vec<(bool, Uuid, PlaceKind)> = open
        .filter(|record| !running.contains_key(&record.id))
        .filter_map(|record| {
            let batch = record::batch(record)?;
            let is_free = !batch.status.is_final() && batch.is_free_for(owner, now.as_millisecond());
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

/// How many batches are not finished.
fn open_batches(catalog: &Catalog) -> usize {
    catalog.all(Kind::Batch).filter(|record| record.status == Status::Active).count()
}
