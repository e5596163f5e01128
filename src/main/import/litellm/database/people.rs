//! Users, members of teams and end users: their budgets and rates become policies, which find them in the metadata of requests.
//!
//! The owner of a key is `key_user` of the key's metadata; an end user is `_user`, which is `user` of the body where the metadata has none.
//! Not here: persons who sign in; they are invited.

use super::super::super::cursor::InputAt;
use super::super::super::import::{Import, ImportTarget};
use super::super::super::objects::{PlannedKind, PlannedObject};
use super::Tables;
use super::allowed::{AccessGroups, ModelList};
use super::budget::{Columns, rate_limits, usage_limit};
use super::marks::{description, mark, slug};
use super::reserved::{is_secret, judge, use_of};
use super::teams::{Team, Teams};
use memory::auth::DEFAULT_WORKSPACE;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The member of a key's metadata with its owner.
pub const KEY_USER: &str = "key_user";
/// The user whose budget is that of LiteLLM as a whole.
const EVERYBODY: &str = "litellm-proxy-budget";
const NOT_IN_SETTINGS: &str =
    "limits of persons are policies of the store: --to store; without them no key that they limit is made";
/// Members of metadata, and characters of one, that a key may have.
const MAX_MEMBERS: usize = 16;
const MAX_TEXT: usize = 512;

/// Whose models and limits keys have.
#[derive(Default)]
pub struct People {
    /// The models of users, by their ids: those that their own keys may use.
    pub models: BTreeMap<String, ModelList>,
    /// The models of members, by team and user.
    pub members: BTreeMap<(String, String), ModelList>,
}

/// The mark of the policy for all of LiteLLM.
pub fn mark_of_all() -> String {
    mark("all", &[])
}

/// The mark of the budget of a user.
pub fn mark_of_user(id: &str) -> String {
    mark("user", &[id])
}

/// The mark of the rates of a user, which hold for keys of teams too.
pub fn mark_of_user_rates(id: &str) -> String {
    mark("user-rates", &[id])
}

/// The mark of the policies of a member of a team.
pub fn mark_of_member(team: &str, user: &str) -> String {
    mark("member", &[team, user])
}

/// Takes all of them over.
pub fn import(import: &mut Import, tables: &Tables<'_>, groups: &AccessGroups, teams: &Teams) -> People {
    let mut people = People::default();
    for row in tables.rows("LiteLLM_UserTable") {
        let id = row.text_of("user_id").unwrap_or_default();
        if id == EVERYBODY {
            everybody(import, &tables.columns(&row, &mark_of_all()));
            continue;
        }
        if let Some(at) = row.member("models") {
            import.findings.exact(&at, "allowed_models of the keys that are the user's own");
        }
        people.models.insert(id.clone(), groups.list(row.member("models")));
        user(import, tables, &row, &id);
    }
    for row in tables.rows("LiteLLM_TeamMembership") {
        let team = row.text_of("team_id").unwrap_or_default();
        let id = row.text_of("user_id").unwrap_or_default();
        match teams.get(&team) {
            Some(team) => {
                let models = member(import, tables, groups, &row, team, &id);
                people.members.insert((team.id.clone(), id), models);
            }
            None => import.findings.not_taken(&row, "its team is not in the database"),
        }
    }
    for row in tables.rows("LiteLLM_EndUserTable") {
        end_user(import, tables, &row);
    }
    people
}

/// The budget of LiteLLM as a whole: of every request.
fn everybody(import: &mut Import, columns: &Columns<'_>) {
    judge(import, columns);
    if is_in_settings(import, columns, &[&columns.mark]) {
        return;
    }
    if let Some(at) = columns.own.member("user_id") {
        import.findings.exact(&at, "a policy over every request");
    }
    let owner = LimitOwner {
        kind: "all",
        id: "requests".to_owned(),
        name: "All requests, as the budget".to_owned(),
        workspace: Value::Null,
        condition: json!({"key": "organisation_id", "value": "*"}),
        group_by: "organisation_id",
        mark: columns.mark.clone(),
    };
    owner.budget(import, columns);
    owner.rates(import, columns);
}

/// A user: a budget over the user's own keys, rates over all.
fn user<'n>(import: &mut Import, tables: &Tables<'n>, row: &InputAt<'n>, id: &str) {
    let of_rates = mark_of_user_rates(id);
    let columns = tables.columns(row, &mark_of_user(id));
    judge(import, &columns);
    let rates = tables.columns(row, &of_rates);
    judge(import, &rates);
    let is_of_all = tables.has_user_budgets_for_teams;
    let workspace = if is_of_all { Value::Null } else { json!(DEFAULT_WORKSPACE) };
    let Some(mut owner) = person(import, &columns, &[&of_rates], "user", id, KEY_USER) else { return };
    owner.workspace = workspace;
    owner.budget(import, &columns);
    if let Some(at) = columns.own.member("spend").filter(|_| columns.has_budget() && !is_of_all) {
        import.findings.different(
            &at,
            "used_before of its policy, which counts the user's own keys from now on; LiteLLM counts keys of teams in it too",
        );
    }
    owner.mark = of_rates;
    owner.workspace = Value::Null;
    owner.rates(import, &rates);
}

/// A member of a team. Returns the models that this member may use in it.
fn member<'n>(
    import: &mut Import,
    tables: &Tables<'n>,
    groups: &AccessGroups,
    row: &InputAt<'n>,
    team: &Team,
    id: &str,
) -> ModelList {
    let mut columns = tables.columns(row, &mark_of_member(&team.id, id));
    if row.member("budget_id").is_none()
        && let Some(budget) = &team.member_budget
    {
        columns.budget = tables.budgets.get(budget).cloned();
        if columns.budget.is_none() {
            import.lose(&columns.mark, "the budget of its team's members is not in the database");
        }
    }
    judge(import, &columns);
    let own = groups.list(columns.member("allowed_models"));
    if let Some(mut owner) = person(import, &columns, &[], "member", id, KEY_USER) {
        owner.workspace = json!(team.slug);
        owner.budget(import, &columns);
        owner.rates(import, &columns);
    }
    own.or_else(|| team.member_models.clone())
}

fn end_user<'n>(import: &mut Import, tables: &Tables<'n>, row: &InputAt<'n>) {
    let id = row.text_of("user_id").unwrap_or_default();
    let columns = tables.columns(row, &mark("end-user", &[&id]));
    judge(import, &columns);
    let Some(owner) = person(import, &columns, &[], "end-user", &id, "_user") else { return };
    owner.budget(import, &columns);
    owner.rates(import, &columns);
    let Some(at) = row.member("blocked") else { return };
    import.findings.exact(&at, "a policy that lets nothing of it pass");
    let blocked = mark("blocked", &[&id]);
    let body = json!({
        "name": format!("{id} of LiteLLM, blocked").chars().take(255).collect::<String>(),
        "slug": slug("blocked", &id, &blocked), "description": description(&format!("Blocked: {id}"), &blocked),
        "workspace_id": null, "type": "requests", "credit_limit": 0,
        "conditions": [owner.condition], "group_by": [{"key": "metadata._user"}],
    });
    let Value::Object(body) = body else { return };
    import.objects.push(PlannedObject::of(PlannedKind::UsagePolicy, row, &blocked, body));
}

/// Whether settings are made, which have no policies: then what has limits loses them.
fn is_in_settings(import: &mut Import, columns: &Columns<'_>, marks: &[&str]) -> bool {
    if import.target == ImportTarget::Store {
        return false;
    }
    if columns.has_limits() {
        // The others have its rates alone.
        for mark in marks.iter().filter(|mark| columns.has_rates() || **mark == columns.mark) {
            import.lose(mark, &format!("{}: {NOT_IN_SETTINGS}", columns.own.path));
        }
    }
    import.findings.not_taken(&columns.own, NOT_IN_SETTINGS);
    true
}

/// Whose requests policies limit that are made of a row, of every workspace. `metadata`: where the person's id is. `more`: what else has
/// its limits of the row.
fn person(
    import: &mut Import,
    columns: &Columns<'_>,
    more: &[&str],
    kind: &'static str,
    id: &str,
    metadata: &str,
) -> Option<LimitOwner> {
    let marks: Vec<&str> = more.iter().copied().chain([columns.mark.as_str()]).collect();
    if is_in_settings(import, columns, &marks) {
        return None;
    }
    let at = columns.own.member("user_id")?;
    // What a condition can have.
    if id == "*" || id.is_empty() || id.chars().count() > MAX_TEXT {
        let why = "no condition of a policy can have its id: no key with its limits is made";
        for mark in marks {
            import.lose(mark, &format!("{}: {why}", columns.own.path));
        }
        import.findings.not_taken(&columns.own, why);
        return None;
    }
    import.findings.exact(&at, format!("metadata.{metadata} of its requests"));
    Some(LimitOwner {
        kind,
        id: id.to_owned(),
        name: format!("The {kind} {id}"),
        workspace: Value::Null,
        condition: json!({"key": format!("metadata.{metadata}"), "value": id}),
        group_by: if metadata == KEY_USER { "metadata.key_user" } else { "metadata._user" },
        mark: columns.mark.clone(),
    })
}

/// Whose requests policies limit.
pub struct LimitOwner {
    pub kind: &'static str,
    pub id: String,
    pub name: String,
    pub workspace: Value,
    pub condition: Value,
    pub group_by: &'static str,
    pub mark: String,
}

impl LimitOwner {
    /// Makes the policy for the budget of a row.
    pub fn budget(&self, import: &mut Import, columns: &Columns<'_>) {
        let slug = slug(self.kind, &self.id, &self.mark);
        if let Some(limit) = usage_limit(import, columns, &format!("policies/usage-limits {slug}")) {
            let mut body = self.body(&slug);
            body.extend(limit);
            import.objects.push(PlannedObject::of(PlannedKind::UsagePolicy, &columns.own, &self.mark, body));
        }
    }

    /// Makes the policies for its rates.
    pub fn rates(&self, import: &mut Import, columns: &Columns<'_>) {
        let slug = slug(self.kind, &self.id, &self.mark);
        for rate in rate_limits(import, columns, &format!("policies/rate-limits {slug}")) {
            let of = |name: &str| rate.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let mut body = self.body(&format!("{slug}-{}-{}", of("type"), of("unit")));
            if let Value::Object(rate) = rate {
                body.extend(rate);
            }
            import.objects.push(PlannedObject::of(PlannedKind::RatePolicy, &columns.own, &self.mark, body));
        }
    }

    fn body(&self, slug: &str) -> Map<String, Value> {
        let name = format!("{} of LiteLLM", self.name);
        Map::from_iter([
            ("name".to_owned(), json!(name.chars().take(255).collect::<String>())),
            ("slug".to_owned(), json!(slug)),
            ("description".to_owned(), json!(description(&self.name, &self.mark))),
            ("workspace_id".to_owned(), self.workspace.clone()),
            ("conditions".to_owned(), json!([self.condition])),
            ("group_by".to_owned(), json!([{"key": self.group_by}])),
        ])
    }
}

/// The texts of a row's `metadata`, in front of `own`: each member has a line.
pub fn metadata(
    import: &mut Import,
    row: &InputAt<'_>,
    place: &str,
    own: Map<String, Value>,
) -> Map<String, Value> {
    let mut taken = own;
    let entries = row.member("metadata").map(|at| at.entries()).unwrap_or_default();
    for (name, at) in entries {
        if use_of(name).is_some() {
            if import.findings.has(&at) {
                continue;
            }
            import.findings.not_taken(
                &at,
                "LiteLLM's own, no metadata of requests (docs/limits.md, docs/guardrails.md)",
            );
            continue;
        }
        if is_secret(name) {
            import.findings.not_taken(&at, "reads as a secret, which would go with every request: write it into the metadata anew if it is none");
            continue;
        }
        let text = at.text().filter(|_| !at.is_container());
        let fits =
            taken.len() < MAX_MEMBERS && text.as_ref().is_some_and(|text| text.chars().count() <= MAX_TEXT);
        match text.filter(|_| fits && !taken.contains_key(name)) {
            Some(text) => {
                import.findings.exact(&at, place.to_owned());
                taken.insert(name.to_owned(), json!(text));
            }
            None => import.findings.not_taken(
                &at,
                "only texts of at most 512 characters, 16 at most, are metadata of requests; what LiteLLM reads of it is a limit, a \
                 guardrail or a logger of its own (docs/limits.md, docs/guardrails.md)",
            ),
        }
    }
    taken
}
