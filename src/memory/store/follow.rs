//! Keeps the catalog up to date with what other processes write, and the snapshot on disk with the catalog.
//!
//! One task of the process runs [`Store::follow`]. Applying what was read is `store`'s.

use super::{Store, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a change of another process may stay unnoticed where the database does not announce it.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Between two tries to reach a database that is down.
const FIRST_RETRY: Duration = Duration::from_millis(250);
const MAX_RETRY: Duration = Duration::from_secs(5);
/// After this time without the database everything is read again.
const MAX_ABSENCE: Duration = Duration::from_secs(3600);
/// How long changes are collected before the snapshot is written.
const SNAPSHOT_DELAY: Duration = Duration::from_secs(1);
/// Writing a snapshot takes at most this share of the time: 1/50.
const SNAPSHOT_SHARE: u32 = 50;

impl Store {
    /// Runs until `shutdown`, then writes the last snapshot.
    pub async fn follow(self: Arc<Self>, shutdown: impl Future<Output = ()> + Send) {
        tokio::select! {
            () = shutdown => {}
            () = self.follow_database() => {}
            () = self.write_snapshots() => {}
        }
        self.write_snapshot().await;
    }

    async fn follow_database(&self) {
        let mut retry = FIRST_RETRY;
        let mut last_success = Instant::now();
        loop {
            let done = match self.backend() {
                Ok(backend) if last_success.elapsed() > MAX_ABSENCE => self.load(backend).await.map(|_| ()),
                Ok(backend) => {
                    backend.changed(self.catalog().position, POLL_INTERVAL).await;
                    self.catch_up(backend).await.map(|_| ())
                }
                Err(_) => self.connect().await,
            };
            match done {
                Ok(()) => {
                    retry = FIRST_RETRY;
                    last_success = Instant::now();
                }
                Err(_) => {
                    sleep(retry).await;
                    retry = (retry * 2).min(MAX_RETRY);
                }
            }
        }
    }

    async fn write_snapshots(self: &Arc<Self>) {
        let mut updated = self.updated();
        updated.mark_changed();
        loop {
            if updated.changed().await.is_err() {
                return;
            }
            sleep(SNAPSHOT_DELAY).await;
            updated.mark_unchanged();
            let begin = Instant::now();
            self.write_snapshot().await;
            sleep(begin.elapsed() * SNAPSHOT_SHARE).await;
        }
    }

    async fn write_snapshot(self: &Arc<Self>) {
        // The disk already has a catalog that was read from it, and without a database nothing was read yet.
        if self.backend().is_err() {
            return;
        }
        let store = Arc::clone(self);
        let saved = tokio::task::spawn_blocking(move || store.save_snapshot()).await;
        let saved = saved.unwrap_or_else(|why| Err(StoreError::Unavailable(why.to_string())));
        if let Err(error) = saved {
            log::error!(target: "turnpike", "the snapshot of the store on disk is not up to date: {error}");
        }
    }
}
