//! Deletes files and batches that are kept no longer, and content that no record names.
//!
//! When it does so is decided by `worker`.

use super::batches::Batches;
use super::blobs::BlobError;
use super::record;
use jiff::Timestamp;
use memory::store::{Catalog, Change, Kind, Record, Status, Store};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use words::api::own_ids::file_id;

/// Content without a record younger than this may be an upload under way.
const UPLOAD_TIME: Duration = Duration::from_secs(24 * 3600);
/// Records that are deleted in one write.
const DELETED_AT_ONCE: usize = 100;

/// Deletes files and finished batches whose time is over, and content that no record names.
pub(super) async fn sweep(batches: &Batches, store: &Store) {
    let now = Timestamp::now();
    let over = over(&store.catalog(), batches.bounds(|batches| batches.retention), now);
    for some in over.chunks(DELETED_AT_ONCE) {
        let changes = some.iter().map(|(kind, id)| Change::Delete { kind: *kind, id: *id }).collect();
        if let Err(why) = store.commit(changes, Vec::new()).await {
            log::debug!(target: "turnpike", "batches: what is over is not deleted yet: {why}");
            return;
        }
        // At once: content without a record may be an upload under way, and is left alone for a day.
        for (_, id) in some.iter().filter(|(kind, _)| *kind == Kind::File) {
            if let Err(why) = batches.blobs.delete(&record::file_path(*id)).await {
                log::debug!(target: "turnpike", "batches: the content of {} is not deleted yet: {why}", file_id(*id, None));
            }
        }
    }
    if let Err(why) = delete_nameless(batches, &store.catalog(), now).await {
        log::debug!(target: "turnpike", "batches: content without a record is not deleted yet: {why}");
    }
}

/// Files and finished batches whose time is over. Not files that a batch reads.
fn over(catalog: &Catalog, retention: Duration, now: Timestamp) -> Vec<(Kind, Uuid)> {
    let is_over = |record: &Arc<Record>| match record.kind {
        Kind::File if is_of_deleted(catalog, record) => true,
        Kind::File => record::file(record)
            .is_some_and(|file| file.expires.is_some_and(|expires| expires <= now.as_second())),
        _ => record.status == Status::Archived && is_older(record, now, retention),
    };
    let read: HashSet<Uuid> = catalog
        .all(Kind::Batch)
        .filter(|record| record.status == Status::Active)
        .filter_map(|record| record::batch(record).map(|batch| batch.request.input_file))
        .collect();
    let all = [Kind::File, Kind::Batch].into_iter().flat_map(|kind| catalog.all(kind));
    let over = all.filter(|record| is_over(record) && !read.contains(&record.id));
    over.map(|record| (record.kind, record.id)).collect()
}

/// Deletes content that no record names: of deleted files, and of uploads and batches whose process was killed.
async fn delete_nameless(batches: &Batches, catalog: &Catalog, now: Timestamp) -> Result<(), BlobError> {
    batches.blobs.remove_abandoned().await?;
    for (folder, kind) in [("files", Kind::File), ("batches", Kind::Batch)] {
        for blob in batches.blobs.list(folder).await? {
            let name = blob.path.split('/').nth(1).unwrap_or_default();
            let Ok(id) = Uuid::try_parse(name) else { continue };
            let is_named = match catalog.get(kind, id) {
                Some(record) => kind == Kind::File || record.status == Status::Active,
                None => is_young(id, now),
            };
            if !is_named {
                batches.blobs.delete(&blob.path).await?;
                log::debug!(target: "turnpike", "batches: deleted the content of {}", file_id(id, None));
            }
        }
    }
    Ok(())
}

/// Whether a file's workspace is deleted, whether the file was made before or after that.
fn is_of_deleted(catalog: &Catalog, file: &Record) -> bool {
    let workspace = file.workspace.and_then(|id| catalog.get(Kind::Workspace, id));
    file.status == Status::Archived || workspace.is_some_and(|record| record.status == Status::Archived)
}

fn is_older(record: &Record, now: Timestamp, age: Duration) -> bool {
    now.duration_since(record.updated_at).unsigned_abs() > age
}

/// Whether an id was made so short a time ago that its record may still come.
fn is_young(id: Uuid, now: Timestamp) -> bool {
    let Some((seconds, _)) = id.get_timestamp().map(|at| at.to_unix()) else { return false };
    now.as_second().saturating_sub_unsigned(seconds) < UPLOAD_TIME.as_secs() as i64
}
