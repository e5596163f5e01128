//! Tests of the compiled objects, on a store in memory.

use super::*;
use crate::state::directory::{DefinedIn, Directory};
use crate::state::discovered_hosts::HostLists;
use crate::store::{Change, StoreOptions};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use words::settings::{CustomHosts, ModelRoute};

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
        let env = CompilerEnv { store: &self.store, hosts: &hosts };
        self.stored = self.stored.update(&self.store.catalog(), env, now.parse().unwrap());
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
async fn a_name_of_models_is_found_in_its_workspace_then_in_the_organisation() {
    let mut compiled = Compiled::new().await;
    let name = |slug: &str, workspace, name: &str, to: &str| {
        record(Kind::ModelName, slug, workspace, &json!({"name": name, "to": to, "model": null}))
    };
    let own = name("n1", Some(WORKSPACE), "fast", "@own/m");
    let before = compiled.stored.routing_generation;
    compiled.put(own.clone(), None).await;
    compiled.put(name("n2", None, "fast", "@all/m"), None).await;
    compiled.put(name("n3", None, "gpt-*", "@all"), None).await;
    compiled.put(name("n4", None, "no name", "@all"), None).await;
    assert!(compiled.stored.routing_generation > before);
    let yaml = words::settings::SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
    let checks = words::config::Checks::NONE;
    let text = "providers: {p: {provider: openai}}\nmodels: {'gpt-4*': '@p'}";
    let settings = words::settings::Settings::parse(text, &yaml, &checks).unwrap();
    let found = |compiled: &Compiled, workspace, name: &str| {
        let directory = Directory {
            settings: &settings,
            stored: &compiled.stored,
            hosts_of: &HostLists::new(),
            workspace,
        };
        directory.model(name).map(|(entry, by)| (format!("{:?}", entry.route), by))
    };
    let of = |slug: &str| format!("Provider({slug:?})");
    let store = DefinedIn::Store;
    assert_eq!(found(&compiled, Some(WORKSPACE), "fast"), Some((of("own"), store)));
    assert_eq!(found(&compiled, Some(Uuid::from_u128(8)), "fast"), Some((of("all"), store)));
    assert_eq!(found(&compiled, None, "gpt-3"), Some((of("all"), store)));
    assert_eq!(found(&compiled, None, "gpt-4o"), Some((of("p"), DefinedIn::Settings)));
    assert_eq!(found(&compiled, None, "no name"), None);
    compiled.put(Record { status: Status::Archived, revision: 2, ..own }, None).await;
    assert_eq!(found(&compiled, Some(WORKSPACE), "fast"), Some((of("all"), store)));
}

#[tokio::test]
async fn what_has_not_changed_is_not_compiled_again() {
    let mut compiled = Compiled::new().await;
    compiled.put(provider("a", Some(WORKSPACE), json!({})), Some(json!({"api_key": "k"}))).await;
    let config = json!({"name": "c", "config": {"provider": "@a"}});
    compiled.put(record(Kind::Config, "c", Some(WORKSPACE), &config), None).await;
    let before = compiled.stored.clone();
    let generation = compiled.stored.routing_generation;
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

/// All that is compiled, in order.
fn described(stored: &Stored) -> String {
    let providers: BTreeMap<_, _> = stored.providers.iter().collect();
    let configs: BTreeMap<_, _> = stored.configs.iter().collect();
    let mut prompts = BTreeMap::new();
    for workspace in stored.prompts.workspaces() {
        let set = stored.prompts.set(workspace).unwrap();
        for prompt in set.prompts() {
            assert!(set.prompt(&prompt.id.to_string()).is_some_and(|found| found.slug == prompt.slug));
            let labels: BTreeMap<_, _> = prompt.labels.iter().collect();
            let versions: Vec<_> =
                prompt.versions.iter().map(|(number, version)| (number, version.id)).collect();
            prompts.insert(
                format!("{workspace} {}", prompt.slug),
                format!("{} {versions:?} {labels:?}", prompt.published),
            );
        }
        for partial in set.partials() {
            let found = format!("{} {:?}", partial.published, partial.versions);
            prompts.insert(format!("{workspace} partial {}", partial.slug), found);
        }
    }
    let workspaces = [7, 8].map(|number| Some(Uuid::from_u128(number)));
    let names = workspaces.into_iter().filter_map(|workspace| stored.models(workspace));
    let names: Vec<Vec<_>> = names.map(|names| names.iter().collect()).collect();
    format!("{providers:?} {configs:?} {names:?} {:?} {:?} {prompts:?}", stored.expiries, stored.broken)
}

/// A record of one of a few, with an id and a slug of its own.
fn any_record() -> impl Strategy<Value = Record> {
    let kinds = [
        Kind::Provider,
        Kind::Config,
        Kind::ModelName,
        Kind::Prompt,
        Kind::PromptVersion,
        Kind::Partial,
        Kind::PartialVersion,
        Kind::Label,
    ];
    (0..kinds.len(), 0..3u128, 0..4u32, 0..3u128, any::<bool>()).prop_map(move |(kind, id, form, parent, is_active)| {
        let kind = kinds[kind];
        let is_version = matches!(kind, Kind::PromptVersion | Kind::PartialVersion);
        let expiry = ["2026-05-03T17:09:00Z", "2026-05-03T17:10:00Z"].get(form as usize);
        let body = match kind {
            Kind::Provider => json!({"ai_provider": if form == 3 { "nobody" } else { "openai" }, "is_provider": form != 2,
                "account": {"custom_host": format!("https://{form}.example.com")}, "expires_at": expiry}),
            Kind::Config => json!({"config": if form == 3 { json!(3) } else { json!({"retry": {"attempts": form + 1}}) }}),
            // Some have the name of another one.
            Kind::ModelName => json!({"name": (["a", "b*", "c", "c d"])[form as usize], "to": format!("@p/{id}")}),
            Kind::Prompt => json!({"published": form + 1, "labels": {Uuid::from_u128(600).to_string(): 1, Uuid::from_u128(601).to_string(): 2}}),
            Kind::Partial => json!({"published": form + 1}),
            Kind::PromptVersion | Kind::PartialVersion => json!({"string": if form == 3 { "{{" } else { "text" }, "is_raw_template": false}),
            _ => json!({}),
        };
        let number = u128::from(kind as u8) * 100;
        let parent_kind = match kind {
            Kind::PromptVersion => Some(Kind::Prompt),
            Kind::PartialVersion => Some(Kind::Partial),
            // The first one's account.
            Kind::Provider if id > 0 && form == 1 => Some(Kind::Provider),
            _ => None,
        };
        let parent = parent_kind.map(|of| Uuid::from_u128(u128::from(of as u8) * 100 + if of == kind { 0 } else { parent }));
        let id_of = Uuid::from_u128(if kind == Kind::Label { 600 + id } else { number + id });
        let workspace = Uuid::from_u128(7 + u128::from(form == 0));
        let slug = format!("{}-{id}-{}", kind.as_str(), form % 2);
        Record {
            id: id_of,
            parent,
            slug: (!is_version).then_some(slug),
            number: is_version.then(|| u32::try_from(id).unwrap() + 1),
            status: if is_active { Status::Active } else { Status::Archived },
            revision: u64::from(form),
            ..record(kind, "", Some(workspace), &body)
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Many changes, one after another and several at a time, come to the same as compiling everything.
    #[test]
    fn what_is_made_of_changes_is_what_is_made_of_everything(
        writes in prop::collection::vec(prop::collection::vec((any_record(), 0..5u8), 1..6), 1..16),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let store = runtime.block_on(Store::open(StoreOptions::in_memory())).unwrap();
        let hosts = HostRules::new(&CustomHosts::default());
        let env = CompilerEnv { store: &store, hosts: &hosts };
        let now: Timestamp = NOW.parse().unwrap();
        let mut catalog = Catalog::default();
        let mut stored = Stored::default();
        for (position, write) in (1..).zip(writes) {
            let changes: Vec<Change> = write
                .into_iter()
                .map(|(record, form)| match form {
                    0 => Change::Delete { kind: record.kind, id: record.id },
                    _ => Change::Put(Arc::new(record)),
                })
                .collect();
            catalog = catalog.with(&changes, position);
            let now = now + jiff::SignedDuration::from_secs(i64::try_from(position).unwrap());
            stored = stored.update(&Arc::new(catalog.clone()), env, now);
            let whole = Stored::default().update(&Arc::new(catalog.clone()), env, now);
            let found = described(&stored);
            prop_assert_eq!(&found, &described(&whole));
            prop_assert_eq!(stored.next_expiry(), whole.next_expiry());
        }
    }
}

#[tokio::test]
async fn default_guardrails_are_the_workspaces_and_only_their_change_counts() {
    let mut compiled = Compiled::new().await;
    let body = |name: &str, guardrails: &[&str]| json!({"name": name, "defaults": {"input_guardrails": guardrails, "metadata": {"a": name}}});
    let mut workspace =
        Record { id: WORKSPACE, ..record(Kind::Workspace, "w", None, &body("one", &["g", "h"])) };
    compiled.put(workspace.clone(), None).await;
    let of =
        |compiled: &Compiled, workspace, phase| compiled.stored.default_guardrails(workspace, phase).to_vec();
    assert_eq!(of(&compiled, Some(WORKSPACE), HookPhase::Before), ["g", "h"]);
    for (workspace, phase) in [
        (Some(WORKSPACE), HookPhase::After),
        (Some(Uuid::from_u128(8)), HookPhase::Before),
        (None, HookPhase::Before),
    ] {
        assert!(of(&compiled, workspace, phase).is_empty());
    }
    let before = compiled.stored.routing_generation;
    for (name, guardrails, changes) in [("two", &["g", "h"][..], 0), ("two", &["g"], 1), ("two", &[], 2)] {
        workspace.body = body(name, guardrails).to_string().into();
        workspace.revision += 1;
        compiled.put(workspace.clone(), None).await;
        assert_eq!(compiled.stored.routing_generation - before, changes, "{guardrails:?}");
        assert_eq!(of(&compiled, Some(WORKSPACE), HookPhase::Before), guardrails);
    }
}

/// A start makes no tables of patterns, whatever is stored: the first request that needs one does.
#[tokio::test]
async fn the_patterns_of_stored_configs_are_not_made_when_they_are_loaded() {
    let condition =
        |n: usize| json!({"query": {"metadata.a": {"$regex": format!("^[a-z]{{1,20}}{n}$")}}, "then": "t"});
    let conditions: Vec<_> = (0..100).map(condition).collect();
    let strategy = json!({"mode": "conditional", "conditions": conditions, "default": "t"});
    let config = json!({"strategy": strategy, "targets": [{"name": "t", "provider": "@a"}]});
    let mut compiled = Compiled::new().await;
    compiled.put(record(Kind::Config, "c", Some(WORKSPACE), &json!({"config": config})), None).await;
    let named = json!({"name": "m", "to": config});
    compiled.put(record(Kind::ModelName, "m", Some(WORKSPACE), &named), None).await;
    assert!(!compiled.stored.config(Some(WORKSPACE), "c").unwrap().has_made_patterns());
    let entry = compiled.stored.models(Some(WORKSPACE)).and_then(|names| names.whole("m")).unwrap();
    let ModelRoute::Inline(of_name) = &entry.route else { panic!("{:?}", entry.route) };
    assert!(!of_name.has_made_patterns());
}
