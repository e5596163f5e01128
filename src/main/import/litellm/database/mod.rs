//! LiteLLM's database: teams, users, keys, budgets and what was spent of them, and what a file could have as well.
//!
//! `rows` reads it into an input like that of a file; the others take that over: `tokens` the keys that `gate` lets through, `teams` teams and organizations,
//! `people` users and end users, `budget` what limits, `reserved` what cannot, `allowed` which models, `marks` whose an object is. What becomes of each column is in `columns`.

mod allowed;
mod budget;
mod ciphertext;
pub mod columns;
mod gate;
mod marks;
mod people;
mod reserved;
mod rows;
mod teams;
mod tokens;

use super::super::cursor::InputAt;
use super::super::import::Import;
use allowed::AccessGroups;
use budget::Columns;
pub use rows::read;
use std::collections::BTreeMap;
use tokens::Owners;

/// The tables of the input.
struct Tables<'n> {
    root: &'n InputAt<'n>,
    /// The rows of `LiteLLM_BudgetTable`, by their ids.
    budgets: BTreeMap<String, InputAt<'n>>,
    organizations: BTreeMap<String, InputAt<'n>>,
    projects: BTreeMap<String, InputAt<'n>>,
    /// Whether the budgets of users limit their keys of teams too.
    has_user_budgets_for_teams: bool,
}

impl<'n> Tables<'n> {
    fn new(root: &'n InputAt<'n>, files: &[InputAt<'_>]) -> Self {
        let by_id = |table: &str, column: &str| -> BTreeMap<String, InputAt<'n>> {
            let rows = root.member(table).map(|table| table.items()).unwrap_or_default();
            rows.into_iter().filter_map(|row| Some((row.text_of(column)?, row))).collect()
        };
        let is_on = |file: &InputAt<'_>, section: &str| {
            let at =
                file.member(section).and_then(|section| section.member("apply_user_budget_to_team_keys"));
            at.is_some_and(|at| at.flag() == Some(true))
        };
        Self {
            root,
            budgets: by_id("LiteLLM_BudgetTable", "budget_id"),
            organizations: by_id("LiteLLM_OrganizationTable", "organization_id"),
            projects: by_id("LiteLLM_ProjectTable", "project_id"),
            has_user_budgets_for_teams: files
                .iter()
                .any(|file| is_on(file, "general_settings") || is_on(file, "litellm_settings")),
        }
    }

    fn rows(&self, table: &str) -> Vec<InputAt<'n>> {
        self.root.member(table).map(|table| table.items()).unwrap_or_default()
    }

    /// A row with the budget that it names. `mark`: of what the row limits.
    fn columns(&self, row: &InputAt<'n>, mark: &str) -> Columns<'n> {
        let budget = row.text_of("budget_id").and_then(|id| self.budgets.get(&id).cloned());
        Columns { own: row.clone(), budget, mark: mark.to_owned() }
    }
}

/// Whether an input is a database.
pub fn is_database(root: &InputAt<'_>) -> bool {
    root.node.member("LiteLLM_VerificationToken").is_some()
        || root.node.member(rows::OTHERS).is_some()
        || root.node.member("LiteLLM_TeamTable").is_some()
        || root.node.member("LiteLLM_UserTable").is_some()
}

/// Takes a database over. `files`: all inputs, whose models may be in groups of access.
pub fn import(import: &mut Import, root: &InputAt<'_>, files: &[InputAt<'_>]) {
    let tables = Tables::new(root, files);
    for row in tables.budgets.values() {
        for name in ["budget_id", "allowed_models"] {
            if let Some(at) = row.member(name) {
                import.findings.exact(&at, "the limits of whatever names it");
            }
        }
    }
    let groups = access_groups(import, &tables, files);
    let teams = teams::import(import, &tables, &groups);
    let people = people::import(import, &tables, &groups, &teams);
    tokens::import(import, &tables, &Owners { teams: &teams, people: &people, groups: &groups });
    let others = root.member(rows::OTHERS).map(|others| others.entries()).unwrap_or_default();
    for (name, at) in others {
        import.findings.not_taken(&at, columns::of_table(name));
    }
}

/// The groups of models that lists name: of the table, and of `model_info.access_groups`.
fn access_groups(import: &mut Import, tables: &Tables<'_>, files: &[InputAt<'_>]) -> AccessGroups {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in tables.rows("LiteLLM_AccessGroupTable") {
        let Some(name) = row.member("access_group_name") else { continue };
        let models = row.member("access_model_names").map(|at| at.items()).unwrap_or_default();
        groups
            .entry(name.text().unwrap_or_default())
            .or_default()
            .extend(models.iter().filter_map(InputAt::text));
        for at in [Some(name), row.member("access_model_names")].into_iter().flatten() {
            import.findings.exact(&at, "allowed_models of the keys whose lists name it");
        }
    }
    for at in files.iter().filter_map(|file| file.member("model_list")).flat_map(|list| list.items()) {
        let Some(model) = at.text_of("model_name") else { continue };
        let Some(of) = at.member("model_info").and_then(|info| info.member("access_groups")) else {
            continue;
        };
        import.findings.exact(&of, "allowed_models of the keys whose lists name it");
        for group in of.items().iter().filter_map(InputAt::text) {
            groups.entry(group).or_default().push(model.clone());
        }
    }
    AccessGroups(groups)
}
