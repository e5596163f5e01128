//! The body of a stored key's record, as it is written to the store and read from it.
//!
//! Not what the API shows (`control`), and not what requests need ([`super::stored_keys`]).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use words::json::walk;
use words::settings::AllowedNames;
use words::settings::scopes::{KeyType, Scope, ScopeSet};

/// A stored service key without its secrets' text. A member that says nothing is not written: all keys are in memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyBody {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(rename = "type", with = "type_name")]
    pub kind: KeyType,
    /// Names of scopes; names that this version does not know are kept, and give no right.
    pub scopes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// At most [`MAX_SECRETS`], the newest first.
    pub secrets: Vec<KeySecret>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    #[serde(default)]
    pub defaults: BodyDefaults,
    /// The models that its requests may use; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_models: Option<Vec<String>>,
    #[serde(default)]
    pub rate_limits: Value,
    #[serde(default)]
    pub usage_limits: Value,
    /// Who has set the limits: `organisation` or `workspace`; `None`: whoever made the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limits_set_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_limits_set_by: Option<String>,
    /// How often its usage was reset by hand.
    #[serde(default)]
    pub usage_resets: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reset_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alert_emails: Vec<String>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub rotation_policy: Value,
    /// The key as it may be shown.
    pub masked: String,
    /// Who made it: a user's or a key's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// When it was last used, written now and then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
    /// The set of files that it was applied from; `None`: the API manages it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_set: Option<String>,
}

/// The most secrets of one key that are good at the same time.
pub(crate) const MAX_SECRETS: usize = 2;

/// One secret of a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeySecret {
    /// HMAC-SHA-256 of the whole key under the store's pepper, in hexadecimal, unless `other_form` says otherwise.
    pub hash: String,
    /// Of a key that was made elsewhere, which has no public id in it and is found by its hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_form: Option<OtherForm>,
    /// Set when another secret has replaced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// See [`KeyDefaults`](super::identity::KeyDefaults). Shown as it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BodyDefaults {
    #[serde(default)]
    pub config_id: Option<String>,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    #[serde(default = "yes")]
    pub allow_config_override: bool,
    /// A name of [`Payloads`](words::settings::logs::Payloads).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_payloads: Option<String>,
    /// A name of [`Priority`](words::config::policies::Priority).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
}

impl Default for BodyDefaults {
    fn default() -> Self {
        Self {
            config_id: None,
            metadata: BTreeMap::new(),
            allow_config_override: true,
            log_payloads: None,
            priority: None,
        }
    }
}

fn yes() -> bool {
    true
}

impl KeyBody {
    /// A key without scopes, limits and secrets.
    pub fn new(name: &str, kind: KeyType) -> Self {
        Self {
            name: name.to_owned(),
            description: None,
            kind,
            scopes: Vec::new(),
            user_id: None,
            secrets: Vec::new(),
            expires_at: None,
            defaults: BodyDefaults::default(),
            allowed_models: None,
            rate_limits: Value::Null,
            usage_limits: Value::Null,
            rate_limits_set_by: None,
            usage_limits_set_by: None,
            usage_resets: 0,
            last_reset_at: None,
            alert_emails: Vec::new(),
            rotation_policy: Value::Null,
            masked: String::new(),
            created_by: None,
            last_used_at: None,
            file_set: None,
        }
    }

    /// As requests are judged by it.
    pub(super) fn allowed_models(&self) -> Option<AllowedNames> {
        let names = self.allowed_models.as_ref()?;
        Some(AllowedNames::new(names.iter().map(String::as_str)))
    }

    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|why| why.to_string())
    }

    /// The type of the key with this body. The rest is not read, nor checked.
    pub fn kind_of(text: &str) -> Option<KeyType> {
        let mut members = walk::members(text.as_bytes())?;
        let (_, name) = members.find(|(name, _)| *name == b"type")?;
        let name = name.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        KeyType::parse(str::from_utf8(name).ok()?)
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What the key may do: its scopes that this version knows and that it may hold.
    pub fn scope_set(&self) -> ScopeSet {
        ScopeSet::parse(self.scopes.iter().map(String::as_str)).0.and(&self.most_scopes())
    }

    /// All that it may hold: what its type may. The key of the first start, which nobody made, also renders prompts, so that it can
    /// show what it saves; it calls no provider.
    pub fn most_scopes(&self) -> ScopeSet {
        let mut most = self.kind.scopes();
        if self.created_by.is_none() {
            most.insert(Scope::PromptsRender);
        }
        most
    }
}

/// How a key that was made elsewhere is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OtherForm {
    /// As it came: the hash is its SHA-256, until it is used.
    Sha256,
    /// As our own: the hash is its HMAC.
    Hmac,
}

impl KeySecret {
    /// Of a key that was made elsewhere, of which only the SHA-256 is here.
    pub fn of_sha256(digest: &[u8; 32]) -> Self {
        Self { other_form: Some(OtherForm::Sha256), ..Self::new(digest) }
    }

    /// The same secret of a key that was made elsewhere, with the HMAC of that key.
    pub(super) fn with_own_hash(&self, hash: &[u8; 32]) -> Self {
        Self { other_form: Some(OtherForm::Hmac), expires_at: self.expires_at, ..Self::new(hash) }
    }

    pub fn new(hash: &[u8; 32]) -> Self {
        use std::fmt::Write;
        let mut text = String::with_capacity(64);
        for byte in hash {
            // Writing into a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Self { hash: text, other_form: None, expires_at: None }
    }

    /// The bytes of the hash.
    pub(crate) fn hash_bytes(&self) -> Option<[u8; 32]> {
        let mut bytes = [0; 32];
        if self.hash.len() != 64 {
            return None;
        }
        for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(self.hash.get(at..at + 2)?, 16).ok()?;
        }
        Some(bytes)
    }

    pub fn is_live(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }
}

mod type_name {
    use super::KeyType;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(kind: &KeyType, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(kind.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<KeyType, D::Error> {
        let name = String::deserialize(from)?;
        KeyType::parse(&name).ok_or_else(|| D::Error::custom(format!("{name} is no type of key")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_reads_back_as_it_was_written() {
        let secret = KeySecret::new(&[0x5a; 32]);
        assert_eq!(secret.hash_bytes(), Some([0x5a; 32]));
        let of_user = KeyBody::new("\"type\":\"workspace-service\"", KeyType::WorkspaceUser).to_json();
        assert_eq!(KeyBody::kind_of(&of_user), Some(KeyType::WorkspaceUser));
        assert_eq!(
            [KeyBody::kind_of("{}"), KeyBody::kind_of(""), KeyBody::kind_of("{\"type\":7}")],
            [None; 3]
        );
        let text = r#"{"name":"k","type":"workspace-user","scopes":["completions.write","of.tomorrow","audit_logs.list"],
            "secrets":[{"hash":"00"},{"hash":"zz","expires_at":"2026-05-03T17:08:55Z"}],"masked":"gk*****abc",
            "allowed_models":["gpt-4o*"],"defaults":{"metadata":{"a":"b"}}}"#;
        let body = KeyBody::parse(text).unwrap();
        assert!(body.defaults.allow_config_override && body.secrets[0].hash_bytes().is_none());
        assert_eq!(KeyBody::parse(&body.to_json()).unwrap(), body);
        assert!(
            body.allowed_models().unwrap().allows("gpt-4o") && !body.allowed_models().unwrap().allows("o9")
        );
        let scopes: Vec<_> = body.scope_set().iter().map(|scope| scope.as_str()).collect();
        assert_eq!(scopes, ["completions.write"], "neither unknown scopes nor those of another type count");
        let mut administrator = KeyBody::new("administrator", KeyType::OrganisationService);
        administrator.scopes = vec!["prompts.render".to_owned(), "completions.write".to_owned()];
        let scopes: Vec<_> = administrator.scope_set().iter().map(|scope| scope.as_str()).collect();
        assert_eq!(scopes, ["prompts.render"], "the key of the first start renders, and calls nothing");
        administrator.created_by = Some("turnpike keys".to_owned());
        assert!(administrator.scope_set().is_empty());
        let end = body.secrets[1].expires_at.unwrap();
        assert!(body.secrets[0].is_live(end) && !body.secrets[1].is_live(end));
        assert!(KeyBody::parse(&text.replace("workspace-user", "nothing")).is_err());
    }
}
