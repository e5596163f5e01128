//! Tokens of realtime sessions: what a browser gets in place of a service key. `ek_tp_`, what the token grants, and a signature over it.
//!
//! A token is signed with what the gateway alone has of its service key (never a SHA-256, which others may have too), so that it ends with that key, is good at every gateway of a store, and
//! is kept nowhere. What it grants can be read by whoever has it, and not be changed. It opens a realtime session and nothing else.
//! Not here: how a session is opened (`proxy::realtime`).

use super::identity::{ClientIdentity, IdentityKind, LivingKey};
use super::key_format::PublicId;
use super::service_keys::{IdentityRefusal, ServiceKeys};
use super::stored_keys::KeyRefusal;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::hmac;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

/// What every token begins with. Those of OpenAI begin with `ek_`.
pub const TOKEN_PREFIX: &str = "ek_tp_";

/// What is signed begins with it, so that no other signature with the same secret is one of a token.
const PURPOSE: &[u8] = b"turnpike realtime session\n";

/// What a token grants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionGrant {
    /// The service key: the public id of a stored one, the name of one of the settings.
    pub key: String,
    pub is_stored: bool,
    /// Until when a session may be opened, seconds since 1970.
    pub expires_at: i64,
    pub model: Option<String>,
    /// Headers of the gateway's own that count for the session, without their prefix.
    pub headers: Vec<(String, String)>,
    /// What the session is set to when it is opened.
    pub session: Map<String, Value>,
}

/// A client of a realtime session, with what its token grants, if it has one.
pub type SessionClient = (Arc<ClientIdentity>, Option<SessionGrant>);

/// Whether this is such a token, good or not.
pub fn is_token(key: &[u8]) -> bool {
    key.starts_with(TOKEN_PREFIX.as_bytes())
}

impl ServiceKeys {
    /// A token for sessions of this client; `key` and `is_stored` of the grant are set here. `None`: no service key names the client, or the
    /// settings have the digest of it alone.
    pub fn session_token(
        &self,
        client: &ClientIdentity,
        grant: SessionGrant,
        now: Timestamp,
    ) -> Option<String> {
        let (key, is_stored) = match client.kind {
            IdentityKind::Settings => (client.id.as_deref()?.to_owned(), false),
            IdentityKind::Stored(_) => (self.stored().public_id(client.key_id?)?.as_str().to_owned(), true),
            IdentityKind::Anonymous | IdentityKind::Jwt => return None,
        };
        let grant = SessionGrant { key, is_stored, ..grant };
        let secret = self.signer(&grant, now)?.secrets.into_iter().next()?;
        let payload = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&grant).ok()?);
        let signature =
            URL_SAFE_NO_PAD.encode(hmac::sign(&signing_key(&secret), &signed(payload.as_bytes())));
        Some(format!("{TOKEN_PREFIX}{payload}.{signature}"))
    }

    /// The client of a token, and what it grants. `is_open`: of a session that was opened in time.
    ///
    /// # Errors
    /// As for a service key: it is none, its time is over, or its key does not count any more.
    pub fn verify_session(
        &self,
        token: &[u8],
        now: Timestamp,
        is_open: bool,
    ) -> Result<(Arc<ClientIdentity>, SessionGrant), IdentityRefusal> {
        const UNKNOWN: IdentityRefusal = IdentityRefusal::Key(KeyRefusal::Unknown);
        let text = token.strip_prefix(TOKEN_PREFIX.as_bytes()).ok_or(UNKNOWN)?;
        let dot = memchr::memchr(b'.', text).ok_or(UNKNOWN)?;
        let payload = text.get(..dot).ok_or(UNKNOWN)?;
        let signature = text.get(dot + 1..).ok_or(UNKNOWN)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| UNKNOWN)?;
        let json = URL_SAFE_NO_PAD.decode(payload).map_err(|_| UNKNOWN)?;
        let grant: SessionGrant = serde_json::from_slice(&json).map_err(|_| UNKNOWN)?;
        let LivingKey { identity: client, secrets } = self.signer(&grant, now).ok_or(UNKNOWN)?;
        let is_good =
            |secret: &Vec<u8>| hmac::verify(&signing_key(secret), &signed(payload), &signature).is_ok();
        if !secrets.iter().any(is_good) {
            return Err(UNKNOWN);
        }
        // Not before: whoever can make up a token is not told which keys there were.
        if let Some(end) = client.expires_at.filter(|end| now >= *end) {
            return Err(IdentityRefusal::Key(KeyRefusal::Expired(end)));
        }
        match Timestamp::from_second(grant.expires_at) {
            Ok(end) if !is_open && now >= end => Err(IdentityRefusal::Key(KeyRefusal::Expired(end))),
            Ok(_) => Ok((client, grant)),
            Err(_) => Err(UNKNOWN),
        }
    }

    /// The key that a grant names, with what may have signed it.
    fn signer(&self, grant: &SessionGrant, now: Timestamp) -> Option<LivingKey> {
        if grant.is_stored {
            self.stored().signer(PublicId::parse(&grant.key)?, now)
        } else {
            self.signer_of_settings(&grant.key)
        }
    }
}

fn signing_key(secret: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret)
}

fn signed(payload: &[u8]) -> Vec<u8> {
    [PURPOSE, payload].concat()
}

#[cfg(test)]
mod tests {
    use super::super::key_body::KeyBody;
    use super::super::key_format::KeyHash;
    use super::super::key_records::make;
    use super::super::stored_keys::StoredKeys;
    use super::*;
    use crate::store::{Catalog, Change};
    use words::config::Checks;
    use words::settings::scopes::KeyType;
    use words::settings::{SecretSources, Settings};

    fn keys(secret: &str) -> ServiceKeys {
        let checks = Checks::NONE;
        let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
        let yaml = format!(
            "auth: {{keys: [{{name: app, key: {secret}}}, {{name: other, key: other-key-0123456789}}]}}"
        );
        ServiceKeys::new(&Settings::parse(&yaml, &sources, &checks).unwrap(), Arc::default(), None)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_token_opens_a_session_until_it_or_its_key_ends() {
        let keys_now = keys("app-key-0123456789");
        let client = keys_now.identify(b"app-key-0123456789", at(0)).unwrap();
        let grant = SessionGrant {
            key: String::new(),
            is_stored: true,
            expires_at: 600,
            model: Some("gpt-realtime".into()),
            headers: vec![("provider".into(), "@openai".into())],
            session: Map::new(),
        };
        let token = keys_now.session_token(&client, grant, at(0)).unwrap();
        let (found, granted) = keys_now.verify_session(token.as_bytes(), at(599), false).unwrap();
        assert_eq!((found.id.as_deref(), &*granted.key, granted.is_stored), (Some("app"), "app", false));
        assert_eq!(granted.headers, [("provider".to_owned(), "@openai".to_owned())]);
        let expired = keys_now.verify_session(token.as_bytes(), at(600), false);
        assert_eq!(expired.unwrap_err(), IdentityRefusal::Key(KeyRefusal::Expired(at(600))));
        assert!(keys_now.verify_session(token.as_bytes(), at(9000), true).is_ok(), "a session that is open");
        // It is no service key, and is never sent to a provider.
        assert!(keys_now.identify(token.as_bytes(), at(0)).is_err());
        assert!(keys_now.is_service_key(token.as_bytes()));
        // The key was replaced, or is another.
        let unknown = IdentityRefusal::Key(KeyRefusal::Unknown);
        assert_eq!(
            keys("app-key-9876543210").verify_session(token.as_bytes(), at(0), true),
            Err(unknown.clone())
        );
        let payload = token.strip_prefix(TOKEN_PREFIX).unwrap().split('.').next().unwrap();
        let json = String::from_utf8(URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap();
        let forged = token.replace(payload, &URL_SAFE_NO_PAD.encode(json.replace("\"app\"", "\"other\"")));
        for wrong in [&*forged, "ek_tp_", "ek_tp_.", "ek_abc", token.split_at(token.len() - 2).0] {
            assert_eq!(
                keys_now.verify_session(wrong.as_bytes(), at(0), false),
                Err(unknown.clone()),
                "{wrong}"
            );
        }
    }

    /// Whoever reads the digest of a key makes no token of it.
    #[test]
    fn a_digest_signs_nothing() {
        use super::super::key_records::adopt;
        use words::settings::service_key::sha256;
        let text = b"sk-litellm-1234567890";
        let digest = sha256(text);
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let checks = Checks::NONE;
        let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
        let yaml = format!("auth: {{keys: [{{name: moved, sha256: {hex}}}]}}");
        let settings = Settings::parse(&yaml, &sources, &checks).unwrap();
        let pepper = KeyHash::new(b"a pepper of the tests");
        let body = KeyBody {
            scopes: vec!["completions.write".to_owned()],
            ..KeyBody::new("k", KeyType::OrganisationService)
        };
        let record = adopt(body, None, &sha256(b"sk-stored"), &pepper, at(0)).unwrap();
        let public_id = record.slug.clone().unwrap();
        let catalog = Catalog::default().with(&[Change::Put(Arc::new(record))], 1);
        let keys =
            ServiceKeys::new(&settings, Arc::new(StoredKeys::new(Some(pepper)).with(&catalog).0), None);
        let grant = |key: &str, is_stored| SessionGrant {
            key: key.to_owned(),
            is_stored,
            expires_at: 600,
            model: None,
            headers: Vec::new(),
            session: Map::new(),
        };
        let forged = |grant: &SessionGrant, digest: &[u8]| {
            let payload = URL_SAFE_NO_PAD.encode(serde_json::to_vec(grant).unwrap());
            let signature = hmac::sign(&signing_key(digest), &signed(payload.as_bytes()));
            format!("{TOKEN_PREFIX}{payload}.{}", URL_SAFE_NO_PAD.encode(signature))
        };
        let of_settings = forged(&grant("moved", false), &digest);
        let of_stored = forged(&grant(&public_id, true), &sha256(b"sk-stored"));
        let unknown = IdentityRefusal::Key(KeyRefusal::Unknown);
        for token in [&of_settings, &of_stored] {
            assert_eq!(keys.verify_session(token.as_bytes(), at(0), false).unwrap_err(), unknown);
        }
        let client = keys.identify(text, at(0)).unwrap();
        assert_eq!(keys.session_token(&client, grant("", false), at(0)), None);
        // Once the key itself was sent, the gateway has what nobody else has.
        let client = keys.identify(b"sk-stored", at(0)).unwrap();
        let token = keys.session_token(&client, grant("", false), at(0)).unwrap();
        assert!(keys.verify_session(token.as_bytes(), at(1), false).is_ok());
        assert_eq!(keys.verify_session(of_stored.as_bytes(), at(1), false).unwrap_err(), unknown);
    }

    #[test]
    fn only_a_good_token_reveals_that_its_key_is_over() {
        let pepper = KeyHash::new(b"a pepper of the tests");
        let body = KeyBody {
            scopes: vec!["completions.write".to_owned()],
            expires_at: Some(at(100)),
            ..KeyBody::new("k", KeyType::OrganisationService)
        };
        let made = make(body, None, &pepper, at(0)).unwrap();
        let catalog = Catalog::default().with(&[Change::Put(Arc::new(made.record))], 1);
        let (stored, _) = StoredKeys::new(Some(pepper)).with(&catalog);
        let checks = Checks::NONE;
        let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
        let settings = Settings::parse("{}", &sources, &checks).unwrap();
        let keys = ServiceKeys::new(&settings, Arc::new(stored), None);
        let client = keys.identify(made.text.expose().as_bytes(), at(0)).unwrap();
        let grant = SessionGrant {
            key: String::new(),
            is_stored: true,
            expires_at: 600,
            model: None,
            headers: Vec::new(),
            session: Map::new(),
        };
        let token = keys.session_token(&client, grant, at(0)).unwrap();
        assert!(keys.verify_session(token.as_bytes(), at(99), false).is_ok());
        let refusal = |token: &str| keys.verify_session(token.as_bytes(), at(100), true).unwrap_err();
        assert_eq!(refusal(&token), IdentityRefusal::Key(KeyRefusal::Expired(at(100))));
        let (payload, _) = token.split_once('.').unwrap();
        let made_up = format!("{payload}.{}", URL_SAFE_NO_PAD.encode([0; 32]));
        assert_eq!(refusal(&made_up), IdentityRefusal::Key(KeyRefusal::Unknown));
    }
}
