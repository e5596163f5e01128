//! `turnpike import litellm --db`: a database of LiteLLM with a thousand keys, teams, budgets and spend goes on in a gateway, and is never
//! written.
//!
//! The tables have the names and types of LiteLLM's columns, as far as they are read. Not here: what becomes of each column
//! (unit tests of `import`).

use crate::support::Gateway;
use crate::support::client::client;
use crate::support::command::{Finished, turnpike_with};
use crate::support::postgres_server::{self, Server};
use crate::support::settings::{OPERATOR_KEY, STANDARD};
use crate::support::stores::on_each_store;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use reqwest::{Method, StatusCode};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// The tables, as short as they can be.
pub(crate) const SCHEMA: &str = r#"
CREATE TABLE "LiteLLM_BudgetTable" (budget_id text PRIMARY KEY, max_budget float8, soft_budget float8, max_parallel_requests int,
  tpm_limit bigint, rpm_limit bigint, model_max_budget jsonb, budget_duration text, budget_reset_at timestamp(3), created_by text);
CREATE TABLE "LiteLLM_OrganizationTable" (organization_id text PRIMARY KEY, organization_alias text, budget_id text, metadata jsonb
  DEFAULT '{}', models text[], spend float8 DEFAULT 0);
CREATE TABLE "LiteLLM_TeamTable" (team_id text PRIMARY KEY, team_alias text, organization_id text, members_with_roles jsonb DEFAULT '{}',
  metadata jsonb DEFAULT '{}', max_budget float8, spend float8 DEFAULT 0, models text[], tpm_limit bigint, rpm_limit bigint,
  budget_duration text, budget_reset_at timestamp(3), blocked boolean DEFAULT false, default_team_member_models text[]);
CREATE TABLE "LiteLLM_UserTable" (user_id text PRIMARY KEY, user_email text, user_role text, max_budget float8, spend float8 DEFAULT 0,
  models text[], tpm_limit bigint, rpm_limit bigint, budget_duration text, budget_reset_at timestamp(3), metadata jsonb DEFAULT '{}');
CREATE TABLE "LiteLLM_VerificationToken" (token text PRIMARY KEY, key_name text, key_alias text, spend float8 DEFAULT 0, expires
  timestamp(3), models text[], aliases jsonb DEFAULT '{}', user_id text, team_id text, permissions jsonb DEFAULT '{}', metadata jsonb
  DEFAULT '{}', blocked boolean, tpm_limit bigint, rpm_limit bigint, max_budget float8, budget_duration text, budget_reset_at
  timestamp(3), budget_id text, allowed_routes text[], project_id text, organization_id text, created_at timestamp(3) DEFAULT now());
CREATE TABLE "LiteLLM_ProjectTable" (project_id text PRIMARY KEY, team_id text, budget_id text, models text[], blocked boolean
  DEFAULT false);
CREATE TABLE "LiteLLM_EndUserTable" (user_id text PRIMARY KEY, alias text, spend float8 DEFAULT 0, budget_id text, blocked boolean
  DEFAULT false);
CREATE TABLE "LiteLLM_TeamMembership" (user_id text, team_id text, spend float8 DEFAULT 0, budget_id text);
CREATE TABLE "LiteLLM_ProxyModelTable" (model_id text PRIMARY KEY, model_name text, litellm_params jsonb, model_info jsonb, created_at
  timestamp(3) DEFAULT now());
CREATE TABLE "LiteLLM_Config" (param_name text PRIMARY KEY, param_value jsonb);
CREATE TABLE "LiteLLM_SpendLogs" (request_id text PRIMARY KEY, spend float8);
"#;

/// Under which the models of the database are encrypted.
pub(crate) const SALT: &str = "sk-salt-0123456789";
/// Made of them as LiteLLM does: `openai/gpt-4o`.
const SEALED_MODEL: &str = "6kKjQDagKM7zZW1IGTB0UskIWrbQi2g6gTdSFjiX4IWahCN2fKN6hgEmIM1KHoc_xYYmhS0=";

const KEYS: usize = 1000;
/// The keys whose budgets are spent: of their own, of their team's, of their owner's.
const SPENT: [usize; 3] = [7, 100, 3];

fn text_of(number: usize) -> String {
    format!("sk-litellm-{number:05}-abcdefghijklmnop")
}

pub(crate) fn sha256(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Dollars with cents: no two neighbours are the same.
fn spend(number: usize) -> f64 {
    (number % 977) as f64 / 100.0
}

/// When budgets begin anew: of three days, of a week, of a month.
struct Resets {
    days: Date,
    week: Date,
    month: Date,
}

impl Resets {
    fn now() -> Self {
        let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
        let month = today.first_of_month().checked_add(1.month()).unwrap();
        let after = |days: i64| today.checked_add(days.days()).unwrap();
        Self { days: after(2), week: after(5), month }
    }

    /// That of a key.
    fn of_key(&self, number: usize) -> Option<(&'static str, Date)> {
        match number % 3 {
            0 => Some(("3d", self.days)),
            1 => Some(("30d", self.month)),
            _ => None,
        }
    }
}

/// Adds the keys of clients.
fn keys(sql: &mut String, resets: &Resets) {
    for number in 0..KEYS {
        let token = sha256(&text_of(number));
        let is_spent = number == SPENT[0];
        let (max, spent) = if is_spent { (1.5, 1.5) } else { (50.0, spend(number)) };
        let team = match number {
            0..100 => "NULL".to_owned(),
            n if n == SPENT[1] => "'t9'".to_owned(),
            n => format!("'t{}'", n % 9),
        };
        let user = if number == SPENT[2] { "'spent'" } else { "'ann'" };
        let period = match resets.of_key(number) {
            Some((duration, reset)) => format!("'{duration}', '{reset}'"),
            None => "NULL, NULL".to_owned(),
        };
        writeln!(
            sql,
            "INSERT INTO \"LiteLLM_VerificationToken\" (token, key_name, key_alias, spend, expires, models, user_id, team_id, metadata, \
             blocked, rpm_limit, max_budget, budget_duration, budget_reset_at) VALUES ('{token}', 'sk-...{number:04}', 'key-{number}', {spent}, '2100-01-01', '{{}}', {user}, {team}, '{{\"app\": \"a{number}\"}}', \
             NULL, 600, {max}, {period});"
        )
        .unwrap();
    }
}

/// The database, with a row for each thing that is tried.
fn database(server: &Server, resets: &Resets) -> (String, String) {
    let url = server.new_database();
    let name = url.rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
    let mut sql = SCHEMA.to_owned();
    sql.push_str(r#"
INSERT INTO "LiteLLM_BudgetTable" (budget_id, max_budget, rpm_limit, budget_duration, budget_reset_at, created_by) VALUES
  ('org', 500, NULL, NULL, NULL, 'admin'), ('member', 4, 30, '7d', 'WEEK', 'admin'), ('guest', 0.5, NULL, NULL, NULL, 'admin');
INSERT INTO "LiteLLM_OrganizationTable" VALUES ('o1', 'Acme', 'org', '{}', '{all-proxy-models}', 12.5);
INSERT INTO "LiteLLM_UserTable" (user_id, user_email, user_role, max_budget, spend, models, budget_duration, budget_reset_at) VALUES
  ('ann', 'ann@example.com', 'internal_user', 5, 1.25, '{}', '30d', 'MONTH'),
  ('spent', NULL, NULL, 5, 5.01, '{}', '30d', 'MONTH');
INSERT INTO "LiteLLM_TeamMembership" VALUES ('ann', 't1', 0.75, 'member');
INSERT INTO "LiteLLM_EndUserTable" (user_id, spend, budget_id, blocked) VALUES ('guest', 0.5, 'guest', false), ('troll', 0, NULL, true);
INSERT INTO "LiteLLM_Config" VALUES ('router_settings', '{"num_retries": 2}');
INSERT INTO "LiteLLM_SpendLogs" VALUES ('r1', 0.01);
"#);
    for team in 0..10 {
        // Of the tenth the budget is spent.
        let (max, spent) = if team == 9 { (10.0, 10.0) } else { (1000.0, 12.34 + f64::from(team)) };
        writeln!(
            sql,
            "INSERT INTO \"LiteLLM_TeamTable\" (team_id, team_alias, organization_id, max_budget, spend, models, rpm_limit, \
             budget_duration, budget_reset_at, metadata) VALUES ('t{team}', 'Team {team}', 'o1', {max}, {spent}, '{{gpt-4o,small}}', 6000, \
             '7d', 'WEEK', '{{\"cost_center\": \"c{team}\"}}');"
        )
        .unwrap();
    }
    writeln!(
        sql,
        "INSERT INTO \"LiteLLM_ProxyModelTable\" (model_id, model_name, litellm_params) VALUES ('m1', 'gpt-4o', '{{\"model\": \"{SEALED_MODEL}\"}}');"
    )
    .unwrap();
    keys(&mut sql, resets);
    for (alias, more) in [("blocked", "true, NULL"), ("expired", "NULL, '2020-01-01'")] {
        let token = sha256(&format!("sk-{alias}-0123456789"));
        writeln!(sql, "INSERT INTO \"LiteLLM_VerificationToken\" (token, key_alias, blocked, expires) VALUES ('{token}', '{alias}', {more});").unwrap();
    }
    let sql = sql.replace("WEEK", &resets.week.to_string()).replace("MONTH", &resets.month.to_string());
    // An argument of a command has at most 128 KiB.
    let statements: Vec<&str> = sql.split_inclusive(";\n").collect();
    for some in statements.chunks(100) {
        assert!(server.sql(&name, &some.concat()), "the database cannot be made");
    }
    (url, name)
}

/// The commands of the page, without the first word: the dry run, and what makes the objects.
pub(crate) fn commands() -> [Vec<String>; 2] {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/moving/litellm.md");
    let page = std::fs::read_to_string(page).unwrap();
    let lines = page.lines().filter(|line| line.starts_with("turnpike import litellm config.yaml --db-env"));
    let commands: Vec<Vec<String>> =
        lines.map(|line| line.split_whitespace().skip(1).map(str::to_owned).collect()).collect();
    commands.try_into().unwrap()
}

/// Runs a command of the page on a file in the folder. The second value is the report.
pub(crate) fn import(gateway: &Gateway, url: &str, folder: &Path, command: &[String]) -> (Finished, Value) {
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let mut arguments: Vec<String> = command
        .iter()
        .map(|word| match word.as_str() {
            name @ ("config.yaml" | "turnpike.yaml") => at(name),
            word => word.to_owned(),
        })
        .collect();
    let _ = std::fs::remove_file(at("report.json"));
    arguments.extend(["--json", "--report", &at("report.json")].map(str::to_owned));
    let control = gateway.control_url();
    let finished = turnpike_with(
        &arguments.iter().map(String::as_str).collect::<Vec<_>>(),
        &[
            ("DATABASE_URL", url),
            ("TURNPIKE_URL", &control),
            ("TURNPIKE_KEY", OPERATOR_KEY),
            ("LITELLM_SALT_KEY", SALT),
        ],
    );
    let text = std::fs::read_to_string(at("report.json")).unwrap_or_default();
    (finished, serde_json::from_str(&text).unwrap_or_default())
}

pub(crate) async fn shown(gateway: &Gateway, path: &str) -> Value {
    let response = gateway.control(Method::GET, path).send().await.unwrap();
    assert_eq!(response.status(), 200, "{path}");
    response.json().await.unwrap()
}

/// The object of a list that has this name.
pub(crate) async fn named(gateway: &Gateway, list: &str, name: &str) -> Value {
    let list = shown(gateway, &format!("{list}?page_size=1000")).await;
    let mut found = list["data"].as_array().unwrap().iter().filter(|object| object["name"] == name);
    let object = found.next().unwrap_or_else(|| panic!("{name}: {list}")).clone();
    assert!(found.next().is_none(), "two have the name {name}");
    object
}

pub(crate) async fn chat(gateway: &Gateway, key: &str, body: &Value) -> StatusCode {
    let call = client().post(format!("{}/v1/chat/completions", gateway.data_url())).bearer_auth(key);
    call.header("x-gateway-provider", "@emulator").json(body).send().await.unwrap().status()
}

pub(crate) fn hello() -> Value {
    json!({"model": "gpt-4o", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]})
}

async fn budgets_are_as_they_were(gateway: &Gateway, resets: &Resets) {
    // Every key, by its digest: its budget, what was spent, when it begins anew.
    for number in 0..KEYS {
        let list = shown(gateway, &format!("/v1/api-keys?key_sha256={}", sha256(&text_of(number)))).await;
        assert_eq!(list["total"], 1, "{number}");
        let key = &list["data"][0];
        let usage = key["usage"].as_array().unwrap().iter().find(|one| one["kind"] == "usage").unwrap();
        let (max, spent) = if number == SPENT[0] { (1.5, 1.5) } else { (50.0, spend(number)) };
        let reset = resets.of_key(number).map(|(_, day)| format!("{day}T00:00:00.000Z"));
        assert_eq!(key["name"], format!("key-{number}"));
        assert_eq!(usage["limit"].as_f64(), Some(max), "{number} {key}");
        assert_eq!(usage["current_usage"].as_f64(), Some(spent), "{number} {key}");
        assert_eq!(key["next_usage_reset_at"], json!(reset), "{number} {key}");
        assert_eq!(key["status"] == "exhausted", number == SPENT[0], "{number} {key}");
        assert_eq!(key["expires_at"], "2100-01-01T00:00:00.000Z");
        let models = if number < 100 { Value::Null } else { json!(["gpt-4o", "small"]) };
        assert_eq!(key["allowed_models"], models, "{number}");
        assert_eq!(key["defaults"]["metadata"]["app"], format!("a{number}"));
    }
    let team = named(gateway, "/v1/admin/workspaces", "Team 0").await;
    let budget = &team["usage_limits"][0];
    assert_eq!((&budget["credit_limit"], &budget["used_before"]["amount"]), (&json!(1000), &json!(12.34)));
    assert_eq!(budget["next_usage_reset_at"], format!("{}T00:00:00.000Z", resets.week));
    assert_eq!(team["defaults"]["metadata"]["cost_center"], "c0");
    let person = named(gateway, "/v1/policies/usage-limits", "The user ann of LiteLLM").await;
    assert_eq!((&person["credit_limit"], &person["used_before"]["amount"]), (&json!(5), &json!(1.25)));
    assert_eq!(person["next_usage_reset_at"], format!("{}T00:00:00.000Z", resets.month));
}

async fn requests_are_judged_as_they_were(gateway: &Gateway) {
    for (number, wanted) in
        [(11, 200), (512, 200), (999, 200), (SPENT[0], 412), (SPENT[1], 412), (SPENT[2], 412)]
    {
        assert_eq!(chat(gateway, &text_of(number), &hello()).await, wanted, "{number}");
    }
    for (alias, user, wanted) in [
        ("blocked", "", 401),
        ("expired", "", 401),
        ("", "guest", 412),
        ("", "troll", 412),
        ("", "other", 200),
    ] {
        let key = if alias.is_empty() { text_of(11) } else { format!("sk-{alias}-0123456789") };
        let body = match user {
            "" => hello(),
            user => {
                json!({"user": user, "model": "gpt-4o", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]})
            }
        };
        assert_eq!(chat(gateway, &key, &body).await, wanted, "{alias}{user}");
    }
}

#[tokio::test]
async fn a_thousand_keys_go_on_with_what_was_spent() {
    let Some(server) = postgres_server::shared() else { return };
    let resets = Resets::now();
    let (url, name) = database(server, &resets);
    on_each_store(async || {
        let gateway = Gateway::start(STANDARD);
        let folder = tempfile::tempdir().unwrap();
        let config = "model_list: [{model_name: small, litellm_params: {model: openai/gpt-4o-mini}}]\n";
        std::fs::write(folder.path().join("config.yaml"), config).unwrap();
        let [dry_run, command] = commands();
        let (dry, planned) = import(&gateway, &url, folder.path(), &dry_run);
        assert!(dry.code == Some(0), "{dry:?}");
        assert_eq!(planned["store"]["made"]["key"], KEYS);
        assert_eq!(shown(&gateway, "/v1/admin/workspaces").await["total"], 1, "a dry run makes nothing");

        let started = Instant::now();
        let (finished, report) = import(&gateway, &url, folder.path(), &command);
        let taken = started.elapsed();
        assert!(finished.code == Some(0), "{finished:?} {}", report["store"]);
        assert!(taken < Duration::from_secs(60), "{taken:?}");
        assert_eq!(
            report["store"]["made"],
            json!({"workspace": 10, "usage policy": 6, "rate policy": 1, "key": KEYS})
        );
        assert_eq!(report["store"]["refused"], json!([]));
        let settings = std::fs::read_to_string(folder.path().join("turnpike.yaml")).unwrap();
        assert!(
            settings.contains("\n  gpt-4o:")
                && settings.contains("\n  small:")
                && !settings.contains("sha256"),
            "{settings}"
        );

        budgets_are_as_they_were(&gateway, &resets).await;
        requests_are_judged_as_they_were(&gateway).await;

        // Digests are replaced once keys are used, and a key may be revoked: a second import leaves all of it.
        let list = shown(&gateway, &format!("/v1/api-keys?key_sha256={}", sha256(&text_of(999)))).await;
        let path = format!("/v1/api-keys/{}", list["data"][0]["id"].as_str().unwrap());
        assert_eq!(gateway.control(Method::DELETE, &path).send().await.unwrap().status(), 200);
        let before = shown(&gateway, "/v1/api-keys?page_size=1").await["total"].clone();
        let (finished, report) = import(&gateway, &url, folder.path(), &command);
        assert!(finished.code == Some(0), "{finished:?}");
        assert_eq!(report["store"]["made"], json!({}), "a second import changes nothing");
        assert_eq!(report["store"]["revoked"], json!(["key-999"]));
        assert_eq!(shown(&gateway, "/v1/api-keys?page_size=1").await["total"], before);
        assert_eq!(chat(&gateway, &text_of(999), &hello()).await, 401, "what was revoked stays so");
        assert_eq!(chat(&gateway, &text_of(11), &hello()).await, 200);
    })
    .await;
    assert!(server.sql(
        &name,
        "DO $$ BEGIN ASSERT (SELECT count(*) FROM \"LiteLLM_VerificationToken\") = 1002; END $$"
    ));
}

#[tokio::test]
async fn keys_of_the_database_may_be_those_of_the_settings() {
    let Some(server) = postgres_server::shared() else { return };
    let resets = Resets::now();
    let (url, name) = database(server, &resets);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (out, report) = (at("turnpike.yaml"), at("report.json"));
    let arguments = ["import", "litellm", "--db", &url, "--out", &out, "--json", "--report", &report];
    let finished = turnpike_with(&arguments, &[]);
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&report).unwrap()).unwrap();
    // The keys expire, which keys of the settings cannot: none is made freer than it was.
    let settings = std::fs::read_to_string(&out).unwrap();
    assert!(finished.code == Some(0), "{finished:?}");
    assert!(!settings.contains("sha256"), "{settings}");
    let lines = report["files"][0]["lines"].as_array().unwrap();
    let of = |path: &str| {
        lines.iter().find(|line| line["path"] == path).unwrap_or_else(|| panic!("no line of {path}"))
    };
    for (path, text) in [
        ("LiteLLM_VerificationToken[0].token", "--to store"),
        ("LiteLLM_TeamTable[0].max_budget", "--to store"),
        ("LiteLLM_UserTable[0].max_budget", "--to store"),
        ("model_list[0].encrypted_litellm_params", "LITELLM_SALT_KEY"),
        ("other_tables.LiteLLM_SpendLogs", "docs/logs.md"),
    ] {
        assert_eq!(of(path)["taken"], "not", "{path}");
        assert!(of(path)["text"].as_str().unwrap().contains(text), "{}", of(path));
    }
    assert!(!std::fs::read_to_string(at("report.json")).unwrap().contains(SEALED_MODEL));

    // Nor those without an end, whose teams and owners have limits that settings have not.
    let endless = "UPDATE \"LiteLLM_VerificationToken\" SET expires = NULL WHERE key_alias LIKE 'key-%'";
    assert!(server.sql(&name, endless));
    let arguments = ["import", "litellm", "--db", &url, "--out", &out, "--force"];
    let finished = turnpike_with(&arguments, &[("LITELLM_SALT_KEY", SALT)]);
    assert!(finished.code == Some(0), "{finished:?}");
    let settings = std::fs::read_to_string(&out).unwrap();
    assert!(!settings.contains("sha256"), "{settings}");

    // Without limits above them they are keys of the settings, with their budgets and what was spent.
    let free = "UPDATE \"LiteLLM_TeamTable\" SET max_budget = NULL, rpm_limit = NULL; UPDATE \"LiteLLM_UserTable\" SET max_budget = NULL; \
                UPDATE \"LiteLLM_OrganizationTable\" SET budget_id = NULL; DELETE FROM \"LiteLLM_TeamMembership\"";
    assert!(server.sql(&name, free));
    let finished = turnpike_with(&arguments, &[("LITELLM_SALT_KEY", SALT)]);
    assert!(finished.code == Some(0), "{finished:?}");
    let settings = std::fs::read_to_string(&out).unwrap();
    assert_eq!(settings.matches("sha256: ").count(), KEYS);
    assert_eq!(settings.matches("workspace: default").count(), KEYS);
    assert!(settings.contains(&sha256(&text_of(999))) && settings.contains("amount: 9.76"), "{settings}");
    let checked = turnpike_with(&["check", "-c", &out], &[("OPENAI_API_KEY", "sk-openai-0123456789")]);
    assert!(checked.code == Some(0), "{checked:?}");

    let refused = turnpike_with(&["import", "portkey", "--db", &url], &[]);
    assert!(refused.code == Some(1) && refused.stderr.contains("only LiteLLM's"), "{refused:?}");
    let refused = turnpike_with(&["import", "litellm", "--db", &server.new_database()], &[]);
    assert!(refused.code == Some(1) && refused.stderr.contains("no database of LiteLLM"), "{refused:?}");
}
