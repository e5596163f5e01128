//! Keys in and out of a catalog: which are good, when, and what stays in memory as the catalog changes.

use super::*;
use crate::auth::key_body::KeySecret;
use crate::auth::key_format::NewKey;
use crate::store::{Change, Record};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;
use words::settings::scopes::KeyType;

fn pepper() -> KeyHash {
    KeyHash::new(b"a pepper of the tests")
}

fn body(secrets: Vec<KeySecret>) -> KeyBody {
    KeyBody {
        scopes: vec!["completions.write".to_owned()],
        secrets,
        defaults: BodyDefaults {
            config_id: Some("pc-a".to_owned()),
            metadata: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
            allow_config_override: false,
            log_payloads: None,
            priority: None,
        },
        ..KeyBody::new("k", KeyType::WorkspaceService)
    }
}

fn record(kind: Kind, id: Uuid, revision: u64, body: String) -> Record {
    let now = Timestamp::UNIX_EPOCH;
    Record {
        kind,
        id,
        parent: None,
        workspace: None,
        slug: None,
        number: None,
        status: Status::Active,
        revision,
        created_at: now,
        updated_at: now,
        body: body.into(),
        sealed: None,
    }
}

/// A catalog with a workspace and a key, and the key's text.
struct Kept {
    catalog: Catalog,
    workspace: Uuid,
    id: Uuid,
    key: NewKey,
}

impl Kept {
    fn new() -> Self {
        let workspace = Uuid::from_u128(1);
        let id = Uuid::from_u128(2);
        let key = NewKey::make(&pepper(), None).unwrap();
        let kept = Self { catalog: Catalog::default(), workspace, id, key };
        let place = Arc::new(record(Kind::Workspace, workspace, 1, "{}".to_owned()));
        let catalog = kept.catalog.with(&[Change::Put(place)], 1);
        let kept = Self { catalog, ..kept };
        let key_body = body(vec![KeySecret::new(&kept.key.hash)]);
        kept.put(1, &key_body)
    }

    fn put(mut self, revision: u64, body: &KeyBody) -> Self {
        let mut changed = record(Kind::ApiKey, self.id, revision, body.to_json());
        changed.slug = Some(self.key.public_id.as_str().to_owned());
        changed.workspace = Some(self.workspace);
        self.catalog = self.catalog.with(&[Change::Put(Arc::new(changed))], revision + 1);
        self
    }

    fn keys(&self, before: &StoredKeys) -> StoredKeys {
        let (keys, unreadable) = before.with(&self.catalog);
        assert!(unreadable.is_empty());
        keys
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn verify(keys: &StoredKeys, text: &str, second: i64) -> Result<Uuid, KeyRefusal> {
    let key = KeyText::parse(text.as_bytes()).ok_or(KeyRefusal::Unknown)?;
    keys.verify(&key, at(second)).map(|identity| identity.key_id.unwrap())
}

#[test]
fn a_stored_key_is_found_by_its_whole_text() {
    let kept = Kept::new();
    let keys = kept.keys(&StoredKeys::new(Some(pepper())));
    let text = kept.key.text.expose();
    for _ in 0..2 {
        assert_eq!(verify(&keys, text, 5), Ok(kept.id), "by its hash, then from memory");
    }
    let other = NewKey::make(&pepper(), Some(kept.key.public_id)).unwrap();
    let mut broken = text.to_owned();
    broken.replace_range(20..21, if text.as_bytes()[20] == b'a' { "b" } else { "a" });
    let foreign = NewKey::make(&pepper(), None).unwrap();
    for wrong in [other.text.expose(), &broken, foreign.text.expose(), "gk_x"] {
        assert_eq!(verify(&keys, wrong, 5), Err(KeyRefusal::Unknown), "{wrong}");
    }
    let identity = keys.verify(&KeyText::parse(text.as_bytes()).unwrap(), at(5)).unwrap();
    assert_eq!((identity.workspace, identity.is_bound), (Some(kept.workspace), true));
    assert!(
        identity.scopes.contains(Scope::CompletionsWrite) && !identity.scopes.contains(Scope::ConfigsRead)
    );
    assert_eq!(identity.defaults.config_id.as_deref(), Some("pc-a"));
    assert!(!identity.defaults.allow_config_override);
    assert!(!identity.may_enter(None) && !identity.may_enter(Some(Uuid::from_u128(9))));
    assert!(identity.may_enter(Some(kept.workspace)));
}

#[test]
fn without_the_pepper_no_key_is_good() {
    let kept = Kept::new();
    for pepper in [None, Some(KeyHash::new(b"another"))] {
        let keys = kept.keys(&StoredKeys::new(pepper));
        assert_eq!(verify(&keys, kept.key.text.expose(), 5), Err(KeyRefusal::Unknown));
        assert!(keys.may_call(), "which does not open the port");
    }
}

#[test]
fn a_key_expires_by_the_clock_without_a_change() {
    let kept = Kept::new();
    let expiring = KeyBody { expires_at: Some(at(60)), ..body(vec![KeySecret::new(&kept.key.hash)]) };
    let kept = kept.put(2, &expiring);
    let keys = kept.keys(&StoredKeys::new(Some(pepper())));
    let text = kept.key.text.expose();
    assert_eq!(
        (verify(&keys, text, 59), verify(&keys, text, 60)),
        (Ok(kept.id), Err(KeyRefusal::Expired(at(60))))
    );
    let other = NewKey::make(&pepper(), Some(kept.key.public_id)).unwrap();
    assert_eq!(
        verify(&keys, other.text.expose(), 60),
        Err(KeyRefusal::Unknown),
        "only the owner learns of it"
    );
    assert!(keys.may_call(), "an expired key does not open the port");
}

#[test]
fn of_two_secrets_the_old_one_ends_alone() {
    let kept = Kept::new();
    let first = kept.keys(&StoredKeys::new(Some(pepper())));
    let old = kept.key.clone();
    assert_eq!(verify(&first, old.text.expose(), 1), Ok(kept.id));
    let new = NewKey::make(&pepper(), Some(old.public_id)).unwrap();
    let ending = KeySecret { expires_at: Some(at(100)), ..KeySecret::new(&old.hash) };
    let kept = kept.put(2, &body(vec![KeySecret::new(&new.hash), ending]));
    let second = kept.keys(&first);
    for (text, second_of_day, wanted) in [
        (&old, 99, Ok(kept.id)),
        (&new, 99, Ok(kept.id)),
        (&old, 100, Err(KeyRefusal::Expired(at(100)))),
        (&new, 100, Ok(kept.id)),
    ] {
        assert_eq!(verify(&second, text.text.expose(), second_of_day), wanted, "{second_of_day}");
    }
    let kept = kept.put(3, &body(vec![KeySecret::new(&new.hash)]));
    let third = kept.keys(&second);
    assert_eq!(verify(&third, old.text.expose(), 1), Err(KeyRefusal::Unknown));
}

#[test]
fn narrowed_deleted_and_archived_keys_change_at_once() {
    let kept = Kept::new();
    let first = kept.keys(&StoredKeys::new(Some(pepper())));
    let narrow =
        KeyBody { scopes: vec!["prompts.render".to_owned()], ..body(vec![KeySecret::new(&kept.key.hash)]) };
    let mut kept = kept.put(2, &narrow);
    let text = kept.key.text.expose().to_owned();
    let second = kept.keys(&first);
    let scopes = second.verify(&KeyText::parse(text.as_bytes()).unwrap(), at(1)).unwrap().scopes;
    assert!(!scopes.contains(Scope::CompletionsWrite) && scopes.contains(Scope::PromptsRender));
    assert!(first.may_call() && !second.may_call());
    let mut closed = record(Kind::Workspace, kept.workspace, 2, "{}".to_owned());
    closed.status = Status::Archived;
    let archived = kept.catalog.with(&[Change::Put(Arc::new(closed))], 9);
    assert_eq!(verify(&second.with(&archived).0, &text, 1), Err(KeyRefusal::Unknown));
    kept.catalog = kept.catalog.with(&[Change::Delete { kind: Kind::ApiKey, id: kept.id }], 10);
    assert_eq!(verify(&kept.keys(&second), &text, 1), Err(KeyRefusal::Unknown));
}

#[test]
fn uses_are_noted_once_a_second_and_outlive_a_change() {
    let kept = Kept::new();
    let first = kept.keys(&StoredKeys::new(Some(pepper())));
    let text = kept.key.text.expose().to_owned();
    let public_id = kept.key.public_id.as_str().to_owned();
    let hash = kept.key.hash;
    assert_eq!((first.last_use(&public_id), first.take_last_uses()), (None, vec![]));
    verify(&first, &text, 7).unwrap();
    verify(&first, &text, 7).unwrap();
    let kept = kept.put(2, &body(vec![KeySecret::new(&hash)]));
    let second = kept.keys(&first);
    assert_eq!(second.last_use(&public_id), Some(at(7)));
    assert_eq!(second.take_last_uses(), [(kept.id, at(7))]);
    assert_eq!(second.take_last_uses(), []);
    let refused = NewKey::make(&pepper(), Some(kept.key.public_id)).unwrap();
    assert!(verify(&second, refused.text.expose(), 9).is_err());
    assert_eq!(second.take_last_uses(), []);
}

#[test]
fn what_cannot_be_read_is_reported_and_no_key() {
    let mut kept = Kept::new();
    let mut broken = record(Kind::ApiKey, kept.id, 2, r#"{"name":"k"}"#.to_owned());
    broken.slug = Some(kept.key.public_id.as_str().to_owned());
    broken.workspace = Some(kept.workspace);
    kept.catalog = kept.catalog.with(&[Change::Put(Arc::new(broken))], 5);
    let (keys, unreadable) = StoredKeys::new(Some(pepper())).with(&kept.catalog);
    assert_eq!(unreadable, [kept.id]);
    assert_eq!(verify(&keys, kept.key.text.expose(), 1), Err(KeyRefusal::Unknown));
}

/// 10,000 keys must be read within the second that a start may take for them, and a change applied within 100 ms.
#[test]
fn many_keys_are_taken_over_quickly() {
    let workspace = Arc::new(record(Kind::Workspace, Uuid::from_u128(1), 1, "{}".to_owned()));
    let records = (0..10_000u128).map(|index| {
        let key_body = body(vec![KeySecret::new(&[7; 32])]);
        let mut key = record(Kind::ApiKey, Uuid::from_u128(index), 1, key_body.to_json());
        key.slug = Some(format!("{index:012}"));
        key.workspace = Some(Uuid::from_u128(1));
        Arc::new(key)
    });
    let catalog = Catalog::new(records.chain([workspace]), 1);
    let (keys, _) = StoredKeys::new(Some(pepper())).with(&catalog);
    assert_eq!(keys.len(), 10_000);
    let started = std::time::Instant::now();
    let (again, _) = keys.with(&catalog);
    assert_eq!(again.len(), 10_000);
    // An unoptimized build takes about ten times as long as a release.
    assert!(started.elapsed() < Duration::from_millis(1000), "{:?}", started.elapsed());
}

/// All that a table says, in order.
fn described(keys: &StoredKeys) -> String {
    let by_id: BTreeMap<PublicId, String> = keys
        .by_public_id
        .iter()
        .map(|(id, key)| {
            let record = key.record.id;
            let key = key.key().unwrap();
            let scopes: Vec<Scope> = key.identity.scopes.iter().collect();
            let hashes: Vec<[u8; 32]> = key.secrets.iter().map(|secret| secret.hash).collect();
            (*id, format!("{record} {:?} {scopes:?} {hashes:?}", key.identity.workspace))
        })
        .collect();
    let workspaces: BTreeMap<_, _> = keys.workspaces.iter().collect();
    let defaults: BTreeMap<_, _> = keys.defaults.iter().collect();
    format!("{by_id:?} {workspaces:?} {defaults:?} {}", keys.calling)
}

/// A change of one of a few keys and workspaces.
fn change() -> impl Strategy<Value = Change> {
    let key = (0..6u128, 1..9u64, 0..3u128, 0..4u8).prop_map(|(id, revision, workspace, form)| {
        let scopes =
            if form == 1 { vec!["configs.read".to_owned()] } else { vec!["completions.write".to_owned()] };
        let secret = KeySecret::new(&[u8::try_from(revision).unwrap(); 32]);
        let body = KeyBody { scopes, ..body(vec![secret]) }.to_json();
        let body = if form == 2 { r#"{"name":"completions.write"}"#.to_owned() } else { body };
        let mut key = record(Kind::ApiKey, Uuid::from_u128(100 + id), revision, body);
        key.slug = Some(format!("{id:012}"));
        key.workspace = (workspace > 0).then(|| Uuid::from_u128(workspace));
        key.status = if form == 3 { Status::Archived } else { Status::Active };
        Change::Put(Arc::new(key))
    });
    let workspace = (1..3u128, 1..9u64, 0..4u8).prop_map(|(id, revision, form)| {
        let defaults = r#"{"defaults":{"metadata":{"a":"b"}}}"#;
        let body = if form == 1 { defaults } else { "{}" };
        let mut workspace = record(Kind::Workspace, Uuid::from_u128(id), revision, body.to_owned());
        workspace.slug = Some(format!("w{}", if form == 2 { 1 } else { id }));
        workspace.status = if form == 3 { Status::Archived } else { Status::Active };
        Change::Put(Arc::new(workspace))
    });
    let gone = (0..6u128).prop_map(|id| Change::Delete { kind: Kind::ApiKey, id: Uuid::from_u128(100 + id) });
    let closed = (1..3u128).prop_map(|id| Change::Delete { kind: Kind::Workspace, id: Uuid::from_u128(id) });
    prop_oneof![6 => key, 3 => workspace, 2 => gone, 1 => closed]
}

proptest! {
    /// Many changes, one after another and several at a time, come to the same as reading everything.
    #[test]
    fn what_is_made_of_changes_is_what_is_made_of_everything(
        writes in prop::collection::vec(prop::collection::vec(change(), 1..5), 1..20),
    ) {
        let mut catalog = Catalog::default();
        let mut keys = StoredKeys::new(Some(pepper()));
        for (position, changes) in (1..).zip(&writes) {
            catalog = catalog.with(changes, position);
            keys = keys.with(&catalog).0;
            let whole = StoredKeys::new(Some(pepper())).with(&catalog).0;
            let found = described(&keys);
            let wanted = described(&whole);
            // Where two workspaces have one slug, which the database refuses, either may be found by it.
            let slugs: Vec<_> = catalog.all(Kind::Workspace).map(|record| record.slug.clone()).collect();
            prop_assume!(slugs.len() < 2 || slugs[0] != slugs[1]);
            prop_assert_eq!(found, wanted);
        }
    }
}

/// A key that was made elsewhere is found by its SHA-256, then by its HMAC, and nothing else is.
#[test]
fn a_key_of_another_form_is_found_by_its_hash() {
    use crate::auth::key_records::used;
    let text = b"sk-1234 of LiteLLM";
    let ending = |end| KeySecret { expires_at: Some(end), ..KeySecret::of_sha256(&sha256(text)) };
    let kept = Kept::new().put(2, &body(vec![KeySecret::of_sha256(&sha256(text))]));
    let keys = kept.keys(&StoredKeys::new(Some(pepper())));
    assert!(keys.has_sha256(&sha256(text)) && keys.has_other(text) && !keys.has_other(b"sk-1234"));
    assert_eq!(keys.own_hashes(kept.id), []);
    assert_eq!(keys.verify_other(text, at(5)).unwrap().key_id, Some(kept.id));
    assert_eq!(keys.verify_other(b"sk-1234", at(5)).unwrap_err(), KeyRefusal::Unknown);
    // The digest is no key.
    assert_eq!(keys.verify_other(&sha256(text), at(5)).unwrap_err(), KeyRefusal::Unknown);
    let own = keys.own_hashes(kept.id);
    assert_eq!(own, [OwnHash { sha256: sha256(text), hmac: pepper().hash(text) }]);
    assert_eq!(keys.take_last_uses(), [(kept.id, at(5))]);

    let record = kept.catalog.get(Kind::ApiKey, kept.id).unwrap();
    let upgraded = used(record, at(5), &own).unwrap();
    let secrets = KeyBody::parse(&upgraded.body).unwrap().secrets;
    assert_eq!(
        secrets,
        [KeySecret { other_form: Some(OtherForm::Hmac), ..KeySecret::new(&pepper().hash(text)) }]
    );
    assert!(used(&upgraded, at(5), &own).is_none(), "nothing is left to be written");
    let catalog = kept.catalog.with(&[Change::Put(Arc::new(upgraded))], 9);
    let (keys, unreadable) = keys.with(&catalog);
    assert!(unreadable.is_empty() && !keys.has_sha256(&sha256(text)) && keys.has_other(text));
    assert_eq!(keys.verify_other(text, at(6)).unwrap().key_id, Some(kept.id));
    assert_eq!(keys.own_hashes(kept.id), []);

    let over = kept.put(3, &body(vec![ending(at(10))]));
    let keys = over.keys(&StoredKeys::new(Some(pepper())));
    assert!(keys.verify_other(text, at(9)).is_ok());
    assert_eq!(keys.verify_other(text, at(10)).unwrap_err(), KeyRefusal::Expired(at(10)));
    let gone = over.put(4, &body(vec![KeySecret::new(&[7; 32])]));
    assert!(!gone.keys(&keys).has_other(text), "what is gone is not found");
}
