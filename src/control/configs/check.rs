//! Checks a config before it is saved: its own rules, and that what it names exists.
//!
//! Portkey finds out at request time; here a config that is saved can be used.

use super::super::call::{Call, by_id_or_slug};
use super::super::records::members;
use judgment::route::config_hooks;
use knowledge::provider;
use memory::net::outbound::origin::Origin;
use memory::store::{Catalog, Kind, Record, Status};
use serde_json::Value;
use std::sync::Arc;
use uuid::Uuid;
use words::config::hooks::HookPhase;
use words::config::read::Problems;
use words::config::{Checks, Config};
use words::error::{Error, Problem};

/// Keys under which a config names guardrails by slug.
const GUARDRAILS: [&[&str; 3]; 2] = [HookPhase::Before.lists(), HookPhase::After.lists()];

/// The config of a request's body, checked; `None` where it has none.
///
/// # Errors
/// 400 with all problems, each with its path below `config`.
pub(super) fn config(call: &Call, workspace: Option<Uuid>) -> Result<Option<Value>, Error> {
    let config = match call.body.get("config") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => serde_json::from_str(text).map_err(|why| {
            Error::invalid_request(
                "config",
                format!("config must be a JSON object, or the text of one: {why}."),
            )
        })?,
        Some(config) => config.clone(),
    };
    check_object(call, workspace, &config, "config")?;
    Ok(Some(config))
}

/// Checks a config that stands at `member` of a request's body.
///
/// # Errors
/// As [`config`].
pub(crate) fn check_object(
    call: &Call,
    workspace: Option<Uuid>,
    config: &Value,
    member: &str,
) -> Result<(), Error> {
    let hosts = &call.snapshot.hosts;
    let custom_host = |host: &str| hosts.check_name(&Origin::parse(host, false)?);
    let checks = Checks {
        provider: &provider::check_name,
        account: &provider::check_account,
        custom_host: &custom_host,
        ..Checks::NONE
    };
    let mut problems: Vec<Problem> = match Config::from_json(config.to_string().as_bytes(), &checks) {
        Ok(config) => config_hooks::problems(&config),
        Err(problems) => problems,
    };
    let named = Problems::default();
    names(call, workspace, config, "", &named)?;
    problems.extend(named.into_vec());
    for problem in &mut problems {
        problem.path = match problem.path.as_str() {
            "" => member.to_owned(),
            path => format!("{member}.{path}"),
        };
    }
    if problems.is_empty() { Ok(()) } else { Err(Error::invalid_body(problems)) }
}

/// Reports providers, prompts and guardrails that do not exist.
fn names(
    call: &Call,
    workspace: Option<Uuid>,
    level: &Value,
    path: &str,
    problems: &Problems,
) -> Result<(), Error> {
    let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let text = |name: &str| level.get(name).and_then(Value::as_str);
    let directory = call.snapshot.directory(workspace);
    let catalog = call.catalog()?;
    let slug_of = |name: &str| name.trim_start_matches('@').split('/').next().unwrap_or_default().to_owned();
    let by_provider =
        text("provider").filter(|name| name.starts_with('@')).map(|name| ("provider", slug_of(name)));
    let by_key =
        text("virtual_key").filter(|name| !name.is_empty()).map(|name| ("virtual_key", slug_of(name)));
    for (name, slug) in by_provider.into_iter().chain(by_key).filter(|(_, slug)| !slug.is_empty()) {
        if directory.provider(&slug).is_none() {
            problems.push(at(name), None, format!("names the stored provider @{slug}, which does not exist"));
        }
    }
    if let Some(prompt) = text("prompt_id") {
        let name = prompt.split('@').next().unwrap_or_default();
        if by_id_or_slug(&catalog, Kind::Prompt, workspace, name).is_none() {
            problems.push(at("prompt_id"), None, format!("names the prompt {name}, which does not exist"));
        }
    }
    for key in GUARDRAILS.into_iter().flatten() {
        let items = level.get(*key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (index, item) in items.iter().enumerate() {
            // A text names a saved guardrail; so does an object with nothing but an id.
            let id =
                item.as_str().or_else(|| item.get("id")?.as_str().filter(|_| item.get("checks").is_none()));
            let Some(id) =
                id.filter(|_| item.is_string() || item.as_object().is_some_and(|item| item.len() == 1))
            else {
                continue;
            };
            if by_id_or_slug(&catalog, Kind::Guardrail, workspace, id).is_none() {
                problems.push(
                    at(&format!("{key}[{index}]")),
                    None,
                    format!("names the guardrail {id}, which does not exist"),
                );
            }
        }
    }
    let targets = level.get("targets").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (index, target) in targets.iter().enumerate() {
        names(call, workspace, target, &at(&format!("targets[{index}]")), problems)?;
    }
    Ok(())
}

/// # Errors
/// 409 while a key or a workspace uses the config by default, or a name of models stands for it.
pub(super) fn is_unused(call: &Call, config: &Record) -> Result<(), Error> {
    let catalog = call.catalog()?;
    let is_it = |name: Option<&Value>| {
        let name = name.and_then(Value::as_str).unwrap_or_default();
        config.slug.as_deref() == Some(name) || Uuid::try_parse(name).is_ok_and(|id| id == config.id)
    };
    // There may be many, and most have none. Their members are always in one order.
    let may_have_one = |key: &&Arc<Record>| !key.body.contains("\"defaults\":{\"config_id\":null");
    let keys = catalog.all(Kind::ApiKey).filter(|key| key.status == Status::Active);
    for key in keys.filter(may_have_one) {
        if is_it(members(key).get("defaults").and_then(|defaults| defaults.get("config_id"))) {
            return Err(Error::conflict("The config is the default of a service key. Change the key first."));
        }
    }
    for name in catalog.all(Kind::ModelName).filter(|name| name.status == Status::Active) {
        if is_to(&catalog, name, config) {
            return Err(Error::conflict("A name of models stands for the config. Change the name first."));
        }
    }
    for workspace in catalog.all(Kind::Workspace) {
        if is_it(members(workspace).get("defaults").and_then(|defaults| defaults.get("user_api_key_config")))
        {
            return Err(Error::conflict(
                "The config is the default of a workspace's user keys. Change the workspace first.",
            ));
        }
    }
    Ok(())
}

/// Whether a name of models stands for this config. One of the organisation is meant in every workspace that has none of that slug.
fn is_to(catalog: &Catalog, name: &Record, config: &Record) -> bool {
    let members = members(name);
    let to = members.get("to").and_then(Value::as_str).unwrap_or_default();
    let meant = by_id_or_slug(catalog, Kind::Config, name.workspace, to);
    meant.is_some_and(|meant| meant.id == config.id)
}

#[cfg(test)]
mod tests {
    use super::super::super::records::created;
    use super::*;
    use jiff::Timestamp;
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn a_name_of_a_workspace_may_stand_for_a_config_of_the_organisation() {
        let [red, blue] = [7, 8].map(|number| Some(Uuid::from_u128(number)));
        let made = |kind, workspace, slug: &str, body| {
            Arc::new(created(kind, workspace, slug.to_owned(), &body, Timestamp::UNIX_EPOCH))
        };
        let shared = made(Kind::Config, None, "two", json!({}));
        let own = made(Kind::Config, blue, "two", json!({}));
        let name = |workspace, to: &str| made(Kind::ModelName, workspace, "n", json!({"to": to}));
        let catalog = Catalog::new([Arc::clone(&shared), Arc::clone(&own)], 1);
        for (name, of_shared, of_own) in [
            (name(red, "two"), true, false),
            (name(None, "two"), true, false),
            (name(blue, "two"), false, true),
            (name(blue, &shared.id.to_string()), true, false),
            (name(red, "three"), false, false),
        ] {
            let found = (is_to(&catalog, &name, &shared), is_to(&catalog, &name, &own));
            assert_eq!(found, (of_shared, of_own), "{:?} {}", name.workspace, name.body);
        }
    }
}
