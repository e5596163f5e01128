//! All current records of the store in memory: immutable, replaced as a whole with every change. The next one shares all
//! that has not changed.
//!
//! Looked up by id, by slug and by parent. Does not know what bodies mean.

use super::{Change, Kind, Record};
use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use std::sync::Arc;
use uuid::Uuid;

/// A slug's place: the same slug may exist in another workspace.
type SlugKey = (Kind, Option<Uuid>, String);

/// A record that is not the same in two catalogs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Difference<'a> {
    pub kind: Kind,
    pub id: Uuid,
    pub before: Option<&'a Arc<Record>>,
    pub now: Option<&'a Arc<Record>>,
}

/// The records of one moment.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// In order of their ids, which are in order of time.
    by_id: OrdMap<(Kind, Uuid), Arc<Record>>,
    by_slug: OrdMap<SlugKey, Uuid>,
    /// Ids of the records that belong to another one.
    by_parent: OrdMap<(Kind, Uuid, Uuid), ()>,
    /// The position of the database up to which it is complete.
    pub position: u64,
}

impl Catalog {
    pub fn new(records: impl IntoIterator<Item = Arc<Record>>, position: u64) -> Self {
        let mut catalog = Self { position, ..Self::default() };
        for record in records {
            catalog.put(record);
        }
        catalog
    }

    /// This catalog after `changes`.
    #[must_use]
    pub fn with(&self, changes: &[Change], position: u64) -> Self {
        let mut next = self.clone();
        next.position = position;
        for change in changes {
            match change {
                Change::Put(record) => next.put(Arc::clone(record)),
                Change::Delete { kind, id } => next.remove(*kind, *id),
            }
        }
        next
    }

    /// The records that are not the same in `before`, in order of kind and id. Parts that both share are skipped, so that the time depends
    /// on the number of changes and not on the number of records.
    pub(crate) fn changed_since<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = Difference<'a>> {
        before.by_id.diff(&self.by_id).map(|item| {
            let ((kind, id), before, now) = match item {
                DiffItem::Add(key, now) => (key, None, Some(now)),
                DiffItem::Update { old: (_, before), new: (key, now) } => (key, Some(before), Some(now)),
                DiffItem::Remove(key, before) => (key, Some(before), None),
            };
            Difference { kind: *kind, id: *id, before, now }
        })
    }

    pub fn get(&self, kind: Kind, id: Uuid) -> Option<&Arc<Record>> {
        self.by_id.get(&(kind, id))
    }

    /// The record with this slug in this workspace, or in the organisation for `None`.
    pub fn by_slug(&self, kind: Kind, workspace: Option<Uuid>, slug: &str) -> Option<&Arc<Record>> {
        let id = self.by_slug.get(&(kind, workspace, slug.to_owned()))?;
        self.get(kind, *id)
    }

    /// All records of a kind, the oldest first.
    pub fn all(&self, kind: Kind) -> impl DoubleEndedIterator<Item = &Arc<Record>> {
        self.by_id.range((kind, Uuid::nil())..=(kind, Uuid::max())).map(|(_, record)| record)
    }

    /// The records of a kind that belong to `parent`, the oldest first.
    pub fn children(&self, kind: Kind, parent: Uuid) -> impl DoubleEndedIterator<Item = &Arc<Record>> {
        let range = (kind, parent, Uuid::nil())..=(kind, parent, Uuid::max());
        self.by_parent.range(range).filter_map(move |((_, _, id), ())| self.get(kind, *id))
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    fn put(&mut self, record: Arc<Record>) {
        if !record.kind.is_in_memory() {
            return;
        }
        self.remove(record.kind, record.id);
        if let Some(slug) = &record.slug {
            self.by_slug.insert((record.kind, record.workspace, slug.clone()), record.id);
        }
        if let Some(parent) = record.parent {
            self.by_parent.insert((record.kind, parent, record.id), ());
        }
        self.by_id.insert((record.kind, record.id), record);
    }

    fn remove(&mut self, kind: Kind, id: Uuid) {
        let Some(record) = self.by_id.remove(&(kind, id)) else { return };
        if let Some(slug) = &record.slug {
            let key = (kind, record.workspace, slug.clone());
            // Another record may have taken it in the same write.
            if self.by_slug.get(&key) == Some(&id) {
                self.by_slug.remove(&key);
            }
        }
        if let Some(parent) = record.parent {
            self.by_parent.remove(&(kind, parent, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Status;
    use jiff::Timestamp;

    fn record(id: u128, slug: &str, revision: u64) -> Arc<Record> {
        Arc::new(Record {
            kind: Kind::Config,
            id: Uuid::from_u128(id),
            parent: None,
            workspace: None,
            slug: Some(slug.to_owned()),
            number: None,
            status: Status::Active,
            revision,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            body: "{}".into(),
            sealed: None,
        })
    }

    #[test]
    fn only_what_differs_between_catalogs_is_found() {
        let records = |changed: u128| {
            (1..500u128).map(move |id| record(id, &id.to_string(), 1 + u64::from(id == changed)))
        };
        let before = Catalog::new(records(0), 1);
        let gone = Change::Delete { kind: Kind::Config, id: Uuid::from_u128(9) };
        let next = before.with(&[Change::Put(record(7, "7", 2)), Change::Put(record(1000, "x", 1)), gone], 2);
        let read_again =
            Catalog::new(records(7).filter(|found| found.id.as_u128() != 9).chain([record(1000, "x", 1)]), 2);
        for now in [&next, &read_again] {
            let found = now.changed_since(&before);
            let found = found.map(|one| (one.id.as_u128(), one.before.is_some(), one.now.is_some()));
            assert_eq!(found.collect::<Vec<_>>(), [(7, true, true), (9, true, false), (1000, false, true)]);
        }
        assert_eq!(next.changed_since(&next).count() + read_again.changed_since(&next).count(), 0);
    }

    #[test]
    fn a_slug_that_passes_from_one_record_to_another_is_found_in_whatever_order_they_change() {
        let catalog = Catalog::new([record(1, "a", 1), record(2, "b", 1)], 1);
        let changes = [Change::Put(record(1, "b", 2)), Change::Put(record(2, "a", 2))];
        for changes in [changes.clone(), [changes[1].clone(), changes[0].clone()]] {
            let next = catalog.with(&changes, 2);
            let id = |slug| next.by_slug(Kind::Config, None, slug).unwrap().id.as_u128();
            assert_eq!((id("a"), id("b"), next.len()), (2, 1, 2));
        }
        let one = Change::Put(record(3, "a", 1));
        let gone = Change::Delete { kind: Kind::Config, id: Uuid::from_u128(1) };
        for changes in [[one.clone(), gone.clone()], [gone, one]] {
            assert_eq!(catalog.with(&changes, 2).by_slug(Kind::Config, None, "a").unwrap().id.as_u128(), 3);
        }
    }
}
