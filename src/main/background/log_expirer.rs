//! Deletes logs, payloads, sums and entries of the audit log whose time is over, once a day at the settings' time, and once after the start.
//!
//! How long they are kept is the settings' matter (`logs.retention`), how they are deleted the log store's and the store's.

use async_trait::async_trait;
use jiff::Timestamp;
use memory::ledger::Question;
use memory::ledger::log_store::Expiry;
use memory::state::Shared;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::sync::Arc;
use std::time::Duration;
use words::settings::logs::Retention;

/// After the start: a gateway that is started every night would never delete anything.
const FIRST_DELAY: Duration = Duration::from_secs(60);
/// Deleting large tables takes time.
const TIMEOUT: Duration = Duration::from_secs(600);
/// After a failure.
const RETRY: Duration = Duration::from_secs(900);
const MS_A_MINUTE: i64 = 60_000;
const MS_A_DAY: i64 = 24 * 60 * MS_A_MINUTE;

/// Deletes what has expired, to the end of the process.
pub struct LogExpirer(pub Arc<Shared>);

#[async_trait]
impl BackgroundService for LogExpirer {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut wait = FIRST_DELAY;
        loop {
            tokio::select! {
                _ = shutdown.changed() => return,
                () = tokio::time::sleep(wait) => {}
            }
            let is_done = self.expire().await & self.expire_audit().await;
            wait = if is_done { until_next(&self.retention(), now()) } else { RETRY };
        }
    }
}

impl LogExpirer {
    fn retention(&self) -> Retention {
        self.0.settings().settings.logs.retention
    }

    /// Returns whether it is done for today.
    async fn expire_audit(&self) -> bool {
        // An edge node leaves that to others.
        let Some(store) = self.0.store().filter(|store| !store.reads_only()) else { return true };
        let before = before(self.retention().audit, now()).map(Timestamp::from_millisecond);
        let Some(Ok(before)) = before else { return true };
        match store.expire_audit(before).await {
            Ok(0) => true,
            Ok(deleted) => {
                log::info!(target: "turnpike::audit", "deleted by age: {deleted} entries of the audit log");
                true
            }
            Err(why) => {
                log::warn!(target: "turnpike::audit", "old entries of the audit log are not deleted yet: {why}");
                false
            }
        }
    }

    /// The same for the log store.
    async fn expire(&self) -> bool {
        let Some(ledger) = self.0.ledger() else { return true };
        let expiry = expiry(&self.retention(), now());
        match ledger.run(Question::Upkeep, TIMEOUT, move |store, _| store.expire(&expiry)).await {
            Ok(deleted) if deleted.is_empty() => true,
            Ok(deleted) => {
                log::info!(target: "turnpike::ledger", "deleted by age: {}", deleted.join(", "));
                true
            }
            Err(why) => {
                log::warn!(target: "turnpike::ledger", "what has expired is not deleted yet: {why}");
                false
            }
        }
    }
}

fn now() -> i64 {
    Timestamp::now().as_millisecond()
}

/// The times before which rows are over.
fn expiry(retention: &Retention, now: i64) -> Expiry {
    Expiry {
        rows: before(retention.rows, now),
        payloads: before(retention.payloads, now),
        metrics: before(retention.metrics, now),
    }
}

/// What is older than this time is over; `None`: nothing is.
fn before(age: Option<Duration>, now: i64) -> Option<i64> {
    Some(now - i64::try_from(age?.as_millis()).ok()?)
}

/// Until the settings' time of day comes next.
fn until_next(retention: &Retention, now: i64) -> Duration {
    let at = i64::from(retention.at_minute) * MS_A_MINUTE;
    let wait = (at - now.rem_euclid(MS_A_DAY)).rem_euclid(MS_A_DAY);
    let wait = if wait == 0 { MS_A_DAY } else { wait };
    Duration::from_millis(wait.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_time_is_today_or_tomorrow() {
        let retention = Retention { at_minute: 180, ..Retention::default() };
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        let midnight = 20_000 * MS_A_DAY;
        assert_eq!(until_next(&retention, midnight), hours(3));
        assert_eq!(until_next(&retention, midnight + 3 * 60 * MS_A_MINUTE), hours(24));
        assert_eq!(until_next(&retention, midnight + 4 * 60 * MS_A_MINUTE), hours(23));
        let kept = expiry(&retention, midnight);
        assert_eq!(kept.payloads, Some(midnight - 30 * MS_A_DAY));
        assert_eq!(expiry(&Retention { rows: None, ..retention }, midnight).rows, None);
    }
}
