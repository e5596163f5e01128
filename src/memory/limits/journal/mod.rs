//! The journal of an embedded gateway's limits: a SQLite file of its own, so that counting never waits for the store, nor the store
//! for counting.
//!
//! Usage is written in batches, as what was added: two processes on one file (one that drains, one that took over) add up. Holds of
//! hard limits are written before their request is sent. Pure of clocks; the thread is in `writer`.

mod gone;
mod rows;
mod tables;
mod writer;

pub(super) use rows::{BucketName, HoldRow, Settled};
pub(super) use writer::Writer;

use super::buckets::{Buckets, Sink};
use super::entity::{Entity, Past};
use super::limit_set::BucketHash;
use super::window::Window;
use crate::store::OpenFiles;
use rows::UsageRow;
use rusqlite::{Connection, TransactionBehavior};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

/// How long rows of windows that are over are kept, for settlements that come late: a day.
const KEEP_OVER: i64 = 24 * 3_600_000;
/// Rows that wait while the file cannot be written. More are given up, and counted.
const MAX_PENDING: usize = 1_000_000;

/// The file, and what it lacks.
pub(super) struct Journal {
    connection: Connection,
    files: OpenFiles,
    /// This process, in the rows of its holds.
    owner: Uuid,
    /// How long another process's hold counts as one, milliseconds; after that as spent.
    hold_lifetime: i64,
    pending: HashMap<BucketName, Pending>,
    /// Holds of this process that are in the journal and have not ended: reservation and bucket.
    written: HashSet<(Uuid, u128)>,
    /// Buckets with holds of other processes.
    foreign: Vec<Arc<Entity>>,
    given_up: u64,
}

/// What is to be added to a row.
struct Pending {
    row: UsageRow,
    /// The row's bucket, and the row's value if no other process writes to it.
    live: Option<(Arc<Entity>, i64)>,
}

impl Journal {
    /// Opens or makes the file. Blocks.
    ///
    /// # Errors
    /// What the system or the file's content refuses.
    pub(super) fn open(file: &Path, hold_lifetime: i64) -> Result<Self, String> {
        let connection = tables::open(file)?;
        Ok(Self {
            files: OpenFiles::of(file),
            connection,
            owner: Uuid::now_v7(),
            hold_lifetime,
            pending: HashMap::new(),
            written: HashSet::new(),
            foreign: Vec::new(),
            given_up: 0,
        })
    }

    /// The secret of the file.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub(super) fn hash(&self) -> Result<BucketHash, String> {
        let new = BucketHash::random();
        tables::secret(&self.connection, &new.to_bytes())
            .map(|bytes| BucketHash::from_bytes(&bytes))
            .map_err(|why| why.to_string())?
            .ok_or_else(|| "the secret of its buckets is damaged".to_owned())
    }

    /// Puts the usage of all present windows, and the holds of other processes, into the buckets. A second call changes
    /// nothing.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn load(&mut self, buckets: &Buckets, now: i64) -> Result<(), String> {
        let oldest = self.oldest_hold(now);
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let rows = transaction.and_then(|transaction| {
            // First, because it changes rows.
            tables::spend_old_holds(&transaction, self.owner, oldest)?;
            let rows = tables::load(&transaction, now)?;
            transaction.commit().map(|()| rows)
        });
        let rows = rows.map_err(|why| why.to_string())?;
        for (index, row) in rows.iter().enumerate() {
            // Of several windows and generations of one bucket, the last one counts.
            if rows.get(index + 1).is_none_or(|next| next.name.entity != row.name.entity) {
                let entity = buckets.insert(Entity::restored(row));
                entity.state.lock().restore(row);
            }
        }
        self.take_foreign(buckets, now).map_err(|why| why.to_string())
    }

    /// Writes what was counted since the last call, and these holds: when it returns they are on the disk.
    /// What cannot be written is kept for the next call too. A hold that has ended already is not written: its request
    /// has given up waiting.
    ///
    /// # Errors
    /// Nothing could be written.
    pub(super) fn write(&mut self, buckets: &Buckets, holds: &[HoldRow], now: i64) -> Result<(), String> {
        let settled = self.collect(&buckets.sink);
        let over: HashSet<(Uuid, u128)> = settled.iter().map(Settled::key).collect();
        let holds: Vec<&HoldRow> = holds.iter().filter(|hold| !over.contains(&hold.key())).collect();
        let outcome = self
            .files
            .check()
            .and_then(|()| self.commit(&settled, &holds, now).map_err(|why| why.to_string()));
        if outcome.is_ok() {
            self.written.extend(holds.iter().map(|hold| hold.key()));
            over.iter().for_each(|key| {
                self.written.remove(key);
            });
        } else if let Some(unwritten) = &buckets.sink.unwritten {
            unwritten.lock().settled.extend(settled);
        }
        let totals = outcome?;
        for (name, total) in totals {
            if let Some(Pending { live: Some((entity, expected)), .. }) = self.pending.get(&name) {
                // Another process has added to this row.
                entity.state.lock().add_foreign_use(&name, total.saturating_sub(*expected));
            }
        }
        self.pending.clear();
        Ok(())
    }

    /// Looks again at what other processes hold, if they hold anything.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn follow_others(&mut self, buckets: &Buckets, now: i64) -> Result<(), String> {
        if self.foreign.is_empty() {
            return Ok(());
        }
        self.take_foreign(buckets, now).map_err(|why| why.to_string())
    }

    /// Drops rows of windows that have long been over, and of limits that have long been gone, with their buckets.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn compact(&mut self, buckets: &Buckets, now: i64) -> Result<(), String> {
        self.files.check()?;
        let before = now.saturating_sub(KEEP_OVER);
        tables::drop_over(&self.connection, before).map_err(|why| why.to_string())?;
        let gone = gone::drop_old(&mut self.connection, now).map_err(|why| why.to_string())?;
        if !gone.is_empty() {
            buckets.drop_where(|entity| gone.contains(&entity.limit.0));
        }
        Ok(())
    }

    /// Notes which limits are no more: `present` are the others.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn note_present(&mut self, present: &HashSet<Uuid>, now: i64) -> Result<(), String> {
        self.files.check()?;
        gone::note(&mut self.connection, present, now).map_err(|why| why.to_string())
    }

    /// The time before which holds of other processes count as spent.
    fn oldest_hold(&self, now: i64) -> i64 {
        now.saturating_sub(self.hold_lifetime)
    }

    /// Rows that were given up because there were too many that could not be written.
    pub(super) fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Moves what the buckets left for the journal to `pending`. What was settled is returned: its usage is in `pending`, because
    /// usage is counted before it is reported as settled.
    fn collect(&mut self, sink: &Sink) -> Vec<Settled> {
        let Some(unwritten) = &sink.unwritten else { return Vec::new() };
        let (dirty, past, settled) = {
            let mut unwritten = unwritten.lock();
            let unwritten = &mut *unwritten;
            (
                std::mem::take(&mut unwritten.dirty),
                std::mem::take(&mut unwritten.past),
                std::mem::take(&mut unwritten.settled),
            )
        };
        for (entity, past) in past {
            self.add(UsageRow::past(&entity, &past), None);
        }
        for entity in dirty {
            let (row, expected) = {
                let mut state = entity.state.lock();
                state.is_dirty = false;
                let row = UsageRow::present(&entity, &state);
                // Taken for written: what is not stays in `pending`.
                state.journalled = state.spent;
                (row, state.spent)
            };
            self.add(row, Some((entity, expected)));
        }
        settled
    }

    fn add(&mut self, row: UsageRow, live: Option<(Arc<Entity>, i64)>) {
        if self.pending.len() >= MAX_PENDING && !self.pending.contains_key(&row.name) {
            self.given_up += 1;
            return;
        }
        match self.pending.get_mut(&row.name) {
            None => {
                self.pending.insert(row.name, Pending { row, live });
            }
            Some(there) => {
                there.row.added = there.row.added.saturating_add(row.added);
                // A row whose end is its beginning was left by its bucket, which moved to another row. When the bucket
                // comes back, the row gets its end again.
                let has_moved = row.window_end == row.name.window_start;
                if live.is_some() || has_moved {
                    there.row.window_end = row.window_end;
                }
                if live.is_some() {
                    there.row.unreconciled = row.unreconciled;
                    there.row.sent = row.sent;
                    there.live = live;
                }
            }
        }
    }

    fn commit(
        &mut self,
        settled: &[Settled],
        holds: &[&HoldRow],
        now: i64,
    ) -> rusqlite::Result<Vec<(BucketName, i64)>> {
        let mut totals = Vec::with_capacity(self.pending.len());
        if self.pending.is_empty() && settled.is_empty() && holds.is_empty() {
            return Ok(totals);
        }
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for settled in settled {
            tables::remove_hold(&transaction, settled, self.written.contains(&settled.key()))?;
        }
        for (name, pending) in &self.pending {
            totals.push((*name, tables::add_usage(&transaction, &pending.row)?));
        }
        for hold in holds {
            tables::insert_hold(&transaction, hold, self.owner, now)?;
        }
        transaction.commit()?;
        Ok(totals)
    }

    /// Looks again at the holds of other processes: those that are too old have become spent, and those that were settled are gone.
    fn take_foreign(&mut self, buckets: &Buckets, now: i64) -> rusqlite::Result<()> {
        let oldest = self.oldest_hold(now);
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        tables::spend_old_holds(&transaction, self.owner, oldest)?;
        let held = tables::foreign_holds(&transaction, self.owner)?;
        let mut touched = std::mem::take(&mut self.foreign);
        touched.extend(held.iter().filter_map(|(name, _)| buckets.get(name.entity)));
        touched.sort_by_key(|entity| entity.id);
        touched.dedup_by_key(|entity| entity.id);
        for entity in touched {
            let name = BucketName::of(&entity);
            // Also of generations before the last reset: such a hold is still one until it is settled or too old.
            let is_same =
                |held: &BucketName| (held.entity, held.window_start) == (name.entity, name.window_start);
            let of_entity = held.iter().filter(|(held, _)| is_same(held)).map(|(_, amount)| amount).sum();
            let row = tables::usage(&transaction, &name)?;
            entity.state.lock().set_foreign(&name, of_entity, row);
            if of_entity > 0 {
                self.foreign.push(entity);
            }
        }
        transaction.commit()
    }
}

impl UsageRow {
    fn past(entity: &Entity, past: &Past) -> Self {
        Self::new(entity, past.window, past.generation, past.delta)
    }

    fn new(entity: &Entity, window: Window, generation: u64, added: i64) -> Self {
        Self {
            name: BucketName { entity: entity.id, window_start: window.start, generation },
            window_end: window.end,
            limit: entity.limit,
            value_key: Arc::clone(&entity.value_key),
            added,
            unreconciled: 0,
            sent: None,
        }
    }
}

#[cfg(test)]
mod tests;
