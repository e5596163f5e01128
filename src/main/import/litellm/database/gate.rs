//! Which keys are made: none that is blocked, has expired, may do less than a key here, or has a limit that is not made.
//!
//! Not here: what becomes of those that are (`tokens`).

use super::super::super::cursor::InputAt;
use super::super::super::import::{Import, ImportTarget};
use super::Tables;
use super::budget::time;
use super::people::{mark_of_all, mark_of_member, mark_of_user, mark_of_user_rates};
use super::reserved::judge;
use super::teams::{Team, mark_of_organization, mark_of_team};
use super::tokens::Owners;
use words::settings::service_key::sha256_bytes;

/// Lists of routes with one of these have all that call models.
const ALL_ROUTES: [&str; 3] = ["llm_api_routes", "/*", "*"];

/// A key of the database, and whose it is.
pub struct KeyRow<'r, 'n> {
    pub row: &'r InputAt<'n>,
    /// The digest of the key.
    pub token: String,
    pub team: Option<&'r Team>,
    pub user: Option<String>,
    pub project: Option<InputAt<'n>>,
    pub organization: Option<String>,
}

impl<'r, 'n> KeyRow<'r, 'n> {
    pub fn new(tables: &Tables<'n>, owners: &Owners<'r>, row: &'r InputAt<'n>) -> Self {
        let team = row.text_of("team_id").and_then(|id| owners.teams.get(&id));
        Self {
            row,
            token: row.text_of("token").unwrap_or_default().to_ascii_lowercase(),
            team,
            user: row.text_of("user_id").filter(|user| !user.is_empty()),
            project: row.text_of("project_id").and_then(|id| tables.projects.get(&id).cloned()),
            organization: row.text_of("organization_id"),
        }
    }

    /// The marks of whatever limits it besides itself.
    pub fn needs(&self, tables: &Tables<'_>) -> Vec<String> {
        let mut needs = vec![mark_of_all()];
        if let Some(team) = self.team {
            needs.push(mark_of_team(&team.id));
        }
        let organizations =
            [self.team.and_then(|team| team.organization.as_ref()), self.organization.as_ref()];
        needs.extend(organizations.into_iter().flatten().map(|id| mark_of_organization(id)));
        if let Some(user) = &self.user {
            needs.push(mark_of_user_rates(user));
            if let Some(team) = self.team {
                needs.push(mark_of_member(&team.id, user));
            }
            if self.team.is_none() || tables.has_user_budgets_for_teams {
                needs.push(mark_of_user(user));
            }
        }
        needs
    }

    /// Why no key is made of the row.
    pub fn refused(&self, import: &mut Import, tables: &Tables<'n>, owners: &Owners<'_>) -> Option<String> {
        let of_itself = self.of_itself(import.target, import);
        of_itself
            .or_else(|| self.of_routes())
            .or_else(|| self.of_project(import, tables))
            .or_else(|| self.of_organization(import, tables))
            .or_else(|| self.of_member(owners))
            .or_else(|| {
                let needs = self.needs(tables);
                let why = needs.iter().find_map(|mark| import.why_lost(mark))?;
                Some(format!("no key is made, as it would be without a limit that it has there: {why}"))
            })
    }

    fn of_itself(&self, target: ImportTarget, import: &Import) -> Option<String> {
        if sha256_bytes(&self.token).is_none() {
            return Some(
                "its token is no SHA-256: no key is made; make one anew (turnpike keys create)".to_owned(),
            );
        }
        if is_blocked(self.row) || self.team.is_some_and(|team| team.is_blocked) {
            return Some("it is blocked: no key is made, so that it is refused here too".to_owned());
        }
        if self.row.member("team_id").is_some() && self.team.is_none() {
            return Some(
                "its team is not in the database, whose limits it would have: no key is made".to_owned(),
            );
        }
        let end = self.row.text_of("expires")?;
        match time(&end) {
            None => Some(format!("it expires at {end}, which is no time: no key is made")),
            Some(end) if end <= import.now => Some(format!("it has expired at {end:.0}: no key is made")),
            Some(end) if target == ImportTarget::Settings => Some(format!(
                "it expires at {end:.0}, which a key of the settings cannot: no key is made; --to store makes one"
            )),
            Some(_) => None,
        }
    }

    /// A key here calls whatever its scope is for.
    fn of_routes(&self) -> Option<String> {
        let routes = self.row.member("allowed_routes")?.items();
        let is_all = |at: &InputAt<'_>| at.text().is_some_and(|route| ALL_ROUTES.contains(&route.as_str()));
        if routes.is_empty() || routes.iter().any(is_all) {
            return None;
        }
        let names: Vec<String> = routes.iter().filter_map(InputAt::text).collect();
        Some(format!(
            "it may use {} alone: no key is made, as one here calls every operation; make one anew with the scopes that it needs \
             (docs/keys.md)",
            names.join(", ")
        ))
    }

    fn of_project(&self, import: &mut Import, tables: &Tables<'n>) -> Option<String> {
        let id = self.row.text_of("project_id")?;
        let Some(project) = &self.project else {
            return Some(format!("its project {id} is not in the database: no key is made"));
        };
        if is_blocked(project) {
            return Some(format!("its project {id} is blocked: no key is made"));
        }
        let mark = super::marks::mark("project", &[&id]);
        let columns = tables.columns(project, &mark);
        judge(import, &columns);
        let names = ["model_rpm_limit", "model_tpm_limit"];
        let has_rates = names.iter().any(|name| project.member(name).is_some());
        if columns.has_limits() || has_rates || import.why_lost(&mark).is_some() {
            return Some(format!(
                "its project {id} has limits: no key is made; make a workspace with them, and the key in it (docs/limits.md)"
            ));
        }
        None
    }

    /// The organization of a key counts where its team's does not.
    fn of_organization(&self, import: &Import, tables: &Tables<'n>) -> Option<String> {
        let id = self.organization.as_ref()?;
        let Some(row) = tables.organizations.get(id) else {
            return Some(format!("its organization {id} is not in the database: no key is made"));
        };
        if self.team.is_some_and(|team| team.organization.as_ref() == Some(id)) {
            return None;
        }
        let mark = mark_of_organization(id);
        if tables.columns(row, &mark).has_limits() || import.why_lost(&mark).is_some() {
            return Some(format!(
                "its organization {id} has limits, and no team of it has the key: no key is made; make it anew in the workspace of a team \
                 of it, or with a policy by api_key (docs/limits.md)"
            ));
        }
        None
    }

    /// Who is a member of a team without a row there has the budget of the team's members, but no policy.
    fn of_member(&self, owners: &Owners<'_>) -> Option<String> {
        let team = self.team.filter(|team| team.member_budget.is_some())?;
        let user = self.user.as_ref()?;
        let is_there = owners.people.members.contains_key(&(team.id.clone(), user.clone()));
        (!is_there).then(|| {
            format!(
                "its team has a budget for each member, and {user} is not among them: no key is made; add {user} to the team there, or make \
                 the key anew with a budget"
            )
        })
    }
}

fn is_blocked(row: &InputAt<'_>) -> bool {
    row.member("blocked").is_some_and(|at| at.flag() == Some(true))
}
