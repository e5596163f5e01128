//! Users, members of teams and end users: their budgets and rates become policies, which find them in the metadata of requests.
//!
//! The owner of a key is `key_user` of the key's metadata; an end user is `_user`, which is `user` of the body where the metadata has none.
//! Not here: persons who sign in; they are invited.

use super::super::super::cursor::InputAt;
use super::super::super::import::{Import, ImportTarget};
use super::super::super::moved::id_of;
use super::super::super::objects::{PlannedKind, PlannedObject};
use super::Tables;
use super::allowed::{AccessGroups, ModelList};
use super::budget::{Columns, rate_limits, usage_limit};
use super::teams::Teams;
use memory::auth::DEFAULT_WORKSPACE;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The member of a key's metadata with its owner.
pub const KEY_USER: &str = "key_user";
const NOT_IN_SETTINGS: &str = "limits of persons are policies of the store: --to store";
/// Members of metadata, and characters of one, that a key may have.
const MAX_MEMBERS: usize = 16;
const MAX_TEXT: usize = 512;

/// The models of users, by their ids: those that their own keys may use.
pub type UserModels = BTreeMap<String, ModelList>;

/// Takes all of them over.
pub fn import(import: &mut Import, tables: &Tables<'_>, groups: &AccessGroups, teams: &Teams) -> UserModels {
    let mut models = UserModels::new();
    for row in tables.rows("LiteLLM_UserTable") {
        let id = row.text_of("user_id").unwrap_or_default();
        if let Some(at) = row.member("models") {
            import.findings.exact(&at, "allowed_models of the keys that are the user's own");
        }
        models.insert(id.clone(), groups.list(row.member("models")));
        person(import, tables, &row, &format!("litellm-user-{id}"), &json!(DEFAULT_WORKSPACE), KEY_USER);
    }
    for row in tables.rows("LiteLLM_TeamMembership") {
        let team = row.text_of("team_id").unwrap_or_default();
        match teams.get(&team) {
            Some(team) => {
                let id = row.text_of("user_id").unwrap_or_default();
                let slug = format!("litellm-member-{}-{id}", team.slug);
                person(import, tables, &row, &slug, &json!(team.slug), KEY_USER);
            }
            None => import.findings.not_taken(&row, "its team is not in the database"),
        }
    }
    for row in tables.rows("LiteLLM_EndUserTable") {
        end_user(import, tables, &row);
    }
    models
}

/// The policies for what one person uses. `metadata`: where the person's id is.
fn person<'n>(
    import: &mut Import,
    tables: &Tables<'n>,
    row: &InputAt<'n>,
    slug: &str,
    workspace: &Value,
    metadata: &str,
) {
    let columns = tables.columns(row);
    let Some(id) = row.member("user_id") else { return };
    if import.target == ImportTarget::Settings {
        import.findings.not_taken(row, NOT_IN_SETTINGS);
        return;
    }
    let value = id.text().unwrap_or_default();
    if value == "*" || value.is_empty() {
        import.findings.not_taken(row, "its id means everybody in a policy");
        return;
    }
    import.findings.exact(&id, format!("metadata.{metadata} of its requests"));
    let key = format!("metadata.{metadata}");
    let owner = LimitOwner {
        slug: slug.to_owned(),
        name: format!("{value} of LiteLLM"),
        workspace: workspace.clone(),
        condition: json!({"key": key, "value": value}),
        group_by: &key,
    };
    owner.limit(import, &columns);
}

fn end_user<'n>(import: &mut Import, tables: &Tables<'n>, row: &InputAt<'n>) {
    let id = row.text_of("user_id").unwrap_or_default();
    let slug = format!("litellm-end-user-{id}");
    person(import, tables, row, &slug, &Value::Null, "_user");
    let Some(at) = row.member("blocked").filter(|_| import.target == ImportTarget::Store) else { return };
    import.findings.exact(&at, "a policy that lets nothing of it pass");
    let slug = policy_slug(&format!("{slug}-blocked"));
    let body = json!({
        "name": format!("{id} of LiteLLM, blocked"), "slug": slug, "workspace_id": null, "type": "requests", "credit_limit": 0,
        "conditions": [{"key": "metadata._user", "value": id}], "group_by": [{"key": "metadata._user"}],
    });
    let Value::Object(body) = body else { return };
    import.objects.push(PlannedObject { kind: PlannedKind::UsagePolicy, body });
}

/// Whose requests policies limit.
pub struct LimitOwner<'k> {
    pub slug: String,
    pub name: String,
    pub workspace: Value,
    pub condition: Value,
    pub group_by: &'k str,
}

impl LimitOwner<'_> {
    /// Makes the policies for the budget and the rates of a row.
    pub fn limit(&self, import: &mut Import, columns: &Columns<'_>) {
        let slug = policy_slug(&self.slug);
        if let Some(limit) = usage_limit(import, columns, &format!("policies/usage-limits {slug}")) {
            let mut body = self.body(&slug);
            body.extend(limit);
            import.objects.push(PlannedObject { kind: PlannedKind::UsagePolicy, body });
        }
        for (index, rate) in
            rate_limits(import, columns, &format!("policies/rate-limits {slug}")).into_iter().enumerate()
        {
            let mut body = self.body(&policy_slug(&format!("{}-rate-{}", self.slug, index + 1)));
            if let Value::Object(rate) = rate {
                body.extend(rate);
            }
            import.objects.push(PlannedObject { kind: PlannedKind::RatePolicy, body });
        }
    }

    fn body(&self, slug: &str) -> Map<String, Value> {
        Map::from_iter([
            ("name".to_owned(), json!(self.name.chars().take(255).collect::<String>())),
            ("slug".to_owned(), json!(slug)),
            ("workspace_id".to_owned(), self.workspace.clone()),
            ("conditions".to_owned(), json!([self.condition])),
            ("group_by".to_owned(), json!([{"key": self.group_by}])),
        ])
    }
}

/// A slug of a policy: of a long name, its beginning and a part of its digest.
fn policy_slug(wanted: &str) -> String {
    let slug = id_of(wanted);
    if slug == wanted {
        return slug;
    }
    // Two names may differ in what a slug cannot have.
    let digest = words::settings::service_key::sha256(wanted.as_bytes());
    let digest: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{digest}", slug.chars().take(100).collect::<String>())
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
