//! The limits in force: those of the active records and of the settings' keys, compiled again when one of them has changed.
//!
//! A request that meets an unchanged snapshot compares two pointers. Records that have not changed are not read again.

use super::from_records::{KINDS, limits_of, limits_of_key, settings_key_id, usage_ids};
use super::limit::Limit;
use super::limit_set::{BucketHash, LimitSet};
use super::window::NEVER;
use crate::state::snapshot::SettingsSnapshot;
use crate::store::{Catalog, Status};
use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use uuid::Uuid;
use words::settings::Settings;

/// What was compiled last.
#[derive(Debug, Default)]
pub(super) struct InForce {
    current: ArcSwapOption<Compiled>,
    /// Held while another is compiled, so that one request does it and the others wait for it.
    compiling: Mutex<()>,
}

#[derive(Debug)]
struct Compiled {
    settings: Arc<Settings>,
    catalog: Arc<Catalog>,
    /// By the id of the record. Only those that have limits.
    records: HashMap<Uuid, Arc<[Limit]>>,
    set: Arc<LimitSet>,
    /// When the first raise of a limit ends, milliseconds since 1970: all is compiled again then.
    until: i64,
}

impl InForce {
    /// The limits of this snapshot.
    ///
    /// `clock`: the time, which matters only while a limit is raised. `on_settings` is called with settings that are not those of before.
    pub(super) fn set(
        &self,
        snapshot: &SettingsSnapshot,
        hash: BucketHash,
        clock: impl Fn() -> Timestamp,
        on_settings: impl FnOnce(&Settings),
    ) -> Arc<LimitSet> {
        if let Some(current) = &*self.current.load()
            && current.is_of(snapshot, &clock)
        {
            return Arc::clone(&current.set);
        }
        let _one = self.compiling.lock();
        let before = self.current.load_full();
        if let Some(before) = before.as_ref().filter(|before| before.is_of(snapshot, &clock)) {
            return Arc::clone(&before.set);
        }
        if before.as_ref().is_none_or(|before| !Arc::ptr_eq(&before.settings, &snapshot.settings)) {
            on_settings(&snapshot.settings);
        }
        let now = clock();
        // Of limits that are raised no more the records have not changed.
        let before = before.filter(|before| !before.is_over(now));
        let compiled = Compiled::after(before.as_deref(), snapshot, hash, now);
        let set = Arc::clone(&compiled.set);
        self.current.store(Some(Arc::new(compiled)));
        set
    }
}

/// Under which ids usage of the present records and keys may be kept.
pub(super) fn present_ids(snapshot: &SettingsSnapshot) -> HashSet<Uuid> {
    let catalog = snapshot.stored.catalog();
    let records = KINDS.into_iter().flat_map(|kind| catalog.all(kind));
    let active = records.filter(|record| record.status == Status::Active);
    let keys = snapshot.settings.auth.keys.iter().map(|key| settings_key_id(&key.name));
    active.flat_map(|record| usage_ids(record)).chain(keys).collect()
}

impl Compiled {
    fn is_of(&self, snapshot: &SettingsSnapshot, clock: impl Fn() -> Timestamp) -> bool {
        Arc::ptr_eq(&self.catalog, snapshot.stored.catalog())
            && Arc::ptr_eq(&self.settings, &snapshot.settings)
            && (self.until == NEVER || !self.is_over(clock()))
    }

    fn is_over(&self, now: Timestamp) -> bool {
        now.as_millisecond() >= self.until
    }

    fn after(before: Option<&Self>, snapshot: &SettingsSnapshot, hash: BucketHash, now: Timestamp) -> Self {
        let catalog = snapshot.stored.catalog();
        let nothing = Catalog::default();
        let none = HashMap::new();
        let (catalog_before, mut records) =
            before.map_or((&nothing, none), |before| (&*before.catalog, before.records.clone()));
        let mut is_changed = before.is_none_or(|before| !Arc::ptr_eq(&before.settings, &snapshot.settings));
        for difference in catalog.changed_since(catalog_before) {
            if !KINDS.contains(&difference.kind) {
                continue;
            }
            is_changed |= records.remove(&difference.id).is_some();
            let record = difference.now.filter(|record| record.status == Status::Active);
            let limits = record.map(|record| limits_of(record, catalog, now)).unwrap_or_default();
            if !limits.is_empty() {
                records.insert(difference.id, limits.into());
                is_changed = true;
            }
        }
        let set = match before {
            Some(before) if !is_changed => Arc::clone(&before.set),
            _ => {
                let of_keys = snapshot.settings.auth.keys.iter().flat_map(|key| limits_of_key(key, now));
                let of_records = records.values().flat_map(|limits| limits.iter().cloned());
                Arc::new(LimitSet::new(of_records.chain(of_keys).collect(), hash))
            }
        };
        let until = set.limits().filter_map(|limit| limit.raised_until).min().unwrap_or(NEVER);
        Self { settings: Arc::clone(&snapshot.settings), catalog: Arc::clone(catalog), records, set, until }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use words::config::Checks;
    use words::settings::SecretSources;

    /// No record changes when a raise ends.
    #[test]
    fn a_raise_ends_by_itself() {
        let yaml = "auth: {keys: [{name: a, key: k-0123456789abcdef, usage_limits: [{credit_limit: 5, raise: \
                    {amount: 2, until: '2026-12-01T00:00:00Z'}}]}]}";
        let checks = Checks { provider: &|_| Ok(()), account: &|_, _| Ok(()), custom_host: &|_| Ok(()) };
        let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
        let settings = Settings::parse(yaml, &sources, &checks).unwrap();
        let snapshot = SettingsSnapshot::new(settings, 1);
        let in_force = InForce::default();
        let value = |time: &str| {
            let clock = || time.parse::<Timestamp>().unwrap();
            let set = in_force.set(&snapshot, BucketHash::Common, clock, |_| {});
            let values: Vec<i64> = set.limits().map(|limit| limit.value()).collect();
            values
        };
        assert_eq!(value("2026-11-30T23:59:59.999Z"), [7_000_000_000]);
        assert_eq!(value("2026-12-01T00:00:00Z"), [5_000_000_000]);
        assert_eq!(value("2026-12-02T00:00:00Z"), [5_000_000_000]);
    }
}
