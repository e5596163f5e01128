//! The lists of models of stored providers, kept for a few minutes.
//!
//! Not how a list is fetched (`engine::model_list`). Bounded by the stored providers, one list for each workspace and slug; another
//! generation of settings or of the store starts anew.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;
use words::api::model_list::ProviderModel;

/// How long a list is used.
const TIME_TO_LIVE: Duration = Duration::from_secs(300);
/// How long a failure is remembered, so that a provider that is down does not delay every list.
const FAILURE_TIME_TO_LIVE: Duration = Duration::from_secs(30);

/// How long a list may stand for that of a provider that does not answer.
const KNOWN_FOR: Duration = Duration::from_secs(3600);
/// Why there is no list.
const UNANSWERED: &str = "no answer in time";

/// The models of a provider, or why it gave no list.
pub type Fetched = Result<Arc<[ProviderModel]>, Arc<str>>;

/// What is kept of all stored providers.
#[derive(Debug, Default)]
pub struct ModelLists {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    generation: u64,
    slots: HashMap<String, Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    /// Held by the one request that fetches the list.
    fetching: Arc<tokio::sync::Mutex<()>>,
    /// With the time until which it is used.
    fetched: Option<(Instant, Fetched)>,
    /// The last list, with the time until which it stands for one that does not come.
    last: Option<(Instant, Arc<[ProviderModel]>)>,
}

impl Kept {
    /// The slot of a provider; `None` for a generation of settings that is over.
    fn slot(&mut self, slug: &str, generation: u64) -> Option<&mut Slot> {
        if generation < self.generation {
            return None;
        }
        if generation > self.generation {
            *self = Self { generation, slots: HashMap::new() };
        }
        if !self.slots.contains_key(slug) {
            self.slots.insert(slug.to_owned(), Slot::default());
        }
        self.slots.get_mut(slug)
    }
}

impl ModelLists {
    /// The list of the stored provider `slug`, if it is fresh at `now`.
    pub fn get(&self, slug: &str, generation: u64, now: Instant) -> Option<Fetched> {
        let mut kept = self.kept.lock();
        let fetched = kept.slot(slug, generation)?.fetched.as_ref()?;
        (now < fetched.0).then(|| fetched.1.clone())
    }

    /// The last list that a stored provider gave to clients of a workspace, if it was not long ago.
    pub fn last_list(
        &self,
        workspace: Option<Uuid>,
        slug: &str,
        generation: u64,
    ) -> Option<Arc<[ProviderModel]>> {
        let kept = self.kept.lock();
        let slot = kept.slots.get(&Self::key(workspace, slug)).filter(|_| kept.generation == generation)?;
        slot.last.as_ref().map(|(_, models)| Arc::clone(models))
    }

    /// Under which the list of a stored provider is kept: workspaces have providers of the same slug.
    pub fn key(workspace: Option<Uuid>, slug: &str) -> String {
        workspace.map_or_else(|| slug.to_owned(), |workspace| format!("{workspace}/{slug}"))
    }

    /// Drops the lists whose time is over.
    pub fn drop_expired(&self, now: Instant) {
        for slot in self.kept.lock().slots.values_mut() {
            slot.fetched.take_if(|(until, _)| now >= *until);
            slot.last.take_if(|(until, _)| now >= *until);
        }
    }

    /// To be locked while the list is fetched: others wait for the result instead of fetching it too.
    pub fn fetching(&self, slug: &str, generation: u64) -> Arc<tokio::sync::Mutex<()>> {
        let mut kept = self.kept.lock();
        kept.slot(slug, generation).map(|slot| Arc::clone(&slot.fetching)).unwrap_or_default()
    }

    pub fn insert(&self, slug: &str, generation: u64, fetched: Fetched, now: Instant) {
        if let Some(slot) = self.kept.lock().slot(slug, generation) {
            let time_to_live = match &fetched {
                Ok(models) => {
                    slot.last = Some((now + KNOWN_FOR, Arc::clone(models)));
                    TIME_TO_LIVE
                }
                Err(_) => FAILURE_TIME_TO_LIVE,
            };
            slot.fetched = Some((now + time_to_live, fetched));
        }
    }

    /// The provider did not answer: its last list stands for a while, if there is one.
    pub fn insert_unanswered(&self, slug: &str, generation: u64, now: Instant) -> Fetched {
        let mut kept = self.kept.lock();
        let Some(slot) = kept.slot(slug, generation) else { return Err(Arc::from(UNANSWERED)) };
        let last = slot.last.as_ref().filter(|(until, _)| now < *until);
        let fetched = last.map(|(_, models)| Arc::clone(models)).ok_or_else(|| Arc::from(UNANSWERED));
        slot.fetched = Some((now + FAILURE_TIME_TO_LIVE, fetched.clone()));
        fetched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_kept_for_its_time_and_its_settings() {
        let lists = ModelLists::default();
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let models: Fetched = Ok(Arc::from([ProviderModel { id: "m".into(), created: 0, facts: None }]));
        let failure: Fetched = Err(Arc::from("401"));
        assert_eq!(lists.get("a", 3, start), None);
        lists.insert("a", 3, models.clone(), start);
        lists.insert("b", 3, failure.clone(), start);
        assert_eq!(lists.get("a", 3, after(299)), Some(models.clone()));
        assert_eq!(lists.get("a", 3, after(300)), None);
        assert_eq!(lists.get("b", 3, after(29)), Some(failure));
        assert_eq!(lists.get("b", 3, after(30)), None);
        // A request that began under older settings neither reads nor writes.
        lists.insert("a", 2, Err(Arc::from("old")), start);
        assert_eq!((lists.get("a", 2, start), lists.get("a", 3, start)), (None, Some(models)));
        assert_eq!(lists.get("a", 4, start), None);
        assert_eq!(lists.kept.lock().slots.len(), 1);
    }

    #[test]
    fn lists_are_dropped_while_no_request_comes() {
        let lists = ModelLists::default();
        let start = Instant::now();
        let models: Arc<[ProviderModel]> =
            Arc::from([ProviderModel { id: "m".into(), created: 0, facts: None }]);
        let kept = Arc::downgrade(&models);
        lists.insert("a", 1, Ok(models), start);
        lists.drop_expired(start + Duration::from_secs(3599));
        assert_eq!((kept.strong_count(), lists.get("a", 1, start + Duration::from_secs(300))), (1, None));
        lists.drop_expired(start + Duration::from_secs(3600));
        assert_eq!(kept.strong_count(), 0);
    }

    #[test]
    fn the_last_list_stands_for_one_that_does_not_come() {
        let lists = ModelLists::default();
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(lists.insert_unanswered("a", 1, start), Err(Arc::from(UNANSWERED)));
        let models: Fetched = Ok(Arc::from([ProviderModel { id: "m".into(), created: 0, facts: None }]));
        lists.insert("a", 1, models.clone(), start);
        assert_eq!(lists.insert_unanswered("a", 1, after(300)), models);
        assert_eq!(lists.get("a", 1, after(329)), Some(models));
        assert_eq!(lists.get("a", 1, after(330)), None, "asked again");
        assert!(lists.insert_unanswered("a", 1, after(3600)).is_err());
    }

    #[test]
    fn one_request_at_a_time_fetches_a_list() {
        let lists = ModelLists::default();
        let first = lists.fetching("a", 1);
        let second = lists.fetching("a", 1);
        let held = first.try_lock();
        assert!(held.is_ok() && second.try_lock().is_err() && lists.fetching("b", 1).try_lock().is_ok());
    }
}
