//! A stored object as the store sees it: its identity, its place, and a body that the store does not read.

use super::Kind;
use jiff::Timestamp;
use std::sync::Arc;
use uuid::Uuid;

/// One stored object, or one version of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub kind: Kind,
    pub id: Uuid,
    /// The object it belongs to; see [`Kind`].
    pub parent: Option<Uuid>,
    /// `None`: it belongs to the organisation.
    pub workspace: Option<Uuid>,
    /// Unique among the records of its kind and workspace, archived ones included.
    pub slug: Option<String>,
    /// The number of a version, from 1; unique among the records of its kind and parent.
    pub number: Option<u32>,
    pub status: Status,
    /// 1 when created, and one more with each change. A write whose revision is not the stored one plus 1 is refused.
    pub revision: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// A JSON object, without secrets.
    pub body: Arc<str>,
    /// The object's secrets: sealed JSON (`store::sealing`).
    pub sealed: Option<Sealed>,
}

/// Secrets encrypted under the key `key_id`, bound to kind and id of their record.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    pub key_id: String,
    /// Nonce and ciphertext.
    pub bytes: Arc<[u8]>,
}

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sealed({}, {} bytes)", self.key_id, self.bytes.len())
    }
}

/// Whether an object is in use. Archived objects keep their slugs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    Active,
    Archived,
}

impl Status {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Archived => "archived",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        [Self::Active, Self::Archived].into_iter().find(|status| status.as_str() == name)
    }
}

/// One part of a write. All changes of a write happen, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Creates the record (`revision` 1) or replaces it.
    Put(Arc<Record>),
    /// Removes the record for good.
    Delete { kind: Kind, id: Uuid },
}
