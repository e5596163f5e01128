//! Keys: each is taken in by its SHA-256, which is what LiteLLM has of it, so that clients keep theirs.
//!
//! Not here: the budgets (`budget`) and lists of models (`allowed`) of them.

use super::super::super::cursor::InputAt;
use super::super::super::import::{Import, ImportTarget};
use super::super::super::objects::{PlannedKind, PlannedObject};
use super::super::super::tree::Tree;
use super::Tables;
use super::allowed::{AccessGroups, ModelList, both, is_writable};
use super::budget::{Columns, dollars, rate_limits, time, usage_limit};
use super::gate::KeyRow;
use super::marks::mark;
use super::people::{KEY_USER, People, metadata};
use super::reserved::{ReservedUse, judge, use_of};
use super::teams::Teams;
use memory::auth::DEFAULT_WORKSPACE;
use serde_json::{Map, Value, json};

/// What the keys of a database are judged by.
pub struct Owners<'o> {
    pub teams: &'o Teams,
    pub people: &'o People,
    pub groups: &'o AccessGroups,
}

/// The right that LiteLLM's keys have.
const CALLS: &str = "completions.write";

/// Takes all keys over.
pub fn import(import: &mut Import, tables: &Tables<'_>, owners: &Owners<'_>) {
    for row in tables.rows("LiteLLM_VerificationToken") {
        let key_row = KeyRow::new(tables, owners, &row);
        if let Some(why) = key_row.refused(import, tables, owners) {
            import.findings.not_taken(&row, why);
            continue;
        }
        let columns = tables.columns(&row, &mark("key", &[&key_row.token]));
        judge(import, &columns);
        if let Some(why) = import.why_lost(&columns.mark) {
            let why = format!("no key is made, as it would be without a limit that it has there: {why}");
            import.findings.refused(row.file, &row.path, &why);
            continue;
        }
        key(import, tables, owners, &key_row, &columns);
    }
}

fn key<'n>(
    import: &mut Import,
    tables: &Tables<'n>,
    owners: &Owners<'_>,
    key_row: &KeyRow<'_, 'n>,
    columns: &Columns<'n>,
) {
    let row = key_row.row;
    let name = name(row, &key_row.token);
    let place = format!("key {name}");
    for column in ["token", "key_alias", "key_name"] {
        if let Some(at) = row.member(column) {
            import.findings.exact(&at, place.clone());
        }
    }
    let mut body = Map::from_iter([("name".to_owned(), json!(name)), ("scopes".to_owned(), json!([CALLS]))]);
    if let Some(models) = allowed(import, tables, owners, key_row, &place) {
        body.insert("allowed_models".to_owned(), json!(models));
    }
    if let Some(at) = row.member("allowed_routes") {
        import.findings.different(&at, format!("{place}: the scope {CALLS}, for every operation; operations of a name of models narrow it (docs/models.md)"));
    }
    let usage = usage_limit(import, columns, &format!("{place}: usage_limits"));
    let rates = rate_limits(import, columns, &format!("{place}: rate_limits"));
    if !rates.is_empty() {
        body.insert("rate_limits".to_owned(), rates.into());
    }
    match import.target {
        ImportTarget::Store => {
            if let Some(mut limit) = usage {
                raise(import, row, &mut limit, &place);
                body.insert("usage_limits".to_owned(), Value::Object(limit));
            }
            stored(import, tables, key_row, body, &place);
        }
        ImportTarget::Settings => {
            if let Some(limit) = usage {
                body.insert("usage_limits".to_owned(), json!([limit]));
            }
            of_settings(import, row, body, &key_row.token);
        }
    }
}

/// The models that all lists for a key allow.
fn allowed(
    import: &mut Import,
    tables: &Tables<'_>,
    owners: &Owners<'_>,
    key_row: &KeyRow<'_, '_>,
    place: &str,
) -> ModelList {
    let KeyRow { row, team, user, project, organization, .. } = key_row;
    let list =
        |row: Option<&InputAt<'_>>, name: &str| owners.groups.list(row.and_then(|row| row.member(name)));
    let budget = row.text_of("budget_id").and_then(|id| tables.budgets.get(&id));
    let of_organization = organization.as_ref().and_then(|id| tables.organizations.get(id));
    let mut lists: Vec<ModelList> = vec![
        list(Some(*row), "models"),
        list(budget, "allowed_models"),
        list(project.as_ref(), "models"),
        list(of_organization, "models"),
    ];
    match team {
        Some(team) => {
            lists.push(team.models.clone());
            let of_member = user.as_ref().map(|user| {
                let of_row = owners.people.members.get(&(team.id.clone(), user.clone())).cloned();
                of_row.unwrap_or_else(|| team.member_models.clone())
            });
            lists.push(of_member.flatten());
        }
        None => lists.push(user.as_ref().and_then(|user| owners.people.models.get(user)).cloned().flatten()),
    }
    let models = lists.into_iter().fold(None, both);
    if let Some(at) = row.member("models") {
        import.findings.exact(&at, format!("{place}: allowed_models"));
    }
    if let Some(at) = row.member("project_id") {
        import.findings.different(&at, format!("{place}: allowed_models, together with its project's"));
    }
    if let Some(at) = row.member("organization_id") {
        import.findings.exact(&at, format!("{place}: allowed_models, together with its organization's"));
    }
    let models = models?;
    let kept: Vec<String> = models.iter().filter(|name| is_writable(name)).cloned().collect();
    if kept.len() < models.len() {
        let at = row.member("models").unwrap_or_else(|| (*row).clone());
        import.findings.different(&at, format!("{place}: allowed_models, without names that have more than one *, more than 256 characters, or spaces"));
    }
    Some(kept)
}

/// More for a while: `temp_budget_increase` until `temp_budget_expiry`, of the metadata.
fn raise(import: &mut Import, row: &InputAt<'_>, limit: &mut Map<String, Value>, place: &str) {
    let entries = row.member("metadata").map(|at| at.entries()).unwrap_or_default();
    let of = |wanted: &str| {
        let mut found = entries.iter().filter(|(name, _)| *name == wanted);
        found.next().filter(|(name, _)| use_of(name) == Some(ReservedUse::Raises)).map(|(_, at)| at)
    };
    let Some((amount_at, until_at)) = of("temp_budget_increase").zip(of("temp_budget_expiry")) else {
        return;
    };
    let amount = amount_at.number().filter(|amount| (f64::EPSILON..1e9).contains(amount));
    let until = until_at.text().and_then(|text| time(&text)).filter(|until| *until > import.now);
    let has_room = limit.get("credit_limit").and_then(Value::as_f64).is_some_and(|limit| limit < 8e9);
    let Some((amount, until)) = amount.zip(until).filter(|_| has_room) else { return };
    limit.insert("raise".to_owned(), json!({"amount": dollars(amount), "until": format!("{until:.3}")}));
    for at in [amount_at, until_at] {
        import.findings.exact(at, format!("{place}: usage_limits.raise"));
    }
}

fn stored(
    import: &mut Import,
    tables: &Tables<'_>,
    key_row: &KeyRow<'_, '_>,
    mut body: Map<String, Value>,
    place: &str,
) {
    let KeyRow { row, token, team, user, .. } = key_row;
    body.insert("key_sha256".to_owned(), json!(token));
    body.insert("workspace_id".to_owned(), json!(team.map_or(DEFAULT_WORKSPACE, |team| team.slug.as_str())));
    if let Some(at) = row.member("team_id") {
        import.findings.exact(&at, format!("{place}: workspace_id"));
    }
    if let Some((at, end)) = row.member("expires").and_then(|at| Some((at.clone(), time(&at.text()?)?))) {
        import.findings.exact(&at, format!("{place}: expires_at"));
        body.insert("expires_at".to_owned(), json!(format!("{end:.3}")));
    }
    if let Some(at) = row.member("user_id") {
        import.findings.exact(&at, format!("{place}: defaults.metadata.{KEY_USER}"));
    }
    // Of a key without an owner too: else its requests could name another's in their metadata.
    let of_user = Map::from_iter([(KEY_USER.to_owned(), json!(user.clone().unwrap_or_default()))]);
    let metadata = metadata(import, row, &format!("{place}: defaults.metadata"), of_user);
    body.insert("defaults".to_owned(), json!({"metadata": metadata}));
    let mut object = PlannedObject::of(PlannedKind::Key, row, &mark("key", &[token]), body);
    object.needs = key_row.needs(tables);
    import.objects.push(object);
}

fn of_settings(import: &mut Import, row: &InputAt<'_>, mut body: Map<String, Value>, token: &str) {
    for name in ["user_id", "team_id", "metadata"] {
        if let Some(at) = row.member(name) {
            import
                .findings
                .not_taken(&at, "keys of the settings have no owner, team or metadata: --to store");
        }
    }
    // Without one it may enter every workspace.
    body.insert("workspace".to_owned(), json!(DEFAULT_WORKSPACE));
    body.insert("sha256".to_owned(), json!(token));
    let name = body.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    if import.moved.key(Tree::from_json(&Value::Object(body.clone()))) {
        return;
    }
    let other = format!("{name} {}", number_of(token));
    body.insert("name".to_owned(), json!(other));
    if !import.moved.key(Tree::from_json(&Value::Object(body))) {
        import.findings.not_taken(row, "another key has its name and its digest");
    }
}

/// The name of a key: its alias, what LiteLLM shows of it, or a number of its own.
fn name(row: &InputAt<'_>, token: &str) -> String {
    let found = ["key_alias", "key_name"].into_iter().filter_map(|name| row.text_of(name));
    let mut found = found.filter(|name| !name.is_empty());
    let name = found.next().unwrap_or_else(|| format!("litellm {}", number_of(token)));
    name.chars().take(255).collect()
}

/// Tells keys apart, and has nothing of the digest in it.
fn number_of(token: &str) -> String {
    mark("key", &[token]).chars().take(8).collect()
}
