//! Tests of the compiled objects, on a store in memory.

use super::*;
use crate::settings::CustomHosts;
use crate::store::{Change, StoreOptions};
use serde_json::json;

const WORKSPACE: Uuid = Uuid::from_u128(7);
const NOW: &str = "2026-05-03T17:08:55Z";

fn record(kind: Kind, slug: &str, workspace: Option<Uuid>, body: &serde_json::Value) -> Record {
    let now: Timestamp = NOW.parse().unwrap();
    Record {
        kind,
        id: Uuid::now_v7(),
        parent: None,
        workspace,
        slug: Some(slug.to_owned()),
        number: None,
        status: Status::Active,
        revision: 1,
        created_at: now,
        updated_at: now,
        body: body.to_string().into(),
        sealed: None,
    }
}

fn provider(slug: &str, workspace: Option<Uuid>, more: serde_json::Value) -> Record {
    let mut body = json!({"name": slug, "ai_provider": "openai", "is_provider": true, "account": {}});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    record(Kind::Provider, slug, workspace, &body)
}

/// A store in memory with these records, and the objects compiled from it.
struct Compiled {
    store: Store,
    stored: Stored,
}

impl Compiled {
    async fn new() -> Self {
        let store = Store::open(StoreOptions::in_memory()).await.unwrap();
        Self { store, stored: Stored::default() }
    }

    async fn put(&mut self, mut record: Record, secrets: Option<serde_json::Value>) {
        let secrets = secrets.map(|secrets| secrets.as_object().unwrap().clone());
        record.sealed = secrets.map(|secrets| self.store.seal(record.kind, record.id, &secrets).unwrap());
        self.store.commit(vec![Change::Put(Arc::new(record))], Vec::new()).await.unwrap();
        self.update(NOW);
    }

    fn update(&mut self, now: &str) {
        let hosts = HostRules::new(&CustomHosts::default());
        self.stored = self.stored.update(&self.store.catalog(), &self.store, &hosts, now.parse().unwrap());
    }
}

#[tokio::test]
async fn a_provider_has_its_secrets_and_is_found_in_its_workspace_only() {
    let mut compiled = Compiled::new().await;
    compiled.put(provider("a", Some(WORKSPACE), json!({})), Some(json!({"api_key": "sk-1"}))).await;
    compiled.put(provider("b", None, json!({})), Some(json!({"api_key": "sk-2"}))).await;
    let key = |workspace, slug: &str| {
        let provider = compiled.stored.provider(workspace, slug)?;
        Some(provider.account.api_key.as_ref().unwrap().expose().to_owned())
    };
    assert_eq!(key(Some(WORKSPACE), "a").as_deref(), Some("sk-1"));
    assert_eq!(key(Some(WORKSPACE), "b").as_deref(), Some("sk-2"), "the organisation's is usable everywhere");
    assert_eq!(key(Some(Uuid::from_u128(8)), "a"), None);
    assert_eq!(key(None, "a"), None);
    let slugs: Vec<&str> = compiled.stored.providers(Some(WORKSPACE)).map(|(slug, _)| slug).collect();
    assert_eq!(slugs, ["a", "b"]);
}

#[tokio::test]
async fn a_provider_follows_the_integration_whose_account_it_uses() {
    let mut compiled = Compiled::new().await;
    let integration = provider("i", Some(WORKSPACE), json!({"is_provider": false}));
    let derived = Record { parent: Some(integration.id), ..provider("p", Some(WORKSPACE), json!({})) };
    compiled.put(integration.clone(), Some(json!({"api_key": "old"}))).await;
    compiled.put(derived, None).await;
    let key = |compiled: &Compiled| {
        let provider = compiled.stored.provider(Some(WORKSPACE), "p").unwrap();
        provider.account.api_key.as_ref().unwrap().expose().to_owned()
    };
    assert!(compiled.stored.provider(Some(WORKSPACE), "i").is_none(), "an integration alone is no provider");
    assert_eq!(key(&compiled), "old");
    let before = compiled.stored.routing_generation;
    compiled.put(Record { revision: 2, ..integration }, Some(json!({"api_key": "new"}))).await;
    assert_eq!(key(&compiled), "new");
    assert!(compiled.stored.routing_generation > before, "configs are compiled anew");
}

#[tokio::test]
async fn a_provider_goes_out_of_use_by_the_clock() {
    let mut compiled = Compiled::new().await;
    let expires = json!({"expires_at": "2026-05-03T17:09:00Z"});
    compiled.put(provider("a", Some(WORKSPACE), expires), Some(json!({"api_key": "k"}))).await;
    assert!(compiled.stored.provider(Some(WORKSPACE), "a").is_some());
    assert_eq!(compiled.stored.next_expiry(), Some("2026-05-03T17:09:00Z".parse().unwrap()));
    let before = compiled.stored.routing_generation;
    compiled.update("2026-05-03T17:09:00Z");
    assert!(compiled.stored.provider(Some(WORKSPACE), "a").is_none());
    assert!(compiled.stored.routing_generation > before && compiled.stored.next_expiry().is_none());
}

#[tokio::test]
async fn what_has_not_changed_is_not_compiled_again() {
    let mut compiled = Compiled::new().await;
    compiled.put(provider("a", Some(WORKSPACE), json!({})), Some(json!({"api_key": "k"}))).await;
    let config = json!({"name": "c", "config": {"provider": "@a"}});
    compiled.put(record(Kind::Config, "c", Some(WORKSPACE), &config), None).await;
    let (before, generation) = (compiled.stored.clone(), compiled.stored.routing_generation);
    compiled.put(record(Kind::Collection, "x", Some(WORKSPACE), &json!({})), None).await;
    let same = |a: Option<&Arc<Config>>, b: Option<&Arc<Config>>| Arc::ptr_eq(a.unwrap(), b.unwrap());
    assert!(same(before.config(Some(WORKSPACE), "c"), compiled.stored.config(Some(WORKSPACE), "c")));
    assert_eq!(
        compiled.stored.routing_generation, generation,
        "nothing that configs are compiled from has changed"
    );
}

#[tokio::test]
async fn what_cannot_be_compiled_is_left_out() {
    let mut compiled = Compiled::new().await;
    compiled.put(provider("a", Some(WORKSPACE), json!({"ai_provider": "nobody"})), None).await;
    compiled.put(record(Kind::Config, "c", None, &json!({"config": {"targets": 5}})), None).await;
    assert!(compiled.stored.provider(Some(WORKSPACE), "a").is_none());
    assert!(compiled.stored.config(Some(WORKSPACE), "c").is_none());
}
