//! Teams become workspaces, organizations policies over their teams' workspaces.
//!
//! Not here: the keys of a team (`tokens`), and its members (`people`).

use super::super::super::cursor::InputAt;
use super::super::super::import::{Import, ImportTarget};
use super::super::super::objects::{PlannedKind, PlannedObject};
use super::allowed::{AccessGroups, ModelList, both};
use super::budget::{Columns, rate_limits, usage_limit};
use super::marks::{description, mark, slug};
use super::reserved::{ReservedUse, judge, use_of};
use super::{Tables, people};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What keys need to know of a team.
pub struct Team {
    pub id: String,
    /// Of its workspace.
    pub slug: String,
    pub models: ModelList,
    /// Those that members have who have no list of their own.
    pub member_models: ModelList,
    /// The budget of each member who has none of his own.
    pub member_budget: Option<String>,
    pub is_blocked: bool,
    pub organization: Option<String>,
}

/// The teams, by their ids.
pub type Teams = BTreeMap<String, Team>;

const NOT_IN_SETTINGS: &str = "limits of teams and organizations are objects of the store: --to store; without them no key that they limit is made";
/// The most workspaces of a condition.
const MAX_TEAMS: usize = 100;

/// The mark of a team's workspace.
pub fn mark_of_team(id: &str) -> String {
    mark("team", &[id])
}

/// The mark of an organization's policies.
pub fn mark_of_organization(id: &str) -> String {
    mark("organization", &[id])
}

/// Takes all teams over.
pub fn import(import: &mut Import, tables: &Tables<'_>, groups: &AccessGroups) -> Teams {
    let mut teams = Teams::new();
    let mut of_organizations: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for row in tables.rows("LiteLLM_TeamTable") {
        let Some(id) = row.text_of("team_id") else { continue };
        let team = team(import, tables, groups, &row, &id);
        if let Some(organization) = &team.organization {
            of_organizations.entry(organization.clone()).or_default().push(json!(team.slug));
        }
        teams.insert(id, team);
    }
    for (id, row) in &tables.organizations {
        let slugs = of_organizations.remove(id).unwrap_or_default();
        organization(import, tables, row, id, &slugs);
    }
    // Those that are left have no row.
    for id in of_organizations.keys() {
        import.lose(&mark_of_organization(id), "its organization is not in the database");
    }
    teams
}

fn team<'n>(
    import: &mut Import,
    tables: &Tables<'n>,
    groups: &AccessGroups,
    row: &InputAt<'n>,
    id: &str,
) -> Team {
    let organization = row.text_of("organization_id");
    let of_organization = organization.as_ref().and_then(|id| tables.organizations.get(id));
    let models = both(
        groups.list(row.member("models")),
        groups.list(of_organization.and_then(|row| row.member("models"))),
    );
    let is_blocked = row.member("blocked").is_some_and(|at| at.flag() == Some(true));
    for name in ["models", "default_team_member_models"] {
        if let Some(at) = row.member(name) {
            import.findings.exact(&at, "allowed_models of its keys");
        }
    }
    if let Some(at) = row.member("blocked") {
        import.findings.different(&at, "its keys are not made, so that they open nothing");
    }
    let mark = mark_of_team(id);
    let slug = slug("team", id, &mark);
    let columns = tables.columns(row, &mark);
    if import.target == ImportTarget::Store {
        workspace(import, &columns, id, &slug);
    } else {
        not_in_settings(import, &columns);
    }
    judge(import, &columns);
    Team {
        id: id.to_owned(),
        slug,
        models,
        member_models: groups.list(row.member("default_team_member_models")),
        member_budget: member_budget(import, row),
        is_blocked,
        organization,
    }
}

/// The budget that `metadata.team_member_budget_id` names.
fn member_budget(import: &mut Import, row: &InputAt<'_>) -> Option<String> {
    let metadata = row.member("metadata")?;
    let entries = metadata.entries().into_iter();
    let mut found = entries.filter(|(name, _)| use_of(name) == Some(ReservedUse::MemberBudget));
    let at = found.next()?.1;
    import.findings.exact(&at, "the budget of each member who has none of his own");
    at.text()
}

fn not_in_settings(import: &mut Import, columns: &Columns<'_>) {
    if columns.has_limits() {
        import.lose(&columns.mark, &format!("{}: {NOT_IN_SETTINGS}", columns.own.path));
    }
    for name in [
        "max_budget",
        "soft_budget",
        "budget_duration",
        "budget_reset_at",
        "spend",
        "rpm_limit",
        "tpm_limit",
        "tpd_limit",
        "metadata",
    ] {
        if let Some(at) = columns.own.member(name) {
            import.findings.not_taken(&at, NOT_IN_SETTINGS);
        }
    }
}

fn workspace(import: &mut Import, columns: &Columns<'_>, id: &str, slug: &str) {
    let row = &columns.own;
    let place = format!("workspace {slug}");
    for name in ["team_id", "team_alias"] {
        if let Some(at) = row.member(name) {
            import.findings.exact(&at, place.clone());
        }
    }
    let name = row.text_of("team_alias").filter(|alias| !alias.is_empty()).unwrap_or_else(|| id.to_owned());
    let mut body = Map::from_iter([
        ("name".to_owned(), json!(name.chars().take(255).collect::<String>())),
        ("slug".to_owned(), json!(slug)),
        ("description".to_owned(), json!(description(&format!("The team {id}"), &columns.mark))),
    ]);
    if let Some(limit) = usage_limit(import, columns, &format!("{place}: usage_limits")) {
        body.insert("usage_limits".to_owned(), json!([limit]));
    }
    let rates = rate_limits(import, columns, &format!("{place}: rate_limits"));
    if !rates.is_empty() {
        body.insert("rate_limits".to_owned(), rates.into());
    }
    let metadata = people::metadata(import, row, &format!("{place}: defaults.metadata"), Map::new());
    if !metadata.is_empty() {
        body.insert("defaults".to_owned(), json!({"metadata": metadata}));
    }
    import.objects.push(PlannedObject::of(PlannedKind::Workspace, row, &columns.mark, body));
}

/// A budget over the workspaces of an organization's teams.
fn organization<'n>(import: &mut Import, tables: &Tables<'n>, row: &InputAt<'n>, id: &str, slugs: &[Value]) {
    if let Some(at) = row.member("models") {
        import.findings.exact(&at, "allowed_models of its teams' keys");
    }
    let mark = mark_of_organization(id);
    let columns = tables.columns(row, &mark);
    judge(import, &columns);
    let why = match import.target {
        ImportTarget::Settings => Some(NOT_IN_SETTINGS),
        ImportTarget::Store if slugs.is_empty() => Some(
            "has no teams; a policy counts the requests of workspaces, which teams become (docs/limits.md)",
        ),
        ImportTarget::Store if slugs.len() > MAX_TEAMS => Some(
            "has more than 100 teams, which a condition of a policy cannot have: without its limits no key of its teams is made              (docs/limits.md)",
        ),
        ImportTarget::Store => None,
    };
    if let Some(why) = why {
        if columns.has_limits() && !slugs.is_empty() {
            import.lose(&mark, &format!("{}: {why}", row.path));
        }
        import.findings.not_taken(row, why);
        return;
    }
    let owner = people::LimitOwner {
        kind: "organization",
        id: id.to_owned(),
        name: format!("The organization {}", row.text_of("organization_alias").as_deref().unwrap_or(id)),
        workspace: Value::Null,
        condition: json!({"key": "workspace_id", "value": slugs}),
        group_by: "organisation_id",
        mark,
    };
    for name in ["organization_id", "organization_alias"] {
        if let Some(at) = row.member(name) {
            import
                .findings
                .exact(&at, "a policy over the workspaces of its teams, where it has a budget or rates");
        }
    }
    owner.budget(import, &columns);
    owner.rates(import, &columns);
}
