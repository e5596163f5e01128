//! Opens the files and batches of the gateway, as the settings say.
//!
//! What runs batches is `background::BatchWorker`.

use super::store_opening;
use memory::state::snapshot::SettingsSnapshot;
use motion::batch::blobs::S3Location;
use motion::batch::{BatchMetrics, Batches, BlobLocation, Blobs};
use motion::engine::planner::Planner;
use std::path::Path;
use std::sync::Arc;

/// Files and batches; `None` where several gateways share a store and no place for files, and at an edge node.
pub fn open(file: &Path, planner: Planner) -> Result<Option<Arc<Batches>>, String> {
    let shared = Arc::clone(&planner.engine.shared);
    let snapshot = shared.settings_arc();
    if snapshot.settings.control.role.is_edge() {
        log::info!(target: "turnpike", "batches: off, since an edge node keeps no files and batches");
        return Ok(None);
    }
    let Some(location) = location(file, &snapshot) else {
        log::warn!(
            target: "turnpike",
            "batches: off, since the store may be shared and files would be in a directory of this machine: set batches.s3, or \
             batches.directory to one that all gateways have"
        );
        return Ok(None);
    };
    let blobs = Blobs::open(&location).map_err(|why| format!("batches: {why}"))?;
    let metrics = BatchMetrics::new(shared.metrics.registry()).map_err(|why| format!("metrics: {why}"))?;
    Ok(Some(Arc::new(Batches::new(planner, blobs, metrics))))
}

/// Where files are; `None`: in no place that all gateways of the store have.
fn location(file: &Path, snapshot: &SettingsSnapshot) -> Option<BlobLocation> {
    let settings = &snapshot.settings;
    let batches = &settings.batches;
    if let Some(s3) = &batches.s3 {
        return Some(BlobLocation::S3(S3Location {
            bucket: s3.bucket.clone(),
            prefix: s3.prefix.clone(),
            region: s3.region.clone(),
            endpoint: s3.endpoint.clone(),
            access_key_id: s3.credentials.as_ref().map(|keys| keys.access_key_id.clone()),
            secret_access_key: s3.credentials.as_ref().map(|keys| keys.secret_access_key.clone()),
            outbound: snapshot.hosts.outbound.clone(),
        }));
    }
    if let Some(directory) = &batches.directory {
        return Some(BlobLocation::Directory(directory.clone()));
    }
    let is_shared = settings.store.url.as_ref().is_some_and(|url| url.expose().starts_with("postgres"));
    let state = store_opening::state_dir(file, settings);
    (!is_shared).then(|| BlobLocation::Directory(state.join("blobs")))
}
