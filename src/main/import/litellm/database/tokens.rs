//! Keys: each is taken in by its SHA-256, which is what LiteLLM has of it, so that clients keep theirs.
//!
//! Not here: the budgets (`budget`) and lists of models (`allowed`) of them.

use super::super::super::cursor::InputAt;
use super::super::super::import::{Import, ImportTarget};
use super::super::super::objects::{PlannedKind, PlannedObject};
use super::super::super::tree::Tree;
use super::Tables;
use super::allowed::{AccessGroups, both};
use super::budget::{rate_limits, time, usage_limit};
use super::people::{KEY_USER, UserModels, metadata};
use super::teams::{Team, Teams};
use memory::auth::DEFAULT_WORKSPACE;
use serde_json::{Map, Value, json};
use words::settings::service_key::sha256_bytes;

/// What the keys of a database are judged by.
pub struct Owners<'o> {
    pub teams: &'o Teams,
    pub users: &'o UserModels,
    pub groups: &'o AccessGroups,
}

/// The right that LiteLLM's keys have.
const CALLS: &str = "completions.write";

/// Takes all keys over.
pub fn import(import: &mut Import, tables: &Tables<'_>, owners: &Owners<'_>) {
    for row in tables.rows("LiteLLM_VerificationToken") {
        let team = row.text_of("team_id");
        let of_team = team.as_ref().and_then(|id| owners.teams.get(id));
        match refused(import, &row, team.is_some(), of_team) {
            Some(why) => import.findings.not_taken(&row, why),
            None => key(import, tables, owners, &row, of_team),
        }
    }
}

/// Why no key is made of a row.
fn refused(import: &Import, row: &InputAt<'_>, has_team: bool, team: Option<&Team>) -> Option<String> {
    let token = row.text_of("token").unwrap_or_default();
    if sha256_bytes(&token).is_none() {
        return Some(
            "its token is no SHA-256: no key is made; make one anew (turnpike keys create)".to_owned(),
        );
    }
    let is_blocked = row.member("blocked").is_some_and(|at| at.flag() == Some(true));
    if is_blocked || team.is_some_and(|team| team.is_blocked) {
        return Some("it is blocked: no key is made, so that it is refused here too".to_owned());
    }
    if has_team && team.is_none() {
        return Some(
            "its team is not in the database, whose limits it would have: no key is made".to_owned(),
        );
    }
    if let Some(end) = row.text_of("expires") {
        match time(&end) {
            None => return Some(format!("it expires at {end}, which is no time: no key is made")),
            Some(end) if end <= import.now => {
                return Some(format!("it has expired at {end:.0}: no key is made"));
            }
            Some(end) if import.target == ImportTarget::Settings => {
                return Some(format!(
                    "it expires at {end:.0}, which a key of the settings cannot: no key is made; --to store makes one"
                ));
            }
            Some(_) => {}
        }
    }
    let routes = row.member("allowed_routes").map(|at| at.items()).unwrap_or_default();
    let calls = |at: &InputAt<'_>| {
        at.text().is_some_and(|route| !matches!(route.as_str(), "management_routes" | "info_routes"))
    };
    if !routes.is_empty() && !routes.iter().any(calls) {
        return Some("it administrates LiteLLM and calls no model: no key is made (docs/keys.md)".to_owned());
    }
    None
}

fn key<'n>(
    import: &mut Import,
    tables: &Tables<'n>,
    owners: &Owners<'_>,
    row: &InputAt<'n>,
    team: Option<&Team>,
) {
    let token = row.text_of("token").unwrap_or_default().to_ascii_lowercase();
    let name = name(row, &token);
    let place = format!("key {name}");
    let user = row.text_of("user_id");
    for column in ["token", "key_alias", "key_name"] {
        if let Some(at) = row.member(column) {
            import.findings.exact(&at, place.clone());
        }
    }
    let own = owners.groups.list(row.member("models"));
    let models = match team {
        Some(team) => both(own, team.models.clone()),
        None => both(own, user.as_ref().and_then(|user| owners.users.get(user)).cloned().flatten()),
    };
    if let Some(at) = row.member("models") {
        import.findings.exact(&at, format!("{place}: allowed_models"));
    }
    if let Some(at) = row.member("allowed_routes") {
        import.findings.different(&at, format!("{place}: the scope {CALLS}, for every operation; operations of a name of models narrow it (docs/models.md)"));
    }
    let columns = tables.columns(row);
    let mut body = Map::from_iter([("name".to_owned(), json!(name)), ("scopes".to_owned(), json!([CALLS]))]);
    if let Some(models) = models {
        body.insert("allowed_models".to_owned(), json!(models));
    }
    let usage = usage_limit(import, &columns, &format!("{place}: usage_limits"));
    let rates = rate_limits(import, &columns, &format!("{place}: rate_limits"));
    if !rates.is_empty() {
        body.insert("rate_limits".to_owned(), rates.into());
    }
    match import.target {
        ImportTarget::Store => {
            if let Some(limit) = usage {
                body.insert("usage_limits".to_owned(), Value::Object(limit));
            }
            stored(import, row, body, &place, &Owner { token: &token, team, user });
        }
        ImportTarget::Settings => {
            if let Some(limit) = usage {
                body.insert("usage_limits".to_owned(), json!([limit]));
            }
            of_settings(import, row, body, &token);
        }
    }
}

/// Whose key it is.
struct Owner<'o> {
    token: &'o str,
    team: Option<&'o Team>,
    user: Option<String>,
}

fn stored(
    import: &mut Import,
    row: &InputAt<'_>,
    mut body: Map<String, Value>,
    place: &str,
    owner: &Owner<'_>,
) {
    let Owner { token, team, user } = owner;
    body.insert("key_sha256".to_owned(), json!(token));
    body.insert("workspace_id".to_owned(), json!(team.map_or(DEFAULT_WORKSPACE, |team| team.slug.as_str())));
    if let Some(at) = row.member("team_id") {
        import.findings.exact(&at, format!("{place}: workspace_id"));
    }
    if let Some((at, end)) = row.member("expires").and_then(|at| Some((at.clone(), time(&at.text()?)?))) {
        import.findings.exact(&at, format!("{place}: expires_at"));
        body.insert("expires_at".to_owned(), json!(format!("{end:.3}")));
    }
    let mut of_user = Map::new();
    if let Some(at) = row.member("user_id") {
        import.findings.exact(&at, format!("{place}: defaults.metadata.{KEY_USER}"));
        of_user.insert(KEY_USER.to_owned(), json!(user));
    }
    let metadata = metadata(import, row, &format!("{place}: defaults.metadata"), of_user);
    if !metadata.is_empty() {
        body.insert("defaults".to_owned(), json!({"metadata": metadata}));
    }
    import.objects.push(PlannedObject { kind: PlannedKind::Key, body });
}

fn of_settings(import: &mut Import, row: &InputAt<'_>, mut body: Map<String, Value>, token: &str) {
    for name in ["user_id", "team_id", "metadata"] {
        if let Some(at) = row.member(name) {
            import
                .findings
                .not_taken(&at, "keys of the settings have no owner, team or metadata: --to store");
        }
    }
    body.insert("sha256".to_owned(), json!(token));
    let name = body.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    if import.moved.key(Tree::from_json(&Value::Object(body.clone()))) {
        return;
    }
    let other = format!("{name} {}", token.get(..8).unwrap_or_default());
    body.insert("name".to_owned(), json!(other));
    if !import.moved.key(Tree::from_json(&Value::Object(body))) {
        import.findings.not_taken(row, "another key has its name and its digest");
    }
}

/// The name of a key: its alias, what LiteLLM shows of it, or a part of its digest.
fn name(row: &InputAt<'_>, token: &str) -> String {
    let found = ["key_alias", "key_name"].into_iter().filter_map(|name| row.text_of(name));
    let mut found = found.filter(|name| !name.is_empty());
    let name = found.next().unwrap_or_else(|| format!("litellm {}", token.get(..8).unwrap_or_default()));
    name.chars().take(255).collect()
}
