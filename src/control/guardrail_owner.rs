//! Whose a workspace's default guardrails are: those that the organisation has set are the organisation's to change.
//!
//! A guardrail that whoever it guards can end is advice. So keys and tokens of one workspace neither take such a guardrail out of the
//! workspace's defaults nor change what it checks; they may add others, and take those out again. The workspace's record has which are the
//! organisation's. Not here: limits (`limit_owner`), and what guardrails do.

use super::call::Call;
use super::guardrails::DEFAULTS;
use super::records::{member, members, set};
use memory::store::{Kind, Record};
use serde_json::{Map, Value, json};
use words::error::Error;

/// The member of a workspace's record that has those of the organisation.
const OWN: &str = "guardrails_of_organisation";

const CHANGE: &str = "A key of the organisation has this guardrail run on everything of the workspace, and only such a key changes it. A workspace \
                      adds guardrails of its own to its defaults.";
const REMOVAL: &str = "A key of the organisation has set this default guardrail, and only such a key takes it out. A workspace adds others to it.";

/// The default guardrails of a phase that a body of a workspace names.
fn named(body: &Map<String, Value>, phase: &str) -> Vec<String> {
    let slugs = body.get("defaults").and_then(|defaults| defaults.get(phase)?.as_array());
    slugs.into_iter().flatten().filter_map(|slug| slug.as_str().map(str::to_owned)).collect()
}

/// Those that the organisation has set. What nobody knows, in records from before that was kept, is the organisation's.
fn of_organisation(body: &Map<String, Value>, phase: &str) -> Vec<String> {
    match body.get(OWN).and_then(|own| own.get(phase)?.as_array()) {
        Some(slugs) => slugs.iter().filter_map(|slug| slug.as_str().map(str::to_owned)).collect(),
        None if body.contains_key(OWN) => Vec::new(),
        None => named(body, phase),
    }
}

/// Keeps in the body of a workspace which default guardrails are the organisation's. `before`: the record that is changed.
///
/// # Errors
/// 403 where a client of one workspace takes one of those out.
pub(super) fn keep(call: &Call, before: Option<&Record>, body: &mut Map<String, Value>) -> Result<(), Error> {
    let old = before.map(members).unwrap_or_default();
    let mut own = Map::new();
    for (phase, _) in DEFAULTS {
        let new = named(body, phase);
        let kept = if call.identity.is_bound { of_organisation(&old, phase) } else { new.clone() };
        if let Some(missing) = kept.iter().find(|slug| !new.contains(slug)) {
            return Err(
                Error::forbidden(format!("{REMOVAL} ({missing})")).with_param(format!("defaults.{phase}"))
            );
        }
        set(&mut own, phase, json!(kept));
    }
    set(body, OWN, Value::Object(own));
    Ok(())
}

/// # Errors
/// 403 for a guardrail that the organisation has run in its workspace, and a client of one workspace.
pub(super) fn check(call: &Call, guardrail: &Record) -> Result<(), Error> {
    if !call.identity.is_bound {
        return Ok(());
    }
    let catalog = call.catalog()?;
    let workspace = guardrail.workspace.and_then(|id| catalog.get(Kind::Workspace, id));
    let Some(workspace) = workspace else { return Ok(()) };
    let body = members(workspace);
    let id = guardrail.id.to_string();
    let is_it = |slug: &String| guardrail.slug.as_deref() == Some(slug) || *slug == id;
    if DEFAULTS.iter().any(|(phase, _)| of_organisation(&body, phase).iter().any(is_it)) {
        let name = member(&members(guardrail), "name");
        return Err(Error::forbidden(format!("{CHANGE} ({})", name.as_str().unwrap_or_default())));
    }
    Ok(())
}
