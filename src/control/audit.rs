//! What the audit log is told of a call: who did what with which outcome, without secrets.
//!
//! A change is written to the store together with its entry ([`Call::commit`](super::call::Call::commit)); a refused one, or
//! one that changes nothing stored, has its entry written afterwards ([`append`]). Each entry is a log line, too.

use super::masking::mask;
use http::HeaderMap;
use jiff::Timestamp;
use memory::auth::ClientIdentity;
use memory::state::Shared;
use memory::store::audit::AuditEntry;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;

/// Largest body that is kept, bytes of masked JSON.
const MAX_BODY_BYTES: usize = 32 << 10;

/// Headers whose values say something and are no secrets. Of the others the name is kept.
const SHOWN_HEADERS: [&str; 6] =
    ["user-agent", "content-type", "content-length", "host", "origin", "x-gateway-trace-id"];

/// What is known of a call before it is made.
#[derive(Debug, Clone, Default)]
pub(super) struct Trail {
    /// Resource and action; `None`: the call is not audited.
    pub change: Option<(&'static str, &'static str)>,
    pub method: String,
    pub uri: String,
    pub query: String,
    pub request_id: String,
    pub client_ip: String,
    /// Masked.
    pub headers: Map<String, Value>,
    /// Masked JSON text.
    pub body: String,
    pub workspace: Option<Uuid>,
    /// The entry went into the store with the change.
    pub is_written: bool,
}

impl Trail {
    pub(crate) fn set_headers(&mut self, headers: &HeaderMap) {
        for (name, value) in headers {
            let shown = SHOWN_HEADERS.contains(&name.as_str()).then(|| value.to_str().ok()).flatten();
            self.headers.insert(name.as_str().to_owned(), shown.unwrap_or("*****").into());
        }
    }

    pub(crate) fn set_body(&mut self, text: &[u8]) {
        let Ok(mut value) = serde_json::from_slice::<Value>(text) else { return };
        mask(&mut value);
        self.body = value.to_string();
        if self.body.len() > MAX_BODY_BYTES {
            self.body = format!("{{\"omitted_bytes\":{}}}", self.body.len());
        }
    }

    /// The entry for a call with this status; `None` where the call is not audited, or its entry is written.
    pub fn entry(
        &self,
        identity: Option<&ClientIdentity>,
        status: u16,
        now: Timestamp,
    ) -> Option<AuditEntry> {
        let (resource, action) = self.change.filter(|_| !self.is_written)?;
        let actor = identity.map(actor).unwrap_or_default();
        let actor_type =
            if identity.is_some_and(|identity| identity.user.is_some()) { "user" } else { "api_key" };
        let body = json!({
            "timestamp": format!("{now:.3}"),
            "method": self.method,
            "uri": self.uri,
            "request_id": self.request_id,
            "request_body": self.body,
            "query_params": self.query,
            "request_headers": Value::Object(self.headers.clone()).to_string(),
            "user_id": actor,
            "user_type": actor_type,
            "organisation_id": super::ORGANISATION,
            "workspace_id": self.workspace,
            "response_status_code": status,
            "resource_type": resource,
            "action": action,
            "client_ip": self.client_ip,
            "country": null,
        });
        log::info!(
            target: "turnpike::audit",
            "{action} {resource} by {actor_type} {actor:?}: {status} ({} {})", self.method, self.uri
        );
        Some(AuditEntry {
            id: Uuid::now_v7(),
            time: now,
            workspace: self.workspace,
            actor,
            actor_type: actor_type.to_owned(),
            action: action.to_owned(),
            resource: resource.to_owned(),
            method: self.method.clone(),
            status,
            body: body.to_string(),
        })
    }
}

/// Who calls: the id of the user or the key, or the name of a key of the settings.
pub(super) fn actor(identity: &ClientIdentity) -> String {
    let key = || identity.key_id.map(|id| id.to_string());
    let name = || identity.name.as_deref().unwrap_or_default().to_owned();
    identity.user.as_deref().map(str::to_owned).or_else(key).unwrap_or_else(name)
}

/// Writes an entry that belongs to no change. A store that is down loses it; the log line stays.
pub(super) async fn append(shared: &Arc<Shared>, entry: AuditEntry) {
    let Some(store) = shared.store() else { return };
    if let Err(why) = store.commit(Vec::new(), vec![entry]).await {
        log::warn!(target: "turnpike::audit", "an entry could not be kept: {why}");
    }
}
