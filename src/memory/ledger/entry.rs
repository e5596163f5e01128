//! What is handed to the ledger: entries, which are a row and its payload each, or a draft that entries are made of later.

use super::Row;
use super::id::RowIds;
use super::payload::Bodies;
use std::sync::Arc;

/// Data from which the ledger's own thread makes entries, so that requests spend no time on it.
pub trait Draft: Send {
    /// How many entries it becomes.
    fn count(&self) -> usize;

    /// About how many bytes of memory it takes, with those of its entries.
    fn size(&self) -> usize;

    /// Adds the entries, with ids from `ids`.
    fn make(self: Box<Self>, ids: &RowIds, entries: &mut Vec<Entry>);
}

/// A row to be written once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub row: Row,
    /// Compressed JSON ([`payload`](super::payload)).
    pub payload: Option<Arc<[u8]>>,
    /// The bodies from which the ledger's own thread will make the payload.
    pub bodies: Option<Box<Bodies>>,
}

impl Entry {
    /// About how many bytes of memory it takes.
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

    fn make(self: Box<Self>, _: &RowIds, entries: &mut Vec<Entry>) {
        entries.extend(*self);
    }
}
