//! The rows of the journal, and how the state of a bucket becomes one and is restored from one.

use super::super::entity::{Entity, State};
use super::super::value_key::kept;
use super::super::window::Window;
use std::sync::Arc;
use uuid::Uuid;

/// The key of a row: which bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::limits) struct BucketName {
    pub entity: u128,
    pub window_start: i64,
    pub generation: u64,
}

/// What is added to the row of a bucket.
pub(super) struct UsageRow {
    pub name: BucketName,
    pub window_end: i64,
    pub limit: (Uuid, u8),
    pub value_key: Arc<str>,
    /// To `spent`.
    pub added: i64,
    pub unreconciled: i64,
    /// The marks that were reported; `None`: as in the row.
    pub sent: Option<(i64, i64)>,
}

/// A row as it was read.
pub(in crate::limits) struct Loaded {
    pub name: BucketName,
    pub window_end: i64,
    pub limit: (Uuid, u8),
    pub value_key: String,
    pub spent: i64,
    pub unreconciled: i64,
    pub sent: (i64, i64),
}

/// What a request holds of a hard limit.
#[derive(Debug, Clone)]
pub(in crate::limits) struct HoldRow {
    /// Of the reservation.
    pub id: Uuid,
    pub name: BucketName,
    pub amount: i64,
    /// Of the bucket, where it has no row yet.
    pub window_end: i64,
    pub limit: (Uuid, u8),
    pub value_key: Arc<str>,
}

/// A hold that is over.
#[derive(Debug, Clone)]
pub(in crate::limits) struct Settled {
    pub id: Uuid,
    pub name: BucketName,
    pub amount: i64,
}

impl HoldRow {
    /// The reservation and the bucket.
    pub(super) fn key(&self) -> (Uuid, u128) {
        (self.id, self.name.entity)
    }
}

impl Settled {
    /// That of its [`HoldRow`].
    pub(super) fn key(&self) -> (Uuid, u128) {
        (self.id, self.name.entity)
    }
}

impl BucketName {
    pub(super) fn of(entity: &Entity) -> Self {
        entity.state.lock().name(entity.id)
    }
}

impl UsageRow {
    /// What the journal lacks of the present bucket.
    pub(super) fn present(entity: &Entity, state: &State) -> Self {
        Self {
            unreconciled: state.unreconciled,
            sent: Some((state.threshold_sent, state.exhausted_sent)),
            ..Self::new(
                entity,
                state.window,
                state.generation(),
                state.spent.saturating_sub(state.journalled),
            )
        }
    }
}

impl Entity {
    pub(super) fn restored(row: &Loaded) -> Self {
        let window = Window { start: row.name.window_start, end: row.window_end };
        Self {
            id: row.name.entity,
            limit: row.limit,
            value_key: kept(&row.value_key).into(),
            state: parking_lot::Mutex::new(State::restored(window, row.name.generation)),
        }
    }
}

impl State {
    /// Which row it is written to.
    pub(in crate::limits) fn name(&self, entity: u128) -> BucketName {
        BucketName { entity, window_start: self.window.start, generation: self.generation() }
    }

    /// Takes over what the row has.
    pub(super) fn restore(&mut self, row: &Loaded) {
        if row.name != self.name(row.name.entity) {
            return;
        }
        let unwritten = self.spent.saturating_sub(self.journalled);
        self.spent = row.spent.saturating_add(unwritten);
        self.journalled = row.spent;
        self.unreconciled = row.unreconciled;
        (self.threshold_sent, self.exhausted_sent) = row.sent;
    }

    /// Counts what another process has used of this bucket.
    pub(super) fn add_foreign_use(&mut self, name: &BucketName, amount: i64) {
        if *name == self.name(name.entity) {
            self.spent = self.spent.saturating_add(amount);
            self.journalled = self.journalled.saturating_add(amount);
        }
    }

    /// What other processes hold of this bucket, and what its row (`spent`, `unreconciled`) has come to.
    pub(super) fn set_foreign(&mut self, name: &BucketName, held: i64, row: Option<(i64, i64)>) {
        if *name != self.name(name.entity) {
            self.foreign_held = 0;
            return;
        }
        self.foreign_held = held;
        if let Some((spent, unreconciled)) = row {
            let added = spent.saturating_sub(self.journalled);
            self.add_foreign_use(name, added);
            self.unreconciled = unreconciled;
        }
    }
}
