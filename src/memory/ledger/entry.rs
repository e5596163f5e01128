//! What is handed to the ledger: a row, and the payload that belongs to it; or what such entries are made of.

use super::Row;
use super::id::RowIds;
use super::payload::Bodies;
use std::sync::Arc;

/// What the ledger's own thread makes entries of, so that no request spends its time on them.
pub trait Draft: Send {
    /// How many entries it becomes.
    fn count(&self) -> usize;

    /// About what it takes in memory, and as entries. Bytes.
    fn size(&self) -> usize;

    /// The entries, with ids from `ids`.
    fn entries(self: Box<Self>, ids: &RowIds) -> Vec<Entry>;
}

/// A row to be written once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub row: Row,
    /// Compressed JSON ([`payload`](super::payload)).
    pub payload: Option<Arc<[u8]>>,
    /// What the payload is made of, before the ledger's own thread has made it.
    pub bodies: Option<Box<Bodies>>,
}

impl Entry {
    /// About what it takes in memory, bytes.
    pub fn size(&self) -> usize {
        let bodies = self.bodies.as_ref().map_or(0, |bodies| bodies.size());
        self.row.size() + self.payload.as_ref().map_or(0, |payload| payload.len()) + bodies
    }

    /// Makes the payload of the bodies.
    pub(super) fn pack(&mut self) {
        if let Some(bodies) = self.bodies.take() {
            self.payload = bodies.pack();
        }
    }
}

impl From<Row> for Entry {
    fn from(row: Row) -> Self {
        Self { row, payload: None, bodies: None }
    }
}

/// Entries that are made already.
impl Draft for Vec<Entry> {
    fn count(&self) -> usize {
        self.len()
    }

    fn size(&self) -> usize {
        self.iter().map(Entry::size).sum()
    }

    fn entries(self: Box<Self>, _: &RowIds) -> Vec<Entry> {
        *self
    }
}
