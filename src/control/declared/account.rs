//! The account of a provider in a file: its key and configurations, compared with the stored ones as one.
//!
//! Secrets that the file does not give are kept. That they are not sent to another host then is checked where accounts are changed
//! (`credential`).

use super::super::credential::account_name;
use super::secrets;
use serde_json::{Map, Value};
use words::error::Error;

/// The members that are an account's.
const OF_ACCOUNT: [&str; 2] = ["key", "configurations"];

/// Takes the account out of `wanted`, and returns what of it is sent in an update: nothing where it is the stored one. `current`: the
/// stored members. `kept_names`: gets the names of secrets that are kept.
///
/// # Errors
/// 400 for a secret that is neither given nor stored.
pub(super) fn changes(
    wanted: &mut Map<String, Value>,
    current: &Map<String, Value>,
    kept_names: &mut Vec<String>,
) -> Result<Map<String, Value>, Error> {
    let has_account = OF_ACCOUNT.iter().any(|name| wanted.contains_key(*name));
    let is_of_integration = !wanted.contains_key("provider") && !wanted.contains_key("ai_provider_id");
    let sent: Vec<(String, Value)> =
        OF_ACCOUNT.iter().filter_map(|name| Some(((*name).to_owned(), wanted.remove(*name)?))).collect();
    // A provider that is an integration as well may have its account there.
    if !has_account && is_of_integration {
        return Ok(Map::new());
    }
    let sent = Map::from_iter(sent);
    let stored = flat(current);
    let mut given = flat(&sent);
    let kept: Vec<String> = given
        .iter()
        .filter(|(_, value)| !secrets::names(value).is_empty())
        .map(|(name, _)| name.clone())
        .collect();
    for name in &kept {
        let Some(value) = given.remove(name) else { continue };
        if !stored.get(name).is_some_and(|stored| secrets::is_kept(name, &value, stored)) {
            return Err(secrets::not_given(name, &value));
        }
        kept_names.extend(secrets::names(&value));
    }
    let is_secret = |name: &str| super::super::masking::is_secret(name);
    let gone: Vec<&String> = stored
        .keys()
        .filter(|name| !given.contains_key(*name) && !kept.contains(*name) && !is_secret(name))
        .collect();
    let is_changed = |(name, value): (&String, &Value)| {
        !(stored.get(name) == Some(value) || value.is_null() && !stored.contains_key(name))
    };
    if gone.is_empty() && !given.iter().any(is_changed) {
        return Ok(Map::new());
    }
    let mut body = Map::new();
    let mut configurations: Map<String, Value> =
        gone.into_iter().map(|name| (name.clone(), Value::Null)).collect();
    for (name, value) in given {
        match name.as_str() {
            "api_key" => drop(body.insert("key".to_owned(), value)),
            _ => drop(configurations.insert(name, value)),
        }
    }
    if !configurations.is_empty() {
        body.insert("configurations".to_owned(), Value::Object(configurations));
    }
    Ok(body)
}

/// The members of an account by their own names.
fn flat(members: &Map<String, Value>) -> Map<String, Value> {
    let mut all = Map::new();
    if let Some(Value::Object(configurations)) = members.get("configurations") {
        // A name that no account has is kept: the route refuses it.
        all.extend(configurations.iter().map(|(name, value)| {
            (account_name(name).map_or_else(|| name.clone(), str::to_owned), value.clone())
        }));
    }
    if let Some(key) = members.get("key").filter(|key| !key.is_null()) {
        all.insert("api_key".to_owned(), key.clone());
    }
    all
}
