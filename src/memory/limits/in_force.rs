//! The limits in force: those of the active records and of the settings' keys and providers. Where records have changed, the next set is made of the one
//! before: the time depends on the number of changes and not on the number of records.
//!
//! A request that meets an unchanged snapshot compares two pointers.

use super::from_records::{
    KINDS, limits_of, limits_of_key, limits_of_provider, settings_key_id, settings_provider_id, usage_ids,
};
use super::limit::Limit;
use super::limit_set::{BucketHash, LimitSet};
use super::window::NEVER;
use crate::state::snapshot::SettingsSnapshot;
use crate::store::{Catalog, Kind, Record, Status};
use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::HashSet;
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
    set: Arc<LimitSet>,
    /// When the first raise of a limit ends, milliseconds since 1970: limits are compiled again then.
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
        let compiled = Compiled::after(before.as_deref(), snapshot, hash, clock());
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
    active.flat_map(|record| usage_ids(record)).chain(settings_ids(&snapshot.settings)).collect()
}

/// Under which ids usage of what the settings name is kept.
fn settings_ids(settings: &Settings) -> impl Iterator<Item = Uuid> {
    let keys = settings.auth.keys.iter().map(|key| settings_key_id(&key.name));
    keys.chain(settings.providers.keys().map(|slug| settings_provider_id(slug)))
}

/// The limits that the settings have.
fn limits_of_settings(settings: &Settings, now: Timestamp) -> Vec<Limit> {
    let keys = settings.auth.keys.iter().flat_map(|key| limits_of_key(key, now));
    let providers = settings.providers.iter();
    keys.chain(providers.flat_map(|(slug, provider)| limits_of_provider(slug, provider, now))).collect()
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
        let settings = &snapshot.settings;
        let catalog = snapshot.stored.catalog();
        let nothing = Catalog::default();
        let catalog_before = before.map_or(&nothing, |before| &*before.catalog);
        let mut pairs = changes(catalog_before, catalog);
        // Of limits that are raised no more the records have not changed.
        let over = before.map(|before| before.set.raised_no_more(now.as_millisecond())).unwrap_or_default();
        let unchanged = over.iter().filter(|id| pairs.iter().all(|pair| pair.id != **id));
        let unchanged: Vec<Pair<'_>> = unchanged.filter_map(|id| Pair::of_unchanged(*id, catalog)).collect();
        pairs.extend(unchanged);
        let settings_before = before.map(|before| &*before.settings);
        let have_changed = before.is_none_or(|before| !Arc::ptr_eq(&before.settings, settings))
            || settings_before.is_some_and(|before| settings_ids(before).any(|id| over.contains(&id)));
        let of_settings = |settings: Option<&Settings>| -> Vec<Limit> {
            settings.filter(|_| have_changed).map(|of| limits_of_settings(of, now)).unwrap_or_default()
        };
        let mut removed: Vec<Limit> = of_settings(settings_before);
        pairs.retain(|pair| {
            let limits = pair.before.map(|record| limits_of(record, catalog_before, now)).unwrap_or_default();
            // Most changes of keys are notes of their last use. What policies say depends on other records too.
            let is_same = |record: &Arc<Record>| {
                record.kind == Kind::ApiKey
                    && pair.before.is_some()
                    && !over.contains(&pair.id)
                    && limits_of(record, catalog, now) == limits
            };
            let has_changed = !pair.now.is_some_and(is_same);
            removed.extend(limits.into_iter().filter(|_| has_changed));
            has_changed
        });
        let records = pairs.iter().filter_map(|pair| pair.now);
        let added = records.flat_map(|record| limits_of(record, catalog, now));
        let mut added = added.chain(of_settings(Some(settings))).peekable();
        let set = match before {
            Some(before) if removed.is_empty() && added.peek().is_none() => Arc::clone(&before.set),
            Some(before) => Arc::new(before.set.with(&removed, added)),
            None => Arc::new(LimitSet::new(added, hash)),
        };
        let until = set.raised_until().unwrap_or(NEVER);
        Self { settings: Arc::clone(settings), catalog: Arc::clone(catalog), set, until }
    }
}

/// A record whose limits are to be compiled again, as it was in force and as it is.
struct Pair<'a> {
    id: Uuid,
    before: Option<&'a Arc<Record>>,
    now: Option<&'a Arc<Record>>,
}

impl<'a> Pair<'a> {
    /// `None` for what is no record: a key of the settings.
    fn of_unchanged(id: Uuid, catalog: &'a Catalog) -> Option<Self> {
        let record = KINDS.into_iter().find_map(|kind| catalog.get(kind, id))?;
        Some(Self { id, before: Some(record), now: Some(record) })
    }
}

/// The records of kinds with limits that are not the same in two catalogs; archived ones are not in force.
fn changes<'a>(before: &'a Catalog, now: &'a Catalog) -> Vec<Pair<'a>> {
    let active = |record: Option<&'a Arc<Record>>| record.filter(|record| record.status == Status::Active);
    let changed = now.changed_since(before).filter(|change| KINDS.contains(&change.kind));
    let pairs =
        changed.map(|change| Pair { id: change.id, before: active(change.before), now: active(change.now) });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Change;
    use words::config::Checks;
    use words::settings::SecretSources;

    /// No record changes when a raise ends.
    #[test]
    fn a_raise_ends_by_itself() {
        let yaml = "auth: {keys: [{name: a, key: k-0123456789abcdef, usage_limits: [{credit_limit: 5, raise: \
                    {amount: 2, until: '2026-12-01T00:00:00Z'}}]}]}";
        let checks = Checks::NONE;
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

    /// Each set is made of the one before, with what has changed.
    #[test]
    fn a_set_made_of_the_one_before_is_that_of_all_records() {
        let checks = Checks::NONE;
        let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
        let of_keys = |value: u64| {
            let limits =
                format!("{{credit_limit: 5, raise: {{amount: {value}, until: '2026-12-01T00:00:00Z'}}}}");
            let yaml = format!(
                "auth: {{keys: [{{name: a, key: k-0123456789abcdef, usage_limits: [{limits}]}}, \
                 {{name: b, key: k-0123456789abcdeg, rate_limits: [{{type: requests, unit: rpm, value: {value}}}]}}]}}"
            );
            Settings::parse(&yaml, &sources, &checks).unwrap()
        };
        let mut random = fastrand::Rng::with_seed(3);
        let mut snapshot = SettingsSnapshot::new(of_keys(1), 1);
        let mut catalog = Catalog::default();
        let in_force = InForce::default();
        let mut now = "2026-11-01T00:00:00Z".parse::<Timestamp>().unwrap();
        for round in 1..200 {
            let changes: Vec<Change> = (0..random.usize(0..4)).map(|_| change(&mut random, round)).collect();
            catalog = catalog.with(&changes, round);
            if random.u8(..20) == 0 {
                snapshot = SettingsSnapshot::new(of_keys(round), round);
            }
            now = now.checked_add(jiff::SignedDuration::from_hours(random.i64(0..12))).unwrap();
            snapshot = snapshot.with_catalog(Arc::new(catalog.clone()));
            let set = in_force.set(&snapshot, BucketHash::Common, || now, |_| {});
            let fresh = Compiled::after(None, &snapshot, BucketHash::Common, now).set;
            let all = |set: &LimitSet| {
                let mut all: Vec<String> = set.limits().map(|limit| format!("{limit:?}")).collect();
                all.sort_unstable();
                all
            };
            assert_eq!(all(&set), all(&fresh), "round {round}");
            assert_eq!(set.raised_until(), fresh.raised_until(), "round {round}");
            let counts = |set: &LimitSet| {
                (
                    set.has_request_limits(),
                    set.has_target_limits(),
                    set.has_hard_budgets(),
                    set.counts_usage(),
                    set.counts_usage_of_requests(),
                )
            };
            assert_eq!(counts(&set), counts(&fresh), "round {round}");
        }
    }

    /// One of a few records made, changed or deleted.
    fn change(random: &mut fastrand::Rng, revision: u64) -> Change {
        let number = random.u128(1..12);
        let kind = KINDS[usize::try_from(number).unwrap() % KINDS.len()];
        let id = Uuid::from_u128(number);
        if random.u8(..4) == 0 {
            return Change::Delete { kind, id };
        }
        let value = random.u32(1..5);
        let workspace = Uuid::from_u128(77);
        let usage = serde_json::json!({
            "type": "cost", "credit_limit": value, "hard": value == 1,
            "raise": {"amount": 2, "until": format!("2026-11-{:02}T00:00:00Z", random.u8(1..30))},
        });
        let raise = usage["raise"].clone();
        let rate = serde_json::json!({"unit": "rpm", "value": value, "type": "requests"});
        let body = serde_json::json!({
            "name": "x", "type": "cost", "credit_limit": value, "raise": raise, "unit": "rpm", "value": value,
            "conditions": [{"key": if value > 2 { "model" } else { "metadata._user" }, "value": "*"}],
            "usage_limits": [usage.clone(), usage], "rate_limits": rate.clone(),
            "workspaces": [{"id": workspace, "rate_limits": rate}],
        });
        let status = if random.u8(..8) == 0 { Status::Archived } else { Status::Active };
        Change::Put(Arc::new(Record {
            kind,
            id,
            parent: None,
            workspace: Some(workspace).filter(|_| number.is_multiple_of(2)),
            slug: None,
            number: None,
            status,
            revision,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            body: body.to_string().into(),
            sealed: None,
        }))
    }
}
