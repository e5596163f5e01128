//! The objects of a grown store: copies of a few that the control API has made, written through the store's own door.
//!
//! Each key has a rate and a budget, none of which refuses a call. Providers lead to the emulator, configs to a provider each.

use super::Failure;
use super::process::{Gateway, SERVICE_KEY};
use super::sizes::Sizes;
use jiff::Timestamp;
use memory::auth::key_body::KeyBody;
use memory::auth::key_format::KeyHash;
use memory::auth::key_records;
use memory::store::{Change, Kind, Record, Store, StoreOptions};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

/// Records of one write.
const BATCH: usize = 1_000;
const WORKSPACES: usize = 20;
/// The keys, configs and providers that are called and filtered by.
const SAMPLES: usize = 500;

/// Names of objects that were made.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Samples {
    /// Texts of keys, those of the empty store first.
    pub keys: Vec<String>,
    /// Ids of all keys.
    pub key_ids: Vec<Uuid>,
    pub configs: Vec<String>,
    pub providers: Vec<String>,
    pub workspaces: Vec<(Uuid, String)>,
}

impl Samples {
    pub(crate) fn read(directory: &Path) -> Result<Self, Failure> {
        Ok(serde_json::from_str(&std::fs::read_to_string(directory.join("samples.json"))?)?)
    }

    pub(crate) fn write(&self, directory: &Path) -> Result<(), Failure> {
        Ok(std::fs::write(directory.join("samples.json"), serde_json::to_string(self)?)?)
    }
}

/// Makes one of each kind in the empty gateway, and the store in `data` with as many copies as `sizes` says.
pub(crate) fn make(
    sizes: &Sizes,
    empty: &Gateway,
    upstream: SocketAddr,
    from: &Path,
    data: &Path,
) -> Result<Samples, Failure> {
    let key = prepare(empty, upstream)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let options = |folder: &Path| StoreOptions {
            url: None,
            state_dir: folder.to_owned(),
            encryption_key: None,
            previous_encryption_keys: Vec::new(),
            reads_only: false,
        };
        let before = Store::open(options(from)).await?;
        before.backup(&data.join("turnpike.db")).await?;
        std::fs::copy(from.join("master.key"), data.join("master.key"))?;
        drop(before);
        let store = Store::open(options(data)).await?;
        let mut samples = Samples {
            keys: vec![key],
            key_ids: Vec::new(),
            configs: Vec::new(),
            providers: Vec::new(),
            workspaces: Vec::new(),
        };
        workspaces(&store, &mut samples).await?;
        providers(&store, sizes.providers, &mut samples).await?;
        configs(&store, sizes.configs, &mut samples).await?;
        keys(&store, sizes.keys, &mut samples).await?;
        Ok(samples)
    })
}

/// One of each kind, through the control API: what the others are made of. The key's text.
fn prepare(gateway: &Gateway, upstream: SocketAddr) -> Result<String, Failure> {
    let client = reqwest::blocking::Client::new();
    let post = |path: &str, body: Value| -> Result<Value, Failure> {
        let url = format!("http://{}{path}", gateway.control);
        let response = client.post(url).header("x-gateway-api-key", SERVICE_KEY).json(&body).send()?;
        let status = response.status();
        let text = response.text()?;
        if status.is_success() {
            Ok(serde_json::from_str(&text)?)
        } else {
            Err(format!("{path}: {status} {text}").into())
        }
    };
    post("/v1/admin/workspaces", json!({"name": "grown-0", "slug": "grown-0"}))?;
    let host = format!("http://{upstream}/v1");
    let provider = json!({"name": "p", "provider": "openai", "key": "sk-0123456789abcdef0123456789abcdef", "slug": "p-0", "customHost": host});
    post("/v1/virtual-keys", provider)?;
    let target = json!({"provider": "@p-0", "retry": {"attempts": 2}, "override_params": {"temperature": 0}});
    let config = json!({"strategy": {"mode": "fallback"}, "targets": [target, {"provider": "@p-0"}]});
    post("/v1/configs", json!({"name": "c", "slug": "c-0", "config": config}))?;
    let key = json!({
        "name": "key-0", "scopes": ["completions.write"],
        "rate_limits": [{"type": "requests", "unit": "rpm", "value": 1_000_000_000}],
        "usage_limits": [{"type": "cost", "credit_limit": 1_000_000, "periodic_reset": "monthly"}],
    });
    let made = post("/v1/api-keys/workspace/service", key)?;
    Ok(made.get("key").and_then(Value::as_str).ok_or("no key was made")?.to_owned())
}

fn template(store: &Store, kind: Kind, slug: Option<&str>) -> Result<Arc<Record>, Failure> {
    let catalog = store.catalog();
    let mut all = catalog.all(kind);
    let found = all.rfind(|record| slug.is_none() || record.slug.as_deref() == slug);
    Ok(found.cloned().ok_or_else(|| format!("no {} was made", kind.as_str()))?)
}

/// A copy of a record with another id and slug, and `change` in its text. It belongs to the organisation: keys of all workspaces see it.
fn copy(of: &Record, slug: String, change: impl Fn(&str) -> String) -> Record {
    Record {
        id: Uuid::now_v7(),
        workspace: None,
        slug: Some(slug),
        revision: 1,
        body: change(&of.body).into(),
        ..of.clone()
    }
}

async fn write(store: &Store, records: Vec<Record>) -> Result<(), Failure> {
    let mut left = records.into_iter().map(|record| Change::Put(Arc::new(record))).peekable();
    while left.peek().is_some() {
        store.commit(left.by_ref().take(BATCH).collect(), Vec::new()).await?;
    }
    Ok(())
}

async fn workspaces(store: &Store, samples: &mut Samples) -> Result<(), Failure> {
    let of = template(store, Kind::Workspace, Some("grown-0"))?;
    let new = (1..WORKSPACES).map(|number| {
        let slug = format!("grown-{number}");
        copy(&of, slug.clone(), |body| body.replace("grown-0", &slug))
    });
    let new: Vec<Record> = new.collect();
    let all = std::iter::once(&*of).chain(&new);
    samples.workspaces = all.map(|record| (record.id, record.slug.clone().unwrap_or_default())).collect();
    write(store, new).await
}

async fn providers(store: &Store, count: usize, samples: &mut Samples) -> Result<(), Failure> {
    let of = template(store, Kind::Provider, Some("p-0"))?;
    let secrets = store.unseal(&of)?;
    let mut new = Vec::with_capacity(count);
    for number in 1..count {
        let record = copy(&of, format!("p-{number}"), str::to_owned);
        let sealed = Some(store.seal(Kind::Provider, record.id, &secrets)?);
        new.push(Record { sealed, ..record });
    }
    samples.providers = (0..count).map(|number| format!("p-{number}")).collect();
    write(store, new).await
}

async fn configs(store: &Store, count: usize, samples: &mut Samples) -> Result<(), Failure> {
    let of = template(store, Kind::Config, Some("c-0"))?;
    let providers = samples.providers.len();
    let new = (1..count).map(|number| {
        // The first one is of one workspace.
        let provider = format!("@p-{}\"", 1 + number % (providers - 1).max(1));
        copy(&of, format!("c-{number}"), |body| body.replace("@p-0\"", &provider))
    });
    samples.configs = (0..count.min(SAMPLES)).map(|number| format!("c-{number}")).collect();
    write(store, new.collect()).await
}

async fn keys(store: &Store, count: usize, samples: &mut Samples) -> Result<(), Failure> {
    let of = template(store, Kind::ApiKey, None)?;
    let body = KeyBody::parse(&of.body)?;
    let pepper = store.pepper().ok_or("the store has no pepper")?;
    let pepper = KeyHash::new(pepper.as_bytes());
    samples.key_ids.push(of.id);
    let mut new = Vec::with_capacity(count);
    for number in 1..count {
        let workspace = samples.workspaces.get(number % WORKSPACES).map(|(id, _)| *id);
        let body = KeyBody { name: format!("key-{number}"), ..body.clone() };
        let made = key_records::make(body, workspace, &pepper, Timestamp::now())?;
        samples.key_ids.push(made.record.id);
        if samples.keys.len() < SAMPLES {
            samples.keys.push(made.text.expose().to_owned());
        }
        new.push(made.record);
    }
    write(store, new).await
}
