//! `GET /v1/export`: the objects that the client may see, as `POST /v1/apply` takes them.

use super::super::call::Call;
use super::super::credential::has_role;
use super::super::origin;
use super::super::records::{members as body_of, set};
use super::super::reply::Reply;
use super::kinds::{KINDS, Managed};
use super::{members, secrets};
use memory::auth::DEFAULT_WORKSPACE;
use memory::store::{Catalog, Kind, Record};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use words::error::Error;

/// What files never have, of kinds that are stored.
const OTHERS: [(Kind, &str); 3] = [
    (Kind::User, "users, invites and members of workspaces"),
    (Kind::LogExport, "exports of logs"),
    (Kind::Batch, "files and batches"),
];

/// The members of an account that only a provider has, and not its integration.
const OF_PROVIDER: [&str; 4] = ["usage_limits", "rate_limits", "expires_at", "allowed_models"];

pub(super) async fn export(call: Call) -> Result<Reply, Error> {
    let catalog = call.catalog()?;
    let mut exported = Exported { objects: Vec::new(), left_out: Vec::new(), names: BTreeSet::new() };
    for managed in &KINDS {
        if let Err(why) = managed.check_readable(&call.identity) {
            exported.left_out.push(format!("{}: {}", managed.name, why.message));
            continue;
        }
        exported.add_kind(&call, &catalog, managed)?;
        tokio::task::yield_now().await;
    }
    exported.add_others(&call, &catalog);
    Ok(Reply::from(json!({"object": "export", "objects": exported.objects, "left_out": exported.left_out})))
}

struct Exported {
    objects: Vec<Value>,
    left_out: Vec<String>,
    /// The names of secrets that were given.
    names: BTreeSet<String>,
}

impl Exported {
    fn add_kind(&mut self, call: &Call, catalog: &Catalog, managed: &Managed) -> Result<(), Error> {
        let wanted = call.query_text("set");
        let mut found = call.list(managed.kind)?;
        found.reverse();
        found.retain(|record| wanted.is_none_or(|wanted| origin::set_of(record).as_deref() == Some(wanted)));
        found.retain(|record| is_of(managed, record));
        if managed.kind == Kind::ApiKey && call.query_flag("keys") != Some(true) {
            if !found.is_empty() {
                self.left_out
                    .push(format!("api-keys: {}, which are exported with keys=true only", found.len()));
            }
            return Ok(());
        }
        for record in &found {
            self.add(call, catalog, managed, record)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        call: &Call,
        catalog: &Catalog,
        managed: &Managed,
        record: &Arc<Record>,
    ) -> Result<(), Error> {
        let mut own = members::of_record(call, catalog, managed, record)?;
        if managed.name == "providers" && record.parent.is_none() {
            // The account is its integration's.
            own.retain(|name, _| !matches!(name.as_str(), "provider" | "key" | "configurations"));
        }
        let slug = record.slug.as_deref().unwrap_or_default();
        let workspace = record.workspace.and_then(|id| catalog.get(Kind::Workspace, id));
        let workspace = workspace.and_then(|workspace| workspace.slug.clone());
        let place = workspace.clone().filter(|slug| slug != DEFAULT_WORKSPACE).unwrap_or_default();
        let id = record.id.simple().to_string();
        secrets::hide(&mut own, managed.secrets(), &mut |path| {
            let parts = [place.as_str(), managed.name, slug, path];
            self.new_name(&parts, id.get(24..).unwrap_or_default())
        });
        let mut object = Map::from_iter([("kind".to_owned(), managed.name.into())]);
        if managed.identity() == "slug" {
            set(&mut object, "slug", slug);
        }
        if managed.kind != Kind::Workspace && own.get("type") != Some(&"organisation-service".into()) {
            set(&mut object, "workspace_id", workspace);
        }
        object.extend(own);
        self.left_out.extend(lost(managed, record, slug));
        self.objects.push(Value::Object(object));
        Ok(())
    }

    /// A name for a secret: that of no other one.
    fn new_name(&mut self, parts: &[&str], id: &str) -> String {
        let plain = |text: &str| -> String {
            text.chars()
                .map(|char| if char.is_ascii_alphanumeric() { char.to_ascii_uppercase() } else { '_' })
                .collect()
        };
        let parts: Vec<String> =
            parts.iter().filter(|part| !part.is_empty()).map(|part| plain(part)).collect();
        let mut name = parts.join("_");
        if name.starts_with(|char: char| char.is_ascii_digit()) {
            name.insert(0, '_');
        }
        if self.names.contains(&name) {
            name = format!("{name}_{}", plain(id));
        }
        self.names.insert(name.clone());
        name
    }

    fn add_others(&mut self, call: &Call, catalog: &Catalog) {
        let others =
            OTHERS.iter().filter(|(kind, _)| catalog.all(*kind).next().is_some() && !call.identity.is_bound);
        self.left_out.extend(others.map(|(_, what)| (*what).to_owned()));
    }
}

/// Whether a record is exported as this kind. One with an account of its own is an integration, and a provider as well where it has what
/// only a provider has.
fn is_of(managed: &Managed, record: &Record) -> bool {
    match managed.name {
        "integrations" => has_role(record, "is_integration"),
        "providers" => {
            let body = body_of(record);
            let has_own =
                OF_PROVIDER.iter().any(|name| body.get(*name).is_some_and(|value| !value.is_null()));
            has_role(record, "is_provider") && (record.parent.is_some() || has_own)
        }
        _ => true,
    }
}

/// What of an object files do not have.
fn lost(managed: &Managed, record: &Record, slug: &str) -> Option<String> {
    if managed.name != "integrations" {
        return None;
    }
    let body = body_of(record);
    let parts = [
        ("models", "its list of models"),
        ("workspaces", "its workspaces"),
        ("global_workspace_access", "its workspaces"),
    ];
    let found: BTreeSet<&str> = parts
        .iter()
        .filter(|(name, _)| body.get(*name).is_some_and(|value| !value.is_null() && *value != json!([])))
        .map(|(_, what)| *what)
        .collect();
    (!found.is_empty())
        .then(|| format!("integrations {slug}: {}", found.into_iter().collect::<Vec<_>>().join(", ")))
}
