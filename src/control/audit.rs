//! What the audit log is told of a call: who did what with which outcome, without secrets.
//!
//! A change is written to the store together with its entry ([`Call::commit`](super::call::Call::commit)); a refused one, or
//! one that changes nothing stored, has its entry written afterwards ([`append`]). Each entry is a log line, too.

use super::masking::{MASK, is_secret, mask};
use http::{HeaderMap, Uri};
use jiff::Timestamp;
use memory::auth::{ClientIdentity, KeySearch};
use memory::state::Shared;
use memory::store::audit::AuditEntry;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::Arc;
use url::form_urlencoded;
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
    /// The path, masked.
    pub uri: String,
    /// Masked.
    pub query: String,
    pub request_id: String,
    pub client_ip: String,
    /// Masked.
    pub headers: Map<String, Value>,
    /// Masked JSON text.
    pub body: String,
    pub workspace: Option<Uuid>,
    /// Refused calls of the same client before it that have no entry.
    pub left_out: u64,
    /// The entry went into the store with the change.
    pub is_written: bool,
    /// It is not written yet, and may never be: it has no log line until then.
    pub is_staged: bool,
}

impl Trail {
    /// `search`: for the service keys of this request, here and below.
    pub(crate) fn set_uri(&mut self, uri: &Uri, search: &KeySearch<'_>) {
        let segment = |text| if search.is_in_text(text) { MASK } else { text };
        self.uri = uri.path().split('/').map(segment).collect::<Vec<_>>().join("/");
        let query = uri.query().unwrap_or_default();
        self.query = query.split('&').map(|pair| shown_pair(pair, search)).collect::<Vec<_>>().join("&");
    }

    pub(crate) fn set_headers(&mut self, headers: &HeaderMap, search: &KeySearch<'_>) {
        for (name, value) in headers {
            let shown = SHOWN_HEADERS.contains(&name.as_str()).then(|| value.to_str().ok()).flatten();
            let shown = shown.filter(|text| !search.is_in_text(text));
            self.headers.insert(name.as_str().to_owned(), shown.unwrap_or(MASK).into());
        }
    }

    pub(crate) fn set_body(&mut self, text: &[u8], search: &KeySearch<'_>) {
        let Ok(mut value) = serde_json::from_slice::<Value>(text) else { return };
        mask(&mut value);
        mask_keys(&mut value, search);
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
        let mut body = json!({
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
        if let (Value::Object(members), 1..) = (&mut body, self.left_out) {
            members.insert("left_out".to_owned(), self.left_out.into());
        }
        if !self.is_staged {
            let Self { method, uri, .. } = self;
            log::info!(
                target: "turnpike::audit",
                "{action} {resource} by {actor_type} {actor:?}: {status} ({method} {uri})"
            );
        }
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

/// A parameter of a query without its value, if that is a secret by its name or has a service key in it.
fn shown_pair<'p>(pair: &'p str, search: &KeySearch<'_>) -> Cow<'p, str> {
    let Some((name, value)) = form_urlencoded::parse(pair.as_bytes()).next() else { return pair.into() };
    if search.is_in_text(&name) || search.is_in_text(pair) && value.is_empty() {
        return MASK.into();
    }
    let hides = !value.is_empty() && (is_secret(&name) || search.is_in_text(&value));
    if hides { format!("{name}={MASK}").into() } else { pair.into() }
}

/// Replaces the texts that have a service key in them, whatever their names are.
fn mask_keys(value: &mut Value, search: &KeySearch<'_>) {
    match value {
        Value::Object(members) => members.values_mut().for_each(|value| mask_keys(value, search)),
        Value::Array(items) => items.iter_mut().for_each(|item| mask_keys(item, search)),
        Value::String(text) if search.is_in_text(text) => MASK.clone_into(text),
        _ => {}
    }
}

/// Who calls: the id of the user or the key, or the name of a key of the settings.
pub(super) fn actor(identity: &ClientIdentity) -> String {
    let key = || identity.key_id.map(|id| id.to_string());
    let name = || identity.name.as_deref().unwrap_or_default().to_owned();
    identity.user.as_deref().map(str::to_owned).or_else(key).unwrap_or_else(name)
}

/// Logs an entry that was written with others.
pub(super) fn log_written(entry: &AuditEntry) {
    let AuditEntry { action, resource, actor_type, actor, status, method, .. } = entry;
    log::info!(target: "turnpike::audit", "{action} {resource} by {actor_type} {actor:?}: {status} ({method}, applied)");
}

/// Writes an entry that belongs to no change. A store that is down loses it; the log line stays.
pub(super) async fn append(shared: &Arc<Shared>, entry: AuditEntry) {
    // An edge node has it in its log alone.
    let Some(store) = shared.store().filter(|store| !store.reads_only()) else { return };
    if let Err(why) = store.commit(Vec::new(), vec![entry]).await {
        log::warn!(target: "turnpike::audit", "an entry could not be kept: {why}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory::auth::ServiceKeys;
    use std::sync::Arc;
    use words::config::Checks;
    use words::settings::{SecretSources, Settings};

    #[test]
    fn no_service_key_stands_in_an_entry() {
        let checks = Checks::NONE;
        let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
        let yaml = "auth: {keys: [{name: a, key: key-one/1}, {name: b, key: key-two-2}]}\n";
        let keys = ServiceKeys::new(&Settings::parse(yaml, &sources, &checks).unwrap(), Arc::default(), None);
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer key-one/1".parse().unwrap());
        headers.insert("user-agent", "agent key-one/1".parse().unwrap());
        headers.insert("content-type", "application/json".parse().unwrap());
        let uri: Uri = "/v1/configs/key-two-2?key=key-two-2&api-key=any&limit=2&any=xkey-one%2F1&%6bey=any&key-two-2&a=%20b&key="
            .parse()
            .unwrap();
        let search = KeySearch::new(&headers, &uri, &keys);
        let mut trail = Trail { change: Some(("configs", "update")), ..Trail::default() };
        trail.set_uri(&uri, &search);
        trail.set_headers(&headers, &search);
        trail.set_body(
            br#"{"name":"of key-one/1","list":["key-two-2"],"note":"kept","api_key":"s"}"#,
            &search,
        );
        assert_eq!(trail.uri, "/v1/configs/*****");
        assert_eq!(trail.query, "key=*****&api-key=*****&limit=2&any=*****&key=*****&*****&a=%20b&key=");
        let entry = trail.entry(None, 200, Timestamp::UNIX_EPOCH).unwrap();
        assert!(!entry.body.contains("key-one") && !entry.body.contains("key-two"), "{}", entry.body);
        assert!(entry.body.contains("kept") && entry.body.contains("application/json"), "{}", entry.body);
    }
}
