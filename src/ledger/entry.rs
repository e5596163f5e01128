//! What is handed to the ledger: a row, and the payload that belongs to it.

use super::Row;
use super::payload::Bodies;
use std::sync::Arc;

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
