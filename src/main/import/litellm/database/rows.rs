//! Reads the tables of LiteLLM's PostgreSQL, as one input with a member for each table.
//!
//! Tables that have what a file has too become that: models `model_list`, sections of the configuration, guardrails. Columns that hold
//! nothing are left out. Nothing is written there. Not here: what the rows mean.

use super::ciphertext::{decrypt, is_encrypted};
use memory::store::postgres::{ForeignTables, read_tables};
use reqwest::Url;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use words::config::node::Node;
use words::config::secret::Secret;

/// What LiteLLM's tables begin with.
const PREFIX: &str = "LiteLLM_";

/// The tables that are read, and the columns that name a row in them.
const TABLES: [(&str, &[&str]); 18] = [
    ("LiteLLM_BudgetTable", &["budget_id"]),
    ("LiteLLM_OrganizationTable", &["organization_id"]),
    ("LiteLLM_TeamTable", &["team_id"]),
    ("LiteLLM_UserTable", &["user_id"]),
    ("LiteLLM_VerificationToken", &["created_at", "token"]),
    ("LiteLLM_EndUserTable", &["user_id"]),
    ("LiteLLM_TeamMembership", &["team_id", "user_id"]),
    ("LiteLLM_OrganizationMembership", &["organization_id", "user_id"]),
    ("LiteLLM_AccessGroupTable", &["access_group_id"]),
    ("LiteLLM_TagTable", &["tag_name"]),
    ("LiteLLM_ProjectTable", &["project_id"]),
    ("LiteLLM_ModelTable", &["id"]),
    (MODELS, &["created_at", "model_id"]),
    (CONFIG, &["param_name"]),
    (CREDENTIALS, &["credential_name"]),
    (GUARDRAILS, &["guardrail_name"]),
    (SERVERS, &["server_name", "server_id"]),
    ("LiteLLM_ObjectPermissionTable", &["object_permission_id"]),
];
const MODELS: &str = "LiteLLM_ProxyModelTable";
const CONFIG: &str = "LiteLLM_Config";
const CREDENTIALS: &str = "LiteLLM_CredentialsTable";
const GUARDRAILS: &str = "LiteLLM_GuardrailsTable";
const SERVERS: &str = "LiteLLM_MCPServerTable";
/// The member with the names of tables that have rows and are not read.
pub const OTHERS: &str = "other_tables";
/// Sections of a file that may stand in the table of the configuration.
const SECTIONS: [&str; 4] =
    ["general_settings", "router_settings", "litellm_settings", "environment_variables"];
/// Parameters that Prisma reads of a URL, and PostgreSQL's own clients do not.
const OF_PRISMA: [&str; 7] = [
    "schema",
    "connection_limit",
    "pool_timeout",
    "pgbouncer",
    "socket_timeout",
    "sslaccept",
    "statement_cache_size",
];

/// Reads the database of this URL. `salt`: the key that its secrets are encrypted under.
///
/// # Errors
/// It cannot be read, or is not one of LiteLLM's.
pub fn read(url: &str, salt: Option<&Secret>) -> Result<Node, String> {
    let (url, schema) = split(url)?;
    let wanted: Vec<&str> = TABLES.iter().map(|(name, _)| *name).collect();
    let mut found =
        read_tables(&url, "--db", &schema, PREFIX, &wanted).map_err(|why| format!("--db: {why}"))?;
    if !found.rows.contains_key("LiteLLM_VerificationToken") {
        return Err(format!(
            "--db: is no database of LiteLLM: its schema {schema:?} has no table LiteLLM_VerificationToken"
        ));
    }
    for (table, keys) in TABLES {
        if let Some(rows) = found.rows.get_mut(table) {
            let key = |row: &Value| -> Vec<String> {
                keys.iter().map(|key| row.get(*key).map(ToString::to_string).unwrap_or_default()).collect()
            };
            rows.sort_by_cached_key(key);
        }
    }
    let text = Value::Object(input(found, salt)).to_string();
    Node::from_json(text.as_bytes()).map_err(|why| why.to_string())
}

/// The URL as PostgreSQL's clients read it, and the schema that it names.
fn split(text: &str) -> Result<(String, String), String> {
    let mut url = Url::parse(text).map_err(|why| format!("--db: must be a URL ({why})"))?;
    if !matches!(url.scheme(), "postgres" | "postgresql") {
        return Err("--db: must begin with postgres:// or postgresql://".to_owned());
    }
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let schema = pairs.iter().find(|(name, _)| name == "schema").map(|(_, value)| value.clone());
    let rest: Vec<_> = pairs.iter().filter(|(name, _)| !OF_PRISMA.contains(&name.as_str())).collect();
    url.set_query(None);
    if !rest.is_empty() {
        url.query_pairs_mut().extend_pairs(rest);
    }
    Ok((url.into(), schema.unwrap_or_else(|| "public".to_owned())))
}

/// The input that the tables are.
fn input(mut found: ForeignTables, salt: Option<&Secret>) -> Map<String, Value> {
    let mut take = |table: &str| -> Vec<Map<String, Value>> {
        let rows = found.rows.remove(table).unwrap_or_default();
        rows.into_iter()
            .filter_map(|row| if let Value::Object(row) = row { Some(held(row)) } else { None })
            .collect()
    };
    let mut input = Map::new();
    let models: Vec<_> =
        take(MODELS).into_iter().map(|row| opened(row, "litellm_params", "model", salt)).collect();
    let credentials: Vec<_> =
        take(CREDENTIALS).into_iter().map(|row| opened(row, "credential_values", "", salt)).collect();
    let mut configuration = Vec::new();
    for mut row in take(CONFIG) {
        let name = text(&row, "param_name").to_owned();
        if SECTIONS.contains(&name.as_str()) {
            input.insert(name, row.remove("param_value").unwrap_or_default());
        } else {
            configuration.push(row);
        }
    }
    let servers: Map<String, Value> = take(SERVERS)
        .into_iter()
        .map(|row| {
            let name = ["server_name", "alias", "server_id"].map(|name| text(&row, name).to_owned());
            (name.into_iter().find(|name| !name.is_empty()).unwrap_or_default(), Value::Object(row))
        })
        .collect();
    let guardrails = take(GUARDRAILS);
    for (name, rows) in [
        ("model_list", models),
        ("credential_list", credentials),
        ("guardrails", guardrails),
        (CONFIG, configuration),
    ] {
        if !rows.is_empty() {
            input.insert(name.to_owned(), rows.into_iter().map(Value::Object).collect());
        }
    }
    if !servers.is_empty() {
        input.insert("mcp_servers".to_owned(), Value::Object(servers));
    }
    let rest: BTreeMap<&str, Vec<Map<String, Value>>> =
        TABLES.iter().map(|(table, _)| (*table, take(table))).collect();
    for (table, rows) in rest.into_iter().filter(|(_, rows)| !rows.is_empty()) {
        input.insert(table.to_owned(), rows.into_iter().map(Value::Object).collect());
    }
    let others: Map<String, Value> = found.others.into_iter().map(|name| (name, json!("has rows"))).collect();
    if !others.is_empty() {
        input.insert(OTHERS.to_owned(), Value::Object(others));
    }
    input
}

/// A row without the columns that hold nothing.
fn held(mut row: Map<String, Value>) -> Map<String, Value> {
    row.retain(|_, value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    });
    row
}

fn text<'r>(row: &'r Map<String, Value>, name: &str) -> &'r str {
    row.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A row with the texts of one of its columns in the clear. Where they cannot be read, the column is called `encrypted_...`.
/// `decided_by`: the member of the column that says whether it is encrypted; empty: each by itself.
fn opened(
    mut row: Map<String, Value>,
    column: &str,
    decided_by: &str,
    salt: Option<&Secret>,
) -> Map<String, Value> {
    let Some(Value::Object(values)) = row.get_mut(column) else { return row };
    let open = |text: &str| salt.and_then(|salt| decrypt(text, salt));
    let is_closed = |name: &str, value: &Value| {
        (decided_by.is_empty() || name == decided_by)
            && value.as_str().is_some_and(|text| is_encrypted(text) && open(text).is_none())
    };
    if values.iter().any(|(name, value)| is_closed(name, value)) {
        let closed = std::mem::take(values);
        row.remove(column);
        row.insert(format!("encrypted_{column}"), closed.keys().map(|name| json!(name)).collect());
        return row;
    }
    for value in values.values_mut() {
        if let Some(plain) = value.as_str().and_then(open) {
            *value = Value::String(plain);
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_that_of_prisma() {
        let of = |text: &str| split(text);
        let wanted = |url: &str, schema: &str| Ok((url.to_owned(), schema.to_owned()));
        assert_eq!(
            of("postgresql://u:p@h:5/d?schema=llm&connection_limit=5"),
            wanted("postgresql://u:p@h:5/d", "llm")
        );
        assert_eq!(
            of("postgres://h/d?sslmode=require&pgbouncer=true"),
            wanted("postgres://h/d?sslmode=require", "public")
        );
        assert!(of("mysql://h/d").is_err() && of("h/d").is_err());
    }

    #[test]
    fn encrypted_parameters_are_opened_or_named() {
        let sealed = "6kKjQDagKM7zZW1IGTB0UskIWrbQi2g6gTdSFjiX4IWahCN2fKN6hgEmIM1KHoc_xYYmhS0=";
        let row = || {
            let params = json!({"model": sealed, "rpm": 5, "api_key": sealed});
            Map::from_iter([("model_name".to_owned(), json!("a")), ("litellm_params".to_owned(), params)])
        };
        let salt = Secret::new("sk-salt-0123456789");
        let open = opened(row(), "litellm_params", "model", Some(&salt));
        assert_eq!(
            open["litellm_params"],
            json!({"model": "openai/gpt-4o", "rpm": 5, "api_key": "openai/gpt-4o"})
        );
        for salt in [None, Some(Secret::new("another"))] {
            let closed = opened(row(), "litellm_params", "model", salt.as_ref());
            assert_eq!(closed.get("litellm_params"), None);
            assert_eq!(closed["encrypted_litellm_params"], json!(["api_key", "model", "rpm"]));
            assert!(!Value::Object(closed).to_string().contains(sealed));
        }
    }
}
