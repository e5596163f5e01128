//! `turnpike import litellm --db` where a database has what cannot be made here: no key is made that may do more than it may there.
//!
//! Not here: a thousand keys that can be made (`import_database`).

use crate::import_database::{SCHEMA, chat, commands, hello, import, named, sha256, shown};
use crate::support::Gateway;
use crate::support::client::client;
use crate::support::postgres_server::{self, Server};
use crate::support::settings::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};
use std::fmt::Write as _;
use tempfile::TempDir;

const TABLES: &str = r#"
INSERT INTO "LiteLLM_BudgetTable" (budget_id, max_budget, created_by) VALUES ('rich', 500, 'a'), ('used', 1, 'a');
INSERT INTO "LiteLLM_OrganizationTable" (organization_id, budget_id, models) VALUES ('o-limits', 'rich', '{}'), ('o-models', NULL, '{small}');
INSERT INTO "LiteLLM_ProjectTable" (project_id, budget_id, models, blocked) VALUES ('p-blocked', NULL, '{}', true),
  ('p-limits', 'rich', '{}', false), ('p-models', NULL, '{small}', false);
INSERT INTO "LiteLLM_TeamTable" (team_id, team_alias, max_budget, spend, metadata, default_team_member_models) VALUES
  ('marketing', 'marketing', 0.5, 0.5, '{}', '{}'), ('t2', 'Eng', 100, 0, '{}', '{}'), ('ops', 'Ops', NULL, 0, '{}', '{}'),
  ('ops-2', 'Ops', NULL, 0, '{}', '{}'), ('members', 'Members', NULL, 0, '{"team_member_budget_id": "used"}', '{small,gpt-4o}'),
  ('guarded', 'Guarded', NULL, 0, '{"guardrails": ["pii"]}', '{}'), ('narrow', 'Narrow', NULL, 0, '{}', '{small}');
INSERT INTO "LiteLLM_UserTable" (user_id, max_budget, spend, rpm_limit) VALUES ('litellm-proxy-budget', 1000, 1.5, NULL),
  ('poor', 1, 1, NULL), ('rated', NULL, 0, 1), ('foreign', 5, 5, NULL), ('ann', 50, 0, NULL);
INSERT INTO "LiteLLM_TeamMembership" (user_id, team_id, spend, budget_id) VALUES ('2-joe', 'ops', 1, 'used'), ('joe', 'ops-2', 0, 'used'),
  ('ann', 'members', 1, NULL);
"#;

/// The keys: a name, columns and their values, and what a request with it is answered.
const KEYS: [(&str, &str, &str, u16); 29] = [
    ("of a foreign workspace", "team_id", "'marketing'", 401),
    ("of a team", "team_id", "'t2'", 200),
    ("for two routes", "allowed_routes", "'{/key/info,/user/info}'", 401),
    ("for spend", "allowed_routes", "'{spend_tracking_routes}'", 401),
    ("for embeddings", "allowed_routes", "'{/v1/embeddings}'", 401),
    ("for management", "allowed_routes", "'{management_routes}'", 401),
    ("for all models' routes", "allowed_routes", "'{llm_api_routes}'", 200),
    ("of a blocked project", "project_id", "'p-blocked'", 401),
    ("of a project with limits", "project_id", "'p-limits'", 401),
    ("of no project", "project_id", "'p-none'", 401),
    ("of a project", "project_id", "'p-models'", 403),
    ("of an organization with limits", "organization_id", "'o-limits'", 401),
    ("of no organization", "organization_id", "'o-none'", 401),
    ("of an organization", "organization_id", "'o-models'", 403),
    ("of no budget", "budget_id", "'gone'", 401),
    ("of a foreign policy", "user_id", "'foreign'", 401),
    ("without a reset", "max_budget, spend, budget_duration", "10, 4, '7d'", 200),
    ("without a reset, spent", "max_budget, spend, budget_duration", "4, 4, '7d'", 412),
    ("of a rated user", "user_id, team_id", "'rated', 't2'", 200),
    ("of a guarded team", "team_id", "'guarded'", 401),
    ("with rates of models", "metadata", r#"'{"model_rpm_limit": {"gpt-4o": 1}}'"#, 401),
    ("of a member", "team_id, user_id", "'members', 'ann'", 412),
    ("of no member", "team_id, user_id", "'members', 'bob'", 401),
    ("of joe", "team_id, user_id", "'ops-2', 'joe'", 200),
    ("of 2-joe", "team_id, user_id", "'ops', '2-joe'", 412),
    ("of the poor", "user_id", "'poor'", 412),
    ("of nobody", "metadata", r#"'{"app": "a", "api_key": "canary-1", "key_user": "ann"}'"#, 200),
    ("of the rich", "max_budget, models", "1e12, '{gpt-4o,a*b*c}'", 200),
    ("of a narrow team", "team_id, user_id", "'narrow', 'ann'", 403),
];

fn text_of(name: &str) -> String {
    format!("sk-{}-0123456789", name.replace([' ', '\'', ','], "-"))
}

fn key(name: &str, columns: &str, values: &str) -> String {
    let token = sha256(&text_of(name));
    let alias = name.replace('\'', "''");
    format!(
        "INSERT INTO \"LiteLLM_VerificationToken\" (token, key_alias, {columns}) VALUES ('{token}', '{alias}', {values});\n"
    )
}

fn database(server: &Server) -> (String, String) {
    let url = server.new_database();
    let name = url.rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
    let mut sql = format!("{SCHEMA}{TABLES}");
    for (name, columns, values, _) in KEYS {
        sql.push_str(&key(name, columns, values));
    }
    // More for a while: a budget that is spent goes on.
    let raised = r#"'{"temp_budget_increase": 5, "temp_budget_expiry": "2100-01-01T00:00:00"}'"#;
    write!(sql, "{}", key("raised", "max_budget, spend, metadata", &format!("1, 1, {raised}"))).unwrap();
    assert!(server.sql(&name, &sql), "the database cannot be made");
    (url, name)
}

/// The slug of a planned object whose line begins so.
fn planned(report: &Value, beginning: &str) -> String {
    let lines = report["store"]["planned"].as_array().unwrap();
    let line = lines.iter().filter_map(Value::as_str).find(|line| line.starts_with(beginning));
    let line = line.unwrap_or_else(|| panic!("{beginning}: {lines:?}"));
    line.rsplit_once('(').unwrap().1.trim_end_matches(')').to_owned()
}

fn contains(list: &Value, text: &str) -> bool {
    list.as_array().unwrap().iter().any(|line| line.as_str().unwrap().contains(text))
}

/// What became of a column of the key with this name.
fn finding<'r>(report: &'r Value, name: &str, column: &str) -> &'r Value {
    let lines = report["files"].as_array().unwrap().iter().flat_map(|file| file["lines"].as_array().unwrap());
    let lines: Vec<&Value> = lines.collect();
    // Rows are in the order of their times and digests.
    let mut digests: Vec<String> = KEYS.iter().map(|(name, ..)| sha256(&text_of(name))).collect();
    digests.push(sha256(&text_of("raised")));
    digests.sort();
    let index = digests.iter().position(|digest| *digest == sha256(&text_of(name))).unwrap();
    let path = format!("LiteLLM_VerificationToken[{index}].{column}");
    lines.into_iter().find(|line| line["path"] == path).unwrap_or_else(|| panic!("no line of {path}"))
}

async fn make(gateway: &Gateway, path: &str, body: &Value) {
    let response = gateway.control(Method::POST, path).json(body).send().await.unwrap();
    assert!(response.status().is_success(), "{path}: {}", response.text().await.unwrap());
}

struct Moving {
    gateway: Gateway,
    folder: TempDir,
    url: String,
    database: String,
    commands: [Vec<String>; 2],
}

impl Moving {
    fn start(server: &Server) -> Self {
        let (url, database) = database(server);
        let folder = tempfile::tempdir().unwrap();
        let config = "model_list: [{model_name: small, litellm_params: {model: openai/gpt-4o-mini}}]\n";
        std::fs::write(folder.path().join("config.yaml"), config).unwrap();
        Self { gateway: Gateway::start(STANDARD), folder, url, database, commands: commands() }
    }

    /// Imports; the second value is the report.
    fn import(&self, code: i32) -> Value {
        let (finished, report) = import(&self.gateway, &self.url, self.folder.path(), &self.commands[1]);
        assert_eq!(finished.code, Some(code), "{finished:?} {}", report["store"]);
        report
    }

    fn planned(&self) -> Value {
        let (finished, report) = import(&self.gateway, &self.url, self.folder.path(), &self.commands[0]);
        assert_eq!(finished.code, Some(0), "{finished:?} {}", report["store"]);
        report
    }

    async fn status(&self, name: &str) -> u16 {
        chat(&self.gateway, &text_of(name), &hello()).await.as_u16()
    }
}

/// Makes what is somebody else's, under the slugs that the import gives.
async fn make_foreign(moving: &Moving) {
    let plan = moving.planned();
    let slug = planned(&plan, "workspace marketing");
    make(&moving.gateway, "/v1/admin/workspaces", &json!({"name": "marketing", "slug": slug})).await;
    let slug = planned(&plan, "usage policy The user foreign");
    let policy = json!({
        "slug": slug, "workspace_id": "default", "type": "cost", "credit_limit": 100,
        "conditions": [{"key": "metadata.any", "value": "*"}], "group_by": [{"key": "metadata.any"}],
    });
    make(&moving.gateway, "/v1/policies/usage-limits", &policy).await;
}

#[tokio::test]
async fn no_key_may_do_more_than_it_may_there() {
    let Some(server) = postgres_server::shared() else { return };
    let moving = Moving::start(server);
    make_foreign(&moving).await;
    let report = moving.import(1);
    let refused = &report["store"]["refused"];
    assert!(contains(refused, "workspace marketing") && contains(refused, "usage policy The user foreign"));
    for name in ["of a foreign workspace", "of a foreign policy"] {
        assert!(contains(refused, &format!("key {name}")), "{name}: {refused}");
        assert_eq!(finding(&report, name, "token")["taken"], "not", "{name}");
    }
    for (name, _, _, wanted) in KEYS {
        assert_eq!(moving.status(name).await, wanted, "{name}");
        let taken = &finding(&report, name, "token")["taken"];
        assert_eq!(taken == "not", wanted == 401, "{name}: {taken}");
    }
    // A minute may begin between two of them.
    let again = [moving.status("of a rated user").await, moving.status("of a rated user").await];
    assert!(again.contains(&429), "a user's rate is that of keys of teams too: {again:?}");
    assert_eq!(moving.status("raised").await, 200);
    assert_eq!(finding(&report, "raised", "metadata.temp_budget_increase")["taken"], "exact");
    assert_eq!(finding(&report, "of the rich", "max_budget")["taken"], "different");
    assert_eq!(finding(&report, "of the rich", "models")["taken"], "different");
    assert_eq!(finding(&report, "without a reset", "budget_duration")["taken"], "different");
    assert!(
        finding(&report, "of a blocked project", "token")["text"].as_str().unwrap().contains("p-blocked")
    );
}

#[tokio::test]
async fn what_is_made_of_odd_rows_limits_as_there() {
    let Some(server) = postgres_server::shared() else { return };
    let moving = Moving::start(server);
    moving.import(0);
    let gateway = &moving.gateway;
    let shown_key = async |name: &str| {
        let list = shown(gateway, &format!("/v1/api-keys?key_sha256={}", sha256(&text_of(name)))).await;
        list["data"][0].clone()
    };
    let key = shown_key("without a reset").await;
    let limit = &key["usage_limits"];
    assert_eq!(limit["used_before"], json!({"amount": 4}), "{key}");
    assert_eq!(
        (&limit["periodic_reset"], &limit["periodic_reset_days"]),
        (&Value::Null, &Value::Null),
        "{key}"
    );
    assert_eq!(shown_key("of nobody").await["defaults"]["metadata"], json!({"app": "a", "key_user": ""}));
    assert_eq!(shown_key("of a project").await["allowed_models"], json!(["small"]));
    assert_eq!(shown_key("of the rich").await["allowed_models"], json!(["gpt-4o"]));

    // Whoever has no owner cannot take another's place.
    let call = client().post(format!("{}/v1/chat/completions", gateway.data_url()));
    let call = call.bearer_auth(text_of("of nobody")).header("x-gateway-provider", "@emulator");
    let call = call.header("x-gateway-metadata", r#"{"key_user": "poor"}"#).json(&hello());
    assert_eq!(call.send().await.unwrap().status(), 200);

    // The budget of all counts each request.
    let all = named(gateway, "/v1/policies/usage-limits", "All requests, as the budget of LiteLLM").await;
    assert_eq!((&all["workspace_id"], &all["credit_limit"]), (&Value::Null, &json!(1000)));
    let path = format!("/v1/policies/usage-limits/{}/entities", all["id"].as_str().unwrap());
    assert_eq!(shown(gateway, &path).await["data"].as_array().unwrap().len(), 1);
    // Two members whose names read the same.
    for name in ["The member joe of LiteLLM", "The member 2-joe of LiteLLM"] {
        named(gateway, "/v1/policies/usage-limits", name).await;
    }
}

#[tokio::test]
async fn a_second_import_finds_its_own_again() {
    let Some(server) = postgres_server::shared() else { return };
    let moving = Moving::start(server);
    moving.import(0);
    let gateway = &moving.gateway;
    let before = named(gateway, "/v1/admin/workspaces", "Eng").await["id"].clone();
    let policy = named(gateway, "/v1/policies/usage-limits", "The user poor of LiteLLM").await;
    let path = format!("/v1/policies/usage-limits/{}", policy["id"].as_str().unwrap());
    assert!(gateway.control(Method::DELETE, &path).send().await.unwrap().status().is_success());

    // Another team of the same name, whose budget is spent, and a new name for the first.
    let change = r#"INSERT INTO "LiteLLM_TeamTable" (team_id, team_alias, max_budget, spend) VALUES ('a0', 'Eng', 7, 7);
        UPDATE "LiteLLM_TeamTable" SET team_alias = 'Engineering' WHERE team_id = 't2';"#;
    assert!(server.sql(&moving.database, &format!("{change}{}", key("of another team", "team_id", "'a0'"))));
    let report = moving.import(0);
    assert_eq!(report["store"]["made"], json!({"workspace": 1, "key": 1}));
    assert!(contains(&report["store"]["revoked"], "usage policy The user poor"), "{}", report["store"]);
    assert_eq!(moving.status("of another team").await, 412);
    assert_eq!(moving.status("of a team").await, 200);
    let workspaces = shown(gateway, "/v1/admin/workspaces?page_size=100").await;
    let of_first = |one: &&Value| one["id"] == before;
    assert_eq!(workspaces["data"].as_array().unwrap().iter().filter(of_first).count(), 1);
    let list = shown(gateway, &format!("/v1/api-keys?key_sha256={}", sha256(&text_of("of a team")))).await;
    assert_eq!(list["data"][0]["workspace_id"], before);
}

#[tokio::test]
async fn what_cannot_be_reported_or_read_makes_nothing() {
    let Some(server) = postgres_server::shared() else { return };
    let moving = Moving::start(server);
    let report = moving.folder.path().join("there.json");
    std::fs::write(&report, "{}").unwrap();
    let mut command = moving.commands[1].clone();
    command.extend(["--report", report.to_str().unwrap()].map(str::to_owned));
    let control = moving.gateway.control_url();
    let run = |command: &[String]| {
        let arguments: Vec<String> = command
            .iter()
            .map(|word| match word.as_str() {
                name @ ("config.yaml" | "turnpike.yaml") => {
                    moving.folder.path().join(name).to_str().unwrap().to_owned()
                }
                word => word.to_owned(),
            })
            .collect();
        let variables = [
            ("DATABASE_URL", moving.url.as_str()),
            ("TURNPIKE_URL", control.as_str()),
            ("TURNPIKE_KEY", crate::support::settings::OPERATOR_KEY),
        ];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        crate::support::command::turnpike_with(&arguments, &variables)
    };
    let finished = run(&command);
    assert!(finished.code == Some(1) && finished.stderr.contains("there.json"), "{finished:?}");
    assert_eq!(shown(&moving.gateway, "/v1/admin/workspaces").await["total"], 1, "nothing is made");

    let row = r#"INSERT INTO "LiteLLM_UserTable" (user_id, max_budget, spend, metadata) VALUES ('odd', 1, 1, '{"n": 1e400}')"#;
    assert!(server.sql(&moving.database, row));
    let finished = run(&moving.commands[1]);
    assert!(finished.code == Some(1), "{finished:?}");
    assert!(finished.stderr.contains("LiteLLM_UserTable") && finished.stderr.contains("odd"), "{finished:?}");
    assert_eq!(shown(&moving.gateway, "/v1/admin/workspaces").await["total"], 1, "nothing is made");
}
