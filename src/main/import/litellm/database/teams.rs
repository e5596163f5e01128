//! Teams become workspaces, organizations policies over their teams' workspaces.
//!
//! Not here: the keys of a team (`tokens`), and its members (`people`).

use super::super::super::cursor::InputAt;
use super::super::super::import::{Import, ImportTarget};
use super::super::super::moved::id_of;
use super::super::super::objects::{PlannedKind, PlannedObject};
use super::allowed::{AccessGroups, ModelList, both};
use super::budget::{rate_limits, usage_limit};
use super::{Tables, people};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

/// What keys need to know of a team.
pub struct Team {
    /// Of its workspace.
    pub slug: String,
    pub models: ModelList,
    pub is_blocked: bool,
    organization: Option<String>,
}

/// The teams, by their ids.
pub type Teams = BTreeMap<String, Team>;

const NOT_IN_SETTINGS: &str = "limits of teams and organizations are objects of the store: --to store";
/// The most bytes of a workspace's slug.
const MAX_SLUG: usize = 64;

/// Takes all teams over.
pub fn import(import: &mut Import, tables: &Tables<'_>, groups: &AccessGroups) -> Teams {
    let mut teams = Teams::new();
    for row in tables.rows("LiteLLM_TeamTable") {
        let Some(id) = row.text_of("team_id") else { continue };
        let slug = slug(&row, &id, &teams);
        let team = team(import, tables, groups, &row, slug);
        teams.insert(id, team);
    }
    for row in tables.rows("LiteLLM_OrganizationTable") {
        organization(import, tables, &row, &teams);
    }
    teams
}

/// A name of its workspace that no other team has, and that is none of the gateway's own.
fn slug(row: &InputAt<'_>, id: &str, teams: &Teams) -> String {
    let mut wanted = id_of(&row.text_of("team_alias").unwrap_or_else(|| id.to_owned()));
    if wanted == "default" || wanted.len() < 2 || Uuid::try_parse(&wanted).is_ok() {
        wanted = format!("team-{wanted}");
    }
    // All of one byte each.
    wanted.truncate(MAX_SLUG - 6);
    let is_taken = |slug: &str| teams.values().any(|team| team.slug == slug);
    let mut slug = wanted.clone();
    let mut number = 2;
    while is_taken(&slug) {
        slug = format!("{wanted}-{number}");
        number += 1;
    }
    slug
}

fn team<'n>(
    import: &mut Import,
    tables: &Tables<'n>,
    groups: &AccessGroups,
    row: &InputAt<'n>,
    slug: String,
) -> Team {
    let organization = row.text_of("organization_id");
    let of_organization =
        organization.as_ref().and_then(|id| tables.row("LiteLLM_OrganizationTable", "organization_id", id));
    let models = both(
        groups.list(row.member("models")),
        groups.list(of_organization.and_then(|row| row.member("models"))),
    );
    let is_blocked = row.member("blocked").is_some_and(|at| at.flag() == Some(true));
    if let Some(at) = row.member("models") {
        import.findings.exact(&at, "allowed_models of its keys");
    }
    if let Some(at) = row.member("blocked") {
        import.findings.different(&at, "its keys are not made, so that they open nothing");
    }
    if import.target == ImportTarget::Store {
        workspace(import, tables, row, &slug);
    } else {
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
            if let Some(at) = row.member(name) {
                import.findings.not_taken(&at, NOT_IN_SETTINGS);
            }
        }
    }
    Team { slug, models, is_blocked, organization }
}

fn workspace<'n>(import: &mut Import, tables: &Tables<'n>, row: &InputAt<'n>, slug: &str) {
    let place = format!("workspace {slug}");
    let id = row.text_of("team_id").unwrap_or_default();
    for name in ["team_id", "team_alias"] {
        if let Some(at) = row.member(name) {
            import.findings.exact(&at, place.clone());
        }
    }
    let name = row.text_of("team_alias").unwrap_or_else(|| id.clone());
    let mut body = Map::from_iter([
        ("name".to_owned(), json!(name.chars().take(255).collect::<String>())),
        ("slug".to_owned(), json!(slug)),
        ("description".to_owned(), json!(format!("The team {id} of LiteLLM"))),
    ]);
    let columns = tables.columns(row);
    if let Some(limit) = usage_limit(import, &columns, &format!("{place}: usage_limits")) {
        body.insert("usage_limits".to_owned(), json!([limit]));
    }
    let rates = rate_limits(import, &columns, &format!("{place}: rate_limits"));
    if !rates.is_empty() {
        body.insert("rate_limits".to_owned(), rates.into());
    }
    let metadata = people::metadata(import, row, &format!("{place}: defaults.metadata"), Map::new());
    if !metadata.is_empty() {
        body.insert("defaults".to_owned(), json!({"metadata": metadata}));
    }
    import.objects.push(PlannedObject { kind: PlannedKind::Workspace, body });
}

/// A budget over the workspaces of an organization's teams.
fn organization<'n>(import: &mut Import, tables: &Tables<'n>, row: &InputAt<'n>, teams: &Teams) {
    let id = row.text_of("organization_id").unwrap_or_default();
    let of_it = |team: &&Team| team.organization.as_ref() == Some(&id);
    let slugs: Vec<Value> = teams.values().filter(of_it).map(|team| json!(team.slug)).collect();
    if let Some(at) = row.member("models") {
        import.findings.exact(&at, "allowed_models of its teams' keys");
    }
    // A condition has so many values.
    if slugs.is_empty() || slugs.len() > 100 || import.target == ImportTarget::Settings {
        let why = match import.target {
            ImportTarget::Settings => NOT_IN_SETTINGS,
            ImportTarget::Store => {
                "has no teams, or more than 100; a policy counts the requests of workspaces, which teams become (docs/limits.md)"
            }
        };
        import.findings.not_taken(row, why);
        return;
    }
    let owner = people::LimitOwner {
        slug: format!("litellm-organization-{id}"),
        name: format!("The organization {} of LiteLLM", row.text_of("organization_alias").unwrap_or(id)),
        workspace: Value::Null,
        condition: json!({"key": "workspace_id", "value": slugs}),
        group_by: "organisation_id",
    };
    for name in ["organization_id", "organization_alias"] {
        if let Some(at) = row.member(name) {
            import
                .findings
                .exact(&at, "a policy over the workspaces of its teams, where it has a budget or rates");
        }
    }
    owner.limit(import, &tables.columns(row));
}
