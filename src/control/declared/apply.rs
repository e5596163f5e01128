//! `POST /v1/apply`: plans all objects of a request on one stage, and writes what they change in one transaction.

use super::super::audit;
use super::super::call::Call;
use super::super::credential::has_role;
use super::super::origin;
use super::super::records::members;
use super::super::reply::Reply;
use super::super::stage::{self, Part, Stage};
use super::kinds::{KINDS, Managed};
use super::plan::{Action, Entry, Outcome, Planning};
use super::secrets;
use http::StatusCode;
use memory::store::{Catalog, Kind, Record, Status};
use parking_lot::Mutex;
use ring::hmac;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use uuid::Uuid;
use words::error::{Error, Problem};

/// How often what was refused is tried again, because what it names may have been made meanwhile.
const MAX_PASSES: usize = 8;

/// What becomes of each object: of a file's in their order, then of those that no file has.
struct Plan {
    changes: Vec<Value>,
    totals: BTreeMap<&'static str, usize>,
    digest: String,
}

type Outcomes = BTreeMap<usize, Result<Outcome, Error>>;

pub(super) async fn apply(mut call: Call) -> Result<Reply, Error> {
    let set = call.text("set").unwrap_or_default().to_owned();
    let is_dry = call.flag("dry_run") == Some(true);
    let entries = entries(&call)?;
    let catalog = call.catalog()?;
    let stage = Stage::new(&set, Arc::clone(&catalog), Arc::clone(&call.snapshot));
    let stage = Arc::new(Mutex::new(stage));
    let plan = {
        let takes_over = call.flag("take_over") == Some(true);
        let keys = keys_by_name(&catalog);
        let planning = Planning { call: &call, stage: Arc::clone(&stage), set: &set, takes_over, keys };
        plan_all(&planning, &entries).await?
    };
    let expected = call.text("expect").filter(|expected| *expected != plan.digest);
    if expected.is_some() {
        return Err(Error::conflict(format!(
            "The plan is no longer the one that is expected: what is stored, or the file, has changed since. Nothing was written. Plan \
             again; its digest is now {}.",
            plan.digest
        ))
        .with_param("expect"));
    }
    if is_dry {
        return Ok(reply(&set, plan, false));
    }
    if plan.totals.contains_key(Action::Refused.as_str()) {
        if let Some(entry) = call.trail.entry(Some(&call.identity), 409, call.now) {
            audit::append(&call.shared, entry).await;
        }
        return Ok(reply(&set, plan, false).with_status(StatusCode::CONFLICT));
    }
    if state(&catalog) != state(&*call.catalog()?) {
        return Err(Error::conflict(
            "Objects have changed while this was planned. Nothing was written: apply again.".to_owned(),
        ));
    }
    let changes = std::mem::take(&mut stage.lock().changes);
    let audit = std::mem::take(&mut stage.lock().audit);
    if !changes.is_empty() {
        call.commit_staged(changes, audit).await?;
    }
    Ok(reply(&set, plan, true))
}

/// The objects that plans are made on, as one number: the apply looks whether they are the same when it writes.
fn state(catalog: &Catalog) -> u64 {
    let mut hasher = DefaultHasher::new();
    for managed in &KINDS {
        for record in catalog.all(managed.kind) {
            (record.id, record.revision).hash(&mut hasher);
        }
    }
    hasher.finish()
}

fn reply(set: &str, plan: Plan, is_applied: bool) -> Reply {
    Reply::from(json!({
        "object": "plan",
        "set": set,
        "applied": is_applied,
        "digest": plan.digest,
        "totals": plan.totals,
        "changes": plan.changes,
    }))
}

/// The objects of a request.
///
/// # Errors
/// 400 with all that are of no kind, have no name, or stand twice.
fn entries(call: &Call) -> Result<Vec<Entry>, Error> {
    let objects = call.body.get("objects").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut problems = Vec::new();
    let mut entries = Vec::with_capacity(objects.len());
    let mut found = HashSet::new();
    for (index, object) in objects.iter().enumerate() {
        let read = entry(index, object).and_then(|entry| {
            let place = entry.members.get("workspace_id").and_then(Value::as_str).map(str::to_owned);
            let key = (entry.managed.name, place, entry.name.clone());
            if found.insert(key) { Ok(entry) } else { Err(("", "stands twice".to_owned())) }
        });
        match read {
            Ok(entry) => entries.push(entry),
            Err((member, message)) => {
                let path = format!("objects[{index}]{member}");
                problems.push(Problem { path, message, place: None });
            }
        }
    }
    if problems.is_empty() { Ok(entries) } else { Err(Error::invalid_body(problems)) }
}

fn entry(index: usize, object: &Value) -> Result<Entry, (&'static str, String)> {
    let mut members = object.as_object().cloned().unwrap_or_default();
    let kind = members.remove("kind");
    let kind = kind.as_ref().and_then(Value::as_str).unwrap_or_default();
    let managed = Managed::find(kind).ok_or_else(|| {
        let names: Vec<&str> = KINDS.iter().map(|managed| managed.name).collect();
        (".kind", format!("{kind:?} is no kind that files have; there are {}", names.join(", ")))
    })?;
    members.values_mut().for_each(secrets::mark);
    let name = members.get(managed.identity()).and_then(Value::as_str).filter(|name| !name.is_empty());
    let name = name.map(str::to_owned).ok_or_else(|| match managed.identity() {
        "slug" => (".slug", "is required: a file finds objects by it".to_owned()),
        _ => (".name", "is required: a file finds such objects by it".to_owned()),
    })?;
    Ok(Entry { index, managed, members, name })
}

fn keys_by_name(catalog: &Catalog) -> HashMap<(Option<Uuid>, String), Vec<Arc<Record>>> {
    let mut keys: HashMap<_, Vec<Arc<Record>>> = HashMap::new();
    for record in catalog.all(Kind::ApiKey).filter(|record| record.status == Status::Active) {
        keys.entry((record.workspace, name_of(record))).or_default().push(Arc::clone(record));
    }
    keys
}

async fn plan_all(planning: &Planning<'_>, entries: &[Entry]) -> Result<Plan, Error> {
    let mut outcomes = Outcomes::new();
    for managed in &KINDS {
        let of_kind = || entries.iter().filter(|entry| entry.managed.name == managed.name);
        match managed.kind {
            Kind::Workspace => plan_group(planning, of_kind().collect(), &mut outcomes, true).await,
            Kind::ApiKey => {
                let workspaces = entries.iter().filter(|entry| entry.managed.kind == Kind::Workspace);
                plan_group(planning, workspaces.collect(), &mut outcomes, false).await;
                plan_group(planning, of_kind().collect(), &mut outcomes, false).await;
            }
            _ => plan_group(planning, of_kind().collect(), &mut outcomes, false).await,
        }
    }
    let mut rows: Vec<Value> = entries
        .iter()
        .filter_map(|entry| {
            let workspace = entry.members.get("workspace_id").cloned().unwrap_or_default();
            Some(row(entry.managed, &entry.name, workspace, outcomes.get(&entry.index)?))
        })
        .collect();
    let mut touched: Vec<(Uuid, u64)> = outcomes
        .values()
        .flatten()
        .filter_map(|outcome| outcome.record)
        .filter(|(_, revision)| *revision > 0)
        .collect();
    if planning.call.flag("prune") == Some(true) && outcomes.values().all(Result::is_ok) {
        let kept: HashSet<Uuid> =
            outcomes.values().flatten().filter_map(|outcome| Some(outcome.record?.0)).collect();
        prune(planning, &kept, &mut rows, &mut touched).await?;
    }
    let mut totals = BTreeMap::new();
    for action in Action::ALL {
        let count = rows.iter().filter(|row| row.get("action") == Some(&action.as_str().into())).count();
        if count > 0 {
            totals.insert(action.as_str(), count);
        }
    }
    Ok(Plan { digest: digest(planning.call, &rows, &touched)?, changes: rows, totals })
}

/// Plans objects of a kind, and those that are refused again as long as others pass. `only_new`: those that exist are left for later.
async fn plan_group(planning: &Planning<'_>, group: Vec<&Entry>, outcomes: &mut Outcomes, only_new: bool) {
    let mut waiting = group;
    if only_new {
        waiting.retain(|entry| !planning.is_there(entry));
    }
    for _ in 0..MAX_PASSES {
        let mut refused = Vec::new();
        for entry in &waiting {
            let outcome = planning.plan(entry).await;
            if outcome.is_err() {
                refused.push(*entry);
            }
            match (outcomes.get(&entry.index), outcome) {
                // What was made is only completed by this.
                (Some(Ok(before)), Ok(_)) if before.action == Action::Create => {}
                (_, outcome) => drop(outcomes.insert(entry.index, outcome)),
            }
            // Others have the thread meanwhile.
            tokio::task::yield_now().await;
        }
        if refused.is_empty() || refused.len() == waiting.len() {
            return;
        }
        waiting = refused;
    }
}

/// Deletes the objects of the set that the client may see and that no file has.
async fn prune(
    planning: &Planning<'_>,
    kept: &HashSet<Uuid>,
    rows: &mut Vec<Value>,
    touched: &mut Vec<(Uuid, u64)>,
) -> Result<(), Error> {
    let own = planning.call.own_workspace();
    for managed in KINDS.iter().rev() {
        let catalog = Arc::clone(&planning.stage.lock().catalog);
        let is_gone = |record: &&Arc<Record>| {
            record.status == Status::Active
                && !kept.contains(&record.id)
                && own.is_none_or(|own| record.workspace == Some(own))
                && origin::set_of(record).as_deref() == Some(planning.set)
                // One with an account of its own is an integration.
                && managed.role().is_none_or(|role| (role == "is_integration") == has_role(record, "is_integration"))
        };
        let mut waiting: Vec<Arc<Record>> = catalog.all(managed.kind).filter(is_gone).cloned().collect();
        for _ in 0..MAX_PASSES {
            let mut refused = Vec::new();
            for record in &waiting {
                let outcome = delete(planning, managed, record).await;
                if outcome.is_err() {
                    refused.push((Arc::clone(record), outcome));
                    continue;
                }
                touched.push((record.id, record.revision));
                rows.push(row_of_record(&catalog, managed, record, &outcome));
            }
            let is_stuck = refused.len() == waiting.len();
            if is_stuck {
                rows.extend(
                    refused.iter().map(|(record, outcome)| row_of_record(&catalog, managed, record, outcome)),
                );
                break;
            }
            waiting = refused.into_iter().map(|(record, _)| record).collect();
        }
    }
    Ok(())
}

async fn delete(planning: &Planning<'_>, managed: &Managed, record: &Record) -> Result<Outcome, Error> {
    let mark = planning.stage.lock().mark();
    let is_deleted = {
        let now = mark.catalog.get(record.kind, record.id);
        now.is_none_or(|now| now.status == Status::Archived)
    };
    // Such as a provider that has gone with its integration.
    if !is_deleted {
        let part = Part::new(managed.deletion()?, Some(record.id), Map::new());
        if let Err(why) = stage::run(planning.call, &planning.stage, part).await {
            planning.stage.lock().go_back(mark);
            return Err(why);
        }
    }
    let record = Some((record.id, record.revision));
    Ok(Outcome { action: Action::Delete, changed: Vec::new(), notes: Vec::new(), record })
}

fn row_of_record(
    catalog: &Catalog,
    managed: &Managed,
    record: &Record,
    outcome: &Result<Outcome, Error>,
) -> Value {
    let name = match managed.kind {
        Kind::ApiKey => name_of(record),
        _ => record.slug.clone().unwrap_or_default(),
    };
    let workspace = record.workspace.and_then(|id| catalog.get(Kind::Workspace, id)?.slug.clone());
    row(managed, &name, workspace.into(), outcome)
}

fn name_of(record: &Record) -> String {
    members(record).get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// An object of a plan.
fn row(managed: &Managed, name: &str, workspace: Value, outcome: &Result<Outcome, Error>) -> Value {
    let (action, changed, notes, problem) = match outcome {
        Ok(outcome) => (outcome.action, outcome.changed.as_slice(), outcome.notes.as_slice(), Value::Null),
        Err(why) => {
            let problem = json!({"path": why.param, "message": why.message});
            (Action::Refused, Default::default(), Default::default(), problem)
        }
    };
    json!({
        "kind": managed.name,
        "name": name,
        "workspace_id": workspace,
        "action": action.as_str(),
        "changed": changed,
        "problem": problem,
        "notes": notes,
    })
}

/// Names a plan: of the request, of what it does, and of the state that it was made on. Nobody can find a secret of the request by it.
fn digest(call: &Call, rows: &[Value], touched: &[(Uuid, u64)]) -> Result<String, Error> {
    let pepper =
        call.store()?.pepper().ok_or_else(|| Error::store_unavailable("The store has not been read yet."))?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, pepper.as_bytes());
    let flags = ["prune", "take_over"].map(|name| call.flag(name) == Some(true));
    let text = json!([call.text("set"), flags, call.body.get("objects"), rows, touched]).to_string();
    let tag = hmac::sign(&key, text.as_bytes());
    Ok(tag.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}
