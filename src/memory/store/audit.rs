//! Entries of the audit log: who changed what, or was refused, and when.
//!
//! Plain data. What is masked in an entry is decided where it is made (`control`).

use jiff::Timestamp;
use uuid::Uuid;

/// One request to the control plane that changed something, or was refused.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    pub id: Uuid,
    pub time: Timestamp,
    pub workspace: Option<Uuid>,
    /// Who: a user's or a service key's id; empty where nobody was authenticated.
    pub actor: String,
    /// `user` or `api_key`.
    pub actor_type: String,
    /// `create`, `update`, `delete`, `rotate` …
    pub action: String,
    /// `configs`, `api-keys` …
    pub resource: String,
    pub method: String,
    pub status: u16,
    /// The entry as the API shows it: a JSON object.
    pub body: String,
}

/// Which entries to read, newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuditQuery {
    /// Included.
    pub since: Option<Timestamp>,
    /// Excluded.
    pub until: Option<Timestamp>,
    pub workspace: Option<Uuid>,
    pub actor: Option<String>,
    pub actor_type: Option<String>,
    pub action: Option<String>,
    pub resource: Option<String>,
    pub method: Option<String>,
    pub status: Option<u16>,
    /// Values of members of `body`, compared as text: `uri`, `request_id`, `client_ip`.
    pub members: Vec<(&'static str, String)>,
    pub limit: u32,
    pub offset: u32,
}

/// A page of entries, and how many there are on all pages.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuditPage {
    pub entries: Vec<AuditEntry>,
    pub total: u64,
}
