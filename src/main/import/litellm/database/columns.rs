//! What becomes of each column of LiteLLM's database.
//!
//! Columns that are read are decided row by row; of the others this is all that is said.

use super::super::super::key_table::{Key, dropped, read};
use super::super::super::report::Taken;

const OF_USER: &str = "policies/rate-limits over all keys of the user";
const TIMES: &str = "when it was made and changed there; records here have their own times";
const PARALLEL: &str = "no limit counts the requests at the same time";
const PER_MODEL: &str = "no key that it limits is made; a policy that groups by api_key and model limits each model (docs/limits.md)";
const PAST: &str = "what was used before is in no analytics here; a budget has it as used_before";
const PERMISSIONS: &str =
    "rights to MCP servers, agents and stores of vectors; here scopes of keys (docs/keys.md)";
const ROUTER: &str =
    "a config per key or team: defaults.config_id of the key, with a config that says it (docs/config.md)";
const GUARDED: &str = "no key that has them is made; guardrails of a workspace, or of the config of a key, are the same (docs/guardrails.md)";
const NO_CACHE_CONTROL: &str = "what a client may say of the cache is the same for all (docs/cache.md)";
const PERSON: &str = "persons are invited, with a role (POST /v1/admin/users/invites, docs/keys.md)";
const ROTATION: &str = "no key is rotated by itself; POST /v1/api-keys/{id}/rotate does it (docs/keys.md)";
const TAGS: &str = "budgets of tags: a policy that groups by a member of the metadata (docs/limits.md)";
const PROJECTS: &str = "the models of a project narrow its keys'; of one that is blocked or has limits no key is made: a workspace has them (docs/limits.md)";

/// The columns, by the tables of the input.
pub const COLUMNS: [Key; 184] = [
    read("LiteLLM_BudgetTable[].budget_id", Taken::Exact, "the limits of whatever names it"),
    read("LiteLLM_BudgetTable[].max_budget", Taken::Exact, "usage_limits of whatever names it: credit_limit"),
    read(
        "LiteLLM_BudgetTable[].soft_budget",
        Taken::Exact,
        "usage_limits of whatever names it: alert_threshold",
    ),
    read(
        "LiteLLM_BudgetTable[].budget_duration",
        Taken::Exact,
        "usage_limits of whatever names it: periodic_reset, periodic_reset_days",
    ),
    read(
        "LiteLLM_BudgetTable[].budget_reset_at",
        Taken::Exact,
        "usage_limits of whatever names it: next_usage_reset_at",
    ),
    read("LiteLLM_BudgetTable[].rpm_limit", Taken::Exact, "rate_limits of whatever names it"),
    read("LiteLLM_BudgetTable[].tpm_limit", Taken::Exact, "rate_limits of whatever names it"),
    read("LiteLLM_BudgetTable[].tpd_limit", Taken::Exact, "rate_limits of whatever names it"),
    dropped("LiteLLM_BudgetTable[].max_parallel_requests", PARALLEL),
    dropped("LiteLLM_BudgetTable[].model_max_budget.**", PER_MODEL),
    read(
        "LiteLLM_BudgetTable[].allowed_models",
        Taken::Exact,
        "allowed_models of the keys of whatever names it",
    ),
    dropped(
        "LiteLLM_BudgetTable[].temp_budget_increase",
        "raise of a usage limit is the same for a while (docs/limits.md)",
    ),
    dropped(
        "LiteLLM_BudgetTable[].temp_budget_expiry",
        "raise of a usage limit is the same for a while (docs/limits.md)",
    ),
    dropped("LiteLLM_BudgetTable[].created_at", TIMES),
    dropped("LiteLLM_BudgetTable[].created_by", TIMES),
    dropped("LiteLLM_BudgetTable[].updated_at", TIMES),
    dropped("LiteLLM_BudgetTable[].updated_by", TIMES),
    read("LiteLLM_VerificationToken[].token", Taken::Exact, "key_sha256 of a key, which clients keep"),
    read("LiteLLM_VerificationToken[].key_alias", Taken::Exact, "the name of the key"),
    read("LiteLLM_VerificationToken[].key_name", Taken::Exact, "the name of a key without an alias"),
    read("LiteLLM_VerificationToken[].max_budget", Taken::Exact, "usage_limits of the key: credit_limit"),
    read("LiteLLM_VerificationToken[].soft_budget", Taken::Exact, "usage_limits of the key: alert_threshold"),
    read(
        "LiteLLM_VerificationToken[].budget_duration",
        Taken::Exact,
        "usage_limits of the key: periodic_reset, periodic_reset_days",
    ),
    read(
        "LiteLLM_VerificationToken[].budget_reset_at",
        Taken::Exact,
        "usage_limits of the key: next_usage_reset_at",
    ),
    read("LiteLLM_VerificationToken[].spend", Taken::Exact, "usage_limits of the key: used_before"),
    read("LiteLLM_VerificationToken[].rpm_limit", Taken::Exact, "rate_limits of the key"),
    read("LiteLLM_VerificationToken[].tpm_limit", Taken::Exact, "rate_limits of the key"),
    read("LiteLLM_VerificationToken[].tpd_limit", Taken::Exact, "rate_limits of the key"),
    dropped("LiteLLM_VerificationToken[].max_parallel_requests", PARALLEL),
    dropped("LiteLLM_VerificationToken[].model_max_budget.**", PER_MODEL),
    read(
        "LiteLLM_VerificationToken[].models",
        Taken::Exact,
        "allowed_models of the key, together with its team's or owner's",
    ),
    read("LiteLLM_VerificationToken[].expires", Taken::Exact, "expires_at of the key"),
    read("LiteLLM_VerificationToken[].team_id", Taken::Exact, "the workspace of the key"),
    read("LiteLLM_VerificationToken[].user_id", Taken::Exact, "defaults.metadata.key_user of the key"),
    read("LiteLLM_VerificationToken[].metadata.*", Taken::Exact, "defaults.metadata of the key"),
    dropped(
        "LiteLLM_VerificationToken[].metadata.**",
        "only texts are metadata of requests; what LiteLLM reads of it is not, and with limits or guardrails in it no key is made (docs/limits.md)",
    ),
    read("LiteLLM_VerificationToken[].blocked", Taken::Exact, "no key is made of it"),
    read("LiteLLM_VerificationToken[].budget_id", Taken::Exact, "the limits of its budget"),
    read(
        "LiteLLM_VerificationToken[].allowed_routes",
        Taken::Different,
        "the scope completions.write of the key, where it may call all that calls models; else no key is made",
    ),
    dropped("LiteLLM_VerificationToken[].key_type", "is in allowed_routes, which says what the key may call"),
    dropped(
        "LiteLLM_VerificationToken[].aliases.*",
        "names of models are given for keys: models.<name>.keys (docs/models.md)",
    ),
    dropped("LiteLLM_VerificationToken[].total_spend", PAST),
    dropped("LiteLLM_VerificationToken[].model_spend.**", PAST),
    dropped("LiteLLM_VerificationToken[].last_active", PAST),
    dropped("LiteLLM_VerificationToken[].config.**", ROUTER),
    dropped("LiteLLM_VerificationToken[].router_settings.**", ROUTER),
    dropped("LiteLLM_VerificationToken[].budget_fallbacks.**", ROUTER),
    dropped("LiteLLM_VerificationToken[].permissions.**", PERMISSIONS),
    dropped("LiteLLM_VerificationToken[].object_permission_id", PERMISSIONS),
    dropped("LiteLLM_VerificationToken[].agent_id", PERMISSIONS),
    dropped(
        "LiteLLM_VerificationToken[].access_group_ids",
        "the groups in the lists of models count; these ids are rights to agents and MCP servers too: name the models in allowed_models (docs/keys.md)",
    ),
    dropped("LiteLLM_VerificationToken[].policies", GUARDED),
    dropped("LiteLLM_VerificationToken[].allowed_cache_controls", NO_CACHE_CONTROL),
    dropped("LiteLLM_VerificationToken[].budget_limits.**", PER_MODEL),
    read(
        "LiteLLM_VerificationToken[].project_id",
        Taken::Different,
        "allowed_models of the key, together with its project's",
    ),
    read(
        "LiteLLM_VerificationToken[].organization_id",
        Taken::Exact,
        "allowed_models of the key, together with its organization's; without a team of one that has limits no key is made",
    ),
    dropped(
        "LiteLLM_VerificationToken[].soft_budget_cooldown",
        "alerts come once in a window (docs/alerts.md)",
    ),
    dropped("LiteLLM_VerificationToken[].rotation_count", ROTATION),
    dropped("LiteLLM_VerificationToken[].auto_rotate", ROTATION),
    dropped("LiteLLM_VerificationToken[].rotation_interval", ROTATION),
    dropped("LiteLLM_VerificationToken[].last_rotation_at", ROTATION),
    dropped("LiteLLM_VerificationToken[].key_rotation_at", ROTATION),
    dropped("LiteLLM_VerificationToken[].created_at", TIMES),
    dropped("LiteLLM_VerificationToken[].created_by", TIMES),
    dropped("LiteLLM_VerificationToken[].updated_at", TIMES),
    dropped("LiteLLM_VerificationToken[].updated_by", TIMES),
    dropped("LiteLLM_VerificationToken[].settings_updated_at", TIMES),
    read("LiteLLM_TeamTable[].team_id", Taken::Exact, "a workspace"),
    read("LiteLLM_TeamTable[].team_alias", Taken::Exact, "the name of the workspace"),
    read("LiteLLM_TeamTable[].max_budget", Taken::Exact, "usage_limits of the workspace: credit_limit"),
    read("LiteLLM_TeamTable[].soft_budget", Taken::Exact, "usage_limits of the workspace: alert_threshold"),
    read(
        "LiteLLM_TeamTable[].budget_duration",
        Taken::Exact,
        "usage_limits of the workspace: periodic_reset, periodic_reset_days",
    ),
    read(
        "LiteLLM_TeamTable[].budget_reset_at",
        Taken::Exact,
        "usage_limits of the workspace: next_usage_reset_at",
    ),
    read("LiteLLM_TeamTable[].spend", Taken::Exact, "usage_limits of the workspace: used_before"),
    read("LiteLLM_TeamTable[].rpm_limit", Taken::Exact, "rate_limits of the workspace"),
    read("LiteLLM_TeamTable[].tpm_limit", Taken::Exact, "rate_limits of the workspace"),
    read("LiteLLM_TeamTable[].tpd_limit", Taken::Exact, "rate_limits of the workspace"),
    dropped("LiteLLM_TeamTable[].max_parallel_requests", PARALLEL),
    dropped("LiteLLM_TeamTable[].model_max_budget.**", PER_MODEL),
    read("LiteLLM_TeamTable[].models", Taken::Exact, "allowed_models of the team's keys"),
    read("LiteLLM_TeamTable[].blocked", Taken::Different, "the team's keys are not made"),
    read("LiteLLM_TeamTable[].metadata.*", Taken::Exact, "defaults.metadata of the workspace"),
    dropped(
        "LiteLLM_TeamTable[].metadata.**",
        "only texts are metadata of requests; what LiteLLM reads of it is not, and with limits or guardrails in it no key is made (docs/limits.md)",
    ),
    read("LiteLLM_TeamTable[].budget_id", Taken::Exact, "the limits of its budget"),
    dropped(
        "LiteLLM_TeamTable[].organization_id",
        "its workspace is counted by the policy of the organization",
    ),
    dropped("LiteLLM_TeamTable[].admins", PERSON),
    dropped("LiteLLM_TeamTable[].members", PERSON),
    dropped("LiteLLM_TeamTable[].members_with_roles[].*", PERSON),
    dropped("LiteLLM_TeamTable[].team_member_permissions", PERSON),
    dropped("LiteLLM_TeamTable[].model_spend.**", PAST),
    dropped("LiteLLM_TeamTable[].router_settings.**", ROUTER),
    dropped("LiteLLM_TeamTable[].policies", GUARDED),
    dropped(
        "LiteLLM_TeamTable[].allow_team_guardrail_config",
        "switches of the workspace say who may write guardrails (docs/keys.md)",
    ),
    dropped(
        "LiteLLM_TeamTable[].access_group_ids",
        "name the models in allowed_models of the keys (docs/keys.md)",
    ),
    read(
        "LiteLLM_TeamTable[].default_team_member_models",
        Taken::Exact,
        "allowed_models of the keys of members who have no list of their own",
    ),
    dropped("LiteLLM_TeamTable[].budget_limits.**", PER_MODEL),
    dropped(
        "LiteLLM_TeamTable[].model_id",
        "names of models are given for workspaces: models.<name>.workspaces (docs/models.md)",
    ),
    dropped("LiteLLM_TeamTable[].object_permission_id", PERMISSIONS),
    dropped("LiteLLM_TeamTable[].created_at", TIMES),
    dropped("LiteLLM_TeamTable[].created_by", TIMES),
    dropped("LiteLLM_TeamTable[].updated_at", TIMES),
    dropped("LiteLLM_TeamTable[].updated_by", TIMES),
    read("LiteLLM_UserTable[].user_id", Taken::Exact, "metadata.key_user of its keys' requests"),
    read(
        "LiteLLM_UserTable[].max_budget",
        Taken::Exact,
        "policies/usage-limits over the user's own keys: credit_limit",
    ),
    read(
        "LiteLLM_UserTable[].soft_budget",
        Taken::Exact,
        "policies/usage-limits over the user's own keys: alert_threshold",
    ),
    read(
        "LiteLLM_UserTable[].budget_duration",
        Taken::Exact,
        "policies/usage-limits over the user's own keys: periodic_reset, periodic_reset_days",
    ),
    read(
        "LiteLLM_UserTable[].budget_reset_at",
        Taken::Exact,
        "policies/usage-limits over the user's own keys: next_usage_reset_at",
    ),
    read(
        "LiteLLM_UserTable[].spend",
        Taken::Different,
        "policies/usage-limits over the user's own keys: used_before",
    ),
    read("LiteLLM_UserTable[].rpm_limit", Taken::Exact, OF_USER),
    read("LiteLLM_UserTable[].tpm_limit", Taken::Exact, OF_USER),
    read("LiteLLM_UserTable[].tpd_limit", Taken::Exact, OF_USER),
    dropped("LiteLLM_UserTable[].max_parallel_requests", PARALLEL),
    dropped("LiteLLM_UserTable[].model_max_budget.**", PER_MODEL),
    read("LiteLLM_UserTable[].models", Taken::Exact, "allowed_models of the user's own keys"),
    read("LiteLLM_UserTable[].budget_id", Taken::Exact, "the limits of its budget"),
    dropped("LiteLLM_UserTable[].user_alias", PERSON),
    dropped("LiteLLM_UserTable[].user_email", PERSON),
    dropped("LiteLLM_UserTable[].user_role", PERSON),
    dropped("LiteLLM_UserTable[].sso_user_id", PERSON),
    dropped("LiteLLM_UserTable[].password", PERSON),
    dropped("LiteLLM_UserTable[].password_reset_required", PERSON),
    dropped("LiteLLM_UserTable[].last_breach_check_at", PERSON),
    dropped("LiteLLM_UserTable[].team_id", PERSON),
    dropped("LiteLLM_UserTable[].teams", PERSON),
    dropped("LiteLLM_UserTable[].organization_id", PERSON),
    dropped("LiteLLM_UserTable[].invited_by", PERSON),
    dropped("LiteLLM_UserTable[].metadata.**", "metadata of requests is the key's (docs/keys.md)"),
    dropped("LiteLLM_UserTable[].model_spend.**", PAST),
    dropped("LiteLLM_UserTable[].policies", GUARDED),
    dropped("LiteLLM_UserTable[].allowed_cache_controls", NO_CACHE_CONTROL),
    dropped("LiteLLM_UserTable[].object_permission_id", PERMISSIONS),
    dropped("LiteLLM_UserTable[].created_at", TIMES),
    dropped("LiteLLM_UserTable[].created_by", TIMES),
    dropped("LiteLLM_UserTable[].updated_at", TIMES),
    dropped("LiteLLM_UserTable[].updated_by", TIMES),
    read(
        "LiteLLM_TeamMembership[].user_id",
        Taken::Exact,
        "metadata.key_user of the requests that a policy of the workspace counts",
    ),
    dropped("LiteLLM_TeamMembership[].team_id", "the workspace of that policy"),
    read(
        "LiteLLM_TeamMembership[].budget_id",
        Taken::Exact,
        "policies/usage-limits and rate-limits over the member",
    ),
    read(
        "LiteLLM_TeamMembership[].spend",
        Taken::Exact,
        "policies/usage-limits over the member: used_before",
    ),
    dropped("LiteLLM_TeamMembership[].total_spend", PAST),
    read(
        "LiteLLM_EndUserTable[].user_id",
        Taken::Exact,
        "metadata._user of its requests, which is user of the body",
    ),
    read(
        "LiteLLM_EndUserTable[].budget_id",
        Taken::Exact,
        "policies/usage-limits and rate-limits over the end user",
    ),
    read(
        "LiteLLM_EndUserTable[].spend",
        Taken::Exact,
        "policies/usage-limits over the end user: used_before",
    ),
    read("LiteLLM_EndUserTable[].blocked", Taken::Exact, "a policy that lets nothing pass"),
    dropped("LiteLLM_EndUserTable[].alias", "is a name for people"),
    dropped(
        "LiteLLM_EndUserTable[].allowed_model_region",
        "a config with conditions on metadata._user (docs/config.md)",
    ),
    dropped(
        "LiteLLM_EndUserTable[].default_model",
        "a config with conditions on metadata._user (docs/config.md)",
    ),
    dropped("LiteLLM_EndUserTable[].models", "a config with conditions on metadata._user (docs/config.md)"),
    dropped("LiteLLM_EndUserTable[].object_permission_id", PERMISSIONS),
    read(
        "LiteLLM_OrganizationTable[].organization_id",
        Taken::Exact,
        "a policy over the workspaces of its teams",
    ),
    read("LiteLLM_OrganizationTable[].organization_alias", Taken::Exact, "the name of that policy"),
    read(
        "LiteLLM_OrganizationTable[].budget_id",
        Taken::Exact,
        "policies/usage-limits and rate-limits over its teams",
    ),
    read(
        "LiteLLM_OrganizationTable[].spend",
        Taken::Exact,
        "policies/usage-limits over its teams: used_before",
    ),
    read("LiteLLM_OrganizationTable[].models", Taken::Exact, "allowed_models of its teams' keys"),
    dropped(
        "LiteLLM_OrganizationTable[].metadata.**",
        "metadata of requests is the key's and the workspace's (docs/keys.md)",
    ),
    dropped("LiteLLM_OrganizationTable[].model_spend.**", PAST),
    dropped("LiteLLM_OrganizationTable[].object_permission_id", PERMISSIONS),
    dropped("LiteLLM_OrganizationTable[].created_at", TIMES),
    dropped("LiteLLM_OrganizationTable[].created_by", TIMES),
    dropped("LiteLLM_OrganizationTable[].updated_at", TIMES),
    dropped("LiteLLM_OrganizationTable[].updated_by", TIMES),
    dropped("LiteLLM_OrganizationMembership[].**", PERSON),
    read(
        "LiteLLM_AccessGroupTable[].access_group_name",
        Taken::Exact,
        "allowed_models of the keys whose lists name it",
    ),
    read(
        "LiteLLM_AccessGroupTable[].access_model_names",
        Taken::Exact,
        "allowed_models of the keys whose lists name it",
    ),
    dropped("LiteLLM_AccessGroupTable[].**", PERMISSIONS),
    dropped("LiteLLM_TagTable[].**", TAGS),
    dropped("LiteLLM_ProjectTable[].**", PROJECTS),
    dropped(
        "LiteLLM_ModelTable[].**",
        "other names of models for a team: models.<name> with workspaces (docs/models.md)",
    ),
    dropped("LiteLLM_ObjectPermissionTable[].**", PERMISSIONS),
    dropped("LiteLLM_Config[].**", "is of LiteLLM's own process"),
    dropped(
        "model_list[].encrypted_litellm_params",
        "is encrypted: set LITELLM_SALT_KEY to LiteLLM's salt key (without one, to its master key), or name its variable with --salt-key-env",
    ),
    dropped(
        "credential_list[].encrypted_credential_values",
        "is encrypted: set LITELLM_SALT_KEY to LiteLLM's salt key (without one, to its master key), or name its variable with --salt-key-env",
    ),
    dropped("model_list[].model_id", TIMES),
    dropped("model_list[].created_at", TIMES),
    dropped("model_list[].created_by", TIMES),
    dropped("model_list[].updated_at", TIMES),
    dropped("model_list[].updated_by", TIMES),
    dropped("model_list[].blocked", "take its name out of models"),
    dropped("credential_list[].credential_id", TIMES),
    dropped("credential_list[].display_name", TIMES),
    dropped("credential_list[].created_at", TIMES),
    dropped("credential_list[].created_by", TIMES),
    dropped("credential_list[].updated_at", TIMES),
    dropped("credential_list[].updated_by", TIMES),
];

/// Why a table is not read.
pub fn of_table(name: &str) -> &'static str {
    let name = name.trim_start_matches("LiteLLM_");
    let is_of = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    if is_of(&["Spend", "Daily", "ErrorLogs", "AuditLog", "HealthCheck", "Metrics"]) {
        "logs and sums of the past are not copied; here they begin with the first request (docs/logs.md, docs/analytics.md)"
    } else if is_of(&["Deleted", "Retired", "Deprecated"]) {
        "is out of use there; the old secret of a rotated key is refused here"
    } else if is_of(&["User", "Invitation", "SSO", "JWT", "Identity", "Subject"]) {
        "persons are invited, or sign in with tokens of an identity provider (docs/keys.md)"
    } else if is_of(&["Managed", "Vector"]) {
        "files and stores of vectors are the providers' own, or of the gateway's batches (docs/batches.md)"
    } else if is_of(&["Prompt"]) {
        "prompts are objects of the store (docs/prompts.md)"
    } else if is_of(&["Polic"]) {
        "guardrails of a workspace, or of configs (docs/guardrails.md)"
    } else {
        "is of LiteLLM's own process, or of a feature that is not here (docs/limitations.md)"
    }
}
